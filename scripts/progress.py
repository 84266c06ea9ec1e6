# SPDX-License-Identifier: Apache-2.0
"""Runs a long command and shows how far it is.

On a terminal one line is rewritten: "compiling 412/1015, 1:10". Elsewhere (CI, a pipe) a plain line is
printed at the start, every PLAIN_EVERY seconds, and at the end. Used by scripts/build and scripts/test.
"""
import re
import subprocess
import sys
import time

PLAIN_EVERY = 20  # seconds between two lines when the output is not a terminal
NINJA = re.compile(r"^\[(\d+)/(\d+)\] ")
MESON_TEST = re.compile(r"^\s*(\d+)/(\d+) .*? (OK|FAIL|ERROR|TIMEOUT|SKIP|EXPECTEDFAIL|UNEXPECTEDPASS)\b")
TROUBLE = re.compile(r"^(ERROR|Could not|\s*\d+/\d+ .* (FAIL|ERROR|TIMEOUT|UNEXPECTEDPASS)\b)")


def is_trouble(line):
    """Whether a line of `meson test` is worth showing when it comes."""
    return TROUBLE.search(line)


def clock(seconds):
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Step:
    """One named step; `expected` says how long it takes on a bare machine, as text."""

    def __init__(self, name, expected="", out=sys.stdout):
        self.name, self.expected, self.out = name, f" ({expected})" if expected else "", out
        self.started = self.shown = time.monotonic()
        self.terminal = out.isatty()
        self.write(f"{name} ...{self.expected}")

    def write(self, text, last=False):
        if self.terminal:
            self.out.write("\r\033[K" + text[:110] + ("\n" if last else ""))
        else:
            self.out.write(text + "\n")
        self.out.flush()

    def count(self, done, total):
        now = time.monotonic()
        if self.terminal or now - self.shown >= PLAIN_EVERY:
            self.shown = now
            self.write(f"{self.name} {done}/{total}, {clock(now - self.started)}{self.expected}")

    def say(self, text):
        """A line that stays, such as a failure."""
        if self.terminal:
            self.out.write("\r\033[K")
        self.out.write(text + "\n")
        self.out.flush()

    def end(self, result):
        self.write(f"{self.name}: {result}, {clock(time.monotonic() - self.started)}", last=True)


def run(step, command, counter, keep=None, **options):
    """The exit code of the command. Lines that match `counter` move the step; `keep` says which other
    lines are printed (all of them when the command fails without it)."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               **options)
    other = []
    for line in process.stdout:
        line = line.rstrip("\n")
        found = counter.match(line)
        if found:
            step.count(int(found[1]), int(found[2]))
        if keep and keep(line):
            step.say(line)
        elif not found and line:
            other.append(line)
    code = process.wait()
    if code and not keep:
        for line in other[-200:]:
            step.say(line)
    return code


def ninja(directory, targets=(), name="compiling", expected=""):
    """True when the targets are built."""
    step = Step(f"{name} {directory}", expected)
    code = run(step, ["ninja", "-C", directory, *targets], NINJA, env=None)
    step.end("done" if code == 0 else "FAILED")
    return code == 0
