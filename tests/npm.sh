#!/bin/bash
# npm.sh DIR PACKAGE - what DIR/package-lock.json names, in a cache outside the tree.
#
#	npm --package-lock.json: names, versions, hashes--> CACHE/PACKAGE-VERSION/node_modules
#
# Prints that directory.  Exit 1 with one line on stderr when it cannot be had: no node, no npm, no way
# to the registry.  TALLY_CACHE names another cache.  Safe to run twice at once.
set -u
here=$1 package=$2 name=${2##*/}
version=$(sed -n "s,.*\"$package\": \"\(.*\)\".*,\1,p" "$here/package.json")
cache=${TALLY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tally}/$name-$version

no() { echo "$name $version cannot be had: $*" >&2; exit 1; }

command -v node >/dev/null || no "there is no node; install nodejs"
[ ! -d "$cache/node_modules" ] || { echo "$cache/node_modules"; exit 0; }
command -v npm >/dev/null || no "there is no npm; install npm"

mkdir -p "$cache" || no "$cache cannot be made"
work=$(mktemp -d "$cache/new.XXXXXX") || no "$cache cannot be written"
trap 'rm -rf "$work"' EXIT
cp "$here/package.json" "$here/package-lock.json" "$work"
(cd "$work" && timeout 300 npm ci --ignore-scripts --no-audit --no-fund) >"$work/npm.log" 2>&1 ||
	no "npm cannot fetch it: $(grep -m 1 -iE 'err' "$work/npm.log" | cut -c 1-300)"
mv -T "$work/node_modules" "$cache/node_modules" 2>/dev/null # another one was faster
[ -d "$cache/node_modules" ] || no "$cache/node_modules cannot be written"
echo "$cache/node_modules"
