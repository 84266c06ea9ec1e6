#!/usr/bin/env python3
"""docs/coordinator-facts.md names every fact, and tests that exist. usage: facts.py SOURCE_ROOT   (prints TAP)"""
import os
import re
import sys

IDS = [f"{letter}{number}" for letter, last in (("S", 10), ("N", 4), ("R", 12), ("K", 2), ("J", 4), ("D", 3), ("T", 12))
       for number in range(1, last + 1)] + ["F7", "9.7"] + [f"21.{number}" for number in range(1, 12)]
TEST = re.compile(r"`(test_\w+\.(?:c|py)):(\w+)`")


def main():
    root, where = sys.argv[1], {}
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for name in files:
            where.setdefault(name, []).append(os.path.join(folder, name))
    with open(os.path.join(root, "docs", "coordinator-facts.md"), encoding="utf-8") as page:
        lines = page.read().splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    wrong = [f"{fact}: no row, or no test in it" for fact in IDS if not TEST.search(rows.get(fact, ""))]
    for name, test in sorted(set(TEST.findall("\n".join(lines)))):
        texts = [open(path, encoding="utf-8").read() for path in where.get(name, ())]
        if not any(re.search(rf"^(TEST\({test}\)|def {test}\()", text, re.M) for text in texts):
            wrong.append(f"{name} has no {test}")
    for text in wrong:
        print("# " + text)
    print(f"{'not ok' if wrong else 'ok'} 1 - every fact of the coordinator has its test\n1..1")
    sys.exit(bool(wrong))


main()
