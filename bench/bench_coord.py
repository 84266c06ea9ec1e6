#!/usr/bin/env python3
"""Claims on every store in one run: memory, files on a disk and in memory, one etcd member, and any URL given.

usage: bench_coord.py BUILD [URL...]      e.g. nats://127.0.0.1:4222/bench?create=1, k8s://default?...
"""
import os
import shutil
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib")]
from etcd_cluster import Cluster  # noqa: E402

PROGRAM = os.path.join(sys.argv[1], "bench/coord_ops")
SHM = f"/dev/shm/bench-coord-{os.getpid()}"
URLS = ["mem:", "file://%t", f"file://{SHM}"]


def run(urls):
    subprocess.run([PROGRAM, *urls], check=True)


try:
    if shutil.which("etcd"):
        with Cluster(1) as cluster:
            run(URLS + [cluster.url()] + sys.argv[2:])
    else:
        run(URLS + sys.argv[2:])
        print("etcd is not on the PATH: not measured")
finally:
    shutil.rmtree(SHM, ignore_errors=True)
