#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what clients of real coordinators do and see while replicas fail, and judges the history.

usage: run.py MUSTER MUSTERCTL PROTOC PROTO_ROOT RECORD CHECK [WORD...]    (prints TAP, a line a rule and scenario)

  alone kills stops cuts   scenarios; alone and kills and stops by default
  rounds=N seed=N          how often something breaks (1), what the clients draw
  keep=DIR                 leaves the histories there, one folder a scenario
"""
import contextlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ARGUMENTS = list(sys.argv)
RECORD, CHECK = (os.path.abspath(path) for path in sys.argv[5:7])
WORDS = sys.argv[7:]
del sys.argv[5:]
sys.path[:0] = [os.path.join(HERE, "../integration/store")]
from stores import Cluster, check, wait_for  # noqa: E402
import sandbox  # noqa: E402

OPTIONS = dict(word.split("=", 1) for word in WORDS if "=" in word)
ROUNDS, SEED = int(OPTIONS.get("rounds", 1)), int(OPTIONS.get("seed", os.getpid()))
RNG = random.Random(SEED)
STEADY = 120_000  # bytes of history between two faults: about 900 lines
LINE = re.compile(r"(ok|not ok) \d+ - (\w+) \((\d+) looked at(.*)\)")


class Recording:
    """The clients at work, from the block's begin to its end."""

    def __init__(self, cluster, folder):
        self.path, self.faults = os.path.join(folder, "clients.ndjson"), os.path.join(folder, "faults.ndjson")
        open(self.faults, "w", encoding="ascii").close()
        addresses = [node.grpc for node in cluster.nodes]
        self.nodes = cluster.nodes
        self.process = subprocess.Popen(
            [RECORD, "--url", "muster://" + ",".join(addresses), "--replicas", " ".join(addresses), "--out", self.path,
             "--seed", str(SEED)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        check(self.process.stdout.readline() == b"started\n", "the clients did not start")
        self.steady()
        return self

    def __exit__(self, kind, error, trace):
        if error:
            self.process.kill()
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        if not error:
            check(code == 0, f"the clients ended with {code}")

    def size(self):
        return os.path.getsize(self.path)

    def steady(self):
        """Waits until they got more done."""
        mark = self.size()
        wait_for("the clients get on", lambda: self.size() > mark + STEADY)

    def ended(self, node):
        """From now on reads from the node are of another process."""
        with open(self.faults, "a", encoding="ascii") as file:
            now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            file.write('{"e":"ended","t":%d,"replica":%d}\n' % (now, self.nodes.index(node) + 1))


# -- what breaks --

def kill(cluster, recording):
    victim = cluster.leader() if RNG.random() < 0.8 else RNG.choice(cluster.nodes)
    victim.process.kill()
    victim.wait_end()
    recording.ended(victim)
    recording.steady()
    victim.start()


def stop(cluster, recording):
    """For as long as those in a hurry need to go elsewhere and the patient still wait."""
    victim = cluster.leader()
    victim.pause()
    cluster.leader(cluster.others(victim))
    time.sleep(RNG.choice((0.2, 0.5, 0.8)))
    victim.resume()
    recording.steady()


def cut(cluster, recording):
    """One way or both, from the leader to the others."""
    victim = cluster.leader()
    ways = RNG.choice((("out",), ("in",), ("out", "in")))
    pairs = [(victim.host, node.host) if way == "out" else (node.host, victim.host)
             for node in cluster.others(victim) for way in ways]
    for source, target in pairs:
        sandbox.cut(source, target)
    cluster.leader(cluster.others(victim))
    recording.steady()
    for source, target in pairs:
        sandbox.heal(source, target)
    recording.steady()


SCENARIOS = {"alone": (1, []), "kills": (3, [kill]), "stops": (3, [stop]), "cuts": (3, [cut, cut, kill, stop])}
DEFAULT = ["alone", "kills", "stops"]


# -- and what is said of it --

def record(name, folder):
    replicas, faults = SCENARIOS[name]
    hosts = cut in faults
    if hosts:
        sandbox.hosts(replicas)
    with Cluster(replicas, hosts=hosts).start() as cluster:
        cluster.formed()
        with Recording(cluster, folder) as recording:
            for number in range(ROUNDS):
                if faults:
                    faults[number % len(faults)](cluster, recording)
                recording.steady()


def judge(name, folder, number):
    """Prints a line for each rule; how many were bad, and how many there were."""
    files = [os.path.join(folder, file) for file in sorted(os.listdir(folder)) if file.endswith(".ndjson")]
    done = subprocess.run([CHECK, *files], capture_output=True, text=True, check=False)
    bad = 0
    for line in done.stdout.splitlines():
        match = LINE.fullmatch(line)
        if match:
            number += 1
            fine = match[1] == "ok" and int(match[3]) > 0  # a rule that had nothing to look at proves nothing
            bad += not fine
            print(f"{'ok' if fine else 'not ok'} {number} - {match[2]} {name}: {match[3]}{match[4]}")
        elif line.startswith("#"):
            print(line)
    if done.returncode not in (0, 1, 3) or not done.stdout:
        number, bad = number + 1, bad + 1
        print(f"# {done.stderr.strip()}\nnot ok {number} - judge {name}")
    return number, bad


def main():
    names = [word for word in WORDS if word in SCENARIOS] or DEFAULT
    if "cuts" in names:
        sys.argv[:] = ARGUMENTS  # it starts this script again
        sandbox.enter()
    print(f"TAP version 13\n# seed {SEED}", flush=True)
    number = bad = 0
    for name in names:
        with contextlib.ExitStack() as stack:
            if "keep" in OPTIONS:
                folder = os.path.join(OPTIONS["keep"], name)
                shutil.rmtree(folder, ignore_errors=True)
                os.makedirs(folder)
            else:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-history-"))
            if name == "cuts" and sandbox.REASON:
                number += 1
                print(f"ok {number} - {name} # SKIP {sandbox.REASON}")
                continue
            began = time.monotonic()
            try:
                record(name, folder)
                number, more = judge(name, folder, number)
                bad += more
            except Exception as error:
                number, bad = number + 1, bad + 1
                print(f"# {error}".replace("\n", "\n# ") + f"\nnot ok {number} - record {name}")
            print(f"# {time.monotonic() - began:.1f} s", flush=True)
    print(f"1..{number}")
    return 1 if bad or not number else 0


if __name__ == "__main__":
    sys.exit(main())
