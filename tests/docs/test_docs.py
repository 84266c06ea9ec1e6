#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command of the documentation is run as it is written, against real processes (README.md here says how).

usage: TEST ROOT MUSTER MUSTERCTL LIBMUSTER MUSTER_LOG [PAGE ...]    (prints TAP: a line a page, and what was not run, with why)
"""
import concurrent.futures
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import markdown  # noqa: E402
import spans  # noqa: E402
import world  # noqa: E402

ROOT, *BUILT = (os.path.abspath(path) for path in sys.argv[1:6])
MUSTER, MUSTERCTL = BUILT[:2]
PLANTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "planted")
AT_ONCE = 5  # worlds; most of their time they wait


class Results:
    def __init__(self):
        self.count = self.failed = 0

    def report(self, name, wrong):
        self.count += 1
        if wrong:
            self.failed += 1
        print(f"{'not ok' if wrong else 'ok'} {self.count} - {name}")
        for line in wrong.split("\n") if wrong else []:
            print(f"# {line}")
        sys.stdout.flush()


def worlds(pages):
    """(world, pages): those that share one, and each of the others in its own; the longest first."""
    shared = {}
    for page in pages:
        shared.setdefault(page.world if page.world != "empty" else page.path, []).append(page)
    found = [(of[0].world, of) for of in shared.values()]
    return sorted(found, key=lambda one: (one[0] == "empty", -len([step for page in one[1] for step in page.steps])))


def run_world(name, pages):
    """A line of JSON for each page, from inside of it."""
    command = world.inside([sys.executable, os.path.abspath(__file__), ROOT, *BUILT, "--inside", name] +
                           [page.path for page in pages])
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    missing = {page.path for page in pages} - {one["page"] for one in reports}
    why = f"was not run to its end (status {done.returncode}):\n{done.stderr[-2000:]}"
    return reports + [{"page": path, "wrong": why, "blocks": 0} for path in sorted(missing)]


def planted(name):
    """A page with one fault, named in its first line: it must be refused for it. As a page's result."""
    with open(os.path.join(PLANTED, name), encoding="utf-8") as file:
        wanted = file.readline().strip("# \n")
    page = markdown.read(ROOT, os.path.relpath(os.path.join(PLANTED, name), ROOT))
    found = "\n".join(page.wrong + spans.judge(ROOT, MUSTER, MUSTERCTL, [page]))
    if page.steps and not found:
        found = "\n".join(one["wrong"] for one in run_world(page.world, [page]))
    wrong = "" if wanted in found else f"not noticed: {found or 'all was well'}"
    return [{"page": f"planted: {wanted}", "wrong": wrong, "blocks": 0}]


def sentences(pages):
    wrong = spans.judge(ROOT, MUSTER, MUSTERCTL, pages)
    return [{"page": "commands in a sentence exist, links lead somewhere", "wrong": "\n".join(wrong), "blocks": 0}]


def examples():
    wrong, count = spans.examples(MUSTER, MUSTERCTL)
    wrong += [] if count > 50 else ["too few were found"]
    return [{"page": f"{count} examples of --help name what there is", "wrong": "\n".join(wrong), "blocks": 0}]


def main():
    chosen = sys.argv[6:]
    if chosen[:1] == ["--inside"]:
        pages = [markdown.read(ROOT, path) for path in chosen[2:]]
        world.run_inside(ROOT, BUILT, chosen[1], pages)
        return
    tried = subprocess.run(world.inside(["ip", "link", "set", "lo", "up"]), capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        print(f"1..0 # SKIP no namespaces here: {tried.stderr.strip()}")
        return
    pages = [markdown.read(ROOT, path) for path in markdown.pages(ROOT) if not chosen or path in chosen]
    results = Results()
    results.report("every block is run or says why not", "\n".join(text for page in pages for text in page.wrong))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run_world, *one) for one in worlds([page for page in pages if page.steps])]
        running += [pool.submit(sentences, pages), pool.submit(examples)]
        running += [pool.submit(planted, name) for name in ([] if chosen else sorted(os.listdir(PLANTED)))]
        for done in concurrent.futures.as_completed(running):
            for one in done.result():
                took = f": {one['blocks']} blocks, {one['seconds']:.1f} s" if one["blocks"] else ""
                results.report(one["page"] + took, one["wrong"])
    for page in pages:
        for line, why in page.not_run:
            print(f"# not run: {page.path}:{line}: {why}")
    print(f"1..{results.count}")
    sys.exit(1 if results.failed else 0)


if __name__ == "__main__":
    main()
