#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leases while leaders are killed and stopped: none ends before its TTL after the sending of the last renewal that was
answered, and each ends when the store's own clock says so. Observers and holders are different clients.

This machine's clock shows ends that are too early: a key that is absent in an answer was gone when the answer came. The
replicated clock, which needs a leader to advance, shows ends that are too late."""
import os
import random
import sys
import threading
import time

import stores
import nemesis
from stores import Cluster, Watch, check, new_id, run_cases
from test_faults import Follower, Line

HOLDERS, LIVES = 6, 12 if stores.coordinators.LONG else 1
TTL_MS = (800, 1500, 2500)
KINDS = ("kill", "pause")
GROUP = b"lease/group"


class Judge:
    """The answers of holders, and the observations of others."""

    def __init__(self):
        self.lock, self.until, self.due, self.ended, self.wrong = threading.Lock(), {}, {}, {}, []

    def renewed(self, name, sent, ttl_ms, clock_ms):
        """A renewal was answered: the lease lives until `sent` + TTL here, and is over when the store's clock reaches `clock_ms` + TTL."""
        with self.lock:
            self.until[name] = max(self.until.get(name, 0), sent + ttl_ms / 1000)
            self.due[name] = None if clock_ms is None else clock_ms + ttl_ms

    def absent(self, name, seen, how):
        with self.lock:
            self.ended.setdefault(name, how)
            if seen < self.until.get(name, 0):
                self.wrong.append(f"{name} ended {self.until[name] - seen:.3f} s early, by {how}")

    def present(self, name, clock_ms, how):
        """The store's clock had come to `clock_ms` before it was looked at."""
        with self.lock:
            due = self.due.get(name)
            if due is not None and clock_ms > due:
                self.wrong.append(f"{name} is there {clock_ms - due} ms after its end, by {how}")


class Patient(Follower):
    def ask(self, name, timeout=2, **fields):
        return super().ask(name, timeout=timeout, **fields)

    def clock(self):
        """The clock of the store, as of everything that was answered: after a round to a majority, of the same replica."""
        while True:
            self.get(b"lease/none")
            status = self.ask("Status")
            if status.is_leader:
                return status.clock_ms


class Holder(threading.Thread):
    """Takes a claim, renews it for a while, and is silent then: one life after the other, until it went wrong in every
    way meanwhile."""

    def __init__(self, cluster, number, judge, trouble):
        super().__init__(daemon=True)
        self.client, self.number, self.judge, self.trouble = Patient(cluster), number, judge, trouble
        self.random, self.lives = random.Random(number), 0

    def run(self):
        while self.lives < LIVES or (self.trouble.struck < len(KINDS) and not self.judge.wrong):
            self.live(f"h{self.number}-{self.lives}", TTL_MS[(self.number + self.lives) % len(TTL_MS)], new_id())
            self.lives += 1

    def live(self, name, ttl_ms, lease):
        sent = time.monotonic()
        if self.number == 0:
            got = self.client.acquire(GROUP, name, slots=LIVES + 1, ttl_ms=ttl_ms, lease_id=lease)
        else:
            got = self.client.lease(b"lease/" + name.encode(), owner=name, ttl_ms=ttl_ms, lease_id=lease)
        check(got.code == stores.OK, f"{got}")
        self.judge.renewed(name, sent, ttl_ms, None)
        for _ in range(self.random.randrange(2, 9)):
            time.sleep(ttl_ms / 4000)  # cadence of a keeper; nothing is concluded from it
            sent = time.monotonic()
            if self.client.renew(lease)[0].code != stores.OK:
                self.judge.absent(name, time.monotonic(), "a renewal that was refused")
                break
            self.judge.renewed(name, sent, ttl_ms, None)
        clock_ms = self.client.clock()
        self.judge.renewed(name, 0, ttl_ms, clock_ms)  # the last one was before this
        while name not in self.judge.ended and not self.judge.wrong:
            time.sleep(0.02)


class Observer(threading.Thread):
    """Looks at every claim that was ever answered, by Get and by Holders."""

    def __init__(self, cluster, judge):
        super().__init__(daemon=True)
        self.client, self.judge, self.over = Patient(cluster), judge, threading.Event()

    def run(self):
        while not self.over.wait(0.02):
            clock_ms, names = self.client.ask("Status").clock_ms, [n for n in self.judge.until if n not in self.judge.ended]
            owners = {holder.owner for holder in self.client.ask("Holders", group=GROUP).holders}
            for name in names:
                how = "Holders" if name.startswith("h0-") else "Get"
                there = name in owners if how == "Holders" else self.client.get(b"lease/" + name.encode()).found
                if there:
                    self.judge.present(name, clock_ms, how)
                else:
                    self.judge.absent(name, time.monotonic(), how)


class Reader(threading.Thread):
    """Watches them all, and goes on elsewhere from where it was."""

    def __init__(self, cluster, judge):
        super().__init__(daemon=True)
        self.line, self.judge, self.next, self.received = Line(cluster, 0), judge, 2, 0

    def run(self):
        while True:
            watch = Watch(self.line, scope=b"muster/lease/h", raw=True, start_revision=self.next)
            while (one := watch.next()) is not None and not isinstance(one, Exception):
                for event in one.events if one.kind == stores.CHANGES else ():
                    if event.type != stores.PUT:
                        self.received += 1
                        self.judge.absent(event.entry.key.decode().rsplit("/", 1)[1], time.monotonic(), "a watch")
                self.next = max(self.next, one.revision + 1)
            self.line.move()


def leases():
    """No lease ends early over killed and stopped leaders, and each ends in its time."""
    with Cluster(3) as cluster:
        cluster.start()
        cluster.formed()
        judge = Judge()
        observer, reader = Observer(cluster, judge), Reader(cluster, judge)
        trouble = nemesis.Nemesis(cluster, KINDS, os.environ.get("MUSTER_TEST_SEED", "1"), 0.8, 2)
        holders = [Holder(cluster, number, judge, trouble) for number in range(HOLDERS)]

        def lived():
            for thread in [observer, reader, *holders]:
                thread.start()
            for thread in holders:
                thread.join(stores.PATIENCE * LIVES)
            observer.over.set()
            observer.join(stores.PATIENCE)
            return [thread.number for thread in holders if thread.is_alive()]
        left = trouble.beside(lived)
        check(not judge.wrong, "; ".join(judge.wrong[:3]))
        lives = [holder.lives for holder in holders]
        check(not left and len(judge.ended) == sum(lives), f"some never ended: {left} {lives} {judge.ended}")
        check(trouble.struck >= len(KINDS), f"only {trouble.struck} faults")
        stores.wait_for("the watch got each", lambda: reader.received >= sum(lives[1:]))
        print(f"# {trouble.struck} faults, {len(judge.ended)} ends", flush=True)


if __name__ == "__main__":
    sys.exit(run_cases([leases]))
