# 35-top-on-a-real-terminal.sh - tallyctl top at 80x24 and other sizes: what it shows of an instance
# that is killed, stopped and started; keys; hostile names; and a terminal that is as it was, after.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/ask.sh"
. "$(dirname "$0")/term.sh"

broker partitions=8
produce --records 2000 --tenants 30 --policies 2 --streams 600 --spread 60m
limits tenant-3=5 tenant-4=100000
start_tallyd limits.file="$T/limits.yaml" limits.max_global_streams_per_user=1000
wait_ready 8
wait_asked

# Names that would clear the screen, set the window's title, turn text round.
evil=$'evil\033[2J\033]0;owned\a'
ctl check --admit "$evil" 1 >/dev/null || fail 'a hostile tenant is let in'
ctl check --admit $'abc\342\200\256def' 2 >/dev/null || fail 'and another'
ctl check --admit '日本語のテナント' 3 >/dev/null || fail 'and one that is wide'

term 80 24
run 'stty -a >'"$T/before.txt"'; echo here before'
wait_screen '^here before'
run 'tallyctl top'

# --- what is seen ---------------------------------------------------------------------------------
wait_screen '^a: topic tally, group tally \(member\), zone a'
sees 'and how it does' '^8 of 8 partitions ready; tallyd [0-9]+ up .*; queryd [0-9]+; HTTP 127'
for p in 0 1 2 3 4 5 6 7; do sees "partition $p is ready" "^ {4}$p ready  .* 0 -"; done
sees 'tenants come by nearness to their limit' '^── Tenants 1-8 of 33, nearest to their limit first'
like "$(row 16)" '^> +[0-9]+ +5 (█){12} [ >0-9]+% FULL .* tenant-3$' 'a full one is the first, and says so'
sees 'the last row has the keys' '^\? help  q quit  Tab switch  Enter details  / search  s sort  z zoom  p pause'
is "$(screen | wc -l)" 24 'it fits into 24 rows'
[ "$(widest)" -le 80 ]; is $? 0 'and 80 columns'

# --- keys -----------------------------------------------------------------------------------------
type_keys Tab Down Down
sees 'Tab and arrows choose a partition' '^>   2 ready'
type_keys Enter
sees 'Enter tells all about it' '^── Partition 2 ─'
sees '... as status --partition does' '^generation +[0-9]+'
type_keys End
sees '... to its end' '^lookup_errors'
type_keys Escape
sees 'Esc goes back' '^>   2 ready'
type_keys '?'
sees '? helps' '^── Keys, and what the words mean'
type_keys x
sees_not 'and any key goes on' 'what the words mean'
type_keys z
sees 'z shows one list alone' '^── Partitions 8'
sees_not '... without the other' '^── Tenants'
type_keys Escape s
sees 's sorts partitions' 'Partitions 8, trouble first'
type_keys Tab s
sees 'and tenants' 'Tenants 1-8 of 33, by active streams'
type_keys /
run 'TENANT-1'
sees 'a search finds, whatever the case' "Tenants 1-8 of 11 with 'TENANT-1'"
type_keys Escape

# --- hostile names --------------------------------------------------------------------------------
type_keys / e v i l Enter
sees 'a hostile name is escaped' ' evil\\x1b\[2J\\x1b\]0;owned…$'
unlike "$(tmux display-message -p -t t '#{pane_title}')" 'owned' '... and does nothing to the terminal'
sees '... not even to what stands around it' '^a: topic tally'
type_keys Enter
sees '... nor in its details' '^evil\\x1b\[2J\\x1b\]0;owned\\x07: 1 active stream'
type_keys Escape Escape / a b c Enter
sees 'what turns text round is escaped' 'abc\\xe2\\x80\\xaedef$'
type_keys Escape /
tmux send-keys -t t -l '日'
type_keys Enter
sees 'wide characters are typed, found and shown' '日本語のテナント$'
type_keys Escape g s s s
sees 'sorts go round' 'Tenants 1-8 of 33, nearest to their limit first'

# --- sizes ----------------------------------------------------------------------------------------
resize 60 15
sees '60x15: narrower columns' '^ +P STATE +REPLAY +LAG +REC/S +RST LAST DEAT'
is "$(screen | wc -l)" 15 '... in 15 rows'
[ "$(widest)" -le 60 ]; is $? 0 '... and 60 columns'
resize 200 50
sees '200x50: more columns' '^  ACTIVE   SHARE  OF LIMIT USED +BYTES/S BUCKET +TENANT'
sees '... and all tenants' '^── Tenants 33,'
resize 20 5
sees '20x5 is too small, and says what is enough' '^40x10 is enough'
resize 80 24

# --- live -----------------------------------------------------------------------------------------
wait_screen '^── Partitions 8'
kill -KILL "$(pid_of 5)"
sees 'a killed worker is seen' '^ {4}5 .* 1 SIGKILL [0-9.]+ m?s ago'
sees '... and ready again' '^ {4}5 ready .* 1 SIGKILL'
kill -STOP "${TALLYD[a]}"
sees 'a frozen tallyd is seen' '^tallyd pid [0-9]+ gives no sign of life for'
type_keys Enter
sees 'and in the details of a tenant' '^(process is there|tallyd pid).*(last state|sign of life)'
wait_screen '^── Tenant tenant'
unlike "$(screen)" 'x1b' '... without the codes of their colours'
type_keys Escape
kill -CONT "${TALLYD[a]}"
sees '... and that it goes on' '^[0-8] of 8 partitions ready|^no partition'
wait_ready 8
stop_tallyd
sees 'a stopped tallyd is seen' '^tallyd is not running: it was stopped'
sees '... with its partitions' '^ {4}5 stopped'
sees '... and its tenants' ' FULL .* tenant-3$'
start_tallyd
wait_ready 8
sees 'another tallyd is found again' '^8 of 8 partitions ready; tallyd '"${TALLYD[a]}"
stop_tallyd
rm -rf "$(run_dir)"
sees 'no instance: it says which, and waits' "^$T/a: tallyd has stopped, and its run directory is gone; waiting"
type_keys q
sees 'q ends the wait' '^here before'
run 'tallyctl top'
sees 'without an instance at its start it waits, too' "^no instance at $T/a \\(run_dir by TALLY_RUN_DIR\\); waiting"
start_tallyd
wait_ready 8
sees '... and goes on when there is one' '^8 of 8 partitions ready; tallyd '"${TALLYD[a]}"

# --- no flicker -----------------------------------------------------------------------------------
wait_screen '^── Tenants'
tmux pipe-pane -t t "cat >'$T/sent.txt'"
refreshed() { [ "$(row 1)" != "$before" ]; }
for _ in 1 2 3 4; do
	before=$(row 1)
	wait_until refreshed
done
tmux pipe-pane -t t
is "$(grep -cP '\x1b\[[0-3]?J|\x1bc' "$T/sent.txt")" 0 'nothing is ever cleared: it does not flicker'
[ "$(wc -c <"$T/sent.txt")" -lt 6000 ]; is $? 0 "only what has changed is sent ($(wc -c <"$T/sent.txt") bytes for 4 refreshes)"
like "$(screen -e)" $'\033\\[[0-9;]*3[123]m' 'there are colours'

# --- the end --------------------------------------------------------------------------------------
type_keys q
sees 'q ends it, and what was there before is there again' '^here before'
run 'code=$?; stty -a >'"$T/after.txt"'; echo code $code'
sees 'with exit code 0' '^code 0'
same "$T/before.txt" "$T/after.txt" 'the terminal is set as before'
is "$(tmux display-message -p -t t '#{alternate_on} #{cursor_flag} #{keypad_flag}')" '0 1 0' '... with its cursor'
wait_until 'screen | grep . | tail -n 1' '^\$ ?$'
left=$(screen | grep . | sed '$d')
run 'echo nothing else'
wait_screen '^nothing else'
is "$(screen | head -n "$(wc -l <<<"$left")")" "$left" 'nothing comes after the end'
is "$(screen | grep . | tail -n +$(($(wc -l <<<"$left") + 1)))" $'$ echo nothing else\nnothing else\n$' '... of it'

# Shells start it in many ways: here it is stopped once, as nobody in the background may draw.
run 'tallyctl top & until jobs | grep -q Stopped; do :; done; fg >/dev/null'
wait_screen '^8 of 8 partitions ready'
type_keys C-z
sees 'Ctrl-Z stops it' 'Stopped'
run 'fg >/dev/null'
sees '... and fg goes on' '^8 of 8 partitions ready'
pid=$(pgrep -P "$(tmux display-message -p -t t '#{pane_pid}')" tallyctl)
kill -TERM "$pid"
sees_not 'SIGTERM ends it' '^8 of 8 partitions ready'
run 'code=$?; stty -a >'"$T/after.txt"'; echo code $code'
sees '... as it ends others' '^code 143'
same "$T/before.txt" "$T/after.txt" '... and the terminal is set as before'
run 'tallyctl top'
wait_screen '^8 of 8 partitions ready'
type_keys C-c
sees_not 'Ctrl-C ends it' '^8 of 8 partitions ready'

# --- without colours, without UTF-8, without a terminal that can ------------------------------------
fresh 'NO_COLOR=1 tallyctl top'
wait_screen '^8 of 8 partitions ready'
unlike "$(screen -e)" $'\033\\[[0-9;]*[34][0-7][;m]' 'NO_COLOR: no colours'
sees '... and all is said in words' ' FULL .* tenant-3$'
type_keys q
fresh 'TERM=vt100 LC_ALL=C tallyctl top'
sees 'without UTF-8 bars are ASCII' ' ############ [ >0-9]+% FULL .* tenant-3$'
is "$(screen | LC_ALL=C grep -c '[^ -~]')" 0 '... and so is all of it'
type_keys q
fresh 'TERM=dumb tallyctl top; echo code $?'
sees 'a dumb terminal gets a table' '^ # +STREAMS +BYTES'
sees '... and a line that says what else there is' '^tallyctl: top: no full screen here: this TERM cannot'
sees '... exit code 0' '^code 0'
fresh 'TERM= tallyctl top </dev/null; TERM=no-such tallyctl top >/dev/null'
sees 'no keyboard' 'no full screen here: stdin is no terminal'
sees 'no terminal at all' 'no full screen here: stdout is no terminal'
fresh 'TERM=no-such tallyctl top'
sees 'an unknown one' 'no full screen here: there is no description of this TERM'

ctl top >"$T/top.txt" 2>"$T/hint.txt"
is $? 0 'in a pipe it is the table of ever'
like "$(head -n 1 "$T/top.txt")" '^ # +STREAMS +BYTES +RATE/S +POLICIES +TENANT$' '... with its headings'
is "$(grep -c tenant- "$T/top.txt")" 10 '... and ten tenants'
unlike "$(cat "$T/top.txt")" $'\033' '... without any control'
like "$(cat "$T/hint.txt")" "^tallyctl: top: no full screen here: .*; 'top --once' prints without this line" 'the hint is on stderr'
is "$(ctl top --once 2>&1 >/dev/null)" '' 'and not with --once'

stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
