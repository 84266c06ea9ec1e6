#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two judges of the same histories: ours and porcupine. They must agree on every one that both can judge.

usage: agree.py PORCUPINE CHECK [good=N] [bad=N] FILE...     (a folder means the files in it)

good=, bad=: at least so many of the keys and groups judged must have been that. Says what it counted.
"""
import os
import re
import subprocess
import sys

PORCUPINE, CHECK = sys.argv[1:3]
WORDS = dict(word.split("=") for word in sys.argv[3:] if re.fullmatch(r"(good|bad)=\d+", word))
RULE = re.compile(r"^(ok|not ok) \d+ - (keys|slots) \((\d+) looked at(.*)\)$", re.M)
UNDECIDED_MAX = 0.05  # a judge may give up, but not often


def files():
    for path in sys.argv[3:]:
        if os.path.isdir(path):
            yield from (os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(".ndjson"))
        elif "=" not in path:
            yield path


def ours(path):
    """The verdict of each rule; nothing for one that had nothing to look at."""
    done = subprocess.run([CHECK, path], capture_output=True, text=True, check=False)
    if done.returncode == 2:
        sys.exit(f"{path}: {done.stderr}")
    return {rule: "unknown" if "gave up" in more else "good" if verdict == "ok" else "bad"
            for verdict, rule, count, more in RULE.findall(done.stdout) if count != "0"}


def main():
    paths, counts, undecided, wrong = list(files()), {"good": 0, "bad": 0}, 0, 0
    done = subprocess.run([PORCUPINE, *paths], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"porcupine: {done.stderr}")
    for line in done.stdout.splitlines():
        path, *rest = line.rsplit(" ", 4)
        theirs = dict(zip(rest[::2], rest[1::2]))
        for rule, verdict in ours(path).items():
            if "unknown" in (verdict, theirs[rule]):
                undecided += 1
            elif verdict != theirs[rule]:
                wrong += 1
                print(f"{path}: {rule}: we say {verdict}, porcupine says {theirs[rule]}")
            else:
                counts[verdict] += 1
    judged = sum(counts.values()) + undecided + wrong
    few = [word for word, least in WORDS.items() if counts[word] < int(least)]
    print(f"{len(paths)} histories: agreed on {counts['good']} good and {counts['bad']} bad, differed on {wrong}, "
          f"{undecided} undecided")
    for word in few:
        print(f"too few were {word}: {counts[word]}")
    sys.exit(1 if wrong or few or not judged or undecided > UNDECIDED_MAX * judged else 0)


main()
