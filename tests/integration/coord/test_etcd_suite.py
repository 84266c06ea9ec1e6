#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The conformance suite over real etcd members; several parts of it at once, because most of it is waiting.

usage: test_etcd_suite.py CONFORMANCE MEMBERS [--full] [--faults] [PART...]    (prints TAP)

--faults: all the while one member or another is killed or stopped for two seconds. For cases whose judge knows that a
call may be UNAVAILABLE then (C03, F11).
"""
import os
import random
import re
import shutil
import subprocess
import sys
import threading

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib")]
SUITE, MEMBERS = os.path.abspath(sys.argv[1]), int(sys.argv[2])
SIZE = "--full" if "--full" in sys.argv else "--quick"
PARTS = [word for word in sys.argv[3:] if not word.startswith("--")] or ["A,B", "C,H", "D0", "D1,D2", "E,F", "L"]
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
from etcd_cluster import Cluster  # noqa: E402

LINE = re.compile(r"(ok|not ok) \d+(.*)")


def disturb(cluster, over):
    while not over.wait(3):
        victim, kills = random.randrange(MEMBERS), random.random() < 0.5
        print(f"# member {victim} is {'killed' if kills else 'stopped'}", flush=True)
        if kills:
            cluster.kill(victim)
        else:
            cluster.pause(victim)
        over.wait(2)
        if kills:
            cluster.start(victim)
        else:
            cluster.resume(victim)


def main():
    number, bad, over = 0, 0, threading.Event()
    with Cluster(MEMBERS) as cluster:
        trouble = threading.Thread(target=disturb, args=(cluster, over))
        if "--faults" in sys.argv:
            trouble.start()
        runs = [subprocess.Popen([SUITE, "--url", cluster.url(), SIZE, "--only", part], text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for part in PARTS]
        for part, run in zip(PARTS, runs):
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
        if "--faults" in sys.argv:
            trouble.join()
    print(f"1..{number}")
    sys.exit(1 if bad or not number else 0)


if __name__ == "__main__":
    main()
