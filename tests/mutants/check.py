#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every planted bug of every list must still fit the tree, and so must the hooks of the file store; none may be in the
product. Prints TAP.

usage: check.py SOURCE_ROOT
"""
import glob
import os
import subprocess
import sys

ROOT = sys.argv[1]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import planting  # noqa: E402

HOOKS = "tests/unit/prim/file/hooks.txt"


def product():
    found = subprocess.run(["grep", "-rlwE", "MUTANT|file_hooks", "src", "cmd"], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    return [f"{name}: a planted bug or a hook in the product: it belongs into a list" for name in found.stdout.splitlines()]


def together(path):
    """The log's bugs are planted all at once, and so are hooks."""
    return os.path.basename(path) == "log_mutants.txt" or path == HOOKS


def wrong_of(path):
    texts = planting.Texts(ROOT)
    for bug in planting.mutants(path):
        if not bug["red"] and path != HOOKS:
            yield f"{path}: {bug['name']}: no line says what finds it"
        yield from texts.plant(bug)
        if not together(path):
            texts = planting.Texts(ROOT)


def main():
    lists = sorted(glob.glob(os.path.join(ROOT, "tests/*/*mutants.txt"))) + [os.path.join(ROOT, HOOKS)]
    checks = [("no bug in src or cmd", product())]
    checks += [(os.path.relpath(path, ROOT), list(wrong_of(os.path.relpath(path, ROOT)))) for path in lists]
    print(f"1..{len(checks)}")
    for number, (name, wrong) in enumerate(checks, 1):
        for line in wrong:
            print("# " + line)
        print(f"{'not ok' if wrong else 'ok'} {number} - {name}")
    sys.exit(any(wrong for _, wrong in checks))


main()
