# SPDX-License-Identifier: Apache-2.0
"""Planted bugs: lists of them, and the edits that plant them in a copy of the tree. Used by coord-mutants, history-mutants,
sim-mutants and tests/mutants."""
import contextlib
import os
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFRESH = "write the present lines behind '-', and the same lines with the bug behind '+'"


def mutants(path, words=(), **defaults):
    """The bugs of a list: == what is wrong, file: where, - lines as they are, + lines instead (as often as there are places),
    red: what must go red, seeds: how many worlds must, test: which test must; other `name: text` lines unchanged.
    Only those whose text has one of the words."""
    found = []
    with open(os.path.join(ROOT, path), encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.rstrip("\n")
            name, colon, text = line.partition(": ")
            edits = found[-1]["edits"] if found else []
            if line.startswith("== "):
                found.append({"name": line[3:], "list": path, "edits": [], "red": [], **defaults})
            elif name == "file" and colon:
                edits.append((text, [], []))
            elif line.startswith(("-", "+")):
                if not edits:
                    raise ValueError(f"{path}:{number}: no file: line before it")
                if line[0] == "-" and edits[-1][2]:
                    edits.append((edits[-1][0], [], []))
                edits[-1][1 if line[0] == "-" else 2].append(line[1:])
            elif name == "red" and colon:
                found[-1]["red"] += text.split()
            elif name in ("seeds", "test") and colon:
                found[-1]["red"].append(line)
            elif found and colon and not line.startswith("#"):
                found[-1][name] = text
    return [mutant for mutant in found if not words or any(word in mutant["name"] for word in words)]


class Texts(dict):
    """Files of a tree by name, read when they are asked for."""

    def __init__(self, tree):
        super().__init__()
        self.tree = tree

    def __missing__(self, name):
        path = os.path.join(self.tree, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as source:
            return source.read()

    def plant(self, mutant):
        """Makes the edits of a bug; returns what is wrong with them, a line each."""
        wrong = [] if mutant["edits"] else [f"{mutant['list']}: {mutant['name']}: it changes nothing"]
        for name, *lines in mutant["edits"]:
            old, new = ("\n".join(part) for part in lines)
            count = self[name].count(old) if old else 0
            if count == 1:
                self[name] = self[name].replace(old, new)
            else:
                wrong.append(f"{mutant['list']}: {mutant['name']}: its '-' lines are in {name} {count} times, not once: "
                             f"{REFRESH}")
        return wrong


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
    """The output of a failed command; empty when it succeeded."""
    built = subprocess.run(["nice", "ninja", "-C", "build/plain", "-j2", "--quiet", *targets], cwd=tree, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return built.stdout or "it failed" if built.returncode else ""


@contextlib.contextmanager
def planted(tree, mutant, *targets):
    """Builds the tree with the bug; yields the reason when that fails, or "". Restores the sources afterwards."""
    texts = Texts(tree)
    wrong = texts.plant(mutant)
    before = {name: Texts(tree)[name] for name in texts}
    if wrong:
        yield "\n".join(wrong)
        return
    try:
        write_all(tree, texts)
        why = build(tree, *targets)
        yield f"does not build\n{why}" if why else ""
    finally:
        write_all(tree, before)


def write_all(tree, texts):
    for name, text in texts.items():
        with open(os.path.join(tree, name), "w", encoding="utf-8") as source:
            source.write(text)
