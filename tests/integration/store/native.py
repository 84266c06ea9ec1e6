#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands over muster://, beside real coordinators.

usage: native.py MUSTER MUSTERCTL PROTOC PROTO_ROOT REPLICAS [--full] [--faults=KIND,...] CONFORMANCE [PART...]
       native.py MUSTER MUSTERCTL PROTOC PROTO_ROOT REPLICAS -- COMMAND...    ({url} of it becomes their URL)

The first runs parts of the conformance suite at once, because most of it is waiting, and prints TAP. --faults: all the
while the nemesis (nemesis.py) is at work, and the suite is as patient as a careful user is.
"""
import os
import re
import subprocess
import sys

WORDS = sys.argv[5:]
FULL_ARGUMENTS = list(sys.argv)
del sys.argv[5:]
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
import stores  # noqa: E402
from stores import Cluster  # noqa: E402
import nemesis  # noqa: E402
import sandbox  # noqa: E402

PARTS = ["A,B", "C,H", "D0", "D1,D2", "E,F", "L,O"]
LINE = re.compile(r"(ok|not ok) \d+(.*)")
OUTAGE_MS = "4000"  # a spell, and finding each other again on a busy machine


def show(part, run, number):
    """Prints its lines with continued numbers; returns how many there were and how many failed."""
    failed, first = 0, number
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
    return number - first, failed


def suite(url, words, number=0):
    size = "--full" if "--full" in words else "--quick"
    program, *parts = [word for word in words if not word.startswith("--")]
    patience = ["--outages", OUTAGE_MS] if any(word.startswith("--faults") for word in words) else []
    parts = parts or PARTS
    runs = [subprocess.Popen([program, "--url", url, size, *patience, "--only", part], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for part in parts]
    bad = 0
    for part, run in zip(parts, runs):
        count, failed = show(part, run, number)
        number, bad = number + count, bad + failed
    return number, bad


def disturbed(cluster, url, words, kinds):
    seed = os.environ.get("MUSTER_TEST_SEED", str(os.getpid()))
    print(f"# seed {seed}", flush=True)
    trouble = nemesis.Nemesis(cluster, kinds, seed)

    def tried():
        number, bad = suite(url, words)
        while trouble.struck < len(kinds) and not bad:  # a few cases are over before it went wrong in every way
            number, bad = suite(url, words, number)
        return number, bad
    number, bad = trouble.beside(tried)
    cluster.agree()
    print(f"ok {number + 1} - {trouble.struck} times {', '.join(kinds)}: one state in the end")
    return number + 1, bad


def main():
    faults = next((word for word in WORDS if word.startswith("--faults")), "")
    kinds = faults.partition("=")[2].split(",") if faults else ()
    hosts = any(kind in ("cut", "full") for kind in kinds)
    if hosts:
        sys.argv = FULL_ARGUMENTS
        sandbox.enter()
    cluster = Cluster(int(WORDS[0]), hosts=hosts)
    try:
        with cluster:
            if hosts:
                sandbox.hosts(len(cluster.nodes))
            nemesis.prepare(cluster, kinds)
            cluster.start()
            cluster.formed()
            url = "muster://" + ",".join(node.grpc for node in cluster.nodes)
            if WORDS[1] == "--":
                return subprocess.run([word.replace("{url}", url) for word in WORDS[2:]]).returncode
            number, bad = disturbed(cluster, url, WORDS[1:], kinds) if kinds else suite(url, WORDS[1:])
        print(f"1..{number}")
        return 1 if bad or not number else 0
    except stores.coordinators.Skipped as reason:
        print(f"1..0 # SKIP {reason}")
        return 0
    finally:
        nemesis.clean(cluster)


if __name__ == "__main__":
    sys.exit(main())
