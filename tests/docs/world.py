# SPDX-License-Identifier: Apache-2.0
"""A world for a page: network, processes and mounts of its own, so that commands run as they are written, on their ports.

Inside it names of machines that pages speak of (c1, c2.example, ...) are addresses of loopback, `muster` and `musterctl`
are the ones under test, and each page has a directory with the repository's examples in it.
"""
import http.client
import json
import os
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

import shape

PATIENCE = int(os.environ.get("MUSTER_TEST_PATIENCE", "90"))
HOSTS = {"c1": 11, "c2": 12, "c3": 13, "old": 21, "new": 22, "node1": 31}  # 127.0.0.N, and NAME.example
FROM_THE_SOURCE = ("examples", "proto", "deploy", "docs", "include")
LINKS = {"muster": ("muster", "bigfleet", "rollout", "rollout-coordinator"),
         "musterctl": ("musterctl", "bigfleetctl", "ripple-cli")}
# Behind each block: what it leaves to the next.
LEAVES = '\nset +x; env -0 >"$DOCS_LEFT/env"; pwd >"$DOCS_LEFT/cwd"\n'


class Failed(Exception):
    pass


def inside(command):
    """The words that start `command` in a world of its own; all of it ends with it."""
    words = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private"]
    return words + (["--user", "--map-root-user"] if os.getuid() != 0 else []) + command


def furnish(directory):
    """Loopback, names and a place for the state of root's programs; everything goes with the namespace."""
    hosts = os.path.join(directory, "hosts")
    with open(hosts, "w", encoding="ascii") as file:
        file.write("127.0.0.1 localhost\n::1 localhost\n")
        file.writelines(f"127.0.0.{n} {name} {name}.example\n" for name, n in HOSTS.items())
    for line in ("ip link set lo up", f"mount --bind {hosts} /etc/hosts", "mount -t tmpfs tmpfs /var/lib",
                 "mount -t tmpfs tmpfs /run"):
        subprocess.run(line.split(), check=True)


def wait_for(what, question):
    end = time.monotonic() + PATIENCE
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(f"waited {PATIENCE} s in vain: {what() if callable(what) else what}")
        time.sleep(0.05)


ANYBODY = ssl._create_unverified_context()  # whether it answers, not who it is


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=5, context=ANYBODY if url.startswith("https") else None) as reply:
            return reply.status == 200
    except (OSError, http.client.HTTPException):
        return False


def logical_lines(text):
    """Commands of a block, one a line; a backslash goes on."""
    lines, held = [], ""
    for line in text.split("\n"):
        held += line
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.strip() and not held.lstrip().startswith("#"):
            lines.append(held)
        held = ""
    return lines


class Terminal:
    """A command that runs in a terminal of its own until the page ends."""

    def __init__(self, name, command, shell):
        self.name, self.command, self.ended = name, command, False
        shell.terminals += 1
        self.out = os.path.join(shell.left, f"terminal-{shell.terminals}")
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(["bash", "-o", "pipefail", "-c", command], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, cwd=shell.cwd, env=shell.environment,
                                            start_new_session=True)

    def text(self):
        with open(self.out, encoding="utf-8", errors="replace") as file:
            return file.read()

    def tail(self):
        return f"{self.command}\n" + "\n".join(self.text().split("\n")[-7:])

    def wait_until(self, until):
        for word in shlex.split(until):
            def there(word=word):
                if self.process.poll() is not None:
                    raise Failed(f"ended with {self.process.returncode}: {self.tail()}")
                return answers(word) if word.startswith("http") else word in self.text()
            wait_for(lambda word=word: f"{word}, of: {self.tail()}", there)

    def end(self, how):
        """Ctrl-C, after which a program ends well; or kill -9."""
        self.ended = True
        os.killpg(self.process.pid, signal.SIGKILL if how == "kill" else signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"does not end: {self.tail()}") from error
        if how == "stop" and code not in (0, 130, -signal.SIGINT):
            raise Failed(f"Ctrl-C ended it with {code}: {self.tail()}")

    def close(self):
        """At the end of its page."""
        code = self.code
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        if not self.ended and code not in (None, 0):
            raise Failed(f"had ended with {code}: {self.tail()}")


class Shell:
    """One page's shell: each block finds the variables and the directory that the last one left."""

    def __init__(self, directory, environment):
        self.cwd, self.left = os.path.join(directory, "here"), os.path.join(directory, "left")
        os.makedirs(self.cwd)
        os.makedirs(self.left)
        self.environment = dict(environment, DOCS_LEFT=self.left, HOME=self.cwd)
        self.groups, self.terminals = [], 0

    def run(self, script, expected=0):
        path, out = os.path.join(self.left, "script"), os.path.join(self.left, "out")
        with open(path, "w", encoding="utf-8") as file:
            file.write("set -ae -o pipefail\ntrap 'echo \"status $? of: $BASH_COMMAND\" >&2' ERR\n" + script + LEAVES)
        with open(out, "wb") as file:
            process = subprocess.Popen(["bash", path], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                                       cwd=self.cwd, env=self.environment, start_new_session=True)
        self.groups.append(process.pid)
        try:
            code = process.wait(PATIENCE + 30)
        except subprocess.TimeoutExpired:
            code = "no end"
        with open(out, encoding="utf-8", errors="replace") as file:
            text = file.read()
        if code != expected:
            raise Failed(f"status {code}, not {expected}\n" + "\n".join(text.split("\n")[-20:]))
        if code == 0:
            self.take_over()
        return text

    def take_over(self):
        with open(os.path.join(self.left, "env"), encoding="utf-8") as file:
            pairs = [pair.split("=", 1) for pair in file.read().split("\0") if "=" in pair]
        self.environment = {name: value for name, value in pairs if name not in ("_", "SHLVL")}
        with open(os.path.join(self.left, "cwd"), encoding="utf-8") as file:
            self.cwd = file.read().rstrip("\n")

    def close(self):
        for group in self.groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                pass


class PageRun:
    def __init__(self, page, directory, environment):
        self.page, self.terminals = page, []
        self.shell = Shell(directory, environment)
        for name in FROM_THE_SOURCE:
            os.symlink(os.path.join(environment["DOCS_ROOT"], name), os.path.join(self.shell.cwd, name))

    def start(self, block):
        options = block.directives["terminal"]
        for command in logical_lines(block.text):
            self.terminals.append(Terminal(options["name"], command, self.shell))
        if options["until"]:
            self.terminals[-1].wait_until(options["until"])

    def console(self, block):
        for command, shown in shape.commands(block.text):
            seen = self.shell.run(command)
            missing = shape.same(shown, seen)
            if missing:
                raise Failed(f"$ {command}\nthe page shows: {missing}\nwas seen:\n{seen}")

    def once(self, block):
        if block.language == "console":
            self.console(block)
        else:
            failing = block.directives.get("fails")
            self.shell.run(block.text, int(failing["code"]) if failing else 0)

    def soon(self, block):
        last = [None]

        def well():
            try:
                self.once(block)
                return True
            except Failed as error:
                last[0] = error
                return False
        wait_for(lambda: str(last[0]), well)

    def step(self, step):
        if isinstance(step, tuple):
            for terminal in self.terminals:
                if terminal.name == step[1] and not terminal.ended:
                    terminal.end(step[0])
        elif "file" in step.directives:
            path = os.path.join(self.shell.cwd, step.directives["file"]["name"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(step.text)
        elif "terminal" in step.directives:
            self.start(step)
        elif "soon" in step.directives:
            self.soon(step)
        else:
            self.once(step)

    def run(self):
        """The fault, or "", and the number of blocks that were run."""
        count = 0
        try:
            for step in self.page.steps:
                line = step[2] if isinstance(step, tuple) else step.line
                self.step(step)
                count += not isinstance(step, tuple)
            line = "end"
        except (Failed, OSError, subprocess.SubprocessError) as error:
            tails = [f"terminal {terminal.name}: {terminal.tail()}" for terminal in self.terminals if not terminal.ended]
            return f"{self.page.path}:{line}: {error}" + "".join("\n" + text for text in tails), count
        finally:
            wrong = self.close()
        return (f"{self.page.path}: {wrong}" if wrong else ""), count

    def close(self):
        wrong = ""
        for terminal in self.terminals:  # before the first is ended, which the others may notice
            terminal.code = terminal.process.poll()
        for terminal in self.terminals:
            try:
                terminal.close()
            except Failed as error:
                wrong = f"terminal {terminal.name}: {error}"
        self.shell.close()
        return wrong


def link(target, *path):
    path = os.path.join(*path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(target, path)


def programs(directory, muster, musterctl, library, muster_log):
    """A directory for the PATH, and where `make build` would have put them."""
    for name, path in (("muster", muster), ("musterctl", musterctl)):
        link(path, directory, "build/release/cmd", name, name)
        for alias in LINKS[name]:
            link(path, directory, "bin", alias)
    link(muster_log, directory, "bin", "muster-log")
    for name in ("libmuster.so.1", "muster-1"):  # the library, and the stores that it loads
        link(os.path.join(os.path.dirname(library), name), directory, "build/release/src/libmuster", name)
    return os.path.join(directory, "bin")


def gone(terminal):
    """Ends a fleet with all its processes by Ctrl-C; returns the fault, or ""."""
    try:
        terminal.end("stop")
    except Failed as error:
        return str(error)
    left = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            program = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            continue  # it ended meanwhile
        left += [f"{pid} {program}"] if os.path.basename(program) == "muster" else []
    return f"Ctrl-C left processes: {', '.join(left)}" if left else ""


def run_inside(root, built, world, pages):
    """All pages of one world, one after the other; a line of JSON for each."""
    directory = tempfile.mkdtemp(prefix="muster-docs-")
    furnish(directory)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environment.update(PATH=programs(directory, *built) + ":/usr/bin:/bin:" + environment["PATH"],
                       MUSTER_TIMEOUT="60s", MUSTER_TIMING_SCALE="500",  # a starved machine is no reason to fail
                       ETCDCTL_DIAL_TIMEOUT="30s", ETCDCTL_COMMAND_TIMEOUT="60s",
                       MUSTER_SEGMENT_SIZE="4MiB",  # nor is a small disk
                       DOCS_ROOT=root, PYTHONDONTWRITEBYTECODE="1", LC_ALL="C.UTF-8", TERM="dumb")
    fleet = None
    if world == "dev":
        fleet = PageRun(pages[0], os.path.join(directory, "dev"), environment)
        fleet.terminals.append(Terminal("dev", "exec muster dev", fleet.shell))
        fleet.terminals[0].wait_until("'\nready\n'")
        environment["DOCS_DEV"] = fleet.shell.cwd
    for number, page in enumerate(pages):
        began = time.monotonic()
        run = PageRun(page, os.path.join(directory, f"page-{number}"), environment)
        if fleet:
            os.symlink(os.path.join(fleet.shell.cwd, "dev-data"), os.path.join(run.shell.cwd, "dev-data"))
        os.symlink(os.path.join(directory, "build"), os.path.join(run.shell.cwd, "build"))
        wrong, count = run.run()
        if wrong and fleet:
            wrong += "\nmuster dev: " + fleet.terminals[0].tail()
        took = time.monotonic() - began
        print(json.dumps({"page": page.path, "wrong": wrong, "blocks": count, "seconds": took}), flush=True)
    wrong = ""
    if fleet:
        wrong = gone(fleet.terminals[0])
        wrong = fleet.close() or wrong
    shutil.rmtree(directory, ignore_errors=True)
    if wrong:
        print(json.dumps({"page": "muster dev", "wrong": wrong, "blocks": 0, "seconds": 0}), flush=True)
    sys.stdout.flush()
