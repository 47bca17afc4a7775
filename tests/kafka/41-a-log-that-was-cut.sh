# 41-a-log-that-was-cut.sh - an unclean election: the new leader has not the last records that were
# counted, and gives their offsets to others.  What was counted is never mixed with what the log has now,
# whether the workers run meanwhile or not.  This librdkafka may know nothing of leader epochs: the
# fingerprint is looked at again whenever the leader may have changed (worker/source.h).
. "$(dirname "$0")/lib.sh"

# Partition 0 is cut and gets fewer records than it lost, 1 as many, 2 more, 3 none; 4 loses nothing that
# was counted, only an aborted transaction, and gets more.  Copies are on the brokers 1 and 2; the
# third one is there so that two of three can decide.
PARTITIONS=5
cluster_make 3
cluster_start
kafka_tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$BROKERS" --create --topic "$TOPIC" \
	--replica-assignment 1:2,1:2,1:2,1:2,1:2 --config unclean.leader.election.enable=true \
	--config min.insync.replicas=1 >"$T/create.txt" 2>&1 || bail "the topic could not be made: $(tail -n 3 "$T/create.txt")"

fill() # SEED N0 N1 ..., to whichever leader there is, which need not wait for the other
{
	local p=0 n
	for n in "${@:2}"; do
		[ "$n" = 0 ] || produce --partition $p --records "$n" --tenants 3 --streams 500 --seed $(($1 + p)) --acks "${ACKS:-1}"
		p=$((p + 1))
	done
}
up() { printf '127.0.0.1:%s' "${PORTS[$1]}"; }
topic_is() { kcat -L -b "$(up "$1")" -m 5 -t "$TOPIC" 2>/dev/null | sed -n 's/^ *partition \([0-9]*\), leader \([-0-9]*\),.*isrs: \(.*\)$/\1:\2:\3/p' | tr '\n' ' '; }
all_led_by() { matches "topic_is 3" "^(.:$1:$2 ){5}\$"; }
ends() { fields "$(kafka_do offsets "$TOPIC")" high | tr '\n' ' '; }
aborts() { local i; for ((i = 0; i < $1; i++)); do echo 'now tenant-0 auto 10'; done | put 4 --txn abort; }
count() { fields "$(facts)" records | tr '\n' ' '; }
parts() { fields "$(facts)" partition generation; }

lead() { wait_until "all_led_by $1 '$2'" '' 60; }	# BROKER IN-SYNC
reasons() { grep -h ' supervisor warn worker.rebuild ' "$T/a.log" | grep -o 'reason=[a-z_]*' | sort | uniq -c | tr -s ' \n' ' '; }
# kept BEFORE: partitions that have kept their store.
kept() { comm -12 <(sort <<<"$1") <(parts | sort) | cut -d' ' -f1 | tr '\n' ' '; }

# Each of both gets a log of its own beyond the first 300: broker 1 alone has 200 more, which are counted.
lead 1 '(1,2|2,1)'
ACKS=all fill "$SEED" 300 300 300 300 300
is "$(ends)" '300 300 300 300 300 ' 'both have the first 300'
# A session that outlasts each change, and metadata that is looked at so seldom that nobody hears by chance.
start_tallyd kafka.session_timeout=30s kafka.properties.topic.metadata.refresh.interval.ms=600000
wait_ready 5
kill_broker 2
lead 1 1
fill $((SEED + 10)) 200 200 200 200 0
aborts 20
wait_until count '^500 500 500 500 300 $'
wait_until 'fact 4 next' '^321$'
before=$(parts)

# It dies with them, and the other one comes back without.  The workers are held meanwhile, so that none
# of them sees the log while it is too short: that alone would tell.
pids=$(fields "$(facts)" pid)
kill -STOP $pids
kill_broker 1
start_broker 2
lead 2 2
is "$(ends)" '300 300 300 300 300 ' 'an unclean election has cut the log below what was counted'
fill $((SEED + 20)) 50 200 450 0 50
kill -CONT $pids
eventually 'while the workers run: each partition has what the log has now' count '^350 500 750 300 350 $' 60
wait_ready 5
same_as_oracle 'and nothing of what was cut off'
is "$(kept "$before")" '4 ' 'no store that had some of it was kept'
is "$(fields "$(facts)" gaps | sum) $(status_json | jq .lost_events)" '0 0' 'no gap is reported, and the group was not lost'
note "rebuilt because of:$(reasons)"

# The other way, with a leader that is not dead but frozen: connections stay, and once it goes on it
# believes for a moment that it still leads.  The log is what broker 1 had, and more in partition 2.
before=$(parts)
kill -STOP "${KAFKA_PID[2]}"
start_broker 1
lead 1 1
fill $((SEED + 30)) 0 0 250 0 30
kill -CONT "${KAFKA_PID[2]}"
eventually 'after a leader that was frozen: each partition has what the log has now' count '^500 500 750 500 330 $' 60
wait_ready 5
same_as_oracle 'and nothing of what was cut off'
is "$(kept "$before")" '3 ' 'a store that had none of it goes on'
is "$(fields "$(facts)" gaps | sum) $(status_json | jq .lost_events)" '0 0' 'no gap is reported, and the group was not lost'
note "rebuilt because of:$(reasons)"

# While nobody reads.
lead 1 '(1,2|2,1)'
kill_broker 2
lead 1 1
fill $((SEED + 40)) 200 200 200 200 0
aborts 20
wait_until count '^700 700 950 700 330 $'
wait_until 'fact 4 next' '^372$'
same_as_oracle 'what one broker alone has is counted'
before=$(parts)
stop_tallyd
is $? 0 'it stops in order'
kill_broker 1
start_broker 2
lead 2 2
fill $((SEED + 50)) 50 200 450 0 50
start_tallyd kafka.session_timeout=6s
wait_ready 5 60
eventually 'while nobody runs: each partition has what the log has now' count '^550 700 1200 500 380 $' 30
same_as_oracle 'and nothing of what was cut off'
is "$(kept "$before")" '4 ' 'no store that had some of it was adopted'

# A crash in between, and back.
before=$(parts)
kill_tallyd
kill_broker 2
start_broker 1
lead 1 1
fill $((SEED + 60)) 0 0 300 0 50
start_tallyd
wait_ready 5 60
eventually 'after a crash, too' count '^700 700 1250 700 380 $' 30
same_as_oracle 'and nothing of what was cut off'
is "$(kept "$before")" '3 ' 'a store that had none of it was adopted'
is "$(fields "$(facts)" gaps | sum)" 0 'no gap is reported'
like "$(reasons)" 'beyond_end.*fingerprint' 'the log says why'
note "rebuilt because of:$(reasons)"
stop_tallyd
is $? 0 'it stops in order'
done_testing
