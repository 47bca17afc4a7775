# 10-every-point.sh - at each step of start, assignment, commit, revocation, quarantine and stop somebody
# is killed: each fault point of the sources fires once, and then everything is right again.
# broker: embedded
. "$(dirname "$0")/fleet.sh"

# Lanes run side by side: each a group of its own, so that no dead member holds up the next start.
# A lane has its points armed all at once; whatever fires, is started again, until all have fired.
LANES=${LANES:-6}
declare -A LEFT=()	# lane -> points that have not fired
FAST=(log_level=info supervisor.hang_timeout=2s supervisor.restart_min=50ms supervisor.restart_max=200ms supervisor.lost_grace=300ms produce.interval=1s kafka.session_timeout=3s)
group=0

# What only a revocation passes: it needs a second member.  What only an orderly stop passes.
MOVING='revoked\..*|drain\..*|kill\..*|evict\.(unleased|renamed|freed)|released\..*|emit\.drain'
STOPPING='stop\..*|finish\..*'
LOSING='park\..*|keep\..*|resume\..*|commit\.held|hung\..*'
all=$(points)
of() { grep -xE "$1" <<<"$all"; }
others() { grep -vxE "$MOVING|$STOPPING|$LOSING" <<<"$all"; }

file_of() { echo "$T/$1.faults"; }
lane_ctl() { TALLY_FAULTS=$(file_of "$1") faults "${@:2}"; }
# arm_lane LANE POINT...: and what was armed before is not any more.
arm_lane()
{
	local p
	lane_ctl "$1" disarm
	for p in "${@:2}"; do lane_ctl "$1" arm "$p" kill; done
	LEFT[$1]="${*:2}"
}
# Those of LEFT that have not fired.
look() { LEFT[$1]=$(lane_ctl "$1" list | awk -v want="${LEFT[$1]}" 'BEGIN { n = split(want, w, " "); for (i = 1; i <= n; i++) in_it[w[i]] } $3 == 0 && $1 in in_it { printf "%s ", $1 }'); }
any_left() { local i; for i in "${lanes[@]}"; do look "$i"; [ -z "${LEFT[$i]}" ] || return 0; done; return 1; }

# start_lane LANE [INSTANCE]: the instance (the lane's own) in the lane's present group.
start_lane()
{
	local TALLY_FAULTS query=false
	TALLY_FAULTS=$(file_of "$1")
	export TALLY_FAULTS
	[[ ! " ${LEFT[$1]}" =~ \ (ask|emit|query|reader|read)\. ]] || query=true	# saves its start, where it has no point
	start_tallyd "${2:-$1}" kafka.group="g-$1-${GROUP[$1]}" query.enabled=$query "${FAST[@]}" limits.file="$T/limits.yaml"
}
declare -A GROUP=()
new_group() { GROUP[$1]=$((group += 1)); }
dead() { [ -z "${TALLYD[$1]:-}" ] || gone "${TALLYD[$1]}"; }
reap() { [ -z "${TALLYD[$1]:-}" ] || { signal KILL "${TALLYD[$1]}"; wait "${TALLYD[$1]}" 2>/dev/null; unset "TALLYD[$1]"; }; }
ready_in() { [ "$(facts "$1" 2>/dev/null | grep -c ' ready=1 ')" = "$2" ]; }
dead_or_ready() { dead "$1" || ready_in "$1" $PARTITIONS; }
prod() { produce --seed "$((SEED + (prods += 1)))" --records 60 --tenants 2 --streams 100 --broken undecodable=5; }
prods=0 asked=0 MOVED=1

lanes=()
for ((i = 0; i < LANES; i++)); do lanes+=("l$i"); done
broker partitions=2
limits ask-0=0
produce --seed "$SEED" --records 2000 --tenants 2 --streams 300 --broken undecodable=20
for i in "${lanes[@]}"; do
	TALLY_FAULTS=$(file_of "$i") faults create $all
done
spawn readers nice -n 15 "$B/tests/reader-loop" --run-dir "$T/l0" --processes 1 --seed "$SEED"; READERS=$PID
note "$(wc -l <<<"$all") points, $LANES lanes"

# deal POINTS...: to the lanes in turn.
deal()
{
	local i=0 p l
	local -A hand=()
	for p in "$@"; do hand[l$((i++ % LANES))]+=" $p"; done
	for l in "${lanes[@]}"; do arm_lane "$l" ${hand[$l]:-}; done
}

# A start, and what a life has: records, questions, deaths, a corrupt store, a poisonous record.
live()
{
	local i w
	for i in "${lanes[@]}"; do
		look "$i"
		[ -n "${LEFT[$i]}" ] || continue
		dead "$i" && { reap "$i"; new_group "$i"; start_lane "$i"; }
	done
	prod
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 20 dead_or_ready "$i"; done
	for i in "${lanes[@]}"; do
		look "$i"
		[ -n "${LEFT[$i]}" ] && ! dead "$i" || continue
		INSTANCES=("$i")
		case " ${LEFT[$i]}" in *' rebuild.'* | *' quit.'* | *' renew.'* | *' trash.'* | *' evict.trashed'* | *' place.failed'*) corrupt $((RANDOM % 2)) ;; esac
		case " ${LEFT[$i]}" in *' query.'*) signal KILL "$(query_of "$i")" ;; esac
		case " ${LEFT[$i]}" in *' quarantine.'*) poison 0 ;; esac
		case " ${LEFT[$i]}" in *' ask.'* | *' emit.'*) [ ! -s "$T/$i/query.grpc" ] || INSTANCE=$i ask --tenant ask-0 --seed "$SEED" --streams 20 --first $((asked * 20)) --patience 1s --deadline 500ms --out "$T/asked-$((asked += 1)).out" ;; esac
		case " ${LEFT[$i]}" in *' reap.'* | *' retry.'* | *' spawn.reaped'* | *' place.'* | *' birth.'* | *' open.'*) signal KILL "$(fact 1 pid "$i")" ;; esac
	done
	sleep 0.3
}

rounds()
{
	local n=$1 begin=$SECONDS
	shift
	while any_left && [ $((n -= 1)) -ge 0 ]; do "$@"; done
	note "$1: $((SECONDS - begin)) s"
}

# Everything runs, nothing is armed: the five invariants.
healthy()
{
	local i
	for i in "${lanes[@]}"; do
		lane_ctl "$i" disarm
		dead "$i" && { reap "$i"; new_group "$i"; start_lane "$i"; }
	done
	for i in "${lanes[@]}"; do
		INSTANCE=$i wait_for ready_count "^$PARTITIONS\$" 60 || fail "$1: lane $i is ready again" "$(facts "$i" | cut -c1-160)" "$(tail -n 5 "$T/$i.log")"
	done
	INSTANCES=("${lanes[@]}")
	lease_holds "$1"
	content_is_right "$1"
	nothing_is_left "$1"
	transitions_are_allowed "$1"
	deaths_are_ours "$1"
	note "$1: $SECONDS s since the start"
}
missed() { local i; for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || printf '%s ' "${LEFT[$i]}"; done; }

# --- life -----------------------------------------------------------------------------------------

deal $(others)
rounds 40 live
is "$(missed)" '' 'each point of start, assignment, replay, commit, rebuild and quarantine has fired'
healthy 'after deaths in start and life'

# --- a second member comes ------------------------------------------------------------------------

# Both in a group that nobody has been in: what moves to the second is revoked from the first.
move()
{
	local i
	for i in "${lanes[@]}"; do
		[ -n "${LEFT[$i]}" ] || continue
		reap "$i"; reap "${i}b"
		new_group "$i"
		start_lane "$i"
	done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 20 dead_or_ready "$i"; done
	prod
	for i in "${lanes[@]}"; do
		[ -n "${LEFT[$i]}" ] && ! dead "$i" || continue
		[ ! -s "$T/$i/query.grpc" ] || INSTANCE=$i ask --tenant ask-0 --seed "$SEED" --streams 20 --first $((asked * 20)) --patience 1s --deadline 500ms --out "$T/asked-$((asked += 1)).out"
		start_lane "$i" "${i}b"
	done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 8 dead_or_moved "$i"; done
}
dead_or_moved() { dead "$1" || { [ -e "$T/${1}b/table" ] && ready_in "${1}b" 1 && ready_in "$1" 1; }; }
end_seconds() { local i; for i in "${lanes[@]}"; do reap "${i}b"; done; }

deal $(of "$MOVING")
rounds 12 move
is "$(missed)" '' 'each point of a revocation has fired'
end_seconds
healthy 'after deaths in a revocation'

# --- it stops in order ----------------------------------------------------------------------------

stop_them()
{
	local i
	for i in "${lanes[@]}"; do
		look "$i"
		[ -n "${LEFT[$i]}" ] || continue
		dead "$i" && { reap "$i"; new_group "$i"; start_lane "$i"; }
	done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 20 dead_or_ready "$i"; done
	prod
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || signal TERM "${TALLYD[$i]:-0}"; done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 15 dead "$i"; done
}

deal $(of "$STOPPING")
rounds 10 stop_them
is "$(missed)" '' 'each point of an orderly stop has fired'
healthy 'after deaths in an orderly stop'

# --- it loses its group ---------------------------------------------------------------------------

# A supervisor that is frozen for longer than a session learns that its partitions are lost.  A
# worker that is frozen is taken for hung.
lose()
{
	local i
	for i in "${lanes[@]}"; do
		look "$i"
		[ -n "${LEFT[$i]}" ] || continue
		dead "$i" && { reap "$i"; new_group "$i"; start_lane "$i"; }
	done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 20 dead_or_ready "$i"; done
	for i in "${lanes[@]}"; do
		case " ${LEFT[$i]}" in
		*' hung.'*) signal STOP "$(fact 0 pid "$i")" ;;
		' ') ;;
		*) signal STOP "${TALLYD[$i]:-0}" ;;
		esac
	done
	sleep 3.5
	prod	# the lease is over: it waits
	sleep 1
	for i in "${lanes[@]}"; do dead "$i" || signal CONT "${TALLYD[$i]}"; done
	for i in "${lanes[@]}"; do [ -z "${LEFT[$i]}" ] || until_true 4 dead "$i"; done
}

deal $(of "$LOSING")
rounds 6 lose
is "$(missed)" '' 'each point of a loss has fired'
healthy 'after deaths in a loss'

for i in "${lanes[@]}"; do
	stop_tallyd "$i"
	is $? 0 "the instance of lane $i stops in order"
done
readers_end
is "$(orphans)" '' 'no process is left in the end'
done_testing
