#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Watch of muster.v1.Coordination against three coordinators: spec/coordination.md A9.

The cases share one cluster and use keys of their own."""
import stores
from stores import (CHANGES, COMPACTED, DELETE, EXPIRED_EVENT, PATIENT, PROGRESS, PUT, RESYNC, SNAPSHOT, Client,
                    Cluster, Watch, check, code_of, grpc, new_id, run_cases, wait_for)

CODE = grpc.StatusCode
CLUSTER = Cluster(3, PATIENT)


def client():
    return Client(CLUSTER.leader())


def kinds(events):
    return [(event.type, event.entry.key) for event in events]


def a_snapshot_then_changes():
    """A bucket: the present keys, then the changes, with values, owners and tokens; nothing deeper, no group record."""
    c, lease = client(), new_id()
    first = c.create(b"b1/a", b"1").revision
    c.create(b"b1/deep/er", b"no")
    c.create(b"b1x/a", b"no")
    watch = Watch(c.node, scope=b"b1", bucket=True)
    check(watch.snapshot() == {b"b1/a": first}, "its own key only")
    made = c.lease(b"b1/b", owner="w1", lease_id=lease)
    c.create(b"b1/deep/too", b"no")
    c.ask("CompareAndSet", key=b"b1/a", expected=first, value=b"2")
    c.release(lease)
    c.ask("Delete", key=b"b1/a", any=True)
    got = watch.events(4)
    check(kinds(got) == [(PUT, b"b1/b"), (PUT, b"b1/a"), (DELETE, b"b1/b"), (DELETE, b"b1/a")], f"{got}")
    check((got[0].entry.owner, got[0].entry.token, got[0].entry.lease_id) == ("w1", made.token, lease), f"{got[0]}")
    check(got[1].entry.value == b"2", f"{got[1]}")
    revisions = [event.entry.revision for event in got]
    check(revisions == sorted(set(revisions)), f"they grow: {revisions}")
    watch.close()


def a_group_is_a_bucket():
    """A watch reports slots when they are acquired and released, but not the group record."""
    c, lease = client(), new_id()
    watch = Watch(c.node, scope=b"b2", bucket=True)
    check(watch.snapshot() == {}, "nothing yet")
    c.acquire(b"b2", "w1", 2, lease_id=lease)
    c.release(lease)
    check(kinds(watch.events(2)) == [(PUT, b"b2/slot-0000"), (DELETE, b"b2/slot-0000")], "the slot only")
    watch.close()


def one_key():
    """One key, and no other that begins like it."""
    c = client()
    watch = Watch(c.node, scope=b"k1/key")
    check(watch.snapshot() == {}, "absent")
    c.create(b"k1/key2")
    c.create(b"k1/key", b"v")
    check(kinds(watch.events(1)) == [(PUT, b"k1/key")], "the one")
    watch.close()


def an_end_by_the_clock():
    """The end of a lease by its deadline is EXPIRED; a release is not."""
    c, lease = client(), new_id()
    watch = Watch(c.node, scope=b"b3", bucket=True)
    watch.snapshot()
    c.lease(b"b3/held", lease_id=lease)
    c.release(lease)
    c.lease(b"b3/short", ttl_ms=500)
    got = watch.events(4)
    check(kinds(got) == [(PUT, b"b3/held"), (DELETE, b"b3/held"), (PUT, b"b3/short"),
                         (EXPIRED_EVENT, b"b3/short")], f"{got}")
    again = Watch(c.node, scope=b"b3", bucket=True, start_revision=got[0].entry.revision)
    check(kinds(again.events(4)) == kinds(got), "so it is for who comes later")
    again.close()
    watch.close()


def all_keys_of_a_lease_at_once():
    """Keys that end together are sent in one message, in key order, at one revision."""
    c, lease = client(), new_id()
    c.lease(b"b4/c", lease_id=lease)
    c.create(b"b4/a", under=lease)
    c.create(b"b4/b", under=lease)
    watch = Watch(c.node, scope=b"b4", bucket=True)
    watch.snapshot()
    c.release(lease)
    one = watch.next()
    while one.kind == PROGRESS:
        one = watch.next()
    check(kinds(one.events) == [(DELETE, b"b4/a"), (DELETE, b"b4/b"), (DELETE, b"b4/c")], f"{one}")
    check({event.entry.revision for event in one.events} == {one.revision} and not one.more, f"{one}")
    watch.close()


def it_goes_on_where_it_was():
    """From each revision on: exactly what follows, on the leader and on a follower; from a revision to come, that."""
    c = client()
    revisions = [c.ask("Put", key=b"r/%d" % (n % 3), value=b"%d" % n).revision for n in range(20)]
    last = c.ask("Put", key=b"r/end").revision
    for node in (c.node, CLUSTER.others(c.node)[0]):
        wait_for("it is there", lambda: node.call(stores.STORE + "Status").revision >= last)
        for start in (revisions[0], revisions[7], last):
            watch = Watch(node, scope=b"r/", raw=True, start_revision=start, serializable=node is not c.node)
            want = [r for r in revisions + [last] if r >= start]
            check([e.entry.revision for e in watch.events(len(want))] == want, f"from {start}")
            watch.close()
    watch = Watch(c.node, scope=b"r/", raw=True, start_revision=last + 2)
    c.ask("Put", key=b"r/x")
    late = c.ask("Put", key=b"r/y").revision
    check([e.entry.revision for e in watch.events(1)] == [late], "nothing before it")
    watch.close()


def compacted_is_said():
    """A start that is gone is refused with the oldest there is; that one is fine."""
    c = client()
    revisions = [c.ask("Put", key=b"c/1", value=b"%d" % n).revision for n in range(5)]
    c.ask("Compact", revision=revisions[3])
    watch = Watch(c.node, scope=b"c/", raw=True, start_revision=revisions[2])
    one = watch.next()
    check(one.kind == COMPACTED and one.revision == revisions[3], f"{one}")
    check(watch.next() is None, "and that is its end")
    watch = Watch(c.node, scope=b"c/", raw=True, start_revision=revisions[3])
    check([e.entry.revision for e in watch.events(2)] == revisions[3:], "from there on")
    watch.close()


def a_large_snapshot_in_parts():
    """More than fits one message, with writes meanwhile: nothing is left out, nothing comes twice."""
    c = client()
    value = b"v" * 4096
    want = {b"s/%04d" % n: c.ask("Put", key=b"s/%04d" % n, value=value).revision for n in range(300)}
    watch = Watch(c.node, scope=b"s/", raw=True)
    later = [c.ask("Put", key=b"s/%04d" % n, value=b"w").revision for n in range(0, 300, 10)]
    seen, parts = {}, 0
    while True:
        one = watch.next()
        check(one.kind == SNAPSHOT, f"{one.kind}")
        parts += 1
        for event in one.events:
            check(event.entry.key not in seen, "twice")
            seen[event.entry.key] = event.entry.revision
        if not one.more:
            break
    check(parts > 1 and sorted(seen) == sorted(want), f"{parts} parts, {len(seen)} keys")
    rest = [r for r in later if r > one.revision]
    check([e.entry.revision for e in watch.events(len(rest))] == rest, "then the rest")
    check(all(seen[k] == want[k] or seen[k] in later for k in seen), "as of one revision")
    watch.close()


def a_slow_one_costs_itself():
    """A watcher that does not read gets RESYNC and a new snapshot; others get every event meanwhile."""
    c = client()
    fast = Watch(c.node, scope=b"z/", raw=True)
    fast.snapshot()
    method = stores.METHODS[stores.STORE + "Watch"]
    kind = stores.message(method.input_type)
    channel = CLUSTER.dial(c.node.grpc)
    slow = channel.unary_stream("/" + stores.STORE + "Watch", kind.SerializeToString,
                                stores.message(method.output_type).FromString)(kind(scope=b"z/", raw=True),
                                                                                      timeout=stores.PATIENCE)
    check(next(slow).kind == SNAPSHOT, "it began")
    value, count = b"v" * 65536, 400
    for n in range(count):
        c.ask("Put", key=b"z/%d" % (n % 4), value=value)
    check(len(fast.events(count)) == count, "the fast one")
    latest = c.ask("Put", key=b"z/last").revision
    c.ask("Compact", revision=latest)  # what waits for the slow one is history, and that is over
    for n in range(8):
        c.ask("Put", key=b"other", value=b"%d" % n)
    resyncs = 0
    for one in slow:
        if one.kind == RESYNC:
            resyncs += 1
        if resyncs and one.kind == SNAPSHOT and not one.more:
            break
    check(resyncs == 1 and one.revision >= latest, f"{resyncs} {one.revision}")
    slow.cancel()
    channel.close()
    fast.close()


def who_may_be_asked():
    """A follower names the leader, unless its own view is asked for; arguments are judged."""
    c = client()
    follower = CLUSTER.others(c.node)[0]
    error = Watch(follower, scope=b"f").next()
    check(error.code() == CODE.FAILED_PRECONDITION and
          dict(error.trailing_metadata()).get("x-muster-leader") == c.node.grpc, f"{error}")
    watch = Watch(follower, scope=b"f", bucket=True, serializable=True)
    watch.snapshot()
    c.create(b"f/x")
    check(kinds(watch.events(1)) == [(PUT, b"f/x")], "from what it applies")
    watch.close()
    for why, fields in (("a key", {"scope": b"a//b"}), ("both", {"scope": b"a", "raw": True, "bucket": True}),
                        ("a long prefix", {"scope": b"p" * 1025, "raw": True})):
        error = Watch(c.node, **fields).next()
        check(error.code() == CODE.INVALID_ARGUMENT, f"{why}: {error}")


def leadership_is_handed_over():
    """A watch and a call that waits end as UNAVAILABLE when their leader loses its place; both go on elsewhere, the
    watch without a gap and the wait from its place in the queue."""
    c, lease, mine = client(), new_id(), new_id()
    c.acquire(b"h/group", "w0", lease_id=lease)
    watch = Watch(c.node, scope=b"h", bucket=True)
    watch.snapshot()
    done = c.create(b"h/before").revision
    check(watch.events(1)[0].entry.revision == done, "shown")
    waiter = Client(c.node)
    fields = {"group": b"h/group", "slot_count": 1, "prefer_slot": -1, "owner": "w1",
              "ttl_ms": stores.TTL_MS, "lease_id": mine, "wait_ms": stores.TTL_MS, "request": waiter.request()}
    call = waiter.later("Acquire", **fields)
    wait_for("it waits", lambda: c.ask("Holders", group=b"h/group").waiters == 1)
    c.node.call(stores.coordinators.FLEET + "TransferLeadership")
    check(call.exception().code() == CODE.UNAVAILABLE, f"{call.exception()}")
    while not isinstance(one := watch.next(), grpc.RpcError):
        check(one.kind == PROGRESS, f"{one}")
    check(one.code() == CODE.UNAVAILABLE, f"{one}")
    after = client()
    check(after.node is not c.node, "another leads")
    check(after.ask("Holders", group=b"h/group").waiters == 1, "its place is kept")
    waiter.node = after.node
    call = waiter.later("Acquire", **fields)
    again = Watch(after.node, scope=b"h", bucket=True, start_revision=done + 1)
    next_one = after.create(b"h/after").revision
    check([e.entry.revision for e in again.events(1)] == [next_one], "no gap, no repeat")
    after.release(lease)
    got = call.result()
    check((got.code, got.lease_id) == (stores.OK, mine), f"{got}")
    again.close()


CASES = [a_snapshot_then_changes, a_group_is_a_bucket, one_key, an_end_by_the_clock, all_keys_of_a_lease_at_once,
         it_goes_on_where_it_was, compacted_is_said, a_large_snapshot_in_parts, a_slow_one_costs_itself,
         who_may_be_asked, leadership_is_handed_over]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases(CASES)
