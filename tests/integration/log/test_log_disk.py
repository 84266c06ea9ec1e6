#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks that fill up, fail, lie or are gone; and a life that ends at any call to the disk.

usage: test_log_disk.py MUSTER_LOG DISK_SHIM [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import glob
import os
import random
import re
import shutil
import subprocess

import sandbox
from cluster import (LONG, PROGRAM, SEED, SHIM, Cluster, Gone, Workload, check, fields, run_cases, wait_for)

SMALL = ["--segment-size", "1MiB", "--snapshot-entries", "50", "--snapshot-every", "100ms",
         "--trailing-entries", "20"]


def with_shim(node, **settings):
    node.environment = {"LD_PRELOAD": SHIM, "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                        + ":verify_asan_link_order=0"}
    for name, value in settings.items():
        node.environment["MUSTER_TEST_DISK_" + name.upper()] = str(value)


def replace(cluster, load, old, number):
    """Add, catch up, remove the dead, promote."""
    new = cluster.joiner(number).start()
    del cluster.nodes[old.number]
    cluster.change(f"member add {new.id} {new.raft}")
    cluster.change(f"member remove {old.id}")
    cluster.change(f"member promote {new.id}")
    load.progress()
    return new


def sync_fails_once():
    """An fsync that fails once stops that replica, the leader and a follower; the others go on."""
    cluster = Cluster(PROGRAM, 3)
    for node in cluster.nodes.values():
        with_shim(node, eio=node.dir + ".eio")
    with cluster, Workload(cluster) as load:
        for leads in (True, False):
            load.progress()
            victim = cluster.leader() if leads else cluster.followers()[0]
            open(victim.dir + ".eio", "w", encoding="ascii").close()
            code = victim.wait_end()
            # The next sync may be the one of a segment that is made ready.
            doing = re.search("(append to|upkeep of) the log: .*: i/o error", victim.tail())
            check(code == 6 and doing, f"exit {code}: {victim.tail()}")
            load.progress()
            victim.start()
        load.progress()
        load.judge()


def flipped_bit():
    """A flipped bit in an acknowledged record: refused naming file and offset, then rejoined."""
    with Cluster(PROGRAM, 3) as cluster, Workload(cluster) as load:
        load.progress()
        cluster.write("set landmark of-a-flipped-bit")
        landmark = int(cluster.leader().status()["last"])
        load.progress()
        victim = cluster.followers()[0]
        wait_for("it has the landmark", lambda: int(victim.status()["durable"]) >= landmark)
        victim.kill()
        path, offset = find(victim.dir, b"of-a-flipped-bit")
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(b"O")  # 'o' with one bit flipped
        said = run(["check", victim.dir], 1)
        check(os.path.basename(path) in said and "offset" in said, f"check says: {said}")
        victim.start(wait=False)
        code = victim.wait_end()
        check(code == 1 and os.path.basename(path) in victim.tail(), f"exit {code}: {victim.tail()}")
        run(["coordinator", "rejoin", victim.dir], 2)
        run(["coordinator", "rejoin", victim.dir, "--yes"], 0)
        old_id = victim.id
        victim.start()
        check(victim.id != old_id, "rejoin drew no new identity")
        answer, = cluster.read([f"member add {victim.id} {victim.raft}"])
        check(answer.lower().startswith("err exists"), f"two members at one address: {answer}")
        cluster.change(f"member remove {old_id}")
        cluster.change(f"member add {victim.id} {victim.raft}")
        cluster.change(f"member promote {victim.id}")
        load.progress()
        load.judge()
        for node in cluster.nodes.values():
            node.stop()
            run(["check", node.dir], 0)


def find(directory, text):
    for path in glob.glob(directory + "/log/*.seg"):
        with open(path, "rb") as file:
            at = file.read().find(text)
        if at >= 0:
            return path, at
    check(False, "the record is not on disk")
    return None


def run(arguments, code):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    check(done.returncode == code, f"{arguments}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def wiped_disk():
    """A wiped disk is another replica: it joins under a new identity, the old one is removed."""
    with Cluster(PROGRAM, 3, SMALL) as cluster, Workload(cluster) as load:
        load.progress(150)
        victim = cluster.leader()
        victim.kill()
        shutil.rmtree(victim.dir)
        replace(cluster, load, victim, 4)
        load.judge()


def majority_lost():
    """Two in three are lost for good: force-config on the third, which then grows again."""
    with Cluster(PROGRAM, 3) as cluster:
        for n in range(20):
            cluster.write(f"set k{n} v{n}")
        cluster.agree()
        for node in cluster.nodes.values():
            node.kill()
        last = cluster.nodes[1]
        del cluster.nodes[2], cluster.nodes[3]
        run(["coordinator", "force-config", last.dir], 2)
        run(["coordinator", "force-config", last.dir, "--yes"], 0)
        last.start()
        load = Workload(cluster)
        with load:
            load.progress()
            new = cluster.joiner(4).start()
            cluster.change(f"member add {new.id} {new.raft}")
            cluster.change(f"member promote {new.id}")
            load.progress()
            load.judge()
        for n, answer in enumerate(cluster.read([f"get k{n}" for n in range(20)])):
            check(answer.endswith(f" value v{n}"), f"k{n} is gone: {answer}")


def full_disk():
    """A full disk: a leader transfers its leadership; a follower's full disk has no effect on clients."""
    sandbox.need()
    cluster = Cluster(PROGRAM, 3, [*SMALL, "--disk-reserve", "8MiB"])
    for node in cluster.nodes.values():
        sandbox.disk(node.dir, 64)
        node.ballast = os.path.join(node.dir, "ballast")
    try:
        with cluster, Workload(cluster) as load:
            load.progress()
            leader = cluster.leader()
            fill(leader.ballast, leave=4 << 20)
            wait_for("another leads", lambda: cluster.leader() is not leader)
            wait_for("it has seen it", lambda: leader.status()["full"] == "1")
            load.progress()
            os.remove(leader.ballast)
            # Now to the last byte: such a replica may stop, and comes back when there is space.
            for victim in (cluster.followers()[0], cluster.leader()):
                fill(victim.ballast, leave=0)
                if cluster.leader() is not victim:
                    load.progress(300)
                os.remove(victim.ballast)
                if not victim.running():
                    check(victim.wait_end() == 6, victim.tail())
                    victim.start()
                load.progress()
            load.judge()
    finally:
        for node in cluster.nodes.values():
            subprocess.run(["umount", "-l", node.dir], check=False, capture_output=True)
        shutil.rmtree(cluster.dir, ignore_errors=True)


def fill(path, leave):
    room = os.statvfs(os.path.dirname(path))
    with open(path, "wb") as file:
        size = max(0, room.f_bavail * room.f_frsize - leave)
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            while leave == 0:
                file.write(bytes(4096))
                file.flush()
        except OSError:
            pass


def killed_at_every_step():
    """kill -9 at any call that changes a file: acknowledged writes are there after the restart."""
    rng = random.Random(SEED)
    cluster = Cluster(PROGRAM, 1, SMALL)
    node = cluster.nodes[1]
    steps = list(range(1, 400)) if LONG else sorted(rng.sample(range(1, 40), 6) + rng.sample(range(40, 250), 6))
    acked, tried, lives = {}, {}, 0
    with cluster:
        node.stop()
        for step in steps:
            if step < 30:  # from nothing: the making of the directory is part of it
                shutil.rmtree(node.dir)
                acked.clear()
                tried.clear()
            with_shim(node, kill_at=step)
            node.start(wait=False)
            alive = bool(node.process.stdout.readline())
            try:
                while alive and node.status()["ready"] == "0":
                    pass
                for n in range(400 if alive else 0):
                    key = f"k{n % 60}"
                    tried[key] = f"{step}-{n}"
                    answer = node.ask(f"set {key} {step}-{n} {'x' * 2000}")
                    check(answer.startswith("ok"), answer)
                    acked[key] = tried[key]
            except (Gone, OSError):
                alive = False
            if alive:  # it needed fewer calls
                node.kill()
            else:
                check(node.wait_end() == -9, f"step {step}: {node.tail()}")
                lives += 1
            node.environment = {}
            node.start()
            cluster.leader()
            for key, value in acked.items():
                answer = node.ask(f"get {key}")
                found = answer.split(" value ")[-1].split(" ")[0]
                check(found in (value, tried[key]), f"step {step}: {key}={value} or {tried[key]}, found {found}")
                acked[key] = tried[key] = found
            tried = dict(acked)
            node.kill()
            run(["check", node.dir], 0)
        check(lives > len(steps) // 2, f"only {lives} of {len(steps)} lives ended")
        print(f"# {lives} lives")


if __name__ == "__main__":
    sandbox.enter()
    run_cases([sync_fails_once, flipped_bit, wiped_disk, majority_lost, full_disk, killed_at_every_step])
