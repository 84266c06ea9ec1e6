#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real etcd and the coordinators' etcd API, asked the same random things (differential.py).

usage: test_differential.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long] [--seed=N]    (prints TAP)
"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, each) for each in ("../../lib", "../log", "../fleet")]
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
import coordinators  # noqa: E402
from cluster import SEED, check  # noqa: E402
from coordinators import grpc  # noqa: E402
import differential  # noqa: E402
import etcds  # noqa: E402
import etcd_cluster  # noqa: E402

FIRST = int(next((word[7:] for word in sys.argv if word.startswith("--seed=")), SEED % 1000000))
CONTRACT = differential.Contract(coordinators.PROTOC, coordinators.PROTO_ROOT)


def dial(address):
    return grpc.insecure_channel(address, options=coordinators.CHANNEL)


def real(cluster, name="etcd", spoil=None):
    return differential.Server(name, CONTRACT, [dial(f"127.0.0.1:{cluster.ports[0]}")], spoil)


def itself():
    """etcd beside etcd: no difference; and one that is planted is found and shortened"""
    def spoil(path, request, answer):
        if path == "KV/Put" and request.value == b"22":
            answer.header.revision += 1
        return answer
    with etcd_cluster.Cluster() as one, etcd_cluster.Cluster() as two:
        both = differential.Differential(real(one), real(two, "another etcd"))
        for seed in range(FIRST, FIRST + 2):
            both.compare(seed, 60)
        spoiled = differential.Differential(real(one), real(two, "a spoiled etcd", spoil))
        spoiled.runs = both.runs
        try:
            for seed in range(FIRST, FIRST + 20):
                spoiled.compare(seed, 40)
        except differential.Difference as difference:
            lines = str(difference).splitlines()
            check(f"seed {seed}" in lines[0] and "a spoiled etcd" in lines[0], f"does not say where: {difference}")
            short = next(line for line in lines if "the shortest found" in line)
            # The put itself, and at most a lease or a key that it needs.
            check(int(short.split()[4]) <= 3, f"few requests are enough to show it: {difference}")
        else:
            check(False, "the planted difference was not found")


def beside(replicas, seeds, count):
    """Runs `count` sequences on etcd and on coordinators, each of which is asked in turn."""
    with etcd_cluster.Cluster() as etcd, etcds.Etcds(replicas, etcds.PATIENT) as ours:  # "no leader" would be a difference
        ours.ready()
        channels = [etcds.channel_of(node, port) for node in ours.nodes for port in ("etcd", "grpc")]
        muster = differential.Server("muster", CONTRACT, channels, serializable=replicas == 1)
        both = differential.Differential(real(etcd), muster)
        for seed in range(FIRST, FIRST + seeds):
            both.compare(seed, count)


def one():
    """D12, D13 etcd and one coordinator: the same answers"""
    beside(1, 200 if coordinators.LONG else 4, 100)


def three():
    """D12, D13 etcd and three coordinators, whichever is asked: the same answers"""
    beside(3, 400 if coordinators.LONG else 4, 100)


if __name__ == "__main__":
    coordinators.run_cases([itself, one, three])
