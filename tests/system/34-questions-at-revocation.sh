# 34-questions-at-revocation.sh - partitions move while they are asked about: what was accepted is at the
# next owner, with its bytes, and what an instance does not have any more it refuses.
. "$(dirname "$0")/ask.sh"

MOVES=${MOVES:-3}
# A worker may take its time to hand over what it has: the machine is busy.
options=(limits.max_global_streams_per_user=0 supervisor.drain=3s supervisor.revoke_deadline=10s)

# load INSTANCE: new streams, each asked for once, until load_end.
load()
{
	n=$((n + 1))
	INSTANCE=$1 ask_start "load-$1" --tenant moving --streams 0 --first $((n * 100000000)) --rounds 0 --rate 400 --concurrency 8 \
		--seed "$SEED" --out "$T/load-$n.txt"
	LOAD[$1]=$PID
}
load_end() { kill -TERM "${LOAD[$1]}"; wait "${LOAD[$1]}"; unset "LOAD[$1]"; }
declare -A LOAD=()
n=0
caught_up() { local i; for i in "$@"; do matches "INSTANCE=$i status_json | jq '[.partitions[].stats.lag] | add'" '^0$' || return 1; done; }
both_have() { [ "$(INSTANCE=a ready_count)" -gt 0 ] && [ "$(INSTANCE=b ready_count)" -gt 0 ] && [ "$(ready_in_all 'a b')" = 8 ]; }
# nothing_lost NAME INSTANCES...: of all that was accepted so far.  Those who ask go on meanwhile, so it is
# asked what the files said before the stores were read.
nothing_lost()
{
	local i name=$1
	shift
	rm -f "$T"/said-*.txt "$T/all.dump"
	for ((i = 1; i <= n; i++)); do cp "$T/load-$i.txt" "$T/said-$i.txt"; sed -i '$d' "$T/said-$i.txt"; done # its last line may be half written
	wait_until "caught_up $*"
	for i in "$@"; do dump_store "$i" "$T/$i.dump"; cat "$T/$i.dump" >>"$T/all.dump"; done
	is "$(judge "$T/all.dump" "$T"/said-*.txt | grep -v 'nobody asked for it')" '' "$name"
}
states() { awk '{ print $7 }' "$T"/load-*.txt | sort | uniq -c | awk '{ print $2 "=" $1 }' | paste -sd' ' -; }

# The front end says failed for those that it has not, stream by stream, and UNAVAILABLE to nobody.
front_end()
{
	local mine
	INSTANCE=a
	ask --service frontend --tenant front --streams 400 --per-request 100 --seed "$SEED" --out "$T/front.txt"
	mine=$(ctl --json status | jq -r '[.partitions[] | select(.ready) | .partition] | join(",")')
	perl -F'\t' -lane 'BEGIN { %mine = map { $_ => 1 } split /,/, "'"$mine"'" }
		print "$F[3]: $F[6]" if $F[6] ne ($mine{$F[3] % 8} ? "accepted" : "failed")' "$T/front.txt" >"$T/wrong.txt"
	is "$(head -n 5 "$T/wrong.txt")" '' "the front end: failed for those of others, accepted for its own ($mine)"
}

broker partitions=8
start_tallyd a "${options[@]}"
wait_ready 8
wait_asked
load a
for ((round = 1; round <= MOVES; round++)); do
	for try in 1 2 3; do
		start_tallyd b "${options[@]}"
		until_true 40 both_have && break
		[ $try != 3 ] || die 'the second was not let in in three starts'
		note "the broker's rebalance is stuck; starting the second again ($try)"
		stop_tallyd b
		INSTANCE=a wait_ready 8 60
	done
	INSTANCE=b wait_asked
	load b
	sleep 1
	nothing_lost "round $round: after half of them went to another, what was accepted is there" a b
	[ $round != 1 ] || front_end
	load_end b
	INSTANCE=b stop_tallyd b || fail 'it stops in order'
	INSTANCE=a
	wait_ready 8 60
	nothing_lost "round $round: after they came back, too" a
done
load_end a
nothing_lost 'in the end all that was accepted is there' a
is "$(judge <(grep -v ' front ' "$T/a.dump") "$T"/load-*.txt)" '' 'and nothing else'
note "$(states)"
is "$(awk '$7 !~ /^(accepted|failed|status-14)$/' "$T"/load-*.txt | head -n 3)" '' 'nobody was told anything but accepted, failed or unavailable'
ok 'most was accepted' test "$(grep -c accepted "$T/load-1.txt")" -gt 1000
ok 'while a partition was away it was refused' grep -q 'status-14' "$T/load-1.txt"
is "$(grep -c ' worker.drained ' "$T/a.log")" "$(grep -c ' state=draining ' "$T/a.log")" 'every worker that lost its partition had handed over all it had'

stop_tallyd a
is $? 0 'the last one stops in order, too'
done_testing
