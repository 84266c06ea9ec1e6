# SPDX-License-Identifier: Apache-2.0
"""Processes that hold claims and run commands (actor.c); and TAP."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 90


class Failed(Exception):
    pass


def check(truth, why):
    if not truth:
        raise Failed(why)


def same(why, got, want):
    if got != want:
        raise Failed(f"{why}: got {got!r}, want {want!r}")


class Actor:
    """One process. Calls return the answer as a dict; lost leases are in .lost, by handle."""

    def __init__(self, program, url=None, timeout_ms=None, env=None):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, **(env or {})})
        self.answers, self.lost, self.changed = [], {}, threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        if timeout_ms:
            self("timeout", timeout_ms)
        if url:
            opened = self("open", url)
            if opened["code"] != "OK":
                self.end()
                raise Failed(f"open {url}: {opened}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def _read(self):
        for line in self.process.stdout:
            said = json.loads(line)
            with self.changed:
                if "lost" in said:
                    self.lost.setdefault(said["lost"], []).append(said)
                else:
                    self.answers.append(said)
                self.changed.notify_all()
        with self.changed:
            self.answers.append(None)
            self.changed.notify_all()

    def send(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def take(self):
        with self.changed:
            if not self.changed.wait_for(lambda: self.answers, PATIENCE):
                raise Failed("an actor does not answer")
            answer = self.answers.pop(0)
        if answer is None:
            raise Failed(f"an actor has ended, {self.process.wait()}")
        return answer

    def __call__(self, *words):
        self.send(*words)
        return self.take()

    def says(self, want, *words):
        """The answer, which must be "CODE/reason" (or only "CODE")."""
        got = self(*words)
        said = got["code"] + ("/" + got["reason"] if "/" in want else "")
        if said != want:
            raise Failed(f"{' '.join(map(str, words))}: got {got}, want {want}")
        return got

    def wait_lost(self, handle, seconds=PATIENCE):
        with self.changed:
            if not self.changed.wait_for(lambda: handle in self.lost, seconds):
                raise Failed(f"handle {handle} is not reported lost")
            return self.lost[handle][0]

    def events(self, watch, until, seconds=PATIENCE):
        """Events until `until(list of them)`."""
        seen, deadline = [], time.monotonic() + seconds
        while not until(seen):
            if time.monotonic() > deadline:
                raise Failed(f"events: only {seen[-20:]}")
            seen += self("events", watch, 100)["events"]
        return seen

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        """Closes in order; its exit status is checked, so that a sanitizer's finding fails the test."""
        if self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Failed("an actor does not end") from None
        if status != 0:
            raise Failed(f"an actor ended with {status}")


class Stalls(threading.Thread):
    """Whether the machine gave this process a core: a thread sleeps for short moments and records how late it woke."""
    TICK, STALLED = 0.01, 0.3

    def __init__(self):
        super().__init__(daemon=True)
        self.seen = []      # (when, seconds), of those that matter
        self.start()

    def run(self):
        before = time.monotonic()
        while True:
            time.sleep(self.TICK)
            now = time.monotonic()
            if now - before > self.STALLED:
                self.seen.append((now, now - before))
            before = now

    def since(self, when):
        time.sleep(5 * self.TICK)   # the caller may have woken before the watching thread
        return max((seconds for at, seconds in self.seen if at >= when), default=0)


def judged(test, stalls):
    """Runs a test again that has servers of its own and failed while the machine stalled, three times at most, and prints
    each: leases and elections have time limits, which a stall breaks."""
    for attempt in range(3):
        began = time.monotonic()
        failure = verdict_of(test)
        if failure is None or not stalls.since(began) or attempt == 2:
            return failure
        print(f"# {test.__name__} stalled for {stalls.since(began):.1f} s: {failure}".replace("\n", " "), flush=True)
    return None


def verdict_of(test):
    began = time.monotonic()
    try:
        test()
        failure = None
    except Exception as raised:     # any failure of a test is its verdict, not the end of the others
        failure = f"{type(raised).__name__}: {raised}"
        if not isinstance(raised, Failed):
            traceback.print_exc()
    if os.environ.get("TIMES"):
        print(f"# {time.monotonic() - began:.1f} s {test.__name__}", file=sys.stderr)
    return failure


def run(tests, only="", at_once=1):
    """`at_once` more than 1: for tests that wait rather than work, and share nothing."""
    tests = [test for test in tests if only in test.__name__]
    print(f"1..{len(tests)}", flush=True)
    bad, stalls = 0, Stalls()

    def verdict(test):
        return judged(test, stalls) if at_once > 1 else verdict_of(test)
    with ThreadPoolExecutor(at_once) as pool:
        for number, (test, failure) in enumerate(zip(tests, pool.map(verdict, tests)), 1):
            if failure:
                print("# " + failure.replace("\n", "\n# "))
                bad += 1
            print(f"{'not ok' if failure else 'ok'} {number} - {test.__name__.replace('_', ' ')}", flush=True)
    sys.exit(1 if bad else 0)
