#!/bin/sh
# ask.sh TENANT HASH...: may these streams come in?  Asked over HTTP, and counted: with curl and jq.
# TALLY=http://HOST:PORT (http://127.0.0.1:3100), TOKEN= where query.tokens_file is used (scope: ask).
# Prints a line for each stream; exit code 1 when one was rejected, 2 when nobody answered.
set -eu
tenant=$1
shift
answer=$(
	jq -n --arg tenant "$tenant" '{tenant: $tenant, streams: [$ARGS.positional[] | {streamHash: ., totalSize: 0}]}' \
		--args -- "$@" |
		curl -sS --fail-with-body --max-time 5 -H 'Content-Type: application/json' \
			${TOKEN:+-H "Authorization: Bearer $TOKEN"} --data @- \
			"${TALLY:-http://127.0.0.1:3100}/api/v1/exceeds-limits"
) || { echo "ask.sh: not answered: $answer" >&2; exit 2; }
echo "$answer" | jq -r '.results[] | "\(.streamHash) \(.result)"'
if echo "$answer" | jq -e 'any(.results[]; .result == "rejected")' >/dev/null; then exit 1; fi
