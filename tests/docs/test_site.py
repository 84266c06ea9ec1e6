#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The web site that scripts/docs makes: every link leads to a page and a heading that exist, and the search in a real
Chromium finds what it should. usage: test_site.py SOURCE_ROOT [SCREENSHOT]   (prints TAP)
"""
import html.parser
import os
import subprocess
import sys
import tempfile

sys.path += [os.path.join(os.path.dirname(os.path.abspath(__file__)), each) for each in ("../integration/dash", "../packaging")]
from browser import Browser, find  # noqa: E402
from tap import judge, ok, skip  # noqa: E402

SOURCE = os.path.abspath(sys.argv[1])
# Words of somebody who searches, and the page that must be first.
WANTED = {"disk full": "operations.html#a-full-disk", "restore": "operations.html#restore", "MusterNoLeader": "alerts.html#musternoleader",
          "rolling upgrade": "operations.html#rolling-upgrade", "sizing": "operations.html#sizing"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.add(attrs["id"])
        self.links += [attrs[name] for name in ("href", "src") if name in attrs]


def dead_links(pages, path):
    for link in pages[path].links:
        target, _, anchor = link.partition("#")
        if ":" in target:
            continue
        target = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if not os.path.exists(target):
            yield f"{link}: no such file"
        elif anchor and target in pages and anchor not in pages[target].ids:
            yield f"{link}: the page has no such heading"


def main():
    with tempfile.TemporaryDirectory(prefix="muster-site-") as site:
        subprocess.run([os.path.join(SOURCE, "scripts/docs"), site], check=True, stdout=subprocess.DEVNULL)
        paths = [os.path.join(top, name) for top, _, names in os.walk(site) for name in names if name.endswith(".html")]
        pages = {path: Page(path) for path in paths}
        ok(len(pages) > 50, f"{len(pages)} pages")
        dead = [f"{os.path.relpath(path, site)}: {fault}" for path in sorted(paths) for fault in dead_links(pages, path)]
        ok(not dead, "every link leads to a page and a heading", "\n".join(dead))
        planted = os.path.join(site, "planted.html")
        with open(planted, "w", encoding="utf-8") as file:
            file.write('<a href="operations.html#no-such-heading">x</a>')
        pages[planted] = Page(planted)
        ok(len(list(dead_links(pages, planted))) == 1, "a dead link is noticed")
        if not find():
            skip("search", "no chromium")
            return
        with tempfile.TemporaryDirectory(prefix="muster-site-browser-") as home, Browser(home) as browser:
            page = browser.page(1280, 900)
            page.open("file://" + os.path.join(site, "operations.html"))
            page.wait_for("document.readyState === 'complete' && typeof SECTIONS !== 'undefined'")
            for query, wanted in WANTED.items():
                page.run(f"(field.value = {query!r}, field.dispatchEvent(new Event('input')), 1)")
                found = page.run("list.querySelector('a').href")
                ok(wanted in found, f"a search for {query!r} finds {wanted} first", found)
            if len(sys.argv) > 2:
                page.screenshot(sys.argv[2])
            page.run("(field.value = 'zzqqy', field.dispatchEvent(new Event('input')), 1)")
            ok(page.run("list.textContent") == 'Nothing found for "zzqqy".', "a search without a result says so")


judge(main)
