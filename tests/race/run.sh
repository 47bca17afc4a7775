#!/bin/sh
# run.sh - runs what was built for ThreadSanitizer; a race is a failure.
#
#	tests/race/run.sh BUILD_DIR
#
# The runtime of Debian 12 does not start where the kernel scatters addresses widely
# (vm.mmap_rnd_bits above 28): then they are kept together.
set -u
B=$1
log=$(mktemp)
trap 'rm -f "$log"' EXIT
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1 die_after_fork=0"
together=
try() { timeout -k 10 "${TEST_TIMEOUT:-300}" $together "$1" >"$log" 2>&1; }

failed=
for t in "$B"/race/race_* "$B"/unit/test_*; do
	try "$t"
	rc=$?
	if [ $rc != 0 ] && [ -z "$together" ] && grep -q 'unexpected memory mapping' "$log"; then
		together="setarch $(uname -m) -R"
		try "$t"
		rc=$?
	fi
	if [ $rc = 0 ]; then echo "ok - ${t##*/}"; else
		echo "not ok - ${t##*/} ($rc)"
		cat "$log"
		failed="$failed ${t##*/}"
	fi
done
[ -z "$failed" ] || { echo "race: FAILED:$failed"; exit 1; }
