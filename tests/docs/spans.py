"""Commands inside of sentences, and links: not run, but there. A command's name and options are asked of its --help."""
import os
import re
import subprocess

import markdown

WORD = re.compile(r"[a-z][a-z0-9-]*")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9.-]*")
NOT_OURS = {"--help", "--version", "--config", "--print-config"}


class Helps:
    """What `PROGRAM WORDS --help` says; asked once."""

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


def wrong_with(helps, span):
    """What is wrong with a command in a sentence; "" if nothing."""
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
    before_dashes = re.split(r" -- ", span)[0]
    for option in OPTION.findall(before_dashes):
        plain = re.sub(r"^--no-", "--", option)
        if option not in NOT_OURS and not any(re.search(re.escape(one) + r"(?![\w-])", text) for one in (option, plain)):
            return f"`{program} {' '.join(words)}` has no {option}"
    return ""


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
