#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that ask for more than their part of three coordinators: a flood of writes, watchers that never read, a storm
of renewals. Each is bounded and refused by name; memory stays within a bound; another client's calls all succeed
meanwhile."""
import collections
import threading

import stores
from stores import OK, PATIENT, RENEWED, RESYNC, SNAPSHOT, Client, Cluster, check, grpc, new_id, run_cases

CODE = grpc.StatusCode
CLUSTER = Cluster(3, PATIENT)
MEMORY_MAX = 1 << 30  # of a replica: what may be under way, what is kept for peers, sanitizers


def resident(node):
    with open(f"/proc/{node.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


class Neighbour:
    """A client of a few calls, one after the other, none of which may fail while others flood."""

    def __init__(self, what):
        self.what, self.client, self.count, self.wrong = what, Client(CLUSTER.leader()), 0, None
        self.over, self.memory = threading.Event(), 0
        self.client.node = stores.coordinators.Coordinator(CLUSTER, self.client.node.number)  # a connection of its own
        self.node = CLUSTER.nodes[self.client.node.number]
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def ask(self, name, **fields):
        """A write without a majority within the server's time limit is repeated as the same request."""
        request = self.client.request()
        while True:
            try:
                return self.client.ask(name, request=request, timeout=stores.PATIENCE, **fields)
            except grpc.RpcError as error:
                if error.code() != CODE.UNKNOWN:
                    raise

    def turn(self):
        lease = new_id()
        name = b"neighbour/%d" % self.count
        made = self.ask("Create", key=name, value=b"v")
        check(made.code == OK, f"create: {made}")
        check(self.client.get(name).entry.revision == made.revision, "what was written is read")
        got = self.ask("Acquire", group=b"neighbour/slots", slot_count=1, prefer_slot=-1, owner="n", ttl_ms=60000,
                       lease_id=lease)
        check(got.code == OK, f"acquire: {got}")
        check(self.client.renew(lease)[0].code == OK, "renew")
        check(self.ask("Release", lease_id=lease).code == OK, "release")
        check(self.ask("Delete", key=name, expected=made.revision).code == OK, "delete")
        self.count += 1
        self.memory = max([self.memory] + [resident(node) for node in CLUSTER.nodes])

    def run(self):
        try:
            while not self.over.is_set() or self.count == 0:
                self.turn()
        except Exception as error:  # pylint: disable=broad-except
            self.wrong = error

    def __exit__(self, kind, error, trace):
        self.over.set()
        self.thread.join(stores.PATIENCE)
        self.client.node.hang_up()
        if error:
            return
        print(f"# {self.what}: the neighbour made {self.count} rounds, at most {self.memory >> 20} MiB resident",
              flush=True)
        check(self.wrong is None, f"{self.what} disturbed its neighbour: {self.wrong}")
        check(self.memory < MEMORY_MAX, f"{self.what} took {self.memory >> 20} MiB")


def stub(name, channel, many=False):
    method = stores.METHODS[stores.STORE + name]
    kind = stores.message(method.input_type)
    make = channel.unary_stream if many else channel.unary_unary
    return kind, make("/" + stores.STORE + name, kind.SerializeToString, stores.message(method.output_type).FromString)


def dial(node):
    return grpc.insecure_channel(node.grpc, options=[("grpc.use_local_subchannel_pool", 1)])


def ended(calls):
    """How many ended with what."""
    found = collections.Counter()
    for call in calls:
        error = call.exception(timeout=stores.PATIENCE)
        found[(error.code(), error.details()) if error else (CODE.OK, "")] += 1
    return found


def flood(size, count, what):
    node = CLUSTER.leader()
    channels = [dial(node) for _ in range(4)]
    with Neighbour(what):
        calls = []
        for channel in channels:
            kind, ask = stub("Put", channel)
            calls += [ask.future(kind(key=b"flood/%d" % (n % 8), value=b"v" * size), timeout=stores.PATIENCE)
                      for n in range(count)]
        found = ended(calls)
    for channel in channels:
        channel.close()
    print(f"# {what}: {dict(found)}", flush=True)
    check(found[CODE.OK, ""] > 0, "some of it is served")
    for (code, text) in found:
        check(code == CODE.OK or (code == CODE.RESOURCE_EXHAUSTED and "try again" in text), f"{code}: {text}")
    return found


def writes_that_are_large():
    """Many bytes at once: each is served, or refused by name as too much under way, and may be tried again."""
    found = flood(256 << 10, 30, "a flood of large writes")
    check(sum(found.values()) == 120, f"each is answered: {found}")


def writes_that_are_many():
    """More calls at once than a connection carries: all are served in their turn."""
    found = flood(100, 1200, "a flood of small writes")
    check(found[CODE.OK, ""] == 4800, f"{found}")


def watchers_that_never_read():
    """Events that wait for a watcher that does not read are bounded in bytes; when it reads it gets RESYNC."""
    c = Client(CLUSTER.leader())
    channels = [dial(c.node) for _ in range(3)]
    calls = []
    for channel in channels:
        kind, ask = stub("Watch", channel, many=True)
        calls += [ask(kind(scope=b"slow/", raw=True), timeout=stores.PATIENCE) for _ in range(4)]
    for call in calls:
        check(next(call).kind == SNAPSHOT, "it began")
    with Neighbour("watchers that never read"):
        for n in range(120):  # twice the 64 MiB that wait for a watcher: the client and the kernel hold some, too
            check(c.ask("Put", key=b"slow/%d" % (n % 4), value=b"%02d" % (n % 100) * (500 << 10)).code == OK, "put")
    for call in calls[::4]:
        received = 0
        for one in call:
            received += sum(len(event.entry.value) for event in one.events)
            if one.kind == RESYNC:
                break
        check(received < 60 << 20, f"{received} bytes were in buffers")
        for one in call:
            if one.kind == SNAPSHOT and not one.more:
                break
    for call in calls:
        call.cancel()
    for channel in channels:
        channel.close()


def renewals_in_a_storm():
    """Many calls that each renew as much as one call may, again and again: few entries, and each is answered."""
    c, ids = Client(CLUSTER.leader()), [new_id() for _ in range(64)]
    for n, lease in enumerate(ids):
        check(c.lease(b"storm/%d" % n, lease_id=lease, ttl_ms=60000).code == OK, "made")
    channels = [dial(c.node) for _ in range(4)]
    with Neighbour("a storm of renewals"):
        calls = []
        for channel in channels:
            kind, ask = stub("Renew", channel)
            calls += [ask.future(kind(lease_ids=ids * 16), timeout=stores.PATIENCE) for _ in range(50)]
        found = ended(calls)
        check(found[CODE.OK, ""] > 0, f"{found}")
        for (code, text) in found:
            check(code == CODE.OK or (code == CODE.RESOURCE_EXHAUSTED and "try again" in text), f"{code}: {text}")
        for call in calls:
            if not call.exception():
                check([(one.code, one.reason) for one in call.result().renewals] == [(OK, RENEWED)] * 1024, "each of them")
    print(f"# a storm of renewals: {dict(found)}", flush=True)
    for channel in channels:
        channel.close()
    check(all(one.code == OK for one in c.renew(*ids)), "all live on")


CASES = [writes_that_are_large, writes_that_are_many, watchers_that_never_read, renewals_in_a_storm]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases(CASES)
