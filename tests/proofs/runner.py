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
    chosen = [len(runner.select(run, tests, ["docs commands"])) for run in (asan, plain)]
    yield "a name selects its test in the runs that have it", chosen == [0, 1]
    yield "a name that the loop does not have is reported with the command", (
        "scripts/test --only plain 'fleet metrics'" in runner.why_not("fleet metrics", "check", every))
    yield "a name that no test has is reported with the nearest", (
        "did you mean 'fleet metrics'?" in runner.why_not("fleet metric", "check", every))
    with open(os.path.join(runner.ROOT, "docs", "ledger", "test-loops.md"), encoding="utf-8") as page:
        listed = {line.split(" | ")[1].strip() for line in page if line.startswith("| ") and line.count(" | ") == 2}
    yield "docs/ledger/test-loops.md has every test (scripts/test list > docs/ledger/test-loops.md)", listed - {"test"} == every


FAILED = {"name": "x", "result": "FAIL", "returncode": 1, "stdout": "ok 1 - a\nnot ok 2 - b\nok 3 - c\n1..3\n", "stderr":
          "[ RUN      ] a\nof a\n[       OK ] a\n[ RUN      ] b\nwhy b failed\n[  FAILED  ] b\n" + "of c\n" * 99}


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
    shown = runner.reason(FAILED, "b", []).split() == ["why", "b", "failed"]
    rest = [("of a failed test in C, what that test said is repeated", shown), *selection(runner, sys.argv[2])]
    for number, (why, good) in enumerate(rest, number + 1):
        bad += not good
        print(f"{'ok' if good else 'not ok'} {number} - {why}")
    print(f"1..{number}")
    sys.exit(bool(bad))


main()
