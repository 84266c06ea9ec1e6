#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three coordinators under load, and what breaks: after each fault nothing acknowledged is lost, no read was stale, and
the states are equal.

The log's own tests (../log) do this to the log with every fault there is; here it is the product: the gRPC
contract, the membership loop, the tables."""
import os
import signal
import threading
import time

import grpc

from coordinators import (COORDINATOR, FLEET, LONG, PATIENCE, Cluster, Coordinator, check, code_of, run_cases, shimmed,
                          wait_for)
import sandbox
from workload import SHARD, Workload

CODE = grpc.StatusCode


def assign(node, value, timeout=PATIENCE):
    return node.call(COORDINATOR + "AssignDomain", topology_key="probe", topology_value=value, shard_id=SHARD,
                     timeout=timeout)


def assigned(cluster, value, among=None):
    """By the leader; an election may come between."""
    cluster.ask(COORDINATOR + "AssignDomain", among, topology_key="probe", topology_value=value, shard_id=SHARD)


def probes(node, timeout=PATIENCE):
    """A client of one replica, or of the present leader of a cluster."""
    ask = node.ask if isinstance(node, Cluster) else node.call
    rows = ask(COORDINATOR + "ListDomainAssignments", timeout=timeout).assignments
    return {row.topology_value for row in rows if row.topology_key == "probe"}


def killed_leaders():
    """kill -9 of the leader under load, again and again."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        with Workload(cluster) as load:
            for _ in range(20 if LONG else 3):
                load.progress()
                victim = cluster.leader()
                victim.kill()
                load.progress()  # the other two go on
                victim.start()
                cluster.formed()
                load.judge()


class Asked(threading.Thread):
    """One call in a thread, for one that hangs in a paused replica; then `code`, `answer`."""

    def __init__(self, function):
        super().__init__()
        self.function, self.code, self.answer = function, None, None
        self.start()

    def run(self):
        def ask():
            self.answer = self.function()
        self.code = code_of(ask)[0]


def paused_leader():
    """SIGSTOP of the leader, a read and a write in its socket: resumed, it answers nothing old and takes nothing."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        with Workload(cluster) as load:
            for turn in range(5 if LONG else 1):
                load.progress()
                assigned(cluster, f"before-{turn}")
                old = cluster.leader()
                old.hang_up()
                channel = old.dialed()
                grpc.channel_ready_future(channel).result(PATIENCE)
                old.pause()
                read, write = Asked(lambda: probes(old)), Asked(lambda: assign(old, f"never-{turn}", 60))
                assigned(cluster, f"after-{turn}", cluster.others(old))
                load.progress()
                if LONG:
                    time.sleep(10)  # the ten seconds
                old.resume()
                read.join()
                write.join()
                check(read.code != CODE.OK or f"after-{turn}" in read.answer,
                      f"the deposed leader answered a stale read: {read.code} {read.answer}")
                check(write.code != CODE.OK, "the deposed leader accepted a write")
                check(write.code == CODE.FAILED_PRECONDITION or f"never-{turn}" not in probes(cluster),
                      f"a write that was not accepted is there: {write.code}")
                code = code_of(lambda: check(f"after-{turn}" in probes(old), "a read asked afterwards is stale"))[0]
                check(code in (CODE.OK, CODE.FAILED_PRECONDITION, CODE.UNAVAILABLE), f"{code}")
                load.progress()
                load.judge()


def paused_followers():
    """SIGSTOP of both followers: the leader alone answers no read and acknowledges no write, and then goes on."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        cluster.asked(FLEET + "AddShard", shard_id=SHARD)
        leader = cluster.leader()
        followers = cluster.others(leader)
        for node in followers:
            node.pause()
        for what, ask in (("read", lambda: probes(leader)), ("write", lambda: assign(leader, "alone")),
                          ("report", lambda: leader.call(COORDINATOR + "ReportShard", shard_id=SHARD))):
            code, text, _ = code_of(ask)
            check(code in (CODE.UNAVAILABLE, CODE.FAILED_PRECONDITION), f"{what} without a majority: {code} {text}")
        for node in followers:
            node.resume()
        cluster.formed()
        assigned(cluster, "together")
        check("together" in probes(cluster), "it goes on")
        cluster.agree()


class Cut:
    """Nothing passes between these and those inside the block."""

    def __init__(self, ones, others):
        self.pairs = [(a.host, b.host) for a in ones for b in others]
        self.pairs += [(b, a) for a, b in self.pairs]

    def __enter__(self):
        for pair in self.pairs:
            sandbox.cut(*pair)

    def __exit__(self, *_):
        for pair in self.pairs:
            sandbox.heal(*pair)


def cut_off():
    """In networks of their own: the leader, then a follower is cut off under load, and healed."""
    sandbox.hosts(4)
    cluster = Cluster(3, hosts=True)
    old = cluster.nodes[0]
    old.options = ["--election", "60s"]  # so patient that it leads on in its own eyes: only asking a majority helps
    with cluster.start():
        cluster.formed()
        with Workload(cluster) as load:
            for turn in range(5 if LONG else 1):
                while code_of(lambda: assign(old, f"before-cut-{turn}"))[0] != CODE.OK:
                    cluster.asked(FLEET + "TransferLeadership", replica=old.name)
                with Cut([old], cluster.others(old)):
                    assigned(cluster, f"after-cut-{turn}", cluster.others(old))
                    code, _, _ = code_of(lambda: check(f"after-cut-{turn}" in probes(old, 2), "a stale read"))
                    check(code != CODE.OK, "a leader that is cut off answers no read")
                    code, _, _ = code_of(lambda: assign(old, f"cut-{turn}", 2))
                    check(code != CODE.OK, "and takes no write")
                    load.progress()
                cluster.formed()
                load.judge()
                follower = cluster.others(cluster.leader(), old)[0]
                with Cut([follower], cluster.others(follower)):
                    wait_for("it knows", lambda: follower.page("/readyz")[0] == 503)
                    load.progress()
                wait_for("it is back", lambda: follower.page("/readyz")[0] == 200)
                load.judge()


def members_change():
    """Under load: one moves to another address, a fourth comes, one goes; the founder too."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        with Workload(cluster) as load:
            load.progress()
            mover = cluster.others(cluster.leader())[0]
            mover.stop()
            mover.grpc, mover.raft = cluster.address(7, 0), cluster.address(7, 1)
            mover.start()
            wait_for("its new address", lambda: any(
                r.name == mover.name and r.raft_address == mover.raft and r.voter for r in cluster.formed()))
            load.progress()
            load.judge()
            fourth = Coordinator(cluster, 3)
            cluster.nodes.append(fourth)
            fourth.start()
            cluster.formed(4)
            load.progress()
            load.judge()
            gone = cluster.leader()  # of all, the one that leads
            code_of(lambda: gone.call(FLEET + "TransferLeadership"))  # a leader of its own may have come before it
            rest = cluster.others(gone)
            cluster.asked(FLEET + "RemoveReplica", rest, replica=gone.name)
            gone.stop()
            cluster.nodes.remove(gone)
            cluster.formed(3)
            load.progress()
            load.judge()


def all_at_once():
    """kill -9 of all three under load: they come back with everything that was acknowledged."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        with Workload(cluster) as load:
            for _ in range(10 if LONG else 1):
                load.progress()
                for node in cluster.nodes:
                    node.signal(signal.SIGKILL)
                for node in cluster.nodes:
                    node.wait_end()
                    node.start()
                load.progress()
                load.judge()


def failing_disk():
    """21.10: a disk that fails a sync under load ends its replica with 1 and the reason, never with 0."""
    with Cluster(3) as cluster:
        flag = os.path.join(cluster.dir, "eio")
        for node in cluster.nodes:
            node.environment = shimmed(EIO=flag)
        cluster.start()
        cluster.formed()
        with Workload(cluster) as load:
            load.progress()
            open(flag, "wb").close()  # the next sync of any caller
            victim = wait_for("one ends", lambda: next((n for n in cluster.nodes if not n.running()), None))
            code = victim.wait_end()
            last = victim.text().splitlines()[-1]
            # Of a record, or of a segment that is made ready.
            named = f"sync {victim.dir}" in last or f"zero a segment in {victim.dir}" in last
            check(code == 1 and named and "i/o error" in last, f"{code}: {last}")
            load.progress()  # the other two go on
            victim.start()
            cluster.formed()
            load.judge()


if __name__ == "__main__":
    sandbox.enter()
    run_cases([killed_leaders, paused_leader, paused_followers, cut_off, members_change, all_at_once,
               failing_disk])
