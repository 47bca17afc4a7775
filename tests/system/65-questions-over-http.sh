# 65-questions-over-http.sh - the JSON twins of gRPC, tallyctl check and explain: the same limit, the same
# count, whoever asks; the first stream too many is refused by all of them alike.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

broker partitions=4
limits small=5 big=1000/gold=2 dry=1/dry_run
start_tallyd limits.file="$T/limits.yaml"
wait_ready
wait_asked

# post PATH BODY: the answer, and its status in the last line.
post()
{
	curl -sS --max-time 10 -H 'Content-Type: application/json' -w '\n%{http_code}' \
		--data-binary "$2" "http://$(http_address)$1"
}
# question TENANT POLICY HASH...: JSON, hashes as numbers.
question()
{
	local hashes="${*:3}"
	printf '{"tenant":"%s","streams":[%s]}' "$1" "$(for h in $hashes; do
		printf ',{"streamHash":%s,"totalSize":10,"ingestionPolicy":"%s"}' "$h" "$2"
	done | cut -c2-)"
}

# --- exactly the limit ----------------------------------------------------------------------------

is "$(post /ingest-limits/exceeds-limits "$(question small '' 11 12 13)")" $'{}\n200' 'three streams of five come in'
is "$(post /ingest-limits/exceeds-limits "$(question small '' 18446744073709551615 14 15)")" \
	$'{"results":[{"streamHash":15,"reason":2}]}\n200' 'the sixth does not; a hash of 64 bits keeps its digits'
is "$(post /ingest-limits/exceeds-limits "$(question small '' 11 12 13 14 18446744073709551615)")" $'{}\n200' 'those that are in stay in'
is "$(ctl --json tenant small | jq .streams)" 5 'and five there are'
like "$(post /api/v1/exceeds-limits "$(question small '' 11 99)")" \
	'^\{"tenant":"small","results":\[\{"streamHash":"11","result":"accepted"\},\{"streamHash":"99","result":"rejected"\}\],"accepted":1,"rejected":1,"failed":0,"unserved":0\}' \
	'in words for each of them'
like "$(post /api/v1/exceeds-limits "$(question dry '' 1 2 3)")" '"accepted":3,"rejected":0' 'a dry run rejects nothing'
like "$(post /api/v1/exceeds-limits "$(question big gold 1 2 3)")" '"accepted":2,"rejected":1' 'a policy with an own limit has its own count'
like "$(post /api/v1/exceeds-limits "$(question big silver 4 5 6)")" '"accepted":3,"rejected":0' 'one without counts in the default one'

# --- the same from the map ------------------------------------------------------------------------

like "$(post /api/v1/check "$(question small '' 11 99)")" '"streamHash":"11","partition":3,"result":"known".*"streamHash":"99","partition":3,"result":"full"' \
	'check knows the same, and changes nothing'
is "$(http /api/v1/tenants/big/limits | jq -c '[.buckets[] | [.policy, .limit, .share, .streams, .headroom]]')" \
	'[["",1000,1000,3,997],["gold",2,2,2,0]]' 'the buckets of a tenant over HTTP'
ctl check small 11 12 >"$T/check.txt"
is $? 0 'tallyctl check: known ones come in'
ctl check small 11 99 >"$T/check.txt"
is $? 1 '... one that does not fit is exit code 1'
like "$(cat "$T/check.txt")" '3 +0x000000000000000b +known.*3 +0x0000000000000063 +full' 'and is told apart'
like "$(ctl check --policy gold big 7)" 'full' 'by policy'
like "$(ctl explain small)" 'limit +its entry in limits.yaml.*share +5 x 4 owned / 4 partitions = 5.*headroom +0.*the next new stream is rejected \(reason 2, max streams\): 5 active streams fill the share of 5' \
	'tallyctl explain says why'
like "$(ctl explain dry)" 'is let in, and counted as a would-be rejection' '... of a dry run, too'
is "$(ctl --json explain big | jq -c '[.buckets[].next]')" '["accepted","rejected"]' '... and for each bucket'
is "$(ctl --json explain big | jq -c '[.partitions[].streams] | add')" 5 '... with the count by partition'

ok 'tallyctl check --admit lets one in' ctl check --admit --bytes 77 big 0xffffffffffffffff
is "$(ctl --json stream big 0xffffffffffffffff | jq -r .hash)" 18446744073709551615 'which is there at once'
ctl check --admit small 99 >/dev/null
is $? 1 'and is told when it does not come in'

# --- rates ----------------------------------------------------------------------------------------

like "$(post /api/v1/update-rates "$(question rated '' 1 2)")" '"streamHash":"1","result":"accepted","rate":[0-9]+' 'rates have numbers'
is "$(http /ingest-limits/usage/rated | jq .streams_total)" 0 'and their keys are no streams'
rate=$(http /ingest-limits/usage/small | jq .rate)
ok 'the rate of a tenant is bytes per second' jq -en "$rate > 0 and $rate <= 200"

# --- what is refused ------------------------------------------------------------------------------

like "$(post /api/v1/exceeds-limits '{"tenant":"a","streams":[{"streamHash":1.5}]}')" 'whole number.*\(stream 0, byte [0-9]+\).*400$' 'a fraction is no hash'
like "$(post /ingest-limits/exceeds-limits '{"tenant":"a"}')" 'has no ..streams.*400$' 'nothing is guessed'
is "$(curl -s -o /dev/null -w '%{http_code}' --max-time 10 -d '{}' "http://$(http_address)/api/v1/check")" 415 'what a foreign page could send is not taken'
is "$(http /healthz)" '{"status":"ok"}' 'and it goes on'

# --- a partition that is not ready ----------------------------------------------------------------

kill -STOP "$(pid_of 3)"
start=$(now_ms)
like "$(post /ingest-limits/exceeds-limits "$(question big '' 103)")" '^\{"results":\[\{"streamHash":103,"reason":1\}\]\}' 'a worker that hangs is a failure, not an acceptance'
ok '... in time' test $(($(now_ms) - start)) -lt 5000
kill -CONT "$(pid_of 3)"
stop_tallyd
is $? 0 'it stops in order'
ctl check small 11 >/dev/null 2>&1
is $? 3 'then nobody decides'
like "$(ctl explain small)" 'tallyd is not running.*nobody decides: tallyd is not running' '... which explain says, too'
done_testing
