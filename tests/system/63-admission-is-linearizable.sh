# 63-admission-is-linearizable.sh - sixteen clients ask about the same streams, another zone's records come
# in, limits change, streams expire by the clock, workers are killed: every answer fits some order of events.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

STEPS=${STEPS:-60}	# of the schedule
WINDOW=10		# minutes
THERE=ffffffffffffffffffffffffffffff63
declare -A LIMIT=([t-0]=20 [u-0]=100 [v-0]=300 [w-0]=0)	# with how many streams each is asked about:
killed=0 seq=0
declare -A STREAMS=([t-0]=60 [u-0]=160 [v-0]=900 [w-0]=3000)

now_us() { echo "${EPOCHREALTIME/./}"; }
event() { echo "$*" >>"$T/events.txt"; }
current() { local t; for t in "${!LIMIT[@]}"; do echo "$t=${LIMIT[$t]}"; done; }
# ask_all OUT SECONDS RATE: four clients for each tenant; pids in CLIENTS.
ask_all()
{
	local t i n=0
	CLIENTS=()
	for t in "${!LIMIT[@]}"; do
		for i in 1 2 3 4; do
			ask_start "client-$n" --tenant-prefix "${t%0}" --streams "${STREAMS[$t]}" --seed "$SEED" --order $((SEED + n + 1)) \
				--rounds 0 --seconds "$2" --rate "$3" --per-request $((1 + n % 3)) --concurrency 4 --out "$T/$1-$n.txt"
			CLIENTS+=("$PID"); n=$((n + 1))
		done
	done
}
records() { produce --tenants 1 --tenant-prefix "$1" --streams "$2" --seed "$SEED" --records "$3" "${@:4}"; }
settled() { matches "status_json | jq '[.partitions[].stats.lag] | add'" '^0$' && matches outbox '^0$'; }
oracle()
{
	"$B/tests/ask-oracle" --window $WINDOW --events "$T/events.txt" "$@" >"$T/oracle.txt"
	is "$?" 0 "$NAME"
	note "$(cat "$T/oracle.txt")"
}

broker partitions=8
limits $(current)
options=(limits.file="$T/limits.yaml" window.active=${WINDOW}m produce.interval=2s supervisor.restart_max=1s)
start_tallyd a "${options[@]}"
wait_ready 8
wait_asked
event clock 0 0 0
for t in "${!LIMIT[@]}"; do event limit "$t" "${LIMIT[$t]}" 0 0; done

# Without a fault: also every byte is accounted for.
ask_all calm 6 60
for p in t- u- v- w-; do records $p 300 50 --source $THERE --sequence $(((++seq) * 1000)) --zone other --out "$T/calm-$p.records"; done
for pid in "${CLIENTS[@]}"; do wait "$pid" || fail 'a client had no answer' "$(tail -n 2 "$T"/client-*.log)"; done
wait_until settled
event applied "$(now_us)" "$(now_us)"
sleep 0.4	# touches are on their way for 250 ms
wait_until settled
AT=$(now_ms) dump_store a "$T/a.dump"
RECORDS=(--records "$T/calm-t-.records" --records "$T/calm-u-.records" --records "$T/calm-v-.records" --records "$T/calm-w-.records")
NAME='without a fault every answer fits' oracle "${RECORDS[@]}" --store "$T/a.dump" --at "$(now_us)" "$T"/calm-*.txt
is "$(awk '$1 == "usage" { s += $6 } END { print s + 0 }' "$T/a.dump")" \
	"$(($(sizes accepted "$T"/calm-*.txt) + $(awk '{ s += $6 } END { print s }' "$T"/calm-*.records)))" 'and each byte was counted once'

# With all of them.
ask_all wild $((STEPS * 2)) 30
step_limit()
{
	local t=$1 l=$2 begin
	begin=$(now_us)
	LIMIT[$t]=$l
	reload_limits $(current)
	event limit "$t" "$l" "$begin" $(($(now_us) + 1000000))
}
offset=0
step_clock()
{
	local begin
	begin=$(now_us)
	offset=$((offset + $1))
	set_clock ${offset}m
	event clock $((offset * 60000)) "$begin" $(($(now_us) + 1000000))
}
step_kill()
{
	local begin pid
	pid=$(pid_of "$1")
	[ "${pid:-0}" != 0 ] || return 0
	begin=$(now_us)
	kill -KILL "$pid" && killed=$((killed + 1))
	wait_until "[ \$(pid_of $1) != $pid ]" '' 20
	wait_until ready_count '^8$' 20
	event kill "$begin" "$(now_us)"
}
step_records()
{
	local at
	records "$1" "$2" 20 --source $THERE --sequence $(((++seq) * 1000)) --zone other --out "$T/wild-$seq.records"
	RECORDS+=(--records "$T/wild-$seq.records")
	at=$(now_us)
	[ $((RANDOM % 2)) = 0 ] || return 0
	wait_until "status_json | jq '[.partitions[].stats.lag] | add'" '^0$'
	event applied "$at" "$(now_us)"
}
names=(t-0 u-0 v-0)
for ((step = 0; step < STEPS && SECONDS < 150; step++)); do
	what=$((RANDOM % 10)) t=${names[RANDOM % 3]} victim=$((RANDOM % 8)) pause=$((RANDOM % 400))
	limit=$((1 + STREAMS[$t] * (RANDOM % 100) / 100)) minutes=$((1 + RANDOM % 4))
	case $what in
	[0-2]) step_kill $victim ;;
	[3-4]) step_limit "$t" $limit ;;
	[5-6]) step_clock $minutes ;;
	*) step_records "${t%0}" "${STREAMS[$t]}" ;;
	esac
	sleep "0.$(printf %03d $pause)"
done
note "$step steps, $killed workers killed, clock $offset minutes ahead"
for pid in "${CLIENTS[@]}"; do kill -TERM "$pid" 2>/dev/null; wait "$pid"; done
wait_until ready_count '^8$' 30
wait_until settled
sleep 0.4
wait_until settled
dumped=$(now_us)
AT=$(($(now_ms) + offset * 60000)) dump_store a "$T/a.dump"
NAME='with limits, clock, records and deaths every answer fits, too' oracle "${RECORDS[@]}" --store "$T/a.dump" --at "$dumped" \
	"$T"/calm-*.txt "$T"/wild-*.txt
for word in new known rejected; do
	ok "it has judged many that were $word" test "$(sed "s/.* $word=\([0-9]*\).*/\1/" "$T/oracle.txt" | tail -n 1)" -gt 300
done
ok 'workers were killed' test $killed -gt 3
stop_tallyd a
is $? 0 'it stops in order'
done_testing
