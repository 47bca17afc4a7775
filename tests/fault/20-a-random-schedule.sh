# 20-a-random-schedule.sh - two instances, readers, records and questions under a schedule of faults that
# the seed makes: the five invariants hold after each case.  `make soak` does this at length.
# broker: embedded
. "$(dirname "$0")/fleet.sh"

tests/fault/schedule.sh "$SEED" "${FAULT_STEPS:-4}" >"$T/schedule.txt"
note "$(cat "$T/schedule.txt")"
fleet_start a b
run_schedule "$T/schedule.txt"
[ $FAILED = 0 ] || note "again: B=$B tests/fault/run.sh FILE, with these lines in it"
done_testing
