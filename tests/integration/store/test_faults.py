#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store while its leaders are killed: acknowledged writes stay, a renewed lease never ends, a waiter gets its slot,
and a resumed watch has no gap and no repeat."""
import threading

import stores
from stores import CHANGES, PUT, Client, Cluster, Watch, check, grpc, new_id, run_cases

ROUNDS, WRITES = 3, 40


class Line:
    """Channels of one thread's own: those of the nodes are closed when their processes end."""

    def __init__(self, cluster, place):
        self.cluster, self.place, self.channel = cluster, place, None

    def dialed(self):
        if self.channel is None:
            self.channel = self.cluster.dial(self.cluster.nodes[self.place].grpc)
        return self.channel

    def call(self, path, timeout, **fields):
        return stores.coordinators.call(self.dialed(), path, (), timeout, **fields)

    def move(self):
        self.channel.close()
        self.channel, self.place = None, (self.place + 1) % len(self.cluster.nodes)


class Follower(Client):
    """Asks one replica after the other, under one request id, until it is decided."""

    def __init__(self, cluster, place=0):
        super().__init__(Line(cluster, place))

    def ask(self, name, timeout=5, request=None, **fields):
        kind = stores.message(stores.METHODS[stores.STORE + name].input_type)
        if request is None and "request" in kind.DESCRIPTOR.fields_by_name:
            request = self.request()
        while True:
            try:
                return super().ask(name, timeout=timeout, request=request, **fields)
            except grpc.RpcError:
                self.node.move()


class Gatherer(threading.Thread):
    """Watches a prefix; when its stream ends it goes on elsewhere from the revision after the last it was sent."""

    def __init__(self, cluster, place=0, **fields):
        super().__init__(daemon=True)
        self.line, self.fields, self.seen, self.next, self.done = Line(cluster, place), fields, [], 2, False

    def run(self):
        while not self.done:
            watch = Watch(self.line, start_revision=self.next, **self.fields)
            while (one := watch.next()) is not None and not isinstance(one, Exception):
                if one.kind == CHANGES:
                    self.seen += [(event.entry.revision, event.type, event.entry.key) for event in one.events]
                self.next = max(self.next, one.revision + 1)
                if self.done:
                    return
            self.line.move()


def leaders_are_killed():
    """Three leaders killed under writes, renewals, a wait and a watch."""
    with Cluster(3) as cluster:
        cluster.start()
        cluster.formed()
        writer, holder, waiter = Follower(cluster), Follower(cluster), Follower(cluster)
        lease, mine = new_id(), new_id()
        made = holder.lease(b"held", ttl_ms=15000, lease_id=lease)
        slot = holder.acquire(b"group", "w0", ttl_ms=60000, lease_id=new_id())
        gatherer = Gatherer(cluster, scope=b"w/", raw=True)
        gatherer.start()
        got, lost, stop = [], [], threading.Event()

        def renew():
            while not stop.wait(0.5):  # cadence of a keeper; nothing is concluded from it
                if holder.renew(lease)[0].code != stores.OK:
                    lost.append(holder.sequence)

        def wait():
            fields = {"group": b"group", "slot_count": 1, "prefer_slot": -1, "owner": "w1", "ttl_ms": 20000,
                      "lease_id": mine, "wait_ms": 300000}
            got.append(waiter.ask("Acquire", timeout=stores.PATIENCE, **fields))
        threads = [threading.Thread(target=renew), threading.Thread(target=wait)]
        for thread in threads:
            thread.start()
        written = []
        for number in range(ROUNDS):
            for n in range(WRITES):
                key = b"w/%d-%d" % (number, n)
                outcome = writer.ask("Put", key=key, value=b"v")
                check(outcome.code == stores.OK, f"{outcome}")
                written.append((outcome.revision, PUT, key))
                if n == WRITES // 2:
                    victim = cluster.leader()
                    victim.process.kill()
                    victim.wait_end()
                    victim.start()
            check(writer.get(b"held").entry.token == made.token and not lost, f"the lease lives: {lost}")
        check(not got, f"nobody gave the slot away: {got}")
        check(writer.release(slot.lease_id).code == stores.OK, "released")
        threads[1].join(stores.PATIENCE)
        check(got and got[0].code == stores.OK and got[0].lease_id == mine and got[0].token > slot.token, f"{got}")
        stop.set()
        threads[0].join(stores.PATIENCE)
        stores.wait_for("all of it is sent", lambda: len(gatherer.seen) >= len(written))
        gatherer.done = True
        check(gatherer.seen == written, f"{[x for x in zip(gatherer.seen, written) if x[0] != x[1]][:3]}")
        check(sorted(set(written)) == written, "revisions grow, each once")
        for _, _, key in written:
            check(writer.ask("Range", key=key).count == 1, f"{key} is lost")
        cluster.agree()


CASES = [leaders_are_killed]

if __name__ == "__main__":
    run_cases(CASES)
