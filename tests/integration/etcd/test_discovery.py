#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""X11 and X12: the requests of Dynamo's discovery to etcd (coordination.md C9, T1), one by one, by a stock gRPC client.

Dynamo itself is not run here; its Rust client is, by scripts/interop-rust (X10).
"""
import signal

from etcds import (EQUAL, LEASE, VERSION, Client, Etcds, after, check, compare, grpc, op_put, op_range, patiently,
                   run_cases, wait_for)
from streams import Watch, shown

PREFIX = b"v1/instances/"
SHORT, LONG = 2, 600    # seconds: the least there is, and one that nobody has to keep here


class Worker:
    """Registers an instance under a lease of its own; nothing but the lease's end takes it away."""

    def __init__(self, kv, name, ttl):
        self.key, self.value = PREFIX + name, b"at " + name
        answer = wait_for("a lease that lives long enough to be used", lambda: self.register(kv, ttl))
        # asked again because an answer was lost, it finds its own
        check(answer.succeeded or answer.responses[0].response_range.kvs[0].lease == self.lease, f"registered: {answer}")

    def register(self, kv, ttl):
        """The answer; None when we were paused between the two until the lease was over."""
        self.lease = patiently(lambda: kv.call(LEASE + "LeaseGrant", TTL=ttl)).ID
        create = [compare(self.key, VERSION, EQUAL, 0)], [op_put(self.key, self.value, lease=self.lease)], [op_range(self.key)]

        def once():
            try:
                return (kv.txn(*create),)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    return (None,)
                raise
        return patiently(once)[0]


def instances(kv):
    """What a frontend reads at its start, and after each reconnect: the prefix, and where to watch from."""
    listed = patiently(lambda: kv.range(PREFIX, after(PREFIX)))
    return {each.key: (each.value, each.lease) for each in listed.kvs}, listed.header.revision + 1


def discovery():
    """X11: two workers register, one dies: its instance goes with its lease and is sent with what it was. X12: every
    server is restarted: a watcher resyncs, instances are unchanged, none is sent as gone"""
    with Etcds(3) as cluster:
        cluster.ready()
        frontend = Client(cluster.nodes[0])
        found, begin = instances(frontend)
        check(not found, f"nobody yet: {found}")
        with Watch(frontend) as watch:
            watch.create(PREFIX, after(PREFIX), start_revision=begin, prev_kv=True)
            lives = Worker(Client(cluster.nodes[1]), b"lives", LONG)
            dies = Worker(Client(cluster.nodes[2]), b"dies", SHORT)     # and is not heard of again
            events = watch.events(0, 3)
            check([(kind, key) for kind, key, *_ in shown(events)] ==
                  [("PUT", lives.key), ("PUT", dies.key), ("DELETE", dies.key)], f"{shown(events)}")
            check(events[2].prev_kv.value == dies.value and events[2].prev_kv.lease == dies.lease, f"{events[2]}")
        before, begin = instances(frontend)
        check(before == {lives.key: (lives.value, lives.lease)}, f"{before}")
        check(patiently(lambda: frontend.call(LEASE + "LeaseTimeToLive", ID=dies.lease)).TTL == -1, "its lease is gone")
        for node in cluster.nodes:
            node.signal(signal.SIGKILL)
            node.process.wait()
        for node in cluster.nodes:
            node.start()
        for node in cluster.nodes:
            again = Client(channel=wait_for("it listens", lambda: dialed(cluster, node)))
            check(instances(again)[0] == before, f"unchanged, by {node.name}")
            with Watch(again) as watch:     # from the last answer before the restart: nothing is gone
                watch.create(PREFIX, after(PREFIX), start_revision=begin, prev_kv=True)
                key = PREFIX + b"seen by " + node.name.encode()
                patiently(lambda: again.put(key, b"new"))
                wait_for("it is sent", lambda: any(e.kv.key == key for r in watch.received(0) for e in r.events))
                received = [e for r in watch.received(0) for e in r.events]
                check(all(e.type == 0 and e.kv.key != lives.key for e in received), f"{shown(received)}")
                patiently(lambda: again.delete(key))
            begin = patiently(again.revision) + 1
            left = patiently(lambda: again.call(LEASE + "LeaseTimeToLive", ID=lives.lease, keys=True))
            again.channel.close()
        check(left.TTL > 0 and list(left.keys) == [lives.key], f"its lease was neither lost nor begun anew: {left}")


def dialed(cluster, node):
    """A channel that answers. One that could not connect is given up: it would refuse without trying."""
    channel = cluster.dial_etcd(node.etcd)
    try:
        Client(channel=channel).call("etcdserverpb.Cluster/MemberList", timeout=5)
        return channel
    except grpc.RpcError:
        channel.close()
        return None


if __name__ == "__main__":
    run_cases([discovery])
