#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bootstrapping a cluster with real processes: with more than one replica neither silence nor DNS does it."""
import os
import shutil
import socket
import subprocess
import threading
import time

import grpc

from coordinators import FLEET, MUSTERCTL, Cluster, check, code_of, run_cases, shimmed, wait_for

CODE = grpc.StatusCode
OLD_SILENCE_S = 5  # earlier releases took 3 s of silence for an empty peer


class Way:
    """A port that leads to another one, once it is opened; it stays open, so each case has ports of its own."""

    def __init__(self, at, to):
        self.at, self.to, self.listener = at, to, None

    def open(self):
        self.listener = socket.create_server(split(self.at), reuse_port=True)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(split(self.to))
            except OSError:
                return
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=pass_on, args=(one, other), daemon=True).start()


def pass_on(one, other):
    try:
        while data := one.recv(65536):
            other.sendall(data)
    except OSError:
        pass
    for end in (one, other):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def has(node, name):
    return os.path.exists(os.path.join(node.dir, name))


def at(node, *addresses):
    """It finds the others there; a second --join-addr would add to the first."""
    node.options = ["--join-addr", ",".join(addresses), "--bootstrap-expect", "3"]
    return node


def three():
    """Three replicas that know each other, each by options of its own."""
    cluster = Cluster(3, join=False)
    for node in cluster.nodes:
        at(node, *(each.grpc for each in cluster.nodes))
    return cluster


def cluster_of(node):
    """The fields of its FORMAT, its PROMISE or its BOOTSTRAP."""
    def read(name, what="cluster"):
        with open(os.path.join(node.dir, name), encoding="ascii") as file:
            return dict(line.split(" ", 1) for line in file.read().splitlines())[what]
    return read


def waits(node):
    """The condition that its /readyz names; "" for none."""
    code, text = node.page("/readyz")
    return text if code == 503 and "waiting to bootstrap a cluster" in text else ""


def stays_waiting(node, words):
    """A page is cut after 200 bytes, the log is not."""
    wait_for(f"{node.name} says what it waits for", lambda: waits(node) and all(word in node.text() for word in words))
    wait_for("so does its page", lambda: words[0] in waits(node))  # the log may be of an earlier life
    time.sleep(OLD_SILENCE_S)
    check(words[0] in waits(node), node.page("/readyz"))
    check(not has(node, "FORMAT"), "no cluster is bootstrapped")


def taken_in(cluster, node):
    """It is a voter under the identity of its directory."""
    def look():
        if not has(node, "FORMAT"):
            return False
        identity = int(cluster_of(node)("FORMAT", "replica"), 16)
        return identity in [replica.replica_id for replica in cluster.formed()]
    wait_for(f"{node.name} is taken in", look)


def ctl(*words):
    return subprocess.run([MUSTERCTL, *words], capture_output=True, text=True, timeout=90)


def wiped_and_cut_off():
    """A wiped node-0 that does not reach the others while they serve waits, serves nothing, and joins once it does."""
    with three().start() as cluster:
        cluster.formed()
        node, others = cluster.nodes[0], cluster.nodes[1:]
        cluster.asked(FLEET + "AddShard", shard_id="shard-0", address="h:1")
        ways = [Way(cluster.address(40 + number, 0), other.grpc) for number, other in enumerate(others)]
        home = cluster_of(others[0])("FORMAT")
        node.kill()
        node.hang_up()
        shutil.rmtree(node.dir)
        at(node, node.grpc, *(way.at for way in ways)).start()
        stays_waiting(node, ["0 of 2", *(f"{way.at} does not answer" for way in ways)])
        code, text, trailers = code_of(lambda: node.call(FLEET + "AddShard", shard_id="shard-1", address="h:2"))
        check(code == CODE.UNAVAILABLE and trailers.get("x-muster-applied") == "no", f"{code} {text} {trailers}")
        for way in ways:
            way.open()
        taken_in(cluster, node)
        check(cluster_of(node)("FORMAT") == home and "found an existing cluster: joining it" in node.text(), "the same cluster")
        cluster.agree()


def names():
    """A name of itself, of nothing, or of too few replicas bootstraps no cluster."""
    with three() as cluster:
        node, other = cluster.nodes[:2]
        for why, join, words in (("itself", node.grpc, ["0 of 2"]),
                                 ("nothing", "nothing.invalid:7790", ["names no replica"])):
            at(node, join).start()
            stays_waiting(node, words)
            node.stop()
            check(not has(node, "FORMAT"), why)
        other.start()
        at(node, other.grpc).start()
        stays_waiting(node, ["1 of 2", f"{other.grpc} (node-1) promised"])


def under_another_name():
    """A directory that is started under another replica's name is refused before anything is sent; nobody is removed."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        victim, other = cluster.others(cluster.leader())
        for node in (victim, other):
            node.stop()
        own, victim.name = victim.name, other.name
        victim.start()
        wait_for("it ends", lambda: victim.process.poll() is not None)
        check(victim.process.returncode == 2 and f"not that of --id {other.name}" in victim.text(),
              f"exit {victim.process.returncode}: {victim.text()[-500:]}")
        victim.name = own
        for node in (victim, other):
            node.start()
        cluster.formed()
        cluster.agree()


def any_order():
    """Three empty replicas form one cluster in whatever order they are started."""
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2)):
        with Cluster(3) as cluster:
            for number in order:
                cluster.nodes[number].start()
                wait_for("it answers", cluster.nodes[number].listening)
            cluster.formed()
            cluster.agree()
            check(len({cluster_of(node)("FORMAT") for node in cluster.nodes}) == 1, "one cluster")


def killed_between():
    """node-0 is killed at every point between the first promise and its cluster: it goes on with the same bootstrap."""
    with Cluster(3) as cluster:
        node, first, second = cluster.nodes
        first.start()
        node.start()
        wait_for("a promise", lambda: "1 of 2" in waits(node))
        promised = cluster_of(first)("PROMISE")
        check(promised == cluster_of(node)("BOOTSTRAP"), "it promised to this bootstrap")
        node.kill()
        first.kill()  # neither forgets it
        first.start()
        second.start()
        died = 0
        while not has(node, "FORMAT"):
            check(cluster_of(node)("BOOTSTRAP") == promised, "the same identity")
            node.environment = shimmed(KILL_AT=died + 1, ONLY=node.dir)
            node.hang_up()
            node.start()
            wait_for("it ends, or has a cluster", lambda: not node.running() or has(node, "FORMAT"))
            died += 1
        check(died > 10, f"it was killed {died} times")
        node.kill()
        node.hang_up()
        node.environment = {}
        node.start()
        cluster.formed()
        cluster.agree()
        check({cluster_of(n)("FORMAT") for n in cluster.nodes} == {promised}, "the cluster that was promised to")


def founder_replaced():
    """node-0 loses its disk after it was promised to: it waits, and an administrator's order replaces the promise."""
    with Cluster(3) as cluster:
        node, first, second = cluster.nodes
        first.start()
        node.start()
        wait_for("a promise", lambda: "1 of 2" in waits(node))
        before = cluster_of(first)("PROMISE")
        node.kill()
        shutil.rmtree(node.dir)
        second.start()
        node.start()
        stays_waiting(node, ["1 of 2", "it promised replica"])
        for wrong, says in ((first, "only a replica with ordinal 0"), (second, "only a replica with ordinal 0")):
            done = ctl("replica", "bootstrap", "--coordinator", wrong.grpc)
            check(done.returncode == 4 and says in done.stderr, f"{done.returncode} {done.stderr}")
        done = ctl("replica", "bootstrap", "--coordinator", f"{node.grpc},{first.grpc}")
        check(done.returncode == 2 and "name the one replica" in done.stderr, f"{done.returncode} {done.stderr}")
        done = ctl("replica", "bootstrap", "--coordinator", node.grpc)
        check(done.returncode == 0 and "bootstraps cluster" in done.stdout, f"{done}")
        cluster.formed()
        check(cluster_of(first)("PROMISE") == cluster_of(node)("FORMAT") != before, "the promise was replaced")
        done = ctl("replica", "bootstrap", "--coordinator", node.grpc)
        check(done.returncode == 4 and "belongs to cluster" in done.stderr, f"{done.returncode} {done.stderr}")


def two_of_ordinal_0():
    """Of two processes with ordinal 0 at most one bootstraps a cluster; the other says why it waits."""
    with three() as cluster, Cluster(1, first=5, join=False) as more:
        node, first, second = cluster.nodes
        double = more.nodes[0]
        double.name = node.name
        first.start()
        node.start()
        wait_for("a promise", lambda: "1 of 2" in waits(node))
        at(double, double.grpc, first.grpc, node.grpc).start()
        stays_waiting(double, ["it promised replica", "only one replica may have ordinal 0"])
        second.start()
        cluster.formed()
        wait_for("it joins", lambda: "two nodes must not share a name" in double.text())
        check(double.page("/readyz")[0] == 503, "and it is not taken in")


def in_order():
    """--bootstrap-expect 1 starts replica by replica, warns at every start, and joins beside a peer with a log."""
    with Cluster(3) as cluster:
        cluster.options[-1] = "1"
        node = cluster.nodes[0]
        for each in cluster.nodes:
            each.start()
            cluster.formed(each.number + 1, cluster.nodes[:each.number + 1])
        home = cluster_of(node)("FORMAT")
        node.stop()
        check("bootstrap-expect is 1" in node.text(), node.text())
        shutil.rmtree(node.dir)
        node.start()
        taken_in(cluster, node)
        check(cluster_of(node)("FORMAT") == home, "it joined")
        check(node.text().count("bootstrap-expect is 1") == 2, "a warning at every start")


def greeted_by_another():
    """A replica that bootstrapped a second cluster by order stops serving once the first, which lists it, greets it."""
    with three().start() as cluster:
        cluster.formed()
        node, others = cluster.nodes[0], cluster.nodes[1:]
        ways = [Way(cluster.address(50 + number, 0), other.grpc) for number, other in enumerate(others)]
        home = cluster_of(others[0])("FORMAT")
        node.kill()
        node.hang_up()
        shutil.rmtree(node.dir)
        at(node, node.grpc, *(way.at for way in ways)).start()
        wait_for("it waits", lambda: waits(node))
        done = ctl("replica", "bootstrap", "--coordinator", node.grpc)
        check(done.returncode == 0, f"{done}")
        wait_for("a second cluster", lambda: node.page("/readyz")[0] == 200)
        check(cluster_of(node)("FORMAT") != home, "it is another one")
        wait_for("it is greeted", lambda: "dials this one as its member" in node.text())
        check(node.running(), "a hello alone stops nobody")
        for way in ways:
            way.open()
        code = node.wait_end()
        check(code == 1 and f"two clusters: cluster {home} lists node-0" in node.text(), f"{code} {node.text()}")
        node.start()
        code = node.wait_end()
        check(code == 2 and "another cluster lists this replica" in node.text(), f"{code} {node.text()}")
        check(all(other.running() for other in others), "the others go on")
        shutil.rmtree(node.dir)
        node.start()
        taken_in(cluster, node)
        check({cluster_of(each)("FORMAT") for each in cluster.nodes} == {home}, "one cluster")


def learner_elsewhere():
    """Another cluster that lists a replica only as a learner does not stop it: one wrong JoinReplica ends no majority"""
    with Cluster(1, first=5) as other, three() as cluster:
        other.nodes[0].name = "other-0"
        other.start()
        other.formed(1)
        way = Way(cluster.address(60, 0), other.nodes[0].grpc)
        for node in cluster.nodes:
            at(node, *(each.grpc for each in cluster.nodes), way.at)
        cluster.start()
        node = next(replica for replica in cluster.formed() if replica.name == "node-1")
        way.open()
        other.asked(FLEET + "JoinReplica", replica_id=node.replica_id, name=node.name, raft_address=node.raft_address,
                    grpc_address=node.grpc_address, http_address=node.http_address)
        victim = cluster.nodes[1]
        wait_for("it has asked who dials it", lambda: "no join address lists this replica" in victim.text())
        check(all(each.running() for each in cluster.nodes), "all go on")
        cluster.agree()


def heard_of_a_cluster():
    """A replica that has found a cluster, but is not in it yet, promises nothing to another bootstrap."""
    with Cluster(1) as cluster, Cluster(1, first=5, join=False) as more:
        cluster.start()
        cluster.formed(1)
        late = at(more.nodes[0], cluster.nodes[0].grpc)
        late.name = "late-0"
        late.options += ["--raft-advertise", "127.0.0.1:1"]  # where the leader's log does not reach it
        late.start()
        wait_for("it has found it", lambda: "found an existing cluster: joining it" in late.text())

        def ask():
            try:
                return late.call(FLEET + "PromiseBootstrap", cluster_id=1, replica_id=2, name="node-0")
            except grpc.RpcError:  # between two servers
                late.hang_up()
                return None
        said = wait_for("an answer", ask)
        check(not said.promised and "heard of a cluster" in said.reason, f"{said}")
        check(not has(late, "PROMISE"), "nothing is stored")


def without_join_addresses():
    """A replica that others joined is wiped and started without --join-addr: their first hello stops its new cluster"""
    with Cluster(3, join=False) as cluster:
        node, others = cluster.nodes[0], cluster.nodes[1:]
        for other in others:
            other.options = ["--join-addr", ",".join(each.grpc for each in cluster.nodes), "--bootstrap-expect", "3"]
        node.start()
        cluster.formed(1, [node])
        for other in others:
            other.start()
        cluster.formed(3)
        home = cluster_of(node)("FORMAT")
        node.kill()
        node.hang_up()
        shutil.rmtree(node.dir)
        node.start()
        code = node.wait_end()
        check(code == 1 and f"two clusters: cluster {home} dials this replica" in node.text(), f"{code} {node.text()}")
        node.start()
        code = node.wait_end()
        check(code == 2 and "another cluster lists this replica" in node.text(), f"{code} {node.text()}")
        wait_for("the others lead", lambda: cluster.leader(others))


if __name__ == "__main__":
    run_cases([wiped_and_cut_off, names, under_another_name, any_order, killed_between, founder_replaced, two_of_ordinal_0, in_order,
               greeted_by_another, learner_elsewhere, heard_of_a_cluster, without_join_addresses])
