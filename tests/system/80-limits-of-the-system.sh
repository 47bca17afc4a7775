# 80-limits-of-the-system.sh - few open files, little address space, few processes, a store that asks for
# gigabytes, a worker that is killed for want of memory: a line that says what to allow, no storm of
# restarts, the rest goes on, and with more allowed all goes on by itself.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

broker partitions=8
produce --records 4000 --tenants 2 --streams 200 --seed "$SEED"

# start_under LIMIT...: tallyd under limits of ulimit.
start_under()
{
	: >"$T/a.log"
	spawn a bash -c 'ulimit "$@"; shift $#; exec "$0" -c "$FILE"' "$B/tallyd" "$@"
	TALLYD[a]=$PID
	wait_until 'state_of 7' '^[a-z]' 30
}
export FILE="$T/a.yaml"
write_config a supervisor.restart_max=2s
complete() { http '/api/v1/tenants?limit=9' | jq -c '[.basis.answered, .basis.complete]'; }
lines() { grep -c "$1" "$T/a.log"; }
# calm NAME EVENT MOST: so many lines of an event at most.
calm() { ok "$1" test "$(lines "$2")" -le "$3"; }

# --- open files ----------------------------------------------------------------------------------

start_under -S -n 64
wait_ready 8
is "$(complete)" '[8,true]' '64 open files are enough for eight partitions'
prlimit --pid "${TALLYD[a]}" --nofile=12: || die 'prlimit'	# fewer than it has
kill -KILL "$(pid_of 3)"
eventually 'a worker that cannot be started is said, with what to allow' \
	"grep -m 1 'worker.start_failed' '$T/a.log'" 'Too many open files.*action="allow more open files \(LimitNOFILE\)"'
eventually 'the status shows it' 'ctl status' ' failed .*Too many open files'
sleep 3
calm 'and it is tried again ever more seldom' worker.start_failed 10
is "$(ready_count)" 7 'the others go on'
ask --tenant t --streams 80 --per-request 1 --seed "$SEED"
is "$(said ok status14)" "$(said accepted) $((80 - $(said accepted)))" 'nothing is accepted by silence'
prlimit --pid "${TALLYD[a]}" --nofile=1024: || die 'prlimit'
wait_ready 8 30
pass 'with more allowed it is started'
stop_tallyd

# --- address space -------------------------------------------------------------------------------

# A sanitizer reserves terabytes of it.
if [ "$(grep -ac -e __asan_init -e __tsan_init "$B/tally-worker")" != 0 ]; then
	skip 'a sanitizer needs all the address space there is'
else
	start_under -S -v 2000000	# eight maps of 1 GiB are more
	wait_ready 8
	wait_asked
	ask --tenant t --streams 160 --per-request 1 --seed "$SEED"
	ok 'a query process that cannot map all stores fails what it cannot look up' test "$(said failed)" -gt 0
	is "$(said rejected status14)" '0 0' 'and says nothing else of it'
	like "$(grep -m 1 'ask.unreadable' "$T/a.log")" 'out of memory.*LimitAS' 'in a line that says what to allow'
	like "$(http /metrics)" 'tally_partition_ready\{partition="7"\} 1|tally_partitions_ready 8' 'its metrics are there'
	stop_tallyd
	start_under -S -v 600000
	eventually 'workers that cannot map their store say so' "grep -m 1 'worker.failed' '$T/a.log'" 'error=nomem action=.*LimitAS'
	sleep 3
	calm 'and are started ever more seldom' worker.died 80
	prlimit --pid "${TALLYD[a]}" --as=unlimited: || die 'prlimit'
	wait_ready 8 30
	pass 'with more allowed they start'
	same_as_oracle 'nothing is lost, nothing is counted twice'
	stop_tallyd
fi

# --- memory that a spoilt store asks for ------------------------------------------------------------

: >"$T/a.log"
rm -rf "$T"/a/p*	# what was admitted is in no log
# A sanitizer's malloc fails only if it is told so.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1"
start_tallyd a
wait_ready 8
wait_until 'complete' '8,true'
is "$(prlimit --noheadings --raw --output SOFT --data --pid "$(pid_of 5)" | grep -c '^[0-9]*$')" 1 'the memory of a worker has a bound'
generation=$(generation_of 5) rest=$(slots | grep -v '^5 ' | cut -d' ' -f1-4)
ok 'values say that they have 5 TB' test "$("$B/tests/store-spoil" counts "$T/a/p5.$generation" 1340000000)" -gt 0
produce --partition 5 --records 1000 --tenants 2 --streams 200 --seed "$SEED"
like "$(wait_until "grep 'worker.rebuild' '$T/a.log'" . 30; grep 'worker\[5\] warn worker.rebuild' "$T/a.log")" \
	'reason=corrupt why="the store asks for more memory than a good one can need"' 'a worker that would need 10 GB for them says so'
wait_ready 8
isnt "$(generation_of 5)" "$generation" 'and has another store'
is "$(lines 'worker.died\|query.died')" 0 'nobody died of it'
is "$(slots | grep -v '^5 ' | cut -d' ' -f1-4)" "$rest" 'the others noticed nothing'
same_as_oracle 'nothing is lost, nothing is counted twice'
stop_tallyd

# --- processes and memory: control groups --------------------------------------------------------

# group KIND FILE1 FILE2 VALUE: a new one with this limit (version 1, version 2); its directory in $GROUP.
group()
{
	local at=/sys/fs/cgroup/$1
	[ -d "$at" ] || at=/sys/fs/cgroup
	GROUP=$at/tally-test-$$-$1
	mkdir "$GROUP" 2>/dev/null || return 1
	GROUPS_MADE+=("$GROUP")
	echo "$4" 2>/dev/null >"$GROUP/$2" || echo "$4" 2>/dev/null >"$GROUP/$3"
}
GROUPS_MADE=()
end_groups() { local g; for g in "${GROUPS_MADE[@]}"; do until_true 5 rmdir "$g"; done; }

if group pids pids.max pids.max 45; then
	: >"$T/a.log"
	spawn a bash -c 'echo $$ >"$1/cgroup.procs"; exec "$0" -c "$FILE"' "$B/tallyd" "$GROUP"
	TALLYD[a]=$PID
	eventually 'with few processes allowed, what cannot be started is said' \
		"grep -E -m 1 'start_failed|worker.failed|library_failed|worker.died' '$T/a.log'" .
	sleep 4
	note "$(grep -v ' debug ' "$T/a.log" | grep -E ' (warn|error) ' | sed 's/^[^ ]* //; s/generation=[0-9]*//; s/pid=[0-9]*//; s/partition=[0-9]*//' | sort | uniq -c | sort -rn | head -n 5)"
	like "$(grep -E ' error ' "$T/a.log")" 'TasksMax' 'with what to allow'
	calm 'no storm of restarts' 'worker.died\|start_failed' 100
	ok 'the supervisor lives' alive "${TALLYD[a]}"
	echo 1000 >"$GROUP/pids.max"
	wait_ready 8 40
	same_as_oracle 'with more allowed all are served'
	stop_tallyd
else
	skip 'no control group can be made for the number of processes'
fi

: >"$T/a.log"
start_tallyd a
wait_ready 8
if group memory memory.limit_in_bytes memory.max 6M; then
	before=$(slots | sed -n '1,3p;5,8p' | cut -d' ' -f1-3) victim=$(pid_of 3)
	echo "$victim" >"$GROUP/cgroup.procs"
	produce --partition 3 --records 100000 --tenants 3 --streams 100000 --popularity each --tenant-prefix large- --seed "$SEED"
	eventually 'a worker that is killed for want of memory is started again' 'part 3 restarts; pid_of 3' '^[1-9][0-9]*'$'\n''[1-9]' 40
	isnt "$(pid_of 3)" "$victim" 'as another process'
	like "$(grep -m 1 'worker.died partition=3' "$T/a.log")" 'signal=9|signal=KILL|SIGKILL|Killed' 'its death is said'
	eventually 'and goes on' 'part 3 stats.lag; state_of 3' $'^0\nready$' 40
	is "$(slots | sed -n '1,3p;5,8p' | cut -d' ' -f1-3)" "$before" 'the others noticed nothing'
	same_as_oracle 'nothing is lost, nothing is counted twice'
else
	skip 'no control group can be made for memory'
fi
stop_tallyd || fail 'it stops in order'
end_groups
done_testing
