#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Crowds against three coordinators: waiters of one group, leases that end together, keys snapshotted while they are
written. `make test` runs a small size; `--long` the one that issue 8 names, and there the longest turn of each loop is
compared with 10 ms of its thread's CPU. Figures are printed either way.

A starved machine may have an election at any moment, so the small size allows elections: a client without an answer
repeats its request."""
import os
import queue
import re
import subprocess
import threading
import time

import stores
from stores import ACQUIRED, EXPIRED_EVENT, OK, PATIENT, PUT, Cluster, check, new_id, run_cases, wait_for
from test_faults import Follower, Gatherer

LONG = stores.coordinators.LONG
WAITERS, LEASES, KEYS = (10000, 100000, 1000000) if LONG else (300, 2000, 2000)
LOAD = os.path.join(os.path.dirname(stores.coordinators.MUSTER), "../../bench/muster-load")
TURN_MS = 10
MINUTES = 600


def say(text):
    print("# " + text, flush=True)


def number(node, name):
    """A metric of it, by its name and labels."""
    found = re.search("^" + re.escape(name) + r" (\S+)$", node.page("/metrics")[1], re.M)
    return float(found.group(1)) if found else 0.0


class Turns:
    """The slow turns of each loop from now on, by the CPU of its thread. A page shows the last 64: look often."""

    def __init__(self, cluster):
        self.cluster, self.seen, self.old = cluster, {}, set()
        self.look()
        self.old = set(self.seen)

    def look(self):
        for node in self.cluster.nodes:
            for when, cpu in re.findall(r"^(\S+Z) +[0-9.]+ +([0-9.]+) ", node.page("/debug/loop")[1], re.M):
                self.seen[node.name, when] = float(cpu)

    def say(self, what, judge=False):
        time.sleep(1.5 if judge else 0)  # it is shown once a second
        self.look()
        found = {node.name: max([0.0] + [cpu for key, cpu in self.seen.items()
                                         if key[0] == node.name and key not in self.old])
                 for node in self.cluster.nodes}
        say(f"{what}: longest turn of a loop, ms of CPU (0: none over 1): " +
            ", ".join(f"{name} {cpu:.2f}" for name, cpu in found.items()))
        check(not judge or max(found.values()) <= TURN_MS, f"{what}: a turn of over {TURN_MS} ms: {found}")


def cluster_of(*options):
    cluster = Cluster(3, options).start()
    cluster.formed()
    return cluster


def client(cluster):
    """Calls the present leader, and after an election the replica that answers."""
    return Follower(cluster, cluster.leader().number)


def node_of(c):
    return c.node.cluster.nodes[c.node.place]


def status(c):
    return c.ask("Status")


def count(c):
    """The count of the keys, and the revision, by a majority."""
    got = c.ask("Range", key=b"k/", range_end=b"k0", count_only=True)
    return got.count, got.revision


def term(cluster):
    return max(number(node, "muster_log_term") for node in cluster.nodes)


class Crowd:
    """Concurrent calls on some connections to the leader. A call without an answer is repeated at the next replica, as the
    same request: these tests do not judge changes of the leader."""

    def __init__(self, cluster, name, channels=16):
        method = stores.METHODS[stores.STORE + name]
        self.kind, self.answers, self.failed = stores.message(method.input_type), queue.Queue(), queue.Queue()
        answer, leader = stores.message(method.output_type), cluster.leader()
        self.channels = [stores.grpc.insecure_channel(node.grpc, options=[("grpc.use_local_subchannel_pool", 1)])
                         for node in [leader] * channels + cluster.others(leader)]
        self.stubs = [channel.unary_unary("/" + stores.STORE + name, self.kind.SerializeToString, answer.FromString)
                      for channel in self.channels]
        self.first, self.next, self.again = channels, 0, 0
        threading.Thread(target=self.repeat, daemon=True).start()

    def ask(self, n, fields, stub=None):
        future = self.stubs[n % self.first if stub is None else stub].future(self.kind(**fields), timeout=MINUTES)
        future.add_done_callback(lambda future: self.ended(n, fields, future))

    def ended(self, n, fields, future):
        if future.exception() is None:
            self.answers.put((n, future.result()))
        else:
            self.failed.put((n, fields))

    def repeat(self):
        while (one := self.failed.get()) is not None:
            if self.failed.empty():
                time.sleep(0.02)  # cadence: until there is another leader all are refused at once
            self.again, self.next = self.again + 1, (self.next + 1) % (1 + len(self.stubs) - self.first)
            self.ask(*one, self.first - 1 + self.next)

    def close(self):
        self.failed.put(None)
        for channel in self.channels:
            channel.close()


def all_of(cluster, name, count, fields, most=2000):
    """Makes `count` calls with fields(n), at most `most` at a time; all must succeed."""
    crowd = Crowd(cluster, name)
    for n in range(count + most):
        if n >= most:
            got = crowd.answers.get(timeout=stores.PATIENCE)[1]
            check(got.code == OK, f"{got}")
        if n < count:
            crowd.ask(n, fields(n))
    crowd.close()


def load(path, request, vary, until):
    """The load generator over one request with ### in it, until a question is answered."""
    name = os.path.join(CLUSTERS[-1].dir, "request")
    with open(name, "wb") as file:
        file.write(request.SerializeToString())
    process = subprocess.Popen([LOAD, "--connections", "8", "--streams", "256", "--seconds", "3600", "--warmup", "0",
                                "--request-file", name, "--vary", str(vary), "--path", "/" + stores.STORE + path,
                                "--allow-errors", "--target", until.node.grpc],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(f"{vary} of {path}", until, patience=MINUTES)
        check(process.poll() is None, f"the load generator ended with {process.poll()}")
    finally:
        process.terminate()
        process.wait()


CLUSTERS = []


def each_release_wakes_one():
    """Thousands wait for one slot: each release wakes one, in the order of arrival."""
    with cluster_of(*PATIENT) as cluster:
        c, first, turns = client(cluster), new_id(), Turns(cluster)
        c.acquire(b"crowd", "first", lease_id=first, ttl_ms=600000)
        ids = [new_id() for _ in range(WAITERS)]
        crowd = Crowd(cluster, "Acquire")
        for n in range(WAITERS):
            crowd.ask(n, {"group": b"crowd", "slot_count": 1, "prefer_slot": -1, "owner": f"w{n}", "ttl_ms": 600000,
                          "wait_ms": 600000, "lease_id": ids[n], "request": {"client_id": ids[n], "sequence": 1}})
        wait_for("all wait", lambda: c.ask("Holders", group=b"crowd").waiters == WAITERS, patience=MINUTES)
        if LONG:
            check(c.acquire(b"crowd", "late", wait_ms=1000).code == stores.UNAVAILABLE, "no more than ten thousand")
        turns.say(f"{WAITERS} came")
        turns = Turns(cluster)
        held, token = first, 0
        for n in range(WAITERS):
            c.release(held)
            one, got = crowd.answers.get(timeout=stores.PATIENCE)
            check((got.code, got.reason, got.slot) == (OK, ACQUIRED, 0) and got.token > token, f"{n}: {got}")
            check(crowd.answers.empty(), f"release {n} woke more than one")
            held, token = ids[one], got.token
            if n % (WAITERS // 10) == 0:
                now = c.ask("Holders", group=b"crowd")
                check((now.waiters, len(now.holders)) == (WAITERS - n - 1, 1), f"after {n + 1} releases: {now}")
        check(c.ask("Holders", group=b"crowd").waiters == 0, "nobody waits any more")
        turns.say(f"{WAITERS} were served")
        crowd.close()
        cluster.agree()


def create(n, end=None):
    """A lease that ends at a moment, or after a minute."""
    ttl_ms = 60000 if end is None else max(500, int(1000 * (end - time.monotonic())))
    return {"key": b"l/%07d" % n, "lease_id": b"%08d-crowded" % n, "owner": "crowd", "ttl_ms": ttl_ms}


def made_by_load(c):
    request = stores.message(stores.METHODS[stores.STORE + "Create"].input_type)(
        **{**create(0), "key": b"l/#######", "lease_id": b"########-crowded"})

    def there():
        return status(c).leases >= LEASES
    there.node = node_of(c)
    load("Create", request, LEASES, there)
    for at in range(0, LEASES, 1024):  # their deadlines are now within a moment
        got = c.renew(*(create(n)["lease_id"] for n in range(at, min(at + 1024, LEASES))))
        check(all(one.code == OK for one in got), f"{got}")
    check(status(c).leases == LEASES, f"all there: {status(c)}")


def made_by_calls(c):
    end = time.monotonic() + 4
    all_of(c.node.cluster, "Create", LEASES,
           lambda n: {**create(n, end), "request": {"client_id": b"%08d-creates" % n, "sequence": 1}})


def leases_end_together():
    """Leases that end in one second are ended in portions: each once, sent once, and others are served meanwhile."""
    with cluster_of(*PATIENT) as cluster:
        CLUSTERS.append(cluster)
        c, turns = client(cluster), Turns(cluster)
        gatherer = Gatherer(cluster, cluster.others(node_of(c))[0].number, scope=b"l", bucket=True, serializable=True)
        gatherer.start()
        (made_by_load if LONG else made_by_calls)(c)
        turns.say(f"{LEASES} leases made")
        turns = Turns(cluster)
        worst, asked, began = 0.0, 0, None
        while (left := status(c).leases) > 0:
            if left < LEASES and began is None:
                began = time.monotonic()
            at = time.monotonic()
            check(c.ask("Put", key=b"other", value=b"v").code == OK, "others are served")
            worst, asked = max(worst, time.monotonic() - at), asked + 1
            if asked % 100 == 0:
                turns.look()
        say(f"{LEASES} leases ended within {time.monotonic() - (began or at):.2f} s of the first; "
            f"{asked} others were served, the slowest in {1000 * worst:.0f} ms")
        wait_for("all ends are sent", lambda: sum(kind != PUT for _, kind, _ in gatherer.seen) >= LEASES)
        gatherer.done = True
        ended = [(kind, key) for _, kind, key in gatherer.seen if kind != PUT]
        check(sorted(ended) == [(EXPIRED_EVENT, create(n)["key"]) for n in range(LEASES)], "each was sent once")
        turns.say(f"{LEASES} leases ended", judge=LONG)
        cluster.agree()


def put_all(cluster, sequence):
    """A repeat that comes late does nothing: it is known by its request."""
    all_of(cluster, "Put", KEYS, lambda n: {"key": b"k/%d" % n, "value": b"v" * 100, "request": {
        "client_id": b"%08d-writes-" % n, "sequence": sequence, "acked": sequence}})


def written_by_load(c, taken, terms):
    """Two snapshots of each replica, all keys there, under as many writes as it takes."""
    request = stores.message(stores.METHODS[stores.STORE + "Put"].input_type)(key=b"k/########", value=b"v" * 100)
    turns, leader = Turns(c.node.cluster), node_of(c)

    def led():
        got = status(c)
        check(got.is_leader and node_of(c) is leader, f"an election: {received(c.node.cluster, terms)}")
        return got

    def there():
        return led().keys >= KEYS

    def more():
        turns.look()
        return led() and taken() >= before + 2
    there.node = more.node = leader
    load("Put", request, KEYS, there)
    before = taken()
    turns.say(f"{KEYS} keys written")
    turns = Turns(c.node.cluster)
    load("Put", request, KEYS, more)
    return turns


def written_by_calls(c, taken, _):
    turns, sequence, before = Turns(c.node.cluster), 1, None
    while before is None or taken() <= before:
        put_all(c.node.cluster, sequence)
        before, sequence = taken() if before is None else before, sequence + 1
    return turns


def received(cluster, before):
    """Prints the number of elections, and the load of the machine."""
    return f"term {before:.0f}, then {term(cluster):.0f}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def snapshots_while_writing():
    """Many keys are snapshotted while they are written, then deleted in one step, and all replicas hold the same."""
    every = ("--snapshot-every", "5s") if LONG else (*PATIENT, "--snapshot-every", "100ms", "--snapshot-entries", "100")
    with cluster_of(*every) as cluster:
        CLUSTERS.append(cluster)
        c, terms = client(cluster), term(cluster)

        def taken():
            return min(number(node, "muster_log_snapshots_taken_total") for node in cluster.nodes)
        turns = (written_by_load if LONG else written_by_calls)(c, taken, terms)
        got = status(c)
        say(f"{got.keys} keys, {got.bytes} bytes by the store's own count, resident "
            f"{[int(number(node, 'process_resident_memory_bytes')) >> 20 for node in cluster.nodes]} MiB, "
            f"{int(taken())} snapshots of each")
        found, before = count(c)
        check(found == KEYS, f"{found} keys of {KEYS}")
        turns.say(f"{KEYS} keys snapshotted while written")
        turns, began = Turns(cluster), time.monotonic()
        got = c.ask("DeleteRange", key=b"k/", range_end=b"k0", timeout=stores.PATIENCE)
        check((got.code, got.live) == (OK, KEYS), f"{got}")
        check(got.revision == before + 1 or (LONG and got.revision > before), f"one revision after {before}: {got}")
        turns.look()
        say(f"{KEYS} keys deleted in one step in {time.monotonic() - began:.2f} s")
        check(count(c) == (0, got.revision), f"all of them, and nothing after it: {count(c)}")
        turns.say(f"{KEYS} keys deleted in one step")
        cluster.agree()
        say(f"elections: {received(cluster, terms)}")
        check(not LONG or term(cluster) == terms, f"an election: {received(cluster, terms)}")


CASES = [each_release_wakes_one, leases_end_together, snapshots_while_writing]

if __name__ == "__main__":
    run_cases(CASES)
