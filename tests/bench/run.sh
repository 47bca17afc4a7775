#!/bin/bash
# run.sh - all measuring scripts, one after the other, and one table of what they found.
#
#	B=build tests/bench/run.sh short|full [SCRIPT...]
#
#	NN-*.sh --key, tab, value--> $B/bench/results.tsv --.
#	                                       rows.tsv ----'--> table
#
# Exit 1 when a script has failed: its rows say so, its log tells why.  A target that is missed is no failure.
set -u
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
FORM=${1:?short or full}
shift
B=$(realpath "${B:-build}")
out=$B/bench
RESULTS=$out/results.tsv
export B FORM RESULTS LC_ALL=C

mkdir -p "$out"
[ $# -gt 0 ] || set -- "$here"/[0-9]*.sh
[ "${KEEP:-}" ] || : >"$RESULTS"	# KEEP=1 adds to what was measured before
names=' '
failed=0
for script; do
	name=$(basename "$script")
	names="$names$name "
	began=$SECONDS
	timeout -k 20 "$(if [ "$FORM" = full ]; then echo 3600; else echo 300; fi)" \
		bash "$here/$name" >"$out/$name.log" 2>&1 || { failed=1; echo "$name FAILED: $(grep -m 1 -E '^(Bail|not ok)' "$out/$name.log"), see $out/$name.log"; }
	echo "# $name took $((SECONDS - began)) s"
done
echo "# $FORM form, $SECONDS s, $(date -u +%FT%TZ), $(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), load $(cut -d ' ' -f 1-2 /proc/loadavg)"
awk -f "$here/table.awk" SCRIPTS="$names" "$RESULTS" "$here/rows.tsv" | tee "$out/table.txt"
[ "${PIPESTATUS[0]}" = 0 ] && [ $failed = 0 ]
