# 38-top-over-ssh.sh - tallyctl top over a real ssh at 80x24: drawn, resized, and ended, with a terminal
# that is as it was; how little a refresh sends; and nobody left behind when the connection breaks.
#
# The sshd is this test's own: keys, configuration and port; not root; on the loopback.
# broker: embedded (any will do)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/term.sh"

SSHD=$(PATH=$PATH:/usr/sbin:/sbin command -v sshd) || skip_all 'it needs sshd (openssh-server)'
command -v ssh >/dev/null || skip_all 'it needs ssh (openssh-client)'

# --- a private sshd ---------------------------------------------------------------------------------
# sshd knows only users that passwd(5) has, with a shell; and gives a terminal to the group tty, which
# only root can where devpts does not.  So root gives it files of its own, in a mount namespace.
private_user()
{
	local gid=$1
	chown -R 65534 "$T/ssh"
	{ cat /etc/passwd; echo "tally-test:x:65534:$gid::$T/ssh:/bin/sh"; } >"$T/passwd"
	if terminals_are_ttys; then cp /etc/group "$T/group"; else grep -v '^tty:' /etc/group >"$T/group"; fi
	cat >"$T/as-user" <<-END
		#!/bin/sh
		mount --bind "$T/passwd" /etc/passwd && mount --bind "$T/group" /etc/group &&
			exec setpriv --reuid 65534 --regid $gid --clear-groups "\$@"
	END
	chmod 755 "$T/as-user" "$T/passwd" "$T/group"
	unshare -m "$T/as-user" true 2>/dev/null || skip_all 'no mount namespace for a user of its own'
	AS=(unshare -m "$T/as-user") WHO=tally-test
}
terminals_are_ttys() { grep -q ' - devpts .*[ ,]gid=' /proc/self/mountinfo; }

start_sshd()
{
	local port
	mkdir -m 700 "$T/ssh"
	ssh-keygen -q -t ed25519 -N '' -f "$T/ssh/host"
	ssh-keygen -q -t ed25519 -N '' -f "$T/user"
	cp "$T/user.pub" "$T/ssh/allowed"
	cp "$B/tallyctl" "$T/tallyctl" # the build directory may be somebody's own
	AS=() WHO=$(id -un)
	if [ "$(id -u)" = 0 ]; then private_user "$(stat -c %g "$(run_dir)")"
	elif ! terminals_are_ttys; then skip_all 'sshd, not root, can give nobody a terminal here'; fi
	for _ in 1 2 3; do # somebody may be faster
		port=$(unused_port)
		printf '%s\n' "ListenAddress 127.0.0.1:$port" "HostKey $T/ssh/host" 'PidFile none' \
			"AuthorizedKeysFile $T/ssh/allowed" 'StrictModes no' 'UsePAM no' 'PrintLastLog no' \
			'PasswordAuthentication no' 'KbdInteractiveAuthentication no' 'AcceptEnv LC_ALL' \
			>"$T/sshd_config"
		spawn sshd "${AS[@]}" "$SSHD" -D -e -f "$T/sshd_config"
		until_true 10 grep -qE '^Server listening|Cannot bind|^fatal' "$T/sshd.log"
		! grep -q '^Server listening' "$T/sshd.log" || break
	done
	grep -q '^Server listening' "$T/sshd.log" || die 'sshd did not start' "$(cat "$T/sshd.log")"
	echo "[127.0.0.1]:$port $(cat "$T/ssh/host.pub")" >"$T/known"
	SSH="ssh -F none -tt -p $port -i $T/user -o IdentitiesOnly=yes -o UserKnownHostsFile=$T/known"
	SSH+=" -o SendEnv=LC_ALL -o StrictHostKeyChecking=yes $WHO@127.0.0.1"
}

broker partitions=8
produce --records 2000 --tenants 30 --policies 2 --streams 600 --spread 60m
start_tallyd
wait_ready 8
start_sshd
remote="LC_ALL=C.UTF-8 $SSH $T/tallyctl -d $(run_dir)"

# pids PATTERN: of the processes whose command line looks like that.
pids() { pgrep -f -- "$1"; }

# --- it draws, and follows the window ---------------------------------------------------------------
term 80 24
run 'stty -a >'"$T/before.txt"'; echo here before'
wait_screen '^here before'
sent_start() { : >"$T/sent.txt"; tmux pipe-pane -t t "cat >>'$T/sent.txt'"; }
sent_end() { tmux pipe-pane -t t; }
sent() { wc -c <"$T/sent.txt"; }
sent_start
run "$remote top"
sees 'over ssh it shows the instance' '^8 of 8 partitions ready; tallyd [0-9]+ up'
sees '... its partitions' '^ {4}7 ready'
sees '... and its tenants, with bars' '^── Tenants 1-[0-9]+ of 30'
is "$(screen | wc -l)" 24 '... in 24 rows'
[ "$(widest)" -le 80 ]; is $? 0 '... and 80 columns'
note "the first screen: $(sent) bytes"
[ "$(sent)" -lt 8000 ]; is $? 0 'the first screen is some kilobytes'
sent_end
resize 132 50
sees 'a larger window reaches it' '^  ACTIVE   SHARE  OF LIMIT USED +BYTES/S BUCKET +TENANT'
sees '... and all tenants are there' '^── Tenants 30,'
resize 80 24
sees 'and a smaller one' '^── Tenants 1-[0-9]+ of 30'
[ "$(widest)" -le 80 ]; is $? 0 '... within its width'

# --- what a refresh sends -----------------------------------------------------------------------------
clock() { row 1 | grep -oE '[0-9:]{8}Z'; }
refreshed() { [ "$(clock)" != "$before" ]; }
# With the help above the lists only clock and uptime change.  The middle one of five: uptime may
# become longer, and what stands behind it move.
type_keys '?'
wait_screen '^── Keys, and what the words mean'
sizes=()
for _ in 0 1 2 3 4 5; do
	sent_end; sent_start
	before=$(clock)
	wait_until refreshed
	sizes+=("$(sent)")
done
sent_end
mapfile -t sizes < <(printf '%s\n' "${sizes[@]:1}" | sort -n)
note "refreshes: ${sizes[*]} bytes"
[ "${sizes[2]}" -gt 0 ] && [ "${sizes[2]}" -lt 80 ]; is $? 0 'a refresh sends what has changed'
type_keys x
wait_screen '^── Tenants'
type_keys p
wait_screen '^a: .* PAUSED '
sent_start
# It goes on drawing: once a second, and whenever a key is typed.
far=$(pids "^$T/tallyctl .* top")
slept() { awk '/^voluntary/ { print $2 }' "/proc/$far/status"; }
before=$(slept)
for ((i = 0; i < 5; i++)); do type_keys x; done
went_on() { [ "$(slept)" -ge $((before + 4)) ]; }
wait_until went_on
sent_end
is "$(sent)" 0 'a frame in which nothing has changed sends nothing'
type_keys p

# --- the end --------------------------------------------------------------------------------------------
type_keys q
sees 'q ends it, and what was there before is there again' '^here before'
wait_screen '^Connection to 127.0.0.1 closed'	# until then ssh takes what is typed
run "code=\$?; stty -a >$T/after.txt; echo code \$code"
sees 'with exit code 0' '^code 0'
same "$T/before.txt" "$T/after.txt" 'the terminal is set as before'
is "$(tmux display-message -p -t t '#{alternate_on} #{cursor_flag} #{keypad_flag}')" '0 1 0' '... with its cursor'

run "$remote top"
wait_screen '^8 of 8 partitions ready'
client=$(pids "^ssh .* $T/tallyctl") far=$(pids "^$T/tallyctl .* top")
kill -KILL "$client"
eventually 'a connection that breaks leaves nobody behind' "gone '$far'"
run 'stty sane; reset'
run "$remote status --watch"
sees 'status --watch' '^8 of 8 partitions ready'
far=$(pids "^$T/tallyctl .* status")
kill -KILL "$(pids "^ssh .* $T/tallyctl")"
eventually '... neither' "gone '$far'"
run 'stty sane; reset'
fresh "LC_ALL=C.UTF-8 ${SSH/-tt/-T} $T/tallyctl -d $(run_dir) top; echo code \$?"
sees 'without a terminal it is a table' '^ # +STREAMS +BYTES'
sees '... and a line that says why' '^tallyctl: top: no full screen here: stdout is no terminal'
sees '... exit code 0' '^code 0'

stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
