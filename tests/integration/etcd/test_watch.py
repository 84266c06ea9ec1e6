#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""D13 of spec/coordination.md, watches, by a stock client: on real etcd as far as it goes, and on the coordinators.

C10's incidents of watches are here by the cases that would have shown them: progress that overtakes events (U11), going
back in time (U14), events lost when a stream starves (U13), a deletion at the compacted revision (U03), a start to come
that hears of the past (U04).
"""
import os
import shutil
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from etcds import (ALL, Client, Etcds, NO_LEADER, PATIENCE, PATIENT, after, check, grpc, op_put,  # noqa: E402
                   patiently, run_cases, wait_for)
from streams import Watch, shown  # noqa: E402
import etcd_cluster  # noqa: E402

NEITHER = "etcdserver: mvcc: required revision has been compacted"
QUIET = ("--etcd-progress", "200ms")
LONG = "--long" in sys.argv     # the numbers of the specification
SETTLE = 0.3  # how long silence is listened to: only what should not come could come in it


class Target:
    """The server under test, of either kind."""

    def __init__(self, name, client, real=False):
        self.name, self.client, self.real = name, client, real


def u01_now(target):
    """U01: watch now, put: one PUT event, version 1"""
    kv = target.client()
    with Watch(kv) as watch:
        created = watch.create(b"u01")
        check(created.created and not created.canceled and created.watch_id == 0, created)
        check(created.header.revision == kv.revision(), "the revision of now")
        put = kv.put(b"u01", b"v").header.revision
        check(shown(watch.events(0, 1)) == [("PUT", b"u01", b"v", put, 1)], watch.responses)
        check(watch.received(0)[0].header.revision >= put, "the header is not behind")
        check(watch.create(b"u01").watch_id == 1, "ids count from 0")


def u02_past(target):
    """U02: from a past revision all events in order, then live; a transaction is one response (T23)"""
    kv = target.client()
    first = kv.put(b"u02/a", b"1").header.revision
    kv.txn(success=[{"request_put": {"key": b"u02/b", "value": b"2"}}, {"request_put": {"key": b"u02/a", "value": b"3"}}])
    kv.put(b"u03", b"not this")
    kv.delete(b"u02/a")
    with Watch(kv) as watch:
        watch.create(b"u02/", after(b"u02/"), start_revision=first)
        last = kv.put(b"u02/c", b"4").header.revision
        check(shown(watch.events(0, 5)) ==
              [("PUT", b"u02/a", b"1", first, 1), ("PUT", b"u02/b", b"2", first + 1, 1),
               ("PUT", b"u02/a", b"3", first + 1, 2), ("DELETE", b"u02/a", b"", first + 3, 0),
               ("PUT", b"u02/c", b"4", last, 1)], watch.responses)
        for received in watch.received(0):
            check({e.kv.mod_revision for e in received.events} != {first + 1} or len(received.events) == 2, "one response")


def u03_compacted(target):
    """U03: from below the compaction canceled with its revision; from it, all that is there, a deletion at it too"""
    kv = target.client()
    kv.put(b"u03/a", b"1")
    gone = kv.delete(b"u03/a").header.revision
    kv.put(b"u03/b", b"2")
    kv.compact(gone)
    with Watch(kv) as watch:
        created = watch.create(b"u03/", after(b"u03/"), start_revision=gone - 1)
        check(created.created and not created.canceled, created)
        canceled = watch.canceled(created.watch_id)
        check(canceled.compact_revision == gone and not canceled.events, canceled)
        check(target.real or canceled.cancel_reason == "", canceled)
        there = watch.create(b"u03/", after(b"u03/"), start_revision=gone).watch_id
        put = ("PUT", b"u03/b", b"2", gone + 1, 1)
        if target.real:     # etcd 3.4 loses the deletion (C10)
            check(shown(watch.events(there, 1))[-1] == put, watch.responses)
        else:
            check(shown(watch.events(there, 2)) == [("DELETE", b"u03/a", b"", gone, 0), put], watch.responses)


def u04_future(target):
    """U04: from a revision to come nothing until it, and no progress below it"""
    kv = target.client()
    with Watch(kv) as watch:
        start = kv.revision() + 5
        watch.create(b"u04/", after(b"u04/"), start_revision=start, progress_notify=True)
        if not target.real:     # etcd 3.4 answers at once
            watch.progress()
        for i in range(4):
            kv.put(b"u04/%d" % i)
        time.sleep(SETTLE * 2)
        check([r for r in watch.responses if not r.created] == [], watch.responses)
        put = kv.put(b"u04/x").header.revision
        check(put == start and watch.events(0, 1)[0].kv.mod_revision == start, watch.responses)
        if not target.real:
            received = watch.until("progress", lambda all_: [r for r in all_ if r.watch_id == -1])[0]
            check(received.header.revision >= start, received)


def u05_prev(target):
    """U05: the pair before an update and a deletion is there, before a creation not"""
    kv = target.client()
    with Watch(kv) as watch:
        watch.create(b"u05", prev_kv=True)
        watch.create(b"u05")
        for change in (lambda: kv.put(b"u05", b"1"), lambda: kv.put(b"u05", b"2"), lambda: kv.delete(b"u05")):
            change()
        pairs = [e.prev_kv.value if e.HasField("prev_kv") else None for e in watch.events(0, 3)]
        check(pairs == [None, b"1", b"2"], pairs)
        check(not any(e.HasField("prev_kv") for e in watch.events(1, 3)), "only who asks")


def u06_filters(target):
    """U06: without puts, without deletions, without either"""
    kv = target.client()
    with Watch(kv) as watch:
        for filters in ([], [0], [1], [0, 1]):
            watch.create(b"u06", filters=filters)
        put, gone = kv.put(b"u06").header.revision, kv.delete(b"u06").header.revision
        check([e.kv.mod_revision for e in watch.events(0, 2)] == [put, gone], watch.responses)
        check([e.kv.mod_revision for e in watch.events(1, 1)] == [gone], watch.responses)
        check([e.kv.mod_revision for e in watch.events(2, 1)] == [put], watch.responses)
        check(watch.received(3) == [], watch.responses)


def u07_many(target):
    """U07: 1,000 watches on one stream: created in the order asked, each sent"""
    kv = target.client()
    with Watch(kv) as watch:
        for i in range(1000):
            watch.ask(create_request={"key": b"u07/%d" % (i % 10)})
        made = watch.until("all", lambda all_: len([r for r in all_ if r.created]) == 1000 and all_)
        check([r.watch_id for r in made if r.created] == list(range(1000)), "in order")
        for i in range(10):
            kv.put(b"u07/%d" % i)
        watch.until("1,000 events", lambda all_: sum(len(r.events) for r in all_) == 1000)
        check(all(len(r.events) == 1 and r.events[0].kv.key == b"u07/%d" % (r.watch_id % 10)
                  for r in watch.responses if r.events), "each its own")


def u08_cancel(target):
    """U08: canceled is answered and nothing comes after it; of an unknown id nothing"""
    kv = target.client()
    with Watch(kv) as watch:
        watch.create(b"u08")
        watch.create(b"u08")
        watch.cancel(12345)
        watch.cancel(0)
        check(watch.canceled(0).compact_revision == 0, watch.responses)
        kv.put(b"u08")
        watch.events(1, 1)
        check(watch.received(0) == [] and not [r for r in watch.responses if r.watch_id == 12345], watch.responses)
        check(watch.create(b"u08", watch_id=0).watch_id == 2, "an id that was chosen is not chosen again")


def u09_refused(target):
    """U09: an id in use, an empty range, a negative start: created, canceled, id -1, and why"""
    kv = target.client()
    with Watch(kv) as watch:
        check(watch.create(b"u09", watch_id=7).watch_id == 7, "an id that is asked for")
        for why, request in (("mvcc: duplicate watch ID provided on the WatchStream", {"key": b"u09", "watch_id": 7}),
                             ("mvcc: watcher range is empty", {"key": b"u09", "end": b"u09"}),
                             ("mvcc: watcher range is empty", {"key": b"u09/b", "end": b"u09/a"}),
                             (NEITHER, {"key": b"u09", "start_revision": -1})):
            if target.real and why == NEITHER:
                continue    # of later releases
            answer = watch.create(**request)
            check(answer.created and answer.canceled and answer.watch_id == -1, answer)
            check(answer.cancel_reason == why, answer)
        kv.put(b"u09", b"still")
        check(watch.events(7, 1)[0].kv.value == b"still", "the first one lives")


def u10_notify(target):
    """U10: without changes the present revision is sent to watchers that asked for progress"""
    kv = target.client()
    with Watch(kv) as watch:
        watch.create(b"u10", progress_notify=True)
        watch.create(b"u10")
        received = watch.until("progress", lambda all_: [r for r in all_ if not r.created and not r.events])[0]
        check(received.watch_id == 0 and received.header.revision == kv.revision(), received)
        kv.put(b"u10/other")
        now = kv.revision()
        watch.until("the next", lambda all_: [r for r in all_ if not r.created and r.header.revision == now])
        check(all(r.watch_id == 0 for r in watch.responses if not r.created), watch.responses)


def judge_progress(responses):
    """No event at or below a revision that was sent as progress follows it."""
    received = 0
    for one in responses:
        if one.watch_id == -1:
            received = max(received, one.header.revision)
        for event in one.events:
            check(event.kv.mod_revision > received, f"{event} after progress {received}")
    return received


def u11_progress(target):
    """U11: progress asked for under writes is sent with id -1, and no event up to it comes after"""
    kv = target.client()
    stop = threading.Event()

    def write():
        while not stop.is_set():
            kv.txn(success=[{"request_put": {"key": b"u11/%d" % i, "value": b"v" * 50}} for i in range(100)])
    with Watch(kv) as watch:
        for _ in range(10):
            watch.create(b"u11/", after(b"u11/"))
        writers = [threading.Thread(target=write) for _ in range(2)]
        for writer in writers:
            writer.start()
        try:
            n = 0
            while n < 8 or (LONG and sum(len(r.events) for r in watch.responses) < 10**6):
                n += 1
                watch.progress()
                watch.until("progress", lambda all_: len([r for r in all_ if r.watch_id == -1]) >= n)
        finally:
            stop.set()
            for writer in writers:
                writer.join(PATIENCE)
        last = kv.put(b"u11/last").header.revision
        watch.until("the last", lambda all_: all(
            any(e.kv.mod_revision == last for r in all_[-40:] if r.watch_id == i for e in r.events) for i in range(10)))
        check(judge_progress(watch.responses) > 0, "progress was sent")


def u12_large(target):
    """U12: a revision of 10,000 keys is one response, or fragments that join to it"""
    kv = target.client()
    for first in range(0, 10000, 125):
        kv.txn(success=[{"request_put": {"key": b"u12/%05d" % i, "value": b"v" * 300}} for i in range(first, first + 125)])
    with Watch(Client(channel=target.wide())) as watch:
        for fragment in (True, False):
            watch.create(b"u12/", after(b"u12/"), prev_kv=True, fragment=fragment, filters=[0])
        gone = kv.delete(b"u12/", after(b"u12/"))
        check(gone.deleted == 10000, gone)
        for i in range(2):
            events = watch.events(i, 10000)
            check([e.kv.key for e in events] == [b"u12/%05d" % n for n in range(10000)], "all, in order")
            check({e.kv.mod_revision for e in events} == {gone.header.revision}, "one revision")
        parts = watch.received(0)
        check(len(parts) > 1 and [p.fragment for p in parts] == [True] * (len(parts) - 1) + [False], "fragments")
        check(all(p.ByteSize() < 2 << 20 for p in parts), "each below the limit")
        check(len(watch.received(1)) == 1 and not watch.received(1)[0].fragment, "one response")


def u13_stalls(target):
    """U13: a watcher that does not read gets everything later, in order; others get their events meanwhile"""
    kv = target.client()
    count, size = (100_000, 200) if LONG else (3000, 2000)
    with Watch(Client(channel=target.channel()), deaf=True) as deaf, Watch(kv) as other:
        # From a revision on, because a client that does not read cannot learn that its watch exists.
        deaf.ask(create_request={"key": b"u13/", "range_end": after(b"u13/"), "start_revision": kv.revision() + 1})
        other.create(b"u13/", after(b"u13/"))
        time.sleep(SETTLE)      # so that it mostly is
        first = None
        for n in range(0, count, 100):
            answer = kv.txn(success=[{"request_put": {"key": b"u13/%d" % i, "value": b"v" * size}}
                                     for i in range(n, n + 100)])
            first = first or answer.header.revision
        other.events(0, count)
        time.sleep(30 if LONG else 0)
        deaf.hear()
        events = deaf.events(0, count)
        check([e.kv.key for e in events] == [b"u13/%d" % i for i in range(count)], "in order, none lost, none twice")
        check([e.kv.mod_revision for e in events] == [first + i // 100 for i in range(count)], "by revision")


def u15_lease(target):
    """U15: the end of a lease with 50 keys, and with 3,000, is as many deletions at one revision, in key order"""
    kv = target.client()
    for count in (50, 3000):    # the second is more than one turn's work
        prefix = b"u15/%d/" % count
        names = [prefix + b"%04d" % i for i in range(count)]
        lease = kv.call("etcdserverpb.Lease/LeaseGrant", TTL=600).ID
        mixed = sorted(names, key=lambda name: name[::-1])
        for at in range(0, count, 100):
            kv.txn(success=[op_put(name, lease=lease) for name in mixed[at:at + 100]])
        with Watch(kv) as watch:
            watch.create(prefix, after(prefix))
            revision = kv.call("etcdserverpb.Lease/LeaseRevoke", ID=lease).header.revision
            events = watch.events(0, count)
            check(shown(events) == [("DELETE", name, b"", revision, 0) for name in names], shown(events)[:5])
            check(len(watch.received(0)) == 1, "one response")
        check(kv.range(prefix, after(prefix)).count == 0, "none is left")


def never_reads(target):
    """50 watchers that never read cost their own positions: 40 MB for each are not buffered; no other watcher waits"""
    def resident():
        with open(f"/proc/{target.pid()}/statm", encoding="ascii") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    kv, before, count = target.client(), resident(), 400
    deaf = [Watch(Client(channel=channel), deaf=True) for channel in [target.wide() for _ in range(5)] for _ in range(10)]
    try:
        start = kv.revision() + 1   # nothing says to who does not hear that its watch is there
        for one in deaf:
            one.ask(create_request={"key": b"deaf/", "range_end": after(b"deaf/"), "start_revision": start})
        with Watch(kv) as other:
            other.create(b"deaf/", after(b"deaf/"))
            time.sleep(SETTLE)      # so that they mostly are
            for i in range(count):
                kv.put(b"deaf/%d" % (i % 7), bytes([i % 256]) * 100_000)
            other.events(0, count)
        check(resident() - before < 600 << 20, f"{resident() - before >> 20} MB more, 2,000 would be all of it")
        deaf[0].hear()
        check([e.kv.value[0] for e in deaf[0].events(0, count)] == [i % 256 for i in range(count)], "later, in order")
    finally:
        for one in deaf:
            one.__exit__(None, None, None)


def counted(target):
    """Watches are a number in the metrics, while they are open"""
    def number():
        text = target.page("/metrics")
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith("muster_store_watchers "))
    with Watch(target.client()) as watch:
        for _ in range(7):
            watch.create(b"counted")
        wait_for("seven", lambda: number() == 7)
    wait_for("none", lambda: number() == 0)


def everything_from_there(target):
    """A range without an end, any two ends, the least key: each sent its own"""
    kv = target.client()
    with Watch(kv) as watch:
        for key, end in ((b"x/c", ALL), (b"x/a", b"x/c"), (b"", ALL), (b"x/b", b"")):
            watch.create(key, end)
        for key in (b"x/a", b"x/b", b"x/c", b"y"):
            kv.put(key)
        seen = [[e.kv.key for e in watch.events(i, n)] for i, n in ((0, 2), (1, 2), (2, 4), (3, 1))]
        check(seen == [[b"x/c", b"y"], [b"x/a", b"x/b"], [b"x/a", b"x/b", b"x/c", b"y"], [b"x/b"]], seen)


COMMON = [u01_now, u02_past, u03_compacted, u04_future, u05_prev, u06_filters, u07_many, u08_cancel, u09_refused,
          u11_progress, u12_large, u13_stalls, u15_lease, everything_from_there]


# etcd 3.4 answers progress early, and takes half a minute for so large a revision.
NOT_REAL = (u11_progress, u12_large)


def cases_of(target, cases):
    def bound(case):
        def run():
            case(target)
        run.__name__, run.__doc__ = f"{target.name}_{case.__name__}", f"{target.name}: {case.__doc__}"
        return run
    return [bound(case) for case in cases if not (target.real and case in NOT_REAL)]


# -- three replicas --

def u14_another_member():
    """U14: from the next revision on another member: no gap, none twice; one that was away goes on from there, too"""
    with Etcds(3, PATIENT) as cluster:
        cluster.ready()
        clients = [Client(node) for node in cluster.nodes]
        away = next(node for node in cluster.nodes if node is not cluster.leader())
        others = [node for node in cluster.nodes if node is not away]
        seen, start = [], clients[0].revision() + 1

        def follow(node, count):
            with Watch(Client(node)) as watch:
                watch.create(b"u14/", after(b"u14/"), start_revision=start + len(seen))
                seen.extend(shown(watch.events(0, count))[:count])
        for n in range(0, 12, 3):
            for i in range(3):
                clients[others[0].number].put(b"u14/%02d" % (n + i))
            follow(cluster.nodes[n // 3 % 3], 3)
        away.kill()
        for i in range(12, 18):
            clients[others[0].number].put(b"u14/%02d" % i)
        follow(others[1], 6)
        away.start()
        away.etcd_channel.close()
        away.etcd_channel = None
        clients[others[0].number].put(b"u14/18")
        follow(away, 1)     # it is behind as it starts, and must not send what was before
        check([key for _, key, _, _, _ in seen] == [b"u14/%02d" % i for i in range(19)], seen)
        check([mod for _, _, _, mod, _ in seen] == list(range(start, start + 19)), seen)


def u16_no_leader():
    """U16: a stream that asks for a leader ends as 14 "no leader" on a member that has none; others go on"""
    with Etcds(3) as cluster:
        cluster.ready()
        alone = cluster.nodes[0]
        with Watch(Client(alone)) as plain, Watch(Client(alone), metadata=(("hasleader", "true"),)) as asks:
            plain.create(b"u16")
            asks.create(b"u16")
            for node in cluster.others(alone):
                node.kill()
            check(asks.ended() == NO_LEADER, asks.failure)
            check(plain.failure is None, plain.failure)
            with Watch(Client(alone), metadata=(("hasleader", "true"),)) as late:
                check(late.ended() == NO_LEADER, late.failure)
            for node in cluster.others(alone):
                node.start()
            patiently(lambda: Client(alone).put(b"u16", b"back"))
            check(plain.events(0, 1)[0].kv.value == b"back", plain.responses)


def main():
    cluster = Etcds(1, PATIENT + QUIET, join=False, first=5)   # beside others that begin with 0

    def target_of(name, address, real):
        def dial(*options):
            return grpc.insecure_channel(address, options=[("grpc.enable_retries", 0), *options])
        shared = dial()
        target = Target(name, lambda: Client(channel=shared), real)
        target.channel = lambda: dial(("grpc.use_local_subchannel_pool", 1))
        target.wide = lambda: dial(("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 1 << 30))
        return target
    with cluster:
        cluster.ready()
        ours = target_of("muster", cluster.nodes[0].etcd, False)
        ours.page = lambda path: cluster.nodes[0].page(path)[1]
        ours.pid = lambda: cluster.nodes[0].process.pid
        cases = cases_of(ours, COMMON + [u10_notify, never_reads, counted]) + [u14_another_member, u16_no_leader]
        if LONG:
            run_cases(cases_of(ours, [u11_progress, u13_stalls]))
            return
        if not shutil.which("etcd"):
            run_cases(cases)
            return
        with etcd_cluster.Cluster() as etcd:
            real = target_of("etcd", f"127.0.0.1:{etcd.ports[0]}", True)
            run_cases(cases_of(real, COMMON) + cases)


if __name__ == "__main__":
    main()
