# 05-a-wrong-turn-is-one-line.sh - what somebody does wrong who has Tally for the first time: one line each says what,
# where, and what to do; tallyd's own, that of tallyctl status, and what the service manager shows.
. "$(dirname "$0")/lib.sh"

spawn notify perl -MIO::Socket::UNIX -e '$| = 1; my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die $!;
	print "$_\n" while defined $s->recv($_, 4096)' "$T/notify"
wait_until "test -S '$T/notify'"
export NOTIFY_SOCKET=$T/notify
unit_status() { grep STATUS "$T/notify.log" | tail -n 1; }

# refused NAME PATTERN [COMMAND...]: exit code 2 and one line, which begins with the program's name.
refused()
{
	local name=$1 pattern=$2
	shift 2
	[ $# -gt 0 ] || set -- "$B/tallyd" -c "$T/a.yaml"
	timeout 10 "$@" >"$T/refused.txt" 2>&1 </dev/null
	is "$? $(wc -l <"$T/refused.txt")" '2 1' "$name: exit code 2 and one line"
	like "$(cat "$T/refused.txt")" "$pattern" '... which says what to do'
}
# wrong NAME PATTERN key=value...: a configuration with this in it.
wrong() { write_config a "${@:3}"; refused "$1" "^tallyd: $2"; }

# --- the file -------------------------------------------------------------------------------------

BROKERS=127.0.0.1:1
wrong 'a key that is misspelt' '.*/a.yaml:[0-9]+: kafka.session_timout: no such option; did you mean kafka.session_timeout\?' kafka.session_timout=4s
wrong 'a section that is misspelt' '.*/a.yaml:[0-9]+: kafak: no such option; did you mean kafka\?' kafak.topic=x
wrong 'a duration without a unit' '.*/a.yaml:[0-9]+: kafka.session_timeout: "4" has no unit .*; write a duration from 1s to' kafka.session_timeout=4
wrong 'a unit that there is not' '.*/a.yaml:[0-9]+: store.map_size: "1GB" .*\(KiB, MiB, GiB, TiB\); write a size from' store.map_size=1GB
wrong 'a word that there is not' '.*/a.yaml:[0-9]+: log_level: "verbose" .*; write one of error, warn, info, debug' log_level=verbose
wrong 'no truth' '.*/a.yaml:[0-9]+: produce.enabled: "yess" .*; write true or false' produce.enabled=yess
wrong 'an address without a port' '.*/a.yaml:[0-9]+: query.http_listen: "127.0.0.1" .*; write an address host:port, like' query.http_listen=127.0.0.1
wrong 'two that do not fit' '.*/a.yaml:[0-9]+: kafka.heartbeat_interval: 10s must be shorter than kafka.session_timeout, 4s' kafka.heartbeat_interval=10s
printf '\tlog_level: info\n' >>"$T/a.yaml"
refused 'a tab' '^tallyd: .*/a.yaml:[0-9]+: not valid YAML: a tab; indent with blanks only'
: >"$T/a.yaml"
refused 'an empty file' '^tallyd: .*/a.yaml: has no options; tallyd --print-config writes a file to begin with'
refused 'no file' "^tallyd: $T/nope.yaml: No such file or directory; create it, or correct the path" "$B/tallyd" -c "$T/nope.yaml"
refused 'no -c' "^tallyd: $T/a.yaml: name the configuration with -c FILE" "$B/tallyd" "$T/a.yaml"

wrong 'no file of limits' "$T/nope: No such file or directory; create it, or correct the path" limits.file="$T/nope"
limits() { printf '%b' "$3" >"$T/l.yaml"; wrong "limits: $1" "$T/l.yaml:$2" limits.file="$T/l.yaml"; }
limits 'a key that is misspelt' '3: .*max_global_stream_per_user: no such key; did you mean max_global_streams_per_user\?' \
	'overrides:\n  t:\n    max_global_stream_per_user: 5\n'
limits 'no number' '3: .*max_global_streams_per_user: lots is no whole number; write digits only' \
	'overrides:\n  t:\n    max_global_streams_per_user: lots\n'
limits 'a tenant that is not indented' '2: t: no such key; known here: overrides' 'overrides:\nt:\n  max_global_streams_per_user: 5\n'

# --- permissions, and what is not there -----------------------------------------------------------

wrong 'a run directory below nothing' "run_dir: $T/none/x: cannot create it: No such file .*; create it for this user, mode 2750" run_dir="$T/none/x"
wrong 'a run directory that is a file' "run_dir: $T/a.yaml: .*; run_dir must be a directory of this user" run_dir="$T/a.yaml"
wrong 'a run directory that is relative' '.*/a.yaml:[0-9]+: run_dir: must be an absolute path' run_dir=run
mkdir -m 2770 "$T/all"; chmod 2777 "$T/all"
wrong 'a run directory for all' "run_dir: $T/all: others may write into it; chmod it to 2750" run_dir="$T/all"
wrong 'a group that there is not' 'run_dir: supervisor.reader_group: no group no-such-group on this machine; create it' supervisor.reader_group=no-such-group
wrong 'no worker' "supervisor.worker_program: cannot execute $T/none: No such file or directory; install it there, or set supervisor.worker_program" \
	supervisor.worker_program="$T/none"
wrong 'no query process' "supervisor.query_program: cannot execute $T/none: No such file or directory; install it there, or set supervisor.query_program" \
	supervisor.query_program="$T/none"
if [ "$(id -u)" = 0 ]; then
	OTHER=64001
	as=(setpriv --reuid $OTHER --regid $OTHER --clear-groups)
	install -D -t "$T/bin" "$B"/tally{d,-worker,-queryd,ctl}
	BIN=$T/bin
	"${as[@]}" "$BIN/tallyd" --version >/dev/null 2>&1 || BIN=$B
	rm -rf "$T/a"
	write_config a
	refused 'the wrong user: the configuration' "^tallyd: $T/a.yaml: Permission denied; let the user that tallyd runs as read it" "${as[@]}" "$BIN/tallyd" -c "$T/a.yaml"
	chmod 644 "$T/a.yaml"
	refused 'the wrong user: no run directory' "^tallyd: run_dir: $T/a: cannot create it: Permission denied; create it for this user" "${as[@]}" "$BIN/tallyd" -c "$T/a.yaml"
	install -d -m 2755 -o root "$T/a"
	refused "the wrong user: root's run directory" "^tallyd: run_dir: $T/a: belongs to user 0, not to us \($OTHER\); chown it" "${as[@]}" "$BIN/tallyd" -c "$T/a.yaml"
	chown $OTHER "$T/a"
	refused 'root in the place of the service' "^tallyd: run_dir: $T/a: belongs to user $OTHER, not to us \(0\); chown it" "$BIN/tallyd" -c "$T/a.yaml"
	write_config a supervisor.reader_group=daemon
	chmod 644 "$T/a.yaml"
	refused 'a group that its user is not in' "^tallyd: run_dir: $T/a: cannot give it to group daemon: .*; the user of tallyd must be in that group" "${as[@]}" "$BIN/tallyd" -c "$T/a.yaml"
	printf 'overrides: {}\n' >"$T/l.yaml"
	chmod 600 "$T/l.yaml"
	write_config a limits.file="$T/l.yaml"
	chmod 644 "$T/a.yaml"
	refused 'limits of another user' "^tallyd: $T/l.yaml: Permission denied; let the user that tallyd runs as read it" "${as[@]}" "$BIN/tallyd" -t -c "$T/a.yaml"
else
	skip 'not root: nobody to become'
fi
rm -rf "$T/a" "$T/all"

# A file system that is full before Tally comes: in a mount namespace of this process's own.
write_config full
export T B
unshare -m bash -c 'mkdir "$T/full" && mount -t tmpfs -o size=1M,mode=2750 tmpfs "$T/full" || exit 9
	head -c 2M /dev/zero >"$T/full/filler" 2>/dev/null
	timeout 10 "$B/tallyd" -c "$T/full.yaml"' >"$T/full.txt" 2>&1
rc=$?
if [ $rc = 9 ] || ! [ -s "$T/full.txt" ]; then
	skip 'no mount namespace with a tmpfs in it can be had here'
else
	like "$rc:$(cat "$T/full.txt")" "^1:tallyd: run_dir: $T/full: .*is the file system full\? make room, or choose another run_dir" 'a full file system: one line, and what to do'
fi

# --- what takes a broker --------------------------------------------------------------------------

start_tallyd none
eventually 'no broker: the log names it, why, and what to do' "cat '$T/none.log'" 'group.error .*127.0.0.1:1.*Connection refused' 10
eventually '... and kafka.brokers' "cat '$T/none.log'" 'topic.waiting reason=no_broker brokers=127.0.0.1:1 .*action="start one, or correct kafka.brokers"' 10
like "$(ctl status; echo "exit=$?")" 'no partition is assigned here \(group no_broker\): no broker answers; check kafka.brokers, the log has the reason
exit=1$' '... tallyctl status says so'
like "$(unit_status)" '=no_broker: 0 of 0 partitions ready' '... and so does systemctl status'
stop_tallyd

broker partitions=2
if [ "$KIND" = kafka ]; then	# the embedded one makes topics as they are asked for
	start_tallyd topic kafka.topic=taly kafka.group=topic
	eventually 'the wrong topic: the log says so' "cat '$T/topic.log'" 'topic.waiting reason=missing topic=taly action="create it, or correct kafka.topic"' 15
	like "$(ctl status; echo "exit=$?")" 'group no_topic\): create the topic, or correct kafka.topic
exit=1$' '... and so does tallyctl status'
	stop_tallyd
fi
spawn listener perl -MIO::Socket::INET -e '$| = 1; my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1:0") or die;
	print $s->sockport, "\n"; sleep 300'
wait_until "cat '$T/listener.log'" '^[0-9]+$'
port=$(cat "$T/listener.log")
for what in http grpc; do
	start_tallyd $what query.${what}_listen="127.0.0.1:$port" kafka.group=$what
	eventually "the port of $what is taken: the log says which, and what to do" "cat '$T/$what.log'" \
		"queryd error $what.listen text=\"cannot listen on 127.0.0.1:$port: Address already in use; another process listens there: stop it, or set query.${what}_listen to another port\"" 10
	eventually '... tallyctl status says that nobody answers, and ends with 1' 'ctl status; echo "exit=$?"' \
		'QUERYD HAS DIED [0-9]+ times?.*: nobody answers gRPC or HTTP; see "queryd error" in the log.*exit=1$' 10
	eventually '... and so does systemctl status' unit_status 'NOBODY ANSWERS gRPC AND HTTP: see "queryd error" in the log' 10
	[ $what = grpc ] || stop_tallyd
done
cp "$T/grpc.yaml" "$T/a.yaml"
refused 'a second tallyd' "^tallyd: run_dir: $T/grpc: another tallyd \(pid ${TALLYD[grpc]}\) runs here; stop it or choose another run_dir"
refused 'the wrong run directory' "^tallyctl: $T/none2 does not exist: no Tally has run here .*; start tallyd, or name its run_dir with -d or TALLY_RUN_DIR" \
	"$B/tallyctl" -d "$T/none2" status
if [ "$(id -u)" = 0 ]; then
	refused 'a stranger' "^tallyctl: $T/grpc: permission denied; join group .* or use sudo" "${as[@]}" "$BIN/tallyctl" -d "$T/grpc" status
fi
stop_tallyd
is "$(ctl status | head -n 1 | grep -c 'tallyd is not running: it was stopped')" 1 'after a stop tallyctl says that it was stopped'
done_testing
