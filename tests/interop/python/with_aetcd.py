#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""aetcd on the endpoints of the arguments: usual calls, each case at another replica where possible."""
import asyncio
import sys

import aetcd
from tap import gathered, run

ENDPOINTS = [endpoint.rsplit(":", 1) for endpoint in sys.argv[1:]]


def client(number=0):
    host, port = ENDPOINTS[number % len(ENDPOINTS)]
    return aetcd.Client(host=host, port=int(port))


async def keys():
    """aetcd: put, get, prefixes, ranges, replace, delete"""
    async with client(0) as one, client(1) as other:
        for i in range(20):
            await one.put(b"/aetcd/k/%02d" % i, b"v%d" % i)
        got = await other.get(b"/aetcd/k/07")
        assert got.value == b"v7" and got.version == 1, got
        assert [kv.key for kv in await other.get_prefix(b"/aetcd/k/")] == [b"/aetcd/k/%02d" % i for i in range(20)]
        assert len(list(await other.get_range(b"/aetcd/k/05", b"/aetcd/k/10"))) == 5
        assert await other.replace(b"/aetcd/k/07", b"v7", b"new") and not await one.replace(b"/aetcd/k/07", b"v7", b"no")
        old = await one.delete(b"/aetcd/k/07", prev_kv=True)
        assert old.prev_kv.value == b"new", old
        assert await other.get(b"/aetcd/k/07") is None
        assert (await one.delete_prefix(b"/aetcd/k/")).deleted == 19


async def transactions():
    """aetcd: a transaction takes one branch, whole"""
    async with client(1) as etcd:
        t = etcd.transactions
        await etcd.put(b"/aetcd/t/a", b"1")
        done, _ = await etcd.transaction(compare=[t.value(b"/aetcd/t/a") == b"1", t.version(b"/aetcd/t/b") == 0],
                                         success=[t.put(b"/aetcd/t/a", b"2"), t.put(b"/aetcd/t/b", b"2")],
                                         failure=[t.get(b"/aetcd/t/a")])
        assert done
        done, answers = await etcd.transaction(compare=[t.version(b"/aetcd/t/b") == 0], success=[],
                                               failure=[t.get(b"/aetcd/t/b")])
        assert not done and answers[0][0][1].create_revision == answers[0][0][1].mod_revision, answers


async def watches():
    """aetcd: a watch opened at one replica reports writes at another, in order"""
    async with client(2) as watcher, client(0) as writer:
        watch = await watcher.watch_prefix(b"/aetcd/w/")
        for i in range(50):
            await writer.put(b"/aetcd/w/%d" % (i % 5), b"%d" % i)
        await writer.delete(b"/aetcd/w/0")
        events = await gathered(watch, 51)
        assert [e.kv.value for e in events[:50]] == [b"%d" % i for i in range(50)]
        assert events[50].kind == aetcd.EventKind.DELETE
        revisions = [e.kv.mod_revision for e in events]
        assert revisions == sorted(set(revisions))
        await watch.cancel()


async def leases():
    """aetcd: a lease is renewed, reported, and takes its key with it"""
    async with client(1) as etcd:
        lease = await etcd.lease(60)
        await etcd.put(b"/aetcd/l/a", b"x", lease)
        assert await lease.granted_ttl() == 60 and list(await lease.keys()) == [b"/aetcd/l/a"]
        await lease.refresh()
        assert 0 < await lease.remaining_ttl() <= 60
        await lease.revoke()
        assert await etcd.get(b"/aetcd/l/a") is None


async def locks():
    """aetcd: eight clients at three replicas, one lock, no increment lost"""
    async def worker(number):
        async with client(number) as etcd:
            for _ in range(5):
                lock = etcd.lock(b"/aetcd/lock", ttl=60)
                assert await lock.acquire(timeout=None)
                held = await etcd.get(b"/aetcd/counter")
                await etcd.put(b"/aetcd/counter", b"%d" % (int(held.value) + 1 if held else 1))
                assert await lock.release()
    await asyncio.gather(*(worker(number) for number in range(8)))
    async with client() as etcd:
        assert (await etcd.get(b"/aetcd/counter")).value == b"40"


async def cluster():
    """aetcd: status, members, compaction, the error of a compacted revision"""
    async with client(0) as etcd:
        assert len([member async for member in etcd.members()]) == len(ENDPOINTS)
        assert (await etcd.status()).version.startswith("3.")
        for i in range(3):
            last = await etcd.put(b"/aetcd/c", b"%d" % i)
        await etcd.compact(last.header.revision)
        try:
            await gathered(await etcd.watch(b"/aetcd/c", start_revision=1), 1)
            raise AssertionError("a watch of what is compacted")
        except aetcd.RevisionCompactedError as error:
            assert error.compacted_revision == last.header.revision, error


if __name__ == "__main__":
    run(keys, transactions, watches, leases, locks, cluster)
