#!/bin/bash
# fetch.sh - Apache Kafka's jars and a formatted storage directory, in a cache outside the tree.
#
#	Maven Central --mvn--> CACHE/kafka-VERSION/libs
#	StorageTool   -------> CACHE/kafka-VERSION/formatted   (one broker, cloned for each cluster)
#
# Prints the directory.  Exit 1 with one line on stderr when it cannot be had: no Java 17, no Maven,
# no way to Maven Central.  TALLY_CACHE names another cache.  Safe to run twice at once.
set -u
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
cache=${TALLY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tally}/kafka-$version
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.6.1

no() { echo "Apache Kafka $version cannot be had: $*" >&2; exit 1; }
done_with() { echo "$cache"; exit 0; }

command -v java >/dev/null || no "there is no java; install openjdk-17-jre-headless"
major=$(java -version 2>&1 | sed -nE '1s/.*"([0-9]+).*/\1/p')
[ "${major:-0}" -ge 17 ] || no "java is version ${major:-unknown}, Kafka needs 17; install openjdk-17-jre-headless"
[ ! -e "$cache/complete" ] || done_with
command -v mvn >/dev/null || no "there is no mvn; install maven"

mkdir -p "$cache" || no "$cache cannot be made"
work=$(mktemp -d "$cache/new.XXXXXX") || no "$cache cannot be written"
trap 'rm -rf "$work"' EXIT
# Its own copy: Maven writes beside the file, and the tree may be read-only.
cp "$here/pom.xml" "$work/pom.xml"
timeout 600 mvn -q -B -f "$work/pom.xml" "$plugin:copy-dependencies" -DincludeScope=runtime \
	"-DoutputDirectory=$work/libs" >"$work/mvn.log" 2>&1 ||
	no "Maven cannot fetch it: $(grep -m 1 -E 'ERROR|refused|resolve' "$work/mvn.log" | cut -c 1-300)"

cat >"$work/server.properties" <<-P
	process.roles=broker,controller
	node.id=1
	controller.quorum.voters=1@127.0.0.1:1
	listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1
	controller.listener.names=CONTROLLER
	log.dirs=$work/formatted
P
java -Xmx128m -cp "$work/libs/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAA \
	-c "$work/server.properties" >"$work/format.log" 2>&1 ||
	no "its storage tool fails: $(tail -n 1 "$work/format.log")"
for part in libs formatted; do
	mv -T "$work/$part" "$cache/$part" 2>/dev/null # another one was faster
	[ -d "$cache/$part" ] || no "$cache/$part cannot be written"
done
touch "$cache/complete"
done_with
