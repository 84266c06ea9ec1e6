#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies sources with all the bugs of a list in them, for a build that can switch on each (mutant.h).

usage: plant.py SOURCE_ROOT OUT_DIR LIST SOURCE...

Writes OUT_DIR/mutant_map.h and a copy of each source; what would not change is left alone, so that it is not compiled
again.
"""
import os
import sys

ROOT, OUT, LIST = sys.argv[1:4]
SOURCES = [os.path.relpath(path, ROOT) for path in sys.argv[4:]]
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
    write("mutant_map.h", "/* Generated from " + os.path.basename(LIST) + ". */\n#define MUTANT_MAP(X) " +
          " ".join(f"X({bug['name']})" for bug in bugs) + "\n")
    for source in SOURCES:
        include = '#include "mutants/mutant.h"\n' if source in texts else ""
        write(source, include + texts[source])
    missing = set(texts) - set(SOURCES)
    if missing:
        sys.exit(f"{LIST} changes what is not copied: {', '.join(sorted(missing))}")


main()
