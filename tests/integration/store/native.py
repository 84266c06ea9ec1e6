#!/usr/bin/env python3
"""Runs commands over muster://, beside real coordinators.

usage: native.py MUSTER MUSTERCTL PROTOC PROTO_ROOT REPLICAS [--full] [--faults] CONFORMANCE [PART...]    (prints TAP)
       native.py MUSTER MUSTERCTL PROTOC PROTO_ROOT REPLICAS -- COMMAND...    ({url} of it becomes their URL)

The first runs parts of the conformance suite at once, because most of it is waiting. --faults: all the while one
replica or another, often the leader, is killed or stopped for two seconds.
"""
import os
import random
import re
import signal
import subprocess
import sys
import threading

WORDS = sys.argv[5:]
del sys.argv[5:]
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
from stores import Cluster  # noqa: E402

PARTS = ["A,B", "C,H", "D0", "D1,D2", "E,F", "L,O"]
LINE = re.compile(r"(ok|not ok) \d+(.*)")


def disturb(cluster, over):
    while not over.wait(3):
        victim, kills = cluster.leader() if random.random() < 0.7 else random.choice(cluster.nodes), random.random() < 0.5
        print(f"# {victim.name} is {'killed' if kills else 'stopped'}", flush=True)
        if kills:
            victim.process.kill()
            victim.process.wait()
        else:
            victim.process.send_signal(signal.SIGSTOP)
        over.wait(2)
        if kills:
            victim.start()
        else:
            victim.process.send_signal(signal.SIGCONT)


def suite(cluster, url, words):
    number, bad, over = 0, 0, threading.Event()
    size = "--full" if "--full" in words else "--quick"
    program, *parts = [word for word in words if not word.startswith("--")]
    trouble = threading.Thread(target=disturb, args=(cluster, over))
    if "--faults" in words:
        trouble.start()
    parts = parts or PARTS
    runs = [subprocess.Popen([program, "--url", url, size, "--only", part], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for part in parts]
    for part, run in zip(parts, runs):
        failed = 0
        for line in run.communicate()[0].splitlines():
            match = LINE.fullmatch(line)
            if match:
                number += 1
                failed += match[1] == "not ok"
                line = f"{match[1]} {number}{match[2]}"
            elif line.startswith("1.."):
                continue
            elif not line.startswith("#"):
                line = "# " + line
            print(line, flush=True)
        if run.returncode != 0 and not failed:
            number, failed = number + 1, 1
            print(f"not ok {number} - part {part} ended with {run.returncode}")
        bad += failed
    over.set()
    if "--faults" in words:
        trouble.join()
    print(f"1..{number}")
    return 1 if bad or not number else 0


def main():
    with Cluster(int(WORDS[0])) as cluster:
        cluster.start()
        cluster.formed()
        url = "muster://" + ",".join(node.grpc for node in cluster.nodes)
        if WORDS[1] == "--":
            return subprocess.run([word.replace("{url}", url) for word in WORDS[2:]]).returncode
        return suite(cluster, url, WORDS[1:])


if __name__ == "__main__":
    sys.exit(main())
