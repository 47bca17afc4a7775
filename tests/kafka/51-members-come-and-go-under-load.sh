# 51-members-come-and-go-under-load.sh - cooperative-sticky, 2 -> 3 -> 2 members, and one that dies: what
# does not move is not touched, no partition is ready twice, each store holds what the log says.
. "$(dirname "$0")/lib.sh"

broker partitions=12
SESSION=kafka.session_timeout=6s
for i in a b c; do write_config "$i" $SESSION; done
load_start --linger 20 --rate 2000 --tenants 3 --streams 2000 --seed "$SEED"
LOAD=$PID

# Who has what: "partition instance pid generation", sorted by partition.
who() { local i; for i in "$@"; do fields "$(facts "$i")" partition pid generation | sed "s/ / $i /"; done | sort; }
stayed() { join <(echo "$1") <(echo "$2") | awk '$2 == $5'; }
touched() { stayed "$1" "$2" | awk '$3 != $6 || $4 != $7'; }
moved() { join <(echo "$1") <(echo "$2") | awk '$2 != $5' | wc -l; }
has() { cut -d' ' -f2 <<<"$1" | grep -c "$2"; }
started() { cat "$T"/[abc].log | grep -c ' supervisor info worker\.started '; }
even() { local i n; for i in "$@"; do n=$(INSTANCE=$i ready_count); [ "$n" = $((PARTITIONS / $#)) ] || return 1; done; }
# settle WHAT NAMES...: each partition is ready once, everybody has the same number; then SINCE ms ago is noted.
settle()
{
	wait_until "even ${*:2}" '' 40
	note "$1: settled after $(($(now_ms) - since)) ms, $(gaps "${since_boot}")"
}
boot_ns() { local up; read -r up _ </proc/uptime; echo "${up/./}0000000"; }
now_is() { since=$(now_ms) since_boot=$(boot_ns); }

# Out of what the watch saw since NS: for how long partitions that moved were ready nowhere.
gaps()
{
	awk -v since="$1" '$4 == "unready" && $1 > since { gone[$3] = $1 }
		$4 == "ready" && $1 > since && $3 in gone { ms = ($1 - gone[$3]) / 1e6; n++; sum += ms; if (ms > max) max = ms; delete gone[$3] }
		END { printf "%d partitions were ready nowhere for %.0f ms on average, %.0f at most\n", n, n ? sum / n : 0, max }' "$T/watch.log"
}
all_same_as_oracle() { local i; for i in "${@:2}"; do INSTANCE=$i same_as_oracle "$i holds what the log says $1"; done; }
clean() { local i; for i in "$@"; do eventually "what left $i is gone from its directory" "strangers $i" '^$' 10; done; }

spawn watch "$B/tests/table-watch" "$T/a" "$T/b" "$T/c"
WATCH=$PID
now_is
start_group a b
READERS=()
for i in a:1 b:1 c:1; do
	spawn "readers-${i%:*}" nice -n 19 "$B/tests/reader-loop" --run-dir "$T/${i%:*}" --processes "${i#*:}" --seed "$SEED"
	READERS+=("${i%:*}:$PID")
done
settle 'two members' a b
two=$(who a b) before=$(started)

# A third joins.
now_is
start_tallyd c
settle 'a third joined' a b c
three=$(who a b c)
is "$(has "$three" a) $(has "$three" b) $(has "$three" c)" '4 4 4' 'three members have a third each'
is "$(touched "$two" "$three")" '' 'what stayed has kept its process and its generation'
is "$(moved "$two" "$three")" 4 'only what the third has got has moved'
is $(($(started) - before)) 4 'and only for that a worker was started'
clean a b
all_same_as_oracle 'with three members' a b c

# It leaves in order.
before=$(started)
now_is
stop_tallyd c
is $? 0 'the third leaves in order'
settle 'the third left' a b
left=$(who a b)
is "$(touched "$three" "$left")" '' 'what a and b had, they have untouched'
is "$(stayed "$three" "$left" | wc -l)" 8 'all of it'
is $(($(started) - before)) 4 'a worker was started for what the third had, and for nothing else'
is "$(fields "$(facts c)" state | sort -u)" stopped 'its own table says stopped'
all_same_as_oracle 'after it left' a b

# It comes again, and is killed: the group hears of it by its silence.
before=$(started)
now_is
start_tallyd c
settle 'a third joined again' a b c
again=$(who a b c)
is "$(touched "$left" "$again")" '' 'again nothing that stayed was touched'
is $(($(started) - before)) 4 'and nothing else was started'
before=$(started)
workers=$(fields "$(facts c)" pid)
now_is
kill_tallyd c
for pid in $workers; do until_true 2 gone "$pid" || fail "worker $pid of the killed one is still there"; done
settle 'the third was killed' a b
after=$(who a b)
is "$(touched "$again" "$after")" '' 'what the others had, they have untouched'
is "$(stayed "$again" "$after" | wc -l)" 8 'all of it'
is $(($(started) - before)) 4 'a worker was started for what the dead one had, and for nothing else'
for i in a b; do is "$(INSTANCE=$i status_json | jq .lost_events)" 0 "$i never lost anything"; done

end "$LOAD"
is $? 0 'each record was delivered'
written=$(sed -n 's/^records=\([0-9]*\) .*/\1/p' "$T/load.log")
records() { { facts a; facts b; } | sed -n 's/.* records=\([0-9]*\).*/\1/p' | sum; }
eventually 'and counted once' records "^$written\$"
all_same_as_oracle 'in the end' a b
clean a b

end "$WATCH"
is $? 0 'at no time did two tables say ready for one partition'
like "$(tail -n 1 "$T/watch.log")" '^looks=[0-9]{5,} overlaps=0$' 'somebody has looked all the time'
for i in "${READERS[@]}"; do
	end "${i#*:}"
	is $? 0 "no reader of ${i%:*} got an answer that it should not have got"
	note "readers of ${i%:*}: $(tail -n 1 "$T/readers-${i%:*}.log")"
done
for i in a b; do stop_tallyd $i; is $? 0 "$i stops in order"; done
done_testing
