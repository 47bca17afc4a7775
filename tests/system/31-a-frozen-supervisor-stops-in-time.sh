# 31-a-frozen-supervisor-stops-in-time.sh - SIGSTOP past the session timeout, under load: its workers
# commit nothing more and its readers hear "not ready" before anybody else is ready; thawed, it gives in.
. "$(dirname "$0")/lib.sh"

broker partitions=8
# The readers of a frozen side hold on to what they know: so the load has to go on.
load_start --linger 200 --rate 1500 --tenants 3 --streams 2000 --seed "$SEED"
LOAD=$PID
start_group a b
spawn watch "$B/tests/table-watch" "$T/a" "$T/b"
WATCH=$PID
spawn readers "$B/tests/reader-loop" --run-dir "$T/a" --processes 2 --seed "$SEED"
READERS=$PID
INSTANCE=a
wait_until http_address '[0-9]'
ready_code() { curl -s -o /dev/null -w '%{http_code}' --max-time 5 "http://$(http_address)/ready"; }
eventually 'a answers' ready_code '^200$' 10

# Far away, so that a heartbeat is under way at nearly every moment: what arrives after the thaw was
# said before the frost, and must not count.
broker_do rtt 200
seen=$(fact "$(fields "$(facts a)" partition | head -n 1)" commits a)
wait_until 'fact "$(fields "$(facts a)" partition | head -n 1)" commits a' "[^${seen:0:1}]|.{$((${#seen} + 1)),}" 10

# The frost takes the supervisor and one of its workers, in the middle of whatever they do.
ours=$(fields "$(facts a)" partition)
stuck=$(sed -n "$((1 + RANDOM % $(wc -l <<<"$ours")))p" <<<"$ours")
stuck_pid=$(fact "$stuck" pid a)
read -r frozen_at _ </proc/uptime
frozen_at=${frozen_at/./}0000000
kill -STOP "${TALLYD[a]}"
sleep "0.$((RANDOM % 9))"
kill -STOP "$stuck_pid"
note "frozen: the supervisor, and the worker of partition $stuck"
broker_do rtt 0

eventually 'its partitions stop being ready' 'ready_count' '^0$' 5
eventually 'and its query process says so' ready_code '^503$' 5
like "$("$B/tests/lib-dump" --run-dir "$T/a" 2>&1)" 'not ready|gone' 'a reader of its directory gets no answer'
like "$(ctl tenant tenant-0 2>&1)" 'may be old' 'tallyctl answers all the same, and says what it is'
wait_until 'INSTANCE=b ready_count' '^8$' 40
frozen=$(facts a) other=$(facts b)

# partition lease_until last_commit_at commit_ns_max next, and when the other was first ready
first_ready() { awk -v d="$T/b" -v p="$1" '$2 == d && $3 == p && $4 == "ready" { print $1; exit }' "$T/watch.log"; }
late= overtaken= idle= behind=
while read -r p lease commit max next; do
	ready=$(first_ready "$p")
	note "partition $p: lease ended $(((lease - frozen_at) / 1000000)) ms after the frost, last commit at $(((commit - frozen_at) / 1000000)) ms, the other was ready at $(((ready - frozen_at) / 1000000)) ms"
	[ "$commit" -le $((lease + max)) ] || late="$late $p"
	[ "$lease" -lt "$ready" ] && [ "$commit" -lt "$ready" ] || overtaken="$overtaken $p"
	[ "$p" = "$stuck" ] || [ "$commit" -gt "$frozen_at" ] || idle="$idle $p"
	[ "$next" -lt "$(sed -nE "s/.* partition=$p .* next=([0-9]+).*/\1/p" <<<"$other")" ] || behind="$behind $p"
done <<<"$(fields "$frozen" partition lease_until last_commit_at commit_ns_max next)"
is "$late" '' 'the last commit lies before the end of the lease, and one commit'
is "$overtaken" '' 'lease and last commit lie before the other is ready'
is "$idle" '' 'until then the workers went on, supervisor or not'
is "$behind" '' 'and there was more to commit'
for pid in $(fields "$frozen" pid); do alive "$pid" || fail "worker $pid of the frozen supervisor is gone"; done

# The worker that was frozen in the middle goes on: too late.
before=$(fact "$stuck" commits a) heartbeat=$(fact "$stuck" now a)
kill -CONT "$stuck_pid"
eventually 'a worker that wakes up too late knows it' "fact $stuck flags a" '^16$' 10
sleep 1
is "$(fact "$stuck" commits a)" "$before" 'and commits nothing'
is "$(fact "$stuck" pid a)" "$stuck_pid" 'the same process'

# The thaw.
broker_do rtt 200
lost=$(status_json | jq .lost_events)
gave=$(fields "$frozen" pid)
kill -CONT "${TALLYD[a]}"
eventually 'thawed, it learns that it has lost its partitions' 'status_json | jq .lost_events' "^$((lost + 1))\$" 10
for pid in $gave; do until_true 2 gone "$pid" || fail "worker $pid is still there"; done
broker_do rtt 0
shared() { [ "$(ready_in_all 'a b')" = 8 ] && [ "$(INSTANCE=a ready_count)" -gt 0 ] && [ "$(INSTANCE=b ready_count)" -gt 0 ]; }
wait_until shared '' 60
pass 'it is a member again, and has its share'
end "$LOAD"
INSTANCE=a same_as_oracle 'a holds what the log says'
INSTANCE=b same_as_oracle 'b holds what the log says'
eventually 'what a had before and has no more is gone' 'strangers a' '^$' 10
eventually 'and nothing is left parked' 'fields "$(facts a)" state | sort -u' '^ready$' 10

end "$WATCH"
is $? 0 'at no time did two tables say ready for one partition'
readers_end
stop_tallyd a
is $? 0 'a stops in order'
stop_tallyd b
is $? 0 'b stops in order'
done_testing
