# 60-leaders-die-under-load.sh - three brokers, of which the one that leads some partition, or that
# coordinates the group, is killed again and again: nothing is lost, nothing is counted twice, no worker
# is started anew, and no partition stops being ready.
. "$(dirname "$0")/lib.sh"

ROUNDS=5
broker partitions=8 brokers=3
start_tallyd kafka.session_timeout=10s
wait_ready 8
before=$(fields "$(facts)" partition generation pid)
spawn watch nice -n 19 "$B/tests/table-watch" "$(run_dir)"
WATCH=$PID
spawn readers nice -n 19 "$B/tests/reader-loop" --run-dir "$(run_dir)" --processes 1 --seed "$SEED"
READERS=$PID
load_start --linger 20 --rate 2000 --tenants 3 --streams 1000 --seed "$SEED" --acks all --out "$T/written.txt"
LOAD=$PID
records() { fields "$(facts)" records | sum; }
wait_until records '[1-9][0-9]{3}'

# What the brokers that run say: "partition leader in-sync".
describe() { kcat -L -b "$(alive_brokers)" -m 5 -t "$1" 2>/dev/null | sed -n 's/^ *partition \([0-9]*\), leader \([-0-9]*\),.*isrs: \(.*\)$/\1 \2 \3/p'; }
alive_brokers() { local id; for id in $(brokers_up); do printf '127.0.0.1:%s,' "${PORTS[$id]}"; done | sed 's/,$//'; }
leader_of() { describe "$1" | awk -v p="$2" '$1 == p { print $2 }'; }
led_elsewhere() { [ "$(describe "$1" | awk -v d="$2" '$2 > 0 && $2 != d' | wc -l)" = "$3" ]; }
in_sync() { [ "$(describe "$1" | awk 'split($3 $4 $5, copies, ",") == 3' | wc -l)" = "$2" ]; }
all_in_sync() { in_sync "$TOPIC" 8 && in_sync __consumer_offsets 1; }

# In odd rounds the coordinator of the group, in even ones the leader of a random partition.
for ((round = 1; round <= ROUNDS; round++)); do
	what='the coordinator of the group' topic=__consumer_offsets partition=0
	if [ $((round % 2)) = 0 ]; then
		topic=$TOPIC partition=$((RANDOM % PARTITIONS))
		what="the leader of partition $partition"
	fi
	victim=$(leader_of $topic $partition)
	[[ $victim =~ ^[1-3]$ ]] || die "round $round: $what is not there" "$(describe $topic)"
	at=$(now_ms) seen=$(records)
	kill_broker "$victim"
	wait_until "led_elsewhere $TOPIC $victim 8 && led_elsewhere __consumer_offsets $victim 1" '' 30
	led=$(($(now_ms) - at))
	start_broker "$victim"
	wait_until "[ \$(records) -gt $((seen + 2000)) ]" '' 30
	read_on=$(($(now_ms) - at))
	wait_broker "$victim"
	wait_until all_in_sync '' 60
	note "round $round: broker $victim, $what: others led after $led ms, 2000 records on after $read_on ms, all in sync after $(($(now_ms) - at)) ms"
	is "$(fields "$(facts)" partition generation pid)" "$before" "round $round: the same processes go on in the same stores"
done

end "$LOAD"
is $? 0 'each record was delivered in the end'
written=$(sed -n 's/^records=\([0-9]*\) .*/\1/p' "$T/load.log")
eventually 'and was counted, once' records "^$written\$"
same_as_oracle 'the stores hold what the log says'
# The log's own content, by what the producer was told: partition and offset of each record.  Of one that
# a broker had already when it came again (a leader died before it had answered), it tells no offset: -1001.
cut -f 1,2 "$T/written.txt" | grep -v -e '-1001$' | sort >"$T/told.txt"
cut -f 1,2 "$T/log.txt" | sort >"$T/there.txt"
is "$(comm -23 "$T/told.txt" "$T/there.txt")" '' 'the log holds each record that was acknowledged'
is "$(comm -13 "$T/told.txt" "$T/there.txt" | cut -f 1)" \
	"$(cut -f 1,2 "$T/written.txt" | grep -e '-1001$' | cut -f 1 | sort)" 'and none twice'
is "$(fields "$(facts)" restarts | sum)" 0 'no worker was started anew'
is "$(fields "$(facts)" gaps | sum)" 0 'no gap is reported'
is "$(status_json | jq .lost_events)" 0 'the group was never lost'
is "$(grep -c 'worker.rebuild' "$T/a.log")" 0 'no store was made anew'

end "$WATCH"
away=$(awk '$4 == "unready" { n++; at[$3] = $1 } $4 == "ready" && $3 in at { sum += $1 - at[$3] } END { printf "%d %.0f", n, sum / 1e6 }' "$T/watch.log")
note "not ready: times and ms in all: $away"
is "$away" '0 0' 'and no partition ever stopped being ready'
readers_end
stop_tallyd
is $? 0 'it stops in order'
done_testing
