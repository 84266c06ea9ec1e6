#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""etcd's API of three replicas: any of them is asked, some of them die."""
import signal
import threading

from etcds import (COMPACTED, EQUAL, KV, LEASE, LOCK, NO_LEADER, PASSING, PATIENCE, VERSION, Client, Etcds, after, check,
                   code_of, compare, grpc, op_put, op_range, patiently, refused, run_cases, wait_for)
from streams import Observe, Watch

CODE = grpc.StatusCode
REMOVED = (14, "etcdserver: server stopped: this replica was removed from the cluster")


def any_replica():
    """Every request to any replica, at either port, is answered as by one server"""
    with Etcds(3) as cluster:
        cluster.ready()
        asked = [Client(node, port) for node in cluster.nodes for port in ("etcd", "grpc")]
        last = 0
        for number, kv in enumerate(asked * 3):
            key = b"any/%02d" % number
            answer = patiently(lambda: kv.put(key, b"v"))
            check(answer.header.revision > last, f"{last} then {answer.header}")
            last = answer.header.revision
            for other in asked:
                got = patiently(lambda: other.range(key))
                check(got.count == 1 and got.header.revision >= last, f"a write that was answered is seen by all: {got}")
        for number, kv in enumerate(asked):
            answer = patiently(lambda: kv.txn([compare(b"any/00", VERSION, EQUAL, 1)], [op_range(b"any/", after(b"any/"))]))
            check(answer.succeeded and answer.responses[0].response_range.count == 18, f"{answer}")
            check(patiently(lambda: kv.range(b"any/", after(b"any/"), count_only=True, serializable=True)) is not None, "")
        wait_for("each answers serializable reads itself, once it has what it answered", lambda: len({
            patiently(lambda: kv.range(b"any/00", serializable=True)).header.member_id for kv in asked}) == 3)
        ids = {patiently(lambda: kv.range(b"any/00")).header.cluster_id for kv in asked}
        check(len(ids) == 1, f"one cluster: {ids}")
        patiently(lambda: asked[-1].delete(b"any/", after(b"any/")))
        cluster.agree()


def own_writes():
    """A client finds its write at once at the replica that it used, serializable, too; a later watch does not report it"""
    with Etcds(3) as cluster:
        cluster.ready()
        for node in cluster.nodes:
            # hasleader: a replica without a leader returns an error instead of its own state
            kv, key = Client(node, metadata=(("hasleader", "true"),)), b"own/" + node.name.encode()
            for number in range(20):
                value = b"%d" % number
                patiently(lambda: kv.put(key, value))
                check(patiently(lambda: kv.get(key, serializable=True)) == value, f"{node.name} shows what is older: {number}")
                reads = patiently(lambda: kv.txn([], [op_range(key, serializable=True)])).responses[0].response_range
                check(reads.kvs[0].value == value, f"{node.name} in a transaction: {number}")
            with Watch(kv) as watch:
                patiently(lambda: kv.put(key, b"before"))
                now_on = watch.create(key).watch_id
                patiently(lambda: kv.put(key, b"after"))
                check(watch.events(now_on, 1)[0].kv.value == b"after", f"{node.name} sends what was before")


def minority():
    """T11: alone of three: serializable reads are answered, linearizable ones and writes are 14; hasleader refuses both"""
    with Etcds(3) as cluster:
        cluster.ready()
        leader = cluster.leader()
        patiently(lambda: Client(leader).put(b"t11/k", b"v"))
        alone = cluster.others(leader)[0]
        kv = Client(alone)
        wait_for("it is applied there", lambda: kv.range(b"t11/k", serializable=True).count == 1)
        for node in cluster.others(alone):
            node.signal(signal.SIGKILL)
            node.wait_end()
        check(kv.get(b"t11/k", serializable=True) == b"v", "its own view")
        check(kv.txn([], [op_range(b"t11/k", serializable=True)]).responses[0].response_range.count == 1, "in a transaction")
        for why, ask in (("range", lambda: kv.range(b"t11/k")), ("put", lambda: kv.put(b"t11/k", b"w")),
                         ("compact", lambda: kv.compact(2)), ("txn", lambda: kv.txn([], [op_put(b"t11/k", b"w")])),
                         ("a txn that reads", lambda: kv.txn([], [op_range(b"t11/k")]))):
            code, text = refused(ask)
            check(code == 14 and text.startswith("etcdserver: "), f"{why}: {code} {text}")
        strict = Client(alone, metadata=(("hasleader", "true"),))
        wait_for("nobody leads", lambda: refused(lambda: strict.range(b"t11/k", serializable=True)) == NO_LEADER)
        for node in cluster.others(alone):
            node.start()
        check(patiently(lambda: strict.range(b"t11/k")).count == 1, "again")


def the_same_everywhere():
    """T22, C10: a transaction that reads a compacted revision is refused by all alike; replicas do not differ"""
    with Etcds(3) as cluster:
        cluster.ready()
        kv = Client(cluster.nodes[0])
        for number in range(20):
            at = patiently(lambda: kv.put(b"t22/%d" % (number % 5), b"%d" % number)).header.revision
        patiently(lambda: kv.compact(at - 3))
        before = patiently(kv.revision)
        for node in cluster.nodes:
            asked = Client(node)

            def ask():
                answer = refused(lambda: asked.txn([], [op_put(b"t22/new"), op_range(b"t22/1", revision=at - 9)]))
                return answer if answer[0] != 14 else None
            check(wait_for("an answer", ask) == COMPACTED, f"{node.name}")
        check(patiently(kv.revision) == before and patiently(lambda: kv.range(b"t22/new")).count == 0, "nothing was done")
        cluster.agree()
        patiently(lambda: kv.txn([], [op_range(b"t22/1", revision=at - 3), op_put(b"t22/new")]))
        cluster.agree()


def writes_that_were_answered(cluster, rounds):
    """Writers count up in keys of their own while replicas are killed; every acknowledged value is there."""
    seen, stop, last = {}, threading.Event(), [0]

    def write(number):
        node, value = cluster.nodes[number % len(cluster.nodes)], 0
        kv = Client(channel=cluster.dial_etcd(node.etcd))
        while not stop.is_set():
            value += 1
            try:
                answer = kv.call(KV + "Put", timeout=5, key=b"acked/%d" % number, value=b"%d" % value)
            except grpc.RpcError as error:
                check(error.code() in PASSING, f"{error}")
                kv.channel.close()  # one that was refused once waits for seconds
                stop.wait(0.05)
                kv = Client(channel=cluster.dial_etcd(node.etcd))
                continue
            seen[number] = value
            last[0] = max(last[0], answer.header.revision)
        kv.channel.close()
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    try:
        for node in rounds():
            count = sum(seen.values())
            wait_for("writes go on", lambda: sum(seen.values()) > count + 50)
            node.signal(signal.SIGKILL)
            node.process.wait()
            node.start()
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    kv = Client(channel=cluster.dial_etcd(cluster.nodes[0].etcd))
    for number, value in seen.items():
        got = int(patiently(lambda: kv.get(b"acked/%d" % number)))
        check(got >= value, f"{number}: {value} was answered, {got} is there")
    check(patiently(kv.revision) >= last[0], f"{last[0]} was answered, and revisions went back")


def killed_alone():
    """C10: a single replica that is killed has every write it answered, and its revision does not go back"""
    with Etcds(1, join=False) as cluster:
        cluster.ready()
        writes_that_were_answered(cluster, lambda: cluster.nodes * 3)


def killed_leaders():
    """C10: leaders are killed under load: nothing that was answered is lost, replicas end alike"""
    with Etcds(3) as cluster:
        cluster.ready()
        writes_that_were_answered(cluster, lambda: (cluster.leader() for _ in range(3)))
        cluster.agree()


def doubt():
    """A write that was under way when its leader died is 14, never a definite no"""
    with Etcds(3) as cluster:
        cluster.ready()
        leader = cluster.leader()
        kv = Client(cluster.others(leader)[0])
        patiently(lambda: kv.put(b"doubt/0"))
        leader.signal(signal.SIGSTOP)
        code, text, _ = code_of(lambda: kv.put(b"doubt/1"))  # nobody else would end it: the follower does
        check(code == CODE.OK or (code == CODE.UNAVAILABLE and text.startswith("etcdserver: ")), f"{code} {text}")
        leader.signal(signal.SIGCONT)
        patiently(lambda: kv.put(b"doubt/2"))


def paused_leader():
    """C10: a leader that was paused while another was made shows nothing that is no more"""
    with Etcds(3) as cluster:
        cluster.ready()
        old = cluster.leader()
        patiently(lambda: Client(old).put(b"pause/k", b"1"))
        old.signal(signal.SIGSTOP)
        others = cluster.others(old)
        new = cluster.leader(among=others)
        patiently(lambda: Client(new).put(b"pause/k", b"2"))
        asked = [Client(channel=cluster.dial_etcd(old.etcd)) for _ in range(8)]
        calls = [kv.channel.unary_unary("/etcdserverpb.KV/Range").future(b"\x0a\x07pause/k", timeout=60) for kv in asked]
        old.signal(signal.SIGCONT)  # they are there when it wakes
        for call in calls:
            error = call.exception()
            check(error is None or error.code() in PASSING, f"{error}")
            check(error is not None or b"\x2a\x012" in call.result(), f"stale: {call.result() if not error else error}")
        check(patiently(lambda: asked[0].get(b"pause/k")) == b"2", "and afterwards")


def removed():
    """A removed replica ends its own streams with the reason, without a notice of its removal"""
    with Etcds(3) as cluster:
        cluster.ready()
        gone, asked = cluster.others(cluster.leader())
        alone = Client(gone)
        status = patiently(lambda: alone.call("etcdserverpb.Maintenance/Status"))
        patiently(lambda: alone.put(b"gone/k", b"v"))
        wait_for("it has it", lambda: patiently(lambda: alone.get(b"gone/k", serializable=True)) == b"v")
        with Watch(alone) as watch:
            check(watch.create(b"gone/", after(b"gone/")).created, "a watch of the member")
            leases = [patiently(lambda: alone.call(LEASE + "LeaseGrant", TTL=600)).ID for _ in range(2)]
            patiently(lambda: alone.call(LOCK + "Lock", name=b"gone-l", lease=leases[0]))
            waits = alone.future(LOCK + "Lock", name=b"gone-l", lease=leases[1])
            leaders = Observe(alone, b"gone-l")
            leaders.until((b"gone-l/%x" % leases[0], b""))
            wait_for("it waits", lambda: patiently(lambda: alone.get(b"gone-l/%x" % leases[1])) is not None)

            def remove():   # until the rules for it are met; a member that is gone is not found again
                code, text, _ = code_of(lambda: Client(asked).call("etcdserverpb.Cluster/MemberRemove",
                                                                   ID=status.header.member_id))
                return code == CODE.OK or "member not found" in text
            wait_for("it is removed", remove)
            patiently(lambda: Client(asked).put(b"gone/k", b"w"))   # which it will never hear of
            check(watch.ended() == REMOVED, f"its watch: {watch.failure}")
            check(not watch.received(0), f"and nothing was made up: {watch.responses}")
            check(refused(lambda: waits.result(PATIENCE)) == REMOVED, "who waits there")
            check(leaders.ended() == REMOVED, f"who observes there: {leaders.failure}")
        with Watch(alone) as another:
            check(another.ended() == REMOVED, f"another: {another.failure}")
        for kv in (alone, Client(gone, "grpc")):
            check(refused(lambda: kv.range(b"gone/k", serializable=True)) == REMOVED, "what it has is old")
            check(refused(lambda: kv.call("etcdserverpb.Cluster/MemberList")) == REMOVED, "so is its list")
        check(refused(lambda: alone.put(b"gone/k", b"x"))[0] == 14, "and it can ask nobody")
        gone.kill()
        gone.start()    # starts again and asks for its place
        cluster.formed(3)
        back = Client(channel=cluster.dial_etcd(gone.etcd))
        check(patiently(lambda: back.range(b"gone/k")).kvs[0].value == b"w", "and is one of them again")
        wait_for("by itself, too", lambda: [kv.value for kv in patiently(
            lambda: back.range(b"gone/k", serializable=True)).kvs] == [b"w"])
        back.channel.close()


if __name__ == "__main__":
    run_cases([any_replica, own_writes, minority, the_same_everywhere, killed_alone, killed_leaders, doubt, paused_leader, removed])
