#!/bin/sh
# run.sh - runs fuzz targets side by side, keeps what breaks them, and says how to see it again.
#
#	run.sh BUILD SECONDS TARGET ...		the kept inputs, then new ones for so long
#	run.sh BUILD replay TARGET ...		the kept inputs alone
#	run.sh BUILD merge TARGET ...		the kept inputs anew, from all that was found
#	run.sh --can				is there a clang with libFuzzer?
#
# FUZZ_SEED=n repeats the order of a run, FUZZ_RUNS=n ends it after so many inputs.  BUILD/corpus/TARGET is what a run finds, and begins with the next time.
set -u
here=$(dirname "$0")
jobs=${FUZZ_JOBS:-$(nproc)}

can() {
	command -v clang >/dev/null || return 1
	for flavour in "" "-$(uname -m)"; do
		[ ! -e "$(clang -print-file-name=lib/linux/libclang_rt.fuzzer$flavour.a 2>/dev/null)" ] || return 0
	done
	find "$(clang -print-resource-dir)" -name 'libclang_rt.fuzzer*.a' 2>/dev/null | grep -q .
}

options() {
	dict=$here/$1.dict
	[ ! -e "$dict" ] || printf -- '-dict=%s ' "$dict"
	case $1 in fuzz_run | fuzz_store | fuzz_grpc) printf -- '-len_control=0 ';; esac # slow ones
	echo "${FUZZ_SEED:+-seed=$FUZZ_SEED }${FUZZ_RUNS:+-runs=$FUZZ_RUNS }-timeout=25 -rss_limit_mb=2048 -max_len=2048 -print_final_stats=1 -verbosity=1"
}

# One target; its words go to BUILD/TARGET.log.
one() {
	build=$1 how=$2 target=$3
	log=$build/$target.log kept=$here/corpus/$target found=$build/corpus/$target
	case $how in
	replay)
		"$build/$target" "$kept" >"$log" 2>&1;;
	merge) # libFuzzer names its own by their hash: those with a name of ours stay
		rm -rf "$build/merged/$target" && mkdir -p "$build/merged/$target" "$found" "$kept"
		# shellcheck disable=SC2046
		"$build/$target" -merge=1 -use_counters=0 $(options "$target") \
			"$build/merged/$target" "$kept" "$found" >"$log" 2>&1 &&
			find "$kept" "$found" -name 'edge-*' -exec cp {} "$build/merged/$target" \; &&
			rm -rf "$kept" && mv "$build/merged/$target" "$kept";;
	*)
		mkdir -p "$found"
		# shellcheck disable=SC2046
		"$build/$target" $(options "$target") -max_total_time="$how" \
			-artifact_prefix="$build/$target-" "$found" "$kept" >"$log" 2>&1;;
	esac
	rc=$?
	say "$target" "$log" $rc
	return $rc
}

say() {
	if [ "$3" = 0 ]; then
		units=$(sed -n 's/^stat::number_of_executed_units: *//p' "$2")
		edges=$(sed -n 's/.* cov: \([0-9]*\) ft.*/\1/p' "$2" | tail -1)
		echo "$1: ok${units:+, $units inputs}${edges:+, $edges edges}$(sed -n 's/.*: \([0-9]* inputs\)$/, \1/p' "$2")"
		return
	fi
	echo "$1: FAILED ($3); the end of $2:"
	grep -v '^#[0-9]*[[:space:]]\(NEW\|REDUCE\|pulse\)' "$2" | tail -40 | sed 's/^/    /'
	input=$(sed -n 's/.*Test unit written to //p; s/^input: //p' "$2" | tail -1)
	[ -z "$input" ] || echo "$1: again with: $build/$1 $input"
}

case ${1:-} in
--can) can; exit;;
--one) shift; one "$@"; exit;;
esac
build=$1 how=$2
shift 2
export ASAN_OPTIONS="${ASAN_OPTIONS:-abort_on_error=0:detect_stack_use_after_return=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
printf '%s\n' "$@" | xargs -P "$jobs" -I{} "$0" --one "$build" "$how" {}
rc=$?
[ $rc = 0 ] && echo "fuzz: all passed" || echo "fuzz: FAILED"
[ $rc = 0 ]
