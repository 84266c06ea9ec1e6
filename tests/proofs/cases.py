#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No case of a test in Python is forgotten: each function of its file is named somewhere in that file, or decorated.

A case that its file's list does not name would never run. usage: cases.py SOURCE_ROOT   (prints TAP)"""
import ast
import glob
import os
import sys


def forgotten(text):
    tree = ast.parse(text)
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return [node.name for node in tree.body
            if isinstance(node, ast.FunctionDef) and not node.decorator_list and node.name not in named]


def main():
    pages = sorted(glob.glob(os.path.join(sys.argv[1], "tests/**/test_*.py"), recursive=True))
    wrong = []
    for page in pages:
        with open(page, encoding="utf-8") as file:
            wrong += [f"{os.path.relpath(page, sys.argv[1])}: {name} is in no list of cases" for name in forgotten(file.read())]
    print(f"1..2\n{'not ok' if wrong or not pages else 'ok'} 1 - each case of a test in Python is in its file's list")
    print("\n".join("# " + line for line in wrong))
    planted = forgotten("def a():\n    pass\n\n\ndef b():\n    pass\n\n\nrun_cases([a])\n") == ["b"]
    print(f"{'ok' if planted else 'not ok'} 2 - and a case that is not is found")
    sys.exit(bool(wrong) or not planted)


main()
