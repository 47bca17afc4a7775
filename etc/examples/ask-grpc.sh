#!/bin/sh
# ask-grpc.sh TENANT HASH...: may these streams come in?  Asked over gRPC, with protoc and curl alone.
# TALLY=HOST:PORT (127.0.0.1:9095), TOKEN= where query.tokens_file is used.  limits.proto lies beside it or in the tree.
# Prints the streams that may not come in: reason 2, too many, or 1, could not be checked; nothing: all may.
set -eu
proto=$(dirname "$0")
[ -e "$proto/limits.proto" ] || proto=$proto/../../tools/queryd
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
no() { echo "ask-grpc.sh: $*" >&2; exit 2; }
[ $# -ge 2 ] || no 'usage: ask-grpc.sh TENANT HASH...'
command -v protoc >/dev/null || no 'there is no protoc; install protobuf-compiler'

{
	printf 'tenant: "%s"\n' "$(printf %s "$1" | sed 's/["\\]/\\&/g')"
	shift
	printf 'streams { streamHash: %s }\n' "$@"
} | protoc -I "$proto" --encode=proto.ExceedsLimitsRequest limits.proto >"$work/message"

# A message of gRPC: a byte, 0 for "not compressed", four bytes of its length, and itself.
length=$(wc -c <"$work/message")
{
	for byte in 0 $((length >> 24)) $((length >> 16 & 255)) $((length >> 8 & 255)) $((length & 255)); do
		printf "\\$(printf %03o "$byte")"
	done
	cat "$work/message"
} | curl -sS --max-time 5 --http2-prior-knowledge -H 'Content-Type: application/grpc' -H 'TE: trailers' \
	${TOKEN:+-H "Authorization: Bearer $TOKEN"} --data-binary @- -D "$work/headers" -o "$work/answer" \
	"http://${TALLY:-127.0.0.1:9095}/proto.IngestLimitsFrontend/ExceedsLimits" || no 'not answered'
grep -q '^grpc-status: 0' "$work/headers" || no "refused: $(grep -i '^grpc-' "$work/headers" | tr -d '\r' | tr '\n' ' ')"
tail -c +6 "$work/answer" | protoc -I "$proto" --decode=proto.ExceedsLimitsResponse limits.proto
