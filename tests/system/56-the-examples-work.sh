# 56-the-examples-work.sh - what etc/examples has, run as it stands against a running instance: C and Python by
# memory map, the shell over HTTP and gRPC.
# broker: embedded (any will do)
. "$(dirname "$0")/lib.sh"
nm "$B/libtally.a" 2>/dev/null | grep -q __asan && skip_all 'a library with a sanitizer is not for other programs'

broker partitions=2
printf 'overrides:\n  small:\n    max_global_streams_per_user: 2\n' >"$T/limits.yaml"
start_tallyd a limits.file="$T/limits.yaml"
wait_ready 2
produce --records 200 --tenants 1 --streams 20 --popularity each --seed "$SEED" --spread 10m
wait_until "http /api/v1/tenants/tenant-0 | jq -r .streams" '^20$'
bytes=$(http /api/v1/tenants/tenant-0 | jq .bytes)

# over HTTP
ask() { TALLY="http://$(http_address)" etc/examples/ask.sh "$@" 2>&1; }
is "$(ask small 11 18446744073709551615; echo $?)" '11 accepted
18446744073709551615 accepted
0' 'ask.sh lets two streams in, with all digits of their hashes'
is "$(ask small 11 12; echo $?)" '11 accepted
12 rejected
1' 'and says that a third may not'
is "$(TALLY=http://127.0.0.1:1 etc/examples/ask.sh small 1 >/dev/null 2>&1; echo $?)" 2 'and that nobody answers'

# over gRPC
grpc() { TALLY="$(cat "$T/a/query.grpc")" etc/examples/ask-grpc.sh "$@" 2>&1; }
if command -v protoc >/dev/null; then
	is "$(grpc small 11 18446744073709551615; echo $?)" 0 'ask-grpc.sh says nothing of streams that may come in'
	is "$(grpc small 11 12; echo $?)" 'results {
  streamHash: 12
  reason: 2
}
0' 'and names one that may not'
	like "$(grpc '' 1; echo $?)" 'grpc-message: tenant: missing.*2$' 'and what the answer says of a question without a tenant'
	is "$(TALLY=127.0.0.1:1 etc/examples/ask-grpc.sh small 1 >/dev/null 2>&1; echo $?)" 2 'and that nobody answers'
else
	skip 'ask-grpc.sh: there is no protoc'
fi

# by memory map
gcc -Wall -Wextra -Werror -Ishm -o "$T/gate" etc/examples/gate.c "$B/libtally.so.0" -Wl,-rpath,"$B"
is "$("$T/gate" "$T/a" small 11 12 2>&1; echo $?)" '11: known, may come in
12: new, and there is no room
1' 'gate.c says the same'
is "$("$T/gate" "$T/a" other 0x10 2>&1; echo $?)" '16: new, may come in
0' 'of a tenant that nobody has heard of, too'
like "$("$T/gate" "$T/nothing" small 11 2>&1; echo $?)" "^$T/nothing: .*2\$" 'and what is wrong when there is no Tally'

python() { LD_LIBRARY_PATH=$B PYTHONDONTWRITEBYTECODE=1 python3 etc/examples/usage.py "$@" 2>&1; }
if command -v python3 >/dev/null; then
	is "$(python "$T/a" tenant-0; echo $?)" "tenant-0: 20 active streams, $bytes bytes
0" 'usage.py reads what HTTP says'
	like "$(python "$T/a" nobody; echo $?)" '^nobody: .*1$' 'and says that a tenant is not there'
else
	pass 'usage.py # SKIP no python3'
fi
stop_tallyd
done_testing
