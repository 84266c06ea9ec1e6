# SPDX-License-Identifier: Apache-2.0
"""TAP for the drivers of this folder."""
import subprocess
import sys
import traceback

results = []


def ok(good, name, why=""):
    results.append(bool(good))
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}", flush=True)
    if not good:
        print("\n".join("# " + line for line in str(why).splitlines()[:30]), flush=True)
    return good


def skip(name, reason):
    results.append(True)
    print(f"ok {len(results)} - {name} # SKIP {reason}", flush=True)


def run(command, **how):
    """The process when it ended, standard error among its output."""
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=how.pop("timeout", 300), **how)


def judge(*cases):
    """Runs them one after the other; an exception is a failure of its case and of no other."""
    for case in cases:
        try:
            case()
        except Exception:  # noqa: BLE001
            ok(False, case.__name__.replace("_", " "), traceback.format_exc())
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)
