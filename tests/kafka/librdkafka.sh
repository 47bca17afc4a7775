#!/bin/bash
# librdkafka.sh - a newer librdkafka than Debian's, as built for Python's client, in a cache outside
# the tree: for what 2.0.2 cannot do with a Kafka of today (SCRAM), and to see that Tally runs on both.
#
# Prints the directory that has librdkafka.so.1.  Exit 1 with one line when it cannot be had.
set -u
VERSION=2.16.1
cache=${TALLY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tally}/librdkafka-$VERSION

no() { echo "librdkafka $VERSION cannot be had: $*" >&2; exit 1; }
[ ! -e "$cache/librdkafka.so.1" ] || { echo "$cache"; exit 0; }
pip=$(command -v pip3 || command -v pip) || no "there is no pip; install python3-pip"
mkdir -p "$cache" || no "$cache cannot be made"
work=$(mktemp -d "$cache/new.XXXXXX") || no "$cache cannot be written"
trap 'rm -rf "$work"' EXIT
timeout 300 "$pip" download -q --no-deps --only-binary=:all: --disable-pip-version-check -d "$work" "confluent-kafka==$VERSION" \
	>"$work/pip.log" 2>&1 || no "pip cannot fetch it: $(tail -n 1 "$work/pip.log")"
python3 -m zipfile -e "$work"/*.whl "$work/wheel" || no 'the wheel cannot be unpacked'
cp "$work"/wheel/confluent_kafka.libs/librdkafka-*.so.1 "$work/librdkafka.so.1" || no 'the wheel has no librdkafka'
mv "$work/librdkafka.so.1" "$cache/librdkafka.so.1"
echo "$cache"
