# 57-the-commands-of-the-manual-work.sh - each command that README.md, SECURITY.md and the man pages show is run, as it
# stands, or is known to be run by another test (commands.txt); one that is new or gone is a failure.
# broker: embedded (any will do)
. "$(dirname "$0")/lib.sh"

perl tests/system/commands.pl README.md SECURITY.md etc/man/*.[1-8] >"$T/shown" || die 'commands.pl'
sed 's/^#.*//; /^$/d' tests/system/commands.txt >"$T/known"
is "$(sed 's/^[^|]* | //' "$T/known" | sort | uniq -d)" '' 'commands.txt has each command once'
is "$(sort "$T/shown" | comm -23 - <(sed 's/^[^|]* | //' "$T/known" | sort))" '' 'every command that is shown is in commands.txt'
is "$(sort "$T/shown" | comm -13 - <(sed 's/^[^|]* | //' "$T/known" | sort))" '' 'and every one there is shown'
missing=
while read -r name; do
	[ -e "$name" ] || grep -qE "^${name#make }( |:)" Makefile || missing+=" $name"
done < <(sed -n 's/^by \([^|]*\) |.*/\1/p' "$T/known" | sort -u)
is "$missing" '' 'what is said to run the others is there'

# --- those that are run here ----------------------------------------------------------------------

mkdir -p "$T/etc" "$T/bin" "$T/cwd"
printf '#!/bin/sh\nexec "$@"\n' >"$T/bin/sudo"
chmod +x "$T/bin/sudo"

broker partitions=2
printf 'overrides:\n  tenant-a:\n    max_global_streams_per_user: 10\n' >"$T/limits.yaml"
start_tallyd a limits.file="$T/limits.yaml"
wait_ready 2
produce --records 60 --tenants 3 --streams 5 --popularity each --seed "$SEED"
cp "$T/a.yaml" "$T/etc/tally.yaml"
touch "$T/etc/tokens"
wait_until "http /api/v1/tenants/tenant-0 | jq -r .streams" '^5$'

# here COMMAND: with the places of this test.
here()
{
	sed "s|/etc/tally|$T/etc|g; s|127.0.0.1:3100|$(http_address)|g; s|broker-1:9092|$BROKERS|g; s|-t ingest-limits|-t $TOPIC|g
		s|team%2Fa|tenant-0|g; s|--partition N\b|--partition 1|g; s|-p N -o OFFSET|-p 0 -o 0|g; s|TENANT|tenant-0|g; s|\.\.\.$||" <<<"$1"
}
while IFS= read -r line; do
	command=${line#* | }
	case $line in
	'run |'*) rc=0 ;;
	'run='*) rc=${line#run=} rc=${rc%% *} ;;
	*) continue ;;
	esac
	(cd "$T/cwd" && PATH=$T/bin:$B:$PATH TALLY_RUN_DIR=$T/a timeout 60 bash -c "$(here "$command")" >"$T/out" 2>&1 </dev/null)
	got=$?
	if [ $got = "$rc" ]; then pass "$command"; else fail "$command" "exit code $got, not $rc: $(tail -n 3 "$T/out")"; fi
done <"$T/known"
like "$(cat "$T/etc/tokens")" '^sha256:[0-9a-f]{64} metrics read:team-a$' 'a token is a line that Tally understands'
stop_tallyd
done_testing
