# 66-any-instance-answers.sh - two instances share the partitions: the front-end service of either answers
# for all streams, as one instance would; and what becomes of that when one is frozen, killed, or goes.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"


# at INSTANCE OPTIONS: asks the front-end service of that one; lines in $T/INSTANCE.out.
at() { INSTANCE=$1 ask --service frontend --out "$T/$1.out" --seed "$SEED" "${@:2}"; }
# Each stream and what was said of it, sorted.
answers() { cut -f 4,7 "$T/$1.out" | sort; }
post() { curl -sS --max-time 10 -H 'Content-Type: application/json' --data-binary "$2" "http://$(INSTANCE=$1 http_address)$3"; }
query_pid() { INSTANCE=$1 status_json | jq .query_pid; }
all_answered() { at "$1" --tenant big --streams 400 --per-request 100; [ "$(said accepted)" = 400 ]; }
spread() { local i n; for i in a b; do n=$(INSTANCE=$i ready_count); [ "${n:-0}" -gt 0 ] || return 1; done; }
settled() { [ "$(ready_in_all 'a b')" = 8 ] && spread; }

limits small=100 big=100000/gold=10
PORT_A=$(unused_port); RANDOM=$((RANDOM + 1)); PORT_B=$(unused_port)
# Each is told of both: its own address is left out.
options=(limits.file="$T/limits.yaml" query.peers="127.0.0.1:$PORT_A,127.0.0.1:$PORT_B")
broker partitions=8
write_config a "${options[@]}" query.grpc_listen="127.0.0.1:$PORT_A"
write_config b "${options[@]}" query.grpc_listen="127.0.0.1:$PORT_B"
start_group a b
wait_until settled '' 60
for i in a b; do INSTANCE=$i wait_asked; done
note "a has $(INSTANCE=a ready_count) of 8, b $(INSTANCE=b ready_count)"

# --- as one instance would ------------------------------------------------------------------------

wait_until 'all_answered a'
wait_until 'all_answered b'
INSTANCE=a ask --tenant big --streams 400 --per-request 400 --seed "$SEED"
is "$(said accepted)" 0 "proto.IngestLimits of one does not answer for the other's"
is "$(($(INSTANCE=a active big) + $(INSTANCE=b active big)))" 400 'each stream is counted once, wherever it was asked for'

at a --tenant small --streams 300 --per-request 50
is "$(said accepted rejected failed)" '100 200 0' 'a limit is exact over both'
answers a >"$T/first.txt"
at b --tenant small --streams 300 --per-request 50
answers b >"$T/second.txt"
same "$T/first.txt" "$T/second.txt" 'and the other one says the same of each stream'
is "$(($(INSTANCE=a active small) + $(INSTANCE=b active small)))" 100 'so many are active'
at b --tenant big --policy gold --first 5000 --streams 40
is "$(said accepted rejected failed)" '10 30 0' "so is a policy's own limit"

at a --method rates --tenant big --streams 200 --per-request 50 --size 5000-9000
at b --method rates --tenant big --streams 200 --per-request 50 --size 5000-9000
is "$(awk '$7 + 0 > 0' "$T/b.out" | wc -l)" 200 'rates of all streams, from either'

streams=$(cut -f 4 "$T/a.out" | sort -u | head -n 20 | jq -Rc '{streamHash: ., totalSize: 10}' | jq -sc .)
for i in a b; do
	like "$(post $i "{\"tenant\":\"big\",\"streams\":$streams}" /api/v1/exceeds-limits)" \
		'"accepted":20,"rejected":0,"failed":0,"unserved":0' "HTTP of $i answers for all as well"
done

metric() { INSTANCE=$1 http /metrics | sed -n "s/^$2 //p"; }
is "$(metric a tally_peers_known) $(metric a tally_peers_connected)" '1 1' 'metrics: one other is known, and connected'
is "$(metric a tally_peers_partitions)" "$(INSTANCE=b ready_count)" '... with its partitions'

# --- one is frozen --------------------------------------------------------------------------------

frozen=$(query_pid b)
kill -STOP "$frozen"
from=$(now_ms)
at a --tenant big --streams 400 --per-request 400 --deadline 3s
is "$(($(now_ms) - from < 3000)) $(said lost) $(($(said accepted) + $(said failed)))" '1 0 400' \
	'a frozen query process: all is answered in time'
isnt "$(said accepted)" 0 '... what is served here as ever'
isnt "$(said failed)" 0 '... the rest as failed'
fast()
{
	local from
	from=$(now_ms)
	at a --tenant big --streams 400 --per-request 400
	[ "$(said failed)" -gt 0 ] && [ $(($(now_ms) - from)) -lt 300 ]
}
eventually '... and soon without waiting for it' fast '' 15
kill -CONT "$frozen"
eventually 'when it goes on, it is asked again' 'all_answered a'

# --- one is killed --------------------------------------------------------------------------------

INSTANCE=a ask_start load --service frontend --tenant big --streams 400 --per-request 20 --rounds 0 --rate 200 \
	--seed "$SEED" --seconds 120 --out "$T/load.out"
LOAD=$PID
at a --tenant big --first 10000 --streams 200 --per-request 50
kill_tallyd b
eventually 'one is killed: the other has its partitions, and answers for all' 'all_answered a' '' 60
start_tallyd b
wait_until settled '' 60
eventually 'it is back, and is asked again' 'all_answered a' '' 30
eventually 'and asks' 'all_answered b' '' 30
stop_tallyd b
eventually 'one goes in order' 'all_answered a' '' 60
end "$LOAD"
FROM=$T/load.log
note "$(tail -n 1 "$FROM")"
is "$(said rejected) $(cut -f 7 "$T/load.out" | grep -c status)" '0 0' \
	'meanwhile nobody was refused, and no call failed: what could not be asked was let pass'
stop_tallyd a
is $? 0 'it stops in order'
done_testing
