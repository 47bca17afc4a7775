# 75-clocks-that-jump.sh - wall time goes forward by a day and back by an hour under a running service, then
# the machine sleeps for an hour: nothing is deleted or forgotten for a leap, no limit opens, what comes is
# counted; after a sleep nothing is inserted before the lease is renewed, and what has expired has expired.
# broker: embedded (its clock stays where it is)
. "$(dirname "$0")/ask.sh"

"${CC:-cc}" -shared -fPIC -o "$T/clock.so" tests/tools/preload/clock.c -ldl || bail 'no clock that can be moved'
le64() { local i; for i in 0 8 16 24 32 40 48 56; do printf "\\x$(printf %02x $(($1 >> i & 255)))"; done; }
# clock WALL_MS BOOT_MS: how far off they are.
clock() { { le64 "$1"; le64 "$2"; } | dd of="$T/clock" conv=notrunc status=none; }
clock 0 0
for program in tallyd tally-worker tally-queryd; do
	printf '#!/bin/sh\nexport ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0" TEST_CLOCK=%s LD_PRELOAD=%s\nexec "%s" "$@"\n' "$T/clock" "$T/clock.so" "$B/$program" >"$T/$program"
	chmod 755 "$T/$program"
done
HOUR=3600000
DAY=$((24 * HOUR))

broker partitions=2
load() { produce --records 2000 --tenants 1 --streams 400 --popularity each --seed "$SEED" "$@"; }
load --spread 100m
echo 'overrides: {}' >"$T/limits.yaml"
TALLYD_PROGRAM=$T/tallyd start_tallyd a kafka.session_timeout=30s supervisor.worker_program="$T/tally-worker" \
	supervisor.query_program="$T/tally-queryd" limits.file="$T/limits.yaml" limits.max_global_streams_per_user=400
wait_ready 2

post() { curl -sS --max-time 10 -H 'Content-Type: application/json' --data-binary "$2" "http://$(http_address)$1"; }
# ask HASH...: what becomes of them.
ask() { post /api/v1/exceeds-limits "{\"tenant\":\"tenant-0\",\"streams\":[$(printf ',{"streamHash":%s,"totalSize":1}' "$@" | cut -c2-)]}" | jq -c '[.accepted, .rejected, .failed]'; }
streams() { http /api/v1/tenants/tenant-0 | jq -c '[.streams, .basis.answered]'; }
sums() { status_json | jq -c "[.partitions[].stats | .$1] | add"; }
problems() { status_json | jq -r '[.partitions[].stats.problems] | join("|")'; }
workers() { slots | cut -d' ' -f1-3; }
wait_until streams '^\[[1-9][0-9]*,2\]$'
wait_until 'ask 1' '^\[0,1,0\]$'
before=$(streams) stored=$(sums streams_stored) held=$(workers)
known=$(http '/api/v1/tenants/tenant-0/streams?limit=1' | jq -r '.streams[0].hash')

# all_from NEXT: what was loaded since then is in; our own records may be, too.
all_from() { [ "$(sums next_offset)" -ge $(($1 + 2000)) ] && [ "$(sums lag)" = 0 ]; }
# unmoved NAME: as before the leap.
unmoved()
{
	eventually "$1: an alarm is raised by each worker" problems '^clock_off\|clock_off$'
	is "$(streams)" "$before" '... all streams are still active'
	is "$(ask "$known")" '[1,0,0]' '... a known one comes in'
	is "$(ask 1 2 3)" '[0,3,0]' '... and no new one: the limit is what it was'
	next=$(sums next_offset)
	load
	eventually '... records are counted' "all_from $next"
	is "$(streams)" "$before" '... as the streams that they are'
	is "$(sums streams_stored) $(sums swept)" "$stored 0" '... nothing is swept'
	is "$(sums skipped.too_old)" 0 '... no record is too old'
	is "$(workers)" "$held" '... and no store is built anew'
}

clock $DAY 0
unmoved 'forward by a day'
clock 0 0
eventually 'when it comes back, the alarm is over' problems '^\|$'
before=$(streams)
is "$before" '[400,2]' 'all have been seen meanwhile'
clock -$HOUR 0
unmoved 'back by an hour'
clock 0 0
eventually 'when it comes back, the alarm is over' problems '^\|$'

# --- the machine sleeps ---------------------------------------------------------------------------

# tallyd is held, so that it is seen who needs its lease.
commits() { facts | sed -E 's/.* commits=([0-9]+) .*/\1/'; }
kill -STOP "${TALLYD[a]}"
clock $HOUR $HOUR
eventually 'after an hour of sleep no lease holds' problems '^lease_over\|lease_over$'
at=$(commits) next=$(sums next_offset)
load
eventually 'what comes is held back' 'sums lag' '^2[0-9]*$'
is "$(commits) $(sums next_offset)" "$at $next" 'and not inserted'
is "$(ask "$known")" '[0,0,0]' 'nobody is answered'
is "$(curl -s -o /dev/null -w '%{http_code}' "http://$(http_address)/ready")" 503 'nothing is ready'
kill -CONT "${TALLYD[a]}"
eventually 'with a new lease it is inserted' "all_from $next"
wait_ready 2
is "$(workers)" "$held" 'by the same workers, into the same stores'
eventually 'and answered' "ask $known" '^\[1,0,0\]$'
is "$(problems)" '|' 'nothing is wrong'

# What was asleep for longer than the window is forgotten by all alike, and stays forgotten.
clock $((4 * HOUR)) $((4 * HOUR))
eventually 'after a sleep that is longer than the window all streams have expired' streams '^\[[0-9],2\]$'
eventually 'and others come in' 'ask 1 2 3' '^\[3,0,0\]$'
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
