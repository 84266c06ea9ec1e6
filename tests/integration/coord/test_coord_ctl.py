#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl coord over a real store: every command, every exit code, and a command that is stopped in time.

usage: test_coord_ctl.py MUSTERCTL [URL [NAME]]    (prints TAP; without URL: a directory of its own)
"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "log"))
from cluster import PATIENCE, check, run_cases, wait_for  # noqa: E402

CTL = os.path.abspath(sys.argv[1])
DIR = tempfile.TemporaryDirectory(prefix="muster-coord-")
URL = sys.argv[2] if len(sys.argv) > 2 else f"file://{DIR.name}/store"
# The shortest claim that every store takes; a held one is renewed three times in it.
TTL = "3s"
# And one for claims that are released: a machine that stalls for seconds ends none of them.
LONG_TTL = "60s"


def same(why, got, want):
    check(got == want, f"{why}:\n  wanted {want!r}\n  got    {got!r}")


def has(why, text, part):
    check(part in text, f"{why}: no {part!r} in {text!r}")


def words(command, *more):
    """Before a `--`, which belongs to the command that is run."""
    at = more.index("--") if "--" in more else len(more)
    return [CTL, "coord", command, *more[:at], "--store", URL, *more[at:]]


def run(command, *more, stdin=subprocess.DEVNULL):
    """Runs the command, and again while the server had stalled and did not answer the connection: then nothing was sent to it."""
    def once():
        if hasattr(stdin, "seek"):
            stdin.seek(0)
        done = subprocess.run(words(command, *more), stdin=stdin, capture_output=True, text=True, timeout=PATIENCE,
                              env={"PATH": "/usr/bin:/bin"})
        silent = "open store: UNAVAILABLE/connection" in done.stderr and "did not speak within" in done.stderr
        return None if silent else done
    return wait_for(f"a store that speaks, for {command}", once)


def good(command, *more):
    done = run(command, *more)
    same(f"{command} {' '.join(more)} ends well", (done.returncode, done.stderr), (0, ""))
    return done.stdout


def good_json(command, *more):
    return json.loads(good(command, *more, "-o", "json"))


def bad(exit_code, text, command, *more):
    done = run(command, *more)
    same(f"{command} {' '.join(more)} ({done.stderr.strip()})", (done.returncode, done.stdout), (exit_code, ""))
    has("says", done.stderr, text)


def path(name):
    return os.path.join(DIR.name, name)


def new(kind, count=[0]):
    """A name that no other case and no other run has."""
    count[0] += 1
    return f"ctl/{kind}-{os.getpid()}-{count[0]}"


@contextlib.contextmanager
def running(command, *more):
    process = subprocess.Popen(words(command, *more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={"PATH": "/usr/bin:/bin"})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def catches(pid, number):
    """Whether it handles it, or waits for it, instead of ending by it."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        masks = [line.split()[1] for line in status if line.startswith(("SigCgt:", "SigBlk:"))]
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def command_pid(process):
    """The pid that the command printed."""
    return int(process.stdout.readline())


SLEEPER = ("--", "/bin/sh", "-c", "echo $$; exec sleep 600")
STUBBORN = ("--", "/bin/sh", "-c", "trap '' TERM; echo $$; while :; do sleep 0.05; done")


def entries():
    """create, get, cas and delete, with every exit code"""
    key = new("entry")
    made = good_json("create", key, "one")
    same("created", made["result"], "created")
    same("its value", good("get", key), "one\n")
    bad(4, "EXISTS/held", "create", key, "two")
    seen = good_json("get", key)
    same("revision and value", (seen["revision"], seen["value"]), (made["revision"], "one"))
    bad(4, "CONFLICT/revision", "cas", key, str(made["revision"] + 1), "no")
    bad(4, "CONFLICT/present", "cas", key, "0", "no")
    set_ = good_json("cas", key, str(made["revision"]), "two")
    check(set_["revision"] > made["revision"], "revisions increase")
    bad(4, "CONFLICT/revision", "delete", key, "--revision", str(made["revision"]))
    has("says", good("delete", key, "--revision", str(set_["revision"])), f"deleted {key}")
    bad(5, "NOT_FOUND", "get", key)
    bad(5, "NOT_FOUND", "delete", key)
    bad(4, "CONFLICT/absent", "cas", key, "7", "x")
    again = good_json("cas", key, "0", "three")
    check(again["revision"] > set_["revision"], "also after a delete")


def values():
    """values of any bytes, from a file and from standard input"""
    key, file = new("value"), path("value.bin")
    with open(file, "wb") as out:
        out.write(bytes(range(256)))
    good("create", key, "--value-file", file)
    got = subprocess.run(words("get", key), stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    same("every byte comes back", got, bytes(range(256)) + b"\n")
    key = new("value")
    with open(file, "rb") as source:
        same("from standard input", run("create", key, "--value-file", "-", stdin=source).returncode, 0)
    bad(2, "one of the two", "create", new("value"), "x", "--value-file", file)
    with open(file, "wb") as out:
        out.write(b"x" * 1048577)
    bad(1, "larger than the limit", "create", new("value"), "--value-file", file)


def bad_input():
    """a value outside of a limit is refused with the name of the limit"""
    bad(2, "INVALID/key", "create", "a//b")
    bad(2, "512", "create", "k" * 513)
    bad(2, "INVALID/key", "get", "with space")
    bad(2, "INVALID/owner", "create", new("key"), "--ttl", TTL, "--owner", "no spaces")
    bad(2, "INVALID/ttl_range", "create", new("key"), "--ttl", "1ms")
    bad(2, "--slots", "acquire", "--group", new("g"), "--slots", "1025", "--lease", path("x"))
    bad(2, "reserved", "create", "g/slot-0001")
    bad(2, "needs --ttl", "create", new("key"), "--lease", path("x"))
    done = subprocess.run([CTL, "coord", "get", "k", "--store", "gopher://x"], capture_output=True, text=True,
                          timeout=PATIENCE)
    same("an unknown store", done.returncode, 2)
    has("names those there are", done.stderr, "etcd")


def claims():
    """a claim is renewed, used and released through its file"""
    key, lease = new("claim"), path("claim.lease")
    made = good_json("create", key, "mine", "--ttl", "60s", "--owner", "me@here", "--lease", lease)
    same("a handle for its owner only", os.stat(lease).st_mode & 0o777, 0o600)
    done = run("create", key, "other", "--ttl", "60s")
    same("refused", done.returncode, 4)
    has("names the holder", done.stderr, "me@here")
    has("and its token", done.stderr, str(made["token"]))
    good("renew", "--lease", lease)
    bad(4, "CONFLICT/not_owner", "cas", key, str(made["revision"]), "x")
    good("cas", key, str(made["revision"]), "still mine", "--lease", lease)
    bad(4, "CONFLICT/not_owner", "delete", key)
    has("says", good("release", "--lease", lease), "released")
    check(not os.path.exists(lease), "the handle's file is gone")
    next_one = good_json("create", key, "next", "--ttl", "60s", "--lease", lease)
    check(next_one["token"] > made["token"], "tokens increase")
    good("delete", key, "--force")
    bad(4, "EXPIRED", "renew", "--lease", lease)
    with open(lease, "wb") as damaged:
        damaged.write(b"no handle")
    bad(2, "INVALID/handle", "renew", "--lease", lease)
    bad(5, "not found", "renew", "--lease", path("nowhere"))


def slots():
    """a group has no more holders than slots"""
    group, leases = new("group"), [path(f"slot{i}.lease") for i in range(3)]
    for i in (0, 1):
        same("its slot", good_json("acquire", "--group", group, "--slots", "2", "--ttl", "60s", "--owner", f"o{i}",
                                   "--lease", leases[i])["slot"], i)
    bad(4, "EXISTS/full", "acquire", "--group", group, "--slots", "2", "--ttl", "60s", "--lease", leases[2])
    bad(4, "CONFLICT/slot_count", "acquire", "--group", group, "--slots", "3", "--lease", leases[2])
    bad(4, "EXISTS/already_holder", "acquire", "--group", group, "--slots", "2", "--owner", "o1", "--lease", leases[2])
    listed = good_json("holders", group)
    same("holders", [(row["slot"], row["owner"]) for row in listed["holders"]], [(0, "o0"), (1, "o1")])
    has("for people", good("holders", group), "2 of 2 slots held")
    good("resize", group, "3")
    same("one more", good_json("acquire", "--group", group, "--slots", "3", "--owner", "o2", "--lease", leases[2])["slot"], 2)
    old = listed["holders"][1]["token"]
    taken = good_json("acquire", "--group", group, "--slots", "3", "--owner", "o1", "--takeover", "--lease", path("t"))
    check(taken["slot"] == 1 and taken["token"] > old, f"taken over: {taken}")
    bad(4, "EXPIRED/superseded", "renew", "--lease", leases[1])
    good("release", "--lease", leases[0])
    same("the lowest free one", good_json("acquire", "--group", group, "--slots", "3", "--owner", "o3", "--lease",
                                          leases[0])["slot"], 0)
    bad(5, "NOT_FOUND", "holders", new("none"))


def outlives_its_process():
    """acquire exits, and its claim stays until its TTL"""
    group = new("outlive")
    good("acquire", "--group", group, "--ttl", "60s", "--lease", path("outlive.lease"))
    bad(4, "EXISTS/full", "acquire", "--group", group, "--ttl", "60s", "--lease", path("other.lease"))
    good("renew", "--lease", path("outlive.lease"))


def watching():
    """a watch shows what is there, then each change"""
    bucket = new("watched")
    good("create", f"{bucket}/a", "1")
    with running("watch", bucket, "--count", "3", "-o", "json") as watch:
        events = []
        while not events or events[-1]["event"] != "end":
            events.append(json.loads(watch.stdout.readline()))
        same("the snapshot", [(e["event"], e["key"]) for e in events if e["key"]], [("entry", f"{bucket}/a")])
        good("create", f"{bucket}/b", "2")
        good("delete", f"{bucket}/a")
        good("create", f"{bucket}/deep/c", "not seen")
        good("create", f"{bucket}/d", "4")
        changes = [json.loads(line) for line in watch.stdout if json.loads(line)["event"] in ("put", "delete")]
        same("the changes", [(e["event"], e["key"][len(bucket):]) for e in changes],
             [("put", "/b"), ("delete", "/a"), ("put", "/d")])
        same("ends by itself", watch.wait(PATIENCE), 0)
    with running("watch", bucket) as watch:
        check(watch.stdout.readline(), "it has begun")
        wait_for("it would notice", lambda: catches(watch.pid, signal.SIGINT))
        watch.send_signal(signal.SIGINT)
        same("Ctrl-C is an end, not a mistake", watch.wait(PATIENCE), 0)


def capabilities():
    """a store's capabilities are shown"""
    caps = good_json("caps")
    check(caps["create"] and caps["cas"], f"{caps}")
    has("for people", good("caps"), "scope")


def exec_runs():
    """exec runs a command with its slot in the environment"""
    group = new("exec")
    out = good("exec", "--group", group, "--slots", "2", "--ttl", LONG_TTL, "--owner", "shell", "--", "/bin/sh", "-c",
               "echo $COORD_SLOT $COORD_GROUP $COORD_OWNER; test $COORD_TOKEN -gt 0")
    same("its environment", out, f"0 {group} shell\n")
    words = ("--group", group, "--slots", "2", "--ttl", LONG_TTL, "--")
    same("its exit code", run("exec", *words, "sh", "-c", "exit 7").returncode, 7)
    same("its signal", run("exec", *words, "sh", "-c", "kill -9 $$").returncode, 137)
    same("no such command", run("exec", *words, "no-such-command").returncode, 127)
    same("all given back", good_json("holders", group)["holders"], [])


def exec_excludes():
    """exec refuses or waits while another runs"""
    group = new("exec")
    with running("exec", "--group", group, "--ttl", LONG_TTL, *SLEEPER) as first:
        pid = command_pid(first)
        bad(4, "EXISTS/full", "exec", "--group", group, "--ttl", TTL, "--", "true")
        with running("exec", "--group", group, "--ttl", TTL, "--wait", "60s", *SLEEPER) as second:
            time.sleep(0.3)
            check(second.poll() is None, "the second waits")
            first.terminate()
            same("TERM goes to the command", first.wait(PATIENCE), 143)
            check(not alive(pid), "which has ended")
            command_pid(second)
    with running("exec", "--group", group, "--ttl", TTL, "--wait", "60s", *SLEEPER) as holder:
        command_pid(holder)
        with running("exec", "--group", group, "--ttl", TTL, "--wait", "60s", *SLEEPER) as waiter:
            wait_for("it would notice", lambda: catches(waiter.pid, signal.SIGINT))
            waiter.send_signal(signal.SIGINT)
            same("Ctrl-C ends the waiting", waiter.wait(PATIENCE), 130)


def exec_keeps():
    """exec holds its slot for longer than a TTL"""
    for attempt in range(4):  # a machine that stalls for a TTL ends the claim, which is no fault of exec
        group = new("exec")
        with running("exec", "--group", group, "--ttl", TTL, *SLEEPER) as holder:
            pid = command_pid(holder)
            token = good_json("holders", group)["holders"][0]["token"]
            time.sleep(4.5)     # one and a half TTLs
            held = [row["token"] for row in good_json("holders", group)["holders"]]
            if alive(pid) and held == [token]:
                return
            print(f"# attempt {attempt}: runs on: {alive(pid)}, holders {held}, was {token}")
    check(False, "one claim all the time")


def exec_lost():
    """exec stops its command when the claim is taken away, TERM or not"""
    for sleeper in (SLEEPER, STUBBORN):
        group = new("exec")
        with running("exec", "--group", group, "--ttl", TTL, *sleeper) as holder:
            pid = command_pid(holder)
            good("delete", f"{group}/slot-0000", "--force")
            same("lost", holder.wait(PATIENCE), 4)
            check(not alive(pid), "the command has ended")
            has("says", holder.stderr.read(), "lost")


def exec_killed():
    """exec killed: its command is stopped before another is let in"""
    group = new("exec")
    with running("exec", "--group", group, "--ttl", TTL, *STUBBORN) as holder:
        pid = command_pid(holder)
        holder.kill()
        with running("exec", "--group", group, "--ttl", TTL, "--wait", "60s", "--", "/bin/sh", "-c",
                     f"test -d /proc/{pid} && ! grep -q 'State:.[ZX]' /proc/{pid}/status && echo both || echo one") as next_one:
            same("never both", next_one.stdout.readline(), "one\n")


def exec_stopped():
    """exec stopped (SIGSTOP): its command is stopped before another is let in"""
    group = new("exec")
    with running("exec", "--group", group, "--ttl", TTL, *STUBBORN) as holder:
        pid = command_pid(holder)
        holder.send_signal(signal.SIGSTOP)
        with running("exec", "--group", group, "--ttl", TTL, "--wait", "60s", "--", "/bin/sh", "-c",
                     f"test -d /proc/{pid} && ! grep -q 'State:.[ZX]' /proc/{pid}/status && echo both || echo one") as next_one:
            same("never both", next_one.stdout.readline(), "one\n")
        holder.send_signal(signal.SIGCONT)
        same("and it says so", holder.wait(PATIENCE), 4)


CASES = [entries, values, bad_input, claims, slots, outlives_its_process, watching, capabilities, exec_runs,
         exec_excludes, exec_keeps, exec_lost, exec_killed, exec_stopped]

if __name__ == "__main__":
    run_cases(CASES, sys.argv[3] if len(sys.argv) > 3 else "")
