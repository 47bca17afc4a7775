# 67-what-is-written-comes-in-order.sh - a worker's rows are first seen in the log one after the other, without
# a hole, however often it is killed, and also when its partition is taken away.  Others skip what comes late.
. "$(dirname "$0")/ask.sh"

EMIT_KILLS=${EMIT_KILLS:-15}
broker partitions=4
options=(produce.interval=60s limits.max_global_streams_per_user=0 supervisor.restart_max=1s)
start_tallyd a "${options[@]}"
wait_ready 4
wait_asked
# New streams, whose rows are due at once, and known ones, whose bytes wait for their time.
ask_start new --tenants 2 --streams 0 --rounds 0 --rate 400 --per-request 5 --concurrency 8 --seed "$SEED"
LOADS=("$PID")
ask_start known --tenants 2 --tenant-prefix known- --streams 300 --rounds 0 --rate 200 --per-request 5 --concurrency 4 --seed "$SEED"
LOADS+=("$PID")
killed=0
while [ $killed -lt "$EMIT_KILLS" ]; do
	sleep "0.$((RANDOM % 1000))"
	pid=$(fact $((RANDOM % 4)) pid)
	[ "${pid:-0}" = 0 ] || { kill -KILL "$pid" 2>/dev/null && killed=$((killed + 1)); }
done

# A second instance takes two of the four: they are drained.
start_tallyd b "${options[@]}"
INSTANCE=b
wait_ready 2 60
for pid in "${LOADS[@]}"; do kill -TERM "$pid"; wait "$pid"; done
INSTANCE=a
outboxes() { { facts a; facts b; } >"$T/facts.txt"; fields "$(cat "$T/facts.txt")" outbox | sum; }
eventually 'all rows come back from the log' outboxes '^0$' 60
for INSTANCE in a b; do stop_tallyd; is $? 0 "$INSTANCE stops in order"; done

"$B/tests/log-dump" --brokers "$BROKERS" --topic "$TOPIC" >"$T/all.txt" || die 'log-dump'
# partition incarnation records last, and how many came before their turn
awk -F '\t' '{ k = $1 " " $11; n[k]++; if ($12 == top[k] + 1) top[k]++; else if ($12 > top[k] + 1) early[k]++ }
	END { for (k in n) print k, n[k], top[k] + 0, early[k] + 0 }' "$T/all.txt" | sort >"$T/order.txt"
note "$(cat "$T/order.txt")"
is "$(awk '$5 > 0' "$T/order.txt")" '' 'no row came before its turn'
ok 'and there are many' test "$(awk '{ n += $4 } END { print n }' "$T/order.txt")" -gt 1000
for i in a b; do is "$(grep -c 'emit.failed' "$T/$i.log")" 0 "$i gave up no producer"; done
done_testing
