# 05-machine.sh - how still the machine is before anything of ours runs: what no percentile can be better than.
. "$(dirname "$0")/lib.sh"
measure machine "$B/bench/stillness" "$(pick 6 20)"
PLANNED=1
