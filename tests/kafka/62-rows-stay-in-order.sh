# 62-rows-stay-in-order.sh - what workers write, while they are killed and leaders die or freeze: a row is
# first seen in the log after all lower ones, and none is missing.  Others skip what comes late.
. "$(dirname "$0")/lib.sh"

ROUNDS=${ROUNDS:-6}
PARTITION=2	# of the emitter, a worker's emit.c alone (tests/unit/test_emit.c)
broker partitions=4 brokers=3
SEEN=$(date +%s)
emitter() { spawn emitter "$B/unit/test_emit" "$BROKERS" "$TOPIC" "$1" "$2" "$SEEN" "$3"; EMITTER=$PID; }
kill_emitter() { kill -KILL "$EMITTER"; wait "$EMITTER" 2>/dev/null; }
# What is in the log: "last row without a hole, records that came too early, records in all".
order() { "$B/tests/log-dump" --brokers "$(alive_brokers)" --topic "$TOPIC" 2>"$T/dump.err" |
	awk -F '\t' -v p=$PARTITION '$1 == p { n++; if ($12 == top + 1) top++; else if ($12 > top + 1) early++ } END { print top + 0, early + 0, n + 0 }'; }
top() { order | cut -d ' ' -f 1; }

alive_brokers() { local id; for id in $(brokers_up); do printf '127.0.0.1:%s,' "${PORTS[$id]}"; done | sed 's/,$//'; }
describe() { kcat -L -b "$(alive_brokers)" -m 5 -t "$TOPIC" 2>/dev/null | sed -n 's/^ *partition \([0-9]*\), leader \([-0-9]*\),.*isrs: \(.*\)$/\1 \2 \3/p'; }
leader() { describe | awk -v p=$PARTITION '$1 == p { print $2 }'; }
all_in_sync() { [ "$(describe | awk 'split($3 $4 $5, copies, ",") == 3' | wc -l)" = 4 ]; }
led_elsewhere() { [[ $(leader) =~ ^[1-3]$ && $(leader) != "$1" ]]; }
# Dead or frozen, it is not asked.
away() { local pid=${KAFKA_PID[$1]}; if [ "$2" = KILL ]; then kill_broker "$1"; else kill -STOP "$pid"; FROZEN=$pid; unset "KAFKA_PID[$1]"; fi; }
back() { if [ "$2" = KILL ]; then start_broker "$1"; else kill -CONT "$FROZEN"; KAFKA_PID[$1]=$FROZEN; fi; wait_broker "$1"; }

emitter 1 1000000000 3000
wait_until top '^[1-9][0-9]{3}'
for ((round = 1; round <= ROUNDS; round++)); do
	how=KILL; [ $((round % 2)) = 0 ] || how=STOP
	victim=$(leader)
	[[ $victim =~ ^[1-3]$ ]] || die "round $round: no leader" "$(describe)"
	away "$victim" $how
	wait_until "led_elsewhere $victim" '' 30
	# The worker dies, too, at any moment; its successor knows some of what has come back.
	sleep "0.$((RANDOM % 1000))"
	kill_emitter
	seen=$(top) low=$(($(top) - RANDOM % 500))
	emitter $((low > 0 ? low : 1)) 1000000000 3000
	[ $((RANDOM % 2)) = 0 ] || wait_until "[ \$(top) -gt $((seen + 100)) ]" '' 60
	back "$victim" $how
	wait_until "[ \$(top) -gt $((seen + 1000)) ]" '' 90
	wait_until all_in_sync '' 60
	read -r last early records < <(order)
	is "$early" 0 "round $round (leader $victim: $how): $records records, up to row $last: in order"
done
kill_emitter
last=$(($(top) + 5000))
emitter $((last - 5500)) $last 0
eventually 'in the end all is there' order "^$last 0 " 60
wait "$EMITTER"
is $? 0 'and the last one has heard so'
note "producers given up: $(grep -c 'emit.failed' "$T/emitter.log"); $(grep -o 'error=.*' "$T/emitter.log" | cut -c 1-90 | sort | uniq -c | sort -rn | head -n 5)"
done_testing
