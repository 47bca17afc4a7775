# root.sh - a minimal Debian 12 in a directory, with this machine's way to packages; to be sourced.
#
#	bare_root DIRECTORY PACKAGES	apt's mirrors and proxies and the certificates that are trusted are this machine's

bare_root()
{
	local root=$1 conf
	command -v debootstrap >/dev/null ||
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends debootstrap </dev/null >&2 || return
	debootstrap --variant=minbase --include="$2" bookworm "$root" >"$root.log" 2>&1 || { tail -n 20 "$root.log" >&2; return 1; }
	rm -f "$root.log"
	rm -rf "$root/etc/apt/sources.list" "$root/etc/apt/sources.list.d"
	cp -a /etc/apt/sources.list* "$root/etc/apt/" 2>/dev/null || :
	for conf in /etc/apt/apt.conf.d/*; do	# only what says where packages come from
		grep -qi 'proxy\|Acquire' "$conf" 2>/dev/null && cp "$conf" "$root/etc/apt/apt.conf.d/"
	done
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || :
	cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null &&
		chroot "$root" update-ca-certificates >/dev/null 2>&1
	return 0
}
