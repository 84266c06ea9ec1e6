#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The etcd store while members die, stop and are cut off: never two holders, losses reported in time, no tight loop.

usage: test_etcd_faults.py ACTOR PROTOC PROTO_ROOT DRIFTING [--long] [NAME]    (prints TAP)

Every verdict compares times of one clock (CLOCK_BOOTTIME of this host), reported by the processes themselves.
"""
import os
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../lib")]
ACTOR = os.path.abspath(sys.argv[1])
DRIFTING = os.path.abspath(sys.argv[4])
ONLY = next((word for word in sys.argv[5:] if not word.startswith("--")), "")
LONG = "--long" in sys.argv
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
from actors import PATIENCE, Actor, Failed, check, run, same  # noqa: E402
from etcd_cluster import Cluster  # noqa: E402

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def long_test(function):
    return test(function) if LONG else function


def acquire_when_free(actor, handle, group, owner, ttl, patience=PATIENCE):
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        said = actor("acquire", handle, group, 1, owner, ttl, 0)
        if said["code"] == "OK":
            return said
        check(said["code"] in ("EXISTS", "UNAVAILABLE"), said)
        time.sleep(0.02)
    raise Failed("nobody can acquire")


def direct(cluster, tail):
    return "etcd://" + ",".join(f"127.0.0.1:{port}" for port in cluster.ports) + tail


def cut_off(**way):
    ttl = 2000
    with Cluster(1) as cluster:
        link, = cluster.link()
        with Actor(ACTOR, cluster.url("/cut")) as holder, Actor(ACTOR, direct(cluster, "/cut")) as other:
            got = holder.says("OK/acquired", "acquire", 1, "g", 1, "holder", ttl, 0)
            holder.says("OK", "keep", 1)
            link.cut(**way)
            taken = acquire_when_free(other, 1, "g", "other", ttl)
            lost = holder.wait_lost(1)
            same("why", lost["reason"], "local")
            check(lost["at"] < taken["at"], f"lost at {lost['at']}, taken at {taken['at']}")
            check(taken["token"] > got["token"], "a larger token")
            same("and stays so", holder("check", 1)["done"], 4)
            link.heal()
            same("exactly once", len(holder.lost[1]), 1)
            holder.says("EXPIRED", "renew", 1)
            other.says("OK/renewed", "renew", 1)


class Churn:
    """Holders that acquire and release one group's slots as fast as they can; their spans, by their own clocks."""

    def __init__(self, urls, group, slots, ttl=3000, timeout_ms=4000):
        self.group, self.slots, self.ttl, self.over, self.held, self.acquired = group, slots, ttl, False, [], 0
        self.actors = [Actor(ACTOR, url, timeout_ms=timeout_ms) for url in urls]
        self.threads = [threading.Thread(target=self._run, args=(i, actor)) for i, actor in enumerate(self.actors)]
        self.failure = None
        for thread in self.threads:
            thread.start()

    def _run(self, number, actor):
        handle = 0
        try:
            while not self.over:
                handle = (handle + 1) % 1000
                got = actor("acquire", handle, self.group, self.slots, f"o{number}", self.ttl, 1)
                if got["code"] != "OK":
                    check(got["code"] in ("EXISTS", "UNAVAILABLE"), got)
                    time.sleep(0.01)
                    continue
                kept = actor("keep", handle)
                began, lost = kept["at"], None
                time.sleep(0.02)
                end = actor("check", handle)
                gone = actor("release", handle)
                if handle in actor.lost:
                    lost = actor.lost.pop(handle)[0]["at"]
                # It may have acted until the end that it knew, never later than the check that reported the loss.
                until = lost if lost else end["at"] if end["done"] == 0 else None
                check(until is not None or gone["code"] != "OK", "a lease that is over was released as if it were not")
                self.held.append((got["slot"], got["token"], began, until or began))
                self.acquired += 1
        except Exception as failure:
            self.failure = failure

    def judge(self):
        self.over = True
        for thread in self.threads:
            thread.join()
        for actor in self.actors:
            actor.end()
        if self.failure:
            raise self.failure
        by_slot = {}
        for slot, token, began, end in sorted(self.held, key=lambda row: row[1]):
            before = by_slot.get(slot)
            if before and began < before[1]:
                raise Failed(f"slot {slot}: token {token} from {began}, token {before[0]} until {before[1]}")
            by_slot[slot] = (token, end)
        tokens = [row[1] for row in self.held]
        same("tokens are never given twice", len(set(tokens)), len(tokens))
        check(all(row[0] < self.slots for row in self.held), "slots")


@test
def a_leader_killed_again_and_again_costs_no_lease_that_is_renewed():
    with Cluster(3) as cluster:
        with Actor(ACTOR, cluster.url("/l10")) as a:
            for i in range(20):
                a.says("OK/created", "create", i, f"k{i}", "v", 8000, "me")
                a.says("OK", "keep", i)
            for _ in range(12 if LONG else 2):
                leader = cluster.leader()
                cluster.kill(leader)
                time.sleep(3)
                cluster.start(leader)
                time.sleep(1)
            for i in range(20):
                a.says("OK/renewed", "renew", i)
            same("lost", a.lost, {})


@test
def a_member_that_stops_costs_a_slice_and_not_the_lease():
    with Cluster(3) as cluster, Actor(ACTOR, cluster.url("/stop", members=[0, 1, 2])) as a:
        a.says("OK/created", "create", 1, "k", "v", 10000, "me")
        a.says("OK", "keep", 1)
        a.says("OK", "watch", 1, "b", 1)
        for victim in (0, 1):   # the one we are connected to, then the next
            cluster.pause(victim)
            a.says("OK", "create", 5, f"b/{victim}", "v", 0, "-")   # created, or found created
            time.sleep(2.5)
            cluster.resume(victim)
        a.says("OK/renewed", "renew", 1)
        a.events(1, lambda seen: {"b/0", "b/1"} <= {e[1] for e in seen})
        same("lost", a.lost, {})


@test
def l06_cut_off_from_the_server_the_holder_stops_before_another_is_let_in():
    cut_off()


@test
def l07_with_replies_lost_the_holder_stops_before_another_is_let_in():
    cut_off(requests=True)


def overtake_a_slow_clock(percent):
    """Another client takes the slot of a holder with a slow clock and no server. Returns the old holder's own view, and the tokens."""
    ttl = 10000 if LONG else 5000
    with Cluster(1) as cluster:
        link, = cluster.link()
        with Actor(DRIFTING, cluster.url("/l01"), env={"DRIFT_PERCENT": str(percent)}) as holder, \
                Actor(ACTOR, direct(cluster, "/l01")) as other:
            got = holder.says("OK/acquired", "acquire", 1, "g", 1, "holder", ttl, 0)
            link.cut()
            taken = acquire_when_free(other, 1, "g", "other", 60000)
            thinks = holder("check", 1)["done"]
            link.heal()
            return thinks, got["token"], taken["token"]


@test
def l01_a_clock_eight_per_cent_slow_lets_no_two_hold():
    same("it knows when another is let in", overtake_a_slow_clock(8)[0], 4)


@test
def l01_a_clock_fifteen_per_cent_slow_is_refused_by_the_fence():
    thinks, old, new = overtake_a_slow_clock(15)
    print(f"# 15 % slow, and overtaken: check said {thinks}")    # either: outside what is promised
    with Actor(ACTOR) as resource:
        same("the new one", resource("fence", new)["done"], 1)
        same("the old one", resource("fence", old)["done"], 0)
        same("the new one again", resource("fence", new)["done"], 1)


@test
def l11_leaders_killed_every_five_seconds_end_no_dead_holders_lease_early():
    ttl = 30000 if LONG else 8000
    with Cluster(3) as cluster:
        with Actor(ACTOR, cluster.url("/l11")) as holder:
            before = holder("time")["at"]
            got = holder.says("OK/acquired", "acquire", 1, "g", 1, "holder", ttl, 0)
            holder.kill()
        over = threading.Event()

        def kill_leaders():
            while not over.is_set():
                leader = cluster.leader()
                cluster.kill(leader)
                over.wait(2)
                cluster.start(leader)
                over.wait(3)
        killer = threading.Thread(target=kill_leaders)
        try:
            with Actor(ACTOR, cluster.url("/l11"), timeout_ms=2000) as other:
                killer.start()              # not before: an open may last as long as an election
                # Each election may prolong it, so they end: soon in `make test`, at last after a TTL and some more.
                threading.Timer(40 if LONG else 8, over.set).start()
                taken = acquire_when_free(other, 1, "g", "other", ttl, patience=3 * PATIENCE)
        finally:
            over.set()
            if killer.ident:
                killer.join()
        check(taken["at"] - before >= ttl, f"taken {taken['at'] - before} ms after the grant was asked for")
        check(taken["token"] > got["token"], "a larger token")


@test
def l12_without_a_majority_nobody_can_acquire():
    with Cluster(3) as cluster, Actor(ACTOR, cluster.url("/l12"), timeout_ms=1000) as a:
        a.says("OK/acquired", "acquire", 1, "g", 3, "first", 4000, 0)
        leader = cluster.leader()
        gone = [leader, (leader + 1) % 3]
        for index in gone:
            cluster.kill(index)
        until, answers = time.monotonic() + (60 if LONG else 6), set()
        while time.monotonic() < until:
            for group, slots in (("g", 3), ("new", 1)):
                answers.add(a("acquire", 2, group, slots, "second", 4000, 0)["code"])
        same("answers", answers, {"UNAVAILABLE"})
        for index in gone:
            cluster.start(index)
        acquire_when_free(a, 3, "other", "third", 4000)


@test
def l13_a_paused_leader_ends_no_lease():
    ttl = 10000
    with Cluster(3) as cluster, Actor(ACTOR, cluster.url("/l13")) as holder, \
            Actor(ACTOR, cluster.url("/l13"), timeout_ms=2000) as other:
        got = holder.says("OK/acquired", "acquire", 1, "g", 1, "holder", ttl, 0)
        holder.says("OK", "keep", 1)
        old = cluster.leader()
        cluster.pause(old)
        until = time.monotonic() + (30 if LONG else 8)
        answers = set()
        while time.monotonic() < until:
            answers.add(other("acquire", 1, "g", 1, "other", ttl, 0)["code"])
            time.sleep(0.05)
        cluster.resume(old)
        until = time.monotonic() + 8        # past what an election gave the lease
        while time.monotonic() < until:     # what the old leader had queued is void
            answers.add(other("acquire", 1, "g", 1, "other", ttl, 0)["code"])
            time.sleep(0.05)
        check(answers <= {"EXISTS", "UNAVAILABLE"}, answers)
        same("token", holder.says("OK/renewed", "renew", 1)["token"], got["token"])
        same("lost", holder.lost, {})


@long_test
def l17_over_slow_links_that_stall_no_slot_has_two_holders():
    with Cluster(3) as cluster:
        cluster.link()
        churn = Churn([cluster.url("/l17")] * 100, "g", 3, ttl=8000, timeout_ms=10000)
        for link in cluster.links:      # once all are in, one after the other
            link.delay, link.stall = 0.25, 1
        try:
            time.sleep(60)
        finally:
            churn.judge()
        check(churn.acquired >= 3, f"only {churn.acquired} grants")
        print(f"# slow links: {churn.acquired} grants")


@test
def l03_a_holder_that_was_stopped_knows_it_before_it_acts():
    ttl = 2000
    with Cluster(1) as cluster, Actor(ACTOR, cluster.url()) as holder, Actor(ACTOR, cluster.url()) as other:
        holder.says("OK/acquired", "acquire", 1, "g", 1, "holder", ttl, 0)
        holder.says("OK", "keep", 1)
        holder.stop()
        taken = acquire_when_free(other, 1, "g", "other", ttl)
        holder.go_on()
        same("the first check", holder("check", 1)["done"], 4)
        holder.wait_lost(1)
        other.says("OK/renewed", "renew", 1)
        same("untouched", other("get", "g/slot-0000")["token"], taken["token"])


@test
def l04_all_holders_stopped_each_slot_is_taken_once():
    ttl = 2000
    with Cluster(1) as cluster:
        stopped = [Actor(ACTOR, cluster.url()) for _ in range(3)]
        with Actor(ACTOR, cluster.url()) as a, Actor(ACTOR, cluster.url()) as b:
            for i, holder in enumerate(stopped):
                holder.says("OK/acquired", "acquire", 1, "g", 3, f"h{i}", ttl, 0)
                holder.says("OK", "keep", 1)
                holder.stop()
            taken, handle, deadline = {}, 0, time.monotonic() + PATIENCE
            while len(taken) < 3:
                for actor in (a, b):
                    handle += 1
                    said = actor("acquire", handle % 1000, "g", 3, f"c{handle}", 60000, 0)
                    if said["code"] == "OK":
                        check(said["slot"] not in taken, f"slot {said['slot']} twice")
                        taken[said["slot"]] = said["token"]
                check(time.monotonic() < deadline, "slots come free")
                time.sleep(0.02)
            for holder in stopped:
                holder.go_on()
                same("the first check", holder("check", 1)["done"], 4)
                holder.wait_lost(1)
            rows = {row["slot"]: row["token"] for row in a("holders", "g")["rows"]}
            same("untouched by those that woke up", rows, taken)
        for holder in stopped:
            holder.end()


@test
def l09_a_link_that_comes_and_goes_costs_nothing():
    with Cluster(1) as cluster:
        link, = cluster.link()
        with Actor(ACTOR, cluster.url()) as a:
            a.says("OK/created", "create", 1, "k", "v", 15000, "me")
            a.says("OK", "keep", 1)
            for _ in range(60 if LONG else 4):
                link.cut()
                time.sleep(1)
                link.heal()
                time.sleep(1)
            a.says("OK/renewed", "renew", 1)
            same("lost", a.lost, {})


@test
def l14_all_members_restarted_at_once_leases_and_revisions_go_on():
    with Cluster(3) as cluster, Actor(ACTOR, cluster.url()) as a:
        made = a.says("OK/created", "create", 1, "k", "v", 20000, "me")
        a.says("OK", "keep", 1)
        for index in range(3):
            cluster.kill(index)
        for index in range(3):
            cluster.start(index)
        cluster.wait_ready()
        same("token", a.says("OK/renewed", "renew", 1)["token"], made["token"])
        check(a.says("OK", "create", 2, "l", "v", 0, "-")["revision"] > made["revision"], "revisions go on")
        same("lost", a.lost, {})


@test
def l08_a_minority_gives_no_lease_and_lets_none_live_on():
    with Cluster(3) as cluster:
        cluster.leader()
        with Actor(ACTOR, cluster.url("/l08", members=[0]), timeout_ms=1500) as a:
            a.says("OK/created", "create", 1, "k", "v", 4000, "me")
            a.says("OK", "keep", 1)
            cluster.pause(1)
            cluster.pause(2)
            same("by its own clock", a.wait_lost(1)["reason"], "local")
            same("nothing is granted", a("create", 2, "l", "v", 4000, "me")["code"], "UNAVAILABLE")
            same("nothing is read", a("get", "k")["code"], "UNAVAILABLE")
            cluster.resume(1)
            cluster.resume(2)
            deadline = time.monotonic() + PATIENCE
            while a("create", 2, "l", "v", 4000, "me")["code"] != "OK":
                check(time.monotonic() < deadline, "all is well again when they are back")
                time.sleep(0.1)


@test
def under_killed_stopped_and_cut_members_no_slot_has_two_holders():
    with Cluster(3) as cluster:
        links = cluster.link()
        churn = Churn([cluster.url("/churn")] * 3 + [direct(cluster, "/churn")] * 3, "g", 2)
        try:
            for _ in range(6 if LONG else 1):
                time.sleep(1)
                leader = cluster.leader()
                cluster.kill(leader)
                time.sleep(2.5)
                cluster.start(leader)
                victim = cluster.leader()
                cluster.pause(victim)
                time.sleep(3)
                cluster.resume(victim)
                for link in links:
                    link.cut()
                time.sleep(3)
                for link in links:
                    link.heal()
                links[0].cut(requests=True)
                time.sleep(2)
                links[0].heal()
                time.sleep(1)
        finally:
            churn.judge()
        check(churn.acquired > 50, f"only {churn.acquired} grants")
        print(f"# {churn.acquired} grants")


@test
def a_server_that_never_answers_is_not_hammered():
    with Cluster(1) as cluster:
        cluster.link()
        never_answers(cluster)


def never_answers(cluster):
    links = cluster.links
    with Actor(ACTOR, cluster.url(), timeout_ms=3000) as a:
        for i in range(10):
            a.says("OK/created", "create", i, f"k{i}", "v", 2000, "me")
            a.says("OK", "keep", i)
        a.says("OK", "watch", 1, "b", 1)
        links[0].cut()
        before, began = links[0].accepted, time.monotonic()
        with open(f"/proc/{a.process.pid}/stat", encoding="utf-8") as file:
            used = sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13])
        same("not answered", a("create", 20, "new", "v", 0, "-")["code"], "UNAVAILABLE")
        time.sleep(3)
        with open(f"/proc/{a.process.pid}/stat", encoding="utf-8") as file:
            used = sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13]) - used
        seconds = time.monotonic() - began
        rate = (links[0].accepted - before) / seconds
        share = used / os.sysconf("SC_CLK_TCK") / seconds
        print(f"# silent server, 10 kept leases: {rate:.1f} connections a second, {100 * share:.1f} % of a core")
        check(rate < 5, "connections are bounded")
        check(share < 0.25, "it waits, it does not spin")
        same("all losses reported", len(a.lost), 10)
        links[0].heal()


if __name__ == "__main__":
    run(TESTS, ONLY, at_once=5)
