# 61-foreign-clients.sh - gRPC clients that others wrote (Google's C core from Python, grpc-js) use every
# method of both services, in the clear, with TLS and with certificates of their own; and an instance that
# has only some of the partitions.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"
. tests/kafka/certs.sh

PYTHON=${PYTHON:-/usr/bin/python3}	# Debian's, which has its packages
why=$("$PYTHON" -c 'import grpc, google.protobuf' 2>&1) ||
	skip_all "python has no gRPC: install python3-grpcio, python3-protobuf: $(tail -n 1 <<<"$why")"
command -v protoc >/dev/null || skip_all 'there is no protoc: install protobuf-compiler'
has_js=
if why=$(tests/clients/fetch.sh 2>&1 >"$T/js.txt"); then has_js=1; NODE_PATH=$(cat "$T/js.txt"); export NODE_PATH; fi

# both PART OPTIONS
both()
{
	tap "$PYTHON" tests/clients/grpc_client.py "$@" --target "$(grpc_address)" --partitions "$PARTITIONS" --prefix python
	if [ -n "$has_js" ]; then
		tap tests/clients/grpc_client.js "$@" --target "$(grpc_address)" --partitions "$PARTITIONS" --prefix js
	else
		skip "$why"
	fi
}

ok 'golden.txt is what golden.py makes' "$PYTHON" tests/golden/golden.py --check

entries=()
for who in python js; do
	for name in limits front-end rates size many unserved; do entries+=("$who-small-$name=5/finance=3"); done
	entries+=("$who-dry=5/dry_run")
done
limits "${entries[@]}"
options=(limits.file="$T/limits.yaml" limits.max_global_streams_per_user=0)

broker partitions=8
start_tallyd a "${options[@]}"
wait_ready 8
wait_asked
query=$(status_json | jq .query_pid)
both all
is "$(status_json | jq .query_pid) $(status_json | jq .query_restarts)" "$query 0" 'the query process is the one that it was'

# With a second member, each has half of the partitions.
stop_tallyd a
write_config b "${options[@]}"
start_group a b
INSTANCE=a
wait_asked
like "$(ready_count)" '^[1-7]$' 'an instance has only some of the partitions'
both unserved
stop_tallyd b
stop_tallyd a

# TLS, then with certificates of the clients.
make_certs secret
other() { openssl "$@" 2>/dev/null || bail "openssl $1"; }
other req -new -newkey rsa:2048 -nodes -subj /CN=stranger -keyout "$T/tls/stranger.key" -out "$T/tls/stranger.csr"
other x509 -req -days 2 -in "$T/tls/stranger.csr" -CA "$T/tls/other-ca.pem" -CAkey "$T/tls/other-ca.key" -CAcreateserial \
	-out "$T/tls/stranger.pem"
tls=(query.grpc_tls_cert="$T/tls/server.pem" query.grpc_tls_key="$T/tls/server.key")
# How a client that speaks TLS only is waited for: something accepts.
listening() { (exec 3<>"/dev/tcp/$(grpc_address | tr : /)") 2>/dev/null; }

start_tallyd c "${options[@]}" "${tls[@]}"
wait_ready 8
wait_until listening
both tls --ca "$T/tls/ca.pem" --other-ca "$T/tls/other-ca.pem"
stop_tallyd c
start_tallyd d "${options[@]}" "${tls[@]}" query.grpc_tls_client_ca="$T/tls/ca.pem"
wait_ready 8
wait_until listening
both tls --ca "$T/tls/ca.pem" --other-ca "$T/tls/other-ca.pem" --cert "$T/tls/tally.pem" --key "$T/tls/tally.key" \
	--other-cert "$T/tls/stranger.pem" --other-key "$T/tls/stranger.key"
stop_tallyd d
is $? 0 'it stops in order'
done_testing
