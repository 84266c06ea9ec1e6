# SPDX-License-Identifier: Apache-2.0
"""Faults of replicas during a test: mostly the leader is repeatedly killed, stopped, cut off in one direction, or has a
full disk. Each fault is short, and is over before the next begins.

`full` and `cut` need replicas on hosts of the sandbox with disks of their own (`prepare`)."""
import os
import random
import shutil
import signal
import subprocess
import threading

import sandbox

KINDS = ("kill", "pause", "cut", "full")
DISK_MIB, LEAVE = 256, 4 << 20
SPELL, CALM = 1.2, 0.8  # seconds; cadence, nothing is concluded from them


def fill(path, leave):
    """Takes the room of its file system but for so much."""
    room = os.statvfs(os.path.dirname(path))
    with open(path, "wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, max(0, room.f_bavail * room.f_frsize - leave))
            while leave == 0:
                file.write(bytes(4096))
                file.flush()
        except OSError:
            pass


def prepare(cluster, kinds):
    if "full" in kinds:
        for node in cluster.nodes:
            sandbox.disk(node.dir, DISK_MIB)


def clean(cluster):
    """When the processes have ended."""
    for node in cluster.nodes:
        if os.path.ismount(node.dir):
            subprocess.run(["umount", "-l", node.dir], check=False, capture_output=True)
    shutil.rmtree(cluster.dir, ignore_errors=True)


class Nemesis:
    """Replicas die with the thread that started them, so it is this thread that goes wrong, and what is tried has one
    of its own."""

    def __init__(self, cluster, kinds, seed, spell=SPELL, calm=CALM):
        self.cluster, self.kinds, self.random, self.spell, self.calm = cluster, kinds, random.Random(seed), spell, calm
        self.over, self.struck = threading.Event(), 0

    def beside(self, function):
        """Runs `work` under faults, heals everything, and returns its result."""
        result = []

        def tried():
            try:
                result.append(function())
            finally:
                self.over.set()
        thread = threading.Thread(target=tried)
        thread.start()
        try:
            while not self.over.wait(self.calm):
                self.strike()
        finally:
            thread.join()
        return result[0]

    def strike(self):
        kind = self.kinds[self.struck % len(self.kinds)]
        victim = self.cluster.leader()
        if kind == "full" and self.random.random() < 0.4:
            victim = self.random.choice(self.cluster.nodes)
        print(f"# {kind}: {victim.name}", flush=True)
        getattr(self, kind)(victim)
        self.struck += 1

    def kill(self, victim):
        victim.process.kill()
        victim.wait_end()
        self.over.wait(self.spell * self.random.random())
        victim.start()

    def pause(self, victim):
        victim.process.send_signal(signal.SIGSTOP)
        self.over.wait(self.spell)
        victim.process.send_signal(signal.SIGCONT)

    def cut(self, victim):
        """Drops the packets from or to the replica: those of the other replicas, or also those of clients."""
        others = [node.host for node in self.cluster.others(victim)]
        if not others or self.random.random() < 0.5:
            others.append(sandbox.OUTSIDE)
        mute = self.random.random() < 0.5
        pairs = [(victim.host, other) if mute else (other, victim.host) for other in others]
        for pair in pairs:
            sandbox.cut(*pair)
        self.over.wait(self.spell)
        for pair in pairs:
            sandbox.heal(*pair)

    def full(self, victim):
        """Below its reserve, or to the last byte: then it may stop, and comes back when there is room."""
        ballast = os.path.join(victim.dir, "ballast")
        fill(ballast, self.random.choice((LEAVE, LEAVE, 0)))
        self.over.wait(2 * self.spell)  # it looks once a second
        os.remove(ballast)
        if not victim.running():
            victim.wait_end()
            victim.start()
