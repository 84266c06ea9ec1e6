#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each case of this folder must be red with the bug that planted.txt names for it.

usage: planted.py MUSTER_LOG_MUTANTS DISK_SHIM MUSTERCTL [PART OF A LINE]    (prints TAP)
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TRIES = 4  # most of these bugs need a moment that comes by chance


def lines(part):
    with open(os.path.join(HERE, "planted.txt"), encoding="utf-8") as file:
        words = [line.split() for line in file if line.strip() and not line.startswith("#")]
    return [line for line in words if part in " ".join(line)]


def red(program, shim, musterctl, name, case, mutant):
    """The output of a case that failed; None when it passed."""
    more = [musterctl] if name == "members" else []
    environment = dict(os.environ, MUSTER_TEST_MUTANT=mutant, MUSTER_TEST_PATIENCE="20")
    environment.pop("MUSTER_TEST_SANDBOX", None)
    done = subprocess.run([sys.executable, os.path.join(HERE, f"test_log_{name}.py"), program, shim, *more, case],
                          env=environment, capture_output=True, text=True, check=False)
    if "not ok 1" not in done.stdout:
        return None
    behind = done.stdout.split("\nnot ok 1", 1)[1].splitlines()[1:]
    return next((line for line in behind if line.strip("# ")), "# it did not say why")


def main():
    where, part = sys.argv[1:4], sys.argv[4] if len(sys.argv) > 4 else ""
    chosen = lines(part)
    print(f"TAP version 13\n1..{len(chosen)}", flush=True)
    survived = 0
    for number, line in enumerate(chosen, 1):
        said = None
        for _ in range(TRIES):
            said = said or red(*where, *line)
        survived += said is None
        print(f"{said or '# it passed'}"[:300])
        print(f"{'ok' if said else 'not ok'} {number} - {' '.join(line)}", flush=True)
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
