#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every relative link in our pages leads somewhere. usage: links.py SOURCE_ROOT   (prints TAP)"""
import os
import re
import sys

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def dead_links(root, page):
    with open(page, encoding="utf-8") as text:
        links = LINK.findall(text.read())
    return [link for link in links if ":" not in link
            and not os.path.exists(os.path.join(os.path.dirname(page), link))]


def main():
    root, pages = sys.argv[1], []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in (".git", "build", "dev-data")]
        pages += [os.path.join(folder, f) for f in files if f.endswith(".md")]
    bad = 0
    for number, page in enumerate(sorted(pages), 1):
        dead = dead_links(root, page)
        bad += bool(dead)
        print(f"{'not ok' if dead else 'ok'} {number} - {os.path.relpath(page, root)}")
        for link in dead:
            print(f"# {link} does not exist")
    print(f"1..{len(pages)}")
    sys.exit(bool(bad))


main()
