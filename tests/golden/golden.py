#!/usr/bin/python3
"""golden.py - the bytes of every message of limits.proto, written by Google's protobuf.

	tests/golden/golden.py >tests/golden/golden.txt		makes the file anew
	tests/golden/golden.py --check				exit 1 when it would differ

	limits.proto --protoc--> Python classes --> messages, with edge values --> golden.txt
	                                                                               |
	                                             tests/unit/test_golden.c <--------'

Nothing here is shared with Tally but limits.proto.  A line of golden.txt, separated by tabs:

	WAY MESSAGE CASE TEXT HEX

WAY  =  these bytes decode to TEXT, and TEXT encodes to these bytes
     >  they decode to TEXT, but nobody has to write it so
TEXT fields that are not at their default, in the order of their numbers: numbers decimal, strings
     as hex between < and >, messages between { and }; a map is a list of {key=K value=V}.

Needs protoc and python3-protobuf; random choices come from one seed.
"""

import importlib
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMITS = os.path.join(ROOT, "tools", "queryd", "limits.proto")

# Fields that a later version might have: numbers of one, two and five bytes, all wire types.
FUTURE = """
  uint64 future1 = 15;
  string future2 = 16;
  fixed64 future3 = 2047;
  fixed32 future4 = 2048;
  repeated sint32 future5 = 536870911;
"""

U64 = 2**64 - 1
U32 = 2**32 - 1
# Where a varint gets one byte longer.
EDGES = sorted({0, 1, U64, U64 - 1, 2**63, 2**63 - 1, U32, U32 + 1}
               | {2**n for n in range(7, 64, 7)} | {2**n - 1 for n in range(7, 64, 7)})
TEXTS = {
    "ascii": "tenant-a",
    "latin": "Zürich",
    "cjk": "日本語",
    "four-bytes": "\U0001f40b\U0010ffff",
    "controls": "a\tb\x01\x7f",
    "slashes": "team/a%2F..",
    "edges": "\u007f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000",
    "longest": "x" * 256,
    "128": "y" * 128,
    "127": "z" * 127,
}


def load():
    """limits.proto as limits_pb2, and the same with FUTURE in every message as future_pb2."""
    work = tempfile.TemporaryDirectory()
    text = open(LIMITS, encoding="utf-8").read()
    files = {"limits.proto": text,
             "future.proto": re.sub(r"(message \w+ \{)", lambda m: m.group(1) + FUTURE, text)
             .replace("package proto;", "package future;")}
    for name, content in files.items():
        with open(os.path.join(work.name, name), "w", encoding="utf-8") as out:
            out.write(content)
    subprocess.run(["protoc", "-I", work.name, "--python_out", work.name, *files], check=True)
    sys.path.insert(0, work.name)
    modules = importlib.import_module("limits_pb2"), importlib.import_module("future_pb2")
    work.cleanup()
    return modules


def text_of(message):
    """The fields that limits.proto knows."""
    known = {f.number for f in getattr(limits, message.DESCRIPTOR.name).DESCRIPTOR.fields}
    parts = []
    for field in sorted(message.DESCRIPTOR.fields, key=lambda f: f.number):
        value = getattr(message, field.name)
        if field.number not in known:
            continue
        if field.message_type and field.message_type.GetOptions().map_entry:
            parts += ["%s={key=%d value=%d}" % (field.name, k, value[k]) for k in sorted(value)]
        elif field.label == field.LABEL_REPEATED:
            parts += ["%s={%s}" % (field.name, text_of(m)) for m in value]
        elif field.type == field.TYPE_MESSAGE:
            parts += ["%s={%s}" % (field.name, text_of(value))] if message.HasField(field.name) else []
        elif field.type == field.TYPE_STRING:
            parts += ["%s=<%s>" % (field.name, value.encode().hex())] if value else []
        elif value:
            parts += ["%s=%d" % (field.name, value)]
    return " ".join(parts)


def line(way, name, case, text, data):
    lines.append("\t".join((way, name, case, text, data.hex())))


def case(name, message, way="="):
    if name == "unknown":  # TEXT does not have all of it
        way = ">"
    line(way, message.DESCRIPTOR.name, name, text_of(message), message.SerializeToString(deterministic=True))


def case_from(name, kind, *pieces):
    """Bytes put together from pieces; what they mean is said by protobuf, too."""
    data = b"".join(p if isinstance(p, bytes) else p.SerializeToString() for p in pieces)
    message = getattr(limits, kind)()
    message.ParseFromString(data)
    line(">", kind, name, text_of(message), data)


def fill_future(message):
    message.future1 = U64
    message.future2 = "später"
    message.future3 = 0x0102030405060708
    message.future4 = 0xfffefdfc
    message.future5.extend([-1, 2**31 - 1])
    return message


def stream_metadata():
    metadata = limits.StreamMetadata
    case("empty", metadata())
    for edge in EDGES:
        case("hash-%d" % edge, metadata(streamHash=edge))
        case("size-%d" % edge, metadata(totalSize=edge))
    for name, text in TEXTS.items():
        case("policy-" + name, metadata(ingestionPolicy=text))
    case("all", metadata(streamHash=U64, totalSize=U64, ingestionPolicy="finance"))
    case("unknown", fill_future(future.StreamMetadata(streamHash=7, totalSize=8, ingestionPolicy="p")))
    case_from("backwards", "StreamMetadata", metadata(ingestionPolicy="p"), metadata(totalSize=2), metadata(streamHash=1))
    case_from("last-one-wins", "StreamMetadata", metadata(streamHash=1, ingestionPolicy="p"),
              metadata(streamHash=2, ingestionPolicy="q"))
    case_from("zero-said-aloud", "StreamMetadata", b"\x08\x00\x10\x00\x1a\x00")
    case_from("varint-of-ten-bytes-for-one", "StreamMetadata", b"\x08\x81\x80\x80\x80\x80\x80\x80\x80\x80\x00")
    case_from("unknown-first", "StreamMetadata", fill_future(future.StreamMetadata()), metadata(streamHash=1))


def streams(n, seed):
    rng = random.Random(seed)
    policies = ["", "", "finance", "日本"]
    return [limits.StreamMetadata(streamHash=rng.choice([rng.getrandbits(64), rng.getrandbits(rng.randint(1, 64))]),
                                  totalSize=rng.getrandbits(rng.randint(0, 40)),
                                  ingestionPolicy=rng.choice(policies)) for _ in range(n)]


def requests(name):
    request, later = getattr(limits, name), getattr(future, name)
    metadata = limits.StreamMetadata
    case("empty", request())
    for key, text in TEXTS.items():
        case("tenant-" + key, request(tenant=text))
    case("no-tenant", request(streams=[metadata(streamHash=1)]))
    case("one", request(tenant="a", streams=[metadata(streamHash=U64, totalSize=U64, ingestionPolicy="ü")]))
    case("empty-streams", request(tenant="a", streams=[metadata(), metadata(), metadata()]))
    case("same-hash-thrice", request(tenant="a", streams=[metadata(streamHash=300, totalSize=i) for i in (1, 2, 1)]))
    case("100", request(tenant="many", streams=streams(100, 4)))
    message = fill_future(later(tenant="a"))
    fill_future(message.streams.add(streamHash=5))
    case("unknown", message)
    case_from("tenant-last", name, request(streams=[metadata(streamHash=1)]), request(tenant="a"))
    case_from("in-pieces", name, request(tenant="x", streams=[metadata(streamHash=1)]),
              request(tenant="y", streams=[metadata(streamHash=2)]))


def results(name, field, values):
    """A result message, and the response that has them."""
    result, response = getattr(limits, name + "Result"), getattr(limits, name + "Response")
    case("empty", result())
    for edge in EDGES:
        case("hash-%d" % edge, result(streamHash=edge))
    for value in values:
        case("%s-%d" % (field, value), result(**{"streamHash": 1, field: value}))
    case("unknown", fill_future(getattr(future, name + "Result")(streamHash=1)))

    rng = random.Random(5)
    case("empty", response())
    case("one", response(results=[result(**{"streamHash": U64, field: values[-1]})]))
    case("twice", response(results=[result(**{"streamHash": 9, field: 2})] * 2))
    case("empty-result", response(results=[result()]))
    case("100", response(results=[result(**{"streamHash": rng.getrandbits(64), field: rng.choice(values)})
                                  for _ in range(100)]))
    later = fill_future(getattr(future, name + "Response")())
    fill_future(later.results.add(streamHash=5))
    case("unknown", later)


def partitions():
    request, response = limits.GetAssignedPartitionsRequest, limits.GetAssignedPartitionsResponse
    case("empty", request())
    case("unknown", fill_future(future.GetAssignedPartitionsRequest()))
    now = 1764597600123456789

    case("empty", response())
    case("one", response(assignedPartitions={7: now}))
    case("largest", response(assignedPartitions={2**31 - 1: 2**63 - 1}))
    case("edges", response(assignedPartitions={n: now + n for n in (1, 127, 128, 16383, 16384)}))
    case("unknown", fill_future(future.GetAssignedPartitionsResponse(assignedPartitions={3: 4})))
    case("64", response(assignedPartitions={n: now + n for n in range(1, 65)}))
    # Google's writes a map's zeros, protobuf-c leaves them out; both must be read.
    case("partition-0", response(assignedPartitions={0: now}), ">")
    case("time-0", response(assignedPartitions={5: 0}), ">")
    case("negative", response(assignedPartitions={-1: -1, -2**31: -2**63}))
    case_from("no-key-is-partition-0", "GetAssignedPartitionsResponse", b"\x0a\x02\x10\x05")
    case_from("value-first", "GetAssignedPartitionsResponse", b"\x0a\x04\x10\x05\x08\x03")


def records():
    record, metadata = limits.StreamMetadataRecord, limits.StreamMetadata
    full = metadata(streamHash=300, totalSize=5, ingestionPolicy="hot")
    case("empty-metadata", record(zone="z", tenant="t", metadata=metadata()))
    case("full", record(zone="z1", tenant="acme", metadata=full))
    case("no-zone", record(tenant="acme", metadata=full))
    case("largest", record(zone="zone-a", tenant="acme",
                           metadata=metadata(streamHash=U64, totalSize=U64, ingestionPolicy="p" * 256)))
    for name, text in TEXTS.items():
        case("tenant-" + name, record(zone="zone-a", tenant=text, metadata=full))
        case("zone-" + name, record(zone=text, tenant="t", metadata=full))
        case("policy-" + name, record(zone="zone-a", tenant="t", metadata=metadata(streamHash=1, ingestionPolicy=text)))
    for edge in EDGES:
        case("hash-%d" % edge, record(zone="zone-a", tenant="t", metadata=metadata(streamHash=edge, totalSize=1)))
        case("size-%d" % edge, record(zone="zone-a", tenant="t", metadata=metadata(streamHash=1, totalSize=edge)))
    later = fill_future(future.StreamMetadataRecord(zone="z", tenant="t"))
    fill_future(later.metadata).streamHash = 6
    case("unknown", later)
    case_from("metadata-merged", "StreamMetadataRecord", record(tenant="t", metadata=metadata(streamHash=1, totalSize=9)),
              record(metadata=metadata(streamHash=2, ingestionPolicy="p")))
    case_from("backwards", "StreamMetadataRecord", record(metadata=full), record(tenant="t"), record(zone="z"))


def headers():
    """The header `tally`: 16 bytes of the store, its number big-endian."""
    for name, incarnation, sequence in (
            ("first", bytes(range(16)), 1), ("zero", bytes(16), 0), ("largest", b"\xff" * 16, U64),
            ("order", bytes(range(240, 256)), 0x0102030405060708)):
        line("=", "tally", name, "incarnation=<%s> sequence=%d" % (incarnation.hex(), sequence),
             struct.pack(">16sQ", incarnation, sequence))


lines = ["# Made by golden.py with Google's protobuf, not by hand; the format is in its head."]
limits, future = load()
stream_metadata()
requests("ExceedsLimitsRequest")
requests("UpdateRatesRequest")
results("ExceedsLimits", "reason", [0, 1, 2, 127, 128, U32])
results("UpdateRates", "rate", EDGES)
partitions()
records()
headers()
made = "\n".join(lines) + "\n"
if sys.argv[1:] == ["--check"]:
    with open(os.path.join(HERE, "golden.txt"), encoding="utf-8") as file:
        sys.exit(0 if file.read() == made else "golden.txt is not what golden.py makes: run it again")
sys.stdout.write(made)
