# term.sh - a terminal of so many columns and rows, for tests of what is seen and typed.
#
#	. "$(dirname "$0")/lib.sh"; . "$(dirname "$0")/term.sh"
#	term 80 24
#	type 'tallyctl top' Enter
#	sees 'eight partitions are shown' '8 of 8 partitions ready'
#
# It is tmux's: a real pseudo terminal, with a shell in it, whose cells can be read.  The server is
# this test's own and ends with it.  The shell's prompt is "$ ".

command -v tmux >/dev/null || skip_all 'it needs tmux'

tmux() { LC_ALL=C.UTF-8 command tmux -u -S "$T/tmux.sock" -f /dev/null "$@"; }

# term COLUMNS ROWS [SHELL...]: a new one, in place of the one before.
term()
{
	local shell=("${@:3}")
	[ $# -gt 2 ] || shell=(PS1='$ ' HISTFILE= bash --norc --noprofile -i)
	if [ -z "${TMUX_SERVER:-}" ]; then
		spawn tmux env LC_ALL=C.UTF-8 TMUX= tmux -u -S "$T/tmux.sock" -f /dev/null -D
		TMUX_SERVER=$PID
		until_true 10 tmux set -g default-terminal "${TERMINAL:-tmux-256color}" || die 'tmux did not start'
		tmux set -g remain-on-exit on
	else
		tmux kill-session -t t
	fi
	tmux new-session -d -s t -x "$1" -y "$2" env "PATH=$B:$PATH" "TALLY_RUN_DIR=$(run_dir)" "${shell[@]}" ||
		die 'no terminal could be made'
	wait_screen '^\$ $|^\$$'
}

resize() { tmux resize-window -t t -x "$1" -y "$2"; }
type_keys() { tmux send-keys -t t "$@"; }
# run COMMAND: typed, in place of what stands in the line.
run() { type_keys C-e C-u; tmux send-keys -t t -l "$1"; type_keys Enter; }

# The same on an empty screen: what was there before is not taken for an answer.
fresh()
{
	run clear
	wait_screen '^\$ *$'
	until_true 20 hides '^[^$]' || die 'the screen is not empty' "$(screen)"
	run "$1"
}

# What is on the screen, row by row; with -e, with its colours and styles.
screen() { tmux capture-pane -p "$@" -t t; }
row() { screen | sed -n "$1p"; }

# sees NAME PATTERN [SECONDS]: the screen comes to look like that (extended regular expression).
sees()
{
	if until_true "${3:-20}" shows "$2"; then pass "$1"
	else fail "$1" "does not show: $2" "$(screen)"; fi
}
# sees_not NAME PATTERN: it comes to a screen without.
sees_not()
{
	if until_true "${3:-20}" hides "$2"; then pass "$1"
	else fail "$1" "still shows: $2" "$(screen)"; fi
}
shows() { screen | grep -qE -- "$1"; }
hides() { ! shows "$1"; }
# The rest of the test stands on it.
wait_screen() { until_true "${2:-20}" shows "$1" || die "the screen does not show: $1" "$(screen)"; }

# The widest row, in cells.
widest() { screen | LC_ALL=C.UTF-8 wc -L; }
