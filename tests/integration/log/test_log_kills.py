#!/usr/bin/env python3
"""Replicas are killed, paused, restarted and starved under load.

usage: test_log_kills.py MUSTER DISK_SHIM [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import os
import random
import subprocess
import sys
import time

from cluster import (LONG, PROGRAM, SEED, Cluster, Workload, check, fields, run_cases, wait_for)


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
    """kill -9 of two in three at once: nothing that was acknowledged is lost."""
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        for _ in range(5 if LONG else 1):
            load.progress()
            leader = cluster.leader()
            gone = [leader, cluster.followers()[0]]
            for node in gone:
                node.kill()
            for node in gone:
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


def paused_leader():
    """A leader wakes from SIGSTOP: it answers no stale read and accepts no write."""
    cluster = Cluster(PROGRAM, 3, timing=())
    for node in cluster.nodes.values():
        # The first is so patient that it does not step down by itself: only asking a majority helps.
        node.options = ["--heartbeat", "50ms", "--election", "30s" if node.number == 1 else "300ms"]
    with cluster:
        old = cluster.nodes[1]
        for _ in range(3 if LONG else 1):
            while cluster.leader() is not old:
                cluster.leader().ask(f"transfer {old.id}")
            term = int(old.status()["term"])
            cluster.write("set key old")
            # Asked while it sleeps: it finds these before anything that tells it of the new leader.
            old.pause()
            old.client.send("#r get key\n#w set ghost 1\n#a add ghosts 1")
            others = [node for node in cluster.nodes.values() if node is not old]
            new = cluster.leader(others)
            check(fields(new.ask("set key new"))["index"], "the new leader writes")
            if LONG:
                time.sleep(10)
            old.resume()
            answers = {}
            wait_for("the old leader knows", lambda: int(cluster_status(old, answers)["term"]) > term)
            while len(answers) < 3:
                tag, answer = old.client.receive(30).split(" ", 1)
                answers[tag] = answer
            check(answers["#r"].startswith("err"), f"a deposed leader answered a read: {answers}")
            check(answers["#w"].startswith("err"), f"a deposed leader acknowledged a write: {answers}")
            check(answers["#a"].startswith("err"), f"a deposed leader acknowledged a write: {answers}")
            cluster.agree()
            check(cluster.leader().ask("get ghost").startswith("none"), "the ghost write came to be")
            check(cluster.leader().ask("get key").endswith(" value new"), "the new write is gone")


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
    """All replicas on one core beside a busy loop: nobody is elected anew."""
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
            check(cluster.leader().status()["term"] == term, "there was an election")
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
    run_cases([kill_leader_and_followers, kill_a_majority, restart_all, paused_leader, pauses_under_load,
               one_core_and_a_spinner, lone_replica])
