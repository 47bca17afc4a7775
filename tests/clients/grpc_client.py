#!/usr/bin/python3
"""grpc_client.py - Google's gRPC (C core, as Python's grpcio) asks Tally; prints TAP.

	grpc_client.py PART --target HOST:PORT [options]

PART
	all        every method, health, deadlines, sizes, 200 calls at once, gzip, what is refused
	unserved   of an instance that serves only some of the partitions
	tls        with --ca; --cert and --key: also what happens without them; --other-ca

Options: --partitions N of the topic (8), --prefix TEXT of tenants with limits (python).  The limits of the instance have to be those that
tests/system/61-foreign-clients.sh writes.  grpc_client.js does the same with grpc-js.

Needs protoc, python3-protobuf and python3-grpcio; no generated stubs, so no plugin.
"""

import argparse
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MIB = 1 << 20
Code = grpc.StatusCode

tests = {}
count = failed = 0


def load():
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(["protoc", "-I", os.path.join(ROOT, "tools/queryd"),
                        "--python_out", work, "limits.proto", "health.proto"], check=True)
        sys.path.insert(0, work)
        import health_pb2
        import limits_pb2
        return limits_pb2, health_pb2


# --- TAP ----------------------------------------------------------------------------------------

def ok(true, name, why=""):
    global count, failed
    count += 1
    print("%sok %d - python: %s" % ("" if true else "not ", count, name), flush=True)
    if not true:
        failed += 1
        print("# " + str(why).replace("\n", "\n# "), flush=True)


def equal(got, expected, name):
    ok(got == expected, name, "     got: %s\nexpected: %s" % (got, expected))


def fails(call, codes, name):
    """The call ends with one of these status codes."""
    codes = codes if isinstance(codes, tuple) else (codes,)
    try:
        answer = call()
        ok(False, name, "it was answered: %s" % str(answer)[:200])
    except grpc.RpcError as error:
        ok(error.code() in codes, name, "got %s: %s" % (error.code(), error.details()))


# --- calls --------------------------------------------------------------------------------------

class Client:
    """Every method, as a function of its request; **how: timeout, compression, metadata."""

    def __init__(self, channel):
        self.channel = channel
        self.limits = self.service("proto.IngestLimits")
        self.frontend = self.service("proto.IngestLimitsFrontend")

    def unary(self, path, request, response):
        call = self.channel.unary_unary(path, request.SerializeToString, response.FromString)
        return lambda message, **how: call(message, **{"timeout": 30, **how})

    def raw(self, path, data, **how):
        """Bytes as they are."""
        return self.channel.unary_unary(path)(data, **{"timeout": 30, **how})

    def service(self, name):
        class Service:
            exceeds = staticmethod(self.unary("/%s/ExceedsLimits" % name, pb.ExceedsLimitsRequest, pb.ExceedsLimitsResponse))
            rates = staticmethod(self.unary("/%s/UpdateRates" % name, pb.UpdateRatesRequest, pb.UpdateRatesResponse))
            partitions = staticmethod(self.unary("/%s/GetAssignedPartitions" % name, pb.GetAssignedPartitionsRequest,
                                                 pb.GetAssignedPartitionsResponse))
        return Service

    def check(self, service="", **how):
        return self.unary("/grpc.health.v1.Health/Check", health.HealthCheckRequest,
                          health.HealthCheckResponse)(health.HealthCheckRequest(service=service), **how).status

    def watch(self, service):
        return self.channel.unary_stream("/grpc.health.v1.Health/Watch", health.HealthCheckRequest.SerializeToString,
                                         health.HealthCheckResponse.FromString)(
                                             health.HealthCheckRequest(service=service), timeout=30)


def connect(options=()):
    return Client(grpc.insecure_channel(args.target, options))


rng = random.Random(os.getpid() ^ time.time_ns())


def new_streams(n, size=100, policy=""):
    return [pb.StreamMetadata(streamHash=rng.getrandbits(64), totalSize=size, ingestionPolicy=policy) for _ in range(n)]


def tenant_name():
    """A tenant that nobody has used; without an entry in limits.yaml the default limit holds: none."""
    return "free-%016x" % rng.getrandbits(64)


def small(name):
    """A tenant with a limit of 5, and of 3 for the policy `finance`."""
    return "%s-small-%s" % (args.prefix, name)


def exceeds(tenant, streams):
    return pb.ExceedsLimitsRequest(tenant=tenant, streams=streams)


def pairs(response):
    return sorted((r.streamHash, r.reason) for r in response.results)


def rejected(streams, reason=2):
    return sorted((s.streamHash, reason) for s in streams)


# --- all ----------------------------------------------------------------------------------------

def test_health(c):
    serving = health.HealthCheckResponse.SERVING
    for service in ("", "proto.IngestLimits", "proto.IngestLimitsFrontend"):
        equal(c.check(service), serving, "health: '%s' is serving" % service)
    fails(lambda: c.check("proto.Nobody"), Code.NOT_FOUND, "health: an unknown service is not found")
    for service, status in (("", serving), ("proto.IngestLimits", serving),
                            ("proto.Nobody", health.HealthCheckResponse.SERVICE_UNKNOWN)):
        watch = c.watch(service)
        equal(next(watch).status, status, "health: a watch of '%s' begins with its state" % service)
        watch.cancel()
    equal(c.check(), serving, "health: a watch that was cancelled harms nobody")


def test_partitions(c):
    answer = dict(c.limits.partitions(pb.GetAssignedPartitionsRequest()).assignedPartitions)
    equal(sorted(answer), list(range(args.partitions)), "partitions: all are assigned, number 0 too")
    now = time.time_ns()
    ok(all(now - 3600 * 10**9 < t <= now for t in answer.values()), "partitions: since when, in Unix ns", answer)


def test_exceeds(name, service):
    tenant, streams = tenant_name(), new_streams(20)
    equal(pairs(service.exceeds(exceeds(tenant, streams))), [], name + ": new streams come in")
    equal(pairs(service.exceeds(exceeds(tenant, streams))), [], name + ": known streams, too")
    equal(pairs(service.exceeds(exceeds(tenant, []))), [], name + ": no streams, no results")
    edges = [pb.StreamMetadata(streamHash=h, totalSize=s) for h in (0, 1, 2**63, 2**64 - 1) for s in (0, 1, 2**40)]
    equal(pairs(service.exceeds(exceeds(tenant, edges))), [], name + ": the smallest and the largest hash")


def test_limits(name, service, tenant):
    streams = new_streams(9)
    equal(len(service.exceeds(exceeds(tenant, streams)).results), 4, name + ": of 9 new streams, 5 come in")
    over = {r.streamHash for r in service.exceeds(exceeds(tenant, streams)).results}
    equal(len(over), 4, name + ": asked again, they know which")
    known = [s for s in streams if s.streamHash not in over]
    equal(pairs(service.exceeds(exceeds(tenant, known))), [], name + ": known streams are not rejected at the limit")
    equal(pairs(service.exceeds(exceeds(tenant, known + new_streams(1)))) != [], True, name + ": but a new one beside them is")
    twice = new_streams(1) * 3
    equal(pairs(service.exceeds(exceeds(tenant, twice))), rejected(twice), name + ": a hash asked for three times has three results")
    finance = new_streams(5, policy="finance")
    equal([r.reason for r in service.exceeds(exceeds(tenant, finance)).results], [2, 2], name + ": a policy with a limit has its own room")
    other = new_streams(2, policy="other")
    equal(pairs(service.exceeds(exceeds(tenant, other))), rejected(other), name + ": one without shares the default room")


def test_dry_run(c):
    equal(pairs(c.limits.exceeds(exceeds(args.prefix + "-dry", new_streams(20)))), [], "limits: a dry run rejects nobody")


def test_rates(name, service):
    tenant = tenant_name()
    keys = new_streams(10, size=300000)
    request = pb.UpdateRatesRequest(tenant=tenant, streams=keys)
    first = service.rates(request)
    equal(sorted(r.streamHash for r in first.results), sorted(s.streamHash for s in keys), name + ": each key has a rate")
    second = {r.streamHash: r.rate for r in service.rates(request).results}
    ok(all(second[r.streamHash] > 0 and second[r.streamHash] >= r.rate for r in first.results), name + ": it grows with the bytes",
       (first, second))


def test_rates_are_no_streams(c):
    keys = new_streams(10)
    c.limits.rates(pb.UpdateRatesRequest(tenant=small("rates"), streams=keys))
    streams = new_streams(6)
    equal(len(c.limits.exceeds(exceeds(small("rates"), streams)).results), 1, "rates: keys do not count as streams")
    again = c.limits.exceeds(exceeds(small("rates"), keys))
    equal(len(again.results), 10, "rates: and a key is no known stream")


def test_refusals(c):
    path = "/proto.IngestLimits/ExceedsLimits"
    fails(lambda: c.limits.exceeds(exceeds("", new_streams(1))), Code.INVALID_ARGUMENT, "refused: no tenant")
    fails(lambda: c.limits.exceeds(exceeds("x" * 257, new_streams(1))), Code.INVALID_ARGUMENT, "refused: a tenant of 257 bytes")
    fails(lambda: c.limits.exceeds(exceeds("t", new_streams(1, policy="p" * 257))), Code.INVALID_ARGUMENT,
          "refused: a policy of 257 bytes")
    for data, name in ((b"\x0a\x05ab", "cut short"), (b"\x0a\x02\xc3\x28", "no UTF-8"), (b"\x0f", "no wire type")):
        fails(lambda: c.raw(path, data), (Code.INVALID_ARGUMENT, Code.INTERNAL), "refused: a message that is " + name)
    fails(lambda: c.raw("/proto.IngestLimits/Nothing", b""), Code.UNIMPLEMENTED, "refused: an unknown method")
    fails(lambda: c.raw("/proto.Nobody/ExceedsLimits", b""), Code.UNIMPLEMENTED, "refused: an unknown service")
    fails(lambda: c.frontend.partitions(pb.GetAssignedPartitionsRequest()), Code.UNIMPLEMENTED,
          "refused: the front end has no GetAssignedPartitions")
    request = exceeds(tenant_name(), new_streams(100))
    fails(lambda: c.limits.exceeds(request, compression=grpc.Compression.Deflate), Code.UNIMPLEMENTED,
          "refused: another compression than gzip")
    equal(pairs(c.limits.exceeds(request)), [], "refused: and the connection is still good")


def test_extras(c):
    tenant, streams = tenant_name(), new_streams(500)
    request = exceeds(tenant, streams)
    equal(pairs(c.limits.exceeds(request, compression=grpc.Compression.Gzip)), [], "gzip: a request is understood")
    equal(pairs(c.limits.exceeds(request, metadata=(("x-scope-orgid", "1"), ("trace-bin", bytes(range(256)))))), [],
          "metadata of any kind is let pass")
    unknown = b"\x7a\x03abc\xf8\x7f\x01"
    data = c.raw("/proto.IngestLimits/ExceedsLimits", unknown + request.SerializeToString() + unknown)
    equal(data, b"", "unknown fields are let pass")


def test_deadlines(c):
    request = exceeds(tenant_name(), new_streams(1000))
    equal(pairs(c.limits.exceeds(request, timeout=20)), [], "deadline: one that is met")
    fails(lambda: c.limits.exceeds(exceeds(tenant_name(), new_streams(20000)), timeout=0.0005), Code.DEADLINE_EXCEEDED,
          "deadline: one that cannot be met")
    equal(pairs(c.limits.exceeds(request, timeout=20)), [], "deadline: afterwards all is as before")


def test_sizes(c):
    tenant = tenant_name()
    streams = new_streams(10000)
    equal(pairs(c.limits.exceeds(exceeds(tenant, streams))), [], "size: 10,000 new streams in one request")
    equal(pairs(c.limits.exceeds(exceeds(tenant, streams))), [], "size: 10,000 known ones")
    over = c.limits.exceeds(exceeds(small("size"), streams))
    equal(len(over.results), 9995, "size: 9,995 of them are rejected where the limit is 5")
    # Each 256 + 3 bytes of policy, up to 11 of hash, 2 of size, 3 of its own head.
    streams = new_streams(4 * MIB // 276, policy="p" * 256)
    request = exceeds(tenant, streams)
    while request.ByteSize() < 4 * MIB - 300:
        request.streams.extend(new_streams(1, policy="p" * 256))
    data = request.SerializeToString()
    pad = 4 * MIB - len(data) - 4  # an unknown field: two bytes of tag, two of length
    data += b"\xfa\x7f" + bytes([pad & 0x7f | 0x80, pad >> 7]) + bytes(pad)
    equal(len(data), 4 * MIB, "size: a message of 4 MiB is made")
    equal(c.raw("/proto.IngestLimits/ExceedsLimits", data), b"", "size: and answered (%d streams)" % len(request.streams))
    fails(lambda: c.raw("/proto.IngestLimits/ExceedsLimits", data + b"\x78\x01"), Code.RESOURCE_EXHAUSTED,
          "size: two bytes more are refused")
    equal(pairs(c.limits.exceeds(exceeds(tenant, new_streams(1)))), [], "size: and the connection is still good")


def test_many_calls(c):
    requests = [exceeds("many-%d" % (i % 10), new_streams(50)) for i in range(200)]
    call = c.channel.unary_unary("/proto.IngestLimits/ExceedsLimits", pb.ExceedsLimitsRequest.SerializeToString,
                                 pb.ExceedsLimitsResponse.FromString)
    futures = [call.future(request, timeout=30) for request in requests]
    equal([pairs(f.result()) for f in futures], [[]] * 200, "200 calls at once on one connection")
    futures = [call.future(exceeds(small("many"), new_streams(1)), timeout=30) for _ in range(200)]
    results = sum(len(f.result().results) for f in futures)
    equal(results, 195, "200 new streams in 200 calls at once: 5 come in")


def test_threads():
    """200 calls, each on a connection of its own."""
    results = queue.Queue()

    def one(i):
        with grpc.insecure_channel(args.target, (("grpc.use_local_subchannel_pool", 1),)) as channel:
            try:
                results.put(pairs(Client(channel).limits.exceeds(exceeds("many-%d" % (i % 10), new_streams(5)))))
            except grpc.RpcError as error:
                results.put(error.code())

    threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    equal([results.get() for _ in threads], [[]] * 200, "200 connections at once")


def test_pings():
    """A client that pings without calls, as long-lived ones do every 20 s."""
    c = connect((("grpc.keepalive_time_ms", 300), ("grpc.keepalive_permit_without_calls", 1),
                 ("grpc.http2.max_pings_without_data", 0), ("grpc.use_local_subchannel_pool", 1),
                 ("grpc.http2.min_time_between_pings_ms", 300),
                 ("grpc.http2.min_sent_ping_interval_without_data_ms", 300)))
    c.check()
    states = []
    c.channel.subscribe(note := states.append)
    time.sleep(3)
    c.check()
    c.channel.unsubscribe(note)
    equal(states, [grpc.ChannelConnectivity.READY], "pings without calls do not cost the connection")


def part_all():
    c = connect()
    test_health(c)
    test_partitions(c)
    for name, service in (("limits", c.limits), ("front end", c.frontend)):
        test_exceeds(name, service)
        test_limits(name, service, small(name.replace(" ", "-")))
        test_rates(name + ": rates", service)
    test_rates_are_no_streams(c)
    test_dry_run(c)
    test_refusals(c)
    test_extras(c)
    test_deadlines(c)
    test_sizes(c)
    test_many_calls(c)
    test_threads()
    test_pings()


# --- unserved -----------------------------------------------------------------------------------

def part_unserved():
    c = connect()
    served = set(c.limits.partitions(pb.GetAssignedPartitionsRequest()).assignedPartitions)
    ok(0 < len(served) < args.partitions, "only some of the partitions are served", served)
    streams = new_streams(200)
    ours = [s for s in streams if s.streamHash % args.partitions in served]
    theirs = [s for s in streams if s.streamHash % args.partitions not in served]
    tenant = tenant_name()

    equal(pairs(c.limits.exceeds(exceeds(tenant, ours))), [], "unserved: what is served is answered")
    fails(lambda: c.limits.exceeds(exceeds(tenant, theirs)), Code.UNAVAILABLE, "unserved: what is not is UNAVAILABLE")
    # A refusal changes nothing: the five places of this tenant are still free.
    five, six = ours[:5], ours[5:11]
    fails(lambda: c.limits.exceeds(exceeds(small("unserved"), six + theirs[:1])), Code.UNAVAILABLE,
          "unserved: one such stream makes the whole call UNAVAILABLE")
    answer = c.limits.exceeds(exceeds(small("unserved"), five))
    ok(len(answer.results) < 5, "unserved: and nothing of it was done", answer)
    equal(pairs(c.frontend.exceeds(exceeds(tenant, ours + theirs))), rejected(theirs, 1),
          "unserved: the front end says failed for those streams, and for no other")
    fails(lambda: c.limits.rates(pb.UpdateRatesRequest(tenant=tenant, streams=ours + theirs)), Code.UNAVAILABLE,
          "unserved: rates are UNAVAILABLE, too")
    rates = {r.streamHash: r.rate for r in c.frontend.rates(pb.UpdateRatesRequest(tenant=tenant, streams=ours + theirs)).results}
    equal({rates.get(s.streamHash, 0) for s in theirs}, {0}, "unserved: the front end has no rate for them")


# --- tls ----------------------------------------------------------------------------------------

def read(path):
    return open(path, "rb").read() if path else None


def part_tls():
    serving = health.HealthCheckResponse.SERVING

    def secure(ca, key=None, cert=None):
        # No shared connections: each credential must be tried.
        return Client(grpc.secure_channel(args.target, grpc.ssl_channel_credentials(read(ca), read(key), read(cert)),
                                          (("grpc.use_local_subchannel_pool", 1),)))

    mutual = "mutual TLS" if args.cert else "TLS"
    c = secure(args.ca, args.key, args.cert)
    equal(c.check(), serving, mutual + ": health")
    equal(pairs(c.limits.exceeds(exceeds(tenant_name(), new_streams(1000)))), [], mutual + ": a question")
    fails(lambda: secure(args.other_ca, args.key, args.cert).check(timeout=3), Code.UNAVAILABLE,
          mutual + ": a client that knows another authority does not trust the server")
    fails(lambda: connect().check(timeout=3), Code.UNAVAILABLE, mutual + ": in the clear nothing is answered")
    if args.cert:
        fails(lambda: secure(args.ca).check(timeout=3), Code.UNAVAILABLE, mutual + ": without a certificate nobody comes in")
        fails(lambda: secure(args.ca, args.other_key, args.other_cert).check(timeout=3), Code.UNAVAILABLE,
              mutual + ": nor with one of another authority")
    equal(c.check(), serving, mutual + ": and the first connection is still good")


parser = argparse.ArgumentParser()
parser.add_argument("part", choices=("all", "unserved", "tls"))
parser.add_argument("--target", required=True)
parser.add_argument("--partitions", type=int, default=8)
parser.add_argument("--prefix", default="python")
for option in ("ca", "cert", "key", "other-ca", "other-cert", "other-key"):
    parser.add_argument("--" + option)
args = parser.parse_args()
pb, health = load()
try:
    globals()["part_" + args.part]()
except grpc.RpcError as error:
    ok(False, "no call fails that should not", "%s: %s" % (error.code(), error.details()))
print("1..%d" % count, flush=True)
os._exit(1 if failed else 0)  # channels have threads of their own
