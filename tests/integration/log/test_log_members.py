#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Members come, go and move under load; TLS between replicas; strangers on the Raft port.

usage: test_log_members.py MUSTER_LOG DISK_SHIM MUSTERCTL [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import os
import random
import socket
import subprocess
import sys

from cluster import (LONG, PATIENCE, PROGRAM, SEED, Cluster, Workload, check, run_cases, wait_for)
from wire import Wire

MUSTERCTL = sys.argv.pop(3)
SMALL = ["--segment-size", "1MiB", "--snapshot-entries", "50", "--snapshot-every", "100ms",
         "--trailing-entries", "20"]


def grow_and_shrink():
    """From one replica to five and back to three, the first one removed, under load."""
    with Cluster(PROGRAM, 1, SMALL) as cluster, Workload(cluster) as load:
        load.progress(100)
        for number in range(2, 6):
            node = cluster.joiner(number).start()
            cluster.change(f"member add {node.id} {node.raft}")
            cluster.change(f"member promote {node.id}")
            load.progress()
        for number in (1, 2):
            gone = cluster.nodes[number]
            cluster.change(f"member remove {gone.id}")
            del cluster.nodes[number]  # it runs on, and must not disturb
            load.progress()
            cluster.gone = getattr(cluster, "gone", []) + [gone]
        load.judge()
        check_members(cluster)
        for gone in cluster.gone:
            gone.stop()


def addresses_change():
    """Every replica moves to another address, one after the other, the leader too."""
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        for number, node in cluster.nodes.items():
            load.progress()
            node.stop()
            node.raft = cluster.address(number + 10, 0)
            cluster.change(f"member address {node.id} {node.raft}")
            node.start()
            wait_for("it is reached there", lambda node=node: caught_up(cluster, node))
        load.progress()
        load.judge()
        check_members(cluster)


def check_members(cluster):
    """The reported members are the nodes, all voters, at their addresses."""
    reported = {word.replace("/leader", "") for word in cluster.read(["members"])[0].split()[1:]}
    check(reported == {f"{node.id}={node.raft}/voter" for node in cluster.nodes.values()}, f"members are {reported}")


def caught_up(cluster, node):
    status = node.try_status()
    return status and int(status["applied"]) + 200 >= int(cluster.leader().status()["applied"])


def transfers():
    """Leadership goes round under load; a write that was refused meanwhile is not there."""
    rng = random.Random(SEED)
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        for _ in range(30 if LONG else 4):
            load.progress(20)
            wait_for("leadership is handed over", lambda: hand_over(cluster, rng))
        load.judge()


def hand_over(cluster, rng):
    leader = cluster.leader()
    heir, term = rng.choice(cluster.followers()), int(leader.status()["term"])
    answer = leader.ask(f"transfer {heir.id}", PATIENCE).lower()
    check(answer.startswith(("ok", "err timeout", "err not_leader", "err not_ready", "err unknown")), answer)
    if answer.startswith("ok"):
        check(int(cluster.leader().status()["term"]) > term, "handed over, and leads on")
    return answer.startswith("ok")


def certificates(cluster):
    """A certificate for each replica, and an operator's, which the Raft port refuses."""
    pki = os.path.join(cluster.dir, "pki")

    def make(*words):
        done = subprocess.run([MUSTERCTL, "cert", *words, "--dir", pki], capture_output=True, text=True, check=False)
        check(done.returncode == 0, done.stdout + done.stderr)
    make("ca")
    for number, node in cluster.nodes.items():
        make("issue", "replica", "--id", f"r{number}", "--names", node.raft.rsplit(":", 1)[0])
    make("issue", "admin")

    def files(name):
        return ["--tls-cert-file", f"{pki}/{name}.pem", "--tls-key-file", f"{pki}/{name}.key.pem",
                "--tls-ca-file", f"{pki}/ca.pem"]
    return files


def over_tls():
    """Three replicas with certificates; one without a replica's identity is refused."""
    cluster = Cluster(PROGRAM, 3)
    files = certificates(cluster)
    for number, node in cluster.nodes.items():
        node.options = ["--name", f"r{number}", *files(f"replica-r{number}")]
    with cluster, Workload(cluster) as load:
        load.progress(100)
        victim = cluster.followers()[0]
        victim.kill()
        good = victim.options
        victim.options = [*good[:2], *files("admin")]
        victim.start()
        others = [node for node in cluster.nodes.values() if node is not victim]
        wait_for("it is refused", lambda: all("rejected a connection from a peer\" reason=" in log_of(node) for node in others))
        load.progress()
        victim.stop()
        victim.options = good
        victim.start()
        load.judge()


def strangers():
    """Garbage, huge lengths, another cluster and replayed frames on the Raft port: nothing is harmed."""
    rng = random.Random(SEED)
    cluster = Cluster(PROGRAM, 3)
    quick = cluster.nodes[1]
    cluster.steady(quick)
    wire = cluster.nodes[2].raft
    cluster.nodes[2].raft = cluster.address(20, 0)
    recorder = Wire(wire, cluster.nodes[2].raft)
    other = Cluster(PROGRAM, 3)  # believes that the members of this one are its own
    other.cluster_id = "bad"
    stranger = other.nodes[3]
    stranger.raft, stranger.text = cluster.address(21, 0), cluster.address(21, 1)
    stranger.first_options = ["--id", "3", "--cluster", "bad", "--founders",
                              f"1={cluster.nodes[1].raft},2={cluster.nodes[2].raft},3={stranger.raft}"]
    try:
        with recorder, cluster, Workload(cluster) as load:
            load.progress(100)
            term = cluster.steady_leader(quick).status()["term"]
            stranger.start()
            records = [bytes(record) for record in recorder.records if len(record) > 100]
            check(records, "nothing went over the wire")
            record = max(records, key=len)
            attacks = [rng.randbytes(4096), b"\xff" * 64, b"\0" * 4096, b"GET / HTTP/1.1\r\n\r\n", b"",
                       record, record[:200] + rng.randbytes(1000), record[200:]]
            for attack in attacks * (10 if LONG else 1):
                for node in cluster.nodes.values():
                    throw(node.raft, attack)
            load.progress()
            wait_for("another cluster is refused", lambda: "it belongs to cluster" in log_of(cluster.nodes[1]))
            wait_for("and notices it", lambda: "cannot connect to a replica" in log_of(stranger))
            replayed = [node for node in cluster.nodes.values() if "reason=" in log_of(node)]
            check(len(replayed) == 3, "each replica says whom it refused")
            check(stranger.status()["role"] != "leader", "the stranger leads")
            check(cluster.leader().status()["term"] == term, "a stranger caused an election")
            load.judge()
    finally:
        other.__exit__(None, None, None)


def log_of(node):
    with open(node.log, encoding="utf-8", errors="replace") as log:
        return log.read()


def throw(address, attack):
    """Sends it and waits until it is hung up on, or for an answer to what may be the start of a frame."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as peer:
        try:
            peer.sendall(attack)
            peer.shutdown(socket.SHUT_WR)
            peer.settimeout(30)
            while peer.recv(65536):
                pass
        except OSError:
            pass


if __name__ == "__main__":
    run_cases([grow_and_shrink, addresses_change, transfers, over_tls, strangers])
