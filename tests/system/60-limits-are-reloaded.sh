# 60-limits-are-reloaded.sh - limits.yaml is read at start, on SIGHUP and when it changes; what is wrong
# leaves in place what held before, and is plain to see.
# broker: embedded
. "$(dirname "$0")/lib.sh"

L=$T/limits.yaml
broker partitions=2

# limit TENANT [POLICY]: as published: a number, "none", "default"; with "dry" behind it when it is one.
limit()
{
	perl -e '
		my ($file, $tenant, $policy) = @ARGV;
		open(my $in, "<:raw", $file) or die "$file: $!";
		local $/; my $all = <$in>;
		my ($default, $n, $m) = unpack("x32 Q L L", $all);
		my $names = 56 + 24 * $n + 16 * $m;
		my $say = sub { $_[0] == ~0 ? "none" : $_[0] };
		for my $i (0 .. $n - 1) {
			my ($limit, $at, $first, $count, $len, $flags) = unpack("Q L L L S S", substr($all, 56 + 24 * $i, 24));
			next if substr($all, $names + $at, $len) ne $tenant;
			print(($flags & 1 ? $say->($limit) : "default"), ($flags & 2 ? " dry" : ""), "\n"), exit if !defined $policy;
			for my $p ($first .. $first + $count - 1) {
				my ($limit, $at, $len) = unpack("Q L L", substr($all, 56 + 24 * $n + 16 * $p, 16));
				print($say->($limit), "\n"), exit if substr($all, $names + $at, $len) eq $policy;
			}
			print("default\n"), exit;
		}
		print(defined $policy ? "unlisted" : "unlisted " . $say->($default), unpack("x53 C", $all) ? " dry" : "", "\n");
	' "$(run_dir)/limits" "$@"
}
limits_json() { status_json | jq -r ".limits.$1"; }
metric() { curl -s "http://$(http_address)/metrics" | grep "^$1"; }

# --- at start -------------------------------------------------------------------------------------

# refused_at_start NAME PATTERN: tallyd and tallyd -t both refuse, with one line and exit code 2.
refused_at_start()
{
	local how
	for how in '' -t; do
		timeout 30 "$B/tallyd" $how -c "$T/a.yaml" >"$T/refused.txt" 2>&1
		is "$? $(wc -l <"$T/refused.txt")" '2 1' "$1: tallyd $how ends with exit code 2 and one line"
		like "$(cat "$T/refused.txt")" "$2" 'which says where, what and what to do'
	done
}
write_config a limits.file="$L" limits.max_global_streams_per_user=700
refused_at_start 'a limits file that is not there' "^tallyd: $L: No such file or directory; create it, or correct the path\$"
printf 'overrides:\n  tenant-a:\n    max_global_streams_per_user: -1\n' >"$L"
refused_at_start 'a negative limit' "^tallyd: $L:3: overrides.tenant-a.max_global_streams_per_user: -1 is negative; write 0 for no limit\$"
is "$(ls -A "$T/a" 2>/dev/null)" '' 'and has touched nothing'

cat >"$L" <<-end
	overrides:
	  tenant-a:
	    max_global_streams_per_user: 10000
	    policy_override_limits:
	      finance:
	        max_global_streams_per_user: 2000
	  tenant-b:
	    max_global_streams_per_user: 0
	    dry_run: true
end
ok 'a good file passes the test' "$B/tallyd" -t -c "$T/a.yaml"
# What the service manager would hear.
spawn notify perl -MIO::Socket::UNIX -e '$| = 1; my $s = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $ARGV[0]) or die $!;
	print "$_\n" while defined $s->recv($_, 4096)' "$T/notify"
wait_until "test -S '$T/notify'"
export NOTIFY_SOCKET=$T/notify
start_tallyd a limits.file="$L" limits.max_global_streams_per_user=700
wait_ready 2
is "$(limit tenant-a), $(limit tenant-a finance), $(limit tenant-b), $(limit x)" '10000, 2000, none dry, unlisted 700' 'limits, policies and dry runs are published'
like "$(ctl status)" 'limits of 2 tenants, 700 for others, loaded ' 'the status says so'
is "$(limits_json state) $(limits_json tenants) $(limits_json refused)" 'ok 2 0' 'its JSON too'
like "$(cat "$T/a.log")" 'limits.loaded file=.*limits.yaml tenants=2' 'and the log'
version=$(limits_json version)
query=$(status_json | jq .query_pid)

# --- a change -------------------------------------------------------------------------------------

sed -i 's/10000/12000/' "$L"	# by rename
eventually 'a file that was replaced is read without being told' 'limit tenant-a' '^12000$' 10
eventually 'with a new version' "limits_json version | grep -vx $version" '^[0-9]+$' 10
printf 'overrides:\n  tenant-a:\n    max_global_streams_per_user: 13000\n' >"$L" # in place
eventually 'so is one that was written in place' 'limit tenant-a' '^13000$' 10
eventually 'what it no longer says is gone' 'limit tenant-b' '^unlisted 700$' 10

# --- what is wrong --------------------------------------------------------------------------------

before=$(limits_json version)
printf 'overrides:\n  tenant-a:\n    max_global_stream_per_user: 5\n' >"$L"
eventually 'a wrong file is refused: the status says so in one of its first lines' 'ctl status | head -n 4' \
	"LIMITS REFUSED .* ago, those of .* ago hold on: $L:3: overrides.tenant-a.max_global_stream_per_user: no such key; did you mean max_global_streams_per_user\?" 10
is "$(limit tenant-a) $(limits_json version)" "13000 $before" 'and what held before holds on'
is "$(limits_json state) $(limits_json refused)" 'refused 1' 'it is counted'
like "$(grep -c 'limits.refused' "$T/a.log")" '^1$' 'and logged once'
eventually 'metrics have the state' 'metric tally_limits_state' 'state="refused"} 1' 10
like "$(metric tally_limits_refused_total)" ' 1$' 'and the count'
is "$(curl -s "http://$(http_address)/api/v1/instance" | jq -r '.limits_state')" refused 'the API too'

eventually 'the service manager is told' "tail -n 3 '$T/notify.log'" 'STATUS=member: .*; LIMITS REFUSED, the old ones hold' 10
readies() { grep -c '^READY=1' "$T/notify.log"; }
before=$(readies)

kill -HUP "${TALLYD[a]}"
eventually 'SIGHUP tries again' 'limits_json refused' '^2$' 10
eventually 'a reload is over when the limits have been read' readies "^$((before + 1))\$" 10
is "$(grep -c '^RELOADING=1' "$T/notify.log")" 1 'as it has begun'
rm "$L"
eventually 'a file that is gone is refused, too' 'ctl status' 'LIMITS REFUSED.*No such file or directory' 10
is "$(limit tenant-a)" 13000 'and what held before holds on'

# --- SIGHUP ---------------------------------------------------------------------------------------

printf 'overrides:\n  tenant-a:\n    ingestion_rate_mb: 3\n    max_global_streams_per_user: 14000\n' >"$L"
write_config a limits.file="$L" limits.max_global_streams_per_user=800 limits.dry_run=true limits.unknown_keys=ignore query.http_threads=3
kill -HUP "${TALLYD[a]}"
eventually 'SIGHUP reads the defaults, the dry run and unknown_keys again' 'limit tenant-a; limit x' $'^14000 dry\nunlisted 800 dry$' 10
eventually 'all is well again' 'ctl status' 'limits of 1 tenant, 800 for others, loaded .* ago; DRY RUN: nothing is rejected' 10
unlike "$(ctl status)" 'REFUSED' 'and nothing is refused any more'
eventually 'as the service manager hears' "grep STATUS '$T/notify.log' | tail -n 1" 'failed$' 10
is "$(limits_json error)" '' 'without a reason'
like "$(cat "$T/a.log")" 'reload.needs_restart options="query.http_threads"' 'what has to wait for a restart is named'
like "$(metric tally_limits_default) $(metric tally_limits_dry_run)" ' 800 .* 1$' 'metrics have default and dry run'
is "$(status_json | jq .query_pid)" "$query" 'the query process has lived through all that'
eventually 'and has heard SIGHUP' "cat '$T/a.log'" 'queryd.*query.reload' 10

# --- a ConfigMap of Kubernetes: file -> ..data/file, ..data -> ..<time>; the middle one is swapped --

mkdir "$T/map" "$T/map/..1" "$T/map/..2"
printf 'overrides:\n  tenant-a:\n    max_global_streams_per_user: 1\n' >"$T/map/..1/limits.yaml"
printf 'overrides:\n  tenant-a:\n    max_global_streams_per_user: 2\n' >"$T/map/..2/limits.yaml"
ln -s ..1 "$T/map/..data"
ln -s ..data/limits.yaml "$T/map/limits.yaml"
write_config a limits.file="$T/map/limits.yaml"
kill -HUP "${TALLYD[a]}"
eventually 'SIGHUP takes another path' 'limit tenant-a; limit x' $'^1\nunlisted 5000$' 10
ln -s ..2 "$T/map/..data_tmp"
mv -T "$T/map/..data_tmp" "$T/map/..data"
eventually 'a swapped symbolic link in the middle is noticed' 'limit tenant-a' '^2$' 10

# --- restart --------------------------------------------------------------------------------------

before=$(limits_json version)
stop_tallyd a
start_tallyd a limits.scope=partition
wait_ready 2
is "$(limits_json state)" none 'without a file the defaults hold'
like "$(ctl status)" 'limits: 5000 active streams for every tenant \(no limits.file\)' 'as the status says'
is "$(limit tenant-a)" 'unlisted 5000' 'and as is published'
ok 'the version has grown over the restart' [ "$(limits_json version)" -gt "$before" ]
is "$(perl -ne 'BEGIN { $/ = undef } print unpack("x52 C", $_)' "$(run_dir)/limits")" 1 'with the scope'
stop_tallyd a
is $? 0 'the stop is orderly'

# --- several query processes ----------------------------------------------------------------------

for ((tries = 0; tries < 20; tries++)); do
	port=$((20000 + RANDOM % 12000))
	grep -qiE ":$(printf '%04x' $port) |:$(printf '%04x' $((port + 1))) " /proc/net/tcp /proc/net/tcp6 || break
done
start_tallyd a query.processes=3 query.http_listen=127.0.0.1:$port query.grpc_listen=127.0.0.1:$((port + 1))
children() { pgrep -P "${TALLYD[a]}" -f tally-queryd | sort -n; }
eventually 'three query processes run' 'children | wc -l' '^3$' 10
wait_ready 2
is "$(http_address)" "127.0.0.1:$port" 'on one address'
listeners() { awk -v port=":$(printf '%04X' "$port")" '$4 == "0A" && $2 ~ port' /proc/net/tcp | wc -l; }
eventually 'all of them listen' listeners '^3$' 10
third=$(children | tail -n 1)
kill -KILL "$third"
eventually 'one that dies is started again' "children | grep -vx $third | wc -l" '^3$' 10
is "$(status_json | jq .query_restarts)" 1 'and counted'
ok 'questions are answered all the while' curl -sf "http://127.0.0.1:$port/healthz"
wait_until listeners '^3$' 10
: >"$T/a.log"
kill -HUP "${TALLYD[a]}"
eventually 'each of them hears SIGHUP' "grep -c 'query.reload' '$T/a.log'" '^3$' 10
stop_tallyd a
is $? 0 'the stop is orderly'
ok 'and takes the address back' [ ! -e "$T/a/query.http" ]
done_testing
