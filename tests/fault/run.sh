#!/bin/bash
# run.sh - runs a schedule of faults: tests/fault/run.sh FILE
#
# A line is a step (README.md); `check` asserts the five invariants.  The first line is "seed N".
SCHEDULE=$(realpath "$1") || exit 2
SEED=$(awk '$1 == "seed" { print $2; exit }' "$SCHEDULE")
. "$(dirname "$0")/fleet.sh"

fleet_start a b
run_schedule "$SCHEDULE"
done_testing
