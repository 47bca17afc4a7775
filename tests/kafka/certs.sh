# certs.sh - a certificate authority, and what it has signed, for tests of TLS.
#
#	make_certs        $T/tls/ca.pem, broker.pem (key and chain, for 127.0.0.1), tally.pem + tally.key
#	                  (client, CN=tally), other-ca.pem (of somebody else)

signed()	# NAME SUBJECT EXTENSIONS
{
	openssl req -new -newkey rsa:2048 -nodes -subj "$2" -keyout "$T/tls/$1.key" -out "$T/tls/$1.csr" 2>/dev/null &&
		openssl x509 -req -days 2 -in "$T/tls/$1.csr" -CA "$T/tls/ca.pem" -CAkey "$T/tls/ca.key" -CAcreateserial \
			-extfile <(echo "$3") -out "$T/tls/$1.pem" 2>/dev/null
}
authority()	# NAME
{
	openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$1" -keyout "$T/tls/$1.key" -out "$T/tls/$1.pem" 2>/dev/null
}

make_certs()
{
	mkdir "$T/tls"
	authority ca && authority other-ca &&
		signed server /CN=broker 'subjectAltName=IP:127.0.0.1' && signed tally /CN=tally 'keyUsage=digitalSignature' ||
		bail 'openssl cannot make certificates'
	cat "$T/tls/server.key" "$T/tls/server.pem" >"$T/tls/broker.pem"
	# The key that a client has may have a password.
	openssl pkcs8 -topk8 -in "$T/tls/tally.key" -out "$T/tls/tally-locked.key" -passout pass:"$1" || bail 'openssl pkcs8'
}

# Lines of server.properties for brokers that show broker.pem and ask for what `ca` has signed.
tls_properties()
{
	cat <<-P
		ssl.keystore.type=PEM
		ssl.keystore.location=$T/tls/broker.pem
		ssl.truststore.type=PEM
		ssl.truststore.location=$T/tls/ca.pem
	P
}
