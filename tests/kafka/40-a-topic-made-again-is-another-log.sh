# 40-a-topic-made-again-is-another-log.sh - deleted and created under its old name, with fewer, as many
# and more records than before: what was counted of the old log is never mixed with the new one,
# whether the workers run meanwhile or not.
. "$(dirname "$0")/lib.sh"

# Partition 0 has fewer records in each log, 1 as many, 2 more, 3 none and then some, 4 some and then none.
broker partitions=5
fill()
{
	local p n=0
	for p in "${@:2}"; do
		[ "$p" = 0 ] || produce --partition $n --records "$p" --tenants 3 --streams 500 --seed $(($1 + n))
		n=$((n + 1))
	done
}
make_again() { kafka_do delete "$TOPIC" || die 'delete'; make_topic "$TOPIC" "$PARTITIONS"; }
count() { fields "$(facts)" records | tr '\n' ' '; }
fill "$SEED" 900 900 900 0 300

# The metadata is looked at so seldom that nobody hears of it by chance.
start_tallyd kafka.properties.topic.metadata.refresh.interval.ms=600000
wait_ready 5
wait_until count '^900 900 900 0 300 $'
before=$(fields "$(facts)" partition generation)
make_again
fill $((SEED + 10)) 500 900 1400 200 0
eventually 'while the workers run: each partition has what the new log has' count '^500 900 1400 200 0 $' 60
wait_ready 5
same_as_oracle 'and nothing else'
changed=$(comm -13 <(sort <<<"$before") <(fields "$(facts)" partition generation | sort) | cut -d' ' -f1 | tr '\n' ' ')
like "$changed" '^0 1 2 (3 )?4 $' 'the stores that had counted something were made anew'
is "$(status_json | jq '[.partitions[].stats.gaps] | add')" 0 'no gap is reported'

# Again and again, with the new records there in an instant: none of them may be counted on top.
for round in 1 2 3; do
	make_again
	fill $((SEED + 20 + round)) 450 900 $((1500 + round)) $((200 + round)) 0
	wait_until count "^450 900 $((1500 + round)) $((200 + round)) 0 \$" 60
done
wait_ready 5
same_as_oracle 'after three more times, too'

# While the workers sleep: no fetch of theirs is under way that could fail.
before=$(fields "$(facts)" partition generation)
pids=$(fields "$(facts)" pid)
kill -STOP $pids
at=$(now_ms)
make_again
fill $((SEED + 25)) 460 910 1600 210 0
until_true 5 eval '[ $(($(now_ms) - at)) -gt 600 ]'
kill -CONT $pids
eventually 'while they sleep, too: each partition has what the new log has' count '^460 910 1600 210 0 $' 60
wait_ready 5
same_as_oracle 'and nothing else'
like "$(comm -13 <(sort <<<"$before") <(fields "$(facts)" partition generation | sort) | cut -d' ' -f1 | tr '\n' ' ')" '^0 1 2 3 ' \
	'the stores were made anew'

# While nobody reads.
stop_tallyd
is $? 0 'it stops in order'
before=$(cd "$(run_dir)" && ls -d p*)
make_again
fill $((SEED + 30)) 400 900 1600 300 10
start_tallyd
wait_ready 5 60
eventually 'while nobody runs: each partition has what the new log has' count '^400 900 1600 300 10 $' 20
same_as_oracle 'and nothing else'
# Partition 4 had counted nothing: there is nothing to be mixed with.
is "$(comm -12 <(sort <<<"$before") <(cd "$(run_dir)" && ls -d p*) | grep -v '^p4')" '' 'no store with something in it was adopted'
like "$(grep -h 'worker.rebuild' "$T/a.log" | grep -o 'reason=[a-z_]*' | sort -u | tr '\n' ' ')" \
	'beyond_end.*fingerprint' 'the log says why'

# A crash in between: what is adopted is checked, too.
kill_tallyd
make_again
fill $((SEED + 40)) 400 900 1600 300 10
start_tallyd
wait_ready 5 60
eventually 'after a crash, too' count '^400 900 1600 300 10 $' 20
same_as_oracle 'and nothing else'
stop_tallyd
is $? 0 'it stops in order'
done_testing
