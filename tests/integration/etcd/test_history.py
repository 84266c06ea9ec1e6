#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of the past a coordinator keeps: by time, by revisions, and what a client compacts."""
from etcds import COMPACTED, PATIENT, Client, Etcds, check, refused, run_cases, wait_for


def by_revisions():
    """--store-history-revisions: the newest so many can be read, older ones are compacted without being asked"""
    with Etcds(1, [*PATIENT, "--store-history", "0", "--store-history-revisions", "100"], join=False) as cluster:
        cluster.ready()
        kv = Client(cluster.nodes[0])
        for number in range(300):
            last = kv.put(b"k", b"%d" % number).header.revision
        wait_for("a compaction", lambda: refused(lambda: kv.range(b"k", revision=last - 150)) == COMPACTED)
        check(kv.get(b"k", revision=last - 99) == b"200", "what is to be kept is there")
        check(kv.revision() == last, "a compaction is no revision")


def by_time():
    """--store-history: what is older can no more be read, and the present can"""
    with Etcds(1, [*PATIENT, "--store-history", "1s"], join=False) as cluster:
        cluster.ready()
        kv = Client(cluster.nodes[0])
        first = kv.put(b"k", b"1").header.revision
        kv.put(b"k", b"2")
        kv.put(b"k", b"3")
        wait_for("a compaction", lambda: refused(lambda: kv.range(b"k", revision=first)) == COMPACTED)
        check(kv.get(b"k") == b"3" and kv.get(b"k", revision=first + 2) == b"3", "the present stays")


def kept():
    """--store-history 0: nothing goes by itself; what a client compacts is gone on all replicas, and after a restart"""
    with Etcds(3, [*PATIENT, "--store-history", "0"]) as cluster:
        cluster.ready()
        kv = Client(cluster.leader())
        for number in range(50):
            last = kv.put(b"k", b"%d" % number).header.revision
        check(kv.get(b"k", revision=last - 49) == b"0", "all of it")
        kv.compact(last - 10)
        for node in cluster.nodes:
            other = Client(node)
            wait_for(f"{node.name} has applied it",
                     lambda: refused(lambda: other.range(b"k", revision=last - 11, serializable=True)) == COMPACTED)
            check(other.get(b"k", revision=last - 10, serializable=True) == b"39", "at it")
        cluster.agree()
        follower = cluster.others(cluster.leader())[0]
        follower.stop()
        follower.start()
        again = Client(channel=cluster.dial_etcd(follower.etcd))
        follower.dialed()
        wait_for("it is there again", lambda: refused(lambda: again.range(b"k", revision=last - 11, serializable=True))
                 == COMPACTED)


if __name__ == "__main__":
    run_cases([by_revisions, by_time, kept])
