#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A static function's name is used once in its module (src/X, cmd/X), and is no function of the C library: a stack trace
and a search show which one it is, and a module can be compiled as one unit. usage: statics.py SOURCE_ROOT   (prints TAP)
"""
import collections
import ctypes.util
import os
import re
import subprocess
import sys

from source import PRODUCT, files, without_comments

DEFINITION = re.compile(r"^static (?:inline )?[^=;{}()]*?\b([A-Za-z]\w*)\(", re.M)


def statics(text):
    return set(DEFINITION.findall(without_comments(text)))


def of_modules(root):
    """{module: {name: [files]}}"""
    modules = collections.defaultdict(lambda: collections.defaultdict(list))
    for path, text in files(root, PRODUCT, ".c"):
        for name in statics(text):
            modules["/".join(path.split("/")[:2])][name].append(path)
    return modules


def c_library():
    names = set()
    for library in ("c", "m"):
        path = ctypes.util.find_library(library)
        for folder in ("/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"):
            if os.path.exists(os.path.join(folder, path)):
                listed = subprocess.run(["nm", "-D", "--defined-only", os.path.join(folder, path)], capture_output=True,
                                        text=True, check=True).stdout
                names |= {line.split()[-1].split("@")[0] for line in listed.splitlines()}
                break
    return names


def main():
    modules, library = of_modules(sys.argv[1]), c_library()
    count = sum(len(paths) for names in modules.values() for paths in names.values())
    twice = [(name, paths) for names in modules.values() for name, paths in names.items() if len(paths) > 1]
    hidden = [(name, path) for names in modules.values() for name, paths in names.items() if name in library
              for path in paths]
    for name, paths in sorted(twice):
        print(f"# {name}() is in {', '.join(sorted(paths))}: name each for its file, as in "
              f"{os.path.basename(paths[0])[:-2]}_{name}()")
    for name, path in sorted(hidden):
        print(f"# {path}: {name}() hides the C library's")
    print(f"{'not ok' if twice else 'ok'} 1 - {count} static functions have names of their own in their modules")
    print(f"{'not ok' if hidden else 'ok'} 2 - none has the name of a function of the C library")
    found = statics("static int a(void)\n{\nstatic const char *const b[] = {x(1)};\n/* static int c(void) */\n"
                    "static inline struct d *e(int)\n") == {"a", "e"}
    planted = found and count > 5000 and {"read", "floor"} <= library
    print(f"{'ok' if planted else 'not ok'} 3 - definitions are found, comments and tables are not\n1..3")
    sys.exit(bool(twice or hidden) or not planted)


main()
