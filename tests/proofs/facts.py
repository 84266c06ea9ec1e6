#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of facts name every fact, and tests that exist. usage: facts.py SOURCE_ROOT   (prints TAP)"""
import os
import re
import sys


def ids(**last):
    return [f"{letter}{number}" for letter, end in last.items() for number in range(1, end + 1)]


def below(section, last, first=1):
    return [f"{section}.{number}" for number in range(first, last + 1)]


PAGES = {
    "coordinator": ids(S=10, N=4, R=12, K=2, J=4, D=3, T=12) + ["F7", "9.7"] + below("21", 11),
    "shard": (below("1", 5) + below("2", 12) + below("3", 2) + below("4", 3) + below("5", 4) + below("5", 19, 7) +
              below("6", 2) + below("6.3", 5) + below("7", 5) + ["8"] + below("9", 3) + below("10", 6, 0) +
              below("11", 9) + ["12", "13", "14"] + below("15", 3) + [str(n) for n in (16, 17, 18, 19, 20, 21, 23)] +
              below("25", 12) + ids(Q=24, F=6, M=4, T=8, S=5) + ["P7", "B17", "T13", "T14", "T15", "9.7"]),
    "provider-operator": (["3.2"] + below("8", 6) + ids(P=7, B=16) + below("5", 6) + ["6.4", "6.5"] + below("22", 6) + ids(X=9)),
    "worker": ([str(n) for n in range(1, 251)] +
               ["§ " + n for n in "3.2 4.2 4.3 5 6.3 6.5 8.2 9 9.1 9.2 10 11.4 13 14 17.3 19 20.1 20.3 21".split()]),
}
TEST = re.compile(r"`((?:test|prop)_\w+\.(?:c|py)):(\w+)`")
NONE = re.compile(r"\| no test: \w")
BENCH = re.compile(r"`make bench ARGS=(\w+)`")


def wrong_of(root, page, facts, where):
    with open(os.path.join(root, "docs", "ledger", page + "-facts.md"), encoding="utf-8") as text:
        lines = text.read().splitlines()
    rows = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    wrong = [f"{fact}: no row, or no test in it" for fact in facts
             if not any(shown.search(rows.get(fact, "")) for shown in (TEST, BENCH, NONE))]
    wrong += [f"no bench {name}" for name in BENCH.findall("\n".join(lines))
              if not os.path.exists(os.path.join(root, "bench", f"bench_{name}.c"))]
    for name, test in sorted(set(TEST.findall("\n".join(lines)))):
        texts = [open(path, encoding="utf-8").read() for path in where.get(name, ())]
        if not any(re.search(rf"^(TEST\({test}\)|def {test}\()", text, re.M) for text in texts):
            wrong.append(f"{name} has no {test}")
    return wrong


def main():
    root, where, ended = sys.argv[1], {}, 0
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for name in files:
            where.setdefault(name, []).append(os.path.join(folder, name))
    for number, (page, facts) in enumerate(PAGES.items(), 1):
        wrong = wrong_of(root, page, facts, where)
        ended |= bool(wrong)
        for text in wrong:
            print("# " + text)
        print(f"{'not ok' if wrong else 'ok'} {number} - every fact of the {page} has its test")
    print(f"1..{len(PAGES)}")
    sys.exit(ended)


main()
