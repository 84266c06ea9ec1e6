#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/container/Containerfile, each step of it run in a chroot instead of a container: there is no registry here
to take a base image from. COPY, RUN, ARG, FROM, USER, WORKDIR and ENTRYPOINT mean what they mean to podman.

usage: long_container.py SOURCE     (prints TAP; needs root)"""
import json
import os
import re
import shlex
import subprocess
import sys

from chroots import Chroot, needed_or_skip
from tap import judge, ok

SOURCE = os.path.abspath(sys.argv[1])
KNOWN = {"ARG", "FROM", "RUN", "COPY", "USER", "WORKDIR", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"}
needed_or_skip("debootstrap", "git")


def steps():
    with open(os.path.join(SOURCE, "deploy/container/Containerfile"), encoding="utf-8") as file:
        text = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", file.read(), flags=re.M))
    return [(line.split(None, 1)[0], line.split(None, 1)[1]) for line in text.splitlines() if line.strip()]


def copy(stages, system, words):
    source_root = None
    if words[0].startswith("--from="):
        source_root = stages[words.pop(0)[len("--from="):]].root
    *sources, target = words
    for source in sources:
        place = system.path(target)
        if source_root is None:  # the repository: what is committed, as a build context has it without build/
            subprocess.run(["git", "clone", "-q", SOURCE, place], check=True)
            system.run(f"git config --global --add safe.directory {shlex.quote(target)}")
            continue
        found = os.path.join(source_root, source.lstrip("/"))
        if os.path.isdir(found):
            os.makedirs(place, exist_ok=True)
            found += "/."
        subprocess.run(["cp", "-a", found, place], check=True)


def recipe():
    ok(all(word in KNOWN for word, _ in steps()), "only steps that are understood", [word for word, _ in steps()])
    ok(not re.search(r"FROM \S*[./]\S*/", "\n".join(" ".join(step) for step in steps())), "no registry is named")
    stages, order, system, image = {}, [], None, {}
    try:
        for word, rest in steps():
            if word == "FROM":
                system = Chroot(SOURCE, f"image-{len(order)}").__enter__()
                order.append(system)
                stages[rest.split(" AS ")[1] if " AS " in rest else ""] = system
            elif word == "RUN":
                code, said = system.run(rest)
                if not ok(code == 0, f"RUN {rest[:80]}", said[-3000:]):
                    return
            elif word == "COPY":
                copy(stages, system, rest.split())
            else:
                image[word] = rest
        user = image["USER"].split(":")
        entry = json.loads(image["ENTRYPOINT"])
        as_user = ["setpriv", "--reuid", user[0], "--regid", user[1], "--clear-groups"]
        for words, wanted in ((["--version"], "muster "), (json.loads(image["CMD"]), "Usage: muster"),
                              (["coordinator", "run", "--print-config"], "listen")):
            code, said = system.run(f"cd {image['WORKDIR']} && " + shlex.join(as_user + entry + words))
            ok(code == 0 and wanted in said, f"the image's user runs muster {' '.join(words)}", said)
        code, said = system.run("musterctl --help && command -v bigfleet && ! command -v gcc && ! command -v git")
        ok(code == 0, "musterctl and the other names are there, and nothing that builds", said)
        code, said = system.run(shlex.join(as_user) + f" touch {image['WORKDIR']}/x")
        ok(code == 0, "its user may write its directory", said)
    finally:
        for one in order:
            one.__exit__(None, None, None)


judge(recipe)
