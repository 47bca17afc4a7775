# 21-a-killed-supervisor-leaves-nothing.sh - tallyd is killed 50 times, wherever it is just then: no
# child survives it by a second, the next start goes on from the stores that are there, and no
# reader sees one that is not published.
. "$(dirname "$0")/lib.sh"

# When it is killed: on its way into the group; while it starts workers and they replay; when all is
# ready; in the middle of an orderly stop.
EARLY=${EARLY:-27} ASSIGNED=${ASSIGNED:-12} READY=${READY:-8} STOPPING=${STOPPING:-3}

broker partitions=8
produce --records 100000 --seed "$SEED" --tenants 3 --policies 2 --streams 4000 --popularity zipf:1.05 --spread 100m
spawn reader "$B/tests/reader-loop" --run-dir "$T/a" --processes 3 --seed "$SEED"; READER=$PID
load_start --seed "$SEED" --rate 200 --linger 200 --tenants 3 --policies 2 --streams 4000; LOAD=$PID

# A dead member holds a group up until its session is over, so most starts get a group of their own.
group=0
start()
{
	local grace=0s
	# Without: the dead one may be given partitions once more, and ours come later than usual.
	if [ "$1" = rejoin ]; then grace=20s; else group=$((group + 1)); fi
	start_tallyd a kafka.group=g$group supervisor.lost_grace=$grace
}

# What is known of each partition's store since it was first ready.
declare -A GENERATION NEXT STATES=()
lost='' reread=''
remember()
{
	local p pid generation state next
	while read -r p pid generation state next; do
		STATES[$state]=$((${STATES[$state]:-0} + 1))
		[ "$next" = null ] || [ "${GENERATION[$p]:-$generation}" != "$generation" ] || NEXT[$p]=$next
	done < <(slots)
}
# All are ready: in the same generations as ever, and only what came after the stored offsets was read.
judge()
{
	local p generation start replayed end
	while read -r p generation start replayed end; do
		[ "${GENERATION[$p]:=$generation}" = "$generation" ] || lost="$lost $1:$p"
		[ "$start" -ge "${NEXT[$p]:=0}" ] && [ "$replayed" -le $((end - NEXT[$p])) ] ||
			reread="$reread $1:$p($replayed from $start, had ${NEXT[$p]} of $end)"
	done < <(status_json | jq -r '.partitions[] | "\(.partition) \(.generation) \(.stats.replay.start_offset) \(.stats.replay.replayed) \(.stats.log_end)"')
}

killed=0 slowest=0 unclean='' stuck=0 survivors=''
# kill_it KIND
kill_it()
{
	local out rc ms
	out=$("$B/tests/kill-tree" "${TALLYD[a]}" 2>&1)
	rc=$?
	wait "${TALLYD[a]}" 2>/dev/null
	case $?:$1 in
	137:*) killed=$((killed + 1)) ;;
	0:stopping) rounds+=(early); return ;; # it was quicker than we
	*) unclean="$unclean $killed:$1:$out"; return ;;
	esac
	[ $rc = 0 ] || survivors="$survivors $out"
	ms=${out#*last_ms=} ms=${ms%%[!0-9]*}
	[ "$ms" -le $slowest ] || slowest=$ms
}

pause() { sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }

round()
{
	start "$1"
	case $1 in
	early) pause $((RANDOM % 1500)) ;;
	assigned)
		until_true 20 owns_or_died || stuck=$((stuck + 1))
		pause $((RANDOM % 120))
		;;
	ready | rejoin | stopping)
		wait_ready 8 60
		judge "$killed"
		pause $((RANDOM % 300))
		[ "$1" != stopping ] || kill -TERM "${TALLYD[a]}"
		;;
	esac
	kill_it "$1"
	unset 'TALLYD[a]'
	remember
}

# The first ones find no store, or one that has just been begun.
kinds=()
for ((i = 4; i < ASSIGNED; i++)); do kinds+=(assigned); done
for ((i = 0; i < EARLY; i++)); do kinds+=(early); done
for ((i = 2; i < READY; i++)); do kinds+=(ready); done
for ((i = 0; i < STOPPING; i++)); do kinds+=(stopping); done
rounds=(assigned assigned assigned assigned ready)
while [ ${#kinds[@]} -gt 0 ]; do
	i=$((RANDOM % ${#kinds[@]}))
	rounds+=("${kinds[i]}")
	kinds=("${kinds[@]:0:i}" "${kinds[@]:i+1}")
done
rounds+=(rejoin)
started=$SECONDS
for ((i = 0; i < ${#rounds[@]}; i++)); do round "${rounds[i]}"; done
note "$killed times killed in $((SECONDS - started)) s; the slowest child ended after $slowest ms"
note "states of the partitions then: $(for i in "${!STATES[@]}"; do printf '%s %s  ' "$i" "${STATES[$i]}"; done)"
[ $stuck = 0 ] || note "$stuck times killed in the broker's stuck rebalance"

is $killed $((EARLY + ASSIGNED + READY + STOPPING)) 'so many times it was killed'
ok 'in the middle of starts and replays, too' test $((${STATES[pending]:-0} + ${STATES[replaying]:-0})) -ge $((ASSIGNED / 4))
is "$survivors" '' 'no child was alive after a second'
is "$unclean" '' 'none of the starts had ended by itself'

start last
wait_ready 8 60
judge last
is "$lost" '' 'no store was given up: each partition has the generation it had when it was first ready'
is "$reread" '' 'only what came after the stored offset was read'

end "$LOAD" || fail 'tally-load' "$(tail -n 5 "$T/load.log")"
eventually 'all has been read' "status_json | jq '[.partitions[].stats.lag] | add'" '^0$' 60
same_as_oracle 'the stores hold what the log says'

end "$READER"
is $? 0 'no reader ever had an answer from a store that was not published'
note "$(cat "$T/reader.log")"

current=$(slots | awk '{ print "p" $1 "." $3 }' | sort)
eventually 'nothing is left over but the current generations' \
	"ls '$T/a' | grep -v -e ^lock -e ^table -e ^limits -e ^query -e ^history -e ^settings | sort | diff - <(echo '$current') && echo same" '^same$'
unlike "$(grep -v ' debug ' "$T/a.log")" 'leftover\.foreign|table\.refused|worker\.start_failed' 'no start complained of what it found'
is "$(grep -c ' error ' "$T/a.log")" 0 'and nothing was logged as an error'
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
