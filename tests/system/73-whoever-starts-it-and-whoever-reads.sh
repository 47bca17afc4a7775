# 73-whoever-starts-it-and-whoever-reads.sh - whatever the umask that tallyd, its workers and a reader were
# started with: its own user and members of the group read, everybody else is refused with one line, and
# nobody of them makes a file.  fs.protected_regular has no say: the run directory is not sticky.
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

note "fs.protected_regular is $(cat /proc/sys/fs/protected_regular 2>/dev/null)"
for mask in 000 022 077; do
	rm -rf "$T/a"; install -d -m 2750 -o $OWNER -g $READERS "$T/a"
	write_config a kafka.group="g$mask"
	chmod 644 "$T/a.yaml"
	export UMASK=$mask
	TALLYD_PROGRAM=$T/tallyd start_tallyd a
	wait_ready 1
	is "$(stat -c '%a %u:%g' "$T/a"/p*/data.mdb "$T/a"/p*/lock.mdb "$T/a"/p*/stats "$T/a/table" | tr '\n' ' ')" \
		"$(for mode in 640 660 640 640; do printf '%s %s:%s ' $mode $OWNER $READERS; done)" "umask $mask: modes are what they have to be"
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
done_testing
