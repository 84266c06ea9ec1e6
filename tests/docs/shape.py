# SPDX-License-Identifier: Apache-2.0
"""Compares the output shown in a page with the real output: the same in shape, not in numbers."""
import re

# What differs from one run to the next; the words stay.
VARIES = [
    (re.compile(r"\b[\w.-]+@[\w.-]+:\d+"), "OWNER"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ULID"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{16,64}\b"), "HEX"),
    (re.compile(r"(?<![\w.])\d[\d,]*(\.\d+)?(?=(ns|us|µs|ms|s|m|h|d|%|B|KiB|MiB|GiB)?\b|\b)"), "N"),
    (re.compile(r"\s+"), " "),
]


def shape(line):
    for pattern, word in VARIES:
        line = pattern.sub(word, line)
    return line.strip()


def pattern_of(line):
    """A shown line as a pattern: … and ... match anything in it."""
    parts = re.split(r"…|\.\.\.", line)
    return re.compile(".*".join(re.escape(shape(part)) for part in parts).replace(r"\ ", " ?"))


def same(shown, seen):
    """None, or the first shown line that was not seen. A line that is … or ... matches any number of lines."""
    rows = [row for row in seen.split("\n") if row.strip()]
    at, skip = 0, False
    for line in (line for line in shown.split("\n") if line.strip()):
        if line.strip() in ("…", "..."):
            skip = True
            continue
        wanted = pattern_of(line)
        while skip and at < len(rows) and not wanted.fullmatch(shape(rows[at])):
            at += 1
        if at >= len(rows) or not wanted.fullmatch(shape(rows[at])):
            return line
        at, skip = at + 1, False
    return None if skip or at == len(rows) else f"(nothing more), and there was: {rows[at]}"


def commands(text):
    """The commands of a console block, each with its shown output."""
    found = []
    for line in text.split("\n"):
        if line.startswith("$ "):
            found.append([line[2:], ""])
        elif found and not found[-1][1] and found[-1][0].endswith("\\"):
            found[-1][0] += "\n" + line
        elif found:
            found[-1][1] += line + "\n"
    return [tuple(pair) for pair in found]
