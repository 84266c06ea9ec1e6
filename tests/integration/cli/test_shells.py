#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion in the shells it is for, and the manual pages before the program that prints them.

usage: test_shells.py MUSTER MUSTERCTL SCRIPTS [NAME]    (prints TAP)

Each shell itself is the judge: bash and fish are asked for candidates, zsh is typed at through a terminal. groff
reads every page with all warnings on.
"""
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from cases import Skip, run_tests, same, test  # noqa: E402

MUSTER, MUSTERCTL, SCRIPTS = sys.argv[1:4]
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
PATIENCE = 60
PATH = f"{os.path.dirname(MUSTER)}:{os.path.dirname(MUSTERCTL)}:/usr/bin:/bin"


def need(program):
    if not shutil.which(program):
        raise Skip(f"no {program}; scripts/setup test installs it")


def run(*words, **kwargs):
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
                          env={"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TERM": "dumb"}, **kwargs)


# What is typed, and what may follow: of both programs, a group, a command with an argument before its option, a choice
# under both spellings of its option, a hidden command.
LINES = [
    ("musterctl shard re", ["reports", "remove"]),
    ("musterctl replica t", ["transfer"]),
    ("musterctl replica remove node-3 --ou", ["--output"]),
    ("musterctl shard list --output j", ["json"]),
    ("musterctl shard list -o j", ["json"]),
    ("muster dev --log-level w", ["warn"]),
    ("muster dev --no-ins", ["--no-insecure"]),
    ("muster test-fe", []),
    ("musterctl completion f", ["fish"]),
]


def script(shell):
    """A file with the completion of both programs."""
    path = os.path.join(HOME, "completion." + shell)
    with open(path, "w", encoding="utf-8") as out:
        for program in [MUSTER, MUSTERCTL]:
            done = run(program, "completion", shell)
            same("it is printed", (done.returncode, done.stderr), (0, ""))
            out.write(done.stdout)
    return path


@test
def bash_completes():
    asked = [f"set -u; source {script('bash')}"]
    for line, _ in LINES:
        program, *words = line.split(" ")
        asked.append(f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _{program}_complete; echo \"${{COMPREPLY[*]}}\"")
    done = run("bash", "--norc", "-c", "\n".join(asked))
    same("bash reads the script", (done.returncode, done.stderr), (0, ""))
    for (line, want), got in zip(LINES, done.stdout.split("\n"), strict=False):
        same(line, got.split(), want)


@test
def fish_completes_and_says_what_each_is_for():
    need("fish")
    asked = [f"source {script('fish')}"] + [f"complete -C '{line}'; echo ." for line, _ in LINES]
    done = run("fish", "--no-config", "-c", "\n".join(asked))
    same("fish reads the script", (done.returncode, done.stderr), (0, ""))
    for (line, want), got in zip(LINES, done.stdout.split(".\n"), strict=False):
        found = [row.split("\t") for row in got.splitlines()]
        same(line, sorted(row[0] for row in found), sorted(want))
        assert all(len(row) == 2 and row[1] for row in found), f"{line}: each has its words: {found}"


class Typed:
    """A zsh in a terminal of its own."""

    def __init__(self):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {"PATH": PATH, "HOME": HOME, "LANG": "C.UTF-8", "TERM": "dumb", "PS1": "ready> "})
        self.wait("ready> ")
        self.say("unsetopt zle_bracketed_paste 2>/dev/null; autoload -Uz compinit; compinit -u -D; setopt no_always_last_prompt; "
                 f"source {script('zsh')}; print lo''aded\n")
        self.wait("loaded")
        self.wait("ready> ")

    def say(self, text):
        os.write(self.fd, text.encode())

    def wait(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert time.monotonic() < end, f"zsh never showed {text!r}: {self.seen!r}"
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
        self.seen = self.seen[self.seen.index(text) + len(text):]

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


@test
def zsh_completes_and_says_what_each_is_for():
    need("zsh")
    shell = Typed()
    try:
        for typed, ending, more in [("musterctl replica t", "ransfer", None), ("musterctl shard list --output j", "son", None),
                                    ("musterctl shard list -o j", "son", None),
                                    ("musterctl replica remove node-3 --ou", "tput", None),
                                    ("musterctl completion ", "", "a script for fish")]:
            shell.say(typed)
            shell.wait(typed)
            shell.say("\t")
            shell.wait(ending + " " if ending else more)
            shell.say("\x15")  # the line away
            shell.say("print o''k\n")
            shell.wait("ok")
            shell.wait("ready> ")
    finally:
        shell.close()


def installed(folder):
    done = run(os.path.join(SCRIPTS, "manuals"), os.path.join(folder, "man"), os.path.join(folder, "share"), MUSTER, MUSTERCTL)
    same("the pages are written", (done.returncode, done.stdout, done.stderr), (0, "", ""))
    return sorted(os.path.join(where, name) for where, _, names in os.walk(os.path.join(folder, "man")) for name in names)


@test
def every_page_is_read_without_a_warning():
    need("groff")
    with tempfile.TemporaryDirectory() as folder:
        pages = installed(folder)
        names = [os.path.basename(page) for page in pages]
        for name in ["muster.1", "musterctl.1", "muster-dev.1", "musterctl-cert.1", "musterctl-cert-issue.1", "muster.toml.5"]:
            assert name in names, f"{name} is there: {names}"
        assert not [name for name in names if "test-fence" in name], "hidden commands have no page"
        done = run("groff", "-man", "-ww", "-Tascii", "-z", *pages)
        same("no warning", (done.returncode, done.stderr), (0, ""))
        for name in ["bash-completion/completions/muster", "zsh/site-functions/_musterctl", "fish/vendor_completions.d/muster.fish"]:
            assert os.path.getsize(os.path.join(folder, "share", name)) > 1000, name


def printed(page):
    made = run(MUSTERCTL, "man", page)
    same("the page", made.returncode, 0)
    return subprocess.run(["groff", "-man", "-Tascii", "-P-bcu"], input=made.stdout, capture_output=True, text=True, check=True).stdout


@test
def a_page_says_what_help_says():
    need("groff")
    text = " ".join(printed("musterctl-cert-issue.1").replace("-\n", "-").split())
    for words in ["NAME musterctl-cert-issue - ", "SYNOPSIS musterctl cert issue [OPTION]... ", "--dir ", "EXIT STATUS", "musterctl-cert(1)"]:
        assert words in text, f"{words!r} in {text}"
    whole = printed("musterctl.1")
    assert "musterctl-cert-issue(1)" in whole and "musterctl-shard-list(1)" in whole, whole
    settings = printed("muster.toml.5")
    assert "[http]" in settings and "MUSTER COORDINATOR" in settings.upper(), settings[:500]
    done = run(MUSTERCTL, "man", "musterctl-frob.1")
    same("no such page", (done.returncode, done.stdout), (5, ""))


with tempfile.TemporaryDirectory() as HOME:
    run_tests(ONLY)
