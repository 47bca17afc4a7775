# 02-readers-are-the-group.sh - tallyd runs as an ordinary user; members of the run directory's group
# read its stores and can write none of them; everybody else is refused.
. "$(dirname "$0")/lib.sh"

[ "$(id -u)" = 0 ] || skip_all 'only root can become others'
OWNER=64001 READERS=64002 READER=64003 STRANGER=64004
as() { setpriv --reuid "$1" --regid "$2" --clear-groups "${@:3}"; }
# The build may lie where others cannot go, $T where nothing can be executed: one of them will do.
install -D -t "$T/bin" "$B"/tally{d,-worker,-queryd,ctl} "$B/tests/lib-dump"
BIN=$T/bin DUMP=$T/bin/lib-dump
as $OWNER $READERS "$BIN/tallyd" --version >/dev/null 2>&1 || { BIN=$B DUMP=$B/tests/lib-dump; }
as $OWNER $READERS "$BIN/tallyd" --version >/dev/null 2>&1 || skip_all 'no place from which others can run programs'

broker partitions=2
produce --records 500 --tenants 3
install -d -m 2750 -o $OWNER -g $READERS "$T/a"
printf '#!/bin/sh\nexec setpriv --reuid %s --regid %s --clear-groups "%s/tallyd" "$@"\n' $OWNER $READERS "$BIN" >"$T/tallyd"
chmod 755 "$T/tallyd"
TALLYD_PROGRAM=$T/tallyd start_tallyd
chmod 644 "$T/a.yaml"
wait_ready 2

like "$(ctl tenants)" 'tenant-0' 'root reads'
ok 'a member of the group reads through tallyctl' as $READER $READERS "$BIN/tallyctl" -d "$T/a" tenants
ok 'and through libtally' as $READER $READERS "$DUMP" --run-dir "$T/a"
is "$(as $READER $READERS find "$T/a" -writable ! -name lock.mdb ! -type l)" '' 'a member can write nothing but the lock files'
is "$(find "$T/a" ! -group $READERS)" '' 'all of it belongs to that group'
is "$(find "$T/a"/p* "$T/a/table" -perm /o=rwx)" '' 'no store and no table is for others'
is "$(stat -c %U:%a "$T/a")" "$(stat -c %U "$T/a"):2750" 'the directory keeps its mode'

as $STRANGER $STRANGER "$BIN/tallyctl" -d "$T/a" tenants >"$T/stranger.txt" 2>&1
is $? 2 'a stranger is refused'
like "$(cat "$T/stranger.txt")" 'group|permission' 'and told why'

# A directory of somebody else's is not taken.
stop_tallyd
chown $STRANGER "$T/a"
TALLYD_PROGRAM=$T/tallyd start_tallyd
wait_until 'gone "${TALLYD[a]}"' '' 10
wait "${TALLYD[a]}"
is $? 2 'tallyd does not start in a directory of somebody else'
like "$(tail -n 1 "$T/a.log")" "$T/a" 'and says which'
done_testing
