#!/bin/bash
# bare-root.sh - the README's two commands on a Debian 12 with nothing but make.
#
#	tests/bare/bare-root.sh [demo|check|all]	(all)	as root
#
# A minimal Debian 12 is bootstrapped into a directory; the committed tree is copied into it and
# `make demo` and `make check` run there, chrooted, in a mount and PID namespace of their own, so
# that no package of this machine hides a missing install step.  apt's mirrors and proxies and the
# certificates that are trusted are this machine's.  Everything is gone afterwards.  BARE_CHECK=target runs another target than `check`.
set -eu
what=${1:-all}
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "bare-root: needs root, to bootstrap and chroot" >&2; exit 2; }

ROOT=$(mktemp -d "${TMPDIR:-/tmp}/tally-bare.XXXXXX")
chmod 755 "$ROOT" # the tests have users of their own
trap 'rm -rf --one-file-system "$ROOT"' EXIT

. tests/bare/root.sh
bare_root "$ROOT" make,ca-certificates
mkdir "$ROOT/tally"
git archive HEAD | tar -x -C "$ROOT/tally"

inside()
{
	unshare --mount --pid --fork --kill-child bash -c '
		set -e
		mount --bind "$1" "$1"	# as in a container: "/" is a mount point
		mount -t proc proc "$1/proc"
		mount --rbind /dev "$1/dev"
		mount -t tmpfs tmpfs "$1/dev/shm"
		mount -t tmpfs tmpfs "$1/run"
		cd "$1"
		exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C CI="$3" \
			DEMO_SECONDS=20 sh -c "cd /tally && $2"
	' - "$ROOT" "$1" "${CI:-}" </dev/null
}

if [ "$what" != check ]; then
	inside 'make demo && test -z "$(ls -A /dev/shm)" && ! ps ax | grep -q "[t]ally-"'
	echo "ok - make demo on a bare root: exit code 0, no process and no file left"
fi
if [ "$what" != demo ]; then
	inside "make ${BARE_CHECK:-check}"
	echo "ok - make ${BARE_CHECK:-check} on a bare root"
fi
