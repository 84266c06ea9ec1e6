#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every call of muster.v1.Coordination but Watch, against three coordinators: spec/coordination.md A2 to A8 as they are
seen from outside.

The cases share one cluster and use keys of their own."""
import threading

import stores
from stores import *  # noqa: F401,F403
from stores import Client, Cluster, PATIENT, check, code_of, grpc, new_id, outcome, run_cases, wait_for

CODE = grpc.StatusCode
CLUSTER = Cluster(3, PATIENT)


def client():
    return Client(CLUSTER.leader())


def create_once():
    """A key is created once, and read as written."""
    c = client()
    first = outcome(c.create(b"a/one", b"v"), stores.OK, stores.CREATED, "absent")
    check(first.revision > 0 and first.create_revision == first.revision and first.token == 0, f"{first}")
    second = outcome(c.create(b"a/one", b"w"), stores.EXISTS, stores.HELD, "there")
    check(second.revision == first.revision, f"{second}")
    got = c.get(b"a/one")
    check(got.found and got.entry.value == b"v" and got.entry.revision == first.revision, f"{got}")
    check(not c.get(b"a/none").found, "absent")


def a_repeat_is_answered():
    """The same request again is answered, not done; its id is good for nothing else."""
    c = client()
    request = c.request()
    first = outcome(c.create(b"a/twice", b"v", request=request), stores.OK, stores.CREATED, "first")
    again = outcome(c.create(b"a/twice", b"v", request=request), stores.OK, stores.REPLAYED, "again")
    check(again.revision == first.revision, f"{again}")
    outcome(c.create(b"a/other", b"v", request=request), stores.INVALID, stores.HANDLE, "another call's id")
    check(not c.get(b"a/other").found, "nothing was done")


def compare_and_set():
    """Compare and set, and delete, take the revision that is there; revisions grow through deletion."""
    c = client()
    outcome(c.ask("CompareAndSet", key=b"a/cas", expected=7), stores.CONFLICT, stores.ABSENT, "absent")
    made = outcome(c.ask("CompareAndSet", key=b"a/cas", value=b"1"), stores.OK, stores.CREATED, "0: absent")
    outcome(c.ask("CompareAndSet", key=b"a/cas", value=b"1"), stores.CONFLICT, stores.PRESENT, "0: there")
    new = outcome(c.ask("CompareAndSet", key=b"a/cas", expected=made.revision, value=b"2"), stores.OK,
                  stores.UPDATED, "its revision")
    check(new.revision > made.revision, f"{new}")
    old = outcome(c.ask("CompareAndSet", key=b"a/cas", expected=made.revision, value=b"3"), stores.CONFLICT,
                  stores.REVISION, "an old revision")
    check(old.revision == new.revision, f"{old}")
    outcome(c.ask("Delete", key=b"a/cas", expected=made.revision), stores.CONFLICT, stores.REVISION, "delete: old")
    gone = outcome(c.ask("Delete", key=b"a/cas", expected=new.revision), stores.OK, stores.DELETED, "delete")
    outcome(c.ask("Delete", key=b"a/cas", any=True), stores.NOT_FOUND, 0, "gone")
    check(outcome(c.create(b"a/cas"), stores.OK, stores.CREATED, "anew").revision > gone.revision, "grows")


def leases_and_tokens():
    """A lease is proof of ownership; its name is not. Tokens stay, keys end with it."""
    c, lease = client(), new_id()
    made = outcome(c.lease(b"l/one", lease_id=lease), stores.OK, stores.CREATED, "leased")
    check(made.token == made.revision and made.granted_ttl_ms == stores.TTL_MS and made.lease_id == lease, f"{made}")
    held = outcome(c.lease(b"l/one", owner="w2"), stores.EXISTS, stores.HELD, "held")
    check(held.owner == "w1" and held.token == made.token and 0 < held.hint_ms <= stores.TTL_MS, f"{held}")
    got = c.get(b"l/one").entry
    check((got.owner, got.token, got.lease_id, got.ttl_ms) == ("w1", made.token, lease, stores.TTL_MS), f"{got}")
    outcome(c.ask("CompareAndSet", key=b"l/one", expected=made.revision, ttl_ms=-1), stores.CONFLICT,
            stores.NOT_OWNER, "not with the name alone")
    kept = outcome(c.ask("CompareAndSet", key=b"l/one", expected=made.revision, ttl_ms=-1, value=b"x", held=lease),
                   stores.OK, stores.UPDATED, "with the lease")
    check(kept.token == made.token, f"the token stays: {kept}")
    outcome(c.create(b"l/two", under=lease), stores.OK, stores.CREATED, "one more key")
    check([(r.code, r.reason) for r in c.renew(lease, new_id())] ==
          [(stores.OK, stores.RENEWED), (stores.EXPIRED, stores.DEADLINE)], "in the order asked")
    outcome(c.release(lease, key=b"l/two"), stores.OK, stores.RELEASED, "one key")
    check(c.get(b"l/one").found and not c.get(b"l/two").found, "the other lives")
    request = c.request()
    outcome(c.release(lease, request=request), stores.OK, stores.RELEASED, "all")
    outcome(c.release(lease, request=request), stores.OK, stores.ALREADY, "again")
    check(not c.get(b"l/one").found, "released")
    outcome(c.release(lease), stores.EXPIRED, stores.DEADLINE, "it is over")


def a_lease_ends():
    """A lease without renewals ends by itself, for good."""
    c, lease = client(), new_id()
    outcome(c.lease(b"l/short", ttl_ms=500, lease_id=lease), stores.OK, stores.CREATED, "500 ms")
    wait_for("it ends without a call", lambda: not c.get(b"l/short", serializable=True).found)
    check(c.renew(lease)[0].code == stores.EXPIRED, "for good")
    check(c.ask("Status").leases == 0 or c.ask("Status").leases >= 0, "shown")


def force():
    """Force takes a claim from its holder, and the holder is notified."""
    c, lease = client(), new_id()
    outcome(c.lease(b"l/forced", lease_id=lease), stores.OK, stores.CREATED, "leased")
    outcome(c.ask("Delete", key=b"l/forced", any=True), stores.CONFLICT, stores.NOT_OWNER, "any")
    outcome(c.ask("Delete", key=b"l/forced", force=True), stores.OK, stores.DELETED, "force")
    got = c.renew(lease)[0]
    check((got.code, got.reason) == (stores.EXPIRED, stores.REVOKED), f"its holder hears of it: {got}")


def slots():
    """Slots are given from the lowest; the same owner may take over; a group grows."""
    c, leases = client(), [new_id() for _ in range(3)]
    one = outcome(c.acquire(b"g/two", "w1", 2, lease_id=leases[0]), stores.OK, stores.ACQUIRED, "first")
    two = outcome(c.acquire(b"g/two", "w2", 2, lease_id=leases[1]), stores.OK, stores.ACQUIRED, "second")
    check((one.slot, two.slot) == (0, 1) and two.token > one.token, f"{one} {two}")
    full = outcome(c.acquire(b"g/two", "w3", 2), stores.EXISTS, stores.FULL, "full")
    check(full.live == 2 and full.hint_ms > 0, f"{full}")
    outcome(c.acquire(b"g/two", "w1", 2), stores.EXISTS, stores.ALREADY_HOLDER, "the same owner")
    outcome(c.acquire(b"g/two", "w3", 3), stores.CONFLICT, stores.SLOT_COUNT, "another count")
    outcome(c.acquire(b"g/none", "w3", 3, flags=2), stores.NOT_FOUND, 0, "do not create")
    taken = outcome(c.acquire(b"g/two", "w1", 2, flags=1, lease_id=leases[2]), stores.OK, stores.ACQUIRED, "take over")
    check(taken.slot == 0 and taken.token > two.token, f"{taken}")
    lost = c.renew(leases[0])[0]
    check((lost.code, lost.reason, lost.token) == (stores.EXPIRED, stores.SUPERSEDED, taken.token), f"{lost}")
    held = c.ask("Holders", group=b"g/two")
    check(held.found and held.slot_count == 2 and [h.slot for h in held.holders] == [0, 1], f"{held}")
    check([h.owner for h in held.holders] == ["w1", "w2"] and
          held.holders[1].lease_id_prefix == leases[1][:4], f"{held}")
    outcome(c.ask("Resize", group=b"g/two", expected=1, slot_count=3), stores.CONFLICT, stores.REVISION, "old")
    outcome(c.ask("Resize", group=b"g/two", expected=held.group_revision, slot_count=3), stores.OK, stores.RESIZED,
            "resize")
    check(outcome(c.acquire(b"g/two", "w3", 3), stores.OK, stores.ACQUIRED, "room").slot == 2, "the new slot")
    check(not c.ask("Holders", group=b"g/none").found, "no such group")


def waiting_fields(group, owner, lease, wait_ms=stores.TTL_MS, ttl_ms=stores.TTL_MS):
    return {"group": group, "slot_count": 1, "prefer_slot": -1, "owner": owner, "ttl_ms": ttl_ms, "lease_id": lease,
            "wait_ms": wait_ms}


def waiters(c, group):
    return c.ask("Holders", group=group).waiters


def first_come_first_served():
    """Waiters are served in order of arrival, one by one."""
    c, lease = client(), new_id()
    outcome(c.acquire(b"w/fifo", "w0", lease_id=lease), stores.OK, stores.ACQUIRED, "free")
    calls, leases = [], [new_id() for _ in range(3)]
    for n in range(3):
        calls.append(Client(c.node).later("Acquire", **waiting_fields(b"w/fifo", f"w{n + 1}", leases[n])))
        wait_for(f"{n + 1} wait", lambda n=n: waiters(c, b"w/fifo") == n + 1)
    check(not any(call.done() for call in calls), "nobody has it yet")
    for n in range(3):
        outcome(c.release(lease), stores.OK, stores.RELEASED, "released")
        got = outcome(calls[n].result(), stores.OK, stores.ACQUIRED, f"waiter {n}")
        check(got.lease_id == leases[n] and not any(call.done() for call in calls[n + 1:]), "one change wakes one")
        lease = leases[n]


def a_wait_outlives_its_ttl():
    """Renews the lease while the call is open."""
    c, lease = client(), new_id()
    outcome(c.acquire(b"w/long", "w0", lease_id=lease), stores.OK, stores.ACQUIRED, "free")
    call = Client(c.node).later("Acquire", **waiting_fields(b"w/long", "w1", new_id(), ttl_ms=500))
    wait_for("it waits", lambda: waiters(c, b"w/long") == 1)
    before = c.ask("Status").clock_ms
    wait_for("three times its TTL", lambda: c.ask("Status").clock_ms > before + 1500)
    check(waiters(c, b"w/long") == 1 and not call.done(), "it is still there")
    c.release(lease)
    c.release(outcome(call.result(), stores.OK, stores.ACQUIRED, "and gets it").lease_id)
    slow = [line for line in c.node.text().splitlines() if "slow call" in line and "/Acquire" in line]
    check(not slow, f"who waits is not slow: {slow}")


def who_leaves_is_no_waiter():
    """A cancelled call leaves the queue, and so does one whose time is up."""
    c, lease = client(), new_id()
    outcome(c.acquire(b"w/leave", "w0", lease_id=lease), stores.OK, stores.ACQUIRED, "free")
    call = Client(c.node).later("Acquire", **waiting_fields(b"w/leave", "w1", new_id()))
    wait_for("it waits", lambda: waiters(c, b"w/leave") == 1)
    call.cancel()
    wait_for("it left", lambda: waiters(c, b"w/leave") == 0)
    late = Client(c.node).later("Acquire", **waiting_fields(b"w/leave", "w2", new_id(), wait_ms=300)).result()
    full = outcome(late, stores.EXISTS, stores.FULL, "its time is up")
    check(full.live == 1 and waiters(c, b"w/leave") == 0, f"{full}")
    c.release(lease)
    outcome(c.acquire(b"w/leave", "w3"), stores.OK, stores.ACQUIRED, "nobody was before")


def a_repeat_takes_its_place_up():
    """The same request again, while the first still waits: one place, and the second gets the slot."""
    c, lease, mine = client(), new_id(), new_id()
    outcome(c.acquire(b"w/again", "w0", lease_id=lease), stores.OK, stores.ACQUIRED, "free")
    waiter = Client(c.node)
    request = waiter.request()
    first = waiter.later("Acquire", request=request, **waiting_fields(b"w/again", "w1", mine))
    wait_for("it waits", lambda: waiters(c, b"w/again") == 1)
    second = waiter.later("Acquire", request=request, **waiting_fields(b"w/again", "w1", mine))
    check(first.exception().code() == CODE.ABORTED, f"{first.exception()}")
    check(waiters(c, b"w/again") == 1, "one place")
    c.release(lease)
    got = outcome(second.result(), stores.OK, stores.ACQUIRED, "the second")
    check(got.lease_id == mine and c.renew(mine)[0].code == stores.OK, "it holds")


def a_cancelled_place_is_no_answer():
    """After the first has left, the same request is a new one."""
    c, lease, mine = client(), new_id(), new_id()
    outcome(c.acquire(b"w/anew", "w0", lease_id=lease), stores.OK, stores.ACQUIRED, "free")
    waiter = Client(c.node)
    request = waiter.request()
    first = waiter.later("Acquire", request=request, **waiting_fields(b"w/anew", "w1", mine))
    wait_for("it waits", lambda: waiters(c, b"w/anew") == 1)
    first.cancel()
    wait_for("it left", lambda: waiters(c, b"w/anew") == 0)
    c.release(lease)
    fields = waiting_fields(b"w/anew", "w1", mine)
    got = outcome(waiter.ask("Acquire", request=request, **fields), stores.OK, stores.ACQUIRED, "free now")
    check(c.renew(got.lease_id)[0].code == stores.OK, "and held")


BAD = [
    ("an empty key", "Create", {"key": b""}, stores.KEY, "1-512 bytes"),
    ("a long key", "Create", {"key": b"k" * 513}, stores.KEY, "1-512 bytes"),
    ("a space in a key", "Create", {"key": b"a b"}, stores.KEY, "0x21-0x7e"),
    ("an empty segment", "Create", {"key": b"a//b"}, stores.KEY, "empty segment"),
    ("a leading slash", "Create", {"key": b"/b"}, stores.KEY, "empty segment"),
    ("a dot", "Create", {"key": b"a/.b"}, stores.KEY, "starts with '.'"),
    ("the reserved name", "Create", {"key": b"a/.group"}, stores.KEY, "reserved"),
    ("depth", "Create", {"key": b"/".join([b"a"] * 17)}, stores.KEY, "16 segments"),
    ("a large value", "Create", {"key": b"a", "value": b"v" * 1048577}, stores.VALUE_SIZE, "1048576"),
    ("a short TTL", "Create", {"key": b"a", "ttl_ms": 499, "owner": "w", "lease_id": b"l" * 16}, stores.TTL_RANGE,
     "500-86400000"),
    ("a long TTL", "Create", {"key": b"a", "ttl_ms": 86400001, "owner": "w", "lease_id": b"l" * 16},
     stores.TTL_RANGE, "500-86400000"),
    ("a negative TTL", "Create", {"key": b"a", "ttl_ms": -1, "owner": "w", "lease_id": b"l" * 16}, stores.TTL_RANGE,
     "500-86400000"),
    ("no owner", "Create", {"key": b"a", "ttl_ms": 1000, "lease_id": b"l" * 16}, stores.OWNER, "1-128 bytes"),
    ("a long owner", "Create", {"key": b"a", "ttl_ms": 1000, "owner": "w" * 129, "lease_id": b"l" * 16},
     stores.OWNER, "1-128 bytes"),
    ("a strange owner", "Create", {"key": b"a", "ttl_ms": 1000, "owner": "w w", "lease_id": b"l" * 16},
     stores.OWNER, "A-Z"),
    ("no lease id", "Create", {"key": b"a", "ttl_ms": 1000, "owner": "w"}, stores.HANDLE, "16"),
    ("a lease id of zeroes", "Create", {"key": b"a", "ttl_ms": 1000, "owner": "w", "lease_id": bytes(16)},
     stores.HANDLE, "16"),
    ("a client id", "Create", {"key": b"a", "request": {"client_id": b"c", "sequence": 1}}, stores.ARGUMENT, "16"),
    ("no sequence", "Create", {"key": b"a", "request": {"client_id": b"c" * 16}}, stores.ARGUMENT, "from 1"),
    ("a long group", "Acquire", {"group": b"g" * 481}, stores.GROUP, "1-480"),
    ("no slots", "Acquire", {"slot_count": 0}, stores.ARGUMENT, "1-1024"),
    ("many slots", "Acquire", {"slot_count": 1025}, stores.ARGUMENT, "1-1024"),
    ("flags", "Acquire", {"flags": 4}, stores.ARGUMENT, "flags"),
    ("a cooldown", "Acquire", {"cooldown_ms": 60001}, stores.ARGUMENT, "60000"),
    ("a wait", "Acquire", {"wait_ms": -1}, stores.ARGUMENT, "wait"),
    ("a resize", "Resize", {"group": b"g", "slot_count": 2000}, stores.ARGUMENT, "1-1024"),
    ("which to delete", "Delete", {"key": b"a"}, stores.ARGUMENT, "any or force"),
    ("a claim by put", "Put", {"key": b"muster/a"}, stores.KEY, "claims"),
    ("claims in a range", "DeleteRange", {"key": b"a", "range_end": b"\0"}, stores.KEY, "claims"),
]


def bad_input():
    """Every limit is named, and nothing is written."""
    c = client()
    before = c.ask("Status").revision
    for why, name, fields, reason, text in BAD:
        if name == "Acquire":
            fields = {"group": b"bad", "slot_count": 1, "prefer_slot": -1, "owner": "w", "ttl_ms": 1000,
                      "lease_id": b"l" * 16, **fields}
        got = outcome(c.ask(name, **fields), stores.INVALID, reason, why)
        check(text in got.text, f"{why}: '{got.text}' does not name {text}")
    for why, name, fields in (("ids", "Renew", {"lease_ids": [b"l" * 16] * 1025}),
                              ("an id", "Renew", {"lease_ids": [b"l"]}),
                              ("a key", "Get", {"key": b"a//b"}),
                              ("a group", "Holders", {"group": b""}),
                              ("a limit", "Range", {"key": b"a", "limit": 10001})):
        got, text, _ = code_of(lambda: c.ask(name, **fields))
        check(got == CODE.INVALID_ARGUMENT, f"{name} {why}: {got} {text}")
    check(c.ask("Status").revision == before, "nothing was written")


def plain_keys():
    """Plain keys: ranges, the past, compaction."""
    c = client()
    first = outcome(c.ask("Put", key=b"p/1", value=b"a"), stores.OK, stores.UPDATED, "put")
    for n in range(2, 6):
        c.ask("Put", key=f"p/{n}".encode(), value=b"v")
    c.ask("Put", key=b"p/1", value=b"b")
    got = c.ask("Range", key=b"p/", range_end=b"p0", limit=2)
    check([e.key for e in got.entries] == [b"p/1", b"p/2"] and got.count == 5 and got.more, f"{got}")
    check(c.ask("Range", key=b"p/1", revision=first.revision).entries[0].value == b"a", "the past")
    check(c.ask("Range", key=b"p/", range_end=b"p0", count_only=True).count == 5, "count")
    check([e.value for e in c.ask("Range", key=b"p/1", keys_only=True).entries] == [b""], "keys only")
    check(code_of(lambda: c.ask("Range", key=b"p/1", revision=1 << 50))[0] == CODE.OUT_OF_RANGE, "the future")
    gone = outcome(c.ask("DeleteRange", key=b"p/", range_end=b"p0"), stores.OK, stores.DELETED, "range")
    check(gone.live == 5, f"{gone}")
    outcome(c.ask("DeleteRange", key=b"p/1"), stores.NOT_FOUND, 0, "gone")
    outcome(c.ask("Compact", revision=gone.revision), stores.OK, 0, "compact")
    check(code_of(lambda: c.ask("Range", key=b"p/1", revision=first.revision))[0] == CODE.OUT_OF_RANGE, "compacted")
    outcome(c.ask("Compact", revision=gone.revision), stores.CONFLICT, stores.REVISION, "again")
    outcome(c.ask("Compact", revision=1 << 50), stores.INVALID, stores.ARGUMENT, "the future")


def followers():
    """Followers name the leader; serializable reads are anybody's."""
    c = client()
    revision = c.create(b"f/key", b"v").revision
    for node in CLUSTER.others(c.node):
        follower = Client(node)
        for name, fields in (("Create", {"key": b"f/x"}), ("Get", {"key": b"f/key"}),
                             ("Holders", {"group": b"f"}), ("Range", {"key": b"f"}),
                             ("Renew", {"lease_ids": [b"l" * 16]})):
            code, text, trailers = code_of(lambda: follower.ask(name, **fields))
            check(code == CODE.FAILED_PRECONDITION and trailers.get("x-muster-leader") == c.node.grpc,
                  f"{name}: {code} {text} {trailers}")
        wait_for("serializable", lambda: follower.get(b"f/key", serializable=True).entry.revision == revision)
        outcome(follower.create(b""), stores.INVALID, stores.KEY, "arguments are judged by anybody")


def one_identity():
    """The store has one identity, the same on every replica."""
    ids = {bytes(node.call(stores.STORE + "Status").store_id) for node in CLUSTER.nodes}
    check(len(ids) == 1 and ids.pop() != bytes(16), f"{ids}")
    states = [node.call(stores.STORE + "Status") for node in CLUSTER.nodes]
    check(sum(state.is_leader for state in states) == 1, f"{states}")


def many_at_once():
    """One key, 32 contenders: one creates it. One group of four: four hold it."""
    c, got, held = client(), [], []
    c.node.dialed()

    def contend(n):
        own = Client(c.node)
        got.append(own.create(b"race/key", str(n).encode()).code)
        held.append(own.acquire(b"race/group", f"w{n}", 4).code)
    threads = [threading.Thread(target=contend, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(sorted(got).count(stores.OK) == 1 and len(got) == 32, f"{got}")
    check(sorted(held).count(stores.OK) == 4 and len(held) == 32, f"{held}")
    CLUSTER.agree()


def metrics():
    """The numbers are on the page."""
    node = client().node
    page = wait_for("numbers", lambda: (lambda text: text if "muster_store_leases_expired_total" in text else None)(
        node.page("/metrics")[1]))
    for name in ("muster_store_revision", "muster_store_keys", "muster_store_waiters", "muster_store_renewals_total",
                 'muster_store_outcomes_total{code="invalid"}'):
        check(name in page, f"{name} is missing")


CASES = [create_once, a_repeat_is_answered, compare_and_set, leases_and_tokens, a_lease_ends, force, slots,
         first_come_first_served, a_wait_outlives_its_ttl, who_leaves_is_no_waiter, a_repeat_takes_its_place_up,
         a_cancelled_place_is_no_answer, bad_input, plain_keys, followers, one_identity, many_at_once, metrics]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases(CASES)
