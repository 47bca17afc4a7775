# 36-status-is-watched.sh - tallyctl status --watch in place on a terminal, as text elsewhere; colours
# where they are wanted; errors that name the next step, with the exit codes that the manual gives.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/term.sh"

broker partitions=4
produce --records 400
start_tallyd
wait_ready 4

# --- in place -------------------------------------------------------------------------------------
term 80 24
run 'echo here before; tallyctl status --watch'
sees 'it shows the partitions' '^3  ready '
sees 'and the sum' '^4 of 4 partitions ready'
beats() { screen | grep -oE 'up [0-9.]+ [a-z]+'; }
first=$(beats)
eventually 'it is drawn again' "[ \"\$(beats)\" != '$first' ]"
is "$(screen | grep -c '^P  STATE')" 1 '... in place'
is "$(screen | grep -c '^here before')" 1 '... below what was there'
like "$(screen -e)" $'\033\\[32m4 of 4 partitions ready' 'in colour'
kill -KILL "$(pid_of 2)"
sees 'a killed worker is seen' '^2 .* 1  SIGKILL'
resize 60 20
sees 'a smaller window' '^3  ready '
is "$(screen | grep -c '^P  STATE')" 1 '... is drawn anew'
[ "$(widest)" -le 60 ]; is $? 0 '... within its width'
resize 80 12
sees 'too few rows: the sum stays' '^4 of 4 partitions ready'
sees '... and says where the others are' "^\\.\\.\\. and [0-9] partitions? more; 'tallyctl top' has room for them"
resize 80 24
stop_tallyd
sees 'a stopped tallyd is seen' '^tallyd is not running: it was stopped'
sees '... with the states of its partitions' '^3  stopped'
produce --records 3000
start_tallyd
sees 'another one is found' 'tallyd pid '"${TALLYD[a]}"
wait_ready 4
sees '... until it is ready' '^4 of 4 partitions ready'
type_keys C-c
run 'echo code $?'
sees 'Ctrl-C ends it' '^code 130'
sees 'the last answer stays' '^4 of 4 partitions ready'

fresh 'NO_COLOR=1 tallyctl status'
sees 'NO_COLOR' '^4 of 4 partitions ready'
unlike "$(screen -e)" $'\033\\[[0-9;]*m' '... no colours'
fresh 'TERM=dumb tallyctl status --watch | cat -v'
sees 'a dumb terminal gets text, again and again' '^4 of 4 partitions ready'
eventually '... below each other' '[ "$(screen | grep -c "^4 of 4")" -ge 2 ]'
unlike "$(screen)" '\^\[' '... without any control'
type_keys C-c

# --- whole rows on narrow terminals ------------------------------------------------------------------
long=$(printf 'x%.0s' {1..200})
ctl check --admit "$long" 1 >/dev/null || fail 'a tenant with a long name is let in'
resize 60 100
# in_60 NAME COMMAND PATTERN: it is all there, in no more than 60 columns.
in_60()
{
	fresh "$2"
	sees "60 columns: $1" "$3"
	[ "$(screen | sed 1d | LC_ALL=C.UTF-8 wc -L)" -lt 60 ]; is $? 0 '... no row runs into the next one'
}
in_60 'status, with the columns that matter' 'tallyctl status' '^P  STATE  +(PID  +)?OFFSET  LAG  REC/S  REPLAY  RESTARTS  NOTES'	# pids may be short
in_60 'changes of state' 'tallyctl status --partition 2' '^WHEN +FROM +TO +WHY$'
in_60 'names' 'tallyctl tenants' '^ {36}x{23}$'
in_60 'options' 'tallyctl config kafka' '^kafka\.brokers '
in_60 'limits explained' 'tallyctl explain "$(printf "x%.0s" {1..200})"' 'the next new stream is let in'
ctl tenants >"$T/tenants.txt"
is "$(grep -c " $long\$" "$T/tenants.txt")" 1 'in a pipe no name is cut'
like "$(ctl status)" 'P  STATE +PID +GENERATION +OFFSET +TARGET +LAG' '... and no column left out'
resize 80 24

# --- not at a terminal ----------------------------------------------------------------------------
spawn watch "$B/tallyctl" -d "$(run_dir)" status --watch=1
watch=$PID
wait_until 'grep -c "^4 of 4 partitions ready" "$T/watch.log"' '^[3-9]' 20
unlike "$(cat "$T/watch.log")" $'\033' 'in a file: no control'
is "$(head -n 1 "$T/watch.log" | cut -c1-2)" 'a:' 'the first line is the first'
end "$watch"
ctl --json status --watch 2>/dev/null | head -c 20000 | jq -c .owned 2>/dev/null | head -n 2 >"$T/owned.txt"
is "$(cat "$T/owned.txt")" $'4\n4' 'with --json: one object after the other'

# --- errors and exit codes ------------------------------------------------------------------------
# refuses CODE PATTERN WORDS...
refuses()
{
	local out rc
	out=$("$B/tallyctl" "${@:3}" 2>&1 >/dev/null)
	rc=$?
	is "$rc" "$1" "exit code of: tallyctl ${*:3}"
	like "$out" "$2" "... and what it says"
	is "$(wc -l <<<"$out")" 1 '... in one line'
}
d=(-d "$(run_dir)")
refuses 2 "unknown command 'staus'; did you mean 'status'\\?" staus
refuses 2 "unknown command 'tennants'; did you mean 'tenants'\\?" "${d[@]}" tennants
refuses 2 "unknown command 'frobnicate'; try 'tallyctl help'" frobnicate
refuses 2 'option --run_dir: unknown; did you mean --run-dir\?' --run_dir x status
refuses 2 'status: option --wathc: unknown; did you mean --watch\?' "${d[@]}" status --wathc
refuses 2 "no command; try 'tallyctl help'"
refuses 2 "$T/none does not exist: no Tally has run here \\(run_dir by -d\\); start tallyd, or name" -d "$T/none" status
TALLY_RUN_DIR=$T/none refuses 2 "$T/none does not exist: .*\\(run_dir by TALLY_RUN_DIR\\)" status
refuses 2 "$T/none does not exist: no Tally has run here" -d "$T/none" top
refuses 2 "$T/none does not exist: no Tally has run here" -d "$T/none" top --once
refuses 2 "$T/a.yaml: not a directory; name the run_dir of tallyd" -d "$T/a.yaml" status --watch
refuses 1 "nobody: not found .*; 'tallyctl tenants' lists the names" "${d[@]}" tenant nobody
refuses 2 'there is no partition 9; streams are routed over 4' "${d[@]}" status --partition 9
if [ "$(id -u)" = 0 ]; then
	chmod 750 "$(run_dir)"
	group=$(stat -c %G "$(run_dir)")
	out=$(setpriv --reuid nobody --regid nogroup --clear-groups "$B/tallyctl" -d "$(run_dir)" status 2>&1)
	is $? 2 'who may not read: exit code 2'
	like "$out" "^tallyctl: $(run_dir): permission denied; join group $group \\('sudo usermod -aG $group USER'" '... and which group it is'
else
	skip 'not root: nobody else to be'
fi
ctl status >/dev/null; is $? 0 'status: 0 when all is ready'
ctl tenants >/dev/null; is $? 0 'tenants: 0'
ctl top --once >/dev/null; is $? 0 'top --once: 0'
ctl check nobody 1 >/dev/null; is $? 0 'check: 0 when it would come in'
ctl status >/dev/full 2>/dev/null; is $? 2 'an answer that cannot be written: 2'
"$B/tallyctl" --version >/dev/null; is $? 0 '--version: 0'
"$B/tallyctl" help >/dev/null; is $? 0 'help: 0'
stop_tallyd
ctl status >/dev/null; is $? 1 'status of a stopped tallyd: 1'
ctl tenants >/dev/null; is $? 0 'tenants of a stopped tallyd: all of what was, 0'
ctl check nobody 1 >/dev/null 2>&1; is $? 3 'check of a stopped tallyd: cannot be decided, 3'

# --- no instance -------------------------------------------------------------------------------------
rm -rf "$(run_dir)"
refuses 2 "$(run_dir) does not exist: no Tally has run here" "${d[@]}" status
spawn json sh -c 'exec "$@" 2>"$0"' "$T/trouble.txt" "$B/tallyctl" "${d[@]}" --json status --watch
json=$PID
spawn text sh -c 'exec "$@" 2>&1' - "$B/tallyctl" "${d[@]}" top --watch -n 3
text=$PID
fresh 'tallyctl status --watch'
sees 'without an instance --watch waits, and says for what' \
	"^tallyctl: no instance at $(run_dir) \\(run_dir by TALLY_RUN_DIR\\);"
sees '... between words, where the line is too long' '^waiting for tallyd to start'
start_tallyd
sees '... until there is one' 'tallyd pid '"${TALLYD[a]}"
wait_ready 4
sees '... and it is ready' '^4 of 4 partitions ready'
stop_tallyd
rm -rf "$(run_dir)"
sees '... and again, when it has gone' 'gone; waiting for tallyd to start'
start_tallyd
wait_ready 4
sees '... and come' '^4 of 4 partitions ready'
type_keys C-c
eventually '--json: answers only on stdout' "jq -es 'length > 2 and all(.[:-1][]; .partitions)' '$T/json.log'"
end "$json"
is "$(sort "$T/trouble.txt" | uniq -c | awk '{ print $1 }')" $'1\n1' '... trouble on stderr, once while it lasts'
wait_until 'tail -n 2 "$T/text.log"' '4 of 4 partitions answered'
end "$text"
is "$(grep -c '; waiting for tallyd' "$T/text.log")" 2 'text: once, too'
like "$(head -n 1 "$T/text.log")" '^tallyctl: no instance at .*; waiting' '... as the first line'
stop_tallyd
done_testing
