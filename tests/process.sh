# process.sh - starts processes, and waits for what they do: for tests/system/lib.sh and `make kafka`.
#
#	spawn broker tally-broker ...; until_true 10 grep -q ready "$T/broker.log"
#
# Needs $T, where the logs go.
OWN=()	# pids we started, oldest first

# spawn NAME COMMAND...: in the background, log in $T/NAME.log; pid in $PID.
spawn()
{
	"${@:2}" >>"$T/$1.log" 2>&1 0<>"${STDIN:-/dev/null}" &
	PID=$!
	OWN+=("$PID")
}
alive() { [ -d "/proc/$1" ] && ! grep -qs '^State:.Z' "/proc/$1/status"; }
gone() { ! alive "$1"; }

# until_true SECONDS COMMAND...: polls; false when the time is over.
until_true()
{
	local end=$((SECONDS + $1))
	shift
	while :; do
		"$@" >/dev/null 2>&1 && return 0
		[ $SECONDS -le $end ] || return 1
		sleep 0.05
	done
}
