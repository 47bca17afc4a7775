#!/usr/bin/env python3
"""seeds.py - inputs to begin with, made of the golden files, the samples in etc/ and by hand.

	tests/fuzz/seeds.py build/fuzz/corpus	writes TARGET/NAME there, for `make fuzz` and `make fuzz-merge`

What has "edge" in its name shall stay in tests/fuzz/corpus, whatever a merge thinks of it.

The formats of the inputs are in the heads of the targets.
"""
import gzip
import hashlib
import os
import re
import struct
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
to = sys.argv[1]


def seed(target, name, data):
    path = os.path.join(to, target)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "wb") as out:
        out.write(data if isinstance(data, bytes) else data.encode())


def golden():
    """(kind, name, bytes) of tests/golden/golden.txt."""
    with open(os.path.join(root, "tests/golden/golden.txt"), encoding="utf-8") as lines:
        for line in lines:
            words = line.rstrip("\n").split("\t")
            if len(words) == 5 and not line.startswith("#"):
                try:
                    yield words[1], words[2], bytes.fromhex(words[4])
                except ValueError:
                    pass


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def number(field, n):
    return varint(field << 3) + varint(n)


def text(field, data):
    data = data if isinstance(data, bytes) else data.encode()
    return varint(field << 3 | 2) + varint(len(data)) + data


def stream(h, size, policy):
    return number(1, h) + number(2, size) + text(3, policy)


# --- records and messages -----------------------------------------------------------------------
for kind, name, data in golden():
    if len(data) < 600:
        seed("fuzz_record", kind + "-" + name, data)
        seed("fuzz_message", kind + "-" + name, b"\0" + data)
        seed("fuzz_message", "pairs-" + kind + "-" + name, b"\1" + data)
record = text(1, "zone-a") + text(2, "tenant-a") + text(3, stream(7, 1000, "gold"))
seed("fuzz_record", "usual", record)
for n in (255, 256, 257):
    seed("fuzz_record", "edge-%d" % n, text(2, "x" * n) + text(3, stream(7, 1, "y" * n)))
    seed("fuzz_message", "edge-%d" % n, b"\0" + text(1, "x" * n) + text(2, stream(7, 1, "y" * n)))
    seed("fuzz_http", "edge-%d" % n, '/api/v1/check\n{"tenant":"%s","streams":[]}' % ("x" * n))
seed("fuzz_record", "groups", record + b"\x2b\x33\x08\x01\x34\x2c")
seed("fuzz_record", "split", record + text(3, number(2, 5)) + text(2, "\u00e4\u20ac\U0001f600"))
seed("fuzz_record", "header", bytes(range(24)))
request = text(1, "tenant-a") + b"".join(text(2, stream(i, 1 << i, "gold" if i % 3 else "")) for i in range(20))
seed("fuzz_message", "request", b"\0" + request)
seed("fuzz_message", "request-strange", b"\0" + request + b"\x2b\x2c" + varint(9 << 3 | 5) + b"1234")
seed("fuzz_message", "pairs", b"\1" + b"".join(text(1, number(1, i) + number(2, i * i)) for i in range(9)))
seed("fuzz_message", "front", b"\2\0" + struct.pack(">I", 5) + b"hello")
seed("fuzz_message", "front-gzip", b"\2\1" + struct.pack(">I", 64))
seed("fuzz_message", "gunzip", b"\3" + gzip.compress(request, mtime=0))
seed("fuzz_message", "gunzip-bomb", b"\3" + gzip.compress(bytes(30000), mtime=0))
for timeout in ("100m", "99999999H", "1n", "7u", "3S", "12M", "x"):
    seed("fuzz_message", "timeout-" + timeout, b"\4" + timeout.encode())

# --- yaml ---------------------------------------------------------------------------------------
with open(os.path.join(root, "etc/tally.yaml"), encoding="utf-8") as file:
    sample = [line for line in file.read().split("\n") if not line.strip().startswith("#")]
with open(os.path.join(root, "etc/limits.yaml"), encoding="utf-8") as file:
    limits = [line for line in file.read().split("\n") if not line.strip().startswith("#")]
# A section a seed, with what has to be there.
sections = re.split("(?m)^(?=[a-z])", "\n".join(line for line in sample if line.strip()))[1:]
for i, part in enumerate(sections):
    need = "" if "kafka:" in part else "kafka: {brokers: a:1, topic: t}\n"
    seed("fuzz_yaml", "tally-%d" % i, "\0" + need + part + "\n")
seed("fuzz_yaml", "tally-small", "\0kafka:\n  brokers: [a:1, b:2]\n  topic: t\nwindow: {active: 2h}\n")
seed("fuzz_yaml", "tally-properties",
     "\0kafka:\n  brokers: a:1\n  topic: t\n  properties:\n    linger.ms: 5\n    sasl.password: x\n"
     "  secret_files:\n    ssl.key.password: /nowhere\nquery:\n  peers: a:1,[::1]:2\n")
seed("fuzz_yaml", "tally-anchors", "\0x: &a [1, *a]\n<<: *a\nkafka: !!str b\n")
seed("fuzz_yaml", "limits", "\1" + "\n".join(limits))
seed("fuzz_yaml", "limits-all",
     "\x0foverrides:\n  a:\n    max_global_streams_per_user: 10000\n    dry_run: true\n"
     "    policy_override_limits:\n      gold:\n        max_global_streams_per_user: 0\n"
     "      \"q\\u00e4\":\n        max_global_streams_per_user: 7\n  b: {}\n  'c c': null\n")
seed("fuzz_yaml", "limits-unknown", "\x09overrides:\n  a:\n    ingestion_rate_mb: 7\nother: [1, {a: b}]\n")
seed("fuzz_yaml", "limits-nested", "\1overrides:\n" + "".join("  " * i + "a:\n" for i in range(1, 70)))

# --- mapped files -------------------------------------------------------------------------------
def limits_file(tenants, policies, names, default=7, scope=0):
    body = struct.pack("<QQIIIBB2x", 3, default, len(tenants), len(policies), len(names), scope, 0)
    body += b"".join(struct.pack("<QIIIHH", *t) for t in tenants)
    body += b"".join(struct.pack("<QII", *p) for p in policies) + names
    return b"TALLYLIM" + struct.pack("<IIQ", 1, 0x01020304, 24 + len(body)) + body


for name, data in {
        "none": limits_file([], [], b""),
        "one": limits_file([(5, 0, 0, 0, 1, 1)], [], b"t"),
        "some": limits_file([(5, 0, 0, 2, 1, 1), (2**64 - 1, 1, 2, 0, 8, 3)],
                            [(9, 9, 4), (2**64 - 1, 13, 6)], b"ttenant-agoldsilver", scope=1)}.items():
    seed("fuzz_limits", name, data)


def patch(at, data):
    return b"\0" + struct.pack(">I", at)[1:] + bytes([len(data)]) + data


def fill(at, n, byte):
    return b"\1" + struct.pack(">I", at)[1:] + struct.pack(">HB", n, byte)


def copy(a, b, n):
    return b"\2" + struct.pack(">I", a)[1:] + struct.pack(">I", b)[1:] + struct.pack(">H", n)


def cut(at):
    return b"\3" + struct.pack(">I", at)[1:]


def table(p):
    return b"\0" + p


def stats(p):
    return b"\1" + p


def tenants(p):
    return b"\2" + p


for how in range(64):
    seed("fuzz_run", "good-%d" % how, bytes([how]) + b"\3")
for at in (8, 16, 32, 48, 56, 68, 72, 76, 88, 344, 600, 664, 768, 776, 784, 788, 792, 796, 800, 808,
           832, 836, 864, 872, 1384, 1388, 1408, 4096, 4104, 4112, 4128, 4136, 4152, 4160):
    seed("fuzz_run", "table-%d" % at, b"\3" + table(patch(at, b"\xff" * 8)))
    seed("fuzz_run", "live-%d" % at, b"\2\3" + table(patch(at, b"\x7f\0\1\xff")) + b"\3")
for at in range(24, 544, 24):
    seed("fuzz_run", "stats-%d" % at, b"\2" + stats(fill(at, 24, 0xfe)))
for at in (24, 32, 40, 44, 48, 52, 56, 64, 72, 80, 120):
    seed("fuzz_run", "limits-%d" % at, b"\2" + tenants(patch(at, b"\xff\xff")))
seed("fuzz_run", "short", b"\1" + table(cut(4200)) + tenants(cut(60)) + stats(cut(100)))
seed("fuzz_run", "stopped", b"\3" + table(patch(796, b"\1")) + b"\3" + table(patch(788, b"\1")))
for at in (24, 32, 100, 800, 900, 2000, 3000, 4000):
    seed("fuzz_handoff", "at-%d" % at, b"\0" + patch(at, b"\xff\0\1\x80"))
seed("fuzz_handoff", "good", b"")
seed("fuzz_handoff", "cut", b"\0" + cut(4000))
seed("fuzz_handoff", "nul", b"\0" + fill(0, 60000, 0))
for n in (0, 1, 3, 128, 129, 60000):
    seed("fuzz_handoff", "properties-%d" % n, b"\1" + struct.pack(">H", n))
seed("fuzz_handoff", "edge-129", b"\1\0\x81\0" + fill(4200, 65535, 0) + b"\0" + cut(4300))
for page in range(2, 30):
    seed("fuzz_store", "fill-%d" % page, fill(page * 4096, 4096, 0xff))
    seed("fuzz_store", "zero-%d" % page, fill(page * 4096, 4096, 0))
    seed("fuzz_store", "head-%d" % page, patch(page * 4096 + 8, b"\1\0\4\0\x20\0\x20\0"))
    seed("fuzz_store", "swap-%d" % page, copy(page * 4096, (page + 1) * 4096, 4096))
for at in (0, 16, 32, 64, 88, 96, 128, 4096 + 16, 4096 + 88, 4096 + 128):
    seed("fuzz_store", "meta-%d" % at, patch(at, b"\xff\xff\xff\x7f"))
seed("fuzz_store", "good", b"")
seed("fuzz_store", "cut", cut(5 * 4096))

# --- admission ----------------------------------------------------------------------------------
# The layout is that of shm/admit.c, version 1.
def question(kind, budgets, policies, streams, tenant=b"t"):
    data = struct.pack("<IHHQQqIHHH6x", 0x54444D41, 1, kind, 7, 3, 1700000000000, len(streams), len(budgets),
                       len(policies), len(tenant)) + tenant
    for name, bucket in policies:
        data += struct.pack("<HH", len(name), bucket) + name
    data += b"".join(struct.pack("<Q", n) for n in budgets)
    for column, form in ((0, "<Q"), (1, "<Q"), (2, "<H")):
        data += b"".join(struct.pack(form, s[column]) for s in streams)
    return b"\0" + data


def answer(status, asked, n, data):
    return b"\1" + struct.pack("<IHHQQHHI", 0x54444D41, 1, 16, 7, 3, status, asked, n) + data


seed("fuzz_admit", "touch", question(1, [], [(b"", 0)], [(i, 10, 0) for i in range(5)]))
seed("fuzz_admit", "admit", question(2, [5, 2**64 - 1], [(b"", 0), (b"gold", 1)], [(i, i, i % 2) for i in range(9)]))
seed("fuzz_admit", "rate", question(3, [], [], [(1, 2, 0)], "\u00e4".encode()))
seed("fuzz_admit", "bad-text", question(1, [], [(b"\xff", 0)], [(1, 1, 0)]))
seed("fuzz_admit", "bad-index", question(2, [1], [(b"", 1)], [(1, 1, 7)]))
seed("fuzz_admit", "verdicts", answer(0, 2, 4, b"\0\1\2\3"))
seed("fuzz_admit", "rates", answer(0, 3, 2, bytes(range(16))))
seed("fuzz_admit", "not-ready", answer(1, 2, 0, b""))

# --- http ---------------------------------------------------------------------------------------
for path in ("/healthz", "/ready", "/metrics", "/ingest-limits/usage/t", "/api/v1/instance", "/api/v1/partitions",
             "/api/v1/partitions/0", "/api/v1/partitions/99", "/api/v1/tenants", "/api/v1/tenants?limit=2&after=a",
             "/api/v1/tenants/t", "/api/v1/tenants/a%1b%5B31m", "/api/v1/tenants/t/streams?limit=3",
             "/api/v1/tenants/t/streams?after=0.0000000000000001", "/api/v1/tenants/t/limits", "/a/b/c/d/e/f/g/h/i",
             "http://x/api/v1/tenants", "/api/v1/tenants?x=1", "/%00", "/%zz", "*", "/api/v1/tenants/%ff"):
    seed("fuzz_http", "get-" + path.replace("/", "_"), path + "\n")
body = ('{"tenant": "t", "streams": [{"streamHash": 18446744073709551615, "totalSize": 1024, '
        '"ingestionPolicy": "gold"}, {"streamHash": "4"}, {"streamHash": 5}]}')
for path in ("/ingest-limits/exceeds-limits", "/api/v1/check", "/api/v1/exceeds-limits", "/api/v1/update-rates"):
    seed("fuzz_http", "post-" + path.replace("/", "_"), path + "\n" + body)
seed("fuzz_http", "escapes", '/api/v1/check\n{"tenant":"\\u00e4\\ud83d\\ude00\\n\\t\\"\\\\","streams":[]}')
seed("fuzz_http", "strange", '/api/v1/check\n{"tenant":"t","tenant":"t","streams":[{"streamHash":-1}]} x')

# --- access -------------------------------------------------------------------------------------
hashes = ["sha256:" + hashlib.sha256(token).hexdigest() for token in (b"a", b"b", b"c")]
for header in ("", "Bearer a", "Bearer b", "bearer  a ", "Bearer c", "Basic YTph", "Bearer", "Bearer a b", "Bearer \x01"):
    seed("fuzz_access", "edge-header-" + re.sub("[^a-zA-Z]", "_", header), header)
seed("fuzz_access", "edge-file", "\n# who\n%s admin # x\n%s read:t read:a%%20b\n\n%s ask metrics\n" % tuple(hashes))
seed("fuzz_access", "twice", "\n%s ask\n%s ask\n" % (hashes[0], hashes[0]))
seed("fuzz_access", "wrong", "\n%s ask x\n" % hashes[0])
seed("fuzz_access", "escape", "\n%s read:%%zz\n" % hashes[0])
seed("fuzz_access", "plain", "\nhunter2 admin\n")

# --- grpc ---------------------------------------------------------------------------------------
def raw(data):
    return b"\0" + bytes([len(data)]) + data


def frame(kind, flags, on, data):
    return b"\1" + bytes([kind, flags, on]) + struct.pack(">H", len(data)) + data


def call(path, extra=0, flags=0):
    return b"\2" + bytes([path, extra, flags])


def message(data, flags=1):
    return b"\3" + bytes([flags]) + struct.pack(">H", len(data)) + data


TURN = b"\5"
for path in range(10):
    seed("fuzz_grpc", "call-%d" % path, b"\1" + call(path) + message(b"hello") + TURN)
for extra in range(17):
    seed("fuzz_grpc", "extra-%d" % extra, b"\1" + call(0, extra) + message(b"hello") + TURN)
seed("fuzz_grpc", "gzip", b"\1" + call(0, 1) + message(gzip.compress(b"hello" * 50, mtime=0), 3) + TURN)
seed("fuzz_grpc", "kept", b"\1" + call(1) + message(b"k") + b"\6" + struct.pack(">H", 5000) + TURN)
seed("fuzz_grpc", "kept-fails", b"\1" + call(1) + message(b"k") + b"\6" + struct.pack(">H", 3) + TURN)
seed("fuzz_grpc", "drains", b"\3" + call(1) + message(b"k") + TURN)
seed("fuzz_grpc", "chat", b"\1" + call(3) + message(b"a", 0) + TURN + message(b"b", 0) + message(b"", 1) + TURN)
seed("fuzz_grpc", "health", b"\1" + call(4) + message(text(1, "proto.IngestLimits")) + call(5) + message(b"") + TURN)
for field in (3, 4, 5, 6, 7):
    seed("fuzz_grpc", "reflection-%d" % field, b"\1" + call(6) + message(text(field, "proto.IngestLimits"), 0) + TURN)
seed("fuzz_grpc", "header", b"\1" + b"\4\x05\x03x-bincab" + message(b"h") + TURN)
seed("fuzz_grpc", "settings", b"\1" + b"\7\4\0\0\0\1" + call(0) + message(b"x" * 50) + TURN +
     b"\x08\1\0\0\1\0" + b"\x08\0\0\0\1\0" + TURN)
seed("fuzz_grpc", "resets", b"\1" + call(1) + message(b"k") + b"\x09\1" + TURN + call(2) + b"\x09\3")
seed("fuzz_grpc", "http1", b"\0" + raw(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") + TURN)
seed("fuzz_grpc", "by-hand", b"\0" + raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0") + TURN + call(0) +
     message(b"m"))
for kind in range(10):
    seed("fuzz_grpc", "frame-%d" % kind, b"\1" + call(0) + frame(kind, 0, 1, b"12345678") + TURN)
    seed("fuzz_grpc", "frame-0-%d" % kind, b"\1" + frame(kind, 4, 0, b"\0\0\0\0\0\0\0\1") + TURN)
seed("fuzz_grpc", "pieces", b"\1" + frame(1, 0, 1, b"\x83\x86") + frame(9, 4, 1, b"\x44\x01/") + TURN)
