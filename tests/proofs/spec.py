#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each section of the specification that the code cites exists. usage: spec.py SOURCE_ROOT   (prints TAP)

A citation is the name of a page and a section number: "wire.md 3.2", "coordination.md B3", "workers.md, section 9".
"""
import os
import re
import sys

from source import files

PAGES = ("wire", "coordinator", "shard", "workers", "coordination")
FOLDERS = ("src", "cmd", "include", "tests", "bench", "examples", "proto")
ENDINGS = (".c", ".h", ".py", ".proto", ".sh", ".txt", ".md")
CITATION = re.compile(r"\b(?:spec/)?(%s)\.md(?:\))?,?\s+(?:§\s?|section\s)?([A-D]?\d+(?:\.\d+)*)\b" % "|".join(PAGES))
VAGUE = re.compile(r"\bspec [A-D]\d|\bspecification,? section \d|\bspec's §")
HEADING = re.compile(r"^#{1,4}\s+(?:Part )?([A-D]\d+(?:\.\d+)*|\d+(?:\.\d+)*)\.?\s", re.M)


def sections(root, page):
    with open(os.path.join(root, "docs", "spec", page + ".md"), encoding="utf-8") as text:
        return set(HEADING.findall(text.read()))


def citations(root):
    for path, text in files(root, FOLDERS, ENDINGS):
        for number, line in enumerate(text.splitlines(), 1):
            if path.startswith("src/") and VAGUE.search(line):
                yield path, number, "", line.strip()
            for page, section in CITATION.findall(line):
                yield path, number, page, section


def unresolved(root):
    known = {page: sections(root, page) for page in PAGES}
    count = 0
    for path, number, page, section in citations(root):
        count += 1
        if not page:
            yield f"{path}:{number}: name the page, as in wire.md 3.2: {section}"
        elif section not in known[page]:
            yield f"{path}:{number}: docs/spec/{page}.md has no section {section}"
    if count == 0:
        yield "no citation was found: the pattern is wrong"


def main():
    wrong = list(unresolved(sys.argv[1]))
    for text in wrong:
        print("# " + text)
    print(f"{'not ok' if wrong else 'ok'} 1 - every cited section of the specification exists\n1..1")
    sys.exit(bool(wrong))


main()
