# 41-a-full-file-system-is-a-state.sh - the file system fills up during a replay and under a live
# partition, then the map of a store: said, not died of; what was counted stays readable; with room
# again it goes on by itself, and nothing is lost or doubled.
#
# The run directory is a small tmpfs in a mount namespace of this test's own.
if [ -z "${OWN_MOUNTS:-}" ]; then
	for how in -m -rm; do
		unshare $how mount -t tmpfs tmpfs /mnt 2>/dev/null && OWN_MOUNTS=1 exec unshare $how bash "$0"
	done
fi
. "$(dirname "$0")/lib.sh"
[ -n "${OWN_MOUNTS:-}" ] || skip_all 'no mount namespace with a tmpfs in it can be had here'

broker partitions=4
load() { produce --tenants 2 --streams 200 --seed "$SEED" "$@"; }
mkdir "$T/a"
mount -t tmpfs -o size=6M,mode=2750 tmpfs "$T/a"
resize() { mount -o "remount,size=$1" "$T/a" || die "remount with $1"; }
free_kib() { df -k --output=avail "$T/a" | tail -n 1 | tr -d ' '; }
problems_of() { part "$1" stats.problems; }
pids() { slots | cut -d' ' -f1-3; }
no_restarts() { is "$(status_json | jq '[.partitions[].restarts] | add')" 0 "$1"; }
# What an answer for all tenants says, of how many partitions.
answer() { http '/api/v1/tenants?limit=100' | jq -c '[.basis.answered, [.tenants[] | [.tenant, .streams]]]'; }

load --records 4000 --spread 100m
# Batches much smaller than what has to be read: so that the store fills up bit by bit.
start_tallyd a replay.batch=2000
wait_ready 4
stop_tallyd

# --- full during a replay ------------------------------------------------------------------------

produce --partition 2 --records 50000 --tenants 1 --streams 400000 --popularity each --tenant-prefix many- --seed "$SEED" --spread 90m
start_tallyd a
eventually 'a replay for which there is no room says so' 'problems_of 2' '^store_full$' 40
wait_until ready_count '^3$'
is "$(state_of 2)" replaying 'it stays in replay: what it has is not all'
ok 'the file system is really full' test "$(free_kib)" -lt 1024
like "$(ctl status)" $'\n2 .*replaying.*store_full' 'the status says it for people'
like "$(http /metrics)" 'tally_worker_problem\{partition="2",problem="store_full"\} 1' 'and the metrics for monitors'
like "$(grep '\.held ' "$T/a.log")" 'worker\[2\].*reason=full.*action=' 'and the log, with what to do'
is "$(answer | jq -c '.[0]')" 3 'the others answer'
held=$(pids) next=$(part 2 stats.next_offset)
ok 'part of it has been counted before' test "$next" -gt 1000
# Records of streams that are known need little or nothing.
load --partition 0 --records 200 --seed "$SEED"
eventually 'and go on counting' 'part 0 stats.lag' '^0$'
same_as_oracle 'all that is in the stores is right'
is "$(pids)" "$held" 'nobody died of it'
no_restarts 'no worker had to be started again'

# Also a worker that is started now finds its store and the same state.
kill -KILL "$(pid_of 2)"
eventually 'one that is started now says so, too' 'part 2 restarts; state_of 2; problems_of 2; pid_of 2' $'^1\nreplaying\nstore_full\n[1-9]'
# It may find room for a batch more: what its predecessor had reserved.
ok 'and goes on from where it stood' test "$(part 2 stats.next_offset)" -ge "$next"
held=$(pids)

resize 64M
eventually 'with more room it goes on by itself' 'state_of 2' '^ready$'
is "$(status_json | jq -c '[.partitions[].stats.problems] | unique')" '[""]' 'and nothing is wrong any more'
is "$(pids)" "$held" 'with the same workers and stores'
like "$(grep 'worker\[2\].*\.resumed ' "$T/a.log")" 'after=full held_ms=' 'which is logged'
same_as_oracle 'nothing is lost, nothing is counted twice'

# --- full under live partitions ------------------------------------------------------------------

before=$(answer)
dd if=/dev/zero of="$T/a/filler" bs=64k status=none 2>/dev/null
dd if=/dev/zero of="$T/a/filler" bs=1k seek=$(($(stat -c %s "$T/a/filler") / 1024)) conv=notrunc status=none 2>/dev/null
is "$(free_kib)" 0 'something else has filled it up'
produce --records 20000 --tenants 1 --streams 20000 --popularity each --tenant-prefix more- --seed "$SEED"
eventually 'live partitions say so' "status_json | jq '[.partitions[] | select(.stats.problems == \"store_full\")] | length'" '^[1-4]$'
is "$(ready_count)" 4 'they stay ready'
is "$(answer | jq -c '[.[0], [.[1][] | select(.[0] | startswith("more-") | not)]]')" "$before" 'what was counted is still answered'
eventually 'what is new waits' "status_json | jq '[.partitions[].stats.lag] | add'" '^[1-9]'
like "$(curl -s -o /dev/null -w '%{http_code}' "http://$(http_address)/api/v1/tenants/tenant-0")" 200 'over HTTP, too'
is "$(pids)" "$held" 'nobody died of it'
# Neither tallyd nor its workers need any room to be killed and to come back.
victim=$(status_json | jq '[.partitions[] | select(.stats.problems == "store_full")][0].partition')
kill -KILL "$(pid_of "$victim")"
wait_until "state_of $victim" '^ready$|^replaying$'
same_as_oracle 'all that is in the stores is right'
rm "$T/a/filler"
eventually 'with room again they go on' "status_json | jq '[.partitions[].stats.lag] | add'" '^0$'
eventually 'and nothing is wrong any more' "status_json | jq -c '[.partitions[].stats.problems] | unique'" '^\[""\]$'
same_as_oracle 'nothing is lost, nothing is counted twice'
stop_tallyd
is $? 0 'tallyd stops in order'

# --- full before the start -----------------------------------------------------------------------

rm -r "$T"/a/p*
dd if=/dev/zero of="$T/a/filler" bs=64k status=none 2>/dev/null
"$B/tallyd" -c "$T/a.yaml" >"$T/refused.txt" 2>&1
is "$? $(grep -vc 'leftover.foreign name=filler' "$T/refused.txt")" '1 1' 'a supervisor that has no room for its table is refused with one line'
like "$(tail -n 1 "$T/refused.txt")" "$T/a: .*full; make room" 'that says so'
# Room for the table, then for the counters of some workers, then for a store or two.
truncate -s $(($(stat -c %s "$T/a/filler") - 148 * 1024)) "$T/a/filler"
: >"$T/a.log"
start_tallyd a
wait_until owned_count '^4$' 40
eventually 'workers that have no room for a store say so' "grep -c 'worker.no_room\|reason=full\|error=full' '$T/a.log'" '^[1-9]'
truncate -s $(($(stat -c %s "$T/a/filler") - 600 * 1024)) "$T/a/filler"
eventually 'those that have some room wait for more' "status_json | jq '[.partitions[] | select(.stats.problems == \"store_full\")] | length'" '^[1-4]$'
ok 'and tallyd lives' alive "${TALLYD[a]}"
rm "$T/a/filler"
wait_ready 4 60
same_as_oracle 'with room again all are served'
stop_tallyd

# --- the map is full -----------------------------------------------------------------------------

start_tallyd b kafka.group=b store.map_size=1MiB replay.batch=2000
eventually 'a map that is full is the same state' 'problems_of 2' '^store_full$' 40
wait_until ready_count '^[1-3]$'
is "$(state_of 2)" replaying 'a replay stays one'
ok 'part of it has been counted before' test "$(part 2 stats.next_offset)" -gt 1000
same_as_oracle 'all that is in the stores is right'
no_restarts 'nobody died of it'
before=$(slots | cut -d' ' -f1,3) next=$(part 2 stats.next_offset)
stop_tallyd
start_tallyd b kafka.group=b store.map_size=256MiB replay.batch=2000
wait_ready 4 60
is "$(slots | cut -d' ' -f1,3)" "$before" 'with a larger map the same stores are adopted'
is "$(part 2 stats.replay.start_offset)" "$next" 'and go on where they stood'
same_as_oracle 'nothing is lost, nothing is counted twice'
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
