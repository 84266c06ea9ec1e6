#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counting of scripts/test: not run is never passed. usage: runner.py SOURCE_ROOT  (prints TAP)"""
import importlib.machinery
import importlib.util
import json
import sys
import tempfile

CASES = [
    # why, stdout, meson's result, passed, failed, skipped
    ("each TAP line counts", "ok 1 - a\nok 2 - b\n1..2\n", "OK", 2, 0, 0),
    ("a failed line counts as failed", "ok 1 - a\nnot ok 2 - b\n1..2\n", "FAIL", 1, 1, 0),
    ("a skip is not a pass", "ok 1 - a # SKIP no root\n1..1\n", "SKIP", 0, 0, 1),
    ("a crash after good lines is a failure", "ok 1 - a\n", "ERROR", 1, 1, 0),
    ("a program killed by the time limit is a failure", "ok 1 - a\n", "TIMEOUT", 1, 1, 0),
    ("a program that printed nothing and failed is a failure", "", "FAIL", 0, 1, 0),
    ("a script judged by its exit code counts once", "words\n", "OK", 1, 0, 0),
    ("a script that skips says why", "no such tool\n", "SKIP", 0, 0, 1),
]


def main():
    loader = importlib.machinery.SourceFileLoader("runner", sys.argv[1] + "/scripts/test")
    spec = importlib.util.spec_from_loader("runner", loader)
    sys.dont_write_bytecode = True
    runner = importlib.util.module_from_spec(spec)
    loader.exec_module(runner)
    bad = 0
    for number, (why, stdout, result, passed, failed, skipped) in enumerate(CASES, 1):
        totals, failures, skips = {"passed": 0, "failed": 0, "skipped": 0}, [], []
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            log.write(json.dumps({"name": "x", "stdout": stdout, "result": result, "returncode": 1}) + "\n")
            log.flush()
            runner.count(log.name, "run", totals, failures, skips)
        want = {"passed": passed, "failed": failed, "skipped": skipped}
        good = totals == want and len(failures) == failed and len(skips) == skipped
        bad += not good
        print(f"{'ok' if good else 'not ok'} {number} - {why}")
        if not good:
            print(f"# got {totals}, want {want}")
    print(f"1..{len(CASES)}")
    sys.exit(bool(bad))


main()
