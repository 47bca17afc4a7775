# lib.sh - what every system test is made of.
#
#	. "$(dirname "$0")/lib.sh"
#	broker partitions=2; start_tallyd; wait_ready 2
#	produce --partition 0 --records 1000
#	kill -KILL "$(pid_of 0)"
#	wait_until 'part 0 stats.next_offset' '^1000$'
#	same_as_oracle 'the store holds what the log says'
#	done_testing
#
# A test owns a directory $T (short: socket paths have 108 bytes), a broker on a free port and the
# processes it starts; at its end all of them are gone, and so is $T.  Logs of a failed test are
# kept under $B/test-logs/NAME.  Conditions are waited for, time never is.  SEED=n repeats a run.
#
# BROKER=kafka runs the same on real Apache Kafka (tests/kafka/cluster.sh), BROKER=embedded, the
# default, on librdkafka's mock cluster.  A test that speaks of one only says so in its second line:
# "# broker: embedded".
#
# The embedded broker's first rebalance can get stuck; then the start is tried again and the output
# says so.  An assertion is never tried again.

set -u
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

TEST=$(basename "$0" .sh)
B=$(realpath "${B:-build}")
SEED=${SEED:-$((0x$(od -An -N3 -tx1 /dev/urandom | tr -d ' \n')))}
RANDOM=$((SEED % 32768))

if [ -d /dev/shm ] && [ -w /dev/shm ]; then T=/dev/shm; else T=/tmp; fi
T=$(mktemp -d "$T/tt.XXXXXX") || exit 1
chmod 755 "$T"

COUNT=0	# assertions so far
FAILED=0
PLANNED=	# set by done_testing
INSTANCE=a	# the instance that ctl, pid_of ... speak of
BROKERS= TOPIC=tally PARTITIONS=8
KIND=${BROKER:-embedded}	# of the broker
BROKER_PIDS=()
declare -A TALLYD=()	# instance -> pid
declare -A CONFIG=()	# instance -> "key=value" lines

. tests/process.sh

echo "# $TEST seed $SEED"

# --- TAP ------------------------------------------------------------------------------------------

note() { printf '# %s\n' "${@//$'\n'/$'\n'# }"; }
diag() { printf '# %s\n' "${@//$'\n'/$'\n'# }" >&2; [ $FAILED = 0 ] || remember "$@"; }
# What `make check` says once more at its end.
remember() { [ -z "${FAILURES:-}" ] || printf '%s\n' "$@" | sed "s/^/$TEST: /" >>"$FAILURES"; }
pass() { echo "ok $((++COUNT)) - $1"; }
fail() { echo "not ok $((++COUNT)) - $1"; FAILED=1; remember "not ok $COUNT - $1"; [ $# -lt 2 ] || diag "${@:2}"; return 1; }

# ok NAME COMMAND...: the command succeeds.
ok()
{
	local out
	if out=$("${@:2}" 2>&1); then pass "$1"; else fail "$1" "failed: ${*:2}" "$out"; fi
}
is() { if [ "$1" = "$2" ]; then pass "$3"; else fail "$3" "     got: $1" "expected: $2"; fi; }
isnt() { if [ "$1" != "$2" ]; then pass "$3"; else fail "$3" "got what it must not be: $1"; fi; }
like() { if [[ $1 =~ $2 ]]; then pass "$3"; else fail "$3" "       got: $1" "to look like: $2"; fi; }
unlike() { if [[ ! $1 =~ $2 ]]; then pass "$3"; else fail "$3" "got: $1" "not to look like: $2"; fi; }

# same FILE FILE NAME: they are equal, else the difference is shown.
same()
{
	local out
	if out=$(diff "$1" "$2" 2>&1); then pass "$3"; else fail "$3" "diff $1 $2" "$(head -n 40 <<<"$out")"; fi
}

# The end of every test that came to its end.
done_testing() { echo "1..$COUNT"; PLANNED=1; exit $FAILED; }

# Ends the test here: what would follow has no meaning.
die() { fail "$@"; logs; echo "1..$COUNT"; PLANNED=1; exit 1; }
bail() { echo "Bail out! $*"; exit 255; }

# A test that cannot run here.  In CI that is a failure.
skip_all()
{
	[ -z "${CI:-}" ] || die "not skipped in CI: $*"
	echo "1..0 # SKIP $*"; PLANNED=1; exit 0
}

# The same for a part of one.
skip()
{
	if [ -n "${CI:-}" ]; then fail "not skipped in CI: $*"; else echo "ok $((++COUNT)) # SKIP $*"; fi
}

# plan: for tests that know their number.
plan() { PLANNED=$1; echo "1..$1"; }

logs()
{
	local f
	for f in "$T"/*.log; do [ -e "$f" ] && diag "--- ${f##*/}" "$(grep -v ' debug ' "$f" | tail -n 25)"; done
	[ -z "${TALLYD[$INSTANCE]:-}" ] || diag "--- status" "$(ctl status 2>&1)"
}

# --- waiting --------------------------------------------------------------------------------------

matches() { [[ $(eval "$1" 2>&1) =~ $2 ]]; }

# wait_for 'command' [pattern] [seconds]: true as soon as the command succeeds, or its output matches.
wait_for()
{
	if [ -n "${2:-}" ]; then until_true "${3:-30}" matches "$1" "$2"
	else until_true "${3:-30}" eval "$1"; fi
}

# The same for what the rest of the test stands on: on time-out the test ends with what is known.
wait_until()
{
	wait_for "$@" && return 0
	die "waited ${3:-30} s for: $1${2:+ =~ $2}" "last: $(eval "$1" 2>&1 | tail -n 20)"
}

# eventually NAME 'command' [pattern] [seconds]: the same as an assertion.
eventually()
{
	if wait_for "${@:2}"; then pass "$1"
	else fail "$1" "waited ${4:-30} s for: $2${3:+ =~ $3}" "last: $(eval "$2" 2>&1 | tail -n 20)"; logs; fi
}

now_ms() { date +%s%3N; }
sum() { awk '{ s += $1 } END { printf "%.0f\n", s }'; }
rand() { echo $((RANDOM % $1)); }	# 0 .. $1 - 1, from the seed; not in a subshell: RANDOM stands still there

# --- processes ------------------------------------------------------------------------------------

# A child of ours: until it is reaped, nobody else can have its pid.
mine() { grep -qs "^PPid:[[:space:]]*$$\$" "/proc/$1/status"; }

# end PID [SECONDS]: TERM, then KILL.  Reaps it; its exit code is the result.
end()
{
	mine "$1" || { wait "$1" 2>/dev/null; return; }
	kill -TERM "$1" 2>/dev/null; kill -CONT "$1" 2>/dev/null
	until_true "${2:-10}" gone "$1" || { diag "pid $1 did not end, killed"; kill -KILL "$1" 2>/dev/null; }
	wait "$1" 2>/dev/null
}

# Processes that have a file of ours open or mapped, beside this shell.
holders()
{
	local p
	for p in /proc/[0-9]*; do
		p=${p#/proc/}
		[ "$p" != $$ ] && [ "$p" != "$BASHPID" ] || continue
		if grep -qs " $T/" "/proc/$p/maps" || find "/proc/$p/fd" -lname "$T/*" 2>/dev/null | grep -q .; then
			echo "$p"
		fi
	done
}

cleanup()
{
	local rc=$? i left
	trap - EXIT
	trap '' TERM INT
	if [ -z "$PLANNED" ]; then
		FAILED=1
		[ $rc = 255 ] || { logs; fail "$TEST came to its end (exit $rc)"; echo "1..$COUNT"; }
	fi
	# What they would put in order is thrown away anyway.
	[ "$KIND" = embedded ] || { kill -KILL "${KAFKA_PID[@]}"; wait "${KAFKA_PID[@]}"; } 2>/dev/null
	for ((i = ${#OWN[@]} - 1; i >= 0; i--)); do
		mine "${OWN[i]}" && end "${OWN[i]}"
	done
	for left in $(holders); do
		diag "still there at the end: $(tr '\0' ' ' <"/proc/$left/cmdline")"
		kill -KILL "$left" 2>/dev/null
	done
	if [ $FAILED = 1 ]; then
		rm -rf "$B/test-logs/$TEST"; mkdir -p "$B/test-logs/$TEST"
		cp "$T"/*.log "$T"/*.yaml "$T"/*.txt "$B/test-logs/$TEST/" 2>/dev/null
		remember "$(grep -hE '^[^ ]+ [^ ]+ (warn|error) ' "$T"/*.log 2>/dev/null | tail -n 20)"
		diag "logs: $B/test-logs/$TEST (repeat with SEED=$SEED)"
	fi
	awk -v t="$T/" 'index($2, t) == 1 { print $2 }' /proc/self/mounts | while read -r at; do umount -l "$at"; done
	rm -rf "$T"
	exit $((rc ? rc : FAILED))
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

# --- the cluster ----------------------------------------------------------------------------------

case $KIND in
embedded) ;;
kafka) . tests/kafka/cluster.sh ;;
*) bail "BROKER=$KIND: must be embedded or kafka" ;;
esac

# broker [partitions=N] [brokers=N] [topic=NAME] [key=value...]: further ones are the topic's, on Kafka.
broker()
{
	local brokers=1 arg config=()
	for arg in "$@"; do
		case $arg in
		partitions=*) PARTITIONS=${arg#*=} ;;
		brokers=*) brokers=${arg#*=} ;;
		topic=*) TOPIC=${arg#*=} ;;
		*) config+=("$arg") ;;
		esac
	done
	if [ "$KIND" = kafka ]; then
		cluster_make "$brokers"
		cluster_start
		make_topic "$TOPIC" "$PARTITIONS" "${config[@]}"
		BROKER_PIDS=("${KAFKA_PID[@]}")
	else
		start_embedded --brokers "$brokers"
	fi
}

# Fewer than all copies are enough for a commit, so that one broker can be away.
make_topic()
{
	kafka_do create "$1" "$2" "replication=$((KAFKA_COUNT < 3 ? KAFKA_COUNT : 3))" \
		"min.insync.replicas=$((KAFKA_COUNT < 3 ? 1 : 2))" max.message.bytes=8000000 "${@:3}" ||
		bail "topic $1 could not be made"
}

start_embedded()
{
	[ -e "$T/broker.in" ] || mkfifo "$T/broker.in"
	rm -f "$T/broker.ready"
	STDIN="$T/broker.in" spawn broker "$B/tally-broker" --die-with-parent=$$ \
		--topic "$TOPIC:$PARTITIONS" --ready-file "$T/broker.ready" "$@"
	BROKER_PIDS=("$PID")
	until_true 10 test -s "$T/broker.ready" || bail "the broker did not come up: $(tail -n 5 "$T/broker.log")"
	BROKERS=$(head -n 1 "$T/broker.ready")
}

# The brokers die, and come again at the same address.  The embedded one has forgotten all by then.
broker_end()
{
	if [ "$KIND" = kafka ]; then broker_do down; else end "${BROKER_PIDS[0]}"; fi
}
broker_again()
{
	if [ "$KIND" = kafka ]; then broker_do up; else start_embedded --port "${BROKERS##*:}"; fi
}

# broker_do COMMAND...: down [N], up [N], rtt MS, topic NAME PARTITIONS, and more of tally-broker's.
broker_do()
{
	local before
	if [ "$KIND" = kafka ]; then
		kafka_command "$@"
		return
	fi
	before=$(wc -l <"$T/broker.log")
	echo "$*" >"$T/broker.in"
	wait_until "tail -n +$((before + 1)) '$T/broker.log'" '^ok' 10
}

# short_outage COMMAND: no broker for a second; the command at its end.  Real brokers take longer than
# that to come up, so they are frozen instead.
short_outage()
{
	if [ "$KIND" = kafka ]; then kill -STOP "${BROKER_PIDS[@]}"; else broker_do down; fi
	sleep 1
	eval "$1"
	if [ "$KIND" = kafka ]; then kill -CONT "${BROKER_PIDS[@]}"; else broker_do up; fi
}

kafka_command()
{
	local id
	case $1 in
	down) for id in ${2:-$(brokers_up)}; do kill_broker "$id"; done ;;
	up)
		for id in ${2:-$(seq "$KAFKA_COUNT")}; do [ -n "${KAFKA_PID[$id]:-}" ] || start_broker "$id"; done
		for id in ${2:-$(seq "$KAFKA_COUNT")}; do wait_broker "$id"; done
		;;
	topic) make_topic "$2" "$3" ;;
	rtt) note 'real Kafka: no delay is added' ;;
	*) bail "broker_do $1: not with real Kafka" ;;
	esac
	BROKER_PIDS=("${KAFKA_PID[@]}")
}

# Writes records: tally-load's options.
produce() { "$B/tally-load" --brokers "$BROKERS" --topic "$TOPIC" "$@" >>"$T/load.log" 2>&1 || die "tally-load $*" "$(tail -n 5 "$T/load.log")"; }

# load_start OPTIONS: the same in the background; pid in $PID.
load_start() { spawn load "$B/tally-load" --brokers "$BROKERS" --topic "$TOPIC" "$@"; }

# --- tallyd ---------------------------------------------------------------------------------------

# write_config INSTANCE [key=value...]: tally.yaml from defaults that suit the embedded broker.
write_config()
{
	local -A value=()
	local kv section key last=
	local defaults=(
		run_dir="$T/$1" instance="$1" zone="$1" log_level=debug
		kafka.brokers="\"$BROKERS\"" kafka.topic="$TOPIC" kafka.group=tally
		kafka.session_timeout=4s kafka.heartbeat_interval=300ms kafka.max_poll_interval=30s
		kafka.properties.fetch.wait.max.ms=10 kafka.properties.reconnect.backoff.max.ms=500
		store.map_size=1GiB query.http_listen=127.0.0.1:0 query.grpc_listen=127.0.0.1:0
	)
	(umask 077; : >"$T/$1.yaml") # it may have passwords
	for kv in "${defaults[@]}" "${@:2}"; do value[${kv%%=*}]=${kv#*=}; done
	# Sections in any order, but each in one piece; the maps of kafka at the end of its own.
	for key in $(printf '%s\n' "${!value[@]}" | grep -v '\.') $(printf '%s\n' "${!value[@]}" | grep '\.' |
		sed -E 's/^kafka\.(properties|secret_files)\./kafka.~\1./' | sort | tr -d '~'); do
		case $key in
		kafka.properties.* | kafka.secret_files.*) section=${key#kafka.} section=kafka.${section%%.*} ;;
		*.*) section=${key%%.*} ;;
		*) section= ;;
		esac
		if [ "$section" != "$last" ]; then
			case $section in
			*.*) echo "  ${section#kafka.}:" ;;
			*) echo "$section:" ;;
			esac
			last=$section
		fi
		case $section in
		*.*) echo "    ${key#"$section".}: ${value[$key]}" ;;
		'') echo "$key: ${value[$key]}" ;;
		*) echo "  ${key#*.}: ${value[$key]}" ;;
		esac
	done >"$T/$1.yaml"
}

# start_tallyd [INSTANCE] [key=value...]: starts it and makes it the one that is spoken of.
# Without key=value an instance that was there before keeps its configuration.
start_tallyd()
{
	case ${1:-} in '' | *=*) ;; *) INSTANCE=$1; shift ;; esac
	if [ $# -gt 0 ] || [ ! -e "$T/$INSTANCE.yaml" ]; then write_config "$INSTANCE" "$@"; fi
	spawn "$INSTANCE" "${TALLYD_PROGRAM:-$B/tallyd}" -c "$T/$INSTANCE.yaml"
	TALLYD[$INSTANCE]=$PID
}

# stop_tallyd [INSTANCE]: orderly; false when its exit code is not 0.
stop_tallyd()
{
	local name=${1:-$INSTANCE} rc
	end "${TALLYD[$name]}" 15
	rc=$?
	unset "TALLYD[$name]"
	return $rc
}

# kill_tallyd [INSTANCE]: SIGKILL.
kill_tallyd()
{
	kill -KILL "${TALLYD[${1:-$INSTANCE}]}"
	wait "${TALLYD[${1:-$INSTANCE}]}" 2>/dev/null
	unset "TALLYD[${1:-$INSTANCE}]"
}

run_dir() { echo "$T/${1:-$INSTANCE}"; }
ctl() { "$B/tallyctl" -d "$T/$INSTANCE" "$@"; }
status_json() { ctl --json status; }

# part N FIELD: one field of one partition, from the status.
part() { status_json | jq -r ".partitions[] | select(.partition == $1) | .$2"; }
pid_of() { part "$1" pid; }
# One line for each partition: number, pid, generation, state, next offset.
slots() { status_json | jq -r '.partitions[] | "\(.partition) \(.pid) \(.generation) \(.state) \(.stats.next_offset)"'; }
generation_of() { part "$1" generation; }
state_of() { part "$1" state; }
# Only of the supervisor that we started last: the table of one before may still be there.
count_parts()
{
	status_json 2>/dev/null | jq --argjson pid "${TALLYD[$INSTANCE]:-0}" \
		"if \$pid == 0 or .supervisor_pid == \$pid then [.partitions[] | select($1)] | length else 0 end"
}
ready_count() { count_parts .ready; }
owned_count() { count_parts '.state != "free" and .state != "stopped"'; }

# The address of the query process: it writes it where its log can be read from.
http_address() { sed -n 's/.* http\.listen .*address=\([0-9.:]*\).*/\1/p' "$T/$INSTANCE.log" | tail -n 1; }
# A port below the range that the kernel gives to clients, where nobody listens.
unused_port()
{
	local port
	while :; do
		port=$((10000 + $(rand 22000)))
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

http() { curl -sS --max-time 10 "http://$(http_address)$1"; }

owns_or_died() { gone "${TALLYD[$INSTANCE]}" || matches owned_count '^[1-9]'; }

# wait_ready [N] [SECONDS]: N partitions (all) of the current instance are ready.  A single member
# that has no partition after 20 s sits in the broker's stuck rebalance: started again.
wait_ready()
{
	local n=${1:-$PARTITIONS} try
	for try in 1 2 3; do
		until_true 20 owns_or_died && matches owned_count '^[1-9]' && break
		alive "${TALLYD[$INSTANCE]}" || die "tallyd ended" "$(tail -n 5 "$T/$INSTANCE.log")"
		[ $try != 3 ] || die "no partition was assigned in three starts"
		note "the broker's first rebalance is stuck; starting again ($try)"
		stop_tallyd; start_tallyd
	done
	wait_until ready_count "^$n\$" "${2:-30}"
}

# start_group NAMES...: several instances in one group, until each partition is ready in one of them.
ready_in_all() { local i sum=0; for i in $1; do sum=$((sum + $(INSTANCE=$i ready_count))); done; echo "$sum"; }
start_group()
{
	local try i
	for try in 1 2 3; do
		for i in "$@"; do start_tallyd "$i"; done
		until_true 45 matches "ready_in_all '$*'" "^$PARTITIONS\$" && return 0
		[ $try != 3 ] || die "the group did not settle in three starts"
		note "the broker's first rebalance is stuck; starting again ($try)"
		for i in "$@"; do stop_tallyd "$i"; done
	done
}

# --- the table and the workers, unrounded ---------------------------------------------------------

# facts [INSTANCE]: part-dump's line for each partition that is not free.
facts() { "$B/tests/part-dump" --run-dir "$T/${1:-$INSTANCE}"; }

# fact N FIELD [INSTANCE]: one field of one partition; nothing when it is free.
fact()
{
	"$B/tests/part-dump" --run-dir "$T/${3:-$INSTANCE}" --partition "$1" | sed -nE "s/.*(^| )$2=([^ ]*).*/\\2/p"
}

# fields FACTS FIELD...: of each line, these fields' values.
fields()
{
	awk -v want="${*:2}" '{ n = split(want, w, " "); out = ""; for (i = 1; i <= n; i++) for (j = 1; j <= NF; j++)
		if (index($j, w[i] "=") == 1) out = out (out == "" ? "" : " ") substr($j, length(w[i]) + 2)
		print out }' <<<"$1"
}

# strangers [INSTANCE]: generations that lie in its run directory although no word names them.
strangers()
{
	comm -13 <(fields "$(facts "${1:-$INSTANCE}")" partition generation | sed 's/^/p/; s/ /./' | sort) \
		<(cd "$T/${1:-$INSTANCE}" && ls -d p*.* 2>/dev/null | sort)
}

# --- what is true ---------------------------------------------------------------------------------

# readers_end: ends what runs as $READERS (reader-loop, spawned as "readers"), which checks all that it is told.
readers_end()
{
	end "$READERS"
	is $? 0 'no reader got an answer that it should not have got'
	note "$(tail -n 1 "$T/readers.log")"
}

# dump_log FILE: every record of the topic, as it is in the log.
dump_log() { "$B/tests/log-dump" --brokers "$BROKERS" --topic "$TOPIC" >"$1" || die 'log-dump'; }

# same_as_oracle NAME [options for oracle]: all stores of the current instance hold what
# the log up to their stored offsets says, at one moment that both are told.
same_as_oracle()
{
	local name=$1 at
	shift
	at=$(($(now_ms) + 10000))	# above the youngest record that a store has by the time it is read
	"$B/tests/store-dump" --run-dir "$T/$INSTANCE" --at "$at" >"$T/store.txt" || die 'store-dump'
	dump_log "$T/log.txt"
	"$B/tests/oracle" --partitions "$PARTITIONS" --at "$at" --upto-from "$T/store.txt" "$@" \
		<"$T/log.txt" >"$T/oracle.txt" || die 'oracle'
	same "$T/oracle.txt" "$T/store.txt" "$name"
}
