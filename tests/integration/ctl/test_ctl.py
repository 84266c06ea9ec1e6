#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl against real coordinators: it shows their state, and every exit code is driven.

usage: test_ctl.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

The expected tables come from a stock gRPC client.
"""
import datetime
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fleet"))
from dead import dead_address  # noqa: E402
from in_time import in_time  # noqa: E402
from coordinators import (COORDINATOR, FLEET, MUSTERCTL, PATIENT, Cluster, check, run_cases, wait_for)  # noqa: E402

CTL = os.path.abspath(MUSTERCTL)
ASSIGN = ("assign-domain", "--key", "zone", "--value", "eu-1a", "--shard")


def same(why, got, want):
    check(got == want, f"{why}:\n  wanted {want!r}\n  got    {got!r}")


def has(why, text, part):
    check(part in text, f"{why}: no {part!r} in {text!r}")


def run(*words, program=CTL):
    return subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          env={"PATH": "/usr/bin:/bin"})


def ctl(where, *words):
    """To one coordinator, or to a list of addresses."""
    addresses = ",".join(where) if isinstance(where, (list, tuple)) else where.grpc
    return run(*words, "--coordinator", addresses)


def good(where, *words):
    done = ctl(where, *words)
    for _ in range(20):   # an election came between: it is repeated as the message says
        known = re.search(r"repeat it with (--request-id \w+)", done.stderr)
        if not known:
            break
        done = ctl(where, *words, *known.group(1).split())
    same(f"{' '.join(words)} ends well", (done.returncode, done.stderr), (0, ""))
    return done.stdout


def empty(where, *words):
    done = ctl(where, *words)
    check(done.returncode == 0 and done.stderr.endswith(": the list is empty\n"), f"{words}: {done}")
    return done.stdout


def good_json(where, *words):
    return json.loads(good(where, *words, "-o", "json"))


def bad(where, exit_code, text, *words):
    done = ctl(where, *words)
    same(f"{' '.join(words)} ({done.stderr.strip()})", (done.returncode, done.stdout), (exit_code, ""))
    has("says", done.stderr, text)
    return done.stderr


def seconds(unix_ns):
    moment = datetime.datetime.fromtimestamp(unix_ns // 10**9, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def alone(*options):
    """A cluster of one, and its only replica once it leads."""
    cluster = Cluster(1, options, join=False).start()
    return cluster


def report(node, shard, cycle=1, **more):
    return node.call(COORDINATOR + "ReportShard", shard_id=shard, cycle=cycle, shard_epoch=1, **more)


# -- cases --

def tables():
    """Every table is what the coordinator holds, in the columns of the specification."""
    with alone() as cluster:
        node = cluster.leader()
        same("nothing yet", empty(node, "list-shards"), "SHARD  ADDRESS  REGISTERED  LAST_HEARTBEAT\n")
        same("add-shard", good(node, "add-shard", "--shard", "shard-a", "--address", "h:1"),
             "added shard shard-a at h:1\n")
        shards = node.call(COORDINATOR + "ListShards").shards
        same("one shard that never reported", good(node, "list-shards"),
             "SHARD    ADDRESS  REGISTERED            LAST_HEARTBEAT\n"
             f"shard-a  h:1      {seconds(shards[0].registered_at_unix_ns)}  \u2014\n")
        report(node, "shard-bbb", shard_address="host.example:7780",
               summary={"total_machines": 5, "free_machines": 2, "per_zone_counts": {"z": 5}})
        shards = node.call(COORDINATOR + "ListShards").shards
        same("and one that did", good(node, "list-shards"),
             "SHARD      ADDRESS            REGISTERED            LAST_HEARTBEAT\n"
             f"shard-a    h:1                {seconds(shards[0].registered_at_unix_ns)}  \u2014\n"
             f"shard-bbb  host.example:7780  {seconds(shards[1].registered_at_unix_ns)}  "
             f"{seconds(shards[1].last_heartbeat_unix_ns)}\n")
        got = good_json(node, "list-shards")["shards"]
        same("the same for programs", [(s["shard_id"], s["address"], s["last_heartbeat"] is None) for s in got],
             [("shard-a", "h:1", True), ("shard-bbb", "host.example:7780", False)])
        received = node.call(COORDINATOR + "ListShardReports").reports[0].received_at_unix_ns
        same("reports", good(node, "list-shard-reports"),
             "SHARD      CYCLE  RECEIVED              MACHINES  FREE  SHORTFALLS  PROVIDER\n"
             f"shard-bbb  1      {seconds(received)}  5         2     0           \u2014\n")
        same("all of it", good_json(node, "list-shard-reports", "--shard", "shard-bbb")["reports"][0]["summary"],
             {"total_machines": 5, "free_machines": 2, "per_instance_type_counts": {}, "per_zone_counts": {"z": 5},
              "provider_address": ""})
        same("assign-domain", good(node, *ASSIGN, "shard-bbb"), "assigned zone=eu-1a \u2192 shard-bbb\n")
        same("again", good(node, *ASSIGN, "shard-bbb"), "assigned zone=eu-1a \u2192 shard-bbb\n")
        good(node, "assign-domain", "--key", "rack", "--value", "r1", "--shard", "shard-a")
        same("list-domain-assignments", good(node, "list-domain-assignments"),
             "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD\n"
             "rack          r1              shard-a\n"
             "zone          eu-1a           shard-bbb\n")
        same("set-quota", good(node, "set-quota", "--provider", "aws", "--region", "eu-west-1", "--slices",
                               "shard-bbb=7,shard-a=40"), "set quota aws/eu-west-1: 2 slices\n")
        same("list-quotas", good(node, "list-quotas"),
             "PROVIDER  REGION     SHARD      SLICE\n"
             "aws       eu-west-1  shard-a    40\n"
             "aws       eu-west-1  shard-bbb  7\n")
        same("for programs", good_json(node, "list-quotas"), {"allocations": [
            {"provider": "aws", "region": "eu-west-1", "per_shard": {"shard-a": 40, "shard-bbb": 7}}]})
        same("upsert-provider", good(node, "upsert-provider", "--name", "aws", "--address", "p:1", "--region", "eu"),
             "set provider aws at p:1\n")
        same("list-providers", good(node, "list-providers"), "PROVIDER  ADDRESS  REGION\naws       p:1      eu\n")
        same("bind-cluster", good(node, "bind-cluster", "--cluster", "prod", "--shard", "shard-a"),
             "bound cluster prod \u2192 shard-a\n")
        same("list-clusters", good(node, "list-clusters"), "CLUSTER  SHARD\nprod     shard-a\n")
        same("unassign-domain", good(node, "unassign-domain", "--key", "rack", "--value", "r1"), "unassigned rack=r1\n")
        same("again", good(node, "unassign-domain", "--key", "rack", "--value", "r1"), "unassigned rack=r1\n")
        same("leaving", good(node, "list-leaving-domains"),
             "TOPOLOGY_KEY  TOPOLOGY_VALUE  LEAVING  OWNER  REASON\nrack          r1              shard-a  -      -\n")
        has("it lives", bad(node, 4, f"(FAILED_PRECONDITION from {node.grpc})", "remove-shard", "--shard", "shard-bbb"),
            "still acts on its machines")
        same("remove-shard", good(node, "remove-shard", "--shard", "shard-bbb", "--force-two-owners"),
             "removed shard shard-bbb\n")
        same("with all it owned", empty(node, "list-domain-assignments"), "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD\n")
        same("no slice", good(node, "set-quota", "--provider", "aws", "--region", "eu-west-1", "--none"),
             "set quota aws/eu-west-1: 0 slices\n")
        same("none listed", empty(node, "list-quotas"), "PROVIDER  REGION  SHARD  SLICE\n")


def formats():
    """A list as a table, wide, as names, without titles, as JSON and as YAML; an option may come before the command."""
    with alone() as cluster:
        node = cluster.leader()
        for name in ("a", "b"):
            good(node, "shard", "add", "--shard", name, "--address", "h:1")
        same("names", good(node, "-o", "name", "shard", "list"), "a\nb\n")
        table = good(node, "shard", "list").splitlines()
        same("no titles", good(node, "shard", "list", "--no-headers").splitlines(), table[1:])
        same("YAML says what JSON says", yaml.safe_load(good(node, "shard", "list", "-o", "yaml")), good_json(node, "shard", "list"))
        same("an empty list", yaml.safe_load(good(node, "cluster", "list", "-o", "yaml")), {"clusters": []})
        wide = good(node, "replica", "list", "-o", "wide").splitlines()
        check(wide[0].startswith(good(node, "replica", "list").splitlines()[0]) and "VOTER" in wide[0] and " yes " in wide[1], wide)
        same("the verb first", good(node, "get", "shards", "-oname"), "a\nb\n")
        same("one row", good(node, "describe", "shard", "b").splitlines(), [table[0], table[2]])
        bad(node, 5, "SHARD 'c' is not in the list", "get", "shard", "c")
        bad(node, 2, "musterctl shard has list, reports, add, remove", "shard", "frobnicate")


def at_a_terminal(node, answer, *words):
    """The exit code and what it printed, of a command that a person runs."""
    ours, its = os.openpty()
    with subprocess.Popen([CTL, *words, "--coordinator", node.grpc], stdin=its, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, env={"PATH": "/usr/bin:/bin"}) as process:
        os.close(its)
        os.write(ours, answer.encode() + b"\n")
        text = process.communicate(timeout=120)[0]
        os.close(ours)
        return process.returncode, text


def asks():
    """A removal at a terminal asks first; --yes answers, and a script is not asked."""
    with alone() as cluster:
        node = cluster.leader()
        for name in ("a", "b", "c"):
            good(node, "shard", "add", "--shard", name, "--address", "h:1")
        for words, what in ((("worker", "drain", "w"), "Worker w gives back"), (("worker", "evict", "w"), "Worker w counts as failed"),
                            (("worker", "release-hold"), "All silent workers"), (("domain", "unassign", "z=1"), "Nobody will own z=1"),
                            (("store", "del", "k"), "Deletes k"), (("store", "compact", "7"), "before revision 7"),
                            (("replica", "bootstrap"), "a second cluster"), (("replica", "remove", "n"), "Replica n leaves")):
            code, text = at_a_terminal(node, "n", *words)
            check(code == 2 and what in text and "not confirmed: nothing was changed" in text, (words, code, text))
            check("Continue?" not in at_a_terminal(node, "n", *words, "--yes")[1], words)
        code, text = at_a_terminal(node, "n", "shard", "remove", "--shard", "a")
        check(code == 2 and "Continue? [y/N]" in text and "not confirmed: nothing was changed" in text, (code, text))
        same("all are there", good(node, "shard", "list", "-o", "name"), "a\nb\nc\n")
        code, text = at_a_terminal(node, "y", "shard", "remove", "--shard", "a")
        check(code == 0 and "removed shard a" in text, (code, text))
        code, text = at_a_terminal(node, "n", "shard", "remove", "--shard", "b", "--yes")
        check(code == 0 and "Continue?" not in text, (code, text))
        good(node, "shard", "remove", "--shard", "c")
        same("none is left", empty(node, "shard", "list", "-o", "name"), "")


def exit_codes():
    """A refusal by a real coordinator keeps its words and becomes 2, 4 or 5."""
    with alone() as cluster:
        node = cluster.leader()
        good(node, "add-shard", "--shard", "a", "--address", "h:1")
        good(node, "add-shard", "--shard", "b", "--address", "h:2")
        good(node, *ASSIGN, "a")
        bad(node, 2, f"(INVALID_ARGUMENT from {node.grpc})", "assign-domain", "--key", "", "--value", "v", "--shard", "a")
        bad(node, 2, f"(INVALID_ARGUMENT from {node.grpc})", "remove-shard", "--shard", "")
        text = bad(node, 4, f"(ALREADY_EXISTS from {node.grpc})", *ASSIGN, "b")
        for part in ("zone", "eu-1a", "a", "b"):
            has("the domain and both owners", text, part)
        bad(node, 4, "ALREADY_EXISTS", "add-shard", "--shard", "a", "--address", "h:9")
        good(node, "bind-cluster", "--cluster", "c", "--shard", "a")
        bad(node, 4, "ALREADY_EXISTS", "bind-cluster", "--cluster", "c", "--shard", "b")
        # An HTTP port is recognised by its first answer, not by a timeout of ten seconds.
        text = bad([node.http], 6, f"{node.http} (the server speaks HTTP/1.1, not gRPC", "list-shards", "--timeout", "1d")
        has("what would be right", text, "--coordinator says where to look")
        bad([f"http://{node.grpc}"], 2, "is a URL; write host:port", "list-shards")
        bad(node, 5, f"(NOT_FOUND from {node.grpc})", *ASSIGN, "nobody")
        bad(node, 5, "NOT_FOUND", "remove-shard", "--shard", "nobody")
        bad(node, 5, "NOT_FOUND", "replica", "remove", "nobody")
        same("nothing of it was done", [d["shard_id"] for d in good_json(node, "list-domain-assignments")["assignments"]],
             ["a"])


def leaders():
    """The leader is found behind followers and the dead, and a new one after it died."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        leader = cluster.leader()
        followers = [node for node in cluster.nodes if node is not leader]
        good([leader.grpc], "add-shard", "--shard", "a", "--address", "h:1")
        for why, addresses in (
                ("two are dead", [dead_address(), dead_address(), leader.grpc]),
                ("two are followers", [followers[0].grpc, followers[1].grpc, leader.grpc]),
                ("a follower and the dead, the leader is not listed", [dead_address(), followers[0].grpc, dead_address()])):
            has(why, good(addresses, "list-shards"), "\na ")
            good(addresses, *ASSIGN, "a")
            good(addresses, "unassign-domain", "--key", "zone", "--value", "eu-1a")
        everybody = [node.grpc for node in cluster.nodes]
        leader.kill()
        same("at once after it died", good(everybody, *ASSIGN, "a"), "assigned zone=eu-1a \u2192 a\n")
        second = cluster.leader(followers)
        second.kill()
        last = next(node for node in followers if node is not second)
        for words in (("list-shards",), (*ASSIGN, "a")):
            done = in_time(lambda t, words=words: run(*words, "--coordinator", ",".join(everybody), "--timeout", t),
                           lambda done: done.returncode != 6)
            same(f"no majority ({done.stderr})", (done.returncode, done.stdout), (3, ""))
            has("says", done.stderr, "no leader")
        last.kill()
        bad(everybody, 6, "no coordinator answers at", "list-shards")


def unknown():
    """A write whose majority is frozen is unknown, names its id, and is done once when repeated under it."""
    with Cluster(3, PATIENT).start() as cluster:
        cluster.formed()
        leader = cluster.leader()
        frozen = [node for node in cluster.nodes if node is not leader]
        good(leader, "add-shard", "--shard", "a", "--address", "h:1")
        for node in frozen:
            node.signal(signal.SIGSTOP)
        try:
            done = in_time(lambda t: run(*ASSIGN, "a", "--coordinator", leader.grpc, "--timeout", t),
                           lambda done: "not known" in done.stderr)
        finally:
            for node in frozen:
                node.signal(signal.SIGCONT)
        same(f"not known ({done.stderr})", (done.returncode, done.stdout), (6, ""))
        has("says so", done.stderr, "it is not known whether this was done")
        request_id = done.stderr.split("--request-id ")[1].split(",")[0]
        everybody = [node.grpc for node in cluster.nodes]
        same("repeated", good(everybody, *ASSIGN, "a", "--request-id", request_id, "--timeout", "60s"),
             "assigned zone=eu-1a \u2192 a\n")
        same("and there once", good(everybody, "list-domain-assignments").count("eu-1a"), 1)


def replicas():
    """Replicas are listed, compared, handed leadership and removed."""
    with Cluster(3, PATIENT).start() as cluster:
        cluster.formed()
        leader = cluster.leader()
        everybody = [node.grpc for node in cluster.nodes]
        rows = good(everybody, "replica", "list").splitlines()
        same("heading", rows[0].split(), ["NAME", "ID", "ROLE", "RAFT_ADDRESS", "GRPC_ADDRESS", "HTTP_ADDRESS", "MATCH",
                                          "SILENT", "LEVEL"])
        same("rows", [(r[0], r[2], r[3], r[4], r[5]) for r in (row.split() for row in rows[1:])],
             [(n.name, "leader" if n is leader else "voter", n.raft, n.grpc, n.http) for n in cluster.nodes])
        good(everybody, "add-shard", "--shard", "a", "--address", "h:1")
        for where in ([leader.grpc], everybody):
            text = good(where, "state-hash")
            has("equal", text, "3 replicas are equal at index ")
            same("all of them", sorted({row.split()[0] for row in text.splitlines()[1:-1]}),
                 ["node-0", "node-1", "node-2"])
        hashes = {json.dumps(r["state"]["machines"]) for r in good_json(everybody, "state-hash")["replicas"]}
        same("one hash", len(hashes), 1)
        target = next(node for node in cluster.nodes if node is not leader)
        same("transfer", good(everybody, "replica", "transfer", target.name), f"leadership handed to {target.name}\n")
        wait_for("it leads", lambda: cluster.leader() is target)
        leader.kill()
        done = ctl(everybody, "state-hash")
        same("one does not answer", done.returncode, 6)
        has("says", done.stderr, "2 of 3 answered; no coordinator answers at " + leader.grpc)
        has("it is in the table", done.stdout, leader.grpc)
        same("remove", good(everybody, "replica", "remove", leader.name), f"removed replica {leader.name}\n")
        bad(everybody, 5, "NOT_FOUND", "replica", "remove", leader.name)
        has("two are left", good([target.grpc], "state-hash"), "2 replicas are equal at index ")


def instructions():
    """Instructions wait until their shard has confirmed them."""
    with alone() as cluster:
        node = cluster.leader()
        report(node, "s", shard_address="h:1")
        good(node, "assign-domain", "--key", "k", "--value", "v", "--shard", "s")
        queued = good_json(node, "instruction", "queue", "--shards", "s", "--kind", "cross-shard-drain", "--machines",
                           "m1,m2", "--priority", "-3")
        waiting = good_json(node, "instruction", "list", "--shard", "s")["instructions"]
        same("both wait", [sorted(w["instruction"])[1:] for w in waiting],
             [["coordinator_term", "instruction_id", "sequence_number"],
              ["cross_shard_drain", "instruction_id", "sequence_number"]])
        same("as it was asked for", (waiting[1]["instruction"]["cross_shard_drain"],
                                     waiting[1]["instruction"]["instruction_id"]),
             ({"machine_ids": ["m1", "m2"], "preemptor_priority": -3}, queued["response"]["instruction_id"]))
        sent = report(node, "s", cycle=2).instructions
        same("they are sent", len(sent), 2)
        rows = [row.split() for row in good(node, "instruction", "list").splitlines()]
        same("the table", [(row[0], row[4], row[5]) for row in rows],
             [("SHARD", "KIND", "DELIVERIES"), ("s", "assign-domain", "1"), ("s", "cross-shard-drain", "1")])
        report(node, "s", cycle=3, instruction_acks=[{"instruction_id": i.instruction_id, "outcome": 1} for i in sent])
        same("confirmed", good_json(node, "instruction", "list")["instructions"], [])


def tls():
    """Under TLS certificates decide: admin may write, readonly may read, others are refused."""
    with tempfile.TemporaryDirectory() as certificates, Cluster(1, join=False) as cluster:
        node = cluster.nodes[0]
        host = node.grpc.rsplit(":", 1)[0]
        other = os.path.join(certificates, "other")

        def issue(directory, *words):
            same(f"cert {words}", run("cert", *words, "--dir", directory).returncode, 0)
        for directory in (certificates, other):
            issue(directory, "ca")
            issue(directory, "issue", "admin")
        issue(certificates, "issue", "replica", "--id", "node-0", "--names", host)
        issue(certificates, "issue", "readonly")

        def files(name, directory=certificates):
            return ("--tls-cert", f"{directory}/{name}.pem", "--tls-key", f"{directory}/{name}.key.pem",
                    "--tls-ca", f"{directory}/ca.pem")
        cluster.options += files("replica-node-0")
        node.start()
        wait_for("a leader", lambda: ctl(node, "replica", "list", *files("admin")).returncode == 0)
        good(node, "add-shard", "--shard", "a", "--address", "h:1", *files("admin"))
        has("readonly may look", good(node, "list-shards", *files("readonly")), "\na ")
        text = bad(node, 1, f"(PERMISSION_DENIED from {node.grpc})", "remove-shard", "--shard", "a", *files("readonly"))
        has("what is needed", text, "bigfleet://admin")
        has("what was shown", text, "bigfleet://readonly")
        text = bad(node, 6, f"no coordinator answers at {node.grpc}", "list-shards", "--timeout", "4s")
        has("a guess", text, "if it speaks TLS give --tls-cert")
        text = bad(node, 6, f"no coordinator answers at {node.grpc}", "list-shards", *files("admin", other))
        has("a guess", text, "must be of its authority")
        bad(node, 5, "/nowhere.pem", "list-shards", "--tls-cert", "/nowhere.pem", "--tls-key", "/nowhere.pem", "--tls-ca",
            f"{certificates}/ca.pem")
        has("still there", good(node, "list-shards", *files("admin")), "\na ")


def original_name():
    """Under the name bigfleetctl a real coordinator is driven as the original is."""
    with tempfile.TemporaryDirectory() as scratch, alone() as cluster:
        node = cluster.leader()
        program = os.path.join(scratch, "bigfleetctl")
        os.symlink(CTL, program)
        good(node, "add-shard", "--shard", "a", "--address", "h:1")
        for words, said in ((("assign-domain", "--key", "k", "--value", "v", "--shard", "a"), "assigned k=v \u2192 a\n"),
                            (("list-domain-assignments",), "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD\n"
                                                           "k             v               a\n"),
                            (("unassign-domain", "-key", "k", "-value", "v"), "unassigned k=v\n"),
                            (("list-shards",), good(node, "list-shards")),
                            (("list-quotas",), "PROVIDER  REGION  SHARD  SLICE\n"),
                            (("remove-shard", "--shard", "a"), "removed shard a\n")):
            done = run("--coordinator", node.grpc, *words, program=program)
            same(words, (done.returncode, done.stdout, done.stderr), (0, said, ""))
        done = run("--coordinator", node.grpc, "remove-shard", "--shard", "a", program=program)
        same("a mistake is 1", (done.returncode, done.stdout), (1, ""))
        same("and begins with the name", done.stderr[:13], "bigfleetctl: ")


run_cases([tables, formats, asks, exit_codes, leaders, unknown, replicas, instructions, tls, original_name])
