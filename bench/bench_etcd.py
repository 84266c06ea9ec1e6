#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our etcd client's overhead beside etcd's own latency: three members and one on a disk, one in memory.

usage: bench_etcd.py BUILD [ROUNDS CALLS]
"""
import os
import subprocess
import sys
import tempfile

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/lib")]
from etcd_cluster import Cluster  # noqa: E402

PROGRAM = os.path.join(sys.argv[1], "bench/etcd_overhead")
SIZE = sys.argv[2:4] or ["8", "250"]

for members, where, root in ((3, "disk", tempfile.gettempdir()), (1, "disk", tempfile.gettempdir()),
                             (1, "memory", "/dev/shm")):
    print(f"{members} of Debian's etcd, data on {where} ({root}); {SIZE[0]} rounds of {SIZE[1]} calls each", flush=True)
    with Cluster(members, base=root) as cluster:
        subprocess.run([PROGRAM, f"127.0.0.1:{cluster.ports[0]}", *SIZE], check=True)
