#!/bin/sh
# layers.sh - the folder rules of the house, as greps.
#
#	tests/layers.sh BUILD_DIR
#
# Each rule prints ok or not ok, with the lines that break it.  A wrong dependency is an include
# that crosses a folder, a library that a program must not have, or a name that leaks.
set -u
cd "$(dirname "$0")/.." || exit 1
B=${1:-build}
bad=$(mktemp)	# not empty: a rule was broken (rules run in subshells, at the end of pipes)
trap 'rm -f "$bad"' EXIT

# rule NAME: what comes on stdin breaks it.
rule()
{
	out=$(cat)
	if [ -z "$out" ]; then echo "ok - $1"; else
		echo "not ok - $1"; echo "$out" | sed 's/^/#	/'; echo "$1" >>"$bad"
	fi
}
sources() { find "$@" -name '*.[ch]'; }
includes() { sources "$@" | xargs grep -Hn '^ *# *include'; }

# A module may include those before it, never those after it.  Parts of a module (client_env.c)
# stand where the module stands.
ORDER='check fault err host log confine clock percent tokens config window segment record table history stats limits handoff store usage admit tally client'

includes shm | grep '"' | grep -v '"shm/' | rule 'shm includes nothing but shm, by its path'

sources shm | while read -r file; do
	module=$(basename "$file" | sed 's/\.[ch]$//; s/_.*//')
	allowed=
	for m in $ORDER; do
		allowed="$allowed $m"
		[ "$m" = "$module" ] && break
	done
	[ "$m" = "$module" ] || echo "$file: say in tests/layers.sh where $module stands"
	grep -Hno '^#include "shm/[a-z]*' "$file" | while IFS= read -r line; do
		case " $allowed " in *" ${line##*/} "*) ;; *) echo "$line" ;; esac
	done
done | rule 'shm includes upwards only'

includes shm supervisor worker tools | grep '"\.\.' | rule 'nobody includes through ..'
includes supervisor | grep -E '"(worker|tools|tests)/|shm/(store|usage|client)|lmdb' | rule 'the supervisor opens no store'
includes worker | grep -E '"(supervisor|tools|tests)/|shm/(client|tally|config)' | rule 'a worker knows nobody, and has no configuration'
includes tools | grep -E '"(supervisor|worker|tests)/' | rule 'tools include neither supervisor nor worker'
includes tools | grep -E '"(tools/)' | rule 'a tool includes its own headers bare, and no other tool'
includes tools | grep -E 'shm/(store|usage)\.h' | grep -v '^tools/load/' | rule 'tools read through tally.h'
includes tools supervisor | grep 'rdkafka' | grep -vE '^(tools/(broker|load)|supervisor)/' | rule 'of the tools, only broker and load speak Kafka'
includes shm supervisor worker tools | grep 'lmdb\.h' | grep -v '^shm/store[a-z_]*\.[ch]:' | rule 'only shm/store includes lmdb.h'
includes shm supervisor worker tools | grep '"shm/[a-z]*_private\.h"' |
	grep -vE '^shm/([a-z]+)[a-z_]*\.[ch]:.*"shm/\1_private\.h"' |
	rule 'a private header is included by its own module only'
sources shm supervisor worker tools | xargs grep -Hn 'MDB_NOLOCK' | rule 'MDB_NOLOCK is nowhere'

needs() { ldd "$B/$1" 2>&1 | grep -E "$2|not found|not a dynamic|No such"; }
needs tallyd 'liblmdb|libmicrohttpd' | rule 'tallyd is not linked with LMDB'
needs tally-worker 'libyaml|libmicrohttpd' | rule 'tally-worker is not linked with libyaml'
needs tally-queryd 'librdkafka' | rule 'tally-queryd is not linked with librdkafka'
needs tallyctl 'librdkafka|libmicrohttpd' | rule 'tallyctl is not linked with librdkafka'

for f in tallyd tally-worker tally-queryd tallyctl libtally.so.0 libtally.a; do
	[ -e "$B/$f" ] || echo "$B/$f: not built"
done | rule 'all is there to be looked at'
exported() { nm -g $1 --defined-only "$2" 2>/dev/null | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }'; }
exported -D "$B/libtally.so.0" | grep -v '^tally_' | rule 'libtally.so exports tally_* only'
exported '' "$B/libtally.a" | grep -v '^tally_' | rule 'libtally.a has tally_* only'
grep -o '\btally_[a-z_]*(' shm/tally.h | tr -d '(' | sort -u | while read -r f; do
	exported -D "$B/libtally.so.0" | grep -qx "$f" || echo "$f"
done | rule 'libtally.so has all that tally.h promises'
printf '#include "shm/tally.h"\nint main(void)\n{\n\treturn 0;\n}\n' |
	${CC:-gcc} -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I. -xc - 2>&1 | rule 'tally.h stands alone, in plain C11'

[ ! -s "$bad" ]
