#!/usr/bin/env python3
"""usage.py RUN_DIR TENANT: what a tenant uses, by libtally and ctypes alone.

A member of the group tally-readers may run it.  The structs are those of tally.h.
"""
import ctypes
import sys


class Basis(ctypes.Structure):
    _fields_ = [("partitions", ctypes.c_uint32), ("owned", ctypes.c_uint32), ("answered", ctypes.c_uint32),
                ("complete", ctypes.c_int), ("stale", ctypes.c_int),
                ("partial", ctypes.c_uint32), ("counted_to_ms", ctypes.c_int64)]


class Usage(ctypes.Structure):
    _fields_ = [("tenant", ctypes.c_char * 257), ("streams", ctypes.c_uint64), ("bytes", ctypes.c_uint64),
                ("policies", ctypes.c_uint32), ("bytes_per_sec", ctypes.c_double), ("basis", Basis)]


lib = ctypes.CDLL("libtally.so.0")
lib.tally_error.restype = ctypes.c_char_p
lib.tally_open.argtypes = [ctypes.c_char_p, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p)]
lib.tally_tenant.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(Usage)]
lib.tally_close.argtypes = [ctypes.POINTER(ctypes.c_void_p)]


def check(what, err):
    if err:
        sys.exit(f"{what}: {lib.tally_error(err).decode()}")


def main(run_dir, tenant):
    handle, usage = ctypes.c_void_p(), Usage()
    check(run_dir, lib.tally_open(run_dir.encode(), 0, ctypes.byref(handle)))
    check(tenant, lib.tally_tenant(handle, tenant.encode(), ctypes.byref(usage)))
    print(f"{tenant}: {usage.streams} active streams, {usage.bytes} bytes"
          + ("" if usage.basis.complete else " (not all partitions are ready)"))
    lib.tally_close(ctypes.byref(handle))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
