#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The subject of a commit is `module: what changed`, at most 100 characters. usage: subjects.py SOURCE_ROOT (prints TAP)

Checks the commits of the last branch only, because merged ones stay unchanged. Skipped where there is no history.
"""
import re
import subprocess
import sys

SINCE = "f6a62b6a"  # before it nothing was checked
SUBJECT = re.compile(r"[a-z0-9][\w./+ -]*(?:, [\w./+ -]+)*: \S.*")


def wrong(subject):
    if not subject.startswith(("Merge ", "Revert ")) and not SUBJECT.fullmatch(subject):
        return "is not `module: what changed`"
    return "is longer than 100 characters" if len(subject) > 100 else ""


def log(root, *commits):
    return subprocess.run(["git", "-C", root, "log", "--format=%h %s", *commits], capture_output=True, text=True, check=False)


def main():
    asked = log(sys.argv[1], f"{SINCE}..HEAD")
    if asked.returncode:  # a shallow clone: what it has
        asked = log(sys.argv[1], "HEAD", "--max-count=1")
    planted = [wrong(each) for each in ("Fix it", "store: ", "store: " + "x" * 100)]
    passed = [wrong(each) for each in ("store/etcd, rpc: one way", "all: x")]
    if asked.returncode:
        print("ok 1 - subjects of commits # SKIP no history here")
    else:
        faults = [f"# {line}: {wrong(line.split(' ', 1)[1])}" for line in asked.stdout.splitlines()
                  if wrong(line.split(" ", 1)[1])]
        print("\n".join([*faults, f"{'not ok' if faults else 'ok'} 1 - subjects of {len(asked.stdout.splitlines())} commits"]))
    fine = all(planted) and not any(passed)
    print(f"{'ok' if fine else 'not ok'} 2 - offences are found\n1..2")
    sys.exit(not fine or (not asked.returncode and bool(faults)))


main()
