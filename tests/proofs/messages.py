#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every message of the log has a row in docs/messages.md, with its levels, its meaning and what to do; and no row is of a
message that is gone.

usage: messages.py SOURCE_ROOT            (prints TAP)
       messages.py SOURCE_ROOT --list     level, file and text of each message
"""
import collections
import os
import re
import sys

from source import PRODUCT, files, without_comments

# The macro or function, and which argument is the text.
CALL = re.compile(r"\b(LOG_(?:DEBUG|INFO|WARN|ERROR)|LOG_AT|SERVICE_LOG_EVENT|core_log)\(")
TEXT_AT = {"LOG_AT": 2, "SERVICE_LOG_EVENT": 2, "core_log": 2}
LEVEL = re.compile(r"DEBUG|INFO|WARN|ERROR")
STRINGS = re.compile(r'(?:"(?:[^"\\]|\\.)*"\s*)+')
PAGE = "docs/messages.md"


def arguments(text, at):
    """The arguments of the call whose parenthesis opens just before `at`."""
    found, depth, begin = [], 0, at
    quoted = False
    for i in range(at, len(text)):
        c = text[i]
        if c == '"' and text[i - 1] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif c in "([{":
            depth += 1
        elif c in ")]}" and depth:
            depth -= 1
        elif c == ")" or (c == "," and not depth):
            found.append(text[begin:i])
            begin = i + 1
            if c == ")":
                return found
    return found


def messages(text):
    """(level, message) of each call; a conditional has two."""
    text = without_comments(text)
    for call in CALL.finditer(text):
        if text[text.rfind("\n", 0, call.start()) + 1:call.start()].lstrip().startswith("#define"):
            continue
        given, at = arguments(text, call.end()), TEXT_AT.get(call.group(1), 1)
        if len(given) <= at:
            continue
        levels = LEVEL.findall(call.group(1) + (given[1] if at == 2 else ""))
        for strings in STRINGS.findall(given[at]):
            message = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', strings))
            for level in levels:
                yield level.lower(), message


def unknown_macros(text):
    """Macros that log a text of their caller and that CALL does not know."""
    for macro in re.finditer(r"^#define (\w+)\((?:[^\n]*\\\n)*[^\n]*", without_comments(text), re.M):
        for call in CALL.finditer(macro.group(0), len("#define ") + len(macro.group(1)) + 1):
            given, at = arguments(macro.group(0), call.end()), TEXT_AT.get(call.group(1), 1)
            if len(given) > at and '"' not in given[at] and not CALL.match(macro.group(1) + "("):
                yield macro.group(1)


def of_tree(root):
    """{message: ({levels}, {files})}"""
    found = collections.defaultdict(lambda: (set(), set()))
    for path, text in files(root, PRODUCT, ".c"):
        for level, message in messages(text):
            found[message][0].add(level)
            found[message][1].add(path)
    return found


def rows(root):
    """{message: levels} of the page."""
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        return {m.group(1): set(m.group(2).split(", ")) for m in re.finditer(r"^\| `([^`]+)` \| ([a-z, ]+) \| [^|]+ \|$",
                                                                             file.read(), re.M)}


def main():
    root, found = sys.argv[1], of_tree(sys.argv[1])
    if "--list" in sys.argv:
        for message, (levels, paths) in sorted(found.items(), key=lambda each: (sorted(each[1][1]), each[0])):
            print(f"{','.join(sorted(levels)):5} {' '.join(sorted(paths))}: {message}")
        return
    listed = rows(root)
    faults = [f"{message!r} ({', '.join(sorted(found[message][1]))}) has no row" for message in found if message not in listed]
    faults += [f"{message!r} is in no source file" for message in listed if message not in found]
    faults += [f"{message!r}: the page says {', '.join(sorted(listed[message]))}, the source {', '.join(sorted(found[message][0]))}"
               for message in found if message in listed and listed[message] != found[message][0]]
    faults += [f"{path}: macro {name} logs a text of its caller; add it to CALL" for path, text in files(root, PRODUCT, (".c", ".h"))
               if not path.startswith("src/obs/") for name in unknown_macros(text)]
    print("\n".join(f"# {PAGE}: {fault}" for fault in sorted(faults)))
    print(f"{'not ok' if faults else 'ok'} 1 - {len(found)} messages of the log are explained in {PAGE}")
    planted = sorted(messages('LOG_WARN(x, "a " /* b */\n  "c", log_u64("d", f(1, 2)));\n#define LOG_AT(a, b, "x")\n'
                              'core_log(out, fenced ? CORE_ERROR : CORE_WARN, "e", "f");')) == [
        ("error", "e"), ("warn", "a c"), ("warn", "e")]
    print(f"{'ok' if planted and len(found) > 200 else 'not ok'} 2 - calls are found with their texts\n1..2")
    sys.exit(bool(faults) or not planted)


main()
