# 10-the-page.sh - the web page in a real Chromium, on a running Tally: what it shows is so, it says when it
# cannot know, and no name of a tenant gets further than its text.
# broker: embedded
. "$(dirname "$0")/../system/ask.sh"

CHROMIUM=${CHROMIUM:-$(command -v chromium)}
[ -n "$CHROMIUM" ] || skip_all 'there is no chromium: install it (apt-get install chromium)'
modules=$(tests/browser/fetch.sh 2>&1) || skip_all "$modules"

port=$(node -e '
	const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close(); });')

# admit TENANT N: N new streams of it are asked for.
admit()
{
	jq -cn --arg tenant "$1" --argjson n "$2" '{tenant: $tenant, streams: [range($n) |
		{streamHash: (. * 7919 + 13 | tostring), totalSize: (. * 37 % 900 + 100)}]}' |
		curl -sS --max-time 10 -H 'Content-Type: application/json' -d @- \
			"http://127.0.0.1:$port/api/v1/exceeds-limits" >/dev/null
}

# kill_worker N: when it has one now.
kill_worker() { local pid; pid=$(pid_of "$1"); [ "${pid:-0}" -gt 1 ] && kill -KILL "$pid"; }
# Kills the worker of a partition until that is given up.
fails() { [ "$(state_of "$1")" = failed ] || { kill_worker "$1"; false; } }
kill_for_good() { wait_until "fails $1" '' 60; }

put_tokens()
{
	for token in read metrics read:guest; do
		echo "sha256:$(printf %s "secret-$token" | sha256sum | cut -d ' ' -f 1) $token"
	done >"$T/tokens"
	chmod 600 "$T/tokens"
}

broker partitions=4
limits tenant-0=400 tenant-1=100 tenant-2=5000/policy-1=60 guest=3 dry=5/dry_run
produce --records 4000 --tenants 4 --policies 1 --streams 200 --popularity each --spread 100m
start_tallyd limits.file="$T/limits.yaml" query.http_listen=127.0.0.1:"$port"
wait_ready 4
wait_asked
admit guest 5
admit dry 9
# Each of these is a name that a stranger may choose.
admit '<img src=x onerror=window.harmed=1>' 4
admit '"><script>window.harmed=1</script>' 3
admit "$(printf 'bidi\342\200\256gnp.exe')" 7
admit "$(printf 'zero\342\200\213width \342\200\250line ')" 2
admit "$(printf 'W%.0s' $(seq 256))" 2
admit 'a/b?c#d%2F&e=1' 2
admit 'javascript:window.harmed=1' 2
admit '..' 2

# The script tells what is so ("ok - "), and what it wants to be done here ("do: ").
rm -rf "$B/browser"; mkdir -p "$B/browser"
coproc BROWSER { MODULES=$modules CHROMIUM=$CHROMIUM SHOTS=$B/browser BASE="http://127.0.0.1:$port" \
	timeout -k 5 370 node tests/browser/page.mjs 2>"$T/browser.log"; }
OWN+=("$BROWSER_PID")
while read -r line <&"${BROWSER[0]}"; do
	case $line in
	'ok - '*) pass "${line#ok - }" ;;
	'not ok - '*) fail "${line#not ok - }" ;;
	'do: '*) eval "${line#do: }" && echo 'done' >&"${BROWSER[1]}" ;;
	'the end') ended=yes ;;
	*) note "$line" ;;
	esac
done
is "${ended:-no}" yes 'the browser came to the end of its script'
[ -z "$(cat "$T/browser.log")" ] || diag "$(tail -n 20 "$T/browser.log")"
note "pictures: $B/browser"
done_testing
