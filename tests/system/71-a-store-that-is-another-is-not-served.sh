# 71-a-store-that-is-another-is-not-served.sh - stores change places, lose their lock file or their end,
# while they are served; are of an older or newer format or the other byte order when tallyd starts: each
# is found out and built anew, no reader is ever told what is in the wrong one, and nobody else notices.
. "$(dirname "$0")/lib.sh"

broker partitions=4
produce --records 4000 --tenants 5 --streams 500 --seed "$SEED" --spread 60m
start_tallyd a supervisor.restart_min=50ms
wait_ready 4
spawn readers "$B/tests/reader-loop" --run-dir "$T/a" --tenant tenant-0 --processes 2 --seed "$SEED"
READERS=$PID

dir_of() { echo "$T/a/p$1.$(generation_of "$1")"; }
mark() { MARK=$(wc -l <"$T/a.log"); BEFORE=$(slots); }
log_since() { tail -n +$((MARK + 1)) "$T/a.log"; }
# renewed: the partitions that have had a new generation since `mark`.
renewed() { comm -13 <(cut -d' ' -f1,3 <<<"$BEFORE" | sort) <(slots | cut -d' ' -f1,3 | sort) | cut -d' ' -f1 | tr '\n' ' '; }
# made_anew NAME PARTITIONS REASON
made_anew()
{
	eventually "$1: built anew, and nothing else is" renewed "^$2 \$"
	wait_ready 4
	is "$(log_since | sed -n 's/.*worker.rebuild .*reason=\([a-z_]*\) why.*/\1/p' | sort -u)" "$3" '... because it has been found out'
	same_as_oracle '... and all counts are right'
}

# --- under the service ----------------------------------------------------------------------------

mark; rm "$(dir_of 0)/lock.mdb"
made_anew 'a lock file that is removed' 0 corrupt
mark
a=$(dir_of 0) b=$(dir_of 2)
mv "$a" "$T/a/swap"; mv "$b" "$a"; mv "$T/a/swap" "$b"
made_anew 'two that change places' '0 2' corrupt
mark; cp "$(dir_of 2)/data.mdb" "$T/a/other"; mv "$T/a/other" "$(dir_of 3)/data.mdb"
made_anew "another's pages in its place" 3 corrupt
is "$(grep -c 'query.died\|store.blamed' "$T/a.log")" 0 'no query process died of any of it'
readers_end	# before a store is cut short: who reads just then gets a SIGBUS
mark; truncate -s 64k "$(dir_of 1)/data.mdb"
made_anew 'a store that is cut short' 1 corrupt
stop_tallyd

# --- before the start -----------------------------------------------------------------------------

# poke FILE OFFSET BYTES
poke() { chmod u+w "$1"; printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
again() { start_tallyd a; wait_ready 4; }
mark
"$B/tests/store-spoil" format "$(dir_of 0)" 0
"$B/tests/store-spoil" format "$(dir_of 1)" 4096
"$B/tests/store-spoil" format "$(dir_of 2)" swapped
poke "$(dir_of 3)/stats" 8 '\377'	# its version
again
made_anew 'an older format, a newer one, the other byte order' '0 1 2' identity
stop_tallyd

mark
for page in 0 4096; do poke "$(dir_of 1)/data.mdb" $((page + 16)) '\276\357\300\336'; done	# LMDB's magic, swapped
poke "$(dir_of 2)/stats" 12 '\001\002\003\004'
poke "$T/a/table" 12 '\001\002\003\004'
ctl status >"$T/refused.txt" 2>&1
is "$? $(grep -c 'version' "$T/refused.txt")" '2 1' 'a table of the other byte order is read by nobody'
again
made_anew 'pages of the other byte order' 1 corrupt
mark
poke "$T/a/table" 8 '\377'
like "$(ctl status 2>&1)" version 'nor is one of another version, also while it is served'
stop_tallyd
is $? 0 'tallyd stops in order'
again
is "$(renewed)" '' 'a start makes another one, and adopts the stores'
same_as_oracle 'the stores hold what the log says'
stop_tallyd
done_testing
