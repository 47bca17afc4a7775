# 23-what-query-processes-count-is-one-sum-and-outlives-them.sh - with several query processes /metrics of each is the
# sum of all, exactly; no counter falls when one is killed, or tallyd is, or when one's file is garbage.
# broker: embedded (any will do)
. "$(dirname "$0")/ask.sh"

PROCESSES=3
SCRAPES=24	# new connections each: the kernel gives them to any of the processes

# counters FILE: "series value" of all counters of query processes.  A connection may be with one that is
# being killed: then another is made.
scrape() { until_true 10 eval "http /metrics >'$T/scrape.txt' 2>/dev/null"; cat "$T/scrape.txt"; }
counters()
{
	scrape | awk '/^# TYPE .* counter$/ { counter[$3] = 1 } /^# TYPE .* histogram$/ { counter[$3 "_count"] = counter[$3 "_bucket"] = 1 }
		/^(tally_(ask|grpc|peers|query|access|tenant)|loki)_/ { name = $0; sub(/[{ ].*/, "", name); if (name in counter) print }' |
		grep -v ^tally_query_restarts_total | sed 's/ \([^ ]*\)$/\t\1/' | sort >"$1"
}
fallen() { join -t $'\t' -a 1 -e gone -o 0,1.2,2.2 "$1" "$2" | awk -F '\t' '$3 == "gone" || $3 + 0 < $2 + 0'; }
# never_fell NAME: from the last scrape of before to this one, and from each to the next; some more of them.
: >"$T/last.txt"
never_fell()
{
	local i odd=
	for ((i = 0; i < SCRAPES; i++)); do
		counters "$T/now.txt"
		odd+=$(fallen "$T/last.txt" "$T/now.txt")
		mv "$T/now.txt" "$T/last.txt"
	done
	is "$odd" '' "$1"
	ok 'and there are such counters' test "$(wc -l <"$T/last.txt")" -gt 60
}

metric() { scrape | awk -v name="$1" 'index($0, name " ") == 1 { print $NF }'; }
# each NAME: the values that many scrapes show, one after the other.
each() { local i; for ((i = 0; i < SCRAPES; i++)); do metric "$1"; done | sort -u | tr '\n' ' '; }
exactly() { eventually "$3" "each '$1'" "^$2 \$" 20; }

# Questions that each process has counted itself: the first word of its slot (shm/README.md).
own() { local i; for ((i = 0; i < PROCESSES; i++)); do od -An -tu8 -j64 -N8 "$T/a/query.$i.counts" | tr -d ' '; done; }
own_all() { [ "$(own | grep -c '^[1-9]')" = $PROCESSES ]; }
query_pids() { status_json | jq -r '.queryd.pids[]'; }
all_run() { [ "$(http /metrics | sed -n 's/^tally_query_processes_alive //p')" = $PROCESSES ] && [ "$(query_pids | wc -l)" = $PROCESSES ]; }

# Over one connection each: 3 questions, of 2 streams.  Nobody else asks.
ASKED=0 STREAMS=0 REJECTED=0 CALLS=0
ask_some()
{
	local i
	for ((i = 0; i < $1; i++)); do
		ask --tenant roomy --streams 6 --per-request 2 --requests 3 --first $((i * 100)) --seed "$SEED"
		ASKED=$((ASKED + $(said requests))) CALLS=$((CALLS + $(said requests)))
		STREAMS=$((STREAMS + $(said streams)))
	done
}
refuse_some()
{
	local i
	for ((i = 0; i < $1; i++)); do
		ask --tenant small --streams 4 --per-request 4 --first $((i * 100)) --seed "$SEED"
		ASKED=$((ASKED + $(said requests))) CALLS=$((CALLS + $(said requests)))
		STREAMS=$((STREAMS + $(said streams))) REJECTED=$((REJECTED + $(said rejected)))
	done
}
# counted NAME: all of it, by whichever process answers.
counted()
{
	exactly 'tally_ask_questions_total{kind="exceeds"}' $ASKED "$1: questions"
	is "$(each tally_ask_duration_seconds_count)" "$ASKED " 'each has had a duration'
	is "$(http /metrics | awk '/^tally_ask_streams_total\{kind="exceeds"/ { s += $NF } END { print s }')" $STREAMS 'the streams that they asked about'
	is "$(each 'tally_tenant_streams_rejected_total{tenant="small"}')" "$REJECTED " 'those that were rejected, by tenant'
	is "$(each 'tally_ask_streams_total{kind="exceeds",result="rejected"}')" "$REJECTED " 'and in all'
	exactly 'tally_grpc_answers_total{code="0"}' $CALLS 'gRPC answers'
}

broker partitions=4
limits small=5 roomy=100000
HTTP=$(unused_port); RANDOM=$((RANDOM + 1)); GRPC=$(unused_port)
start_tallyd a limits.file="$T/limits.yaml" query.processes=$PROCESSES query.metrics_names=loki supervisor.restart_min=50ms \
	query.http_listen=127.0.0.1:"$HTTP" query.grpc_listen=127.0.0.1:"$GRPC"
wait_ready 4
wait_until http_address '[0-9]'
wait_until all_run
wait_asked
exactly 'tally_grpc_calls' 0 'nothing is asked'
# Of those who asked whether it serves: a process writes down what it has answered a moment after.
steady() { local n; n=$(metric 'tally_grpc_answers_total{code="0"}'); [ "${n:-0}" -gt 0 ] && [ "$n" = "$CALLS" ] || { CALLS=${n:-0}; sleep 1; return 1; }; }
wait_until steady

# --- the sum --------------------------------------------------------------------------------------

ask_some 12
refuse_some 12
for _ in 1 2 3 4 5 6; do own_all || ask_some 6; done
ok 'each process has been asked' own_all
is "$(own | sum)" $ASKED 'and each counts what it was asked'
counted 'any process shows what all were asked'
before=$(metric 'tally_query_answers_total{route="/api/v1/instance",status="200"}')
for ((i = 0; i < SCRAPES; i++)); do http /api/v1/instance >/dev/null; done
exactly 'tally_query_answers_total{route="/api/v1/instance",status="200"}' $((${before:-0} + SCRAPES)) 'HTTP answers'
is "$(each loki_ingest_limits_frontend_streams_total)" "$STREAMS " "by Loki's names, too"
produce --records 300 --partitions 4 --seed "$SEED"
exactly loki_ingest_limits_records_fetched_total \
	"$(http /metrics | awk '/^tally_records_total\{/ { s += $NF } END { print s }')" 'records are not counted once for each process'
is "$(each tally_query_start_timestamp_seconds | wc -w)" 1 'when the last one started is the same for all'

# --- one is killed, and then another; all of them -------------------------------------------------

never_fell 'no counter falls from one process to the other'
for victim in $(query_pids | head -n 2); do
	kill -KILL "$victim"
	never_fell 'nor when one is killed'
	wait_until "all_run && ! query_pids | grep -qx $victim"
done
counted 'what the killed had counted is still there'
ask_some 12
counted 'and gone on from'
for p in $(query_pids); do kill -KILL "$p"; done
wait_until "http /healthz" '' 20
wait_until all_run
never_fell 'nor when all are killed at once'
is "$(ls "$T/a" | grep -c '^query\.[0-9]*\.counts$')" $PROCESSES 'each successor took a slot that was there'
counted 'all of it is there'

# --- tallyd is killed, and stopped ----------------------------------------------------------------

kill_tallyd
start_tallyd
wait_ready 4 60
wait_until all_run
never_fell 'nor when tallyd is killed'
stop_tallyd
is $? 0 'tallyd stops in order'
is "$(stat -c '%a %F' "$T"/a/query.*.counts | sort -u)" '600 regular file' 'the files are for the service alone'

# --- what is no such file -------------------------------------------------------------------------

lost=$(own | head -n 1)
echo garbage >"$T/a/query.0.counts"
start_tallyd
wait_ready 4 60
wait_until all_run
eventually 'a file that is none is said to be' "grep -c 'warn counts.anew file=query.0.counts' '$T/a.log'" '^1$'
exactly 'tally_ask_questions_total{kind="exceeds"}' $((ASKED - lost)) 'and costs what was in it, no more'
stop_tallyd
rm "$T/a/query.0.counts"; for i in $(seq 0 63); do rm -f "$T/a/query.$i.counts"; mkdir "$T/a/query.$i.counts"; done
start_tallyd
wait_ready 4 60
wait_until all_run
eventually 'without a file to be had each says that it counts alone' "grep -c 'warn counts.alone' '$T/a.log'" "^$PROCESSES\$"
ask --tenant roomy --streams 6
is "$(said accepted)" 6 'and answers'
done_testing
