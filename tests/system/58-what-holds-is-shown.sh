# 58-what-holds-is-shown.sh - tallyctl config says what each option is and from where; SIGHUP says what it has changed and
# what waits for a restart; the log's level changes in all processes, its lines can be JSON; the service manager sees progress.
# broker: embedded (any will do)
. "$(dirname "$0")/lib.sh"

spawn notify perl -MIO::Socket::UNIX -e '$| = 1; my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die $!;
	print "$_\n" while defined $s->recv($_, 4096)' "$T/notify"
wait_until "test -S '$T/notify'"
export NOTIFY_SOCKET=$T/notify

broker partitions=2
produce --records 120000 --tenants 10 --streams 500 --seed "$SEED" --spread 10m

# --- progress -------------------------------------------------------------------------------------

start_tallyd r replay.batch=1 replay.queue=10
replaying() { slots | awk '$4 == "replaying" { print $2; exit }'; }
wait_until replaying '^[1-9]'
pid=$(replaying)
kill -STOP "$pid"	# so that there is time to look
eventually 'the service manager sees how far a replay is' "grep STATUS '$T/notify.log'" ' [12] replaying \([0-9]+ %(, [0-9]+ s left)?\), ' 20
kill -CONT "$pid"
wait_ready 2 90
eventually 'and that it is over' "grep STATUS '$T/notify.log' | tail -n 1" '2 of 2 partitions ready, 0 replaying, ' 10
stop_tallyd

# --- config ---------------------------------------------------------------------------------------

start_tallyd a log_level=info kafka.properties.sasl.password=geheim log_format=json
wait_ready 2
config() { ctl config "$@" 2>&1; }
option() { ctl config --json "$1" | jq -c '.options[0] | [.value, .default, .line, .waiting]'; }
line_of() { grep -n "^ *$1:" "$T/a.yaml" | cut -d: -f1; }
is "$(option kafka.topic)" "[\"$TOPIC\",null,$(line_of topic),null]" 'an option, its value and its line'
is "$(option replay.flush)" '["50ms","50ms",null,null]' 'one that was not given has its default'
like "$(config replay.flush)" 'OPTION +VALUE +FROM +NOTE.*replay.flush +50ms +default +-' 'as a table'
like "$(config kafka.topic)" "kafka.topic +$TOPIC +a.yaml:$(line_of topic)" 'with file and line'
is "$(ctl config --json | jq '.options | length > 60')" true 'all of them without a name'
is "$(ctl config --json window | jq -r '[.options[].name] | join(" ")')" 'window.active window.rate' 'a section by its name'
unlike "$(ctl config --json --changed | jq -r '.options[].name' | tr '\n' ' ')" 'replay.flush|window.rate' '--changed leaves the defaults out'
is "$(option kafka.properties.sasl.password)" '["(hidden)",null,null,null]' 'a secret is hidden'
unlike "$(cat "$T/a/settings" "$T/a.log")" geheim 'in the file and in the log, too'
like "$(config kafka.tpoic; echo $?)" 'no such option: kafka.tpoic.*2$' 'a misspelt one is said'

# --- the log --------------------------------------------------------------------------------------

is "$(sed -n '2,$p' "$T/a.log" | grep -c '^{"time":"20')" "$(sed -n '2,$p' "$T/a.log" | grep -c .)" 'each line is a JSON object'
is "$(jq -rR 'fromjson? | select(.event == "partition.state" and .state == "ready") | .partition' "$T/a.log" | sort | tr '\n' ' ')" '0 1 ' 'whose members are numbers and texts'
is "$(jq -rR 'fromjson? | .program' "$T/a.log" | sort -u | tr '\n' ' ')" 'queryd supervisor worker ' 'of all programs'

# --- SIGHUP ---------------------------------------------------------------------------------------

debug_lines() { jq -rR 'fromjson? | select(.level == "debug") | .program' "$T/a.log" | sort -u | tr '\n' ' '; }
is "$(debug_lines)" '' 'nothing is logged below its level'
write_config a log_level=debug kafka.properties.sasl.password=geheim log_format=json limits.dry_run=true kafka.group=other
kill -HUP "${TALLYD[a]}"
changed() { jq -rR 'fromjson? | select(.event == "reload.changed") | "\(.option) \(.from) \(.to)"' "$T/a.log" | sort | tr '\n' ,; }
eventually 'SIGHUP says what it has changed' changed '^limits.dry_run false true,log_level info debug,$' 10
like "$(jq -rR 'fromjson? | select(.event == "reload.needs_restart") | .options' "$T/a.log")" '^kafka.group$' 'and what needs a restart'
eventually 'which waits' 'option kafka.group' "^\\[\"tally\",\"tally\",$(line_of group),\"other\"\\]\$" 10
like "$(config kafka.group)" 'kafka.group +tally .*waits for a restart: other.*1 option .* waits for: systemctl restart tally' 'as the table says'
is "$(option limits.dry_run)" "[\"true\",\"false\",$(line_of dry_run),null]" 'what was taken holds'
produce --records 100 --tenants 1 --streams 10 --seed 7
eventually 'the new level holds in workers that run' debug_lines 'worker' 20
stop_tallyd
is $? 0 'tallyd stops in order'
done_testing
