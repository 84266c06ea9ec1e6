#!/usr/bin/env python3
"""The conformance suite over real etcd members; several parts of it at once, because most of it is waiting.

usage: test_etcd_suite.py CONFORMANCE MEMBERS [--full] [PART...]    (prints TAP)
"""
import os
import re
import shutil
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib")]
SUITE, MEMBERS = os.path.abspath(sys.argv[1]), int(sys.argv[2])
SIZE = "--full" if "--full" in sys.argv else "--quick"
PARTS = [word for word in sys.argv[3:] if not word.startswith("--")] or ["A,B", "C,H", "D0", "D1,D2", "E,F", "L"]
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
from etcd_cluster import Cluster  # noqa: E402

LINE = re.compile(r"(ok|not ok) \d+(.*)")


def main():
    number, bad = 0, 0
    with Cluster(MEMBERS) as cluster:
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
    print(f"1..{number}")
    sys.exit(1 if bad or not number else 0)


if __name__ == "__main__":
    main()
