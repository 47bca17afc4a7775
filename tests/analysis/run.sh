#!/bin/sh
# run.sh - static analysis: nothing may be found.
#
#	CC=gcc tests/analysis/run.sh BUILD_DIR [--short] [cppcheck|gcc|tidy|shell]...
#
#	cppcheck   all C files           what is not so: cppcheck.txt
#	gcc        -fanalyzer: the programs and the library, every path through them
#	tidy       the same files        what is left out: .clang-tidy
#	shell      shellcheck            what is left out: .shellcheckrc
#
# --short takes a third of tidy's files, by the day (DAY= for another), and says which.
# The generated headers have to be in BUILD_DIR.
set -u
cd "$(dirname "$0")/../.." || exit 1
B=$1
shift
short=
[ "${1:-}" != --short ] || { short=yes; shift; }
: "${DAY:=$(($(date +%s) / 86400))}"
[ $# -gt 0 ] || set -- cppcheck gcc tidy shell
flags="-std=gnu11 -D_GNU_SOURCE -I. -I$B/tools/queryd"
jobs=${JOBS:-2}
failed=

programs() { find shm supervisor worker tools -name '*.c' | sort; }
third()
{
	[ -n "$short" ] || { cat; return; }
	awk -v day="$DAY" 'NR % 3 == day % 3'
}
# each COMMAND: with "$1", for every file on stdin; fails where one failed or said something.
each() { xargs -P "$jobs" -n 1 sh -c "out=\$($1) && [ -z \"\$out\" ] || { printf '%s\n' \"\$out\"; exit 1; }" sh; }

# sys/queue.h by name: without it cppcheck takes TAILQ_FOREACH for a function.
cppcheck_all()
{
	cppcheck -j "$jobs" -q --std=c11 --enable=warning,portability,performance --error-exitcode=1 \
		--library=posix --suppressions-list=tests/analysis/cppcheck.txt \
		--template='{file}:{line}: {severity}: {message} [{id}]' \
		-I. -D_GNU_SOURCE --include="/usr/include/$(gcc -print-multiarch)/sys/queue.h" \
		shm supervisor worker tools tests
}
# Not its leaks: it loses sight of what realloc gives to a field (40 of 40 were none; ASan looks for
# them).  -O1: at -O2 it takes twice as long and finds the same.
gcc_all() { programs | each "gcc $flags -O1 -fanalyzer -Wno-analyzer-malloc-leak -c -o /dev/null \"\$1\" 2>&1"; }
tidy_all() { programs | third | each "clang-tidy-14 --quiet \"\$1\" -- $flags 2>/dev/null"; }
shell_all() { find tests tools .ci -name '*.sh' -o -path .ci/run | sort | xargs -P "$jobs" -n 20 shellcheck -S warning; }

for part in "$@"; do
	begun=$(date +%s)
	if "${part}_all"; then result=ok; else result='not ok'; failed="$failed $part"; fi
	echo "$result - $part${short:+ (DAY=$DAY)}: $(($(date +%s) - begun)) s"
done
[ -z "$failed" ] || { echo "analysis: FAILED:$failed"; exit 1; }
