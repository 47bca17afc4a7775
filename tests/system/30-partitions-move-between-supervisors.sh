# 30-partitions-move-between-supervisors.sh - two supervisors share a topic; a third comes and goes, one
# is killed: no partition is ever ready twice, what moves is evicted, what stays is not touched.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/members.sh"

broker partitions=8
# Few and large batches: the broker hands out one a fetch, and replays are many here.
load_start --linger 500 --rate 1500 --tenants 3 --streams 2000 --seed "$SEED"
LOAD=$PID
start_group a b

# From here to the end somebody looks, and eight ask without pause.
spawn watch "$B/tests/table-watch" "$T/a" "$T/b" "$T/c"
WATCH=$PID
READERS=()
for i in a:3 b:3 c:2; do
	spawn "readers-${i%:*}" "$B/tests/reader-loop" --run-dir "$T/${i%:*}" --processes "${i#*:}" --seed "$SEED"
	READERS+=("${i%:*}:$PID")
done

# Who has what: "partition instance pid generation", sorted.
who() { local i; for i in "$@"; do fields "$(facts "$i")" partition pid generation | sed "s/ / $i /"; done | sort; }
# Those of the first that are, with the same instance, in the second: untouched?
stayed() { join <(echo "$1") <(echo "$2") | awk '$2 == $5'; }
touched() { stayed "$1" "$2" | awk '$3 != $6 || $4 != $7'; }
clean() { [ -z "$(strangers "$1")" ]; }
all_same_as_oracle() { local i; for i in "${@:2}"; do INSTANCE=$i same_as_oracle "$i holds what the log says $1"; done; }

wait_settled 'two members' a b
two=$(who a b)
all_same_as_oracle 'with two members' a b

# A third joins: some partitions move to it, in order.
start_third
three=$(who a b c)
isnt "$(grep -c ' c ' <<<"$three")" 0 'the third has got some'
isnt "$(stayed "$two" "$three" | wc -l)" 0 'others stayed'
is "$(touched "$two" "$three")" '' 'those that stayed kept their process and their generation'
for i in a b; do eventually "what left $i is gone from its directory" "strangers $i" '^$' 5; done
all_same_as_oracle 'with three members' a b c

# It leaves in order.
stop_tallyd c
is $? 0 'the third leaves in order'
wait_settled 'the third left' a b
left=$(who a b)
is "$(touched "$three" "$left")" '' 'what a and b had, they kept untouched'
is "$(stayed "$three" "$left" | wc -l)" "$(grep -vc ' c ' <<<"$three")" 'all of it'
is "$(fields "$(facts c)" state | sort -u)" stopped 'its own table says stopped'
all_same_as_oracle 'after it left' a b

# One is killed: nobody hears of it but by its silence.
workers=$(fields "$(facts b)" pid)
kill_tallyd b
for pid in $workers; do until_true 1 gone "$pid" || fail "worker $pid of the killed one is still there after 1 s"; done
wait_settled 'b was killed' a
is "$(touched "$left" "$(who a)")" '' 'what the survivor had, it kept untouched'
all_same_as_oracle 'after one was killed' a

end "$LOAD"
wait_until "INSTANCE=a status_json | jq '[.partitions[].stats.lag] | add'" '^0$'
all_same_as_oracle 'in the end' a
eventually 'nothing is left of generations that went' 'strangers a' '^$' 5
is "$(awk '/^partition/ { sum += $4 } END { print sum }' "$T/store.txt")" "$(wc -l <"$T/log.txt")" 'and that is the whole log'

end "$WATCH"
is $? 0 'at no time did two tables say ready for one partition'
like "$(tail -n 1 "$T/watch.log")" '^looks=[0-9]{5,} overlaps=0$' 'somebody has looked all the time'
for i in "${READERS[@]}"; do
	end "${i#*:}"
	is $? 0 "no reader of ${i%:*} got an answer from a generation that its table had left"
	note "readers of ${i%:*}: $(tail -n 1 "$T/readers-${i%:*}.log")"
done
stop_tallyd a
is $? 0 'the last one stops in order'
done_testing
