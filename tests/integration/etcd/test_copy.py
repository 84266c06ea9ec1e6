#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl store import and export between real etcd and the coordinators, while both are in use.

usage: test_copy.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long]    (prints TAP)
"""
import json
import os
import random
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, each) for each in ("../../lib", "../log", "../fleet")]
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
import coordinators  # noqa: E402
from cluster import PATIENCE, SEED, check, wait_for  # noqa: E402
from coordinators import MUSTERCTL, grpc  # noqa: E402
import differential  # noqa: E402
import etcd_cluster  # noqa: E402
import etcds  # noqa: E402

CONTRACT = differential.Contract(coordinators.PROTOC, coordinators.PROTO_ROOT)
KEYS = 350      # more than three pages, more than three transactions


class Side:
    """A key space by the etcd API at one address."""

    def __init__(self, address):
        self.address, self.channel = address, grpc.insecure_channel(address, options=coordinators.CHANNEL)

    def ask(self, path, kind, **fields):
        return CONTRACT.stub(self.channel, differential.PB + path)(CONTRACT(kind, **fields), timeout=PATIENCE)

    def put(self, key, value, lease=0):
        self.ask("KV/Put", "PutRequest", key=key, value=value, lease=lease)

    def all(self, prefix=b""):
        found = self.ask("KV/Range", "RangeRequest", key=prefix or b"\x00",
                         range_end=prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else b"\x00").kvs
        return {each.key: each.value for each in found}

    def clear(self):
        self.ask("KV/DeleteRange", "DeleteRangeRequest", key=b"\x00", range_end=b"\x00")


def copy(*words, ours, code=0):
    done = subprocess.run([MUSTERCTL, "store", *words, "--coordinator", ours.address, "--timeout", "80s"],
                          capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == code, f"store {words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stderr if code else json.loads(done.stdout) if "json" in words else done.stdout


class Both:
    """The two sides of every case, emptied; opened once."""
    etcd = ours = None


def filled(etcd, ours):
    rng = random.Random(SEED)
    for side in (etcd, ours):
        side.clear()
    for n in range(KEYS):
        etcd.put(b"k/%04d" % n, bytes(rng.randrange(256) for _ in range(rng.choice([0, 1, 900]))))
    etcd.put(b"k/\xff\x00", b"a key of any bytes")
    etcd.put(b"other", b"x")


def imports():
    """import: every key once, counted and hashed; again, nothing; what is there beside it is left alone"""
    etcd, ours, url = Both.etcd, Both.ours, "etcd://" + Both.etcd.address
    filled(etcd, ours)
    said = copy("import", "--from", url, "--prefix", "k/", "-o", "json", ours=ours)
    check((said["keys"], said["written"]) == (KEYS + 1, KEYS + 1), f"all of them: {said}")
    check(ours.all() == etcd.all(b"k/"), "what was copied is what was there")
    again = copy("import", "--from", url, "--prefix", "k/", "-o", "json", ours=ours)
    check(again["written"] == 0 and again["hash"] == said["hash"], f"nothing to do: {again}")
    ours.put(b"k/beside", b"mine")
    ours.put(b"k/0003", b"changed")
    text = copy("import", "--from", url, "--prefix", "k/", ours=ours)
    check(f"{KEYS + 1} keys are the same on both sides, hash {said['hash']}" in text and "1 written, 0 removed" in text
          and "1 other keys of the coordinators were left alone" in text, f"says what it did: {text}")
    check(ours.all(b"k/").pop(b"k/beside") == b"mine", "it is left alone")
    said = copy("import", "--from", url, "--replace", "-o", "json", ours=ours)
    check((said["removed"], said["written"], said["beside"]) == (1, 1, 0), f"--replace: {said}")
    check(ours.all() == etcd.all(), "the same in the end")


def exports():
    """export: the way back; keys on a lease only when they are wanted"""
    etcd, ours, url = Both.etcd, Both.ours, "etcd://" + Both.etcd.address
    filled(ours, etcd)
    lease = ours.ask("Lease/LeaseGrant", "LeaseGrantRequest", TTL=3600).ID
    ours.put(b"k/leased", b"x", lease)
    said = copy("export", "--to", url, "-o", "json", ours=ours)
    check((said["keys"], said["leased_left_out"]) == (KEYS + 2, 1), f"without the leased: {said}")
    check(b"k/leased" not in etcd.all(), "it is not there")
    said = copy("export", "--to", url, "--leased", "-o", "json", ours=ours)
    check((said["keys"], said["written"]) == (KEYS + 3, 1), f"with it: {said}")
    check(ours.all() == etcd.all(), "the same in the end")
    ours.ask("Lease/LeaseRevoke", "LeaseRevokeRequest", ID=lease)


def in_use():
    """A source that is written to all the time is copied as of one moment"""
    etcd, ours, url = Both.etcd, Both.ours, "etcd://" + Both.etcd.address
    filled(etcd, ours)
    stop = threading.Event()

    def write():
        number = 0
        while not stop.is_set():
            number += 1     # both at once: a copy of one moment has both alike
            etcd.ask("KV/Txn", "TxnRequest", success=[
                CONTRACT("RequestOp", request_put={"key": key, "value": b"%d" % number})
                for key in (b"k/0000", b"k/zzzz")])
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        wait_for("the writer writes", lambda: b"k/zzzz" in etcd.all(b"k/"))
        said = copy("import", "--from", url, "--prefix", "k/", "-o", "json", ours=ours)
    finally:
        stop.set()
        writer.join(PATIENCE)
    found = ours.all()
    check(said["keys"] == KEYS + 2 and found[b"k/0000"] == found[b"k/zzzz"], f"of one moment: {said}")


def interrupted():
    """A copy that is killed goes on where it was"""
    etcd, ours, url = Both.etcd, Both.ours, "etcd://" + Both.etcd.address
    filled(etcd, ours)
    process = subprocess.Popen([MUSTERCTL, "store", "import", "--from", url, "--coordinator", ours.address],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("some are there", lambda: len(ours.all()) > 0)
    finally:
        process.kill()
        process.wait()
    there = len(ours.all())
    said = copy("import", "--from", url, "-o", "json", ours=ours)
    check(said["keys"] == KEYS + 2 and said["written"] <= KEYS + 2 - there, f"{there} were there: {said}")
    check(ours.all() == etcd.all(), "the same in the end")


def mistakes():
    """A fault is named, with its exit code"""
    ours = Both.ours
    check("etcd:// or etcds:// is needed" in copy("import", "--from", "http://x", ours=ours, code=2), "a scheme")
    check("--prefix says" in copy("import", "--from", "etcd://x/y", ours=ours, code=2), "a path")
    check("nobody" in copy("import", "--from", "etcd://x?nobody=1", ours=ours, code=2), "a parameter")
    check("belong together" in copy("export", "--to", "etcd://x", "--tls-cert", "y", ours=ours, code=2), "half of TLS")
    check("from" in copy("import", ours=ours, code=2), "no source")
    done = subprocess.run([MUSTERCTL, "store", "import", "--from", "etcd://127.0.0.1:1", "--coordinator", ours.address,
                           "--timeout", "100ms"], capture_output=True, text=True, timeout=PATIENCE)
    check(done.returncode == 6 and "etcd: " in done.stderr, f"nobody there: {done}")


if __name__ == "__main__":
    with etcd_cluster.Cluster() as left, etcds.Etcds(1) as right:
        right.ready()
        Both.etcd, Both.ours = Side(f"127.0.0.1:{left.ports[0]}"), Side(right.nodes[0].grpc)
        coordinators.run_cases([imports, exports, in_use, interrupted, mistakes])
