#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A struct, enum or union tag is defined in one header only. usage: tags.py SOURCE_ROOT   (prints TAP)"""
import collections
import re
import sys

from source import files, without_comments

DEFINITION = re.compile(r"^\s*(?:typedef\s+)?(?:struct|enum|union)\s+(\w+)\s*\{", re.M)


def definitions(text):
    return set(DEFINITION.findall(without_comments(text)))


def main():
    where = collections.defaultdict(list)
    for path, text in files(sys.argv[1], ("src", "cmd", "include"), ".h"):
        for tag in definitions(text):
            where[tag].append(path)
    twice = {tag: sorted(paths) for tag, paths in where.items() if len(paths) > 1}
    for tag, paths in sorted(twice.items()):
        print(f"# {tag} is defined in {', '.join(paths)}: give one of them its subject, as in {tag}_of_the_subject")
    print(f"{'not ok' if twice else 'ok'} 1 - {len(where)} tags are each defined in one header")
    planted = definitions("struct a {\n};\n/* struct b {\n*/ enum c { D };") == {"a", "c"}
    print(f"{'ok' if planted and len(where) > 500 else 'not ok'} 2 - definitions are found, comments are not\n1..2")
    sys.exit(bool(twice) or not planted)


main()
