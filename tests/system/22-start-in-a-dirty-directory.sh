# 22-start-in-a-dirty-directory.sh - whatever lies in the run directory: what is ours and whole is
# adopted, what is ours and broken is built anew, what is not ours stays and is named, and a
# directory that is not safe is refused with one line.
. "$(dirname "$0")/lib.sh"

RUN=$T/a
broker partitions=4
produce --records 8000 --seed "$SEED" --tenants 3 --policies 2 --streams 500 --spread 100m
produce --records 1000 --seed $((SEED + 1)) --tenants 3 --streams 500 --source 000102030405060708090a0b0c0d0e0f
start_tallyd
wait_ready 4
stop_tallyd

declare -A GENERATION
remember() { local p pid generation rest; while read -r p pid generation rest; do GENERATION[$p]=$generation; done < <(slots); }
dir_of() { echo "$RUN/p$1.${GENERATION[$1]}"; }
remember

# What is outside must stay what it is, to the nanosecond.
mkdir "$T/outside" "$T/outside/deep"
echo precious >"$T/outside/data.mdb"; echo precious >"$T/outside/deep/file"; echo 1 >"$T/outside/stats"
outside() { find "$T/outside" -printf '%P %y %m %U %G %s %T@ %C@\n' | sort; find "$T/outside" -type f -exec sha256sum {} +; }
outside >"$T/outside-before.txt"

# --- refused -------------------------------------------------------------------------------------

# refused NAME PATTERN: tallyd does not start, and says why in one line.
refused()
{
	timeout 20 "$B/tallyd" -c "$T/a.yaml" >"$T/refused.txt" 2>&1 <>/dev/null
	is "$? $(wc -l <"$T/refused.txt")" '2 1' "$1: refused with one line"
	like "$(cat "$T/refused.txt")" "$2" '... that says why and what to do'
}

chmod 2757 "$RUN"
refused 'a directory that everybody can write to' "$RUN: .*chmod"
chmod 2770 "$RUN"
refused 'a directory that its group can write to' "$RUN: .*chmod"
chmod 2750 "$RUN"
if [ "$(id -u)" = 0 ]; then
	chown 65534 "$RUN"
	refused 'a directory of somebody else' "$RUN: belongs to user 65534.*chown"
	chown 0 "$RUN"
else
	note 'not root: nothing here can belong to somebody else'
fi
mv "$RUN" "$T/elsewhere"; ln -s "$T/elsewhere" "$RUN"
refused 'a link to a directory' "$RUN: .*not a link"
rm "$RUN"; echo >"$RUN"
refused 'a file' "$RUN: .*must be a directory"
rm "$RUN"; mv "$T/elsewhere" "$RUN"

rm "$RUN/lock"; mkfifo "$RUN/lock"
refused 'a FIFO for a lock' "$RUN/lock: .*remove it"
rm "$RUN/lock"; ln -s "$T/outside/stats" "$RUN/lock"
refused 'a link for a lock' "$RUN/lock: .*remove it"
rm "$RUN/lock"; mkdir "$RUN/lock"
refused 'a directory for a lock' "$RUN/lock: .*remove it"
rmdir "$RUN/lock"
sed "s|^run_dir: .*|run_dir: $T/no/such|" -i.kept "$T/a.yaml"
refused 'no directory to make it in' "$T/no/such: "
mv "$T/a.yaml.kept" "$T/a.yaml"

# --- foreign things, and older generations -------------------------------------------------------

newest=$(printf '%s\n' "${GENERATION[@]}" | sort -n | tail -n 1)
cp -a "$(dir_of 0)" "$RUN/p0.7"			# two that an earlier start has left behind
cp -a "$(dir_of 2)" "$RUN/p2.$((GENERATION[2] - 1))"
mkdir "$RUN/p900.4"; echo >"$RUN/p900.4/data.mdb"	# of a partition that the topic has not
mkdir "$RUN/trash.p1.3"; echo >"$RUN/trash.p1.3/data.mdb"
ln -s "$T/outside" "$RUN/trash.p1.9"

foreign=(p1.5 p0.123 "p3.$((newest + 1000))" p0.007 p1. p-1.6 notes.txt stuff trash.p2.2 'a b"c')
echo file >"$RUN/p1.5"				# a file by a generation's name
ln -s "$T/outside" "$RUN/p0.123"
ln -s "$T/outside" "$RUN/p3.$((newest + 1000))"	# newer than ours: it must not win
mkdir "$RUN/p0.007" "$RUN/p1." "$RUN/p-1.6" "$RUN/stuff"
echo text >"$RUN/notes.txt"; echo text >"$RUN/stuff/file"; echo >"$RUN/a b\"c"
mkdir -p "$RUN/trash.p2.2/deep"; echo >"$RUN/trash.p2.2/deep/file"	# a generation has no such thing
if [ "$(id -u)" = 0 ]; then
	mkdir "$RUN/p1.$((newest + 2000))"; chown 65534 "$RUN/p1.$((newest + 2000))"
	foreign+=("p1.$((newest + 2000))")
fi
mkdir -m 2777 "$RUN/p2.$((newest + 3000))"	# somebody else could have made what is in it
foreign+=("p2.$((newest + 3000))")
rm "$RUN/table"; mkfifo "$RUN/table" "$RUN/table.new"

present() { local f; for f in "${foreign[@]}"; do [ -e "$RUN/$f" ] || [ -L "$RUN/$f" ] || echo "gone: $f"; done; }
kept=$(cd "$RUN" && find "${foreign[@]}" -printf '%p %y %m %U %s %l\n' | sort)
: >"$T/a.log"
start_tallyd a
wait_ready 4
is "$(slots | awk '{ print $1, $3 }')" "$(for p in 0 1 2 3; do echo "$p ${GENERATION[$p]}"; done)" \
	'the newest stores that are ours are adopted'
is "$(status_json | jq '[.partitions[].stats.replay.replayed] | add')" 0 'and nothing is read again'
eventually 'what an earlier start has left is gone' \
	"ls -d '$RUN'/p0.7 '$RUN'/p2.$((GENERATION[2] - 1)) '$RUN'/trash.p1.3 2>&1 | grep -vc 'No such'" '^0$'
is "$(cd "$RUN" && find "${foreign[@]}" -printf '%p %y %m %U %s %l\n' 2>&1 | sort)" "$kept" 'what is not ours is untouched'
for f in "${foreign[@]}"; do
	[[ $f = trash.* ]] || [ "$(grep -cF "leftover.foreign name=$f " "$T/a.log")" = 1 ] ||
		[ "$(grep -cF 'leftover.foreign name="a b\"c" ' "$T/a.log")$f" = '1a b"c' ] || echo "$f"
done >"$T/unnamed.txt"
is "$(cat "$T/unnamed.txt")" '' 'and is named in the log, once each'
eventually 'a store of a partition that is not ours goes, after the time in which it could have become ours' \
	"ls '$RUN' | grep -c '^p900'" '^0$' 30
same_as_oracle 'the stores hold what the log says'
stop_tallyd
is $? 0 'tallyd stops in order'
for f in "${foreign[@]}"; do rm -rf "${RUN:?}/$f"; done
rm "$RUN/trash.p1.9"

# --- stores that are ours, but not to be trusted -------------------------------------------------

# rebuilt_after NAME PARTITIONS: a start in which these get a new generation and the others do not;
# all counts are right.
rebuilt_after()
{
	local p changed=''
	: >"$T/a.log"
	start_tallyd a
	wait_ready 4 60
	while read -r p _ generation _; do
		[ "$generation" = "${GENERATION[$p]}" ] || changed="$changed $p"
	done < <(slots)
	is "$changed" "${2:+ $2}" "$1: built anew, and nothing else is"
	same_as_oracle '... and all counts are right'
	is "$(status_json | jq '[.partitions[] | .quarantine_listed + .stats.quarantined] | add')" 0 '... no record is blamed for it'
	stop_tallyd
	remember
}
random_over() { dd if=/dev/urandom of="$1" bs=4096 seek="$2" count="$3" conv=notrunc status=none; }
pages() { echo $(($(stat -c %b "$1") / 8)); }	# that have blocks: the rest of the file is a hole

data=$(dir_of 0)/data.mdb; random_over "$data" 0 "$(pages "$data")"
truncate -s $(($(part 1 stats.store_bytes) / 8192 * 4096)) "$(dir_of 1)/data.mdb"
rm "$(dir_of 2)/data.mdb"; ln -s "$T/outside/data.mdb" "$(dir_of 2)/data.mdb"
rm "$(dir_of 3)/stats"; mkfifo "$(dir_of 3)/stats"	# its counters are in the store, too
rebuilt_after 'random bytes, half a store, a link for a store' '0 1 2'
is "$(grep -c 'worker.rebuild .*reason=corrupt why' "$T/a.log")" 3 '... because they are corrupt'

mv "$(dir_of 0)" "$T/swap"; mv "$(dir_of 1)" "$(dir_of 0)"; mv "$T/swap" "$(dir_of 1)"
mv "$(dir_of 2)" "$RUN/p2.$((GENERATION[2] + 1))"; GENERATION[2]=$((GENERATION[2] + 1))
random_over "$(dir_of 3)/stats" 0 1
rebuilt_after 'two that have changed places, one by another number' '0 1 2'
is "$(grep -c 'worker.rebuild .*reason=identity why' "$T/a.log")" 3 '... because they are others than they say'

data=$(dir_of 0)/data.mdb; random_over "$data" 2 $(($(pages "$data") - 2))	# all but LMDB's own two pages
rm "$(dir_of 1)/lock.mdb"; mkfifo "$(dir_of 1)/lock.mdb"
d=$(dir_of 2); rm -r "${d:?}"/*; mkdir "$d/data.mdb"
rm "$(dir_of 3)/stats"; ln -s "$T/outside/stats" "$(dir_of 3)/stats"
rebuilt_after 'random pages, a FIFO for a lock, a directory for a store, a link for counters' '0 1 2 3'

: >"$(dir_of 0)/data.mdb"
random_over "$(dir_of 1)/lock.mdb" 0 1
rm "$(dir_of 2)/stats"
rm "$(dir_of 3)/lock.mdb" "$(dir_of 3)/stats"
: >"$T/a.log"
start_tallyd a
wait_ready 4 60
same_as_oracle 'an empty store, a lock file of random bytes, lost counters, a lost lock file: the counts are right'
stop_tallyd
remember

# --- another log ---------------------------------------------------------------------------------

broker_do topic tally2 2
TOPIC=tally2 PARTITIONS=2
produce --records 3000 --seed "$SEED" --tenants 3 --streams 500
: >"$T/a.log"
start_tallyd a kafka.topic=tally2 kafka.group=tally2
wait_ready 2
is "$(grep -c 'worker.rebuild .*reason=identity why' "$T/a.log")" 2 'stores of another topic are not adopted'
same_as_oracle 'its own topic is what is counted'
eventually 'and the others go' "ls '$RUN' | grep -c '^p'" '^2$' 30
stop_tallyd

# --- another boot --------------------------------------------------------------------------------

boot_id=/proc/sys/kernel/random/boot_id
echo 00000000-1111-2222-3333-444444444444 >"$T/boot_id"
if unshare -m mount --bind "$T/boot_id" $boot_id 2>/dev/null; then
	: >"$T/a.log"
	printf '#!/bin/sh\nmount --bind %s %s && exec %s "$@"\n' "$T/boot_id" $boot_id "$B/tallyd" >"$T/booted"
	chmod 755 "$T/booted"
	spawn a unshare -m "$T/booted" -c "$T/a.yaml"
	TALLYD[a]=$PID
	# Who looks from this boot must not believe it either.
	eventually 'after another boot nothing is adopted' "grep -c 'worker.rebuild .*reason=boot why' '$T/a.log'" '^2$' 40
	eventually 'but built anew' "grep -c 'partition.state .*state=ready' '$T/a.log'" '^2$' 40
	like "$(ctl status 2>&1)" 'before the last boot' 'and a table of another boot is not believed'
	stop_tallyd
	is $? 0 'tallyd stops in order'
else
	[ -z "${CI:-}" ] || fail 'root and mount namespaces are needed in CI'
	note 'no mount namespace here: another boot cannot be shown'
fi

outside >"$T/outside-after.txt"
same "$T/outside-before.txt" "$T/outside-after.txt" 'nothing outside the run directory was touched'
done_testing
