# 10-every-call-fails-once.sh - each call of supervisor, worker and query process fails once, where it is
# made: nothing crashes, nothing wrong is ready, and soon all is as it was.
# broker: embedded
#
# BUDGET=seconds of failing (0: all that was reached)  PHASES="live boot move outage peers secure"  GROUP=cases a round
# CASES="..." one round of these, as a red one has printed it (with PHASES=its phase; same binaries)
# AGAIN=file of lines "PHASE CASE..."  a round for each, and nothing else (same binaries)
# ONLY_PROGRAM=, ONLY_CALL=regular expression  NTH=1: not the first time that a site is reached, but any
. "$(dirname "$0")/calls.sh"

BUDGET=${BUDGET:-30}
GROUP=${GROUP:-$([ "$BUDGET" = 0 ] && echo 5 || echo 8)}
PHASES=${PHASES:-$([ "$BUDGET" = 0 ] && echo live boot move outage peers secure || echo live boot)}

# pick PHASE: its cases in an order of the seed, "PROGRAM:KEY:ERROR:N"; not those of an earlier phase.
pick()
{
	awk -v seed="$SEED" -v only="${ONLY_PROGRAM:-}" -v call="${ONLY_CALL:-}" -v nth="${NTH:-0}" '
		BEGIN { srand(seed) }
		(only == "" || $1 == only) && (call == "" || $3 ~ call) {
			n = nth && $4 > 1 ? int(rand() * ($4 < 50 ? $4 : 50)) + 1 : 1
			printf "%.9f %s:%s:%d:%d\n", rand(), $1, $2, int(rand() * $5), n
		}' "$T/$1.cases" | sort | cut -d ' ' -f 2
}

# one_by_one PHASE CASE...: which of a red round it was.
one_by_one()
{
	local c
	for c in "${@:2}"; do
		if round "$1" "$c"; then note "not it: $c"; else note "it is: $c"; fi
	done
}

# by_threes: lines "PHASE CASE" to "PHASE CASE...", at most one of each program: what is said by whom is clear then.
by_threes()
{
	awk '{ split($2, c, ":"); i = ++n[$1 c[1]]; line[$1 " " i] = line[$1 " " i] " " $2 }
		END { for (l in line) { split(l, w, " "); print w[1] line[l] } }'
}

for p in $PROGRAMS; do
	is "$(unknown "$p")" '' "$p: every import can fail here, or is known not to"
done

broker partitions=4
produce --records 2000 --streams 300 --tenants 4
limits big=1000
watch_programs
fleet_up
: >"$T/seen.txt"
for phase in $PHASES; do
	reached "$phase"
	note "$phase reaches: $(cut -d ' ' -f 1 "$T/$phase.cases" | sort | uniq -c | xargs)"
	pick "$phase" | grep -vFf "$T/seen.txt" >"$T/$phase.picked"
	awk '{ print $1 ":" $2 ":" }' "$T/$phase.cases" >>"$T/seen.txt"
done

END=$((SECONDS + BUDGET))
BAD=0
touch "$T/results.txt" "$T/again.txt"
[ -z "${AGAIN:-}" ] || for phase in $PHASES; do : >"$T/$phase.picked"; done
while [ "$(cat "$T"/*.picked | wc -l)" != 0 ]; do
	for phase in $PHASES; do
		mapfile -t cases < <(head -n "$GROUP" "$T/$phase.picked")
		sed -i "1,${GROUP}d" "$T/$phase.picked"
		[ -z "${CASES:-}" ] || { read -ra cases <<<"$CASES"; : >"$T/$phase.picked"; }
		[ ${#cases[@]} != 0 ] || continue
		[ "$BUDGET" = 0 ] || [ $SECONDS -lt $END ] || break 2
		round "$phase" "${cases[@]}" && continue
		BAD=$((BAD + 1))
		[ "$BUDGET" != 0 ] || [ ${#cases[@]} = 1 ] || one_by_one "$phase" "${cases[@]}"
	done
done
# What seems to be unsaid may have been said late, behind another's failure: once more, one of each program a round.
table >"$T/table.txt"
[ -n "${CASES:-}" ] || unsaid <"$T/table.txt" | awk '{ print $2, $3 }' | sort -u | by_threes >"$T/again.txt"
[ -z "${AGAIN:-}" ] || cp "$AGAIN" "$T/again.txt"
while read -ra cases; do
	for c in "${cases[@]:1}"; do grep -v " $c " "$T/results.txt" >"$T/results.new"; mv "$T/results.new" "$T/results.txt"; done
	round "${cases[@]}" || BAD=$((BAD + 1))
done <"$T/again.txt"
is $BAD 0 'whatever fails, nothing crashes, nothing wrong is ready, and all is as it was'
table >"$B/calls-results.txt"
# A short slice has other company in each round, and so other ways to be unheard: there it is told, not judged.
if [ "$BUDGET" = 0 ] || [ -n "${CASES:-}" ]; then
	is "$(unsaid <"$B/calls-results.txt" | cut -d ' ' -f 2-5)" '' 'each failure is in a log, or was told to whoever asked, or silent.txt has it'
else
	note "unsaid: $(unsaid <"$B/calls-results.txt" | cut -d ' ' -f 2-5)"
fi
note "failed, by program: $(awk '$1 != "unreached" { sub(/:.*/, "", $3); print $3 }' "$T/results.txt" | sort | uniq -c | xargs)"
note "said: $(awk '$1 != "unreached"' "$B/calls-results.txt" | awk '{ n[$6 != "-" ? "in a log" : $7 != "-" ? "to who asked" : "to nobody"]++ } END { for (k in n) print k ":", n[k] }' | xargs)"
[ -n "${ONLY_PROGRAM:-}${CASES:-}" ] ||
	is "$(awk '$1 != "unreached" { sub(/:.*/, "", $3); print $3 }' "$T/results.txt" | sort -u | xargs)" \
		'tally-queryd tally-worker tallyd' 'calls of each program have failed'
done_testing
