# SPDX-License-Identifier: Apache-2.0
"""Commands inside of sentences, and links: not run, but there. A command's name and options are asked of its --help."""
import os
import re
import subprocess

import markdown

WORD = re.compile(r"[a-z][a-z0-9-]*")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9.-]*")
NOT_OURS = {"--help", "--version", "--config", "--print-config"}


class Helps:
    """The output of `PROGRAM WORDS --help`; each is run once."""

    def __init__(self, muster, musterctl):
        self.programs = {"muster": muster, "musterctl": musterctl}
        self.known = {}

    def of(self, program, words):
        key = (program, *words)
        if key not in self.known:
            done = subprocess.run([self.programs[program], *words, "--help"], capture_output=True, text=True, check=False,
                                  stdin=subprocess.DEVNULL)
            self.known[key] = done.stdout if done.returncode == 0 else None
        return self.known[key]


def options(text):
    """Those a help defines; being spoken of in a sentence or an example is not enough."""
    text = text.split("\nExamples:")[0].replace("--[no-]", "--")
    return set(re.findall(r"^  (--[a-z][a-z0-9.-]*)", text, re.M)) | {
        name for also in re.findall(r"Also: ([^.]*)\.", text) for name in OPTION.findall(also)}


def wrong_with(helps, span):
    """The fault of a command in a sentence; "" if none."""
    program, *rest = span.split()
    words = []
    for word in rest:
        if not WORD.fullmatch(word) or helps.of(program, words + [word]) is None:
            break
        words.append(word)
    text = helps.of(program, words)
    own = rest[len(words)] if len(words) < len(rest) else ""
    if not words and WORD.fullmatch(own):
        return f"there is no `{program} {own}`"
    group = f"{program} {' '.join(words)} COMMAND"
    if text and re.search(r"^Commands:", text, re.M) and WORD.fullmatch(own) and group in text:
        return f"there is no `{program} {' '.join(words)} {own}`"
    before_dashes = span.split(" -- ")[0]
    for option in OPTION.findall(before_dashes):
        if not {option, re.sub(r"^--no-", "--", option)} & (options(text) | NOT_OURS):
            return f"`{program} {' '.join(words)}` has no {option}"
    return ""


def examples(muster, musterctl):
    """The faults of the commands in every command's own help, and the number of commands."""
    helps, found, count = Helps(muster, musterctl), [], 0
    waiting = [(program, ()) for program in helps.programs]
    while waiting:
        program, words = waiting.pop()
        text = helps.of(program, words) or ""
        listed = re.search(r"^Commands:\n((?: .*\n)+)", text, re.M)
        if listed:
            waiting += [(program, (*words, name)) for name in re.findall(r"^  ([a-z][a-z-]*)(?= )", listed[1], re.M)]
        shown = re.search(r"^Examples:\n((?: .*\n)+)", text, re.M)
        for line in re.findall(r"^  (muster(?:ctl)? .*)$", shown[1] if shown else "", re.M):
            count += 1
            wrong = wrong_with(helps, re.split(r" \| | && |; ", line)[0])
            if wrong:
                found.append(f"{program} {' '.join(words)} --help: {line}: {wrong}")
    return found, count


def targets(root):
    with open(os.path.join(root, "Makefile"), encoding="utf-8") as file:
        return set(re.findall(r"^([a-z-]+):", file.read(), re.M))


def link_wrong(root, page, target):
    if re.match(r"[a-z]+:", target):
        return ""
    path, _, name = target.partition("#")
    path = os.path.normpath(os.path.join(os.path.dirname(page.path), path)) if path else page.path
    if not os.path.exists(os.path.join(root, path)):
        return f"a link to {target}, which is not there"
    if name and path.endswith(".md") and name not in markdown.anchors(os.path.join(root, path)):
        return f"a link to {target}: no such heading"
    return ""


def judge(root, muster, musterctl, pages):
    """All that is wrong, with its place."""
    helps, made, found = Helps(muster, musterctl), targets(root), []
    for page in pages:
        for line, span in page.spans:
            first = span.split()[0] if span.split() else ""
            wrong = ""
            if first in helps.programs and len(span.split()) > 1:
                wrong = wrong_with(helps, span)
            elif re.match(r"make [a-z-]+( |$)", span) and span.split()[1] not in made:
                wrong = f"the Makefile has no {span.split()[1]}"
            if wrong:
                found.append(f"{page.path}:{line}: {wrong}")
        for line, target in page.links:
            wrong = link_wrong(root, page, target)
            if wrong:
                found.append(f"{page.path}:{line}: {wrong}")
    return found
