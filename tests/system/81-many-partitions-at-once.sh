# 81-many-partitions-at-once.sh - 256 partitions come at once, half of them go at once when a second instance joins,
# and come back at once when it leaves; 64 of them in a run_dir of 64 MiB.
# broker: embedded (any will do)
if [ -z "${OWN_MOUNTS:-}" ]; then
	for how in -m -rm; do
		unshare $how mount -t tmpfs tmpfs /mnt 2>/dev/null && OWN_MOUNTS=1 exec unshare $how bash "$0"
	done
fi
. "$(dirname "$0")/ask.sh"
[ -n "${OWN_MOUNTS:-}" ] || skip_all 'no mount namespace with a tmpfs in it can be had here'

MANY=${MANY:-256}
options=(kafka.session_timeout=10s replay.concurrency=16)
broker partitions="$MANY"
produce --records 30000 --tenants 3 --streams 2000 --seed "$SEED"
mkdir "$T/a"
mount -t tmpfs -o size=1G,mode=2750 tmpfs "$T/a"
restarts() { status_json | jq '[.partitions[].restarts] | add // 0'; }
replaying() { status_json | jq '[.partitions[] | select(.state == "replaying")] | length'; }

start_tallyd a "${options[@]}"
most=0
for ((end = SECONDS + 90; SECONDS < end; )); do
	n=$(replaying)
	[ "$n" -le "$most" ] || most=$n
	[ "$(ready_count)" != "$MANY" ] || break
done
is "$(ready_count)" "$MANY" "$MANY partitions that come at once are served"
ok "and never more than 16 replayed at once ($most seen)" test "$most" -le 16
is "$(restarts)" 0 'no worker had to be started again'
same_as_oracle 'all is counted'

# Half of them go.
start_tallyd b "${options[@]}"
both() { echo "$(INSTANCE=a ready_count) $(INSTANCE=b ready_count)"; }
wait_until both "^$((MANY / 2)) $((MANY / 2))\$" 90
is "$(INSTANCE=b restarts)" 0 'another instance takes over what goes at once, without restarts'
INSTANCE=a
a=$((MANY / 2))
same_as_oracle 'all is counted'
gone_dirs() { find "$T/a" -maxdepth 1 -name 'p*' | wc -l; }
eventually 'what went left nothing behind' gone_dirs "^$a\$"
stop_tallyd b
eventually 'and all comes back' ready_count "^$MANY\$" 90
same_as_oracle 'as it was'
wait_asked
ask --tenant t --streams $((MANY * 4)) --per-request 100 --concurrency 4 --seed "$SEED"
is "$(said accepted rejected failed)" "$((MANY * 4)) 0 0" 'questions over all of them are answered'
stop_tallyd || fail 'it stops in order'

# 64 partitions in 64 MiB.
TOPIC=small PARTITIONS=64
broker_do topic small 64
produce --records 20000 --tenants 3 --streams 2000 --seed "$SEED" --partitions 64
mkdir "$T/c"
mount -t tmpfs -o size=64M,mode=2750 tmpfs "$T/c"
start_tallyd c "${options[@]}" kafka.group=c
wait_ready 64 60
same_as_oracle '64 partitions fit into a file system of 64 MiB'
note "$(df -k --output=used "$T/c" | tail -n 1) KiB used"
is "$(status_json | jq -c '[.partitions[].stats.problems] | unique')" '[""]' 'and nothing is wrong'
stop_tallyd || fail 'it stops in order'
done_testing
