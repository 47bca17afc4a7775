# 64-kafka-down-under-load.sh - no broker for DOWN seconds (60) while questions come in: they are answered,
# memory stays bounded, and when Kafka is back all that was accepted is in the log.
. "$(dirname "$0")/lib.sh"
. tests/system/ask.sh

DOWN=${DOWN:-60}
RATE=${RATE:-1500}	# new streams per second, of each of two instances
GROWN_MAX=$((64 << 10))	# KiB a process may grow by

rss() { local pid; for pid in "$@"; do awk '/^RssAnon/ { print $2 }' "/proc/$pid/status"; done | sort -g | tail -n 1; }
processes() { echo "$(INSTANCE=$1 status_json | jq .query_pid) $(fields "$(facts "$1")" pid | paste -sd' ' -)"; }
grown() { echo $(($(rss $(processes "$1")) - ${BEFORE[$1]})); }
# load INSTANCE NAME SECONDS: new streams, and known ones beside them.
load()
{
	n=$((n + 1))
	INSTANCE=$1 ask_start "$2-new" --tenant "$1-new" --streams 0 --first $((n * 100000000)) --rounds 0 --seconds "$3" --rate $((RATE / 10)) \
		--per-request 10 --concurrency 16 --deadline 4s --seed "$SEED" --out "$T/$2-new.txt"
	LOADS+=("$PID")
	INSTANCE=$1 ask_start "$2-known" --tenant "$1-known" --streams 2000 --rounds 0 --seconds "$3" --rate 20 --per-request 100 --concurrency 4 \
		--deadline 4s --seed "$SEED" --out "$T/$2-known.txt"
	LOADS+=("$PID")
}
loads_end() { local pid; for pid in "${LOADS[@]}"; do wait "$pid"; done; LOADS=(); }
LOADS=() n=0
declare -A BEFORE=()

# The lease has to outlive the outage, or partitions stop answering, as they should.
broker partitions=8
options=(limits.max_global_streams_per_user=0 kafka.session_timeout=$((DOWN * 2 + 60))s kafka.max_poll_interval=$((DOWN * 2 + 90))s produce.interval=5s)
start_tallyd a kafka.group=zone-a "${options[@]}"
wait_ready 8
wait_asked
# The other one has room for 1000 records of each partition only.
start_tallyd c kafka.group=zone-c "${options[@]}" produce.outbox=1000
wait_ready 8
wait_asked
for i in a c; do INSTANCE=$i ask --tenant $i-known --streams 2000 --per-request 100 --seed "$SEED" --out "$T/$i-first.txt"; done
for i in a c; do load $i $i-up 3; done
loads_end
for i in a c; do
	is "$(FROM=$T/$i-up-new.log said failed status14 lost)" '0 0 0' "$i: with Kafka there, every new stream comes in"
	BEFORE[$i]=$(rss $(processes $i))
done
note "RSS before: a ${BEFORE[a]} KiB, c ${BEFORE[c]} KiB"

broker_do down
for i in a c; do load $i $i-down "$DOWN"; done
until_true $((DOWN / 2)) false
INSTANCE=a
is "$(ready_count)" 8 'half way through the outage all partitions are ready'
note "half way: RSS a +$(grown a) KiB, c +$(grown c) KiB; outbox a $(outbox a), c $(outbox c)"
loads_end
for i in a c; do
	is "$(FROM=$T/$i-down-known.log said rejected failed status14 status4 lost)" '0 0 0 0 0' "$i: known streams are accepted all the time"
	ok "$i: no process has grown by more than $((GROWN_MAX / 1024)) MiB" test "$(grown $i)" -lt $GROWN_MAX
	note "$i: new $(FROM=$T/$i-down-new.log said accepted failed) accepted, failed; RSS +$(grown $i) KiB; outbox $(outbox $i)"
done
is "$(FROM=$T/a-down-new.log said failed status14 status4 lost)" '0 0 0 0' 'new streams come in as long as there is room in the outbox'
ok 'where there is none, they fail' test "$(FROM=$T/c-down-new.log said failed)" -gt 0
ok 'but some were let in before' test "$(FROM=$T/c-down-new.log said accepted)" -gt 3000
ok 'and the outbox is as large as it may be' test "$(outbox c)" -le 8000

broker_do up
at=$(now_ms)
eventually 'when it is back all is sent' 'outbox a; outbox c' $'^0\n0$' 90
note "sent $(($(now_ms) - at)) ms after it was back"
for i in a c; do INSTANCE=$i load $i $i-again 3; done
loads_end
for i in a c; do is "$(FROM=$T/$i-again-new.log said failed status14 lost)" '0 0 0' "$i: new streams come in again"; done

# Another zone, which has nothing but the log.
start_tallyd z kafka.group=zone-z "${options[@]}" query.enabled=false
wait_ready 8 60
complete()
{
	dump_store z "$T/z.dump"
	sed -E '/^stream [0-9]+ (a|c)-known/d' "$T/z.dump" >"$T/new.dump"
	[ -z "$(judge "$T/new.dump" "$T"/*-new.txt)" ]
}
wait_for complete '' 60
is "$(judge "$T/new.dump" "$T"/*-new.txt)" '' 'in another zone each of them is there with its bytes, nothing twice'
known() { dump_store z "$T/z.dump"; awk '$1 == "usage" && $3 ~ /-known$/ { s += $6 } END { printf "%.0f\n", s }' "$T/z.dump"; }
eventually 'and every byte of the known ones' known "^$(sizes accepted "$T"/*-known.txt "$T"/*-first.txt)\$" 60
for i in a c z; do stop_tallyd $i || fail "$i stops in order"; done
done_testing
