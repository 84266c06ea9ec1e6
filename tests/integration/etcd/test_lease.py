#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""D13 of spec/coordination.md, leases, by a stock client: on real etcd as far as it goes, and on the coordinators.

C10's incidents of leases: a list with entries that cannot be revoked (V08), what is left of a lease starting anew with
each leader, a lease that a paused replica ends (both: three_leaders).
"""
import os
import shutil
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from etcds import (Client, Etcds, LEASE, LEASE_NOT_FOUND, PATIENT, after, check, grpc,  # noqa: E402
                   patiently, refused, run_cases, wait_for)
from streams import KeepAlive, Watch, shown  # noqa: E402
import etcd_cluster  # noqa: E402

LEASE_EXISTS = (9, "etcdserver: lease already exists")
LEASE_TTL = (11, "etcdserver: too large lease TTL")
LONG = 600  # seconds: no test lasts so long


class Leases(Client):
    def grant(self, ttl=LONG, lease=0):
        return self.call(LEASE + "LeaseGrant", TTL=ttl, ID=lease)

    def revoke(self, lease):
        return self.call(LEASE + "LeaseRevoke", ID=lease)

    def left(self, lease, keys=False):
        return self.call(LEASE + "LeaseTimeToLive", ID=lease, keys=keys)

    def list(self):
        return [one.ID for one in self.call(LEASE + "LeaseLeases").leases]


class Target:
    def __init__(self, name, address, real):
        self.name, self.address, self.real = name, address, real
        self.channel = grpc.insecure_channel(address, options=[("grpc.enable_retries", 0)])

    def client(self):
        return Leases(channel=self.channel)


def v01_minimum(target):
    """V01: a TTL of 0 or 1 is raised to 2 and answered; one too large is refused, the largest is not"""
    api = target.client()
    for ttl in (-5, 0, 1, 2):
        answer = api.grant(ttl)
        check(answer.TTL == 2, answer)
    check(api.grant(3).TTL == 3, "as asked for")
    check(refused(lambda: api.grant(9000000001)) == LEASE_TTL, "too large")
    largest = api.grant(9000000000)
    check(largest.TTL == 9000000000 and api.left(largest.ID).grantedTTL == 9000000000, largest)
    api.revoke(largest.ID)


def v02_ids(target):
    """V02: an id twice is code 9; 0 gives a positive id; any other number is an id"""
    api = target.client()
    chosen = api.grant()
    check(chosen.ID > 0, chosen)
    for lease in (4242, -4242, 2**63 - 1, -2**63):
        check(api.grant(lease=lease).ID == lease, lease)
        check(refused(lambda: api.grant(lease=lease)) == LEASE_EXISTS, lease)
        api.put(b"v02", lease=lease)
        check(api.range(b"v02").kvs[0].lease == lease, "as it was given")
        check(lease in api.list(), "listed")
        api.revoke(lease)
        check(api.get(b"v02") is None, "gone with it")
    api.revoke(chosen.ID)


def v03_unknown(target):
    """V03: a keep-alive of an unknown id is answered TTL 0, and the stream goes on"""
    api = target.client()
    lease = api.grant(77).ID
    with KeepAlive(api) as keep:
        check(keep.beat(31415926).TTL == 0, keep.responses)
        answer = keep.beat(lease)
        check((answer.ID, answer.TTL) == (lease, 77), answer)
        api.revoke(lease)
        check(keep.beat(lease).TTL == 0 and keep.failure is None, keep.responses)


def v04_left(target):
    """V04: time-to-live of an unknown id is -1; with keys it lists them"""
    api = target.client()
    answer = api.left(27182818, keys=True)
    check((answer.ID, answer.TTL, answer.grantedTTL, list(answer.keys)) == (27182818, -1, 0, []), answer)
    lease = api.grant(LONG).ID
    for i in (2, 0, 1):
        api.put(b"v04/%d" % i, lease=lease)
    answer = api.left(lease, keys=True)
    check(sorted(answer.keys) == [b"v04/0", b"v04/1", b"v04/2"], answer)
    check(0 < answer.TTL <= LONG and answer.grantedTTL == LONG, answer)
    check(not api.left(lease).keys, "only when asked")
    api.delete(b"v04/1")
    check(sorted(api.left(lease, keys=True).keys) == [b"v04/0", b"v04/2"], "a deleted key is not its")
    api.revoke(lease)


def v05_revoke(target):
    """V05: revoked: keys gone at one revision; again: code 5"""
    api = target.client()
    lease = api.grant().ID
    for i in range(20):
        api.put(b"v05/%d" % i, lease=lease)
    before = api.revision()
    answer = api.revoke(lease)
    check(answer.header.revision == before + 1, answer)
    check(api.range(b"v05/", after(b"v05/")).count == 0, "gone")
    check(refused(lambda: api.revoke(lease)) == LEASE_NOT_FOUND, "again")
    check(refused(lambda: api.put(b"v05", lease=lease)) == LEASE_NOT_FOUND, "and nothing is put under it")
    empty = api.grant().ID
    check(api.revoke(empty).header.revision == before + 1, "without keys no revision")


def v06_moves(target):
    """V06: a put moves a key from one lease to another; the end of the first leaves it"""
    api = target.client()
    one, two = api.grant().ID, api.grant().ID
    api.put(b"v06", lease=one)
    api.put(b"v06", b"moved", lease=two)
    check(not api.left(one, keys=True).keys and list(api.left(two, keys=True).keys) == [b"v06"], "moved")
    api.revoke(one)
    check(api.get(b"v06") == b"moved", "it stays")
    api.revoke(two)
    check(api.get(b"v06") is None, "it goes")


def v07_let_go(target):
    """V07: a put without a lease lets the key go: it survives"""
    api = target.client()
    lease = api.grant().ID
    api.put(b"v07", lease=lease)
    api.put(b"v07", b"free")
    api.revoke(lease)
    check(api.get(b"v07") == b"free", "it stays")


def v08_list(target):
    """V08: after the ends nothing is listed that was; what is listed can be revoked"""
    api = target.client()
    mine = {api.grant(LONG).ID for _ in range(50)} | {api.grant(2).ID for _ in range(50)}
    check(mine >= set(api.list()) & mine, "listed")
    wait_for("the short ones to end", lambda: len(set(api.list()) & mine) == 50)
    for lease in set(api.list()) & mine:
        api.revoke(lease)
    check(not set(api.list()) & mine, "no ghosts")


def v09_many(target):
    """V09: 10,000 keep-alives on one stream are answered in order; a stream that is done with asking ends as OK"""
    api = target.client()
    leases = [api.grant(LONG).ID for _ in range(20)]
    with KeepAlive(api) as keep:
        for i in range(10000):
            keep.ask(ID=leases[i % 20] if i % 7 else 5)
        keep.requests.put(None)
        received = keep.until("all", lambda all_: len(all_) == 10000 and all_)
        check([r.ID for r in received] == [leases[i % 20] if i % 7 else 5 for i in range(10000)], "in order")
        check(all(r.TTL == (LONG if i % 7 else 0) for i, r in enumerate(received)), "each its own")
        check(keep.ended() == (0, ""), keep.failure)
    for lease in leases:
        api.revoke(lease)


def never_reads(target):
    """A stream that sends and does not read delays no other; its answers come in order when it reads"""
    api = target.client()
    lease = api.grant(LONG).ID
    deaf_channel = grpc.insecure_channel(target.address, options=[("grpc.use_local_subchannel_pool", 1)])
    with KeepAlive(Leases(channel=deaf_channel), deaf=True) as deaf, KeepAlive(api) as other:
        for i in range(20000):
            deaf.ask(ID=lease if i % 3 else i)
        for _ in range(20):
            check(other.beat(lease).TTL == LONG, "others are answered")
        deaf.hear()
        received = deaf.until("all", lambda all_: len(all_) == 20000 and all_)
        check([r.ID for r in received] == [lease if i % 3 else i for i in range(20000)], "in order")
    api.revoke(lease)


def v10_lives(target):
    """V10: a lease answered with TTL n lives n from then on; whose stream is silent ends, and its keys are sent as deleted"""
    api = target.client()
    before = time.monotonic()
    kept, left = api.grant(2).ID, api.grant(2).ID
    api.put(b"v10/kept", lease=kept)
    api.put(b"v10/left", lease=left)
    with Watch(api) as watch, KeepAlive(api) as keep:
        watch.create(b"v10/", after(b"v10/"))
        while not watch.received(0):
            sent = time.monotonic()
            if keep.beat(kept).TTL == 0:    # this machine was paused
                check(time.monotonic() - before >= 2, "it was renewed less than its time ago")
                break
            before = sent
            time.sleep(0.2)
        watch.until("the end of it", lambda _: ("DELETE", b"v10/left") in [one[:2] for one in shown(watch.events(0, 1))])


COMMON = [v01_minimum, v02_ids, v03_unknown, v04_left, v05_revoke, v06_moves, v07_let_go, v08_list, v09_many, never_reads, v10_lives]


def cases_of(target):
    def bound(case):
        def run():
            case(target)
        run.__name__, run.__doc__ = f"{target.name}_{case.__name__}", f"{target.name}: {case.__doc__}"
        return run
    return [bound(case) for case in COMMON]


def once(node, lease):
    """One keep-alive on a stream of its own; False: it is to be tried again."""
    with KeepAlive(Leases(node)) as keep:
        keep.ask(ID=lease)
        keep.requests.put(None)
        code, text = keep.ended()
        check(code in (0, 14), f"{code} {text}")
        check(code == 14 or keep.responses[0].TTL == LONG, keep.responses)
        return code == 0


def three_leaders():
    """Any of three replicas keeps a lease alive; what is left of it goes on over a change of leaders"""
    with Etcds(3, PATIENT) as cluster:
        cluster.ready()
        apis = [Leases(node) for node in cluster.nodes]
        lease, quiet = apis[1].grant(LONG).ID, apis[2].grant(LONG).ID
        apis[0].put(b"three", lease=lease)
        for api in apis:
            with KeepAlive(api) as keep:
                check(keep.beat(lease).TTL == LONG, keep.responses)
                keep.requests.put(None)
                check(keep.ended() == (0, ""), "a stream passed on ends as one that is not")
            check(set(api.list()) == {lease, quiet} and list(api.left(lease, keys=True).keys) == [b"three"], "anywhere")
        seen = [apis[0].left(quiet).TTL]
        for _ in range(2):
            leader = cluster.leader()
            follower = cluster.others(leader)[0]
            with KeepAlive(Leases(follower)) as passed, KeepAlive(Leases(leader)) as own:
                check(passed.beat(lease).TTL == LONG and own.beat(lease).TTL == LONG, "both")
                cluster.asked("muster.v1.Fleet/TransferLeadership", replica=follower.name)
                check(own.ended()[0] == 14 and passed.ended()[0] == 14, (own.failure, passed.failure))
            seen.append(patiently(lambda: apis[0].left(quiet)).TTL)
            wait_for("a keep-alive at the new leader", lambda: once(follower, lease))
        check(seen == sorted(seen, reverse=True), f"it never starts anew: {seen}")


def main():
    with Etcds(1, PATIENT, join=False, first=5) as cluster:    # beside others that begin with 0
        cluster.ready()
        cases = cases_of(Target("muster", cluster.nodes[0].etcd, False)) + [three_leaders]
        if not shutil.which("etcd"):
            run_cases(cases)
            return
        with etcd_cluster.Cluster() as etcd:
            run_cases(cases_of(Target("etcd", f"127.0.0.1:{etcd.ports[0]}", True)) + cases)


if __name__ == "__main__":
    main()
