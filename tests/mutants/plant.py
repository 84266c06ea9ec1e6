#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies sources with all the bugs of a list in them, for a build that can switch on each (mutant.h), or with hooks.

usage: plant.py [--include HEADER] SOURCE_ROOT OUT_DIR LIST SOURCE...

Writes a copy of each source, and OUT_DIR/mutant_map.h unless the edits need another HEADER; unchanged files are left
alone, so that they are not compiled again.
"""
import os
import sys

HEADER = sys.argv[2] if sys.argv[1] == "--include" else "mutants/mutant.h"
ROOT, OUT, LIST, *PATHS = sys.argv[3 if sys.argv[1] == "--include" else 1:]
SOURCES = [os.path.relpath(path, ROOT) for path in PATHS]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import planting  # noqa: E402


def write(name, text):
    path = os.path.join(OUT, os.path.basename(name))
    if os.path.exists(path):
        with open(path, encoding="utf-8") as before:
            if before.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    texts, bugs = planting.Texts(ROOT), planting.mutants(os.path.abspath(LIST))
    wrong = [why for bug in bugs for why in texts.plant(bug)]
    if wrong:
        sys.exit("\n".join(wrong))
    if HEADER == "mutants/mutant.h":
        write("mutant_map.h", "/* Generated from " + os.path.basename(LIST) + ". */\n#define MUTANT_MAP(X) " +
              " ".join(f"X({bug['name']})" for bug in bugs) + "\n")
    for source in SOURCES:
        include = f'#include "{HEADER}"\n' if source in texts else ""
        write(source, include + texts[source])
    missing = set(texts) - set(SOURCES)
    if missing:
        sys.exit(f"{LIST} changes what is not copied: {', '.join(sorted(missing))}")


main()
