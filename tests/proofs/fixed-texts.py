#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that other programs compare are in the code byte for byte. usage: fixed-texts.py SOURCE_ROOT   (prints TAP)

fixed-texts.txt has one text per line, below a heading that says who depends on the texts.
"""
import os
import re
import sys

from source import C, PRODUCT, files, without_comments

LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
JOINED = re.compile(r'"\s*\n?\s*"')


def strings(text):
    """The string literals of a C file, as UTF-8 bytes; adjacent literals are one."""
    for literal in LITERAL.findall(JOINED.sub("", without_comments(text))):
        yield re.sub(rb"\\(x[0-9a-fA-F]{2}|.)", plain, literal.encode())


def plain(match):
    escape = match.group(1)
    if len(escape) == 3:
        return bytes([int(escape[1:], 16)])
    return {b"n": b"\n", b"t": b"\t"}.get(escape, escape)


def wanted(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    present = b"\0".join(literal for _, text in files(sys.argv[1], PRODUCT, C) for literal in strings(text))
    texts = wanted(os.path.join(here, "fixed-texts.txt"))
    missing = [text for text in texts if text.encode() not in present]
    planted = b"a text that nobody fixed and nobody wrote" in present
    for text in missing:
        print(f"# no string literal of src or cmd contains: {text}")
    print(f"{'not ok' if missing else 'ok'} 1 - {len(texts)} fixed texts are in the code")
    print(f"{'not ok' if planted or len(texts) < 50 else 'ok'} 2 - an absent text is noticed, and the list was read\n1..2")
    sys.exit(bool(missing) or planted)


main()
