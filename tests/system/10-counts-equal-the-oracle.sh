# 10-counts-equal-the-oracle.sh - a known log of every kind of record: libtally, HTTP and tallyctl
# say what the oracle says, now and every minute until all has expired.
. "$(dirname "$0")/lib.sh"

RECORDS=${RECORDS:-200000}
broker partitions=8
# Valid ones spread over the window, some out of it, some broken in each way, some numbered by another
# store and sent twice.  None lies within minutes of the window's edge: those could be judged either way.
produce --records $((RECORDS * 9 / 10)) --seed "$SEED" --tenants 5 --policies 2 --streams 4000 \
	--popularity zipf:1.05 --spread 110m \
	--broken undecodable=211,no_metadata=101,no_tenant=103,misrouted=107,too_old=503,null=53,old_format=59,huge=1
produce --records $((RECORDS / 10)) --seed $((SEED + 1)) --tenants 5 --policies 2 --streams 4000 \
	--popularity uniform --spread 50m --source 00112233445566778899aabbccddeeff --broken duplicate=307
dump_log "$T/log.txt"
applied_at=$(now_ms)
start_tallyd
wait_ready 8 60

# oracle_totals AT: what all partitions together must say.
oracle_totals()
{
	"$B/tests/oracle" --partitions "$PARTITIONS" --at "$1" --applied-at "$applied_at" --totals \
		<"$T/log.txt" | grep -v '^partition' >"$T/oracle.txt" || die 'oracle'
}

# What each way of asking says, as the oracle's lines.  Names here need no escapes but the empty one.
as_lines='(if .policy == "" then "-" else .policy end) as $p | select(.streams + .bytes > 0)
	| "usage \($t) \($p) \(.streams) \(.bytes)"'
by_http()
{
	local t
	for t in $(http '/api/v1/tenants?limit=100' | jq -r '.tenants[].tenant'); do
		http "/api/v1/tenants/$t" >"$T/answer.json"
		jq -e .basis.complete "$T/answer.json" >/dev/null || note "incomplete: $(cat "$T/answer.json")"
		jq -r --arg t "$t" ".policies[] | $as_lines" "$T/answer.json"
		jq -r 'select(.streams + .bytes > 0) | "total \(.tenant) \(.streams) \(.bytes)"' "$T/answer.json"
	done
	http /api/v1/partitions | jq -r '[.partitions[] | .skipped.applied = .applied | .skipped | to_entries[]]
		| group_by(.key)[] | "skipped \(.[0].key) \(map(.value) | add)"'
}
by_tallyctl()
{
	local t
	for t in $(ctl --json tenants --limit 100 | jq -r '.tenants[].tenant'); do
		ctl --json tenant "$t" >"$T/answer.json"
		jq -r --arg t "$t" ".by_policy[] | $as_lines" "$T/answer.json"
		jq -r 'select(.streams + .bytes > 0) | "total \(.tenant) \(.streams) \(.bytes)"' "$T/answer.json"
	done
	status_json | jq -r '[.partitions[].stats | .skipped.applied = .applied | .skipped | to_entries[]]
		| group_by(.key)[] | "skipped \(.[0].key) \(map(.value) | add)"'
}
by_libtally() { "$B/tests/lib-dump" --run-dir "$(run_dir)"; }
# The moment that an instance counts at.
instance_now() { status_json | jq .now_ms; }

# compare NAME WAY: asks again when a minute ended meanwhile, because both were then right.
compare()
{
	local before after
	for _ in 1 2 3; do
		before=$(instance_now); oracle_totals "$before"
		"$2" 2>"$T/way.log" | sort >"$T/way.txt"
		after=$(instance_now)
		[ $((before / 60000)) = $((after / 60000)) ] && break
		note 'a minute ended in between; asking again'
	done
	sort -o "$T/oracle.txt" "$T/oracle.txt"
	same "$T/oracle.txt" "$T/way.txt" "$1"
}

wait_until http_address '[0-9]'
is "$(status_json | jq '[.partitions[].stats.records] | add')" "$(wc -l <"$T/log.txt")" 'every record was read once'
for reason in undecodable no_metadata no_tenant misrouted too_old duplicate; do
	oracle_totals "$(instance_now)"
	isnt "$(awk -v r=$reason '$1 == "skipped" && $2 == r { print $3 }' "$T/oracle.txt")" 0 "the log has some that are $reason"
done
same_as_oracle 'store by store, stream by stream, the stores hold what the log says' --applied-at "$applied_at"
compare 'libtally says what the oracle says' by_libtally
compare 'HTTP says what the oracle says' by_http
compare 'tallyctl says what the oracle says' by_tallyctl

# The clock moves, a minute at a time: expiry is exact at the minute, and nobody has to sweep.
set_clock() { write_config a "clock_offset=${1}m"; kill -HUP "${TALLYD[a]}"; wait_until "status_json | jq .clock_offset_ms" "^$(($1 * 60000))\$" 10; }
STEP=${STEP:-1}
good=0 bad=
for minute in $(seq "$STEP" "$STEP" 122) 123 124; do
	set_clock "$minute"
	for _ in 1 2 3; do
		at=$(instance_now); oracle_totals "$at"
		sort -o "$T/oracle.txt" "$T/oracle.txt"
		# A machine so busy that a lease ends gets no answer; that is asked again, too.
		by_libtally 2>>"$T/libtally.log" >"$T/way.txt" || continue
		sort -o "$T/way.txt" "$T/way.txt"
		[ $((at / 60000)) = $(($(instance_now) / 60000)) ] && break
	done
	if cmp -s "$T/oracle.txt" "$T/way.txt"; then good=$((good + 1)); else
		bad="$bad $minute"
		diag "minute $minute" "$(diff "$T/oracle.txt" "$T/way.txt" | head -n 5)" "$(tail -n 2 "$T/libtally.log")"
	fi
done
is "$bad" '' "libtally says what the oracle says at each of $good moved minutes"
is "$(grep -c '^total' "$T/way.txt")" 0 'at the end all is expired'
compare 'HTTP too has nothing left' by_http
is "$(status_json | jq '[.partitions[].restarts] | add')" 0 'no worker had to be restarted for it'
done_testing
