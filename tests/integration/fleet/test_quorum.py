#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Forming a quorum with real processes: the facts J1 to J4 of coordinator.md 20.5, and what belongs to them."""
import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from coordinators import (COORDINATOR, FLEET, HEALTH, MUSTER, PATIENT, Cluster, Skipped, call, check, code_of, run_cases,
                          wait_for)

CODE = grpc.StatusCode


def by_name(replicas):
    return {replica.name: replica for replica in replicas}


def no_flags():
    """Without any option it is a ready cluster of one, and ends with 0."""
    script = f"""ip link set lo up || exit 77
'{MUSTER}' coordinator run & pid=$!
while kill -0 $pid && ! curl -fs http://127.0.0.1:8790/readyz; do sleep 0.05; done
curl -fs http://127.0.0.1:8790/healthz || exit 3
kill $pid; wait $pid; echo code $?"""
    with tempfile.TemporaryDirectory() as directory:
        if shutil.which("unshare") is None or shutil.which("curl") is None:
            raise Skipped("unshare or curl is not installed")
        probe = subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"], capture_output=True, text=True)
        if probe.returncode != 0:
            raise Skipped(f"no network namespace here: {probe.stderr.strip()}")
        done = subprocess.run(["unshare", "--net", "sh", "-c", script], cwd=directory, capture_output=True, text=True,
                              timeout=300)
        check("code 0" in done.stdout, f"{done.returncode} {done.stdout} {done.stderr}")
        check(os.path.exists(os.path.join(directory, "coord-data", "FORMAT")), "the data directory is ./coord-data")


def three_form():
    """J2: three started empty at once are three voters, all ready, with one state."""
    with Cluster(3).start() as cluster:
        replicas = by_name(cluster.formed())
        check(sorted(replicas) == ["node-0", "node-1", "node-2"], f"names: {sorted(replicas)}")
        for node in cluster.nodes:
            replica = replicas[node.name]
            check((replica.raft_address, replica.grpc_address, replica.http_address) == (node.raft, node.grpc, node.http),
                  f"{node.name}: {replica}")
            wait_for("ready", lambda node=node: node.page("/readyz")[0] == 200)
            check(node.call(HEALTH + "Check", service="").status == 1, "alive")
            wait_for("serving", lambda node=node: node.call(
                HEALTH + "Check", service="bigfleet.v1alpha1.Coordinator").status == 1)
        check("roster" in cluster.agree(), "the roster is compared")

        def named():
            """By a follower; an election may come between."""
            leader = cluster.leader()
            code, _, trailers = code_of(lambda: cluster.others(leader)[0].call(FLEET + "ListReplicas"))
            return code == CODE.FAILED_PRECONDITION and trailers.get("x-muster-leader") == leader.grpc
        wait_for("a follower names the leader", named)
        for node in cluster.nodes:
            node.stop()


def no_pages():
    """With --metrics-addr 0 nothing listens for HTTP, and all else is as always."""
    with Cluster(1, join=False) as cluster:
        node = cluster.nodes[0]
        node.start("--metrics-addr", "0")  # the flag that comes last counts
        cluster.leader()
        check(node.page("/healthz")[0] == 0, "no page")
        listed = wait_for("the list", node.replicas)
        check(listed[0].http_address == "", f"{listed}")
        wait_for("serving", lambda: node.call(HEALTH + "Check", service="bigfleet.v1alpha1.Coordinator").status == 1)
        check("status page" not in node.text(), node.text())
        node.signal(signal.SIGHUP)
        wait_for("reloaded", lambda: "no setting changed" in node.text())
        node.stop()


def leader_dies():
    """J3: the founder is killed; a survivor leads, takes a write, and the founder comes back."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        founder, survivors = cluster.nodes[0], cluster.nodes[1:]
        cluster.asked(FLEET + "AddShard", shard_id="shard-pre", address="h:1")  # asked twice it is there already
        founder.kill()
        cluster.asked(FLEET + "AddShard", survivors, shard_id="shard-post", address="h:2")
        shards = [shard.shard_id for shard in cluster.ask(COORDINATOR + "ListShards", survivors).shards]
        check(shards == ["shard-post", "shard-pre"], f"it holds both: {shards}")
        founder.start()
        cluster.formed()
        cluster.agree()


def moves():
    """J4: a follower stops and comes back at other addresses; it is rewritten in place."""
    with Cluster(3, PATIENT).start() as cluster:
        before = by_name(cluster.formed())
        leader = cluster.leader()
        mover = next(node for node in cluster.nodes if node is not leader)
        mover.stop()
        mover.raft, mover.grpc = cluster.address(7, 1), cluster.address(7, 0)
        mover.start()
        wait_for("the new address", lambda: by_name(cluster.formed())[mover.name].raft_address == mover.raft)
        after = by_name(cluster.formed())
        check(after[mover.name].replica_id == before[mover.name].replica_id, "the same replica")
        check(after[mover.name].grpc_address == mover.grpc, "and the roster knows its gRPC address")
        cluster.agree()


def swaps():
    """Two followers come back at each other's Raft address; both end up listed where they are."""
    with Cluster(3).start() as cluster:
        before = by_name(cluster.formed())
        one, two = cluster.others(cluster.leader())
        one.stop()
        two.stop()
        one.raft, two.raft = two.raft, one.raft
        one.start()
        two.start()

        def in_place():
            listed = by_name(cluster.formed())
            return all(listed[node.name].raft_address == node.raft for node in cluster.nodes)
        wait_for("both in their new places", in_place)
        after = by_name(cluster.formed())
        check(all(after[name].replica_id == before[name].replica_id for name in before), "the same replicas")
        cluster.agree()


def lost_disk():
    """The founder lost its disk: it looks first, joins, and takes its old identity's place."""
    with Cluster(3).start() as cluster:
        before, node = by_name(cluster.formed()), cluster.nodes[0]
        node.kill()
        shutil.rmtree(node.dir)
        node.start()

        def replaced():
            found = by_name(cluster.formed(3)).get(node.name)
            return found and found.replica_id != before[node.name].replica_id
        wait_for("its new identity", replaced)
        cluster.agree()
        check("found an existing cluster: joining it" in node.text(), "it looked first")


def old_contract():
    """J1: JoinRaftCluster twice with the same address; a name without an identity is refused with advice."""
    with Cluster(2, join=False) as cluster:
        first, second = cluster.nodes
        first.start()
        cluster.leader([first])
        second.start("--no-bootstrap")
        wait_for("it answers", lambda: code_of(second.state)[0] == CODE.OK)
        identity = f"{second.state().replica_id:016x}"
        wish = dict(node_id=second.name, raft_address=second.raft)
        code, text, _ = code_of(lambda: first.call(COORDINATOR + "JoinRaftCluster", **wish))
        check(code == CODE.INVALID_ARGUMENT and "x-muster-replica" in text, f"{code} {text}")
        for _ in range(2):
            first.call(COORDINATOR + "JoinRaftCluster", metadata=[("x-muster-replica", identity)], **wish)
        check(len(cluster.formed(2, [first])) == 2, "exactly two")
        first.call(COORDINATOR + "JoinRaftCluster", **wish)  # by now its name is known
        wait_for("node-1 sees a leader", lambda: second.page("/readyz")[0] == 200)
        for bad in (dict(node_id="", raft_address="x:1"), dict(node_id="node-9", raft_address="")):
            code, text, _ = code_of(lambda bad=bad: first.call(COORDINATOR + "JoinRaftCluster", **bad))
            check(code == CODE.INVALID_ARGUMENT, f"{bad}: {code} {text}")


def administration():
    """Remove, transfer and hash: by name, by identity, and what is refused; a removed one stays out."""
    with Cluster(3).start() as cluster:
        replicas = by_name(cluster.formed())
        _, code, text, _ = cluster.asked(FLEET + "RemoveReplica", replica="node-9")
        check(code == CODE.NOT_FOUND, f"{code} {text}")
        heir, gone = cluster.others(cluster.leader())

        def handed():
            """Repeats the call while a starved machine elects another leader."""
            cluster.asked(FLEET + "TransferLeadership", replica=heir.name)
            return cluster.leader() is heir
        wait_for("leadership goes where it is asked to", handed)
        cluster.asked(FLEET + "RemoveReplica", replica=f"{replicas[gone.name].replica_id:016x}")
        rest = cluster.others(gone)
        check(len(cluster.formed(2, rest)) == 2, "two are left")
        wait_for("it knows", lambda: gone.page("/readyz")[0] == 503)
        applied = max(node.state().applied for node in rest)
        for node in rest:
            check(node.call(FLEET + "StateHash", at_least=applied).applied >= applied, "waits for the index")
        cluster.agree(rest)
        check(len(cluster.formed(2, rest)) == 2, "and it did not come back by itself")
        gone.kill()
        gone.start()
        cluster.formed(3)


def strangers():
    """One of another cluster is refused with the reason; a second one of a living name waits."""
    with Cluster(2, join=False) as cluster:
        home, double = cluster.nodes
        home.start()
        cluster.leader([home])
        double.name = home.name
        double.start("--join-addr", home.grpc, "--no-bootstrap")
        wait_for("it is reported", lambda: "two nodes must not share a name" in double.text())
        code, text, _ = code_of(lambda: home.call(FLEET + "JoinReplica", replica_id=5, name="node-5",
                                                  raft_address="127.0.0.1:1", cluster_id=5))
        check(code == CODE.FAILED_PRECONDITION and "belongs to cluster" in text, f"{code} {text}")
        check(len(cluster.formed(1, [home])) == 1, "nobody was taken in")


def name_twice():
    """While two members bear one name, neither is removed by it; by its identity each can be."""
    with Cluster(3).start() as cluster:
        before, gone = by_name(cluster.formed()), cluster.others(cluster.leader())[0]
        gone.kill()
        rest, new = cluster.others(gone), 0xffffffffffffff00

        def is_learner():
            """A new replica is admitted when the old one counts as dead; without a process it never catches up."""
            cluster.ask(FLEET + "JoinReplica", rest, replica_id=new, name=gone.name, raft_address=cluster.address(7, 1))
            return new in [replica.replica_id for replica in cluster.ask(FLEET + "ListReplicas", rest).replicas]
        wait_for("a second one of that name", is_learner)
        for path in ("RemoveReplica", "TransferLeadership"):
            _, code, text, trailers = cluster.asked(FLEET + path, rest, replica=gone.name)
            check(code == CODE.FAILED_PRECONDITION and f"{new:016x}" in text, f"{path}: {code} {text}")
            check(trailers.get("x-muster-applied") == "no", f"{path}: {trailers}")
        _, code, text, _ = cluster.asked(COORDINATOR + "JoinRaftCluster", rest, node_id=gone.name,
                                         raft_address=cluster.address(7, 2))
        check(code == CODE.FAILED_PRECONDITION and "two replicas" in text, f"JoinRaftCluster: {code} {text}")
        cluster.asked(FLEET + "RemoveReplica", rest, replica=f"{new:016x}")
        check(by_name(cluster.formed())[gone.name].replica_id == before[gone.name].replica_id, "the old one stays")


def unclear_peer():
    """No cluster is bootstrapped while a peer answers without saying whether it has a log."""
    with Cluster(2) as cluster:
        node, peer = cluster.nodes
        server = grpc.server(ThreadPoolExecutor(1))  # it knows no method: UNIMPLEMENTED
        server.add_insecure_port(peer.grpc)
        server.start()
        node.start()
        wait_for("it says so", lambda: "does not say whether it has a log" in node.text())
        time.sleep(4)  # longer than earlier releases waited for silent peers
        check(not os.path.exists(os.path.join(node.dir, "FORMAT")), "nothing is founded")
        server.stop(None).wait()
        wait_for("its port is free", lambda: not peer.listening())
        peer.start()
        cluster.formed()


def stopped_early():
    """Ordered to end while it waits to bootstrap a cluster, it ends with 0 and has bootstrapped none; then it does."""
    with Cluster(2) as cluster:
        node, peer = cluster.nodes
        server = grpc.server(ThreadPoolExecutor(1))  # it knows no method, so it is looked at for ever
        server.add_insecure_port(peer.grpc)
        server.start()
        for number in (signal.SIGTERM, signal.SIGINT):
            seen = node.text().count("does not say whether it has a log") if os.path.exists(node.log) else 0
            node.start()
            wait_for("it looks", lambda seen=seen: node.text().count("does not say whether it has a log") > seen)
            node.signal(signal.SIGHUP)
            wait_for("it says no", lambda: "start-up is not finished" in node.text())
            node.signal(number)
            code = node.wait_end()
            check(code == 0, f"{number}: {code} {node.text()}")
            check(not os.path.exists(os.path.join(node.dir, "FORMAT")), "nothing is founded")
        server.stop(None).wait()
        wait_for("its port is free", lambda: not peer.listening())
        node.start()
        peer.start()
        cluster.formed()


def wrong_starts():
    """Wrong settings end with 2, a directory or a port in use with 4, each saying why."""
    with Cluster(1, join=False) as cluster:
        node = cluster.nodes[0].start()
        cluster.leader()
        other = cluster.address(8, 0)
        for why, words, code, says in (
                ("taken directory", ["--listen", other, "--raft-bind", cluster.address(8, 1)], 4, "held by pid"),
                ("no ordinal", ["--id", "x", "--join-addr", "127.0.0.1:1"], 2, "ordinal"),
                ("open to all", ["--listen", "0.0.0.0:0"], 2, "not loopback"),
                ("nowhere", ["--raft-bind", "0.0.0.0:7791", "--insecure"], 2, "nobody can reach it"),
                ("half of TLS", ["--tls-cert", "x.pem"], 2, "belong together"),
                ("no certificate", ["--tls-cert", "/x", "--tls-key", "/x", "--tls-ca", "/x"], 2, "/x")):
            done = subprocess.run([MUSTER, "coordinator", "run", "--data-dir", node.dir, "--http-listen",
                                   cluster.address(8, 2), *words], capture_output=True, text=True, timeout=90)
            check(done.returncode == code and says in done.stderr, f"{why}: {done.returncode} {done.stderr}")
        # The replica is open by then, and may become the leader while all is taken down again.
        for _ in range(3):
            done = subprocess.run([MUSTER, "coordinator", "run", "--data-dir", node.dir + "-too", "--listen", node.grpc,
                                   "--raft-bind", cluster.address(8, 1), "--http-listen", cluster.address(8, 2),
                                   "--election", "10ms", "--heartbeat", "1ms"],
                                  capture_output=True, text=True, timeout=90)
            check(done.returncode == 4 and "address already in use" in done.stderr,
                  f"taken port: {done.returncode} {done.stderr}")


def over_tls():
    """With certificates all three ports speak TLS, replicas know each other by theirs, and others are refused."""
    with Cluster(3) as cluster:
        cluster.over_tls().start()
        cluster.formed()
        node = cluster.leader()
        check(node.page("/healthz")[0] == 200, "HTTPS")
        plain = grpc.insecure_channel(node.grpc, options=[("grpc.enable_retries", 0)])
        code, _, _ = code_of(lambda: call(plain, FLEET + "StateHash"))
        check(code == CODE.UNAVAILABLE, f"plaintext on a TLS port: {code}")
        plain.close()
        cluster.agree()


def dev():
    """muster dev: one command, a whole fleet; a child that dies is started again, and nothing is left behind."""
    directory = tempfile.mkdtemp(prefix="muster-dev-")
    command = [MUSTER, "dev", "--free-ports", "--http-listen", "127.0.0.1:0", "--data-dir", directory, "--workers", "4"]
    path = os.path.join(directory, "out")

    def children(process):
        found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def text():
        with open(path, encoding="utf-8") as out:
            return out.read()

    def start():
        with open(path, "wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def gone(pids):
        return all(not os.path.exists(f"/proc/{pid}") for pid in pids)
    process = None
    try:
        for ending in (signal.SIGINT, signal.SIGKILL):
            process = start()
            wait_for("ready", lambda: "\nready\n" in text())
            pids = children(process)
            check(len(pids) == 13 and text().count("http://127.0.0.1:") >= 11, text())  # 3, provider, 2 shards, 3 operators, 4 workers
            if ending == signal.SIGINT:
                os.kill(pids[1], signal.SIGKILL)
                wait_for("started again", lambda: len(set(children(process)) - set(pids)) == 1)
                wait_for("said in the log", lambda: "child process ended: restarting it" in text())
                pids = children(process)
            process.send_signal(ending)
            code = process.wait(90)
            check(code == (0 if ending != signal.SIGKILL else -9), f"{ending}: {code}")
            wait_for("no child is left", lambda pids=pids: gone(pids))
        check(os.path.exists(os.path.join(directory, "node-2", "FORMAT")), "the data stays")
        with open(os.path.join(directory, "ports"), encoding="utf-8") as drawn:
            ports = [int(line) for line in drawn]
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="utf-8") as given:
            check(max(ports) < int(given.read().split()[0]), f"a connection of anybody can take a port: {ports}")
        domains = [open(os.path.join(directory, f"shard-{number}", "domains"), encoding="utf-8").read() for number in (0, 1)]
        check("eu-1a" in domains[0] and "eu-1b" in domains[0] and "eu-1c" in domains[1], f"shared zones: {domains}")
        check("eu-1c" not in domains[0] and "eu-1a" not in domains[1], f"zones that two own: {domains}")
    finally:
        if process and process.poll() is None:
            process.kill()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    run_cases([no_flags, three_form, no_pages, leader_dies, moves, swaps, lost_disk, old_contract, administration, strangers,
               name_twice, unclear_peer, stopped_early, wrong_starts, over_tls, dev])
