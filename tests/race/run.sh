#!/bin/sh
# run.sh - runs what was built for ThreadSanitizer; a race is a failure.
#
#	tests/race/run.sh BUILD_DIR
#
# The runtime of Debian 12 does not start where the kernel scatters addresses widely
# (vm.mmap_rnd_bits above 28): then they are kept together.
set -u
B=$1
S=$(dirname "$0")/tsan.supp
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 exitcode=66 die_after_fork=0 suppressions=$S"
here=
"$B/race/race_table" --nothing >"$log" 2>&1 &
wait $!
! grep -q 'unexpected memory mapping' "$log" || here="setarch $(uname -m) -R"

failed=
for t in "$B"/race/race_*[!.od] "$B"/unit/test_*; do
	[ -x "$t" ] && [ -f "$t" ] || continue
	timeout -k 10 "${TEST_TIMEOUT:-300}" $here "$t" >"$log" 2>&1
	rc=$?
	if [ $rc = 0 ]; then echo "ok - ${t##*/}"; else
		echo "not ok - ${t##*/} ($rc)"
		grep -v '^\[' "$log"
		failed="$failed ${t##*/}"
	fi
done
[ -z "$failed" ] || { echo "race: FAILED:$failed"; exit 1; }
