#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""etcd's Lock and Election services (C6) by a stock client: on real etcd, and on the coordinators.

COMMON has the cases of both. Cases of the coordinators alone: a client that lost its key gets no lock (C6's rule, which etcd 3.4
does not have); a client that enters again writes its key again, so that an abandoned call deletes no other call's key; any
replica is asked; leaders die and hand over; a replica stops.
"""
import os
import shutil
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from etcds import (ELECTION, LEASE, LOCK, METHODS, PATIENCE, PATIENT, Client, Etcds, after, check, grpc,  # noqa: E402
                   message, patiently, refused, run_cases, wait_for)
from streams import Observe  # noqa: E402
import etcd_cluster  # noqa: E402

LONG = 600  # seconds: no test lasts so long
# etcd asks itself as a client would, and passes on the text alone.
NO_LEASE = (2, "etcdserver: requested lease not found")
NO_KEY = (2, "etcdserver: key is not provided")
NO_LEADER_KEY = (2, '"leader" field must be provided')
NOT_LEADER = (2, "election: not leader")
NO_LEADER = (2, "election: no leader")
TOO_LARGE = (2, "etcdserver: request is too large")
EXPIRED = (2, "mutex: session is expired")
STOPPED = (14, "etcdserver: server stopped")


class Locks(Client):
    def grant(self, ttl=LONG, lease=0):
        return self.call(LEASE + "LeaseGrant", TTL=ttl, ID=lease).ID

    def revoke(self, lease):
        return self.call(LEASE + "LeaseRevoke", ID=lease)

    def lock(self, name, lease, **more):
        return self.call(LOCK + "Lock", name=name, lease=lease, **more)

    def locking(self, name, lease, **more):
        return self.future(LOCK + "Lock", name=name, lease=lease, **more)

    def unlock(self, key):
        return self.call(LOCK + "Unlock", key=key)

    def campaign(self, name, lease, value=b"", **more):
        return self.call(ELECTION + "Campaign", name=name, lease=lease, value=value, **more)

    def campaigning(self, name, lease, value=b"", **more):
        return self.future(ELECTION + "Campaign", name=name, lease=lease, value=value, **more)

    def proclaim(self, leader, value):
        return self.call(ELECTION + "Proclaim", leader=leader, value=value)

    def resign(self, leader):
        return self.call(ELECTION + "Resign", leader=leader)

    def leader(self, name):
        return self.call(ELECTION + "Leader", name=name)

    def keys(self, name):
        """The keys of all who want the lock, the first one first."""
        found = self.range(name + b"/", after(name + b"/"), sort_order=1, sort_target=2).kvs
        return [one.key for one in found]

    def queued(self, name, *keys):
        """Exactly these clients wait, in this order; and the callers of this endpoint have their entries."""
        wait_for(f"{keys}", lambda: self.keys(name) == list(keys))


class Target:
    def __init__(self, name, address):
        self.name, self.address = name, address
        self.channel = grpc.insecure_channel(address, options=[("grpc.enable_retries", 0)])

    def client(self):
        return Locks(channel=self.channel)

    def again(self):
        """Revisions that it takes to come in once more."""
        return 0 if self.name == "etcd" else 1


def lock_and_unlock(target):
    """A lock that is free is its caller's at once, by the key name/lease; again it is the same key"""
    api = target.client()
    for lease in (api.grant(), api.grant(lease=-255)):
        key = b"lock/%s%x" % (b"-" * (lease < 0), abs(lease))
        before = api.revision()
        answer = api.lock(b"lock", lease)
        check(answer.key == key and answer.header.revision == before + 1, answer)
        held = api.range(key).kvs[0]
        check((held.lease, held.value, held.create_revision) == (lease, b"", before + 1), held)
        again = api.lock(b"lock", lease)
        check(again.key == key and again.header.revision == before + 1 + target.again(), again)
        check(api.range(key).kvs[0].create_revision == before + 1, "in its place")
        gone = before + 2 + target.again()
        check(api.unlock(key).header.revision == gone and api.get(key) is None, "unlocked")
        check(api.unlock(key).header.revision == gone, "what is not there can be unlocked, too")
    lease = api.grant()
    check(api.lock(b"", lease).key == b"/%x" % lease, "a name may be empty")
    api.put(b"said/%x" % lease, b"word", lease=lease)
    check(api.lock(b"said", lease).key == b"said/%x" % lease and api.get(b"said/%x" % lease) == b"word", "as it was")
    api.revoke(lease)


def without_lease(target):
    """A call without a lease gets a lease of a minute"""
    api = target.client()
    for answer in (api.lock(b"none", 0).key, api.campaign(b"none-e", 0, b"v").leader.key):
        held = api.range(answer).kvs[0]
        check(held.lease and answer.endswith(b"/%x" % held.lease), held)
        left = api.call(LEASE + "LeaseTimeToLive", ID=held.lease)
        check(left.grantedTTL == 60, left)
        api.revoke(held.lease)


def words(target):
    """What is refused, in etcd's words"""
    api = target.client()
    lease = api.grant()
    check(refused(lambda: api.lock(b"w", 4711)) == NO_LEASE, "a lease that is none")
    check(refused(lambda: api.campaign(b"w", 4711)) == NO_LEASE, "a lease that is none")
    check(refused(lambda: api.unlock(b"")) == NO_KEY, "no key")
    check(refused(lambda: api.call(ELECTION + "Proclaim", value=b"v")) == NO_LEADER_KEY, "no leader")
    check(refused(lambda: api.call(ELECTION + "Resign")) == NO_LEADER_KEY, "no leader")
    check(refused(lambda: api.proclaim({"lease": lease}, b"v")) == NO_KEY, "no key")
    check(refused(lambda: api.resign({"lease": lease})) == NO_KEY, "no key")
    check(refused(lambda: api.leader(b"w")) == NO_LEADER, "nobody")
    check(refused(lambda: api.campaign(b"w", lease, b"v" * (1600 << 10)))[0] == 2, "too large")
    check(api.keys(b"w") == [], "nothing was done")
    api.revoke(lease)


def in_order(target):
    """100 wait: each gets the lock when the one created before it leaves, and no other does then"""
    api = target.client()
    leases = {b"fifo/%x" % lease: lease for lease in (api.grant() for _ in range(101))}
    waits = {key: api.locking(b"fifo", lease, timeout=20 * PATIENCE) for key, lease in leases.items()}
    wait_for("all to come in", lambda: len(api.keys(b"fifo")) == 101)
    order = api.keys(b"fifo")
    for i, key in enumerate(order):
        answer = waits[key].result(PATIENCE)
        check(answer.key == key, answer)
        late = [other for other in order[i + 1:] if waits[other].done()]
        check(not late, f"{late} have the lock beside {key}")
        api.unlock(key)
    for lease in leases.values():
        api.revoke(lease)


def gone(target):
    """A waiter that hangs up leaves the queue, and the next one moves up"""
    api = target.client()
    holder, lost, last = (api.grant() for _ in range(3))
    held = api.lock(b"gone", holder).key
    other = Locks(channel=grpc.insecure_channel(target.address, options=[("grpc.use_local_subchannel_pool", 1)]))
    hung = other.locking(b"gone", lost)
    api.queued(b"gone", held, b"gone/%x" % lost)
    waits = api.locking(b"gone", last)
    api.queued(b"gone", held, b"gone/%x" % lost, b"gone/%x" % last)
    hung.cancel()
    other.channel.close()
    api.queued(b"gone", held, b"gone/%x" % last)
    check(not waits.done(), "the lock is held")
    api.unlock(held)
    check(waits.result(PATIENCE).key == b"gone/%x" % last, "its turn")
    for lease in (holder, lost, last):
        api.revoke(lease)


def passed_on(target):
    """A lease that ends, by its time or by hand, passes the lock on"""
    api = target.client()
    revoked, last = api.grant(), api.grant()
    wait_for("a short lock", lambda: refused(lambda: api.lock(b"pass", api.grant(2))) == (0, ""))  # we may be paused
    waits = [api.locking(b"pass", revoked)]
    wait_for("the first to come in", lambda: b"pass/%x" % revoked in api.keys(b"pass"))
    waits.append(api.locking(b"pass", last))
    check(waits[0].result(PATIENCE).key == b"pass/%x" % revoked, "its turn")
    wait_for("the second to come in", lambda: api.keys(b"pass")[-1] == b"pass/%x" % last)
    check(not waits[1].done(), "not yet")
    before = api.revoke(revoked).header.revision
    answer = waits[1].result(PATIENCE)
    check(answer.key == b"pass/%x" % last and answer.header.revision >= before, answer)
    api.revoke(last)


def elections(target):
    """Campaign, Leader, Proclaim, Resign; a former leader cannot proclaim, and can resign"""
    api = target.client()
    one, two = api.grant(), api.grant()
    key = b"el/%x" % one
    before = api.revision()
    won = api.campaign(b"el", one, b"v1")
    mine = won.leader
    check((mine.name, mine.key, mine.rev, mine.lease) == (b"el", key, before + 1, one), won)
    check(won.header.revision == before + 1, won)
    kv = api.leader(b"el").kv
    check((kv.key, kv.value, kv.lease, kv.create_revision) == (key, b"v1", one, mine.rev), kv)
    before += target.again()
    check(api.campaign(b"el", one, b"v1").leader == mine and api.revision() == before + 1, "it is elected")
    check(api.campaign(b"el", one, b"v2").leader == mine and api.leader(b"el").kv.value == b"v2", "and says more")
    check(api.proclaim(mine, b"v3").header.revision == before + 3, "proclaimed")
    kv = api.leader(b"el").kv
    check((kv.value, kv.version, kv.lease) == (b"v3", 3 + target.again(), one), kv)
    later = {"name": b"el", "key": key, "rev": mine.rev + 1, "lease": one}
    check(refused(lambda: api.proclaim(later, b"v4")) == NOT_LEADER, "another time")
    check(refused(lambda: api.proclaim({**later, "rev": mine.rev, "lease": 4711}, b"v4")) == NO_LEASE, "another lease")
    check(api.resign(later).header.revision == before + 3, "not the leader: nothing is done")
    waits = api.campaigning(b"el", two, b"w1")
    api.queued(b"el", key, b"el/%x" % two)
    check(api.leader(b"el").kv.key == key and not waits.done(), "the first leads")
    check(api.resign(mine).header.revision == before + 5, "resigned")
    answer = waits.result(PATIENCE)
    check((answer.leader.key, answer.leader.rev) == (b"el/%x" % two, before + 4), answer)
    check(answer.header.revision == before + 4, "of when it came in")
    check(refused(lambda: api.proclaim(mine, b"v5")) == NOT_LEADER, "it does not lead any more")
    check(api.resign(mine).header.revision == before + 5, "again")
    check(api.leader(b"el").kv.value == b"w1", "untouched")
    api.revoke(two)
    check(refused(lambda: api.leader(b"el")) == NO_LEADER, "with its lease")
    api.revoke(one)


def observed(target):
    """Observe sends every leader once, and every word of it, in order"""
    api = target.client()
    one, two = api.grant(), api.grant()
    first, second = b"ob/%x" % one, b"ob/%x" % two
    empty = Observe(api, b"ob")
    mine = api.campaign(b"ob", one, b"a").leader
    empty.until((first, b"a"))
    for word in (b"b", b"b", b"c"):
        api.proclaim(mine, word)
    said = [(first, word) for word in (b"a", b"b", b"b", b"c")]
    empty.until(*said)
    late = Observe(api, b"ob")
    late.until((first, b"c"))
    waits = api.campaigning(b"ob", two, b"x")
    api.queued(b"ob", first, second)
    api.put(b"ob-not", b"another name")
    api.resign(mine)
    theirs = waits.result(PATIENCE).leader
    empty.until(*said, (second, b"x"))
    api.proclaim(theirs, b"y")
    empty.until(*said, (second, b"x"), (second, b"y"))
    api.revoke(two)
    wait_for("nobody to lead", lambda: refused(lambda: api.leader(b"ob")) == NO_LEADER)
    api.campaign(b"ob", one, b"z")
    late.until((first, b"c"), (second, b"x"), (second, b"y"), (first, b"z"))
    empty.until(*said, (second, b"x"), (second, b"y"), (first, b"z"))
    check(empty.received[-1].kv.create_revision == empty.received[-1].header.revision, "with the header of its own time")
    empty.call.cancel()
    check(empty.ended()[0] == 1, "ended by us")
    late.call.cancel()
    api.revoke(one)


COMMON = [lock_and_unlock, without_lease, words, gone, passed_on, elections, observed]


def cases_of(target, cases=COMMON):
    def bound(case):
        def run():
            case(target)
        run.__name__, run.__doc__ = f"{target.name}_{case.__name__}", f"{target.name}: {case.__doc__}"
        return run
    return [bound(case) for case in cases]


def expired_of(target):
    def expired():
        """A waiter that loses its key is answered at once, and never has the lock"""
        api = target.client()
        holder, lease = api.grant(), api.grant()
        api.lock(b"x", holder)
        api.campaign(b"xe", holder)
        for waits, name, want in ((api.locking, b"x", EXPIRED), (api.campaigning, b"xe", NOT_LEADER)):
            lost = waits(name, lease)
            wait_for("it to come in", lambda: len(api.keys(name)) == 2)
            api.delete(name + b"/%x" % lease)
            check(refused(lambda: lost.result(PATIENCE)) == want, "it has lost its place")
        lease = api.grant(2)
        lost = api.locking(b"x", lease)
        check(refused(lambda: lost.result(PATIENCE)) in (EXPIRED, NO_LEASE), "by its lease; if we were paused, before")
        check(len(api.keys(b"x")) == 1, "the holder alone")
        api.revoke(holder)
    return expired


def too_late_of(target):
    def too_late():
        """A waiter whose deadline passes leaves the queue, also when it has just entered"""
        api = target.client()
        holder = api.grant()
        held, won = api.lock(b"late", holder).key, api.campaign(b"late-e", holder, b"v").leader.key
        # Each with a lease of its own: with one for all, a call that comes in late keeps the key of the one before it.
        leases = [api.grant() for _ in range(3)]
        for seconds, lease in zip((0.001, 0.01, 0.1), leases):
            received = (refused(lambda: api.lock(b"late", lease, timeout=seconds)),
                    refused(lambda: api.campaign(b"late-e", lease, b"w", timeout=seconds)))
            check([code for code, _ in received] == [4, 4], f"their time is up: {received}")
        # What came in after we were answered has left by the time that this one has: they go one behind the other.
        last = api.grant()
        for name, key, waits in ((b"late", held, api.locking(b"late", last)), (b"late-e", won, api.campaigning(b"late-e", last))):
            api.queued(name, key, name + b"/%x" % last)
            waits.cancel()
            api.queued(name, key)
        for one in (holder, *leases, last):
            api.revoke(one)
    return too_late


def any_replica_of(cluster):
    def any_replica():
        """Any replica serves a lock, an election and its leaders; a client that hangs up at one leaves at all"""
        leader = cluster.leader()
        apis = [Locks(node) for node in (leader, *cluster.others(leader))]
        leases = [apis[i].grant() for i in range(3)]
        keys = [b"any/%x" % lease for lease in leases]
        for first in range(3):
            order = [(first + i) % 3 for i in range(3)]
            waits = []
            for i, at in enumerate(order):
                waits.append(apis[at].locking(b"any", leases[at]))
                apis[at].queued(b"any", *(keys[j] for j in order[:i + 1]))
            for i, at in enumerate(order):
                check(waits[i].result(PATIENCE).key == keys[at] and not any(w.done() for w in waits[i + 1:]), order)
                apis[at].unlock(keys[at])
        follower = apis[1]
        watches = [Observe(api, b"any-e") for api in apis]
        held = follower.lock(b"any", leases[0]).key
        won = follower.campaign(b"any-e", leases[1], b"v").leader
        apis[2].proclaim(won, b"w")
        check(apis[2].leader(b"any-e").kv.value == b"w", "any names the leader")
        for watch in watches:
            wait_for("the last word", lambda: watch.received and watch.received[-1].kv.value == b"w")
            check(not watch.failure and len(watch.received) <= 2, watch.received)
        check(follower.lock(b"none", 0).key.startswith(b"none/"), "a lease is granted there, too")
        check(refused(lambda: follower.lock(b"any", 4711)) == NO_LEASE, "refused there, too")
        for api in apis:
            check(refused(lambda: api.lock(b"n" * 1020, leases[0])) == TOO_LARGE, "keys have 1,024 bytes")
        lost = follower.locking(b"any", leases[2])
        follower.queued(b"any", held, keys[2])
        lost.cancel()
        apis[0].queued(b"any", held)
        page = leader.page("/metrics")[1]
        check("muster_store_lock_grants_total" in page and "muster_store_lock_waiters" in page, "counted")
    return any_replica


def given_up_at_one_replica_of(cluster):
    def given_up_at_one_replica():
        """A client that repeats its call at another replica with the same lease keeps its place, and the lock"""
        leader = cluster.leader()
        one, two = (Locks(node) for node in cluster.others(leader))
        api = Locks(leader)
        holder, lease, later, last = (api.grant() for _ in range(4))
        held, key, behind = api.lock(b"up", holder).key, b"up/%x" % lease, b"up/%x" % later
        hung = one.locking(b"up", lease)
        one.queued(b"up", held, key)
        waits_behind = api.locking(b"up", later)
        one.queued(b"up", held, key, behind)
        came = one.range(key).kvs[0].mod_revision
        again = two.locking(b"up", lease)
        wait_for("it to come in again", lambda: one.range(key).kvs[0].mod_revision > came)
        hung.cancel()
        # What it left behind is cleaned up by the time that this one's is: they go one behind the other.
        other = one.locking(b"up", last)
        one.queued(b"up", held, key, behind, b"up/%x" % last)
        other.cancel()
        api.queued(b"up", held, key, behind)
        api.unlock(held)
        check(again.result(PATIENCE).key == key and not waits_behind.done(), "its place")
        api.unlock(key)
        waits_behind.result(PATIENCE)
        for each in (holder, lease, later, last):
            api.revoke(each)
    return given_up_at_one_replica


def leader_hands_over_of(cluster):
    def leader_hands_over():
        """A waiter at the leader keeps waiting when another replica becomes leader"""
        leader = cluster.leader()
        heir = cluster.others(leader)[0]
        api = Locks(leader)
        holder, waiter = api.grant(), api.grant()
        held = api.lock(b"over", holder).key
        waits, watch = api.locking(b"over", waiter), Observe(api, b"over")
        api.queued(b"over", held, b"over/%x" % waiter)
        watch.until((held, b""))
        cluster.asked("muster.v1.Fleet/TransferLeadership", replica=heir.name)
        patiently(lambda: Locks(heir).unlock(held))
        check(waits.result(PATIENCE).key == b"over/%x" % waiter, "its turn")
        watch.until((held, b""), (b"over/%x" % waiter, b""))
    return leader_hands_over


def replica_stops_of(cluster):
    def replica_stops():
        """A replica that stops ends the calls of waiters and observers; with its lease a waiter has its place at another"""
        leader = cluster.leader()
        leaves, other = cluster.others(leader)
        api, there = Locks(leader), Locks(leaves)
        holder, waiter, later = (api.grant() for _ in range(3))
        held = api.lock(b"stop", holder).key
        waits, watch = there.locking(b"stop", waiter), Observe(there, b"stop")
        there.queued(b"stop", held, b"stop/%x" % waiter)
        watch.until((held, b""))
        after_it = api.locking(b"stop", later)
        api.queued(b"stop", held, b"stop/%x" % waiter, b"stop/%x" % later)
        leaves.stop()
        check(refused(lambda: waits.result(PATIENCE)) == STOPPED and watch.ended() == STOPPED, watch.failure)
        api.queued(b"stop", held, b"stop/%x" % waiter, b"stop/%x" % later)
        again = Locks(other).locking(b"stop", waiter)
        api.unlock(held)
        check(again.result(PATIENCE).key == b"stop/%x" % waiter and not after_it.done(), "its place")
        api.unlock(b"stop/%x" % waiter)
        after_it.result(PATIENCE)
    return replica_stops


def leader_dies_after(others):
    def leader_dies():
        """A waiter at a follower keeps waiting when the leader dies, and gets its turn; an observer continues, too"""
        others.__exit__(None, None, None)   # these take their addresses
        with Etcds(3, ("--election", "5s")) as cluster:
            dies(cluster.ready())
    return leader_dies


def dies(cluster):
    leader = cluster.leader()
    one, two = (Locks(node) for node in cluster.others(leader))
    holder, first, second = (patiently(lambda: one.grant()) for _ in range(3))
    held = patiently(lambda: one.lock(b"dies", holder)).key
    watch = Observe(two, b"dies")
    watch.until((held, b""))
    waits = [one.locking(b"dies", first)]
    wait_for("the first", lambda: patiently(lambda: one.keys(b"dies"))[1:] == [b"dies/%x" % first])
    waits.append(two.locking(b"dies", second))
    wait_for("the second", lambda: patiently(lambda: two.keys(b"dies"))[2:] == [b"dies/%x" % second])
    leader.kill()
    patiently(lambda: one.unlock(held))
    check(waits[0].result(PATIENCE).key == b"dies/%x" % first, "its turn")
    check(not waits[1].done(), "one at a time")
    patiently(lambda: one.unlock(b"dies/%x" % first))
    check(waits[1].result(PATIENCE).key == b"dies/%x" % second, "its turn")
    watch.until((held, b""), (b"dies/%x" % first, b""), (b"dies/%x" % second, b""))


def main():
    with Etcds(3, PATIENT) as cluster:
        cluster.ready()
        leader = cluster.leader()
        target = Target("muster", cluster.others(leader)[0].etcd)    # who asks the leader for every step
        # A follower hears of each change with the next heartbeat: a hundred of them take seconds.
        cases = [*cases_of(target), *cases_of(Target("muster", leader.etcd), [in_order]), expired_of(target),
                 too_late_of(target), any_replica_of(cluster), given_up_at_one_replica_of(cluster),
                 leader_hands_over_of(cluster), replica_stops_of(cluster), leader_dies_after(cluster)]
        if not shutil.which("etcd"):
            run_cases(cases)
            return
        with etcd_cluster.Cluster() as etcd:
            run_cases(cases_of(Target("etcd", f"127.0.0.1:{etcd.ports[0]}"), [*COMMON, in_order]) + cases)


if __name__ == "__main__":
    main()
