# 69-a-hostile-crowd-harms-nobody.sh - a client asks as ever while h2load takes all it can get, and while peers
# that mean harm flood, stall and lie to the same gRPC port.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

PYTHON=${PYTHON:-/usr/bin/python3}
command -v h2load >/dev/null || skip_all 'there is no h2load: install nghttp2-client'
[ -x "$PYTHON" ] || skip_all "there is no $PYTHON"

broker partitions=4
start_tallyd a
wait_ready 4
wait_asked
query=$(status_json | jq .query_pid)
rss() { awk '/^VmHWM/ { print $2 }' "/proc/$query/status"; }

# Known and new streams, at a rate that anybody can be served at.
calm() { ask_start calm --tenant calm --streams 0 --rounds 0 --per-request 10 --rate 50 --seconds 120 --seed "$SEED" --out "$T/$1.txt"; CALM=$PID; }
served()
{
	kill -TERM "$CALM"; wait "$CALM"
	ok "$1: the calm client asked" test "$(wc -l <"$T/$2.txt")" -gt 1000
	is "$(awk '$7 != "accepted"' "$T/$2.txt" | wc -l)" 0 "$1: and was told yes each time"
	note "$(tail -n 3 "$T/calm.log" | grep -o 'p[0-9.]*_us=[0-9]*' | paste -sd' ')"
}

# The message of the questions: "load" has the streams 1 to 100.
perl -e 'my $m = "\x0a\x04load"; $m .= "\x12\x04" . pack("C4", 8, $_, 16, 100) for 1 .. 100;
	print "\0", pack("N", length $m), $m' >"$T/question"
calm load
h2load --duration 6 --warm-up-time 0 -c 32 -m 50 -t 1 -d "$T/question" -H 'content-type: application/grpc' -H 'te: trailers' \
	"http://$(grpc_address)/proto.IngestLimits/ExceedsLimits" >"$T/h2load.txt" 2>&1
served 'h2load' load
note "$(grep -E '^(finished|requests|status)' "$T/h2load.txt")"
like "$(grep '^requests' "$T/h2load.txt")" ' [1-9][0-9]{3,} succeeded, 0 failed, 0 errored, 0 timeout' 'h2load itself is answered'
is "$(active load)" 100 'it has all its streams'

calm crowd
ok 'a crowd that means harm' "$PYTHON" tests/clients/hostile.py --target "$(grpc_address)" --seconds "${CROWD:-8}"
served 'a hostile crowd' crowd
"$PYTHON" tests/clients/hostile.py --target "$(grpc_address)" --seconds 1 >"$T/crowd.log"
note "$(cat "$T/crowd.log")"
is "$(status_json | jq .query_pid) $(status_json | jq .query_restarts)" "$query 0" 'the query process is the one that it was'
# A sanitizer keeps 256 MiB of what was freed, and an eighth of everything for itself.
most=256
grep -aq -e __asan_init -e __tsan_init "$B/tally-queryd" && most=1024
ok "and took no more memory than $most MiB" test "$(rss)" -lt $((most * 1024))
note "$(rss) kB at most"
ask --tenant calm --streams 100 --seed "$SEED"
is "$(said accepted)" 100 'all is as it was'
stop_tallyd a || fail 'it stops in order'
done_testing
