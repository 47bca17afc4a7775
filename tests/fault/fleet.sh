# fleet.sh - a fleet under faults, and what must be true of it after each.
#
#	. "$(dirname "$0")/fleet.sh"
#	fleet_start a b
#	step kill worker 3
#	check 'after the death of a worker'
#
# Two instances of variants/faults share eight partitions of the embedded broker; records and
# questions come in all the time, readers ask both, table-watch looks at both.  `step` does one line
# of a schedule (README.md lists them); `check` lets the fleet settle, as a service manager would,
# and asserts the five invariants.
. "$(dirname "${BASH_SOURCE[0]}")/../system/ask.sh"

SESSION_S=4
ASKABLE=2000	# streams
PATIENCE=${PATIENCE:-90}	# seconds to settle in, on a busy machine
INSTANCES=()
declare -A READER=() ASKER=() STOPPED=()
POISON=0 STUCK=0 FAULTS=0 ASKED=0 MOVED= ODD=

export TALLYD_PROGRAM=$B/variants/faults/tallyd
export TALLY_FAULTS=$T/faults
[ -x "$TALLYD_PROGRAM" ] || bail "no $TALLYD_PROGRAM: make fault-programs"

# Every point that there is, by the sources.
points() { grep -rhoE --include='*.c' 'FAULT\("[a-z._]+"\)' supervisor worker shm | sed 's/.*"\(.*\)".*/\1/' | sort -u; }
faults() { "$B/tests/fault-ctl" "$TALLY_FAULTS" "$@" || die "fault-ctl $*"; }
fired() { faults list | awk -v name="$1" '$1 == name { print $3 }'; }

# --- the fleet ------------------------------------------------------------------------------------

# fleet_start INSTANCE...
fleet_start()
{
	local i
	INSTANCES=("$@")
	faults create $(points)
	spawn thaw "$B/tests/fault-ctl" "$TALLY_FAULTS" thaw
	broker partitions=8
	limits ask-0=0
	load_start --seed "$SEED" --rate 200 --linger 200 --tenants 3 --policies 2 --streams 500 \
		--source ffffffffffffffffffffffffffffff0f --broken undecodable=200,duplicate=500
	LOAD=$PID
	for i in "$@"; do write_config "$i" supervisor.restart_max=1s limits.file="$T/limits.yaml" produce.interval=2s "${OPTIONS[@]}"; done
	start_group "$@"
	spawn watch nice -n 15 "$B/tests/table-watch" "${@/#/$T/}"
	WATCH=$PID
	for i in "$@"; do start_reader "$i"; start_asker "$i"; done
}
OPTIONS=()

start_reader()
{
	spawn "readers-$1" nice -n 15 "$B/tests/reader-loop" --run-dir "$T/$1" --processes 1 --seed "$SEED"
	READER[$1]=$PID
}

# Always new streams, and old ones again.
start_asker()
{
	[ -s "$T/$1/query.grpc" ] || return 0
	INSTANCE=$1 ask_start "asker-$1" --tenant-prefix ask- --streams $ASKABLE --order $((SEED + ++ASKED)) --rounds 0 \
		--rate 20 --concurrency 4 --patience 600s --seed "$SEED" --out "$T/asked-$ASKED.out"
	ASKER[$1]=$PID
}

# The instance that has a partition, and its worker's pid.
owner_of() { local i; for i in "${INSTANCES[@]}"; do [ -z "$(fact "$1" pid "$i")" ] || echo "$i"; done | head -n 1; }
worker_of() { local i pid; for i in "${INSTANCES[@]}"; do pid=$(fact "$1" pid "$i"); [ "${pid:-0}" = 0 ] || { echo "$pid"; return; }; done; }
query_of() { INSTANCE=$1 status_json 2>/dev/null | jq .query_pid; }
pause_ms() { sleep "$(awk -v ms="$1" 'BEGIN { print ms / 1000 }')"; }
# Signals what may be gone by now.
signal() { [ "${2:-0}" = 0 ] || kill "-$1" "${@:2}" 2>/dev/null; }

# stop_for PID MS: in the background, so that the next step meets it.
stop_for()
{
	[ "${1:-0}" != 0 ] && kill -STOP "$1" 2>/dev/null || return 0
	STOPPED[$1]=$(($(now_ms) + $2))
}
# Wakes those whose time has come, or all.  While a supervisor is frozen, nobody renews its leases:
# what its workers have committed then shows whether they mind them.
thaw()
{
	local pid i
	for pid in "${!STOPPED[@]}"; do
		[ "${1:-}" = all ] || [ "$(now_ms)" -ge "${STOPPED[$pid]}" ] || continue
		for i in "${INSTANCES[@]}"; do [ "${TALLYD[$i]:-}" != "$pid" ] || ODD="$ODD$(late_commits "$i")"; done
		signal CONT "$pid"
		unset "STOPPED[$pid]"
	done
}
late_commits()
{
	facts "$1" | awk '{
		for (f = 1; f <= NF; f++) { split($f, kv, "="); v[kv[1]] = kv[2] }
		if (v["lease_until"] > 0 && v["last_commit_at"] > v["lease_until"] + v["commit_ns_max"]) print "a commit after the lease:", $0 }'
}
thaw_wait()
{
	local end=0 pid
	for pid in "${!STOPPED[@]}"; do [ "${STOPPED[$pid]}" -le $end ] || end=${STOPPED[$pid]}; done
	while [ "$(now_ms)" -lt "$end" ]; do thaw; sleep 0.05; done
	thaw all
}

# step WORDS...: one line of a schedule.
step()
{
	FAULTS=$((FAULTS + 1))
	case "$1 $2" in
	'kill worker') signal KILL "$(worker_of "$3")" ;;
	'stop worker') stop_for "$(worker_of "$3")" "$4" ;;
	'kill query') signal KILL "$(query_of "$3")" ;;
	'stop query') stop_for "$(query_of "$3")" "$4" ;;
	'kill reader') signal KILL "${READER[$3]}" $(pgrep -P "${READER[$3]}") ;;
	'stop reader') stop_for "$(pgrep -P "${READER[$3]}")" "$4" ;;	# the one that reads; the other waits for it
	'kill tallyd') MOVED=1; signal KILL "${TALLYD[$3]}" ;;
	'stop tallyd') MOVED=1; stop_for "${TALLYD[$3]}" "$4" ;;
	'term tallyd') MOVED=1; signal TERM "${TALLYD[$3]}" ;;
	'broker down') MOVED=1; broker_do down; pause_ms "$3"; broker_do up ;;
	'poison '*) poison "$2" ;;
	'corrupt '*) MOVED=1; corrupt "$2" ;;	# what it had admitted and not sent goes with it
	'arm '*) MOVED=1; faults arm "${@:2}" ;;
	'wait '*) FAULTS=$((FAULTS - 1)); pause_ms "$2"; thaw ;;
	*) bail "no such step: $*" ;;
	esac
}

# A record that aborts its worker each time that it is decoded.
poison()
{
	printf '\x12\x06poison\x1a\x04\x08\x31\x10\x05' | kcat -P -b "$BROKERS" -t "$TOPIC" -p "$1" -k poison -X log_level=3 || die 'kcat'
	POISON=$((POISON + 1))
}

# Noise takes the place of the store's file, and its worker dies.  (Those who have the old one open
# keep it: noise under the feet of a reader is not what is tried here.)
corrupt()
{
	local i g
	i=$(owner_of "$1"); g=$T/${i:-a}/p$1.$(fact "$1" generation "${i:-a}")
	[ -e "$g/data.mdb" ] || return 0
	head -c 100000 /dev/urandom >"$T/noise" && mv "$T/noise" "$g/data.mdb"
	signal KILL "$(worker_of "$1")"
}

# --- settling -------------------------------------------------------------------------------------

# As a service manager would: what has ended is started again.  Its end is looked at first.
revive()
{
	local i rc
	for i in "${INSTANCES[@]}"; do
		if gone "${TALLYD[$i]}"; then
			wait "${TALLYD[$i]}" 2>/dev/null
			rc=$?
			case $rc in 0 | 137) ;; *) ODD="$ODD tallyd $i: exit code $rc;" ;; esac
			write_restart "$i"
		fi
		if gone "${READER[$i]}"; then
			wait "${READER[$i]}" 2>/dev/null
			rc=$?
			[ $rc = 137 ] || ODD="$ODD readers of $i: exit code $rc: $(tail -n 1 "$T/readers-$i.log");"
			start_reader "$i"
		fi
	done
}
write_restart()
{
	local was=$INSTANCE
	start_tallyd "$1"
	INSTANCE=$was
}

ready_pattern() { echo "^$PARTITIONS\$"; }
all_ready() { thaw; revive; matches "ready_in_all '${INSTANCES[*]}'" "^$PARTITIONS\$"; }

settle()
{
	local try i
	faults disarm
	thaw all
	for try in 1 2 3; do
		until_true "$PATIENCE" all_ready && break
		[ $try != 3 ] || die "the fleet does not settle" "$(for i in "${INSTANCES[@]}"; do facts "$i"; done | cut -c1-150)"
		STUCK=$((STUCK + 1))
		note "not settled after $PATIENCE s, is it the broker's rebalance?  All start again ($try)" \
			"$(for i in "${INSTANCES[@]}"; do facts "$i"; done | cut -c1-150)"
		for i in "${INSTANCES[@]}"; do kill -KILL "${TALLYD[$i]}"; done
		sleep $((SESSION_S + 1))
	done
}

# --- the five invariants --------------------------------------------------------------------------

# check NAME
check()
{
	local failed=$FAILED i
	alive "$LOAD" || die 'the records have ended' "$(tail -n 3 "$T/load.log")"
	thaw_wait
	settle
	lease_holds "$1"
	content_is_right "$1"
	nothing_is_left "$1"
	transitions_are_allowed "$1"
	deaths_are_ours "$1"
	for i in "${INSTANCES[@]}"; do [ -n "${ASKER[$i]:-}" ] && alive "${ASKER[$i]}" && is_current "$i" || renew_asker "$i"; done
	[ $FAILED = "$failed" ] || logs
}

# Its address has changed when the query process is another one.
declare -A ASKED_AT=()
is_current() { [ "${ASKED_AT[$1]:-}" = "$(cat "$T/$1/query.grpc" 2>/dev/null)" ]; }
renew_asker()
{
	[ -z "${ASKER[$1]:-}" ] || end "${ASKER[$1]}"
	ASKED_AT[$1]=$(cat "$T/$1/query.grpc" 2>/dev/null)
	start_asker "$1"
}

# 1. Nothing is ready without a live lease: not in the tables, not for readers, not in two places.
lease_holds()
{
	local i bad
	bad=$(for i in "${INSTANCES[@]}"; do
		facts "$i" | awk -v i="$i" -v most=$((SESSION_S * 1000000000)) '{
			for (f = 1; f <= NF; f++) { split($f, kv, "="); v[kv[1]] = kv[2] }
			if (v["ready"] == 1 && (v["state"] != "ready" || v["lease_until"] + 0 <= v["now"] + 0)) print i, "is ready:", $0
			if (v["lease_until"] - v["now"] > most) print i, "has too long a lease:", $0
			if (v["state"] != "ready" && v["state"] != "replaying" && v["state"] != "pending" && v["lease_until"] > 0) print i, "has a lease:", $0 }'
	done)
	is "$bad" '' "$1: nothing is ready without a lease, and no lease is longer than a session"
	[ -n "${WATCH:-}" ] || return 0
	is "$(grep overlap: "$T/watch.log")" '' "$1: no two tables ever said ready for one partition"
	alive "$WATCH" || die 'table-watch has ended' "$(tail -n 3 "$T/watch.log")"
}

# 2. What the stores hold is what the log up to their offsets says, and what was asked.
# 4. The counters add up: each offset below the stored one was applied, or skipped for one reason.
content_is_right()
{
	local i at sum
	asked >"$T/asked.before"
	at=$(($(now_ms) + 10000))
	for i in "${INSTANCES[@]}"; do
		[ "$(INSTANCE=$i ready_count)" -gt 0 ] || { : >"$T/$i.dump"; continue; }
		"$B/tests/store-dump" --run-dir "$T/$i" --at "$at" >"$T/$i.dump" || { fail "$1: store-dump of $i"; return; }
	done
	dump_log "$T/log.txt"
	for i in "${INSTANCES[@]}"; do
		[ -s "$T/$i.dump" ] || continue
		grep -v "^\(usage\|stream\) [0-9]* ask-" "$T/$i.dump" >"$T/store.txt"
		awk -F '\t' '$7 != "poison"' "$T/log.txt" | "$B/tests/oracle" --partitions "$PARTITIONS" --at "$at" \
			--upto-from "$T/store.txt" | grep -v "^\(usage\|stream\) [0-9]* ask-" >"$T/oracle.txt"
		count_poison
		same "$T/oracle.txt" "$T/store.txt" "$1: $i holds what the log says"
		sum=$(awk '$1 == "partition" { next_of[$2] = $4 } $1 == "skipped" { n[$2] += $4 }
			END { for (p in next_of) if (n[p] != next_of[p]) print "partition", p, "next", next_of[p], "seen", n[p] }' "$T/$i.dump")
		is "$sum" '' "$1: the counters of $i add up"
	done
	asked_is_right "$1"
}

# Poisonous records below the stored offset are counted as quarantined.
count_poison()
{
	[ $POISON != 0 ] || return 0
	awk -F '\t' '$7 == "poison" { print $1, $2 }' "$T/log.txt" >"$T/poison.txt"
	awk 'FILENAME == ARGV[1] { p[$1 "," $2]; next } FILENAME == ARGV[2] && $1 == "partition" { next_of[$2] = $4; next }
		FILENAME == ARGV[2] { next }
		$1 == "skipped" && $3 == "quarantined" { for (k in p) { split(k, po, ","); if (po[1] == $2 && po[2] + 0 < next_of[$2] + 0) $4++ } }
		{ print }' "$T/poison.txt" "$T/store.txt" "$T/oracle.txt" >"$T/oracle.new" && mv "$T/oracle.new" "$T/oracle.txt"
}

# Streams of questions: none is there that nobody can have asked for.  What had been accepted before
# the stores were looked at is there, where no partition has moved in disorder.
asked() { cat "$T"/asked-*.out 2>/dev/null | awk -F '\t' 'NF == 7 && $7 == "accepted" { print $3, $4 }' | sort -u; }
asked_is_right()
{
	[ -s "$T/askable.txt" ] || "$B/tally-load" --partitions 1 --tenants 1 --tenant-prefix ask- --streams $ASKABLE --seed "$SEED" \
		--popularity each --records $ASKABLE --dump /dev/null --out /dev/stdout 2>/dev/null | cut -f 4,5 | tr '\t' ' ' | sort -u >"$T/askable.txt"
	(cd "$T" && cat "${INSTANCES[@]/%/.dump}") | awk '$1 == "stream" && $3 ~ /^ask-/ { print $3, $4 }' | sort -u >"$T/present.txt"
	is "$(comm -23 "$T/present.txt" "$T/askable.txt" | head -n 5)" '' "$1: no stream is there that nobody asked for"
	[ -n "$MOVED" ] ||
		is "$(comm -23 "$T/asked.before" "$T/present.txt" | head -n 5)" '' "$1: each stream that was accepted is there"
}

# 3. No process, no file, no mapping is left over.
nothing_is_left()
{
	local i
	eventually "$1: no process is left over" orphans '^$' 15
	for i in "${INSTANCES[@]}"; do
		eventually "$1: no file is left over in $i" "leftover_files $i" '^$' 20
	done
	eventually "$1: no mapping of what has gone is left over" stale_maps '^$' 20
}
# Processes of the fleet that are no tallyd that runs, nor the child of one.
orphans()
{
	local p
	for p in $(ps -eo pid=,ppid=,args= | awk -v ours="${TALLYD[*]}" 'BEGIN { n = split(ours, w, " "); for (i = 1; i <= n; i++) t[w[i]] }
		$3 ~ /^tally-(worker|queryd)|variants\/faults/ && !($1 in t) && !($2 in t) { print $1 }'); do
		if grep -qs "$T" "/proc/$p/maps" "/proc/$p/cmdline" && alive "$p"; then echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline")"; fi
	done
}
leftover_files() { strangers "$1"; (cd "$T/$1" && ls -d trash.* ./*.new ./*/*.new 2>/dev/null); }
stale_maps()
{
	pgrep -f "^(tally-worker|tally-queryd)|variants/faults|tests/reader-loop" | sed 's|.*|/proc/&/maps|' |
		xargs grep -s " $T/.*(deleted)" | grep -v '/table'
}

# 5. Only allowed transitions, by what the supervisor has logged.
transitions_are_allowed()
{
	local i bad
	for i in "${INSTANCES[@]}"; do
		bad=$(awk -f tests/fault/transitions.awk "$T/$i.log")
		is "$bad" '' "$1: only allowed transitions in $i"
	done
}

deaths_are_ours()
{
	local i bad
	bad=$(for i in "${INSTANCES[@]}"; do
		grep -aE 'bug: must|Sanitizer|worker\.died .*signal=(4|5|7|8|11) |query\.died .*signal=(4|5|6|7|8|11) ' "$T/$i.log"
	done | head -n 5)
	is "$bad$ODD" '' "$1: nobody died but by the faults"
}

# run_schedule FILE: until the first check that fails.
run_schedule()
{
	local line n=0 since=
	while read -r line <&3; do
		case $line in
		'' | '#'* | seed*) ;;
		check)
			check "$((n += 1))${since:- start}"
			since=
			[ $FAILED = 0 ] || return
			;;
		*) since="$since, $line"; step $line ;;
		esac
	done 3<"$1"
	fleet_end
}

# The end of a schedule: everything stops in order, and nothing stays.
fleet_end()
{
	local i
	for i in "${INSTANCES[@]}"; do [ -z "${ASKER[$i]:-}" ] || end "${ASKER[$i]}"; done
	end "$LOAD"
	for i in "${INSTANCES[@]}"; do stop_tallyd "$i"; is $? 0 "tallyd $i stops in order"; done
	for i in "${INSTANCES[@]}"; do
		end "${READER[$i]}"
		is $? 0 "no reader of $i got an answer that it should not have got"
	done
	end "$WATCH"
	is $? 0 'at no time did two tables say ready for one partition'
	is "$(orphans)" '' 'no process is left in the end'
	note "$FAULTS faults, $STUCK times started again"
}
