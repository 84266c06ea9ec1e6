#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shard's client of a provider against one on grpcio: every call, every end, lost replies, TLS, death, long Lists.

usage: test_client.py DRIVER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long]    (prints TAP)
"""
import itertools
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "../../lib"), os.path.join(HERE, "../log")]
DRIVER, MUSTERCTL, PROTOC, ROOT = (os.path.abspath(word) for word in sys.argv[1:5])
ONLY = next((word for word in sys.argv[5:] if not word.startswith("--")), "")
LONG = "--long" in sys.argv
from cluster import PATIENCE, check, run_cases, wait_for  # noqa: E402
try:
    import provider as double
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

TAGS = itertools.count(1)


class Client:
    """The driver as a process; answers by tag."""

    def __init__(self, address, shard="shard-a", epoch=1, pem=()):
        self.process = subprocess.Popen([DRIVER, address, shard, str(epoch), *pem], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.answers = {}
        self.lock = threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            tag, *words = line.rstrip("\n").split(" ")
            with self.lock:
                self.answers.setdefault(tag, queue.Queue()).put(words)

    def ask(self, *words):
        """Returns a function that waits for the answer."""
        tag = str(next(TAGS))
        with self.lock:
            answer = self.answers.setdefault(tag, queue.Queue())
        self.process.stdin.write(" ".join((tag, *(str(word) for word in words))) + "\n")
        self.process.stdin.flush()
        return lambda: answer.get(timeout=PATIENCE)

    def call(self, *words):
        return self.ask(*words)()

    def list(self, cursor="-", page=0, chunk=65536, chunks=2):
        """machines, refused, removed, whole, cursor, pages, checksum of the ids and the end."""
        end, status, machines, refused, removed, whole, cursor, pages, checksum, *text = self.call(
            "list", cursor, page, chunk, chunks)
        return {"end": end, "status": int(status), "machines": int(machines), "refused": int(refused),
                "removed": int(removed), "whole": whole == "whole", "cursor": cursor, "pages": int(pages),
                "sum": int(checksum), "text": " ".join(text)}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.process.stdin.close()
        code = self.process.wait(timeout=PATIENCE)
        check(kind or code == 0, f"the driver ended with {code}")


def provider(*words):
    return double.Process(PROTOC, ROOT, *words)


class Shared:
    """The provider of all cases that need none of their own: a process takes longer to start than most of them run."""
    process = None

    @classmethod
    def new(cls, machines, **settings):
        cls.process = cls.process or provider()
        cls.process.control("reset", machines=machines, **settings)
        return cls.process


def calls(server, name):
    return server.control("calls").get(name, 0)


def reach(client, machine, wanted):
    wait_for(f"{machine} is {wanted}", lambda: client.call("get", machine)[2] == wanted)


# -- every call --

def a_whole_life():
    """A machine's whole life by all six calls, answered at once and later"""
    for mode in ("async", "sync"):
        server = Shared.new(3, mode=mode, complete_ms=30)
        with Client(server.address) as client:
            for kind, passing, final in (("create", "Creating", "Idle"), ("configure", "Configuring", "Configured"),
                                         ("drain", "Draining", "Idle"), ("delete", "Deleting", "Speculative")):
                end, status, state, cluster, metadata, *_ = client.call(kind, "m-000001")
                check((end, status) == ("done", "0"), f"{kind}: {end}")
                check(state == (passing if mode == "async" else final), f"{kind}: {state}")
                if kind == "configure":
                    check((cluster, metadata) == ("prod", "3"), f"{cluster} {metadata}")
                reach(client, "m-000001", final)
            journal = server.control("journal")
            check([line["kind"] for line in journal] == ["Create", "Configure", "Drain", "Delete"], f"{journal}")
            check([line["sequence"] for line in journal] == [1, 2, 3, 4], "each under its own number")
            check(all(line["shard"] == "shard-a" and line["epoch"] == 1 for line in journal), f"{journal}")
            got = client.list()
            check(got["end"] == "done" and got["machines"] == 3 and got["whole"] and got["cursor"] != "-", f"{got}")


def every_status():
    """Each status has its own meaning"""
    ends = {"CANCELLED": "unknown", "UNKNOWN": "unknown", "INVALID_ARGUMENT": "refused", "DEADLINE_EXCEEDED": "unknown",
            "NOT_FOUND": "not-found", "ALREADY_EXISTS": "refused", "PERMISSION_DENIED": "refused",
            "RESOURCE_EXHAUSTED": "refused", "FAILED_PRECONDITION": "fenced", "ABORTED": "refused",
            "OUT_OF_RANGE": "refused", "UNIMPLEMENTED": "not-supported", "INTERNAL": "refused",
            "UNAVAILABLE": "unknown", "DATA_LOSS": "unknown", "UNAUTHENTICATED": "refused"}
    server = Shared.new(1, refuse_rate=1)
    with Client(server.address) as client:
        for name, wanted in ends.items():
            server.control("set", refuse_status=name)
            end, status, *text = client.call("create", "m-000001")
            check(end == wanted and int(status) == double.CODE[name].value[0], f"{name}: {end} {status}")
            check(" ".join(text) == "by order of the test", f"{text}")
        check(not server.control("journal"), "nothing was done")
        server.control("set", refuse_rate=0, no_delete=True)
        check(client.call("delete", "m-000001")[0] == "not-supported", "no Delete here")
        check(client.call("get", "nobody")[0] == "not-found", "nobody")
        check(client.call("drain", "m-000001")[:2] == ["refused", "13"], "a wrong state")


def a_deposed_shard_is_fenced():
    """A deposed shard is fenced, a repeat by the same one is not"""
    server = Shared.new(1)
    with Client(server.address, epoch=2) as new, Client(server.address, epoch=1) as old:
        check(new.call("create", "m-000001")[0] == "done", "the new one")
        check(new.call("create", "m-000001")[0] == "done", "again: a new number, the same operation")
        end, status, *_ = old.call("configure", "m-000001")
        check((end, status) == ("fenced", "9"), f"{end} {status}")
        check(len(server.control("journal")) == 1 and calls(server, "Create.repeated") == 1, "done once")


def unanswered(client, server, what, machines):
    """The machine whose Create the provider has seen and not answered; on a busy machine it may see none in time."""
    for machine, patience in zip(machines, (200, 400, 2000, 10000, 30000)):
        check(client.call("create", machine, patience)[:2] == ["unknown", "4"], f"{machine}: not known")
        if calls(server, "Create." + what):
            return machine
    raise AssertionError("the provider has seen no Create in 30 s")


def what_is_not_answered():
    """A lost reply and an ignored call both have an unknown result, which Get shows"""
    server = Shared.new(10, lose_rate={"Create": 1})
    with Client(server.address) as client:
        lost = unanswered(client, server, "lost", [f"m-{n:06}" for n in range(1, 6)])
        server.control("set", lose_rate=0, ignore_rate={"Create": 1})
        ignored = unanswered(client, server, "ignored", [f"m-{n:06}" for n in range(6, 11)])
        reach(client, lost, "Idle")
        check(client.call("get", ignored)[2] == "Speculative", "nothing was done")
        check(len([line for line in server.control("journal") if line["machine"] == lost]) == 1, "done once")


def many_at_once():
    """Three hundred calls at a provider that takes twenty a connection: all done, no number twice"""
    with provider("--machines", "300", "--streams-max", "20", "--set", "latency_ms=20") as server, \
            Client(server.address) as client:
        waits = [client.ask("create", f"m-{n:06}") for n in range(1, 301)]
        check(all(wait()[0] == "done" for wait in waits), "all done")
        sequence = [line["sequence"] for line in server.control("journal")]
        check(len(sequence) == 300 and len(set(sequence)) == 300, "each under its own number")
        running, waiting, connections, last = client.call("stats")
        check((running, waiting, last) == ("0", "0", "300") and int(connections) <= 4,
              f"{running} {waiting} {connections} {last}")


# -- a provider that dies --

def death_under_calls():
    """A provider that dies leaves calls not known; without one they are unsent; another is found by itself"""
    # An address that stays reserved while no process listens there.
    server = provider("--machines", "5", "--set", "latency_ms=60000", "--listen",
                      "127." + ".".join(str(random.randrange(1, 255)) for _ in range(3)) + ":0")
    with Client(server.address) as client:
        waits = [client.ask("create", f"m-{n:06}") for n in range(1, 6)]
        wait_for("they are there", lambda: calls(server, "Create.called") == 5)
        server.kill()
        check([wait()[0] for wait in waits] == ["unknown"] * 5, "not known")
        wait_for("nobody is there", lambda: client.call("create", "m-000001")[0] == "unsent")
        check(client.list()["end"] == "unsent", "nor a List")
        with provider("--machines", "5", "--listen", server.address):
            wait_for("the next one", lambda: client.call("create", "m-000001")[0] == "done")


def death_under_a_list():
    """A provider that dies in the middle of a List: it is not whole"""
    with provider("--machines", "10000") as server, Client(server.address) as client:
        # Small chunks, one at a time: the provider is held for long enough to be killed.
        answer = client.ask("list", "-", 0, 4096, 1)
        wait_for("it was asked", lambda: calls(server, "List.called") == 1)
        server.kill()
        end, status, machines, _, _, whole, *_ = answer()
        if end == "done":  # all of it was in the sockets already
            check(whole == "whole" and machines == "10000", f"{machines}")
            print("# the whole List had been sent before the provider died")
        else:
            check(end == "unknown" and whole == "part" and int(machines) < 10000, f"{end} {machines}")


# -- List --

def lists():
    """Cursors, tombstones, pages, a List that is cut, records that are garbage"""
    count = 100000 if LONG else 3000
    server = Shared.new(count)
    with Client(server.address) as client:
        whole = client.list()
        check(whole["machines"] == count and whole["whole"] and whole["refused"] == 0, f"{whole}")
        check(client.list(page=count // 7)["sum"] == whole["sum"] and client.list(page=count // 7)["pages"] == 8, "pages")
        check(client.list(chunk=1000, chunks=1)["sum"] == whole["sum"], "small chunks")
        server.control("remove", ids=["m-000001", "m-000002"])
        server.control("place", machine="m-000003", state="Failed", error="gone")
        delta = client.list(whole["cursor"])
        check((delta["machines"], delta["removed"], delta["whole"]) == (1, 2, True), f"{delta}")
        server.control("set", tombstones=False)
        full = client.list()
        check(full["cursor"] == "-" and full["machines"] == count - 2, "no tombstones, no cursor")
        server.control("set", tombstones=True, truncate_list=40)
        cut = client.list()
        check(cut["end"] == "done" and not cut["whole"] and "cut short" in cut["text"], f"{cut}")
        server.control("set", truncate_list=0)
        for how in double.GARBAGE:
            server.control("set", garbage={"List": how}, garbage_count=2)
            got = client.list()
            check(got["end"] == "done" and got["refused"] == 2, f"{how}: {got}")
            check(got["machines"] == count - 4, f"{how}: {got}")
            nameless = how in ("no_id", "long_id")
            check(got["whole"] != nameless, f"{how}: a record without a name: {got}")


def garbage_in_acks():
    """An ack that cannot be read says which field"""
    server = Shared.new(4)
    with Client(server.address) as client:
        for n, (how, says) in enumerate((("no_machine", "machine: missing"), ("unknown_state", "state: unknown number 99"),
                                         ("bytes", "ack:"), ("label_twice", "given twice")), 1):
            server.control("set", garbage={"Ack": how})
            end, _, state, _, _, *text = client.call("create", f"m-{n:06}")
            check(end == "done" and state == "unreadable" and says in " ".join(text), f"{how}: {state} {text}")


# -- TLS --

def identities():
    """mTLS: the right shard, another shard, another authority, none"""
    with tempfile.TemporaryDirectory() as scratch:
        def cert(*words, ca="tls"):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", f"{scratch}/{ca}"], check=True, capture_output=True)

        for ca in ("tls", "other"):
            cert("ca", ca=ca)
            cert("issue", "shard", "--id", "shard-a", ca=ca)
        cert("issue", "shard", "--id", "shard-b")
        cert("issue", "provider", "--id", "p1")
        names = sorted(os.listdir(f"{scratch}/tls"))

        def pem(name, ca="tls", root="tls"):
            base = next(file[:-len(".key.pem")] for file in names if file.endswith(".key.pem") and name in file)
            return (f"{scratch}/{ca}/{base}.pem", f"{scratch}/{ca}/{base}.key.pem", f"{scratch}/{root}/ca.pem")

        mine, key, ca = pem("p1")
        with provider("--machines", "2", "--cert", mine, "--key", key, "--ca", ca, "--set",
                      "require_identity=true") as server:
            for why, shard, files, wanted in (
                    ("the right one", "shard-a", pem("shard-a"), "done"),
                    ("another shard's name", "shard-b", pem("shard-a"), "refused"),
                    ("another authority's", "shard-a", pem("shard-a", "other", "tls"), "unsent"),
                    ("a provider of another authority", "shard-a", pem("shard-a", "tls", "other"), "unsent"),
                    ("plaintext", "shard-a", (), "unsent")):
                with Client(server.address, shard, 1, files) as client:
                    end, status, *_ = client.call("create", "m-000001", 20000)
                    check(end == wanted, f"{why}: {end} {status}")
                    if wanted == "done":
                        check(client.list()["machines"] == 2, "and a List")
                    if wanted == "refused":
                        check(status == "7", f"{why}: {status}")


run_cases([a_whole_life, every_status, a_deposed_shard_is_fenced, what_is_not_answered, many_at_once, death_under_calls,
           death_under_a_list, lists, garbage_in_acks, identities], ONLY)
