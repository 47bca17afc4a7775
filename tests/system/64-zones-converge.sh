# 64-zones-converge.sh - two zones, one topic: what is admitted in either is soon counted in both, once;
# workers die between commit, send and confirmation; one zone dies altogether, and the other has what it had.
. "$(dirname "$0")/ask.sh"

ZONE_KILLS=${ZONE_KILLS:-60}
ADMISSIONS=${ADMISSIONS:-50000}
options=(limits.max_global_streams_per_user=0 supervisor.restart_max=1s)

# Nothing waits for Kafka any more, and both have counted the same.
settled() { matches 'outbox a; outbox b' $'^0\n0$' && zones_agree a b && matches 'outbox a; outbox b' $'^0\n0$'; }
# converged NAME [SECONDS]
converged()
{
	if wait_for settled '' "${2:-45}"; then pass "$1"; else
		same "$T/a.counted.txt" "$T/b.counted.txt" "$1"
		fail "$1: nothing waits for Kafka" "outbox: $(outbox a) $(outbox b)"
	fi
}
ask_in() { INSTANCE=$1 ask "${@:2}"; }
totals() { awk '$1 == "usage" { n += $5; b += $6 } END { printf "%d %.0f\n", n, b }' "$1"; }

broker partitions=8
for i in a b; do
	start_tallyd $i kafka.group=zone-$i produce.interval=2s "${options[@]}"
	wait_ready 8
	wait_asked
done

# New streams here, others there, the same ones in both, and records of somebody else.
ask_in a --tenants 3 --streams 2000 --per-request 20 --concurrency 4 --policies 2 --seed "$SEED" --out "$T/a1.txt"
ask_in b --tenants 3 --streams 1000 --first 1500 --per-request 20 --concurrency 4 --policies 2 --seed "$SEED" --out "$T/b1.txt"
produce --records 6000 --tenants 3 --streams 4000 --policies 2 --seed "$SEED" --out "$T/records.txt"
ask_in a --tenants 3 --streams 3000 --per-request 50 --policies 2 --seed "$SEED" --out "$T/a2.txt"
awk -F'\t' -v OFS='\t' '{ print 0, 0, $4, $5, $6, $7, "accepted" }' "$T/records.txt" >"$T/r1.txt"
asked=("$T/a1.txt" "$T/a2.txt" "$T/b1.txt" "$T/r1.txt")
has() { dump_store "$1" "$T/$1.dump"; totals "$T/$1.dump"; }
for i in a b; do
	eventually "zone $i has every stream and every byte once" "has $i" "^$(cut -f 3,4 "${asked[@]}" | sort -u | wc -l) $(sizes accepted "${asked[@]}")\$"
done
converged 'both zones count the same'
is "$(judge "$T/a.dump" "${asked[@]}")" '' 'stream by stream'
# Records without the header were applied by both, of those with it each its neighbour's.
own() { awk '$1 == "skipped" && $3 == "own" { n += $4 } END { print n + 0 }' "$1"; }
applied() { awk '$1 == "skipped" && $3 == "applied" { n += $4 } END { print n + 0 }' "$1"; }
is "$(applied "$T/a.dump") $(applied "$T/b.dump")" "$((6000 + $(own "$T/b.dump"))) $((6000 + $(own "$T/a.dump")))" \
	'records without the header count in both zones, others in the zone that they are not of'

# Workers of both are killed wherever they are: new streams are asked for once each.
INSTANCE=a ask_start kill-a --tenants 2 --tenant-prefix dying- --streams 0 --rounds 0 --rate 600 --per-request 2 --concurrency 8 --seed $((SEED + 1)) --out "$T/ka.txt"
A=$PID
INSTANCE=b ask_start kill-b --tenants 2 --tenant-prefix dying- --streams 0 --rounds 0 --rate 600 --per-request 2 --concurrency 8 --seed $((SEED + 2)) --out "$T/kb.txt"
BB=$PID
killed=0 began=$SECONDS
while [ $killed -lt "$ZONE_KILLS" ] && [ $((SECONDS - began)) -lt 150 ]; do
	if [ $((RANDOM % 2)) = 0 ]; then i=a; else i=b; fi
	victim=$((RANDOM % 8)) pause=$((RANDOM % 300))
	sleep "0.$(printf %03d $pause)"
	pid=$(fact $victim pid $i)
	[ "${pid:-0}" = 0 ] || { kill -KILL "$pid" 2>/dev/null && killed=$((killed + 1)); }
done
for pid in $A $BB; do kill -TERM "$pid"; wait "$pid"; done
note "$killed workers killed; a: $(FROM=$T/kill-a.log said accepted failed status14 lost), b: $(FROM=$T/kill-b.log said accepted failed status14 lost)"
is $killed "$ZONE_KILLS" 'so many workers were killed'
for i in a b; do INSTANCE=$i; wait_ready 8 60; done
converged "after $ZONE_KILLS kills both zones count the same" 60
for i in a b; do
	grep -E '^stream [0-9]+ dying-' "$T/$i.dump" >"$T/$i.dying.txt"
	is "$(judge "$T/$i.dying.txt" "$T/ka.txt" "$T/kb.txt")" '' "zone $i: what was accepted is there with all its bytes, nothing twice"
done
ok 'more was accepted than not' test "$(awk '$7 == "accepted"' "$T/ka.txt" "$T/kb.txt" | wc -l)" -gt "$(awk '$7 != "accepted"' "$T/ka.txt" "$T/kb.txt" | wc -l)"
stop_tallyd a
stop_tallyd b

# Zone c dies altogether after so many admissions; zone d has them.  A minute of bytes of known streams is
# what may be missing: here they are those of the second round, none of which has been produced.
broker_do topic second 8
TOPIC=second
for i in c d; do
	start_tallyd $i kafka.group=zone-$i "${options[@]}"
	wait_ready 8
	wait_asked
done
ask_in c --tenants 5 --streams $((ADMISSIONS / 5)) --per-request 250 --connections 2 --concurrency 8 --seed "$SEED" --out "$T/c1.txt"
is "$(said accepted rejected failed)" "$ADMISSIONS 0 0" "$ADMISSIONS streams are admitted in one zone"
note "$(cat "$T/ask.txt")"
eventually 'they are handed to Kafka' 'outbox c' '^0$'
ask_in c --tenants 5 --streams $((ADMISSIONS / 5)) --per-request 250 --connections 2 --concurrency 8 --seed "$SEED" --out "$T/c2.txt"
INSTANCE=c
kill_tallyd c
INSTANCE=d
eventually 'the other zone has all streams, and all bytes but those of the last minute' 'has d' \
	"^$ADMISSIONS $(sizes accepted "$T/c1.txt")\$"
is "$(judge "$T/d.dump" "$T/c1.txt")" '' 'stream by stream'
ask_in d --tenants 5 --streams $((ADMISSIONS / 5)) --per-request 250 --concurrency 4 --seed "$SEED"
is "$(said accepted rejected failed)" "$ADMISSIONS 0 0" 'and knows them'

# What died comes back with nothing but the log.  (What d was just asked is not in it yet.)
stop_tallyd d
start_tallyd d
wait_ready 8 60
rm -rf "${T:?}/c"
start_tallyd c
wait_ready 8 60
eventually 'rebuilt from the log it counts what the other zone counts' 'zones_agree c d && echo agreed' '^agreed$' 60
note "$(totals "$T/c.dump")"
is "$(awk '$1 == "usage" { n += $5 } END { print n }' "$T/c.dump")" "$ADMISSIONS" 'all of them'
# Records carry all bytes with the time when they were seen: rates come back with them.
rate_of() { INSTANCE=$1 ctl --json tenant tenant-0 | jq .bytes_per_sec; }
c=$(rate_of c) d=$(rate_of d)
ok "and the same rates ($c, $d)" jq -en "$c > 0 and ($c - $d | fabs) < 0.1 * $d"
for i in c d; do stop_tallyd $i || fail "$i stops in order"; done
done_testing
