# 62-limits-are-exact.sh - over 64 partitions the first stream that is rejected is number limit + 1, one at
# a time, in large requests and from many clients at once; what is known stays, what expired makes room.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

LIMITS=(1 2 63 64 65 500 1000 5000)
MORE=200	# streams that are asked for beyond each limit

# Every tenant with its limit; or all with the same.
entries() { local l kind; for l in "${LIMITS[@]}"; do for kind in one batch many policy part; do echo "$kind-$l=${1:-$l}/p=${1:-$l}"; done; done; }
# results FILE: of --out, a line for each run of equal results: "accepted 500", "rejected 200".
results() { cut -f 7 "$1" | uniq -c | awk '{ print $2, $1 }'; }
# asked KIND LIMIT OPTIONS: asks as tenant KIND-LIMIT; lines in $T/KIND-LIMIT.txt.
asked() { ask --tenant "$1-$2" --out "$T/$1-$2.txt" "${@:3}"; }
# accepted hashes of all files
accepted() { awk '$7 == "accepted" { print $4 }' "$@"; }

broker partitions=64
limits $(entries)
start_tallyd a limits.file="$T/limits.yaml" limits.max_global_streams_per_user=7
wait_ready 64 60
wait_asked

# From one client.  The lines are in the order of asking.
for l in "${LIMITS[@]}"; do
	asked one "$l" --streams $((l + MORE)) --seed "$SEED"
	is "$(results "$T/one-$l.txt" | paste -sd, -)" "accepted $l,rejected $MORE" "one at a time: number $((l + 1)) is the first to be rejected"
	asked batch "$l" --streams $((l + MORE)) --per-request 150 --seed "$SEED"
	is "$(said accepted rejected failed)" "$l $MORE 0" "150 a request: $l come in"
	is "$(active "one-$l")/$(active "batch-$l")" "$l/$l" 'and so many are active'
done
like "$(results "$T/batch-5000.txt" | head -n 1)" '^accepted (4[5-9]|5)[0-9]{3}$' 'in a request that is too large, the first ones come in'

# From three clients with eight connections and 96 calls at once, each asking for its own streams.
for l in "${LIMITS[@]}"; do
	pids=()
	for i in 1 2 3; do
		ask_start "many-$l-$i" --tenant "many-$l" --streams $((l / 3 + MORE)) --seed $((SEED + i)) --per-request $((1 + l / 200)) \
			--connections 3 --concurrency 8 --out "$T/many-$l-$i.txt"
		pids+=($PID)
	done
	wait "${pids[@]}"
	is "$(accepted "$T/many-$l"-?.txt | sort -u | wc -l)" "$l" "many at once: exactly $l of $((3 * (l / 3 + MORE))) come in"
	is "$(awk '{ print $7 }' "$T/many-$l"-?.txt | grep -vcxE 'accepted|rejected')" 0 'nobody is told anything else than yes or no'
	is "$(active "many-$l")" "$l" 'and so many are active'
done

# A policy with a limit of its own beside the others.
for l in 1 64 1000; do
	asked policy "$l" --streams $((l + MORE)) --policy p --per-request 20 --seed "$SEED"
	is "$(said accepted rejected)" "$l $MORE" "a policy's own limit of $l is exact"
	asked policy "$l" --first 1000000 --streams $((l + MORE)) --per-request 20 --seed "$SEED"
	is "$(said accepted rejected)" "$l $MORE" 'and its streams take nobody else a place'
done
ask --tenant nobody-knows --streams $((7 + MORE)) --concurrency 50 --seed "$SEED"
is "$(said accepted rejected)" "7 $MORE" 'a tenant that is not in the file has the default limit'

# Known streams stay, however low the limit becomes.
reload_limits $(entries 1)
for l in "${LIMITS[@]}"; do
	accepted "$T/many-$l"-?.txt | sort -u >"$T/known.txt"
	ask --tenant "many-$l" --hashes "$T/known.txt" --per-request 100 --concurrency 4 --rounds 2
	is "$(said accepted rejected failed)" "$((2 * l)) 0 0" "with the limit lowered to 1, all $l known ones are let in, twice"
	ask --tenant "many-$l" --streams 50 --first 5000000 --seed "$SEED" --concurrency 10
	is "$(said accepted rejected)" '0 50' 'and no new one'
done

# Expired ones make room.
reload_limits $(entries)
wait_until 'http /metrics' $'\ntally_ask_touches_waiting 0\n'	# what comes after the leap counts as seen then
set_clock 3h
for l in 1 64 500 5000; do
	is "$(active "many-$l")" 0 "three hours later none of the $l is active"
	asked one "$l" --streams $((l + MORE)) --seed $((SEED + 9)) --per-request 3
	is "$(said accepted rejected failed)" "$l $MORE 0" "$l new ones come in again"
	ask --tenant "one-$l" --streams "$l" --seed "$SEED" --per-request 50
	is "$(said accepted rejected)" "0 $l" 'an expired one is a new one: there is no place left'
done
stop_tallyd a
is $? 0 'it stops in order'

# limit_scope partition: each partition has ceil(limit / 64) places.
start_tallyd b limits.file="$T/limits.yaml" limits.scope=partition kafka.group=b
wait_ready 64 60
wait_asked
for l in "${LIMITS[@]}"; do
	share=$(((l + 63) / 64))
	asked part "$l" --streams $((4 * l + 64 * MORE / 10)) --per-request 60 --concurrency 4 --seed $((SEED + 7))
	perl -F'\t' -lane '$n{$F[3] % 64}++; $in{$F[3] % 64}++ if $F[6] =~ /^accepted/;
		END { for (0 .. 63) { my $want = $n{$_} < '$share' ? $n{$_} : '$share'; $in{$_} += 0; print "partition $_: $in{$_}, not $want" if $in{$_} != $want } }' \
		"$T/part-$l.txt" >"$T/wrong.txt"
	is "$(cat "$T/wrong.txt")" '' "by partition, a limit of $l: each lets in $share"
done
stop_tallyd b
is $? 0 'it stops in order, too'
done_testing
