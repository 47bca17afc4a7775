# calls.sh - what the tests of failing calls have beside ask.sh.
#
#	. "$(dirname "$0")/calls.sh"
#	watch_programs; fleet_up
#	reached boot		# once without failures: the sites that it reaches, in $T/boot.cases
#	round boot CASE...	# once more, with these failing: is all well afterwards?
#	unsaid			# of all rounds so far, those of whose failure nobody heard
#
# A case is "PROGRAM:KEY:ERROR:N": this site of this program fails with its ERRORth error when it
# is reached for the Nth time.  Failures, and what was made of them, are lines of $T/results.txt.
. "$(dirname "${BASH_SOURCE[0]}")/../system/ask.sh"
. tests/kafka/certs.sh

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

# Health is asked for like all else: who hears that it is not served was told.
serving()
{
	local from out
	from=$(now_ms)
	out=$("$B/tally-load" ask --target "$(grpc_address)" --method health --deadline 3s --patience 1s 2>&1)
	[[ $out == *SERVING* ]] || { told "$from" "health: $out"; return 1; }
}
all_up() { keep_up; [ "$(ready_count)" = "$PARTITIONS" ] && serving; }
recovered() { until_true "$RECOVERY" all_up; }

fleet_config()
{
	write_config a supervisor.worker_program="$T/bin/tally-worker" \
		supervisor.query_program="$T/bin/tally-queryd" supervisor.restart_max=500ms \
		limits.file="$T/limits.yaml" "$@"
}
fleet_up()
{
	fleet_config
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

# told FROM WHAT: somebody who asked has heard that it did not work: a line "FROM UNTIL WHAT" (ms).
told() { echo "$1 $(now_ms) $(tr -s '[:space:]' ' ' <<<"${*:2}" | cut -c 1-150)" >>"$T/told.txt"; }

# a_call OPTIONS of tally-load ask
a_call()
{
	local from out
	from=$(now_ms)
	out=$("$B/tally-load" ask --target "$(grpc_address)" --deadline 3s --patience 1s "$@" 2>&1) &&
		! grep -qE ' (lost|garbled|failed|other)=[1-9]| status[0-9]+=' <<<"$out" || told "$from" "gRPC: $out"
}

# ask_some TENANT: new streams, all methods, all services; what was said of the streams is kept.
ask_some()
{
	local out="$T/asked.$1"
	[ -s "$T/$INSTANCE/query.grpc" ] || return 0
	a_call --tenant "$1" --streams 24 --per-request 4 --size 100-100 --out "$out.1"
	a_call --tenant "$1" --streams 24 --per-request 24 --size 100-100 --out "$out.2"
	a_call --service frontend --tenant "$1" --streams 8 --first 24 --per-request 8 --size 100-100 --out "$out.3"
	a_call --method rates --tenant "$1" --streams 8 --per-request 8
	a_call --method partitions
	cat "$out".[123] >"$out" 2>/dev/null
} >/dev/null 2>&1

# get PATH [OPTIONS of curl]: its body is in $T/page.body; false, and told, when its status is not as $WANTED.
WANTED=200
get()
{
	local from code
	from=$(now_ms)
	code=$(curl -sS --max-time 5 -o "$T/page.body" -w '%{http_code}' "${@:2}" "${SCHEME:-http}://$(http_address)$1" 2>"$T/curl.txt")
	[ "$code" = "$WANTED" ] || { told "$from" "$1: $code $(head -c 200 "$T/page.body") $(cat "$T/curl.txt")"; return 1; }
}
# post PATH BODY [OPTIONS]: what could not be found out of a stream is said beside it.
post()
{
	local from
	from=$(now_ms)
	get "$1" -H 'Content-Type: application/json' --data-binary "$2" "${@:3}" || return 1
	! grep -qE ':"(unreadable|not_ready|unserved|failed)"' "$T/page.body" || told "$from" "$1: $(cat "$T/page.body")"
}
see() { local from; from=$(now_ms); ctl "$@" || told "$from" "tallyctl $*"; }

# page PATH: an answer with status 200 is a whole one: its members are those that it had when nothing failed.
page()
{
	local name=${1//[^a-z0-9]/_} members from
	from=$(now_ms)
	get "$1" || return 0
	# It may say that it does not know all.
	jq -e '[.. | objects | select(has("answered") and has("owned") and .answered < .owned)] == []' "$T/page.body" ||
		told "$from" "$1: not all partitions have answered"
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
	for p in /metrics /api/v1/partitions/1; do get "$p"; done
	WANTED=404 get /nothing
	for p in check exceeds-limits update-rates; do
		post "/api/v1/$p" '{"tenant":"q0","streams":[{"streamHash":"7","totalSize":5}]}'
	done
	see status; see --json tenant tenant-0
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

stop_a()
{
	end "${TALLYD[a]}" 40
	echo "$? stop $(grep -v '^calls ' "$T/a.log" | tail -n 1)" >>"$T/exits.txt"
	unset 'TALLYD[a]'
}

# Stops in order and starts again, every other time from nothing.
phase_boot()
{
	stop_a
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

# Two instances that ask each other, in cleartext or with TLS, certificates of clients and tokens.
pair_prepare()
{
	[ ! -d "$T/tls" ] || return 0
	make_certs secret
	echo pair >"$T/token"
	echo "sha256:$(printf pair | sha256sum | cut -d ' ' -f 1) admin" >"$T/tokens"
	PORT_A=$(unused_port); RANDOM=$((RANDOM + 1)); PORT_B=$(unused_port)
	TLS=(query.tokens_file="$T/tokens" query.peers_token_file="$T/token")
	for p in http grpc; do
		TLS+=("query.${p}_tls_cert=$T/tls/server.pem" "query.${p}_tls_key=$T/tls/server.key" "query.${p}_tls_client_ca=$T/tls/ca.pem")
	done
}
again() { stop_a; keep_up; }
# Whoever is asked answers for all streams, over HTTP and gRPC.
everything() { jq -cn --arg t "q$ROUND" '{tenant: $t, streams: [range(16) | {streamHash: ., totalSize: 100}]}'; }
# exceeds FROM: the answer is whole; who came in is kept, like the results of tally-load.
exceeds()
{
	jq -r '.tenant as $t | .results[]? | "-\t-\t\($t)\t\(.streamHash)\t100\t-\t\(.result)"' "$T/page.body" >>"$T/asked.q$ROUND"
	[ "$(jq -r '.accepted' "$T/page.body")" = 16 ] || { told "$1" "not whole: $(cat "$T/page.body")"; return 1; }
}
pair_http() { local from; from=$(now_ms); post /api/v1/exceeds-limits "$(everything)" "${SHOWN[@]}" && exceeds "$from"; }
# A call of the front-end service: tenant q0, stream 1 and 2.
pair_grpc()
{
	local from
	from=$(now_ms)
	printf '\0\0\0\0\020\012\002q0\022\004\010\001\020\001\022\004\010\002\020\001' |
		curl -sS --max-time 5 "$@" -o "$T/grpc.body" -D "$T/grpc.head" -H 'Content-Type: application/grpc' -H 'TE: trailers' \
			--data-binary @- "$SCHEME://$(grpc_address)/proto.IngestLimitsFrontend/ExceedsLimits" 2>"$T/curl.txt" &&
		grep -qi '^grpc-status: 0' "$T/grpc.head" && [ "$(stat -c %s "$T/grpc.body")" = 5 ] ||
		told "$from" "gRPC: $(cat "$T/curl.txt" "$T/grpc.head")"
}
pair_ask()
{
	local i j p from
	for i in a b a; do
		INSTANCE=$i
		until_true 20 pair_http
		post /api/v1/update-rates "$(everything)" "${SHOWN[@]}"
		for j in 1 2 3; do pair_grpc "${SHOWN[@]}" "$HTTP2"; done
	done
	INSTANCE=a
	for p in /metrics /api/v1/instance; do get "$p" "${SHOWN[@]}"; done
	# Those who are not let in: that is all that they ever hear.
	[ "$SCHEME" = http ] || for p in "$(http_address)" "$(grpc_address)"; do
		from=$(now_ms)
		curl -sS --max-time 2 --cacert "$T/tls/ca.pem" "https://$p/metrics"
		curl -sS --max-time 2 "http://$p/metrics"
		told "$from" 'not let in'
	done
} >/dev/null 2>&1
phase_pair()
{
	pair_prepare
	fleet_config query.peers="127.0.0.1:$PORT_A,127.0.0.1:$PORT_B" query.grpc_listen="127.0.0.1:$PORT_A" "$@"
	again
	write_config b query.peers="127.0.0.1:$PORT_A,127.0.0.1:$PORT_B" query.grpc_listen="127.0.0.1:$PORT_B" \
		limits.file="$T/limits.yaml" "$@"
	TALLYD_PROGRAM= start_tallyd b
	until_true 40 moved
	pair_ask
	kill -HUP "${TALLYD[a]}" 2>/dev/null
	pair_ask
	kill_hard "$(INSTANCE=b status_json 2>/dev/null | jq -r .query_pid)"
	pair_ask
	stop_tallyd b
	INSTANCE=a
	fleet_config
	again
}
phase_peers() { SCHEME=http HTTP2=--http2-prior-knowledge; SHOWN=(); phase_pair; unset SCHEME; }
phase_secure()
{
	pair_prepare
	SCHEME=https HTTP2=--http2
	SHOWN=(--cacert "$T/tls/ca.pem" --cert "$T/tls/tally.pem" --key "$T/tls/tally.key" -H 'Authorization: Bearer pair')
	phase_pair "${TLS[@]}"
	unset SCHEME
}

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
	local from
	ROUND=$((ROUND + 1))
	all_sites >"$T/before.txt"
	from=$(stat -c %s "$T/a.log"); : >"$T/told.txt"
	"phase_$1"
	recovered || die "all is well after $1"
	check_counts "before anything fails, $1" /dev/null || die "$1 is right"
	[ "$1" != boot ] || { ROUND=$((ROUND + 1)); phase_boot; recovered || die 'started from nothing'; }
	all_sites >"$T/after.txt"
	events "$from" | sort -u >"$T/$1.usual"
	note "usual in $1: $(cut -d ' ' -f 2 "$T/$1.usual" | xargs)" "told in $1: $(cut -d ' ' -f 3- "$T/told.txt" | head -n 10)"
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

# events FROM: the warnings and errors in the log from there: program, event.  A child that we killed is none.
# verdicts FROM PHASE: "PROGRAM KEY AT EVENT": the first after its marker and before the program's next one, of the
# program or of the supervisor about it; one that is usual in this phase only when it comes at once.
events() { lines events "$1" /dev/null; }
verdicts() { lines verdicts "$1" "$T/$2.usual"; }
lines()
{
	perl -MTime::Local -e '
		my ($what, $log, $from, $usual) = @ARGV;
		my %program = (supervisor => "tallyd", worker => "tally-worker", queryd => "tally-queryd");
		my (%usual, %open, %at, %said, $last);
		if (open my $u, "<", $usual) { $usual{s/\n//r} = 1 while <$u> }
		open my $f, "<", $log or die; seek $f, $from, 0;
		while (<$f>) {
			if (/^calls program=(\S+) .*at=(\d+) key=(\S+)/) { $last = $1; $open{$1} = "$1 $3"; $at{"$1 $3"} = $2; next }
			next if /died/ && /signal=9/;
			my ($by, $event, $ms) = ("", "", 0);
			if (/^tally: error (\S+)/) { $said{$open{$last}} //= $1 if $last && $open{$last}; next }
			if (/^(\d+)-(\d+)-(\d+)T(\d+):(\d+):(\d+)\.(\d+)Z (supervisor|worker|queryd)\S* (?:warn|error) (\S+)/) {
				($by, $event, $ms) = ($program{$8}, $9, timegm($6, $5, $4, $3, $2 - 1, $1) * 1000 + $7);
			} elsif (/^(tallyd|tally-worker|tally-queryd): /) { ($by, $event) = ($1, "line") }
			elsif (/^bug: /) { ($by, $event) = ("tallyd", "bug") }
			else { next }
			my @of = ($by);
			push @of, $1 eq "worker" ? "tally-worker" : "tally-queryd" if $by eq "tallyd" && $event =~ /^(worker|query)\./;
			if ($what eq "events") { print "$_ $event\n" for @of; next }
			for (@of) {
				my $key = $open{$_} or next;
				$said{$key} //= $event if !$usual{"$_ $event"} || $ms - $at{$key} <= 50;
			}
		}
		if ($what eq "verdicts") { print "$_ $at{$_} ", $said{$_} // "-", "\n" for keys %at }' "$1" "$T/a.log" "$2" "$3"
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
	: >"$T/pages.txt"; : >"$T/told.txt"
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

# A line for each case that failed: result, phase, case, call, where, what was said, whether somebody was told.
report()
{
	local phase=$1 result=good c p key error n line at said
	verdicts "$2" "$phase" >"$T/said.txt"
	[ -z "$3$4" ] || result=bad
	for c in "${@:5}"; do
		IFS=: read -r p key error n <<<"$c"
		line=$(grep "^$p $key " "$T/after.txt")
		if [ "$(cut -d ' ' -f 6 <<<"$line")" = 0 ]; then echo "unreached $phase $c $(cut -d ' ' -f 3,8 <<<"$line") - -"; continue; fi
		read -r at said < <(awk -v k="$p $key " 'index($0, k) == 1 { print $3, $4 }' "$T/said.txt")
		echo "$result $phase $c $(cut -d ' ' -f 3,8 <<<"$line") ${said:--} $(told_at "${at:-0}")"
	done >>"$T/results.txt"
}
# told_at MS: what failed then, failed while somebody waited for an answer, and the answer was an error.
told_at() { awk -v at="$1" '$1 <= at && at <= $2 { n++ } END { print n ? "told" : "-" }' "$T/told.txt"; }

# table: the results, with the error's name, and functions and lines of each site and of who has called it.
where() { local a; for a in ${1//,/ }; do addr2line -fsip -e "$B/$2" "$a" | sed 's/^ (inlined by) //; s/ at /@/; s/ (.*//'; done | paste -sd '<'; }
table()
{
	local result phase case call frames said told error
	"$CALLS" errors | tr -d , >"$T/errors.txt"
	while read -r result phase case call frames said told; do
		error=$(cut -d : -f 3 <<<"$case")
		error=$(awk -v call="$call" -v n="$error" '$1 == call { print $(n + 2) }' "$T/errors.txt")
		echo "$result $phase $case $call/$error $(where "$frames" "${case%%:*}") $said $told"
	done <"$T/results.txt"
}

# unsaid: lines of the table on stdin of which nobody heard, though silent.txt does not name them.
unsaid()
{
	awk -v names=tests/calls/silent.txt '
		BEGIN { while ((getline line < names) > 0) if (line !~ /^(#|$)/) { split(line, w, " "); calls[++n] = "^(" w[1] ")$"; by[n] = "^(" w[2] ")$" } }
		function known(call, chain,    i, j, m, f) {
			gsub(/@[^<]*/, "", chain)
			m = split(chain, f, "<")
			f[++m] = chain
			for (i = 1; i <= n; i++) {
				if (call !~ calls[i] && substr(call, 1, index(call, "/") - 1) !~ calls[i]) continue
				for (j = 1; j <= m; j++) if (f[j] ~ by[i]) return 1
			}
			return 0
		}
		$1 != "unreached" && $6 == "-" && $7 == "-" && !known($4, $5)'
}
