# SPDX-License-Identifier: Apache-2.0
"""The cases of a test driver, as TAP: each function below @test, in the order of the file. An exception fails its case and no
other.
"""
import sys

TESTS = []


class Skip(Exception):
    """The case cannot run here; the text says why."""


def test(function):
    TESTS.append(function)
    return function


def same(why, got, want):
    if got != want:
        raise AssertionError(f"{why}:\n  wanted {want!r}\n  got    {got!r}")


def run_tests(only=""):
    """Those whose name contains `only`; ends the process."""
    failed = 0
    chosen = [function for function in TESTS if only in function.__name__]
    print(f"1..{len(chosen)}", flush=True)
    for number, function in enumerate(chosen, 1):
        try:
            function()
            print(f"ok {number} - {function.__name__}", flush=True)
        except Skip as why:
            print(f"ok {number} - {function.__name__} # SKIP {why}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {function.__name__}", flush=True)
            print("\n".join("# " + line for line in f"{type(error).__name__}: {error}".splitlines()), flush=True)
    sys.exit(1 if failed else 0)
