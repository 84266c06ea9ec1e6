# SPDX-License-Identifier: Apache-2.0
"""The cases of D14: commands for Debian's etcdctl and python3-etcd3, with the expected results.

Each is a function of a Target and runs unchanged against real etcd, which confirms the expected results.
"""
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request

from cluster import PATIENCE, check, wait_for

SHORT_TTL = 2   # seconds: the least a lease may have
LOCK_TTL = 5    # of one that must not end while its process, or this machine, is paused for a moment


class Target:
    """A cluster under one name. `endpoints`: host:port each."""

    def __init__(self, name, endpoints, flags=()):
        self.name, self.endpoints, self.flags = name, endpoints, list(flags)
        scheme = "https" if flags else "http"
        self.command = ["etcdctl", "--endpoints", ",".join(f"{scheme}://{each}" for each in endpoints),
                        "--command-timeout=80s", *self.flags]
        self.environment = {**os.environ, "ETCDCTL_API": "3"}

    def run(self, *words, text=None):
        return subprocess.run([*self.command, *words], input=text, capture_output=True, text=True, timeout=PATIENCE,
                              env=self.environment)

    def ctl(self, *words, text=None):
        """Its output; it must succeed."""
        done = self.run(*words, text=text)
        check(done.returncode == 0, f"{self.name}: etcdctl {words}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, *words, text=None):
        """Its error; it must fail."""
        done = self.run(*words, text=text)
        check(done.returncode != 0, f"{self.name}: etcdctl {words} succeeded: {done.stdout}")
        return done.stderr

    def json(self, *words):
        return json.loads(self.ctl(*words, "-w", "json"))

    def background(self, *words):
        return Background([*self.command, *words], self.environment)

    def revision(self):
        return self.json("get", "nothing")["header"]["revision"]


class Background:
    """An etcdctl that goes on; its lines as they come."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def until(self, what, ready):
        return wait_for(f"{what}; it said {self.lines}", lambda: ready(self.lines))

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self, number=signal.SIGTERM):
        """Its exit code, after all its output is read."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.reader.join(PATIENCE)
        self.process.stdin.close()
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGKILL)


def equal(got, expected, what):
    check(got == expected, f"{what}: {got!r}, not {expected!r}")


# -- X01 --

def keys(t):
    """X01 etcdctl put, get, del with their options; exit codes"""
    equal(t.ctl("put", "k/a", "1"), "OK\n", "put")
    equal(t.ctl("put", "k/a", "2", "--prev-kv"), "OK\nk/a\n1\n", "put --prev-kv")
    for n in range(3):
        t.ctl("put", f"k/{n}", f"v{n}")
    equal(t.ctl("get", "k/a"), "k/a\n2\n", "get")
    equal(t.ctl("get", "k/a", "--print-value-only"), "2\n", "get --print-value-only")
    equal(t.ctl("get", "k/absent"), "", "get of nothing")
    equal(t.ctl("get", "k/", "--prefix", "--keys-only"), "k/0\n\nk/1\n\nk/2\n\nk/a\n\n", "get --keys-only")
    equal(t.ctl("get", "k/0", "k/2"), "k/0\nv0\nk/1\nv1\n", "get of a range")
    equal(t.ctl("get", "k/2", "--from-key", "--limit=1"), "k/2\nv2\n", "get --from-key --limit")
    equal(t.ctl("get", "k/", "--prefix", "--order=DESCEND", "--sort-by=MODIFY", "--limit=1"), "k/2\nv2\n", "get sorted")
    found = t.json("get", "k/", "--prefix", "--limit=2")
    equal((len(found["kvs"]), found["count"], found["more"]), (2, 4, True), "a page")
    before = found["header"]["revision"]
    t.ctl("put", "k/a", "3")
    equal(t.ctl("get", "k/a", f"--rev={before}"), "k/a\n2\n", "get of the past")
    wait_for("a member that may be behind", lambda: t.ctl("get", "k/a", "--consistency=s") == "k/a\n3\n")
    equal(t.ctl("put", "k/a", "--ignore-value"), "OK\n", "put --ignore-value")
    equal(t.ctl("del", "k/a", "--prev-kv"), "1\nk/a\n3\n", "del --prev-kv")
    equal(t.ctl("del", "k/a"), "0\n", "del of nothing")
    equal(t.ctl("del", "k/", "--prefix"), "3\n", "del --prefix")
    check("key is not provided" in t.fails("put", "", "x"), "put of an empty key")
    check("key not found" in t.fails("put", "k/none", "--ignore-value"), "--ignore-value of nothing")
    check("future revision" in t.fails("get", "k", f"--rev={before + 1000}"), "get of the future")


def transactions(t):
    """X01 etcdctl txn, from its input and by hand"""
    t.ctl("put", "t/a", "1")
    text = 'value("t/a") = "1"\nmod("t/none") = "0"\n\nput t/b "of the first"\nget t/a\n\nput t/b otherwise\n\n'
    equal(t.ctl("txn", text=text), "SUCCESS\n\nOK\n\nt/a\n1\n", "txn that holds")
    t.ctl("put", "t/a", "2")
    equal(t.ctl("txn", text=text), "FAILURE\n\nOK\n", "txn that does not")
    equal(t.ctl("get", "t/b"), "t/b\notherwise\n", "what it did")
    by_hand = t.ctl("txn", "-i", text='create("t/c") = "0"\n\nput t/c 1\ndel t/a\n\n\n')
    check("SUCCESS" in by_hand and "compares:" in by_hand, f"txn -i: {by_hand}")
    check("duplicate key" in t.fails("txn", text='\nput t/d 1\nput t/d 2\n\n\n'), "two puts of one key")
    t.ctl("del", "t/", "--prefix")


def compaction(t):
    """X01 etcdctl compaction"""
    for n in range(5):
        t.ctl("put", "c/a", str(n))
    now = t.revision()
    equal(t.ctl("compaction", str(now)), f"compacted revision {now}\n", "compaction")
    check("has been compacted" in t.fails("compaction", str(now)), "twice")
    check("future revision" in t.fails("compaction", str(now + 99)), "ahead")
    check("has been compacted" in t.fails("get", "c/a", f"--rev={now - 1}"), "get below")
    equal(t.ctl("get", "c/a", f"--rev={now}"), "c/a\n4\n", "get at it")
    t.ctl("del", "c/a")


def watching(t):
    """X01 etcdctl watch, of now and of the past, by hand, and with a command for each event"""
    first = t.revision() + 1
    with t.background("watch", "w/", "--prefix", "--prev-kv", f"--rev={first}") as watch:
        t.ctl("put", "w/a", "1")
        t.ctl("put", "w/a", "2")
        t.ctl("del", "w/a")
        expected = ["PUT", "w/a", "1", "PUT", "w/a", "1", "w/a", "2", "DELETE", "w/a", "2", "w/a", ""]
        watch.until("three events", lambda lines: len(lines) >= len(expected))
        equal(watch.lines, expected, "watch --prev-kv")
    with t.background("watch", "-i") as watch:
        watch.say("watch w/b")
        watch.say(f"watch w/a --rev={first + 2}")
        watch.until("the past", lambda lines: "DELETE" in lines)
        wait_for("the other", lambda: t.ctl("put", "w/b", "x") and "w/b" in watch.lines)
    with t.background("watch", "w/", "--prefix", f"--rev={first}", "--", "sh", "-c",
                      "echo $ETCD_WATCH_EVENT_TYPE $ETCD_WATCH_KEY") as watch:
        watch.until("the commands", lambda lines: 'DELETE "w/a"' in " ".join(lines) or "DELETE" in " ".join(lines))
    t.ctl("del", "w/", "--prefix")


# -- X02 --

def leases(t):
    """X02 etcdctl lease grant, keep-alive, timetolive, list, revoke"""
    said = t.ctl("lease", "grant", "600").split()
    lease = said[1]
    equal(said, ["lease", lease, "granted", "with", "TTL(600s)"], "grant")
    t.ctl("put", "l/b", "2", f"--lease={lease}")
    t.ctl("put", "l/a", "1", f"--lease={lease}")
    equal(t.ctl("lease", "keep-alive", "--once", lease), f"lease {lease} keepalived with TTL(600)\n", "keep-alive")
    left = t.json("lease", "timetolive", lease, "--keys")
    check(left["granted-ttl"] == 600 and 0 < left["ttl"] <= 600 and len(left["keys"]) == 2, f"timetolive: {left}")
    check(lease in t.ctl("lease", "list"), "list")
    equal(t.ctl("lease", "revoke", lease), f"lease {lease} revoked\n", "revoke")
    equal(t.ctl("get", "l/", "--prefix"), "", "its keys are gone")
    check("requested lease not found" in t.fails("lease", "revoke", lease), "again")
    check("already expired" in t.ctl("lease", "timetolive", lease), "timetolive of none")
    check("not found" in t.fails("lease", "keep-alive", "--once", lease), "keep-alive of none")
    check(lease not in t.ctl("lease", "list"), "no ghost in the list")
    check("requested lease not found" in t.fails("put", "l/a", "1", f"--lease={lease}"), "put with none")
    wait_for("a lease that lives long enough to be used", lambda: put_for_a_moment(t, "l/ends"))
    wait_for("the lease ends", lambda: t.ctl("get", "l/ends") == "")
    with t.background("lease", "keep-alive", t.ctl("lease", "grant", "60").split()[1]) as kept:
        kept.until("it is kept", lambda lines: any("keepalived" in line for line in lines))


def put_for_a_moment(t, key):
    """Under the shortest lease there is; False when that was over before the second command had come so far."""
    short = t.ctl("lease", "grant", str(SHORT_TTL)).split()[1]
    done = t.run("put", key, "x", f"--lease={short}")
    check(done.returncode == 0 or "requested lease not found" in done.stderr, f"put under a short lease: {done}")
    return done.returncode == 0


# -- X03, X04 --

def locks(t):
    """X03 etcdctl lock: the second gets it when the first is killed and its lease is over; and with a command"""
    with t.background("lock", "lock/one", f"--ttl={LOCK_TTL}") as first:
        key = first.until("the first holds it", lambda lines: lines)[0]
        check(key.startswith("lock/one/"), f"its key: {key}")
        with t.background("lock", "lock/one") as second:
            wait_for("the second waits", lambda: t.json("get", "lock/one/", "--prefix").get("count", 0) == 2)
            equal(second.lines, [], "while the first holds it")
            first.end(signal.SIGKILL)
            other = second.until("the second holds it", lambda lines: lines)[0]
            check(other != key and t.ctl("get", key) == "", f"{key} has gone, {other} is there")
            equal(second.end(signal.SIGINT), 0, "a lock that is let go")
    wait_for("nobody is left", lambda: t.ctl("get", "lock/", "--prefix") == "")
    said = t.ctl("lock", "lock/two", "--", "sh", "-c", "echo $ETCD_LOCK_KEY $ETCD_LOCK_REV").split()
    check(said[0].startswith("lock/two/") and int(said[1]) > 1, f"the environment: {said}")
    equal(t.run("lock", "lock/two", "--", "sh", "-c", "exit 7").returncode, 1, "a command that fails")


def elections(t):
    """X04 etcdctl elect, and elect -l beside it: a change of leaders is seen"""
    with t.background("elect", "-l", "office") as listener, t.background("elect", "office", "ann") as first:
        first.until("ann leads", lambda lines: "ann" in lines)
        listener.until("ann is seen", lambda lines: "ann" in lines)
        with t.background("elect", "office", "bob") as second:
            wait_for("bob waits", lambda: t.json("get", "office/", "--prefix").get("count", 0) == 2)
            equal(second.lines, [], "while ann leads")
            first.end(signal.SIGINT)
            second.until("bob leads", lambda lines: "bob" in lines)
            listener.until("bob is seen", lambda lines: "bob" in lines)
            second.end(signal.SIGINT)


# -- X05 --

def endpoints(t):
    """X05 etcdctl endpoint health, status, hashkv; member list; alarm list; defrag"""
    done = t.run("endpoint", "health")
    equal(done.returncode, 0, f"health: {done.stdout}{done.stderr}")
    equal((done.stdout + done.stderr).count("is healthy"), len(t.endpoints), "health of each")
    listed = t.json("member", "list")["members"]
    equal(len(listed), len(t.endpoints), f"members: {listed}")
    for member in listed:
        check(member["name"] and member["clientURLs"] and member["peerURLs"] and member["ID"], f"a member: {member}")
    equal(sorted(url.split("//")[1] for member in listed for url in member["clientURLs"]), sorted(t.endpoints),
          "client URLs are where it is served")
    wait_for("every member knows the leader", lambda: all(
        one["Status"].get("leader") for one in t.json("endpoint", "status")))
    statuses = t.json("endpoint", "status")
    equal(len(statuses), len(t.endpoints), "status of each")
    for one in statuses:
        status = one["Status"]
        check(status["leader"] in [member["ID"] for member in listed], f"the leader is a member: {one}")
        check(status["dbSize"] > 0 and status["raftIndex"] > 0 and status["raftTerm"] > 0, f"numbers: {one}")
        check(all(part.isdigit() for part in status["version"].split(".")), f"a version: {one}")
    equal(len({one["Status"]["leader"] for one in statuses}), 1, f"one leader: {statuses}")
    revision = t.revision()
    hashes = wait_for("every member has got so far", lambda: hashes_of(t, revision))
    equal(len({each["HashKV"]["hash"] for each in hashes}), 1, f"one hash: {hashes}")
    equal(t.ctl("alarm", "list"), "", "no alarm")
    check("Finished defragmenting" in t.ctl("defrag"), "defrag")
    through = t.run("endpoint", "health", "--cluster")
    equal(through.returncode, 0, f"health of the cluster, by its own list: {through.stdout}{through.stderr}")


def hashes_of(t, revision):
    done = t.run("endpoint", "hashkv", f"--rev={revision}", "-w", "json")
    return json.loads(done.stdout) if done.returncode == 0 else None


def pages(t):
    """C1 /health and /version by HTTP/1.1 on the port of the API"""
    for endpoint in t.endpoints:
        with urllib.request.urlopen(f"http://{endpoint}/health", timeout=PATIENCE) as answer:
            equal(json.load(answer)["health"], "true", "/health")
        with urllib.request.urlopen(f"http://{endpoint}/version", timeout=PATIENCE) as answer:
            versions = json.load(answer)
        check(versions["etcdserver"].count(".") == 2 and versions["etcdcluster"].count(".") == 2, f"/version: {versions}")


# -- X09: python3-etcd3, in a process of its own: its watcher goes on until that ends --

def python_client(t):
    """X09 Python etcd3: put, get, prefix, txn, watch callback, lease, lock"""
    host, port = t.endpoints[0].rsplit(":", 1)
    done = subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "with_etcd3.py"), host, port,
                           str(len(t.endpoints))], capture_output=True, text=True, timeout=2 * PATIENCE)
    check(done.returncode == 0, f"{t.name}: {done.stdout}{done.stderr}")


ALL = [keys, transactions, compaction, watching, leases, locks, elections, endpoints, pages, python_client]
