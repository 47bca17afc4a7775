# calls.sh - what the tests of failing calls have beside ask.sh.
#
#	. "$(dirname "$0")/calls.sh"
#	watch_programs; fleet_up
#	reached boot		# once without failures: the sites that it reaches, in $T/boot.cases
#	round boot CASE...	# once more, with these failing: is all well afterwards?
#
# A case is "PROGRAM:KEY:ERROR:N": this site of this program fails with its ERRORth error when it
# is reached for the Nth time.  Failures, and what was made of them, are lines of $T/results.txt.
. "$(dirname "${BASH_SOURCE[0]}")/../system/ask.sh"

CALLS=$B/tests/calls/sites
PROGRAMS='tallyd tally-worker tally-queryd'
RECOVERY=${RECOVERY:-60}	# seconds until all is as it was
ROUND=0
# With SAN=address: our library comes before the sanitizer's; what an exit leaves is not of interest.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0:detect_leaks=0

# Each program in a shell's clothes, because a supervisor cleans its children's environment.
watch_programs()
{
	local p
	mkdir -p "$T/bin"
	for p in $PROGRAMS; do
		"$CALLS" new "$T/$p.map" || bail "no map for $p"
		printf '#!/bin/sh\nexec env LD_PRELOAD=%s TALLY_CALLS_MAP=%s %s "$@"\n' \
			"$B/tests/calls/preload.so" "$T/$p.map" "$B/$p" >"$T/bin/$p"
		chmod 755 "$T/bin/$p"
	done
	TALLYD_PROGRAM=$T/bin/tallyd
}

# --- the fleet ------------------------------------------------------------------------------------

# As a service manager would: a supervisor that has ended is started again; how it ended is kept.
keep_up()
{
	local pid=${TALLYD[a]:-} rc
	if [ -n "$pid" ]; then
		alive "$pid" && return
		wait "$pid" 2>/dev/null
		rc=$?
		echo "$rc $(grep -v '^calls ' "$T/a.log" | tail -n 1)" >>"$T/exits.txt"
	fi
	start_tallyd a
}

# The end of each partition's log.
log_ends() { "$B/tests/log-dump" --brokers "$BROKERS" --topic "$TOPIC" 2>/dev/null | awk '{ n[$1]++ } END { for (p in n) print p, n[p] }'; }

all_up() { keep_up; [ "$(ready_count)" = "$PARTITIONS" ] && serving; }
recovered() { until_true "$RECOVERY" all_up; }

fleet_up()
{
	write_config a supervisor.worker_program="$T/bin/tally-worker" \
		supervisor.query_program="$T/bin/tally-queryd" supervisor.restart_max=500ms \
		limits.file="$T/limits.yaml" "$@"
	INSTANCE=a
	recovered || die 'the fleet came up'
}

# From nothing: after a failure that cannot be recovered from, so that the rest can be seen.
fleet_anew()
{
	local p
	for p in $PROGRAMS; do "$CALLS" disarm "$T/$p.map"; done
	[ -z "${TALLYD[a]:-}" ] || kill_tallyd a
	wait_for '[ -z "$(holders | grep -vx "${BROKER_PIDS[0]}")" ]' '' 10
	rm -rf "$T/a" "$T"/asked.*	# what is lost is lost, and was said
	recovered || die 'the fleet came up anew'
}

# --- what is done in a phase: nothing here may end the test ----------------------------------------

# ask_some TENANT: new streams, all methods, all services; what was said of the streams is kept.
ask_some()
{
	local at out="$T/asked.$1"
	at=$(grpc_address 2>/dev/null) && [ -n "$at" ] || return 0
	"$B/tally-load" ask --target "$at" --tenant "$1" --streams 24 --per-request 4 --size 100-100 --deadline 3s --patience 1s --out "$out.1"
	"$B/tally-load" ask --target "$at" --tenant "$1" --streams 24 --per-request 24 --size 100-100 --deadline 3s --patience 1s --out "$out.2"
	"$B/tally-load" ask --target "$at" --service frontend --tenant "$1" --streams 8 --first 24 --per-request 8 --size 100-100 --deadline 3s --patience 1s --out "$out.3"
	"$B/tally-load" ask --target "$at" --method rates --tenant "$1" --streams 8 --per-request 8 --deadline 3s --patience 1s
	"$B/tally-load" ask --target "$at" --method partitions --deadline 3s --patience 1s
	cat "$out".[123] >"$out" 2>/dev/null
} >/dev/null 2>&1

# page PATH: an answer with status 200 is a whole one: its members are those that it had when nothing failed.
page()
{
	local name=${1//[^a-z0-9]/_} members
	[ "$(curl -sS --max-time 5 -o "$T/page.body" -w '%{http_code}' "http://$(http_address)$1")" = 200 ] || return 0
	members=$(jq -c keys "$T/page.body" || echo 'not JSON')
	[ -e "$T/page.$name" ] || echo "$members" >"$T/page.$name"
	[ "$members" = "$(cat "$T/page.$name")" ] || echo "$1 has $members, not $(cat "$T/page.$name")" >>"$T/pages.txt"
}

look_some()
{
	local p
	for p in /healthz /ready /api/v1/instance /api/v1/partitions '/api/v1/tenants?limit=3' \
		/ingest-limits/usage/tenant-0 /api/v1/tenants/tenant-0 '/api/v1/tenants/tenant-0/streams?limit=5' \
		/api/v1/tenants/tenant-0/limits; do
		page "$p"
	done
	for p in /metrics /api/v1/partitions/1 /nothing; do curl -sS --max-time 5 "http://$(http_address)$p"; done
	for p in check exceeds-limits update-rates; do
		curl -sS --max-time 5 -H 'Content-Type: application/json' "http://$(http_address)/api/v1/$p" \
			--data-binary '{"tenant":"tenant-1","streams":[{"stream_hash":"7","total_size":5}]}'
	done
	ctl status; ctl --json tenant tenant-0
} >/dev/null 2>&1

kill_hard() { case ${1:-} in '' | 0 | null) ;; *) kill -KILL "$1" 2>/dev/null ;; esac; }

# Records, questions, pages, other limits; then all children die.
phase_live()
{
	local pid before
	"$B/tally-load" --brokers "$BROKERS" --topic "$TOPIC" --records 200 --streams 50 --seed $((SEED + ROUND)) \
		--tenants 4 >>"$T/load.log" 2>&1
	ask_some "q$ROUND"
	look_some
	limits "big=$((1000 + ROUND))" 'small=7/finance=3' dry=5/dry_run
	before=$(limits_version 2>/dev/null)
	kill -HUP "${TALLYD[a]}" 2>/dev/null
	until_true 2 reloaded "$before"
	for pid in $(status_json 2>/dev/null | jq -r '.query_pid, .partitions[].pid'); do kill_hard "$pid"; done
}
reloaded() { [ "$(limits_version)" != "$1" ]; }

# Stops in order and starts again, every other time from nothing.
phase_boot()
{
	end "${TALLYD[a]}" 40
	echo "$? stop $(grep -v '^calls ' "$T/a.log" | tail -n 1)" >>"$T/exits.txt"
	unset 'TALLYD[a]'
	[ $((ROUND % 2)) = 0 ] || rm -rf "$T/a"
	keep_up
}

# A second instance takes half of it, and gives it back.
phase_move()
{
	TALLYD_PROGRAM= start_tallyd b
	until_true 25 moved
	INSTANCE=a ask_some "q$ROUND"
	stop_tallyd b
	INSTANCE=a
}
moved() { INSTANCE=a keep_up; [ "$(INSTANCE=b ready_count)" -gt 0 ] && [ "$(ready_in_all 'a b')" = "$PARTITIONS" ]; }

# The broker is away for longer than a session.
phase_outage()
{
	broker_do down
	sleep 5
	INSTANCE=a ask_some "q$ROUND"
	broker_do up
}

# --- a round --------------------------------------------------------------------------------------

sites() { "$CALLS" list "$T/$1.map" | sed "s/^/$1 /" | sort; }
all_sites() { local p; for p in $PROGRAMS; do sites "$p"; done; }

# reached PHASE: lines "PROGRAM KEY CALL TIMES ERRORS FRAMES" in $T/PHASE.cases.
reached()
{
	ROUND=$((ROUND + 1))
	all_sites >"$T/before.txt"
	"phase_$1"
	recovered || die "all is well after $1"
	check_counts "before anything fails, $1" /dev/null || die "$1 is right"
	[ "$1" != boot ] || { ROUND=$((ROUND + 1)); phase_boot; recovered || die 'started from nothing'; }
	all_sites >"$T/after.txt"
	awk 'FNR == NR { n[$1 $2] = $4; next } $4 > n[$1 $2] { print $1, $2, $3, $4 - n[$1 $2], $5, $8 }' \
		"$T/before.txt" "$T/after.txt" >"$T/$1.cases"
}

# check_counts WHAT ENDS: every store holds what the log says, and reaches as far as the log did.
check_counts()
{
	local short wrong
	AT=$(($(now_ms) + 10000))
	INSTANCE=a
	dump_store a "$T/store.txt"
	awk 'FNR == NR { end[$1] = $2; next } $1 == "partition" && $4 < end[$2] { print "partition", $2, "has", $4, "of", end[$2] }' \
		"$2" "$T/store.txt" >"$T/short.txt"
	dump_log "$T/log.txt"
	"$B/tests/oracle" --partitions "$PARTITIONS" --at "$AT" --upto-from "$T/store.txt" \
		<"$T/log.txt" >"$T/oracle.txt" || die 'oracle'
	grep -vE ' q[0-9]+ ' "$T/store.txt" >"$T/store.own"
	grep -vE ' q[0-9]+ ' "$T/oracle.txt" >"$T/oracle.own"
	diff "$T/oracle.own" "$T/store.own" >"$T/wrong.txt"
	# What was let in is there, in every round's; how often it was asked for is another's test.
	cat "$T"/asked.q* 2>/dev/null | awk -F '\t' '$7 == "accepted" { print $3, $4 }' | sort -u >"$T/accepted.txt"
	awk '$1 == "stream" { print $3, $4 }' "$T/store.txt" | sort -u | comm -23 "$T/accepted.txt" - >"$T/missing.txt"
	short=$(head -n 5 "$T/short.txt"); wrong=$(head -n 5 "$T/wrong.txt" "$T/missing.txt" | grep -v '^==>' | grep .)
	WHY=${short:+ready too early: $short }${wrong:+wrong: $wrong}
	[ -z "$WHY" ]
}

# verdicts FROM: "PROGRAM KEY EVENT": the first warning or error after its marker, up to the next one's.
verdicts()
{
	perl -e '
		my ($log, $from) = @ARGV;
		open my $f, "<", $log or die; seek $f, $from, 0;
		my $key;
		while (<$f>) {
			if (/^calls program=(\S+) .*key=(\S+)/) { $key = "$1 $2"; $said{$key} //= "-" }
			elsif ($key && $said{$key} eq "-" && !(/died/ && /signal=9/) &&
			       (/ (?:warn|error) (\S+)/ || /^(tallyd): / || /^(bug): /)) { $said{$key} = $1 }
		}
		print "$_ $said{$_}\n" for keys %said' "$T/a.log" "$1"
}

# crashes FROM: what no failing call may lead to, in the log from there.
crashes()
{
	tail -c +$(($1 + 1)) "$T/a.log" | grep -E 'died.* signal=(4|7|8|11|31)( |$)|AddressSanitizer|runtime error:|^bug: '
	tail -n +$(($2 + 1)) "$T/exits.txt" 2>/dev/null | awk '$1 > 128 { print "the supervisor ended by signal", $1 - 128 ":", $0 }'
}

# round PHASE CASE...: all of it is in one line when it went well.
round()
{
	local phase=$1 c p key error n from exits bad crash
	shift
	ROUND=$((ROUND + 1))
	log_ends >"$T/ends.txt"
	from=$(stat -c %s "$T/a.log"); exits=$(cat "$T/exits.txt" 2>/dev/null | wc -l)
	for c in "$@"; do
		IFS=: read -r p key error n <<<"$c"
		"$CALLS" arm "$T/$p.map" "$key" "$error" "$n" || die "arm $c"
	done
	: >"$T/pages.txt"
	"phase_$phase"
	bad=$(head -n 3 "$T/pages.txt")
	recovered || bad="not recovered in $RECOVERY s: $(ready_count) of $PARTITIONS ready"
	all_sites >"$T/after.txt"
	for p in $PROGRAMS; do "$CALLS" disarm "$T/$p.map"; done
	[ -n "$bad" ] || check_counts "$phase" "$T/ends.txt" || bad=$WHY
	crash=$(crashes "$from" "$exits")
	report "$phase" "$from" "$bad" "$crash" "$@"
	[ -z "$bad$crash" ] && return 0
	tail -c +$((from + 1)) "$T/a.log" >"$T/bad.$ROUND.log"
	diag "round $ROUND, $phase: $bad" "${crash:-no crash}" "repeat: PHASES=$phase CASES='$*'" \
		"$(grep -A1 '^calls ' "$T/bad.$ROUND.log")"
	mkdir -p "$B/calls-bad"; cp "$T/bad.$ROUND.log" "$B/calls-bad/"
	[[ ! $bad =~ ^(not|ready|wrong) ]] || fleet_anew
	return 1
}

# unknown PROGRAM: what it imports that neither can fail here nor is known not to.
unknown()
{
	nm -D --undefined-only "$B/$1" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u |
		grep -vxF -f <("$CALLS" names) | grep -vxEf <(grep -v '^#' tests/calls/infallible.txt)
}

# table: the results, with function and line of each site and of who has called it.
where() { local a; for a in ${1//,/ }; do addr2line -fsp -e "$B/$2" "$a" | sed 's/ at /@/; s/ (.*//'; done | paste -sd '<'; }
table()
{
	local result phase case call frames said
	while read -r result phase case call frames said; do
		echo "$result $phase $case $call $(where "$frames" "${case%%:*}") $said"
	done <"$T/results.txt"
}

# A line for each case that failed: phase, case, call, where, what was said.
report()
{
	local c p key error n line
	verdicts "$2" >"$T/said.txt"
	for c in "${@:5}"; do
		IFS=: read -r p key error n <<<"$c"
		line=$(grep "^$p $key " "$T/after.txt")
		set -- "$1" "$2" "$3" "$4"
		if [ "$(cut -d ' ' -f 6 <<<"$line")" = 0 ]; then echo "unreached $1 $c $(cut -d ' ' -f 3,8 <<<"$line")"; continue; fi
		echo "$([ -z "$3$4" ] && echo good || echo bad) $1 $c $(cut -d ' ' -f 3,8 <<<"$line") $(awk -v k="$p $key" 'index($0, k) == 1 { print $3 }' "$T/said.txt")"
	done >>"$T/results.txt"
}
