#!/bin/bash
# fetch.sh - playwright-core, which drives a browser, in a cache outside the tree.
#
#	npm --package-lock.json: name, version, hash--> CACHE/playwright-core-VERSION/node_modules
#
# Prints that directory.  Exit 1 with one line on stderr when it cannot be had.  It brings no browser:
# that is Debian's chromium.  TALLY_CACHE names another cache.  Safe to run twice at once.
set -u
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
version=$(sed -n 's/.*"playwright-core": "\(.*\)".*/\1/p' "$here/package.json")
cache=${TALLY_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/tally}/playwright-core-$version

no() { echo "playwright-core $version cannot be had: $*" >&2; exit 1; }

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
