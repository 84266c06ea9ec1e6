#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl top: one picture for a script, and the live screen in a terminal of its own, against canned answers.

usage: test_ctl_top.py MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

The terminal is a pty: its output is kept, its modes are compared before and after, its size changes.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

from dead import dead_address

try:
    import grpc
    from fleet_contracts import Canned, contracts, says
    from cases import run_tests, same, test
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTERCTL, PROTOC, PROTO_ROOT = sys.argv[1:4]
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
PATIENCE = 120
FILES, MESSAGE = contracts.load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto", "muster/v1/fleet.proto", "muster/v1/member.proto",
                                "muster/v1/coordination.proto", "muster/v1/shard.proto")
METHODS = {"/" + path: (MESSAGE(method.input_type), MESSAGE(method.output_type))
           for path, method in contracts.methods_of(FILES).items()}
FLEET, COORDINATOR = "/muster.v1.Fleet/", "/bigfleet.v1alpha1.Coordinator/"
MEMBERS, STORE, SHARD = "/muster.v1.Membership/", "/muster.v1.Coordination/", "/muster.v1.ShardView/Status"


def canned(answers):
    return Canned(METHODS, {path: answer if callable(answer) else METHODS[path][1](**answer) for path, answer in answers.items()})


SHARD_SAYS = {"shard_id": "shard-0", "cycle": 41, "cycle_ms": 12.5, "machines": 9, "shortfalls": 2, "queued": 3, "inflight": 1,
              "paused": True, "states": [{"name": "Configured", "count": 5}, {"name": "Idle", "count": 1},
                                         {"name": "Creating", "count": 2}, {"name": "Draining", "count": 1}]}


def shard(**more):
    return canned({SHARD: {**SHARD_SAYS, **more}})


def coordinator(shards, workers=2, more=None):
    return canned({
        FLEET + "ListReplicas": {"term": 7, "replicas": [
            {"name": "node-1", "leader": True, "voter": True, "match": 120, "grpc_address": "c1:7790"},
            {"name": "node-2", "voter": True, "match": 117, "silent_ms": 40, "grpc_address": "c2:7790"},
            {"name": "node-3", "silent_ms": -1, "match": 0}]},
        COORDINATOR + "ListShards": {"shards": [{"shard_id": name, "address": where} for name, where in shards.items()]},
        MEMBERS + "ClusterStatus": {"active": workers - 1, "known": workers, "status": "ok"},
        MEMBERS + "ListWorkers": {"workers": [{"worker_id": f"w-{number:03}", "standing": 1 if number else 2, "phase": 2,
                                               "partitions": 8, "load": number / 100, "received_at_ms": 1, "silent_ms": 90}
                                              for number in range(workers)]},
        STORE + "Status": {"keys": 12},
        STORE + "Range": {"entries": [{"key": b"muster/nightly", "owner": "host-\x1b[31ma", "token": 99, "ttl_ms": 30000, "remaining_ms": 12000}]},
        **(more or {})})


def words(server):
    return [MUSTERCTL, "top", "--coordinator", server if isinstance(server, str) else server.address, "--timeout", "20s"]


def once(server):
    return subprocess.run([*words(server), "--once"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE,
                          env={"PATH": "/usr/bin:/bin"}, check=False)


def rows(text, title):
    """The rows of a section as lists of cells, its heading first."""
    part = text.split(f"\n{title}\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r"  +", row.strip()) for row in part.splitlines()]


@test
def one_picture_has_every_part():
    with shard() as one, coordinator({"shard-0": one.address}) as server:
        done = once(server)
    same("it ends well", (done.returncode, done.stderr), (0, ""))
    text = done.stdout
    assert re.search(r"^\d\d:\d\d:\d\d UTC   leader node-1   shards 1   machines 9, 5 configured   needs unmet 2   "
                     r"workers 1 of 2   keys 12$", text.splitlines()[0]), text
    same("replicas", rows(text, "REPLICAS")[1:], [["node-1", "leader", "7", "0", "\u2014", "c1:7790"],
                                                  ["node-2", "voter", "\u2014", "3", "40ms", "c2:7790"],
                                                  ["node-3", "learner", "\u2014", "120", "never heard"]])
    same("shards", rows(text, "SHARDS")[1], ["shard-0", "41", "12.5", "9", "5", "1", "3", "0", "0", "2", "1+3", "paused"])
    with shard(fenced=True, dry_run=True) as one, coordinator({"shard-0": one.address}) as server:
        same("all that holds a shard", rows(once(server).stdout, "SHARDS")[1][-1], "fenced paused dry-run")
    same("the worker that needs a look is first", [row[:2] for row in rows(text, "WORKERS")[1:]], [["w-000", "suspected"], ["w-001", "active"]])
    same("claims, and nothing steers the terminal", rows(text, "CLAIMS")[1], ["nightly", "host-\\x1B[31ma", "99", "12.0s"])
    assert "\033" not in text, text


@test
def a_shard_that_is_away_is_missing_with_the_reason():
    away = dead_address()
    with shard() as one, coordinator({"shard-0": one.address, "shard-1": away},
                                     more={MEMBERS + "ListWorkers": says(grpc.StatusCode.PERMISSION_DENIED, "not for you")}) as server:
        done = once(server)
    same("the others are there", done.returncode, 0)
    found = {row[0]: row for row in rows(done.stdout, "SHARDS")[1:]}
    assert found["shard-0"][1] == "41" and "no answer: no shard answers at" in found["shard-1"][-1], found
    assert "no answer: not for you" in rows(done.stdout, "WORKERS")[0][0], done.stdout
    same("claims are there", rows(done.stdout, "CLAIMS")[1][0], "nightly")
    done = once(away)
    same("no coordinator at all: 6", done.returncode, 6)
    assert done.stdout.count("no answer: no coordinator answers at") == 4 and "no coordinator answers" in done.stdout.splitlines()[0], done.stdout


@test
def a_coordinator_that_does_not_serve_workers_shows_the_rest():
    unserved = says(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
    with shard() as one, coordinator({"shard-0": one.address},
                                     more={MEMBERS + name: unserved for name in ("ClusterStatus", "ListWorkers")}) as server:
        done = once(server)
    same("it ends well", (done.returncode, done.stderr), (0, ""))
    same("a shard", rows(done.stdout, "SHARDS")[1][1], "41")
    same("a claim", rows(done.stdout, "CLAIMS")[1][0], "nightly")
    why = rows(done.stdout, "WORKERS")[0][0]
    assert "its configuration has no [transport] section" in why, why
    assert "or it is of an older release, without ListWorkers" in why, why


@test
def shards_are_asked_side_by_side():
    """Each answers only when all three have been asked: one after the other, none would."""
    names, asked = ("shard-0", "shard-1", "shard-2"), set()

    def when_all_are_asked(name):
        def status(_request, context):
            asked.add(name)
            while len(asked) < len(names) and context.is_active():
                time.sleep(0.05)
            return METHODS[SHARD][1](**{**SHARD_SAYS, "shard_id": name})
        return canned({SHARD: status})
    with when_all_are_asked("shard-0") as a, when_all_are_asked("shard-1") as b, when_all_are_asked("shard-2") as c, \
            coordinator({name: one.address for name, one in zip(names, (a, b, c))}) as server:
        done = once(server)
    same("all three answer", [row[:2] for row in rows(done.stdout, "SHARDS")[1:]], [[name, "41"] for name in names])


@test
def workers_that_do_not_fit_the_frame_are_counted():
    """A mebibyte for the frame: the first workers are shown, the title has the number of the others, and later parts are whole."""
    known = 30000
    with shard() as one, coordinator({"shard-0": one.address}, workers=known) as server:
        done = once(server)
    same("it ends well", (done.returncode, done.stderr), (0, ""))
    title = re.search(rf"^WORKERS, the first (\d+) of {known}$", done.stdout, re.M)
    assert title and len(done.stdout.encode()) <= 1 << 20, (len(done.stdout), done.stdout[:2000])
    shown = rows(done.stdout, title.group(0))[1:]
    same("as many as it says, each whole", (len(shown), {len(row) for row in shown}), (int(title.group(1)), {6}))
    assert len(shown) > 1000 and shown[0][:2] == ["w-000", "suspected"], shown[:3]
    same("claims are there", rows(done.stdout, "CLAIMS")[1][0], "nightly")


class Terminal:
    """A musterctl top in a pty, with its last picture and the modes of its terminal."""

    def __init__(self, server, height=24, width=100, every="100ms", session=("setsid", "--ctty")):
        self.said = b""
        self.master, self.slave = pty.openpty()
        self.resize(height, width)
        self.before = termios.tcgetattr(self.slave)
        # setsid --ctty: it hears of its size, and of Ctrl-C. Not by a function of ours before exec: grpc does not survive forks.
        self.process = subprocess.Popen([*session, *words(server), "--every", every], stdin=self.slave, stdout=self.slave,
                                        stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin", "TERM": "xterm"})

    def resize(self, height, width):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def hear(self):
        if select.select([self.master], [], [], 0.2)[0]:
            self.said += os.read(self.master, 65536)

    def picture(self):
        """The lines of the last whole picture."""
        whole = re.findall(rb"\033\[H(.*?)\033\[J", self.said, re.S)
        return re.sub(r"\033\[[0-9;?]*[a-zA-Z]|\r", "", whole[-1].decode()).split("\n") if whole else []

    def wait(self, why, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{why}: never; it said {self.said[-2000:]!r}"
            assert self.process.poll() is None, f"{why}: it ended with {self.process.returncode}: {self.process.stderr.read()!r}"
            self.hear()

    def key(self, keys):
        os.write(self.master, keys)

    def ended(self):
        """Its exit code and all its output."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, "it did not end"
            self.hear()
        while select.select([self.master], [], [], 0)[0]:
            self.said += os.read(self.master, 65536)
        return self.process.returncode

    def hang_up(self):
        for end in (self.slave, self.master):
            os.close(end)
        self.slave = self.master = None

    def is_restored(self):
        same("the modes of the terminal", termios.tcgetattr(self.slave), self.before)
        assert self.said.rstrip().endswith(b"\033[?25h\033[?1049l"), self.said[-200:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stderr.close()
        if self.master is not None:
            self.hang_up()


def no_child_is_left(terminal):
    """All processes of its session have ended, so none queries the fleet any more."""
    end = time.monotonic() + PATIENCE
    while True:
        left = subprocess.run(["ps", "-o", "pid=", "-s", str(terminal.process.pid)], capture_output=True, text=True, check=False).stdout.split()
        if not left:
            return
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.05)


@test
def the_screen_fits_follows_its_size_and_moves():
    count = {"now": 41}

    def status(_request, _context):
        count["now"] += 1
        return METHODS[SHARD][1](**{**SHARD_SAYS, "cycle": count["now"]})
    with canned({SHARD: status}) as one, coordinator({"shard-0": one.address}, workers=50) as server, Terminal(server) as terminal:
        terminal.wait("a picture", lambda: any("w-000" in row for row in terminal.picture()))
        assert len(terminal.picture()) <= 24 and max(map(len, terminal.picture())) <= 100, terminal.picture()
        text = "\n".join(terminal.picture())
        for word in ["REPLICAS", "node-3", "SHARDS", "shard-0", "WORKERS", "... ", " more", "CLAIMS", "nightly"]:
            assert word in text, f"{word!r} has its place among 50 workers:\n{text}"
        first = count["now"]
        terminal.wait("it goes on by itself", lambda: any(f"shard-0  {number} " in "\n".join(terminal.picture()) for number in range(first + 1, first + 500)))
        assert terminal.said.count(b"\033[?1049h") == 1 and terminal.said.startswith(b"\033[?1049h"), "one page of its own"
        terminal.resize(12, 40)
        terminal.wait("it follows", lambda: 0 < len(terminal.picture()) <= 12 and max(map(len, terminal.picture())) <= 40)
        terminal.resize(80, 200)
        terminal.wait("all workers", lambda: any("w-031" in row for row in terminal.picture()) and
                      not any("more" in row for row in terminal.picture()))
        terminal.key(b"q")
        same("q leaves", terminal.ended(), 0)
        terminal.is_restored()
        no_child_is_left(terminal)


@test
def the_terminal_is_given_back_on_every_signal():
    with shard() as one, coordinator({"shard-0": one.address}) as server:
        for how, code in [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), ("\x03", 0)]:
            with Terminal(server) as terminal:
                terminal.wait("a picture", terminal.picture)
                if isinstance(how, str):
                    terminal.key(how.encode())
                else:
                    terminal.process.send_signal(how)
                same(f"it ends: {how!r}", terminal.ended(), code)
                terminal.is_restored()
                no_child_is_left(terminal)


@test
def a_part_that_hangs_keeps_nobody_from_leaving():
    def hang(_request, context):
        while context.is_active():
            time.sleep(0.1)
        return METHODS[SHARD][1]()
    with canned({SHARD: hang}) as one, coordinator({"shard-0": one.address}) as server, Terminal(server) as terminal:
        terminal.wait("the shard was asked", lambda: one.times(SHARD) > 0)
        terminal.key(b"q")
        same("q leaves at once", terminal.ended(), 0)
        terminal.is_restored()


@test
def a_terminal_that_is_gone_ends_it():
    """Also without SIGHUP, when the terminal is not the session's: then the failed write ends it."""
    with shard() as one, coordinator({"shard-0": one.address}) as server, Terminal(server, session=["setsid"]) as terminal:
        terminal.wait("a picture", terminal.picture)
        terminal.hang_up()
        same("it ends", terminal.process.wait(PATIENCE), 1)
        assert b"the terminal is gone" in terminal.process.stderr.read(), "and says why"
        no_child_is_left(terminal)


@test
def shards_are_shown_when_the_coordinators_are_gone():
    with shard() as one, coordinator({"shard-0": one.address}) as server, Terminal(server) as terminal:
        terminal.wait("a picture", terminal.picture)
        server.server.stop(0).wait()
        terminal.wait("no coordinator, and the shard", lambda: "no coordinator answers" in terminal.picture()[0] and
                      any(row.startswith("shard-0  41") for row in terminal.picture()))
        terminal.key(b"q")
        same("q leaves", terminal.ended(), 0)


run_tests(ONLY)
