#!/bin/bash
# newcomer.sh - the README's "First steps" on a bare Debian 12, by somebody who has it for the first time.
#
#	tests/bare/newcomer.sh		as root; make newcomer
#
#	debootstrap --> booted (systemd-nspawn) --user ada, with sudo--> make demo, make install, make kafka,
#	tally.yaml, systemctl, tallyctl --> a question by tallyctl, HTTP, gRPC --> the page, in a Chromium outside
#
# Each step is timed; from the first command to the last answer it may take NEWCOMER_SECONDS (600).  Then the wrong
# turns, with the service as shipped: each has to be said in a line that helps, where one would look.  TAP on stdout;
# the network is this machine's (apt, Maven), so that 127.0.0.1:3100 and :9095 must be free here.  What is run is the
# tree as it lies here.  Everything is gone afterwards.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ "$(id -u)" = 0 ] || { echo 'newcomer: needs root, to bootstrap and boot' >&2; exit 2; }
for p in debootstrap systemd-container; do
	dpkg-query -W -f '${db:Status-Status}' $p 2>/dev/null | grep -qx installed ||
		DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends $p </dev/null >&2 || exit 2
done
for port in 3100 9095; do
	! (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null || { echo "newcomer: something listens on 127.0.0.1:$port; stop it" >&2; exit 2; }
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/tally-newcomer.XXXXXX")
ROOT=$WORK/root N=0 FAILED=0 NSPAWN='' INIT='' KAFKA_RUN='' SPENT=0
chmod 755 "$WORK"
end()
{
	# With process 1 of the container all are gone that run in there.
	[ -z "$INIT" ] || kill -KILL "$INIT" 2>/dev/null
	[ -z "$NSPAWN" ] || { kill -TERM "$NSPAWN"; wait "$NSPAWN"; } 2>/dev/null
	[ -z "$KAFKA_RUN" ] || { kill -KILL "$KAFKA_RUN"; wait "$KAFKA_RUN"; } 2>/dev/null
	rm -rf --one-file-system "$WORK"
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

pass() { echo "ok $((++N)) - $1"; }
fail() { echo "not ok $((++N)) - $1"; FAILED=$((FAILED + 1)); sed 's/^/# /' "${2:-$WORK/out}" | tail -n 20; }
bail() { echo "Bail out! $1"; sed 's/^/# /' "$WORK/out" 2>/dev/null | tail -n 30; exit 1; }
# like NAME PATTERN: what the last command has printed.
like() { if grep -qE -- "$2" "$WORK/out"; then pass "$1"; else fail "$1: no line like $2"; fi; }

# as USER COMMAND: as if typed at a login; output in $WORK/out.
as()
{
	nsenter -t "$INIT" -a /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 TERM=xterm \
		su - "$1" -c "$2" </dev/null >"$WORK/out" 2>&1
}
# within SECONDS COMMAND PATTERN
within()
{
	local end=$((SECONDS + $1))
	until as ada "$2"; grep -qE -- "$3" "$WORK/out"; do [ $SECONDS -lt $end ] || return 1; sleep 0.3; done
}
# step NAME COMMAND...: timed, and has to succeed; what is typed as the README has it is looked up there.
step()
{
	local begun rc
	begun=$(date +%s%N)
	"${@:2}"
	rc=$?
	took=$((($(date +%s%N) - begun) / 1000000)) SPENT=$((SPENT + took))
	[ $rc = 0 ] || bail "$1"
	pass "$(printf '%s: %d.%d s' "$1" $((took / 1000)) $((took % 1000 / 100)))"
}
# shown COMMAND: the README shows it, or the same with another address.
shown() { grep -qF -- "$1" README.md || { fail "README.md does not show: $1" /dev/null; }; }
typed() { shown "$1"; as ada "cd tally && $1"; }

# --- a bare Debian 12, which is not the newcomer's time -------------------------------------------

. tests/bare/root.sh
bare_root "$ROOT" make,git,sudo,ca-certificates,systemd,systemd-sysv,dbus,iproute2,procps 2>"$WORK/out" || bail 'debootstrap'
chroot "$ROOT" useradd -m -s /bin/bash ada
echo 'ada ALL=(ALL) NOPASSWD: ALL' >"$ROOT/etc/sudoers.d/ada"
mkdir "$ROOT/home/ada/tally"
{ git ls-files -z -co --exclude-standard 2>/dev/null || find . -path ./build -prune -o -type f -print0; } |
	while IFS= read -r -d '' f; do [ ! -e "$f" ] || printf '%s\0' "$f"; done | tar -c --null -T - | tar -x -C "$ROOT/home/ada/tally"
chroot "$ROOT" chown -R ada: /home/ada/tally
# A container shares its kernel's settings and may not mount a /proc anew (see the unit).
mkdir -p "$ROOT/etc/systemd/system/tally.service.d"
printf '[Service]\nProtectKernelTunables=no\nProtectControlGroups=no\n' >"$ROOT/etc/systemd/system/tally.service.d/container.conf"

systemd-nspawn --quiet --directory="$ROOT" --boot --register=no --keep-unit --console=pipe --resolv-conf=off \
	>"$WORK/console" 2>&1 </dev/null &
NSPAWN=$!
for _ in $(seq 300); do
	INIT=$(pgrep -P "$NSPAWN" -f 'systemd|init' | head -n 1)
	[ -n "$INIT" ] && nsenter -t "$INIT" -a systemctl is-system-running 2>/dev/null | grep -q 'running\|degraded' && break
	kill -0 "$NSPAWN" 2>/dev/null || break
	sleep 0.2
done
[ -n "$INIT" ] || { cp "$WORK/console" "$WORK/out"; bail 'the container does not boot (systemd-nspawn)'; }
as ada 'command -v gcc curl java jq protoc'
[ -s "$WORK/out" ] && bail 'the root is not bare'

# --- the README, from its top ---------------------------------------------------------------------

shown 'make demo'
step 'make demo' as ada 'cd tally && DEMO_SECONDS=5 make demo'
like 'it shows five streams of a tenant that may have three' '^3 of 5 came in, 2 were rejected$'
like 'and ends by itself' '^All stopped, nothing left behind'
step 'make deps && make -j2 && sudo make install' typed 'make deps && make -j2 && sudo make install'
step 'users and modes' typed 'sudo systemd-sysusers'
as ada 'cd tally && sudo systemd-sysusers && sudo systemd-tmpfiles --create; sudo stat -c "%n %a %U" /etc/tally/*.yaml'
shown 'sudo systemd-tmpfiles --create'
like 'tally.yaml is for the service alone' '^/etc/tally/tally.yaml 640 tally$'
like 'and so is limits.yaml' '^/etc/tally/limits.yaml 640 tally$'
as ada 'tallyctl status'
like 'before anything runs tallyctl says what to do' '^tallyctl: /run/tally does not exist: no Tally has run here .*; start tallyd'

kafka()
{
	shown 'make kafka'
	nsenter -t "$INIT" -a /usr/bin/env -i PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 su - ada -c 'cd tally && make kafka' \
		</dev/null >"$WORK/kafka" 2>&1 &
	KAFKA_RUN=$!
	until grep -q '^Kafka is up' "$WORK/kafka"; do
		kill -0 $KAFKA_RUN 2>/dev/null || { cp "$WORK/kafka" "$WORK/out"; return 1; }
		sleep 0.3
	done
	BROKER=$(sed -n 's/^Kafka is up: \([^ ]*\) .*/\1/p' "$WORK/kafka")
}
step 'make kafka: a real Apache Kafka is up' kafka

Y=/etc/tally/tally.yaml
edit() { as ada "sudo sed -i 's|^  brokers:.*|  brokers: $BROKER|; s|^  topic:.*|  topic: tally|' $Y"; }
step 'sudoedit /etc/tally/tally.yaml' edit
step 'tallyd -t' typed 'sudo -u tally tallyd -t -c /etc/tally/tally.yaml'
like 'says that it is good' '^/etc/tally/tally.yaml: ok$'
step 'systemctl enable --now tally' typed 'sudo systemctl enable --now tally'
shown 'sudo tallyctl status'
step 'tallyctl status: 8 of 8 partitions ready' within 30 'sudo tallyctl status' '^8 of 8 partitions ready$'
says() { if within 20 "$2" "$3"; then pass "$1"; else fail "$1: $2 has no line like $3"; fi; }
says 'systemctl status says so, too' 'systemctl status -l --no-pager tally' 'Status: "member: 8 of 8 partitions ready'
shown 'tally-load --brokers 127.0.0.1:9092 --topic tally --records 10000'
step 'records' as ada "tally-load --brokers $BROKER --topic tally --records 10000"
shown 'sudo tallyctl top --once'
step 'tallyctl top --once: they are counted' within 10 'sudo tallyctl top --once' '^ *[0-9]+ +100 .* tenant-9$'
step 'a question by tallyctl' typed 'sudo tallyctl check --admit tenant-0 0x1f2e'
like 'is answered' '^[0-7]  0x0000000000001f2e  accepted$'
step 'a question by curl' as ada "$(sed -n "/^curl -H 'Content-Type: application\/json' http:\/\/127.0.0.1:3100/,/}'\$/p" README.md)"
like 'is answered' '"streamHash":"18446744073709551615","result":"accepted"'
step 'a question by curl and jq' typed 'etc/examples/ask.sh tenant-0 1 2'
like 'is answered' '^2 accepted$'
step 'apt-get install protobuf-compiler' as ada 'sudo apt-get -q -y install --no-install-recommends protobuf-compiler'
step 'a question by gRPC' typed 'etc/examples/ask-grpc.sh tenant-0 1 2'
as ada 'cd tally && etc/examples/ask-grpc.sh big $(seq 1 5008) | grep -c "reason: 2"'
like 'names streams beyond 5000' '^8$'

page()
{
	timeout 60 "$CHROMIUM" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$WORK/chromium" \
		--virtual-time-budget=8000 --dump-dom http://127.0.0.1:3100/ 2>/dev/null | sed 's/<[^>]*>/ /g' | tr -s ' \t\n' ' ' >"$WORK/out"
	grep -q 'Partitions ready 8 of 8' "$WORK/out"
}
if CHROMIUM=$(command -v chromium); then step 'the page in a Chromium: Partitions ready 8 of 8' page
else echo "ok $((++N)) # SKIP the page: there is no chromium here"; fi

if [ $SPENT -le $((${NEWCOMER_SECONDS:-600} * 1000)) ]; then pass "all of it took $((SPENT / 1000)) s"
else : >"$WORK/out"; fail "all of it took $((SPENT / 1000)) s, more than ${NEWCOMER_SECONDS:-600}"; fi

# --- wrong turns ----------------------------------------------------------------------------------

as ada 'tallyctl status'
like 'a user of no group' "^tallyctl: /run/tally: permission denied; join group tally-readers \('sudo usermod -aG tally-readers USER', then log in again\) or use sudo$"
as ada 'sudo usermod -aG tally-readers ada'
as ada 'tallyctl status'
like 'who then does what it says' '^8 of 8 partitions ready$'
as ada 'sudo tallyd -c /etc/tally/tally.yaml'
like 'tallyd by hand, as root' '^tallyd: run_dir: /run/tally: belongs to user [0-9]+, not to us \(0\); chown it or choose another run_dir$'
as ada 'sudo -u tally tallyd -c /etc/tally/tally.yaml'
like 'tallyd by hand, while the service runs' '^tallyd: run_dir: /run/tally: another tallyd \(pid [0-9]+\) runs here; stop it or choose another run_dir$'
as ada '/usr/sbin/tallyd -c /etc/tally/tally.yaml'
like 'tallyd by hand, as oneself' '^tallyd: /etc/tally/tally.yaml: Permission denied; let the user that tallyd runs as read it$'

as ada "sudo cp -p $Y /root/good.yaml"
# turn EXPRESSION: of sed, put into tally.yaml, and a restart.
turn() { as ada "sudo cp -p /root/good.yaml $Y; sudo sed -i '$1' $Y; sudo systemctl restart tally"; }
unit='sudo systemctl status -l --no-pager tally' log='sudo journalctl -u tally -o cat --no-pager -n 60'

turn 's|^  session_timeout:|  session_timout:|'
says 'a typo: systemctl status has the line' "$unit" 'tallyd: /etc/tally/tally.yaml:[0-9]+: kafka.session_timout: no such option; did you mean kafka.session_timeout\?'
says 'and it is not tried again and again' "$unit" 'Active: failed \(Result: exit-code\)'
turn 's|^  topic:.*|  topic: taly|'
says 'the wrong topic: the log' "$log" 'topic.waiting reason=missing topic=taly action="create it, or correct kafka.topic"'
says 'tallyctl status' 'tallyctl status' 'group no_topic\): create the topic, or correct kafka.topic$'
says 'systemctl status' "$unit" 'Status: "no_topic: 0 of 0'
turn 's|^  brokers:.*|  brokers: 127.0.0.1:1|'
says 'no broker: the log' "$log" 'topic.waiting reason=no_broker brokers=127.0.0.1:1 .*action="start one, or correct kafka.brokers"'
says 'tallyctl status' 'tallyctl status' 'group no_broker\): no broker answers; check kafka.brokers, the log has the reason$'
says 'systemctl status' "$unit" 'Status: "no_broker: 0 of 0'
for what in http grpc; do
	turn "s|^  ${what}_listen:.*|  ${what}_listen: $BROKER|"
	says "the port of $what is taken: the log" "$log" "cannot listen on $BROKER: Address already in use; another process listens there: stop it, or set query.${what}_listen to another port"
	says 'tallyctl status' 'tallyctl status' 'QUERYD HAS DIED .*: nobody answers gRPC or HTTP; see "queryd error" in the log'
	says 'systemctl status' "$unit" 'NOBODY ANSWERS gRPC AND HTTP: see .*queryd error.* in the log'
done
as ada 'sudo chown root /etc/tally/limits.yaml'
turn 's|^  # file: /etc/tally/limits.yaml|  file: /etc/tally/limits.yaml|'
says 'limits that the service may not read' "$unit" 'tallyd: /etc/tally/limits.yaml: Permission denied; let the user that tallyd runs as read it'
as ada 'sudo systemd-tmpfiles --create; sudo systemctl restart tally'
says 'systemd-tmpfiles --create gives them to it' 'tallyctl status' '^limits of 4 tenants, 5000 for others'
as ada 'sudo chown root /etc/tally/tally.yaml; sudo systemctl restart tally'
says 'a configuration that the service may not read' "$unit" 'tallyd: /etc/tally/tally.yaml: Permission denied; let the user that tallyd runs as read it'
as ada 'sudo systemd-tmpfiles --create; sudo systemctl stop tally; sudo mount -t tmpfs -o size=512k,mode=2750,uid=tally,gid=tally-readers tmpfs /run/tally
	sudo sh -c "head -c 600k /dev/zero >/run/tally/filler" 2>/dev/null; sudo systemctl restart --no-block tally'
says 'a full tmpfs, though it is tried again each second: the log' "$log" 'tallyd: run_dir: /run/tally: cannot write its lock file: is the file system full\? make room, or choose another run_dir'
as ada "sudo systemctl stop tally; sudo umount /run/tally; sudo cp -p /root/good.yaml $Y; sudo systemctl restart tally"
says 'and with all put right it is ready again' 'tallyctl status' '^8 of 8 partitions ready$'
echo "1..$N"
[ $FAILED = 0 ] || { echo "# $FAILED of $N failed"; exit 1; }
