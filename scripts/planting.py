# SPDX-License-Identifier: Apache-2.0
"""Planted bugs: a list of them, a copy of the tree to plant them in, and one after the other. What coord-mutants and
history-mutants share."""
import contextlib
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def mutants(path, words=(), **defaults):
    """Of a list: == what is wrong, file: where, - lines as they are, + lines instead, red: what must go red, and
    seeds: how many worlds must; other `name: text` lines as they stand. Only those whose text has one of the words."""
    found = []
    with open(os.path.join(ROOT, path), encoding="utf-8") as lines:
        for line in lines:
            line = line.rstrip("\n")
            name, colon, text = line.partition(": ")
            if line.startswith("== "):
                found.append({"name": line[3:], "old": [], "new": [], "red": [], **defaults})
            elif line.startswith("-"):
                found[-1]["old"].append(line[1:])
            elif line.startswith("+"):
                found[-1]["new"].append(line[1:])
            elif name == "red" and colon:
                found[-1]["red"] += text.split()
            elif name == "seeds" and colon:
                found[-1]["red"].append(line)
            elif found and colon and not line.startswith("#"):
                found[-1][name] = text
    return [mutant for mutant in found if not words or any(word in mutant["name"] for word in words)]


def copy_tree(to):
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True,
                            capture_output=True).stdout.decode().split("\0")
    for name in filter(None, listed):
        source, target = os.path.join(ROOT, name), os.path.join(to, name)
        if not os.path.exists(source):
            continue
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target) or open(source, "rb").read() != open(target, "rb").read():
            shutil.copy2(source, target)
            os.utime(target)
    subprocess.run(["scripts/configure", "build/plain"], cwd=to, check=True)


def build(tree, *targets):
    """What it said when it failed; empty when it did not."""
    built = subprocess.run(["nice", "ninja", "-C", "build/plain", "-j2", "--quiet", *targets], cwd=tree, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return built.stdout or "it failed" if built.returncode else ""


@contextlib.contextmanager
def planted(tree, mutant, *targets):
    """The tree with the bug, built; gives why it cannot be, or nothing. Afterwards its text is as it was."""
    path = os.path.join(tree, mutant["file"])
    with open(path, encoding="utf-8") as source:
        text = source.read()
    old, new = "\n".join(mutant["old"]), "\n".join(mutant["new"])
    if text.count(old) != 1:
        yield f"its lines are there {text.count(old)} times"
        return
    try:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text.replace(old, new))
        why = build(tree, *targets)
        yield f"does not build\n{why}" if why else ""
    finally:
        with open(path, "w", encoding="utf-8") as source:
            source.write(text)
