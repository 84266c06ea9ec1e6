#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The counting of scripts/test: not run is never passed; and its selection: wider loops run what cheaper ones run, and no
name is ignored. usage: runner.py SOURCE_ROOT BUILD_ROOT  (prints TAP)"""
import importlib.machinery
import importlib.util
import json
import os
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


def selection(runner, build):
    """Pairs of a sentence and whether it holds, over the tests of this build directory."""
    tests = runner.introspect(os.path.basename(build), "tests")
    every = {test["name"] for test in tests}
    of = {loop: {test["name"] for run in runs for test in runner.select(run, tests, [])} for loop, runs in runner.LOOPS.items()}
    yield "check is a part of test", of["check"] <= of["test"]
    yield "test is a part of full", of["test"] <= of["full"]
    yield "full and long are everything", of["full"] | of["long"] == every
    yield "every reported fault's test exists", runner.reported() <= every
    asan, plain = runner.LOOPS["full"][:2]
    some = sorted(of["check"])[0]
    named = [some, "no such test"]
    yield "a name that no run has is reported", runner.unknown(named, [(asan, runner.select(asan, tests, named))]) == ["no such test"]
    only_plain = ["docs commands"]
    plans = [(run, runner.select(run, tests, only_plain)) for run in (asan, plain)]
    yield "a name that one run has is enough", [len(chosen) for _, chosen in plans] == [0, 1] and not runner.unknown(only_plain, plans)
    with open(os.path.join(runner.ROOT, "docs", "test-loops.md"), encoding="utf-8") as page:
        listed = {line.split(" | ")[1].strip() for line in page if line.startswith("| ") and line.count(" | ") == 2}
    yield "docs/test-loops.md has every test (scripts/test list > docs/test-loops.md)", listed - {"test"} == every


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
    number = len(CASES)
    for number, (why, good) in enumerate(selection(runner, sys.argv[2]), number + 1):
        bad += not good
        print(f"{'ok' if good else 'not ok'} {number} - {why}")
    print(f"1..{number}")
    sys.exit(bool(bad))


main()
