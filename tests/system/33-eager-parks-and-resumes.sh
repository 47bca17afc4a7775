# 33-eager-parks-and-resumes.sh - with an eager assignor every change revokes everything: what comes back
# goes on with its store and reads nothing again, what moved is evicted.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/members.sh"

broker partitions=8
produce --records 8000 --tenants 3 --streams 500 --seed "$SEED"
for i in a b c; do write_config "$i" kafka.assignor=range; done
start_group a b
spawn watch "$B/tests/table-watch" "$T/a" "$T/b" "$T/c"
WATCH=$PID
READERS=()
for i in a b c; do
	spawn "readers-$i" "$B/tests/reader-loop" --run-dir "$T/$i" --seed "$SEED"
	READERS+=("$i:$PID")
done
for i in a b; do like "$(grep group.assign "$T/$i.log")" 'protocol=eager' "$i has joined with the eager protocol"; done

# "partition instance generation pid start replayed records"
who() { local i; for i in "$@"; do fields "$(facts "$i")" partition generation pid start replayed records | sed "s/ / $i /"; done | sort; }
back() { join <(echo "$1") <(echo "$2") | awk '$2 == $8'; }
moved() { join <(echo "$1") <(echo "$2") | awk '$2 != $8'; }

# check BEFORE AFTER WHO: what came back and what moved, when nothing was written meanwhile.
check()
{
	local came went
	came=$(back "$1" "$2") went=$(moved "$1" "$2")
	isnt "$came" '' "$3: some came back"
	is "$(awk '$3 != $9' <<<"$came")" '' "$3: what came back has kept its generation"
	is "$(awk '$4 == $10' <<<"$came")" '' "$3: in a new process: it had been stopped meanwhile"
	is "$(awk '$12 != 0 || $11 != $13' <<<"$came")" '' "$3: it goes on where its store stood, and reads nothing again"
	is "$(awk '$7 != $13' <<<"$came")" '' "$3: it has counted each record once"
	[ -z "$went" ] || is "$(awk '$3 == $9 || $7 != $13' <<<"$went")" '' "$3: what moved was read anew, all of it"
}

wait_settled 'two members' a b
two=$(who a b)
start_third
three=$(who a b c)
check "$two" "$three" 'a third joined'
isnt "$(moved "$two" "$three")" '' 'some moved'
for i in a b c; do
	eventually "what left $i is gone from its directory" "strangers $i" '^$' 10
	eventually 'and nothing is left parked' "fields \"\$(facts $i)\" state | sort -u" '^ready$' 10
	INSTANCE=$i same_as_oracle "$i holds what the log says"
done

# It leaves in order, and now records flow.
load_start --linger 500 --rate 1000 --tenants 3 --streams 500 --seed "$SEED"
LOAD=$PID
stop_tallyd c
is $? 0 'the third leaves in order'
wait_settled 'it left' a b
after=$(who a b)
isnt "$(back "$three" "$after")" '' 'some came back, under load'
is "$(back "$three" "$after" | awk '$3 != $9')" '' 'they have kept their generation'
is "$(back "$three" "$after" | awk '$11 < $7')" '' 'they went on where their store stood'
end "$LOAD"
for i in a b; do
	wait_until "INSTANCE=$i status_json | jq '[.partitions[].stats.lag] | add'" '^0$'
	eventually "what left $i is gone from its directory" "strangers $i" '^$' 10
	eventually 'and nothing is left parked' "fields \"\$(facts $i)\" state | sort -u" '^ready$' 10
	INSTANCE=$i same_as_oracle "$i holds what the log says"
done
is "$(INSTANCE=a status_json | jq .lost_events)" 0 'an eager rebalance is no loss'

end "$WATCH"
is $? 0 'at no time did two tables say ready for one partition'
for i in "${READERS[@]}"; do
	end "${i#*:}"
	is $? 0 "no reader of ${i%:*} got an answer that it should not have got"
done
stop_tallyd a
is $? 0 'a stops in order'
stop_tallyd b
is $? 0 'b stops in order'
done_testing
