#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make run` on a fresh machine reaches the dashboard with no hand step; Ctrl-C leaves no process;
`make install` obeys PREFIX.

usage: long_fresh.py SOURCE     (prints TAP; needs root)

The machine is a bare Debian with make, git and a clone of the committed tree. Ports are free ones: others test here too."""
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request

from chroots import Chroot, needed_or_skip
from tap import judge, ok

SOURCE = os.path.abspath(sys.argv[1])
needed_or_skip("debootstrap", "git")
PATIENCE = 3600  # for installing and building; only so that what hangs ends
RUN = "cd /muster && exec make run ARGS='--free-ports --http-listen 127.0.0.1:0'"


class Run:
    """One `make run`, in a process group of its own as a terminal would give it."""

    def __init__(self, system, name):
        self.system, self.log = system, os.path.join(system.home, name)
        self.began = time.monotonic()
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(system.command(RUN), stdout=out, stderr=subprocess.STDOUT,
                                            start_new_session=True)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def dashboard(self):
        """The address of the fleet when it is ready; None when make ended before."""
        while time.monotonic() < self.began + PATIENCE:
            said = re.search(r"^\s*dashboard\s+(http://\S+?)/?\s", self.text(), re.M)
            if said and "\nready\n" in self.text():  # the address is printed before the coordinators listen
                return said.group(1)
            if self.process.poll() is not None:
                return None
            time.sleep(0.05)
        return None

    def interrupt(self):
        """Ctrl-C for the whole group; returns the exit code of make."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(120)


def page(address):
    with urllib.request.urlopen(address, timeout=60) as answer:
        return answer.status, answer.read().decode()


def fresh_machine():
    with Chroot(SOURCE, "fresh-root") as system:
        code, said = system.run("apt-get -q update && apt-get -q -y install --no-install-recommends make git")
        ok(code == 0, "a bare Debian with make and git", said[-2000:])
        subprocess.run(["git", "clone", "-q", SOURCE, system.path("/muster")], check=True)
        system.run("git config --global --add safe.directory /muster")
        first = Run(system, "fresh-run.log")
        try:
            address = first.dashboard()
            if not ok(address, "make run, and nothing else, prints where the dashboard is", first.text()[-3000:]):
                return
            code, text = page(address + "/")
            ok(code == 200 and "<script" in text and "app.js" in text, "the dashboard's page", text[:500])
            for part in re.findall(r'<(?:link|script)[^>]*(?:src|href)="(/[^"]+)"', text):
                ok(page(address + part)[1], "and its " + part)
            state = json.loads(page(address + "/api/raft")[1])
            ok(state, "with the replicas' state", state)
            code, text = page(address + "/readyz")
            ok(code == 200, "/readyz", text)
            print(f"# from make run on a bare machine to the dashboard's address: {time.monotonic() - first.began:.0f} s")
        finally:
            code = first.interrupt() if first.process.poll() is None else first.process.returncode
        ok("Ctrl-C" in first.text() and not system.processes(), f"Ctrl-C leaves no process (make ends with {code})",
           json.dumps(system.processes()))

        again = Run(system, "fresh-again.log")
        try:
            address = again.dashboard()
            ok(address and page(address + "/")[0] == 200, "once more, on the built tree", again.text()[-2000:])
            print(f"# from make run on the built tree to the first page: {time.monotonic() - again.began:.1f} s")
        finally:
            again.interrupt()

        code, said = system.run("cd /muster && make install PREFIX=/opt/muster DESTDIR=/tmp/staged && "
                                "/tmp/staged/opt/muster/bin/muster --version && "
                                "cat /tmp/staged/opt/muster/lib/systemd/system/muster-coordinator.service")
        ok(code == 0 and "ExecStart=/opt/muster/bin/muster " in said,
           "make install PREFIX=/opt/muster DESTDIR=/tmp/staged", said)


judge(fresh_machine)
