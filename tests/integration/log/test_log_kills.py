#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replicas are killed, paused, restarted and starved under load.

usage: test_log_kills.py MUSTER_LOG DISK_SHIM [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import glob
import os
import random
import struct
import subprocess
import sys
import time

from cluster import (LONG, PATIENCE, PROGRAM, SEED, Cluster, Node, Workload, check, fields, run_cases, wait_for)
from wire import Wire


def kill_leader_and_followers():
    """kill -9 of leaders and followers under load, five replicas."""
    rng = random.Random(SEED)
    with Cluster(PROGRAM, 5) as cluster, Workload(cluster) as load:
        load.progress()
        for turn in range(20 if LONG else 3):
            victim = cluster.leader() if turn % 3 != 1 else rng.choice(cluster.followers())
            victim.kill()
            load.progress()
            victim.start()
        load.progress()
        load.judge()


def kill_a_majority():
    """kill -9 of two in three at once, which alone have the last writes: nothing acknowledged is lost."""
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        for _ in range(5 if LONG else 1):
            load.progress()
            leader = cluster.leader()
            third, other = (node for node in cluster.nodes.values() if node is not leader)
            third.kill()  # so that only those two have what is acknowledged now
            load.progress()
            for node in (leader, other):
                node.kill()
            for node in (third, leader, other):
                node.start()
        load.progress()
        load.judge()


def restart_all():
    """All replicas end together, by kill -9 and by SIGTERM, and come back."""
    with Cluster(PROGRAM, 3, ["--snapshot-entries", "50", "--snapshot-every", "100ms",
                              "--trailing-entries", "20"]) as cluster, Workload(cluster) as load:
        for turn in range(6 if LONG else 2):
            load.progress(100)
            for node in cluster.nodes.values():
                node.kill() if turn % 2 == 0 else node.stop()
            for node in cluster.nodes.values():
                node.start()
        load.progress()
        load.judge()


def lost_end():
    """A log without its end or its segment: refused after a clean stop and after kill -9, never counted as whole."""
    with Cluster(PROGRAM, 3) as cluster:
        for turn, (end, damage) in enumerate(((Node.stop, cut), (Node.kill, cut), (Node.stop, remove))):
            last = int(cluster.write(f"set key{turn} lost-in-turn-{turn}")["index"])
            victim = cluster.followers()[0]
            wait_for("it has the write", lambda: int(victim.status()["durable"]) >= last)
            if end is Node.kill:  # what is published after the next write covers this one
                before = published(victim)
                cluster.write(f"set other{turn} kept")
                wait_for("the serial is published", lambda: published(victim) > before)
            end(victim)
            named = damage(sorted(glob.glob(victim.dir + "/log/*.seg"))[0], f"lost-in-turn-{turn}".encode())
            said = subprocess.run([PROGRAM, "check", victim.dir], capture_output=True, text=True, check=False)
            check(said.returncode == 1 and named in said.stdout, f"check: exit {said.returncode}: {said.stdout}")
            victim.start(wait=False)
            code = victim.wait_end()
            check(code == 1 and named in victim.tail() and "rejoin" in victim.tail(), f"exit {code}: {victim.tail()}")
            subprocess.run([PROGRAM, "coordinator", "rejoin", victim.dir, "--yes"], check=True, capture_output=True)
            old_id = victim.id
            victim.start()
            cluster.change(f"member remove {old_id}")
            cluster.change(f"member add {victim.id} {victim.raft}")
            cluster.change(f"member promote {victim.id}")
        cluster.agree()


def published(node):
    if not os.path.exists(node.dir + "/log/DURABLE"):
        return 0
    with open(node.dir + "/log/DURABLE", "rb") as file:
        return struct.unpack_from("<Q", file.read(), 16)[0]


def cut(path, text):
    """Cuts the file before the record with this text."""
    with open(path, "r+b") as file:
        content, at = file.read(), 4096
        while text not in content[at:at + (size := (48 + struct.unpack_from("<I", content, at + 8)[0] + 7) // 8 * 8)]:
            check(at < len(content) - 48, "the record is not on disk")
            at += size
        file.truncate(at)
    return "DURABLE names record"


def remove(path, _):
    """Removes the only segment with records; spares stay."""
    os.remove(path)
    return "segments are missing or were cut"


def patient_leader():
    """Three replicas; the first has such long time-outs that it stays leader by its own view without any contact, so only
    asking a majority helps. Messages of the others to it go through a wire that can be held."""
    cluster = Cluster(PROGRAM, 3, timing=())
    for node in cluster.nodes.values():
        node.options = ["--heartbeat", "50ms", "--election", "60s" if node.number == 1 else "300ms"]
    named, cluster.nodes[1].raft = cluster.nodes[1].raft, cluster.address(20, 0)
    return cluster, Wire(named, cluster.nodes[1].raft)


def first_leads(cluster):
    old = cluster.nodes[1]
    while cluster.leader() is not old:
        cluster.leader().ask(f"transfer {old.id}")
    return old, [node for node in cluster.nodes.values() if node is not old]


def paused_leader():
    """A leader wakes from SIGSTOP: it answers no stale read and accepts no write."""
    cluster, wire = patient_leader()
    with wire, cluster:
        for _ in range(3 if LONG else 1):
            while True:
                old, others = first_leads(cluster)
                cluster.write("set key old")
                wire.hold()
                if old.status()["role"] == "leader":
                    break
                wire.let_go()  # a starved machine elected another meanwhile
            term = int(old.status()["term"])
            old.pause()
            # It reads these before any message of the new leader.
            old.client.send("#r get key\n#w set ghost 1\n#a add ghosts 1")
            cluster.write("set key new", others)
            if LONG:
                time.sleep(10)
            old.resume()
            answers = {}
            for _ in range(20):  # turns of its loop in which it could answer
                check(int(cluster_status(old, answers)["term"]) == term, "it heard of another leader")
            check(not answers, f"a leader that hears nobody answered: {answers}")
            wire.let_go()
            wait_for("the old leader knows", lambda: int(cluster_status(old, answers)["term"]) > term)
            outstanding(old, answers, 3)
            check(answers["#r"].startswith("err"), f"a deposed leader answered a read: {answers}")
            check(answers["#w"].startswith("err"), f"a deposed leader acknowledged a write: {answers}")
            check(answers["#a"].startswith("err"), f"a deposed leader acknowledged a write: {answers}")
            cluster.agree()
            ghost, key = cluster.read(["get ghost", "get key"])
            check(ghost.startswith("none"), f"the ghost write came to be: {ghost}")
            check(key.endswith(" value new"), f"the new write is gone: {key}")


def paused_with_a_write():
    """A leader is paused with a write that the others have: the next leader commits it, and it is not answered as refused."""
    cluster, wire = patient_leader()
    with wire, cluster:
        for turn in range(3 if LONG else 1):
            while True:
                old, others = first_leads(cluster)
                cluster.write("set key old")
                cluster.agree()
                before = old.status()
                if before["role"] != "leader":
                    continue  # a starved machine elected another meanwhile
                wire.hold()
                old.client.send(f"#w set lost {turn}")
                wait_for("the others have it", lambda: all(int(node.status()["durable"]) > int(before["last"])
                                                           for node in others))
                if all(node.status()["term"] == before["term"] for node in others):
                    break
                wire.let_go()  # the same, and they have another write
                outstanding(old, {}, 1)
            old.pause()
            found, = cluster.read(["get lost"], others)
            check(found.endswith(f" value {turn}"), f"the new leader does not have it: {found}")
            answers = {}
            old.resume()
            wire.let_go()
            outstanding(old, answers, 1)
            check(answers["#w"].lower().startswith(("ok", "err unknown")), f"it is there, and was answered: {answers}")
            cluster.agree()


def outstanding(node, answers, count):
    """Receives tagged answers until there are so many."""
    while len(answers) < count:
        tag, answer = node.client.receive(PATIENCE).split(" ", 1)
        answers[tag] = answer


def cluster_status(node, answers):
    """Status of a replica on a connection where tagged answers are outstanding."""
    node.client.send("#s status")
    while True:
        tag, answer = node.client.receive(30).split(" ", 1)
        if tag == "#s":
            return fields(answer)
        answers[tag] = answer


def pauses_under_load():
    """Leaders and followers pause under load and resume."""
    rng = random.Random(SEED)
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        load.progress()
        for turn in range(12 if LONG else 3):
            victim = cluster.leader() if turn % 2 == 0 else rng.choice(cluster.followers())
            victim.pause()
            load.progress()
            victim.resume()
        load.progress()
        load.judge()


def one_core_and_a_spinner():
    """All replicas on one core beside a busy loop: the work goes on, and with the shipped timers there is no election."""
    core = str(max(os.sched_getaffinity(0)))
    spinner = subprocess.Popen(["taskset", "-c", core, "setpriv", "--pdeathsig", "KILL", sys.executable, "-c",
                                "while True: pass"])
    cluster = Cluster(PROGRAM, 3, [] if LONG else ["--timing-scale", "500"])
    for node in cluster.nodes.values():
        node.wrapper = ["taskset", "-c", core]
    try:
        with cluster, Workload(cluster) as load:
            term = cluster.leader().status()["term"]
            end = time.monotonic() + (60 if LONG else 2)
            while time.monotonic() < end:
                load.progress()
            now = cluster.leader().status()["term"]
            seen = f"term {term}, then {now}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
            print(f"# elections: {seen}")
            check(not LONG or now == term, f"there was an election: {seen}")
            load.judge()
    finally:
        spinner.kill()
        spinner.wait()


def lone_replica():
    """A cluster of one is killed and comes back with everything."""
    with Cluster(PROGRAM, 1) as cluster, Workload(cluster) as load:
        for _ in range(10 if LONG else 2):
            load.progress()
            cluster.nodes[1].kill()
            cluster.nodes[1].start()
        load.progress()
        load.judge()
    with Cluster(PROGRAM, 1) as cluster:
        second = cluster.joiner(2)
        second.dir = cluster.nodes[1].dir
        second.start(wait=False)
        check(second.wait_end() == 4, "a second process on the same directory is refused")


if __name__ == "__main__":
    run_cases([kill_leader_and_followers, kill_a_majority, restart_all, lost_end, paused_leader, paused_with_a_write,
               pauses_under_load, one_core_and_a_spinner, lone_replica])
