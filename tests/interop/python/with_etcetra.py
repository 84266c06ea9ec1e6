#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""etcetra on the endpoints of the arguments; its locks are those of etcd's Lock service.

It makes serializable reads only, so each case reads at the replica to which it wrote.
"""
import asyncio
import sys

from etcetra import CompareKey, EtcdClient, HostPortPair, WatchEventType
from tap import gathered, run

ENDPOINTS = sys.argv[1:]


def client(number=0):
    host, port = ENDPOINTS[number % len(ENDPOINTS)].rsplit(":", 1)
    return EtcdClient(HostPortPair(host, int(port)))


async def keys():
    """etcetra: put, get, prefixes, keys only, delete"""
    for number in range(len(ENDPOINTS)):
        async with client(number).connect() as etcd:
            for i in range(10):
                await etcd.put(f"/etcetra/k/{i}", f"v{i}")
                assert await etcd.get(f"/etcetra/k/{i}") == f"v{i}"
            assert list((await etcd.get_prefix("/etcetra/k/")).values()) == [f"v{i}" for i in range(10)]
            assert list(await etcd.keys_prefix("/etcetra/k/")) == [f"/etcetra/k/{i}" for i in range(10)]
            await etcd.delete_prefix("/etcetra/k/")
            assert await etcd.get("/etcetra/k/3") is None


async def transactions():
    """etcetra: a transaction takes one branch, whole"""
    async with client(2).connect() as etcd:
        await etcd.put("/etcetra/t/a", "1")

        def build(success, failure):
            success.put("/etcetra/t/b", "2")
            success.get("/etcetra/t/b")
            failure.get("/etcetra/t/a")
        values, done = await etcd.txn_compare([CompareKey("/etcetra/t/a").value == "1"], build)
        assert done and "2" in str(values), (values, done)
        values, done = await etcd.txn_compare([CompareKey("/etcetra/t/a").value == "0"], build)
        assert not done and "1" in str(values), (values, done)


async def watches():
    """etcetra: a watch opened at one replica reports writes at another"""
    async with client(2).connect() as watcher, client(0).connect() as writer:
        ready = asyncio.Event()
        heard = asyncio.ensure_future(gathered(watcher.watch_prefix("/etcetra/w/", ready_event=ready), 11))
        await ready.wait()
        for i in range(10):
            await writer.put(f"/etcetra/w/{i}", str(i))
        await writer.delete("/etcetra/w/0")
        events = await heard
        assert [e.value for e in events[:10]] == [str(i) for i in range(10)] and events[10].event == WatchEventType.DELETE


async def locks():
    """etcetra: the Lock service at three replicas, eight callers, no increment lost"""
    async def worker(number):
        for _ in range(5):
            async with client(number).with_lock("/etcetra/lock", ttl=60) as etcd:
                held = await etcd.get("/etcetra/counter")
                await etcd.put("/etcetra/counter", str(int(held or 0) + 1))
    await asyncio.gather(*(worker(number) for number in range(8)))
    async with client().connect() as etcd:
        assert await etcd.get("/etcetra/counter") == "40"


async def waits():
    """etcetra: a wait for a lock that timed out leaves no key"""
    async with client(0).with_lock("/etcetra/busy", ttl=60):
        try:
            async with client(1).with_lock("/etcetra/busy", timeout=0.5, ttl=60):
                raise AssertionError("two hold it")
        except asyncio.TimeoutError:
            pass
    async with client(1).with_lock("/etcetra/busy", ttl=60):
        pass
    async with client(1).connect() as etcd:
        assert not await etcd.get_prefix("/etcetra/busy"), "a key is left"


if __name__ == "__main__":
    run(keys, transactions, watches, locks, waits)
