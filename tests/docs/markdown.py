# SPDX-License-Identifier: Apache-2.0
"""The content of a page: blocks of commands, files, output, and the comments above them that say how to run them.

README.md of this folder has the convention. Everything else is refused, so that nothing is left out in silence.
"""
import os
import re
from dataclasses import dataclass, field

COMMANDS = ("sh", "console")
DATA = ("text", "toml", "json", "yaml", "c", "python", "ini", "promql")
# Words that begin a command: a block that has them and is called text would go unseen.
PROGRAMS = re.compile(r"^\s*(\$ |(sudo |MUSTER_\w+=\S+ )*(muster|musterctl|bigfleetctl|etcdctl|curl|kubectl|helm|docker|podman|"
                      r"systemctl|apt|apt-get|dpkg|make|python3|kill|source)(?= [\w./~-])(?! \w+:))")
DIRECTIVES = {
    "not run": re.compile(r"not run: \S.{8,}"),
    "file": re.compile(r"file: (?P<name>[\w./-]+)"),
    "terminal": re.compile(r"terminal (?P<name>[\w-]+)(: until (?P<until>\S.*))?"),
    "stop": re.compile(r"(?P<how>stop|kill) (?P<name>[\w-]+)"),
    "soon": re.compile(r"soon"),
    "fails": re.compile(r"fails: (?P<code>\d+)"),
    "world": re.compile(r"world: (?P<name>[\w-]+)"),
    "run by": re.compile(r"run by \S+"),
}


class Wrong(Exception):
    """A page that cannot be read: the fault, and its place."""


@dataclass
class Block:
    line: int
    language: str
    text: str = ""
    directives: dict = field(default_factory=dict)  # name -> match


@dataclass
class Page:
    path: str
    world: str = "empty"
    steps: list = field(default_factory=list)  # of Block, and of ("stop"|"kill", name, line)
    not_run: list = field(default_factory=list)  # (line, why)
    wrong: list = field(default_factory=list)
    spans: list = field(default_factory=list)  # (line, inline code)
    links: list = field(default_factory=list)  # (line, target)


def directive(text):
    """The name and the text of a directive; None for a comment for people."""
    for name, pattern in DIRECTIVES.items():
        match = pattern.fullmatch(text)
        if match:
            return name, match
    return None


def anchor(title):
    """A heading's address, as the forges make it."""
    title = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", lambda found: found[1] or "", title)
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def anchors(path):
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^```.*?^```", "", file.read(), flags=re.M | re.S)
    return {anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.M)}


class Reader:
    def __init__(self, root, path):
        self.page = Page(path)
        self.waiting = {}  # directives for the next block
        self.waiting_line = 0
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.lines = file.read().split("\n")

    def complain(self, number, text):
        self.page.wrong.append(f"{self.page.path}:{number}: {text}")

    def comment(self, number, text):
        found = directive(text)
        if not found:
            self.complain(number, f"a comment nobody knows: {text} (see tests/docs/README.md)")
        elif found[0] == "stop":
            self.page.steps.append((found[1]["how"], found[1]["name"], number))
        elif found[0] == "world":
            self.page.world = found[1]["name"]
        else:
            self.waiting[found[0]], self.waiting_line = found[1], number

    def fence(self, number, language, text):
        block = Block(number, language, text, self.waiting)
        self.waiting = {}
        directives = block.directives
        if "not run" in directives:
            self.page.not_run.append((number, directives["not run"][0][len("not run: "):]))
        elif "file" in directives or language in COMMANDS:
            self.page.steps.append(block)
        if language == "":
            self.complain(number, "a block that does not say what it is: ```text if it is no command")
        elif language not in COMMANDS + DATA:
            self.complain(number, f"a block in a language that this test does not know: {language}")
        elif language in ("text", "ini") and "not run" not in directives and any(PROGRAMS.match(row) for row in text.split("\n")):
            self.complain(number, "commands in a block that is called text")
        if language in DATA and set(directives) - {"file", "not run"}:
            self.complain(number, f"{language} is no command: {', '.join(directives)}")

    def prose(self, number, line):
        if re.match(r" {4,}\S", line) and PROGRAMS.match(line) and self.lines[number - 2].strip() == "":
            self.complain(number, "an indented command: write it between ```sh and ```")
        self.page.spans += [(number, span) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", line)]
        self.page.links += [(number, target) for target in re.findall(r"\]\(([^)\s]+)\)", line)]

    def read(self):
        number = 0
        while number < len(self.lines):
            number += 1
            line = self.lines[number - 1]
            comment = re.fullmatch(r"<!-- (.*?) -->", line.strip())
            fence = re.fullmatch(r"(\s*)```(\S*).*", line)
            if fence:
                end = next((at for at in range(number, len(self.lines)) if self.lines[at].strip() == "```"), None)
                if end is None:
                    self.complain(number, "a block without an end")
                    break
                rows = [row[len(fence[1]):] if row.startswith(fence[1]) else row for row in self.lines[number:end]]
                self.fence(number, fence[2], "\n".join(rows) + "\n")
                number = end + 1
            elif comment:
                self.comment(number, comment[1])
            else:
                if line.strip() and self.waiting:
                    self.complain(self.waiting_line, "a comment that belongs to a block, and none follows it")
                    self.waiting = {}
                self.prose(number, line)
        return self.page


def read(root, path):
    return Reader(root, path).read()


def pages(root):
    """README.md, CONTRIBUTING.md, and every page for users."""
    found = ["README.md", "CONTRIBUTING.md"]
    for top in ("docs", "examples", "deploy"):
        for directory, _, names in os.walk(os.path.join(root, top)):
            found += [os.path.relpath(os.path.join(directory, name), root) for name in names if name.endswith(".md")]
    return sorted(found)
