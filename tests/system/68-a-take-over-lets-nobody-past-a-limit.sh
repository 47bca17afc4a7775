# 68-a-take-over-lets-nobody-past-a-limit.sh - one of two instances dies while tenants are at their limits: the
# other one takes its partitions over, and has to count what is in them before it gives their share away.
. "$(dirname "$0")/ask.sh"

LIMIT=800
broker partitions=8
limits full=$LIMIT half=$LIMIT
for i in a b; do start_tallyd $i limits.file="$T/limits.yaml" produce.interval=2s; done
parts() { INSTANCE=$1 status_json | jq -r '[.partitions[] | select(.ready) | .partition] | join(" ")'; }
for i in a b; do INSTANCE=$i; wait_ready 4 60; wait_asked; done

# Both are as full as their share of the limit lets them be.  What is to be counted anew takes a while.
read -ra here <<<"$(parts a)"
read -ra there <<<"$(parts b)"
for p in "${there[@]}"; do produce --partition "$p" --partitions 8 --records 300000 --tenants 20 --tenant-prefix filler- --streams 20000; done
for i in a b; do
	INSTANCE=$i
	ask --tenant full --streams $((4 * LIMIT)) --per-request 50 --service frontend --seed "$SEED" --out "$T/$i.txt"
done
known() { cat "$T/a.txt" "$T/b.txt" | awk '$7 == "accepted" { print $4 }' | sort -u | wc -l; }
is "$(known)" "$LIMIT" "two instances let $LIMIT streams in, half each"
eventually 'all of them are handed to Kafka' 'outbox a; outbox b' $'^0\n0$'

# New streams of a partition that stays where it is, and known ones, are asked for all along.
INSTANCE=a
ask_start full --service frontend --tenant full --first 100000 --streams 0 --rounds 0 --partition "${here[0]}" --partitions 8 \
	--rate 200 --seconds 120 --seed "$SEED" --out "$T/full.txt"
full=$PID
ask_start half --service frontend --tenant half --first 200000 --streams 0 --rounds 0 --partition "${here[1]}" --partitions 8 \
	--rate 5 --seconds 120 --seed "$SEED" --out "$T/half.txt"
half=$PID
perl -lane 'print $F[3] if $F[6] eq "accepted" && $F[3] % 8 == '"${here[0]}" "$T/a.txt" "$T/b.txt" | sort -u >"$T/known.hashes"
ask_start known --service frontend --tenant full --hashes "$T/known.hashes" --rounds 0 --rate 50 --seconds 120 --out "$T/known.txt"
known=$PID
kill_tallyd b
eventually 'the other instance takes over' 'parts a' '^0 1 2 3 4 5 6 7$' 60
sleep 2	# and goes on
for pid in $full $half $known; do kill -TERM "$pid"; wait "$pid"; done
results() { awk -v n="$1" '{ c[$7]++ } END { printf "%d %d %d\n", c["accepted"], c["rejected"], c["failed"] }' "$1"; }
read -r accepted rejected failed <<<"$(results "$T/full.txt")"
note "full: $accepted accepted, $rejected rejected, $failed failed while it was not known; half: $(results "$T/half.txt"); known: $(results "$T/known.txt")"
is "$accepted" 0 'no new stream of the full tenant is let in meanwhile'
is "$(results "$T/known.txt" | cut -d' ' -f 2-)" '0 0' 'known streams of it are accepted all along'
ok 'new ones are refused' test "$rejected" -gt 100
is "$(active full)" "$LIMIT" "it has $LIMIT streams, all in one instance now"
read -r accepted rejected failed <<<"$(results "$T/half.txt")"
is "$rejected $failed" '0 0' 'a tenant with room is served all along'
ok 'and its streams come in' test "$accepted" -gt 20

# Now that all are counted the whole limit is given by one.
ask --tenant half --streams $((4 * LIMIT)) --per-request 50 --service frontend --seed "$SEED"
is "$(active half)" "$LIMIT" 'up to the limit'
ask --tenant full --first 500000 --streams 100 --service frontend --seed "$SEED"
is "$(said accepted rejected failed)" '0 100 0' 'and not past it'
stop_tallyd a || fail 'it stops in order'
done_testing
