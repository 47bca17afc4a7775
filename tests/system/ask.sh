# ask.sh - what the tests of questions have beside lib.sh.
#
#	. "$(dirname "$0")/ask.sh"
#	limits small=5 big=1000/finance=3 dry=5/dry_run
#	start_tallyd limits.file="$T/limits.yaml"; wait_ready; wait_asked
#	ask --tenant small --streams 9; is "$(said accepted rejected)" '5 4' 'five come in'

declare -F broker >/dev/null || . "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

grpc_address() { cat "$T/${1:-$INSTANCE}/query.grpc"; }

# Questions are answered by the current instance.
serving() { matches '"$B/tally-load" ask --target "$(grpc_address)" --method health --patience 1s' SERVING; }
wait_asked() { wait_until serving '' 20; }

# ask OPTIONS of tally-load ask: its summary is in $T/ask.txt; calls that fail are no failure here.
ask()
{
	local rc
	"$B/tally-load" ask --target "$(grpc_address)" "$@" >"$T/ask.txt" 2>>"$T/ask.log"
	rc=$?
	[ $rc != 2 ] || die "tally-load ask $*" "$(tail -n 3 "$T/ask.log")"
	grep -q '^requests=' "$T/ask.txt" || die "tally-load ask $*: no summary (exit $rc)" "$(tail -n 3 "$T/ask.log")"
}

# said WORD...: these numbers of the last summary; 0 for one that is not there.
said()
{
	awk -v want="$*" '/^requests=/ { for (i = 1; i <= NF; i++) { split($i, kv, "="); v[kv[1]] = kv[2] }
		n = split(want, w, " "); for (i = 1; i <= n; i++) printf "%s%s", v[w[i]] + 0, i < n ? " " : "\n" }' "${FROM:-$T/ask.txt}"
}

# ask_start NAME OPTIONS: the same in the background, its summary in $T/NAME.log; pid in $PID.
ask_start() { spawn "$1" "$B/tally-load" ask --target "$(grpc_address)" "${@:2}"; }

# limits TENANT=LIMIT[/POLICY=LIMIT...][/dry_run]...: writes $T/limits.yaml whole, by rename.
limits()
{
	local entry part policies
	{
		echo 'overrides:'
		for entry in "$@"; do
			echo "  ${entry%%=*}:"
			policies=
			IFS=/ read -ra parts <<<"${entry#*=}"
			echo "    max_global_streams_per_user: ${parts[0]}"
			for part in "${parts[@]:1}"; do
				case $part in
				dry_run) echo '    dry_run: true' ;;
				*) policies+="      ${part%%=*}:"$'\n'"        max_global_streams_per_user: ${part#*=}"$'\n' ;;
				esac
			done
			[ -z "$policies" ] || printf '    policy_override_limits:\n%s' "$policies"
		done
	} >"$T/limits.new" && mv "$T/limits.new" "$T/limits.yaml"
}

# reload_limits TENANT=...: and until they are in force.
limits_version() { ctl --json status | jq -r .limits.version; }
reload_limits()
{
	local before
	before=$(limits_version)
	limits "$@"
	kill -HUP "${TALLYD[$INSTANCE]}"
	wait_until "[ \$(limits_version) -gt $before ]" '' 10
}

# set_clock OFFSET: the clock_offset of the current instance, e.g. 3h, and until its readers say so.
set_clock()
{
	sed -i '/^clock_offset:/d' "$T/$INSTANCE.yaml"
	sed -i "1i clock_offset: $1" "$T/$INSTANCE.yaml"
	kill -HUP "${TALLYD[$INSTANCE]}"
	wait_until "http /api/v1/instance | jq .clock_offset_ms" "^$(duration_ms "$1")\$" 10
}
duration_ms() { awk -v d="$1" 'BEGIN { u["s"] = 1; u["m"] = 60; u["h"] = 3600; print substr(d, 1, length(d) - 1) * u[substr(d, length(d))] * 1000 }'; }

# active TENANT: its active streams, as the instance's maps say.
active() { ctl --json tenant "$1" | jq '.streams // 0'; }

# tap COMMAND: a program that prints TAP, its lines as assertions of this test.
tap()
{
	local line planned=
	while IFS= read -r line; do
		case $line in
		'ok '*) pass "${line#ok * - }" ;;
		'not ok '*) fail "${line#not ok * - }" ;;
		1..*) planned=$line ;;
		'#'*) diag "${line#\# }" ;;
		*) note "$line" ;;
		esac
	done < <("$@" 2>>"$T/tap.log")
	[ -n "$planned" ] || fail "$1 came to its end" "$(tail -n 10 "$T/tap.log")"
}

# --- what a store holds against what was asked ----------------------------------------------------

# dump_store INSTANCE FILE: as of one moment in the near future, so that two of them can be compared.
dump_store()
{
	"$B/tests/store-dump" --run-dir "$T/$1" --at "${AT:-$(($(now_ms) + 10000))}" >"$2" || die "store-dump of $1"
}

# counted FILE: of a dump, what two zones have to agree on: who was seen when, streams, bytes.
counted() { awk '$1 == "usage" || $1 == "total"; $1 == "stream" { print $1, $2, $3, $4, $5, $6 }' "$1"; }

# zones_agree A B: both have counted the same; their dumps are in $T/A.dump, $T/B.dump.
zones_agree()
{
	local AT i
	AT=$(($(now_ms) + 10000))
	for i in "$1" "$2"; do dump_store "$i" "$T/$i.dump"; counted "$T/$i.dump" >"$T/$i.counted.txt"; done
	cmp -s "$T/$1.counted.txt" "$T/$2.counted.txt"
}

# judge DUMP FILE...: each stream that was accepted is in the dump with all its bytes, each whose fate is
# not known is there with all or not at all, no other is.  Files of --out; streams are asked for within
# the five minutes that a stream's bytes are kept apart.
judge()
{
	perl -e '
		my ($dump, @files) = @ARGV;
		my (%low, %high, %seen, %in);
		for (@files) {
			open my $f, "<", $_ or die "$_: $!";
			while (<$f>) {
				my (undef, undef, $tenant, $hash, $size, undef, $result) = split;
				$high{"$tenant $hash"} += $result eq "rejected" ? 0 : $size;
				$low{"$tenant $hash"} += $result eq "accepted" ? $size : 0;
				$in{"$tenant $hash"} |= $result eq "accepted";
			}
		}
		open my $f, "<", $dump or die "$dump: $!";
		while (<$f>) {
			my @w = split;
			next if $w[0] ne "stream";
			my $key = "$w[2] $w[3]"; my $bytes = $w[6] + $w[7] + $w[8] + $w[9] + $w[10];
			$seen{$key} = 1;
			print "$key is there, and nobody asked for it\n", next if !exists $high{$key};
			print "$key was rejected, and is there\n" if $high{$key} == 0;
			print "$key has $bytes bytes, not $low{$key} to $high{$key}\n" if $bytes < $low{$key} || $bytes > $high{$key};
		}
		for (keys %in) { print "$_ was accepted, and is not there\n" if $in{$_} && !$seen{$_} }' "$@" >"$T/judged.txt"
	head -n 20 "$T/judged.txt"
}

# sizes PATTERN FILE...: the bytes of the streams of --out with such a result.
sizes() { awk -v want="^($1)$" '$7 ~ want { s += $5 } END { printf "%.0f\n", s }' "${@:2}"; }

# Rows that wait for Kafka, in all partitions of an instance.
outbox() { INSTANCE=${1:-$INSTANCE} status_json | jq '[.partitions[].stats.outbox] | add'; }
