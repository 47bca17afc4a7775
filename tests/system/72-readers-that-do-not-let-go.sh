# 72-readers-that-do-not-let-go.sh - readers are killed in the middle of a call, stopped in one while the data
# are turned over many times, and take all slots there are, or spoil the lock file: it is said who they are, the
# service stays up, a store that fills up for it waits, and all goes on by itself when they are gone.
. "$(dirname "$0")/lib.sh"

broker partitions=2
many() { produce --partition 0 --tenants 1 --streams 6000 --popularity each --seed "$SEED" --records "$1"; }
turn_over() { many 300; }	# few of them lie in nearly all blocks
produce --partition 1 --records 500 --tenants 2 --streams 100 --seed "$SEED"
many 6000
start_tallyd a store.map_size=8MiB store.readers=40 query.http_threads=2
wait_ready 2

dir_of() { echo "$T/a/p$1.$(generation_of "$1")"; }
taken() { part "$1" stats.readers; }
problems() { part "$1" stats.problems; }
metric() { http /metrics | sed -n "s/^$1{partition=\"$2\"} //p"; }
usage() { http /api/v1/tenants/tenant-0 | jq -c '[.streams, .basis.answered]'; }
# hold NAME HOW...: a reader that holds what it has; its pid in $PID.
hold() { spawn "$1" "$B/tests/store-spoil" "${@:2}"; wait_until "cat '$T/$1.log'" "^holding $PID"; }
let_go() { kill -KILL "$1"; wait "$1" 2>/dev/null; }

wait_until usage '^\[[1-9][0-9]*,2\]$'
# The worker and the query process have a slot each or two.
few() { [ "$(taken 0)" -ge 1 ] && [ "$(taken 0)" -le 10 ]; }
eventually 'the slots that are taken are known' few

# --- killed while they hold slots -----------------------------------------------------------------

hold killed slots "$(dir_of 0)" 20
eventually 'a reader takes slots' '[ "$(taken 0)" -gt 20 ]'
let_go "$PID"
eventually 'they are free again when it has been killed' few

# --- stopped in the middle of a call --------------------------------------------------------------

held=$(slots | cut -d' ' -f1-3) used=$(part 0 stats.store_bytes)
hold stopped hold "$(dir_of 0)"
reader=$PID
kill -STOP "$reader"
for i in 1 2 3 4; do turn_over; done
eventually 'who it is can be seen in the status' 'part 0 stats.reader_pid' "^$reader\$"
eventually 'and in the metrics' 'metric tally_store_oldest_reader_pid 0' "^$reader\$"
like "$(metric tally_store_reader_lag_transactions 0)" '^[1-9]' 'and by how much it is behind'
eventually 'it is a note of the status when it lasts' 'problems 0' old_reader
like "$(grep 'worker\[0\].*store.old_reader ' "$T/a.log")" "pid=$reader .*action=" 'and one line of the log, with what to do'
is "$(problems 1)" '' 'the other store has no part in it'
# Pages that it may still look at are not used again.
full() { turn_over; matches 'problems 0' store_full; }
eventually 'a store that fills up for it is full, and says so' full '' 40
ok 'it has not grown beyond its map' test "$(part 0 stats.store_bytes)" -le $((8 << 20))
ok 'the data were turned over many times' test "$(part 0 stats.store_bytes)" -gt $((5 * used))
is "$(ready_count)" 2 'the partition stays ready'
like "$(usage)" '^\[[1-9][0-9]*,2\]$' 'and what has been counted is answered'
is "$(slots | cut -d' ' -f1-3)" "$held" 'nobody died of it'
produce --partition 1 --records 100 --tenants 2 --streams 100 --seed "$SEED"
eventually 'the other partition goes on' 'part 1 stats.lag' '^0$'
kill -CONT "$reader"
let_go "$reader"
eventually 'when it is gone, the partition goes on by itself' 'echo "$(part 0 stats.lag) $(problems 0)"' '^0 $'
is "$(part 0 stats.reader_pid)" 0 'nobody is behind any more'
like "$(grep 'worker\[0\].*store.old_reader_gone ' "$T/a.log")" 'free=' 'which is logged'
is "$(slots | cut -d' ' -f1-3)" "$held" 'with the same workers and stores'
same_as_oracle 'nothing is lost, nothing is counted twice'

# --- all slots taken ------------------------------------------------------------------------------

hash=$(http '/api/v1/tenants/tenant-0/streams?limit=50' | jq -r '[.streams[].hash | select(test("[02468]$"))][0]')
hold greedy slots "$(dir_of 0)" 100
eventually 'a reader takes all slots' 'taken 0' '^40$'
ctl stream tenant-0 "$hash" >"$T/busy.txt" 2>&1
like "$? $(cat "$T/busy.txt")" '^[1-9] .*reader slots' 'others are told so'
like "$(usage)" '^\[[1-9][0-9]*,2\]$' 'the query process has its own'
turn_over
eventually 'the worker needs none' 'part 0 stats.lag' '^0$'
let_go "$PID"
eventually 'when it is gone, all can read' "ctl stream tenant-0 $hash"
stop_tallyd
is $? 0 'tallyd stops in order'

# --- the lock file, which members of the group may write ------------------------------------------

start_tallyd a supervisor.hang_timeout=1s supervisor.restart_min=50ms
wait_ready 2
mark() { MARK=$(wc -l <"$T/a.log"); generation=$(generation_of 0) other=$(slots | grep '^1 ' | cut -d' ' -f1-3); }
log_since() { tail -n +$((MARK + 1)) "$T/a.log"; }
opens() { "$B/tests/store-dump" --run-dir "$T/a" --at "$(now_ms)" >/dev/null 2>&1 && echo yes; }
# right_again WHAT: all is counted, once, and the other partition did not notice.
right_again()
{
	produce --partition 0 --records 100 --tenants 2 --streams 100 --seed "$SEED"
	# A worker looks once a second at what only new readers would meet.
	eventually "$1: records that come later are counted" 'echo "$(part 0 stats.lag) $(state_of 0) $(opens)"' '^0 ready yes$' 60
	same_as_oracle '... nothing is lost, nothing is counted twice'
	is "$(slots | grep '^1 ' | cut -d' ' -f1-3)" "$other" '... and the other partition did not notice'
}

mark
hold mutexes mutexes "$(dir_of 0)"
turn_over
eventually "who holds LMDB's mutexes has the store built anew" '[ "$(generation_of 0)" != "$generation" ] && state_of 0' ready 60
is "$(log_since | grep -c 'worker.hung partition=0')" 4 'after its worker has hung four times'
right_again 'where it holds nothing'
let_go "$PID"

mark
"$B/tests/store-spoil" garbage "$(dir_of 0)" "$SEED"
right_again 'garbage over the lock file'
note "$(log_since | grep -E 'worker.(died|rebuild|failed)' | cut -c1-160)"

mark
"$B/tests/store-spoil" transaction "$(dir_of 0)" 12345678901
right_again 'a false number of the last transaction'
like "$(log_since | grep 'worker.rebuild')" 'partition=0 .*reason=corrupt' '... because its worker has found the store out'
isnt "$(generation_of 0)" "$generation" '... and has another'
stop_tallyd
is $? 0 'tallyd stops in order'

# --- another PID namespace ------------------------------------------------------------------------

start_tallyd
wait_ready 2
if unshare --fork --pid true 2>/dev/null; then
	unshare --fork --pid "$B/tallyctl" -d "$T/a" tenants >"$T/namespace.txt" 2>&1
	like "$? $(cat "$T/namespace.txt")" '^2 .*PID namespace.*tally-queryd' 'a reader of another PID namespace is refused: nobody would know that it lives'
	is "$(find "$T/a" -name lock.mdb -newer "$T/namespace.txt")" '' 'it has not come near a store'
else
	skip 'no PID namespace can be had here'
fi
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
