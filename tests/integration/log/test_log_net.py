#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replicas on hosts of their own (network namespaces), and networks that break.

usage: test_log_net.py MUSTER_LOG DISK_SHIM [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import random

import sandbox
from cluster import (LONG, PROGRAM, SEED, Cluster, Gone, Workload, check, run_cases, wait_for)


def pairs(ones, others):
    return [(a.number, b.number) for a in ones for b in others]


class Cut:
    """Packets of these (from, to) pairs vanish inside the block."""

    def __init__(self, pairs_):
        self.pairs = pairs_

    def __enter__(self):
        for source, target in self.pairs:
            sandbox.cut(source, target)

    def __exit__(self, *error):
        for source, target in self.pairs:
            sandbox.heal(source, target)


def split_leader():
    """The leader is cut off: it acknowledges and answers nothing, the others go on, then it follows."""
    sandbox.hosts(5)
    cluster = Cluster(PROGRAM, 3, hosts=True, timing=())
    for node in cluster.nodes.values():
        # The first is so patient that it leads on in its own eyes: only asking a majority helps.
        node.options = ["--heartbeat", "50ms", "--election", "60s" if node.number == 1 else "300ms"]
    with cluster, Workload(cluster) as load:
        old = cluster.nodes[1]
        for _ in range(5 if LONG else 1):
            load.progress()
            while cluster.leader() is not old:
                cluster.leader().ask(f"transfer {old.id}")
            others = [node for node in cluster.nodes.values() if node is not old]
            cluster.write("set split before")
            with Cut(pairs([old], others) + pairs(others, [old])):
                cluster.write("set split after", others)
                try:
                    answer = old.ask("get split", 2)
                    check(answer.startswith("err"), f"a cut-off leader answered: {answer}")
                except Gone:
                    pass  # no majority, no answer
                load.progress()
            wait_for("it follows", lambda: old.status()["leader"] != old.id and old.status()["role"] == "follower")
        load.progress()
        load.judge()


def one_way():
    """One-way cuts: a leader that sends and receives nothing, and one that receives and cannot send."""
    sandbox.hosts(5)
    with Cluster(PROGRAM, 3, hosts=True) as cluster, Workload(cluster) as load:
        for deaf in (True, False) * (4 if LONG else 1):
            load.progress()
            old = cluster.leader()
            others = [node for node in cluster.nodes.values() if node is not old]
            with Cut(pairs(others, [old]) if deaf else pairs([old], others)):
                cluster.leader(others)
                load.progress()
        load.progress()
        load.judge()


def a_follower_that_is_not_heard():
    """A follower that received nothing does not depose the leader when it is back."""
    sandbox.hosts(5)
    cluster = Cluster(PROGRAM, 3, hosts=True)
    victim = cluster.nodes[3]
    others = [node for node in cluster.nodes.values() if node is not victim]
    cluster.steady(victim)
    with cluster, Workload(cluster) as load:
        leader = cluster.steady_leader(victim)
        load.progress()
        term = leader.status()["term"]
        with Cut(pairs(others, [victim])):
            wait_for("it would be leader", lambda: victim.status()["role"] == "candidate")
            load.progress()
        wait_for("it follows again", lambda: victim.status()["leader"] == leader.id)
        check(leader.status()["term"] == term, "pre-vote let it disturb")
        load.judge()


def storms():
    """Cuts of every kind between five replicas, one after the other."""
    rng = random.Random(SEED)
    sandbox.hosts(5)
    with Cluster(PROGRAM, 5, hosts=True) as cluster, Workload(cluster) as load:
        load.progress()
        for _ in range(20 if LONG else 2):
            nodes = list(cluster.nodes.values())
            rng.shuffle(nodes)
            some, rest = nodes[:2], nodes[2:]
            cuts = pairs(some, rest) + (pairs(rest, some) if rng.random() < 0.5 else [])
            with Cut(cuts):
                cluster.leader()
                load.progress()
        load.progress()
        load.judge()


if __name__ == "__main__":
    sandbox.enter()
    run_cases([split_leader, one_way, a_follower_that_is_not_heard, storms])
