# 73-whoever-starts-it-and-whoever-reads.sh - whatever the umask that tallyd, its workers and a reader were
# started with: its own user and members of the group read, everybody else is refused with one line, and
# nobody of them makes a file.  fs.protected_regular has no say, not even as 2 below /dev/shm: the run directory
# is not sticky.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip_all 'only root can become others'
OWNER=64001 READERS=64002 READER=64003 STRANGER=64004
as() { setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"; }
install -D -t "$T/bin" "$B"/tally{d,-worker,-queryd,ctl}
BIN=$T/bin
as $OWNER $READERS "$BIN/tallyd" --version >/dev/null 2>&1 || BIN=$B
as $OWNER $READERS "$BIN/tallyd" --version >/dev/null 2>&1 || skip_all 'no place from which others can run programs'

broker partitions=1
produce --records 200 --tenants 2
printf '#!/bin/sh\numask $UMASK\nexec setpriv --reuid %s --regid %s --clear-groups "%s/tallyd" "$@"\n' $OWNER $READERS "$BIN" >"$T/tallyd"
chmod 755 "$T/tallyd"
files() { find "$T/a"/p*/ "$T/a/table" -printf '%P %y %m %U:%G\n' | sort; }
reads() { (umask "$1"; as "$2" "$3" "$BIN/tallyctl" -d "$T/a" tenants) >"$T/reads.txt" 2>&1; }

# Debian has 2: below /dev/shm nobody opens with O_CREAT, as LMDB does its lock file, what is another's in a
# sticky directory where others may write.  A run directory is none.
PROTECTED=/proc/sys/fs/protected_regular protected=$(cat $PROTECTED 2>/dev/null)
put_back() { [ -z "$protected" ] || echo "$protected" 2>/dev/null >$PROTECTED; return "$1"; }
trap 'put_back $?; cleanup' EXIT
if echo 2 2>/dev/null >$PROTECTED && [ "$(cat $PROTECTED)" = 2 ]; then
	install -d -m 1777 "$T/sticky"; install -m 666 -o $OWNER -g $READERS /dev/null "$T/sticky/file"
	as $READER $READERS sh -c ": >>'$T/sticky/file'" 2>/dev/null
	isnt $? 0 'with fs.protected_regular 2 another user cannot write a file in a sticky directory'
	like "$(stat -c %a "$(dirname "$T")")" '^1?777$' 'the run directory is below one where all may write'
else
	note "fs.protected_regular stays ${protected:-unknown}"
fi
for mask in 000 022 077; do
	rm -rf "$T/a"; install -d -m 2750 -o $OWNER -g $READERS "$T/a"
	write_config a kafka.group="g$mask"
	chmod 644 "$T/a.yaml"
	export UMASK=$mask
	TALLYD_PROGRAM=$T/tallyd start_tallyd a
	wait_ready 1
	is "$(stat -c '%a %u:%g' "$T/a"/p*/data.mdb "$T/a"/p*/lock.mdb "$T/a"/p*/stats "$T/a/table" | tr '\n' ' ')" \
		"$(for mode in 640 660 640 440; do printf '%s %s:%s ' $mode $OWNER $READERS; done)" "umask $mask: modes are what they have to be"
	before=$(files)
	wrong=
	for theirs in 000 022 077; do
		reads $theirs $OWNER $READERS || wrong="$wrong owner/$theirs"
		reads $theirs $READER $READERS || wrong="$wrong member/$theirs"
		reads $theirs $STRANGER $STRANGER
		[ "$? $(wc -l <"$T/reads.txt")" = '2 1' ] || wrong="$wrong stranger/$theirs"
	done
	is "$wrong" '' '... its user and members of its group read, strangers do not, whatever theirs is'
	like "$(cat "$T/reads.txt")" "^tallyctl: $T/a: permission denied; join group" '... and are told what to do'
	is "$(files)" "$before" '... nobody has made a file, or changed one'
	stop_tallyd
done

# What its user alone writes is 0440, also for that user: the next tallyd has to open it all the same.
before=$(stat -c %i "$T/a/table")
TALLYD_PROGRAM=$T/tallyd start_tallyd a
wait_ready 1
isnt "$(stat -c %i "$T/a/table")" "$before" 'an ordinary user starts it again over what it has left'
is "$(stat -c %a "$T/a/table" "$T/a/limits" "$T/a/lock" | tr '\n' ' ')" '440 440 440 ' 'with the same modes'
ok 'and members of the group read' reads 077 $READER $READERS
stop_tallyd
done_testing
