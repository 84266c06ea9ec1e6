#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every history of kept/, recorded from a store with a planted bug, is bad by the rule that its name begins with.

usage: kept.py CHECK    (prints TAP)
"""
import os
import subprocess
import sys

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kept")
names = sorted(name for name in os.listdir(KEPT) if name.endswith(".ndjson"))
bad = 0
print(f"TAP version 13\n1..{len(names)}")
for number, name in enumerate(names, 1):
    rule, what = name[:-len(".ndjson")].split("-", 1)
    done = subprocess.run([sys.argv[1], "--rule", rule, os.path.join(KEPT, name)], capture_output=True, text=True,
                          check=False)
    print("\n".join(line for line in done.stdout.splitlines() if line.startswith("#")) or f"# {done.stderr.strip()}")
    print(f"{'ok' if done.returncode == 1 else 'not ok'} {number} - {rule}: {what.replace('-', ' ')}")
    bad += done.returncode != 1
sys.exit(1 if bad or not names else 0)
