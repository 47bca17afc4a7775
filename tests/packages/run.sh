#!/bin/bash
# run.sh - the Debian packages on a bare Debian 12: installed, run, upgraded with warm stores, removed, purged.
#
#	tests/packages/run.sh DIR_WITH_DEBS	as root; make packages
#
#	debootstrap --> root --apt-get install--> booted with systemd --> tally.service, as shipped
#
# The service is run by a systemd of its own in a container (systemd-nspawn) with a network of its own; the
# broker is the embedded one, started beside it.  TAP on stdout.  Everything is gone afterwards.
set -u
debs=$(realpath "$1")
cd "$(dirname "$0")/../.." || exit 2
[ "$(id -u)" = 0 ] || { echo 'packages: needs root, to bootstrap and boot' >&2; exit 2; }
for p in debootstrap systemd-container; do
	dpkg-query -W -f '${db:Status-Status}' $p 2>/dev/null | grep -qx installed ||
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $p </dev/null >&2 || exit 2
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/tally-packages.XXXXXX")
ROOT=$WORK/root N=0 FAILED=0 NSPAWN=
chmod 755 "$WORK"
end()
{
	if [ -n "$NSPAWN" ]; then
		kill -TERM "$NSPAWN" 2>/dev/null
		for _ in $(seq 100); do kill -0 "$NSPAWN" 2>/dev/null || break; sleep 0.1; done
		kill -KILL "$NSPAWN" 2>/dev/null
	fi
	umount "$ROOT/proc" 2>/dev/null
	rm -rf --one-file-system "$WORK"
}
trap end EXIT

ok() { N=$((N + 1)); if "${@:2}" >"$WORK/out" 2>&1; then echo "ok $N - $1"; else echo "not ok $N - $1"; sed 's/^/# /' "$WORK/out" | tail -n 15; FAILED=$((FAILED + 1)); fi; }
is() { N=$((N + 1)); if [ "$1" = "$2" ]; then echo "ok $N - $3"; else echo "not ok $N - $3"; printf '# got: %s\n# not: %s\n' "$1" "$2"; FAILED=$((FAILED + 1)); fi; }
bail() { echo "Bail out! $1"; sed 's/^/# /' "$WORK/out" 2>/dev/null | tail -n 20; exit 1; }

# --- a bare root ----------------------------------------------------------------------------------

. tests/bare/root.sh
bare_root "$ROOT" ca-certificates,systemd,systemd-sysv,dbus,iproute2,curl,procps 2>"$WORK/out" || bail 'debootstrap'
mkdir "$ROOT/debs"
cp "$debs"/*.deb "$ROOT/debs/"

mount -t proc proc "$ROOT/proc" || bail 'mount /proc'

# in_root COMMAND: before it is booted.
in_root() { chroot "$ROOT" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -c "$1" </dev/null; }
in_root 'apt-get -q update' >"$WORK/out" 2>&1 || bail 'apt-get update'
ok 'the packages are installed, with what they depend on' in_root 'cd /debs && apt-get -q -y install --no-install-recommends ./tally_*.deb ./libtally0_*.deb ./libtally-dev_*.deb'
is "$(in_root 'getent passwd tally | cut -d: -f1; getent group tally-readers | cut -d: -f1')" 'tally
tally-readers' 'user and group are there'
is "$(in_root 'stat -c "%a %U" /etc/tally/tally.yaml')" '640 tally' 'the configuration is for the service alone'
ok 'the configuration that is shipped is valid' in_root 'tallyd -t -c /etc/tally/tally.yaml'
for page in man1/tallyctl.1 man8/tallyd.8 man8/tally-queryd.8 man5/tally-limits.5 man7/tally-operations.7 man3/libtally.3; do
	ok "manual: $page" test -e "$ROOT/usr/share/man/$page.gz"
done
ok 'completion for bash' test -s "$ROOT/usr/share/bash-completion/completions/tallyctl"
in_root 'apt-get -q -y install --no-install-recommends gcc libc6-dev pkg-config' >"$WORK/out" 2>&1 || bail 'gcc'
cp etc/examples/gate.c "$ROOT/root/"
ok 'a program is built against libtally-dev' in_root 'gcc -o /usr/local/bin/gate /root/gate.c $(pkg-config --cflags --libs tally)'

# --- booted ---------------------------------------------------------------------------------------

sed -i 's|^  brokers:.*|  brokers: 127.0.0.1:19092|; s|^  topic:.*|  topic: demo|; s|^  session_timeout:.*|  session_timeout: 6s|
	s|^  heartbeat_interval:.*|  heartbeat_interval: 500ms|' "$ROOT/etc/tally/tally.yaml"
# A container shares its kernel's settings and may not mount a /proc anew.
mkdir -p "$ROOT/etc/systemd/system/tally.service.d"
printf '[Service]\nProtectKernelTunables=no\nProtectControlGroups=no\n' >"$ROOT/etc/systemd/system/tally.service.d/container.conf"
cat >"$ROOT/etc/systemd/system/broker.service" <<'U'
[Service]
ExecStart=/usr/bin/tally-broker --topic demo:4 --port 19092
U
umount "$ROOT/proc"
systemd-nspawn --quiet --directory="$ROOT" --boot --private-network --register=no --keep-unit --console=pipe \
	>"$WORK/console" 2>&1 </dev/null &
NSPAWN=$!
INIT=
for _ in $(seq 300); do
	INIT=$(pgrep -P "$NSPAWN" -f 'systemd|init' | head -n 1)
	[ -n "$INIT" ] && nsenter -t "$INIT" -a systemctl is-system-running 2>/dev/null | grep -q 'running\|degraded' && break
	kill -0 "$NSPAWN" 2>/dev/null || break
	sleep 0.2
done
[ -n "$INIT" ] || { cp "$WORK/console" "$WORK/out"; bail 'the container does not boot (systemd-nspawn)'; }

# inside COMMAND: in the booted container.
inside() { nsenter -t "$INIT" -a /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -c "$1" </dev/null; }
# until_inside SECONDS COMMAND
until_inside() { local end=$((SECONDS + $1)); until inside "$2" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || { inside "$2"; return 1; }; sleep 0.2; done; }
ready() { until_inside 60 "tallyctl status | tail -n 1 | grep -q '^4 of 4 partitions ready'"; }
streams() { inside 'tallyctl --json tenant tenant-0 | tr -d " \n" | grep -o "\"streams\":[0-9]*"'; }

is "$(inside 'systemctl is-active tally; systemctl is-enabled tally')" 'inactive
disabled' 'an installation starts nothing: it has to be told its brokers first'
inside 'systemctl start broker' >"$WORK/out" 2>&1 || bail 'broker.service'
ok 'systemctl enable --now tally' inside 'systemctl enable --now tally'
[ $FAILED = 0 ] || inside 'journalctl -o cat -u tally; systemctl status tally' 2>/dev/null | tail -n 30 | sed 's/^/# /'
ok 'it becomes ready' ready
ok 'systemctl status tally says so' until_inside 10 'systemctl status -l tally | grep "Status: .*4 of 4 partitions ready"'
ok 'records are written' inside 'tally-load --brokers 127.0.0.1:19092 --topic demo --records 2000 --tenants 2 --streams 100 --popularity each'
ok 'and counted' until_inside 30 'tallyctl --json tenant tenant-0 | tr -d " \n" | grep -q "\"streams\":100"'
ok 'HTTP answers' inside 'curl -sS -f http://127.0.0.1:3100/ready'
ok 'the page is there' inside 'curl -sS -f http://127.0.0.1:3100/ | grep -qi "<html"'
is "$(inside 'useradd -G tally-readers reader; su reader -s /bin/sh -c "/usr/local/bin/gate /run/tally tenant-0 1"; echo $?')" '1: new, may come in
0' 'a member of tally-readers reads by memory map'
is "$(inside 'useradd stranger; su stranger -s /bin/sh -c "tallyctl status" >/dev/null 2>&1; echo $?')" 2 'a stranger does not'
before=$(streams)

# The ports, held by systemd.
ok 'systemctl enable --now tally-http.socket tally-grpc.socket' inside 'systemctl stop tally; systemctl enable --now tally-http.socket tally-grpc.socket'
ok 'a question starts the service, and is answered' inside 'curl -sS -f --max-time 30 http://127.0.0.1:3100/healthz'
ok 'the stores were adopted' ready
is "$(streams)" "$before" 'with what was counted'
ok 'systemctl restart tally' inside 'systemctl restart tally; curl -sS -f --max-time 30 http://127.0.0.1:3100/healthz'
ok 'it becomes ready' ready
ok 'systemctl reload tally' inside 'systemctl reload tally && systemctl is-active tally'

# A newer version: the same files with a higher number.
mkdir "$WORK/newer"
for deb in "$debs"/*tally*_*.deb; do
	case $deb in *dbgsym*) continue;; esac
	rm -rf "$WORK/unpacked"
	dpkg-deb -R "$deb" "$WORK/unpacked"
	sed -i 's/^Version: .*/&+upgrade/; s/\(libtally0 (= [^)]*\))/\1+upgrade)/' "$WORK/unpacked/DEBIAN/control"
	dpkg-deb --root-owner-group -b "$WORK/unpacked" "$WORK/newer/$(basename "$deb")" >/dev/null
done
mkdir "$ROOT/newer"
cp "$WORK"/newer/*.deb "$ROOT/newer/"
pid=$(inside 'systemctl show -p MainPID --value tally')
ok 'apt-get install ./tally_*.deb ./libtally0_*.deb: an upgrade' inside 'cd /newer && apt-get -q -y install --no-install-recommends ./tally_*.deb ./libtally0_*.deb ./libtally-dev_*.deb'
ok 'has started it again' test "$(inside 'systemctl show -p MainPID --value tally')" != "$pid"
ok 'with the new version of the package' inside 'dpkg-query -W -f "\${Version}" tally | grep -q upgrade'
ok 'it becomes ready' ready
is "$(streams)" "$before" 'with what was counted'
is "$(inside 'journalctl -u tally -o cat | tac | sed "/stop.begin/q" | grep -c partition.adopting')" 4 'because the stores were adopted'
is "$(inside 'journalctl -u tally -p warning -o cat | grep -c "worker.died\|query.died"')" 0 'nobody has died'

# What a stop leaves is memory, until somebody wants it back.
ok 'a stop keeps the stores' inside 'systemctl stop tally tally-http.socket tally-grpc.socket && ls -d /run/tally/p0.*'
ok 'systemctl clean --what=runtime tally gives them back' inside 'systemctl clean --what=runtime tally && ! ls /run/tally/p0.* 2>/dev/null'
ok 'and it starts from the log' inside 'systemctl start tally-http.socket tally-grpc.socket tally'
ok 'it becomes ready' ready
is "$(streams)" "$before" 'with what was counted'

# --- and away -------------------------------------------------------------------------------------

ok 'apt-get remove' inside 'apt-get -q -y remove tally'
is "$(inside 'systemctl is-active tally tally-http.socket; pgrep -c tally-; ls /usr/sbin/tallyd 2>&1 | grep -c "No such"; ls /etc/tally')" 'inactive
inactive
1
1
limits.yaml
tally.yaml' 'leaves no process (but the broker of this test) and no program, and keeps the configuration'
ok 'apt-get purge' inside 'apt-get -q -y purge tally libtally0 libtally-dev'
is "$(inside 'ls -d /etc/tally /run/tally /lib/systemd/system/tally* /etc/systemd/system/multi-user.target.wants/tally.service 2>/dev/null; echo looked')" looked 'takes the configuration, too'
echo "1..$N"
[ $FAILED = 0 ] || inside 'journalctl -o cat -u tally' 2>/dev/null | tail -n 40 | sed 's/^/# /'
[ $FAILED = 0 ] || { echo "# $FAILED of $N failed"; exit 1; }
