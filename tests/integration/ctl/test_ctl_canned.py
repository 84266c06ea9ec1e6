#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl against a coordinator whose every answer is known: Python's grpcio with canned answers.

usage: test_ctl_canned.py MUSTERCTL STREAM_READER PROTOC PROTO_ROOT [NAME]    (prints TAP)

What is shown, byte for byte; who is asked, how often and under which request id; what each ending of a call
becomes. What a real coordinator does with the requests is test_ctl.py's.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

from dead import dead_address
from in_time import in_time

try:
    import grpc
    from fleet_contracts import COORDINATOR, FLEET, Canned, load, says
    from cases import run_tests, same, test
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTERCTL, READER, PROTOC, PROTO_ROOT = os.path.abspath(sys.argv[1]), *sys.argv[2:5]
ONLY = sys.argv[5] if len(sys.argv) > 5 else ""
DEADLINE = 60
message, METHODS = load(PROTOC, PROTO_ROOT)
NOON = 1780315200 * 10**9  # 2026-06-01T12:00:00Z
ZERO_TIME = -6795364578871345152  # how the original writes "never"


def has(why, text, part):
    if part not in text:
        raise AssertionError(f"{why}: no {part!r} in {text!r}")


def lacks(why, text, part):
    if part in text:
        raise AssertionError(f"{why}: {part!r} in {text!r}")


def run(*words, program=MUSTERCTL, environment=None):
    return subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=DEADLINE, env={"PATH": "/usr/bin:/bin", **(environment or {})})


def ctl(server, *words, **more):
    """To a server, or to several addresses."""
    where = server if isinstance(server, str) else server.address
    return run(*words, "--coordinator", where, **more)


def good(server, *words, **more):
    done = ctl(server, *words, **more)
    same(f"{' '.join(words)} ends well ({done.stderr})", done.returncode, 0)
    same("and says nothing beside", done.stderr, "")
    return done.stdout


def coordinator(name):
    return f"/{COORDINATOR}/{name}"


def fleet(name):
    return f"/{FLEET}/{name}"


def reply(path, **fields):
    return METHODS[path][1](**fields)


def canned(**answers):
    """canned(ListShards=..., ...): whichever of the two services has the method."""
    paths = {}
    for name, answer in answers.items():
        path = coordinator(name) if coordinator(name) in METHODS else fleet(name)
        paths[path] = answer if callable(answer) else reply(path, **answer)
    return Canned(METHODS, paths)


# -- what is shown --

SHARDS = {"shards": [{"shard_id": "shard-a", "address": "h:1", "registered_at_unix_ns": NOON,
                      "last_heartbeat_unix_ns": 0},
                     {"shard_id": "shard-bb", "address": "host.example:7780", "registered_at_unix_ns": NOON,
                      "last_heartbeat_unix_ns": NOON + 1_500_000_001}]}
DOMAINS = {"assignments": [{"topology_key": "zone", "topology_value": "eu-1a", "shard_id": "shard-a"},
                           {"topology_key": "topology.example/rack", "topology_value": "r1", "shard_id": "s"}]}
QUOTAS = {"allocations": [{"provider": "aws", "region": "eu", "per_shard": {"shard-b": 7, "shard-a": 40}},
                          {"provider": "gcp", "region": "us", "per_shard": {}},
                          {"provider": "gcp-long", "region": "x", "per_shard": {"s": 1}}]}


def quotas_in_no_order(_request, _context):
    """A map has no order on the wire: here the first row's later shard comes first."""
    row = message("bigfleet.v1alpha1.QuotaAllocation")
    first = b"".join(row(**fields).SerializeToString() for fields in (
        {"provider": "aws", "region": "eu"}, {"per_shard": {"shard-b": 7}}, {"per_shard": {"shard-a": 40}}))
    rest = reply(coordinator("ListQuotas"), allocations=QUOTAS["allocations"][1:])
    return b"\x0a" + bytes([len(first)]) + first + rest.SerializeToString()


@test
def the_example_of_the_specification_is_printed_to_the_byte():
    with canned(ListShards={"shards": SHARDS["shards"][:1]}) as server:
        same("list-shards", good(server, "list-shards"),
             "SHARD    ADDRESS  REGISTERED            LAST_HEARTBEAT\n"
             "shard-a  h:1      2026-06-01T12:00:00Z  \u2014\n")


@test
def columns_are_as_wide_as_they_must_be_and_nothing_follows_the_last():
    with canned(ListShards=SHARDS, ListDomainAssignments=DOMAINS, ListQuotas=quotas_in_no_order) as server:
        same("shards", good(server, "list-shards"),
             "SHARD     ADDRESS            REGISTERED            LAST_HEARTBEAT\n"
             "shard-a   h:1                2026-06-01T12:00:00Z  \u2014\n"
             "shard-bb  host.example:7780  2026-06-01T12:00:00Z  2026-06-01T12:00:01Z\n")
        same("domains", good(server, "list-domain-assignments"),
             "TOPOLOGY_KEY           TOPOLOGY_VALUE  SHARD\n"
             "zone                   eu-1a           shard-a\n"
             "topology.example/rack  r1              s\n")
        same("quotas, shards ascending, no row for an empty one", good(server, "list-quotas"),
             "PROVIDER  REGION  SHARD    SLICE\n"
             "aws       eu      shard-a  40\n"
             "aws       eu      shard-b  7\n"
             "gcp-long  x       s        1\n")


@test
def an_empty_table_is_its_heading_and_says_so():
    with canned(ListShards={}, ListDomainAssignments={}, ListQuotas={}, ListProviders={}, ListClusters={},
                ListShardReports={}, ListInstructions={}, ListReplicas={}) as server:
        for words, heading in ((("list-shards",), "SHARD  ADDRESS  REGISTERED  LAST_HEARTBEAT\n"),
                               (("list-domain-assignments",), "TOPOLOGY_KEY  TOPOLOGY_VALUE  SHARD\n"),
                               (("list-quotas",), "PROVIDER  REGION  SHARD  SLICE\n"),
                               (("list-providers",), "PROVIDER  ADDRESS  REGION\n"),
                               (("list-clusters",), "CLUSTER  SHARD\n"),
                               (("list-shard-reports",),
                                "SHARD  CYCLE  RECEIVED  MACHINES  FREE  SHORTFALLS  PROVIDER\n"),
                               (("instruction", "list"), "SHARD  TERM  SEQUENCE  ID  KIND  DELIVERIES\n"),
                               (("replica", "list"), "NAME  ID  ROLE  RAFT_ADDRESS  GRPC_ADDRESS  HTTP_ADDRESS"
                                                     "  MATCH  SILENT  LEVEL\n")):
            done = ctl(server, *words)
            same(words, (done.returncode, done.stdout), (0, heading))
            has("it says so", done.stderr, ": the list is empty\n")


@test
def the_zero_time_of_the_original_is_a_dash_too():
    shard = dict(SHARDS["shards"][0], last_heartbeat_unix_ns=ZERO_TIME)
    with canned(ListShards={"shards": [shard]}) as server:
        has("dash", good(server, "list-shards"), "2026-06-01T12:00:00Z  \u2014\n")
        same("null", json.loads(good(server, "list-shards", "-o", "json"))["shards"][0]["last_heartbeat"], None)


@test
def a_cell_cannot_steer_the_terminal_and_wide_letters_keep_the_columns():
    shards = [{"shard_id": "a\x1b[2Jb", "address": "x", "registered_at_unix_ns": NOON},
              {"shard_id": "K\u00f6ln\u2014", "address": "yy", "registered_at_unix_ns": NOON}]
    with canned(ListShards={"shards": shards}) as server:
        same("shown", good(server, "list-shards"),
             "SHARD      ADDRESS  REGISTERED            LAST_HEARTBEAT\n"
             "a\\x1B[2Jb  x        2026-06-01T12:00:00Z  \u2014\n"
             "K\u00f6ln\u2014      yy       2026-06-01T12:00:00Z  \u2014\n")


@test
def json_cannot_steer_the_terminal_either_and_reads_back_as_it_was():
    shard = {"shard_id": "a\x1b\x9b\x80b", "address": "\u202ex\u2066y\u2069\u200e\u200f\u2028", "registered_at_unix_ns": NOON}
    with canned(ListShards={"shards": [shard]}) as server:
        text = good(server, "list-shards", "-o", "json")
        same("no such character", [letter for letter in text if not letter.isascii()], [])
        has("C1", text, "a\\u001b\\u009b\\u0080b")
        has("bidi", text, "\\u202ex\\u2066y\\u2069\\u200e\\u200f\\u2028")
        back = json.loads(text)["shards"][0]
        same("back", (back["shard_id"], back["address"]), (shard["shard_id"], shard["address"]))


@test
def json_has_the_names_of_the_contract_times_as_text_and_maps_in_order():
    report = {"shard_id": "s", "cycle": 9, "received_at_unix_ns": NOON + 5,
              "summary": {"total_machines": 12, "free_machines": 3, "per_zone_counts": {"z2": 1, "z1": 2},
                          "per_instance_type_counts": {"m6i": 12}, "provider_address": "p:1"},
              "shortfalls": [{"priority": -4, "age_cycles": 2, "interruption_penalty_bucket": 3,
                              "deficit": {"resources": {"cpu": "2"}}}]}
    with canned(ListShards=SHARDS, ListQuotas=quotas_in_no_order, ListShardReports={"reports": [report, {"shard_id": "t"}]}) \
            as server:
        same("shards", json.loads(good(server, "list-shards", "-o", "json")), {"shards": [
            {"shard_id": "shard-a", "address": "h:1", "registered_at": "2026-06-01T12:00:00.000000000Z",
             "last_heartbeat": None},
            {"shard_id": "shard-bb", "address": "host.example:7780",
             "registered_at": "2026-06-01T12:00:00.000000000Z",
             "last_heartbeat": "2026-06-01T12:00:01.500000001Z"}]})
        text = good(server, "list-quotas", "--output=json")
        same("one line", text.count("\n"), 1)
        has("keys in order", text, '"per_shard":{"shard-a":40,"shard-b":7}')
        has("an empty map", text, '"per_shard":{}')
        reports = json.loads(good(server, "list-shard-reports", "-o", "json"))["reports"]
        same("all of a report", reports[0], {
            "shard_id": "s", "cycle": 9, "received_at": "2026-06-01T12:00:00.000000005Z",
            "summary": {"total_machines": 12, "free_machines": 3, "per_instance_type_counts": {"m6i": 12},
                        "per_zone_counts": {"z1": 2, "z2": 1}, "provider_address": "p:1"},
            "shortfalls": [{"requirements": [], "deficit": {"resources": {"cpu": "2"}}, "priority": -4,
                            "age_cycles": 2, "interruption_penalty_bucket": "PENALTY_BUCKET_1"}]})
        same("what is not set is null", reports[1]["summary"], None)
        same("a table of them", good(server, "list-shard-reports"),
             "SHARD  CYCLE  RECEIVED              MACHINES  FREE  SHORTFALLS  PROVIDER\n"
             "s      9      2026-06-01T12:00:00Z  12        3     1           p:1\n"
             "t      0      \u2014                     0         0     0           \u2014\n")


@test
def replicas_instructions_and_hashes_are_shown():
    replicas = [{"replica_id": 0xabc, "name": "node-0", "raft_address": "h:7791", "grpc_address": "h:7790",
                 "http_address": "h:8790", "voter": True, "leader": True, "match": 57, "level": 1},
                {"replica_id": 2**64 - 1, "name": "node-1", "raft_address": "i:7791", "match": 50,
                 "voter": True, "silent_ms": 17, "level": 1},
                {"replica_id": 3, "name": "node-2", "raft_address": "j:7791", "silent_ms": -1}]
    waiting = [{"shard_id": "s", "deliveries": 2, "instruction": {
        "coordinator_term": 4, "sequence_number": 8, "instruction_id": "i-1",
        "cross_shard_drain": {"machine_ids": ["m1", "m2"], "preemptor_priority": 5}}}]
    with canned(ListReplicas={"replicas": replicas}, ListInstructions={"instructions": waiting}) as server:
        same("replicas", good(server, "replica", "list"),
             "NAME    ID                ROLE     RAFT_ADDRESS  GRPC_ADDRESS  HTTP_ADDRESS  MATCH  SILENT       LEVEL\n"
             "node-0  0000000000000abc  leader   h:7791        h:7790        h:8790        57     \u2014            1\n"
             "node-1  ffffffffffffffff  voter    i:7791        \u2014             \u2014             50     17ms         1\n"
             "node-2  0000000000000003  learner  j:7791        \u2014             \u2014             0      never heard  0\n")
        got = json.loads(good(server, "replica", "list", "-o", "json"))["replicas"]
        same("an identity is 16 digits of text", got[1]["replica_id"], "ffffffffffffffff")
        same("instructions", good(server, "instruction", "list", "--shard", "s"),
             "SHARD  TERM  SEQUENCE  ID   KIND               DELIVERIES\n"
             "s      4     8         i-1  cross-shard-drain  2\n")
        same("the shard is asked for", server.asked[-1][1].shard_id, "s")
        got = json.loads(good(server, "instruction", "list", "-o", "json"))["instructions"][0]["instruction"]
        same("only the chosen payload", sorted(got), ["coordinator_term", "cross_shard_drain", "instruction_id",
                                                      "sequence_number"])


# -- writes --

WRITES = (
    (("assign-domain", "--key", "zone", "--value", "eu-1a", "--shard", "s1"), "AssignDomain",
     {"topology_key": "zone", "topology_value": "eu-1a", "shard_id": "s1"}, "assigned zone=eu-1a \u2192 s1\n"),
    (("unassign-domain", "--key", "zone", "--value", "eu-1a"), "UnassignDomain",
     {"topology_key": "zone", "topology_value": "eu-1a"}, "unassigned zone=eu-1a\n"),
    (("assign-domain", "--key", "zone", "--value", "eu-1a", "--shard", "s1", "--force-two-owners"), "AssignDomain",
     {"topology_key": "zone", "topology_value": "eu-1a", "shard_id": "s1", "force_two_owners": True},
     "assigned zone=eu-1a \u2192 s1\n"),
    (("remove-shard", "--shard", "s1"), "RemoveShard", {"shard_id": "s1"}, "removed shard s1\n"),
    (("remove-shard", "--shard", "s1", "--force-two-owners"), "RemoveShard", {"shard_id": "s1", "force_two_owners": True},
     "removed shard s1\n"),
    (("add-shard", "--shard", "s1", "--address", "h:1"), "AddShard", {"shard_id": "s1", "address": "h:1"},
     "added shard s1 at h:1\n"),
    (("bind-cluster", "--cluster", "c", "--shard", "s1"), "BindCluster", {"cluster_id": "c", "shard_id": "s1"},
     "bound cluster c \u2192 s1\n"),
    (("set-quota", "--provider", "aws", "--region", "eu", "--slices", "a=1,b=x=2"), "SetQuota",
     {"provider": "aws", "region": "eu", "per_shard": {"a": 1, "b=x": 2}}, "set quota aws/eu: 2 slices\n"),
    (("set-quota", "--provider", "aws", "--region", "eu", "--none"), "SetQuota",
     {"provider": "aws", "region": "eu"}, "set quota aws/eu: 0 slices\n"),
    (("upsert-provider", "--name", "aws", "--address", "h:1", "--region", "eu"), "UpsertProvider",
     {"provider": {"name": "aws", "address": "h:1", "region": "eu"}}, "set provider aws at h:1\n"),
    (("instruction", "queue", "--shards", "a,b", "--kind", "transfer-ownership", "--machines", "m1,m2",
      "--from", "a", "--to", "b"), "QueueInstruction",
     {"shard_ids": ["a", "b"], "instruction": {"transfer_ownership": {
         "machine_ids": ["m1", "m2"], "from_shard_id": "a", "to_shard_id": "b"}}}, "queued i-9 for 2 shards\n"),
    (("instruction", "queue", "--shards", "a", "--kind", "assign-domain", "--key", "k", "--value", "v",
      "--id", "mine"), "QueueInstruction",
     {"shard_ids": ["a"], "instruction": {"instruction_id": "mine", "assign_domain": {
         "topology_key": "k", "topology_value": "v"}}}, "queued i-9 for 1 shards\n"),
    (("instruction", "queue", "--shards", "a", "--kind", "unassign-domain", "--key", "k", "--value", "v"),
     "QueueInstruction",
     {"shard_ids": ["a"], "instruction": {"unassign_domain": {"topology_key": "k", "topology_value": "v"}}},
     "queued i-9 for 1 shards\n"),
    (("instruction", "queue", "--shards", "a", "--kind", "cross-shard-drain", "--machines", "m1",
      "--priority", "-7"), "QueueInstruction",
     {"shard_ids": ["a"], "instruction": {"cross_shard_drain": {
         "machine_ids": ["m1"], "preemptor_priority": -7}}}, "queued i-9 for 1 shards\n"),
    (("instruction", "queue", "--shards", "a", "--kind", "reassign-speculative", "--machines", "m1"),
     "QueueInstruction",
     {"shard_ids": ["a"], "instruction": {"reassign_speculative": {"machine_ids": ["m1"]}}},
     "queued i-9 for 1 shards\n"),
    (("replica", "add", "--id", "00000000000000ff", "--name", "n4", "--raft-address", "h:1", "--grpc-address",
      "h:2"), "JoinReplica",
     {"replica_id": 255, "name": "n4", "raft_address": "h:1", "grpc_address": "h:2"}, "n4 waits: to catch up\n"),
    (("replica", "remove", "n4"), "RemoveReplica", {"replica": "n4"}, "removed replica n4\n"),
    (("replica", "transfer", "n2"), "TransferLeadership", {"replica": "n2"}, "leadership handed to n2\n"),
    (("replica", "transfer"), "TransferLeadership", {}, "leadership handed to another replica\n"),
    (("replica", "bootstrap"), "BootstrapReplica", {},
     "replica 0000000000000000 bootstraps cluster 0000000000000000\n"),
)
ONCE = ("RemoveReplica", "TransferLeadership", "BootstrapReplica")  # carry no request id
ANSWERS = {"AssignDomain": {}, "UnassignDomain": {}, "RemoveShard": {}, "AddShard": {}, "BindCluster": {},
           "SetQuota": {}, "UpsertProvider": {}, "QueueInstruction": {"instruction_id": "i-9"},
           "JoinReplica": {"waiting": "to catch up"}, "RemoveReplica": {}, "TransferLeadership": {}, "BootstrapReplica": {}}


@test
def every_write_sends_what_was_asked_for_under_an_id_and_says_that_it_was_done():
    with canned(**ANSWERS) as server:
        ids = set()
        for words, name, fields, said in WRITES:
            same(words, good(server, *words), said)
            path, request, metadata = server.asked[-1]
            same("method", path.rsplit("/", 1)[1], name)
            if name == "QueueInstruction" and request.instruction.instruction_id != "mine":
                same("a repeat is known by its own id", request.instruction.instruction_id, metadata["x-request-id"])
                request.instruction.instruction_id = ""
            same(f"request of {words}", request, METHODS[path][0](**fields))
            if name in ONCE:
                same("no id", metadata.get("x-request-id"), None)
            else:
                ids.add(metadata["x-request-id"])
            got = json.loads(good(server, *words, "-o", "json"))
            same("result", got["result"], "done")
            if name not in ONCE:
                same("its id", got["request_id"], server.asked[-1][2]["x-request-id"])
            if name == "AssignDomain":
                same("the request", got["request"], {"force_two_owners": False, **fields})
            if name == "QueueInstruction":
                same("the answer", got["response"], {"instruction_id": "i-9"})
        same("a new id each time", len(ids), sum(1 for write in WRITES if write[1] not in ONCE))


@test
def a_given_request_id_is_the_one_that_is_sent():
    with canned(**ANSWERS) as server:
        good(server, "remove-shard", "--shard", "s", "--request-id", "my-id")
        same("sent", server.asked[-1][2]["x-request-id"], "my-id")
        done = ctl(server, "remove-shard", "--shard", "s", "--request-id", "x" * 65)
        same("too long", (done.returncode, done.stdout), (2, ""))
        has("and says so", done.stderr, "musterctl shard remove: --request-id: up to 64 visible ASCII")


@test
def an_answer_that_is_lost_is_asked_for_again_under_the_same_id():
    seen = []

    def first_lost(request, context):
        seen.append(dict(context.invocation_metadata())["x-request-id"])
        if len(seen) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the leader changed meanwhile")
        return reply(coordinator("RemoveShard"))
    with canned(RemoveShard=first_lost) as server:
        same("done", good(server, "remove-shard", "--shard", "s"), "removed shard s\n")
    same("twice, under one id", (len(seen), len(set(seen))), (2, 1))


@test
def what_has_no_id_is_never_sent_twice():
    with canned(RemoveReplica=says(grpc.StatusCode.UNAVAILABLE, "gone")) as server:
        done = ctl(server, "replica", "remove", "n3")
        same("not known", done.returncode, 6)
        same("once", server.times(fleet("RemoveReplica")), 1)
        has("says so", done.stderr, "it is not known whether this was done (gone); look with: "
                                    "musterctl replica list")
        lacks("no id to repeat it with", done.stderr, "--request-id")


@test
def an_outcome_that_stays_unknown_names_the_id_to_repeat_it_with():
    release = threading.Event()

    def silent(_request, context):
        release.wait(DEADLINE)
        context.abort(grpc.StatusCode.CANCELLED, "nobody waits")
    with canned(AddShard=silent) as server:
        done = in_time(lambda t: ctl(server, "add-shard", "--shard", "s", "--address", "h:1", "--timeout", t),
                       lambda done: server.asked)
        release.set()
        same("exit", (done.returncode, done.stdout), (6, ""))
        has("says so", done.stderr, "it is not known whether this was done")
        has("where to look", done.stderr, "musterctl shard list")
        has("how to repeat it", done.stderr, f"--request-id {server.asked[0][2]['x-request-id']}")


# -- endings --

@test
def every_status_has_its_exit_code_and_keeps_its_words():
    code = grpc.StatusCode
    for status, exit_code in ((code.INVALID_ARGUMENT, 2), (code.NOT_FOUND, 5), (code.ALREADY_EXISTS, 4),
                              (code.ABORTED, 4), (code.FAILED_PRECONDITION, 4), (code.PERMISSION_DENIED, 1),
                              (code.UNAUTHENTICATED, 1), (code.RESOURCE_EXHAUSTED, 6), (code.OUT_OF_RANGE, 2)):
        with canned(AssignDomain=says(status, "because I say so")) as server:
            done = ctl(server, "assign-domain", "--key", "k", "--value", "v", "--shard", "s")
            same(status, (done.returncode, done.stdout), (exit_code, ""))
            same(status, done.stderr, "musterctl domain assign: because I say so "
                                      f"({status.name} from {server.address})\n")
            same("asked once", server.times(coordinator("AssignDomain")), 1)


@test
def a_read_is_never_in_doubt():
    for status, exit_code in ((grpc.StatusCode.INTERNAL, 1), (grpc.StatusCode.DATA_LOSS, 1),
                              (grpc.StatusCode.UNAVAILABLE, 6)):
        with canned(ListShards=says(status, "broken")) as server:
            done = in_time(lambda t: ctl(server, "list-shards", "--timeout", t), lambda done: "broken" in done.stderr)
            same(status, done.returncode, exit_code)
            lacks("no doubt", done.stderr, "not known whether")
            has("its words", done.stderr, "broken")


@test
def a_method_that_is_not_there_is_told_with_its_name():
    with canned(ListShards={}) as server:
        done = ctl(server, "list-clusters")
        same("exit", done.returncode, 1)
        has("which", done.stderr, f"{server.address} does not implement ListClusters")
        has("what would be right", done.stderr, "is it the gRPC port of a coordinator of this release?")


@test
def a_coordinator_that_does_not_serve_workers_is_not_called_another_program():
    with canned(ListShards={}) as server:
        for command in (["workers"], ["status"], ["partitions"], ["drain", "w"], ["checkpoint", "now"]):
            done = ctl(server, *command)
            same(command, done.returncode, 1)
            has("the cause", done.stderr, f"{server.address} does not serve workers")
            has("what would be right", done.stderr, "no [transport] section")
            has("an older coordinator serves workers without this method", done.stderr, "or it is of an older release, without ")


@test
def nobody_there_is_6_and_says_where_it_looked():
    one, two = dead_address(), dead_address()
    done = run("list-shards", "--coordinator", f"{one},{two}")
    same("exit", (done.returncode, done.stdout), (6, ""))
    same("says", done.stderr,
         f"musterctl shard list: no coordinator answers at {one} (connection refused), {two} (connection refused); "
         "is one running there? --coordinator says where to look\n")


@test
def a_peer_that_never_speaks_does_not_keep_us():
    with socket.socket() as deaf, canned(ListShards=SHARDS) as server:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(8)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        done = run("list-shards", "--coordinator", address, "--timeout", "4s")
        same("exit", done.returncode, 6)
        has("which one", done.stderr, address)
        has("a guess", done.stderr, "if it speaks TLS give --tls-cert")
        has("the next one is asked in time", good(f"{address},{server.address}", "list-shards"), "shard-bb")


# -- the leader --

def not_leader(leader):
    return says(grpc.StatusCode.FAILED_PRECONDITION, "coordinator: not leader", x_muster_leader=leader)


@test
def the_leader_is_found_behind_followers_and_the_dead():
    with canned(AssignDomain={}) as leader, canned(AssignDomain=not_leader(leader.address)) as follower:
        words = ("assign-domain", "--key", "k", "--value", "v", "--shard", "s")
        for addresses in ((dead_address(), dead_address(), leader.address),
                          (dead_address(), follower.address, dead_address()),  # the leader is not even listed
                          (follower.address, dead_address(), leader.address),
                          (leader.address, follower.address)):
            same(addresses, good(",".join(addresses), *words), "assigned k=v \u2192 s\n")
        same("the leader alone did it", leader.times(coordinator("AssignDomain")), 4)


@test
def a_leader_that_is_still_being_elected_is_waited_for():
    asked = []

    def elected_late(request, context):
        asked.append(time.monotonic())
        if len(asked) <= 10:  # more often than one call asks by itself
            not_leader("")(request, context)
        return reply(coordinator("ListShards"), **SHARDS)
    with canned(ListShards=elected_late) as server:
        has("found", good(server, "list-shards", "--timeout", "30s"), "shard-a")


@test
def the_leader_of_the_original_is_found_among_those_that_are_listed():
    follower = says(grpc.StatusCode.FAILED_PRECONDITION, "coordinator: not leader")  # and names nobody
    with canned(RemoveShard=follower) as one, canned(RemoveShard=follower) as two, canned(RemoveShard={}) as leader:
        where = f"{one.address},{two.address},{leader.address}"
        same("found", good(where, "remove-shard", "--shard", "s"), "removed shard s\n")
        done = in_time(lambda t: ctl(f"{one.address},{two.address}", "remove-shard", "--shard", "s", "--timeout", t),
                       lambda done: done.returncode != 6)
        same("not listed", done.returncode, 3)


@test
def no_leader_at_all_is_3():
    with canned(ListShards=not_leader(""), AssignDomain=not_leader("")) as one, \
            canned(ListShards=not_leader(""), AssignDomain=not_leader("")) as two:
        where = f"{one.address},{two.address}"
        for words in (("shard", "list"), ("domain", "assign", "--key", "k", "--value", "v", "--shard", "s")):
            done = in_time(lambda t, words=words: run(*words, "--coordinator", where, "--timeout", t),
                           lambda done: done.returncode != 6)
            same("exit", (done.returncode, done.stdout), (3, ""))
            same("says", done.stderr,
                 f"musterctl {words[0]} {words[1]}: no leader (coordinator: not leader): an election may be under way; try "
                 f"again, or give every replica to --coordinator. Asked {where.replace(',', ', ')}\n")
        if not (one.asked and two.asked):
            raise AssertionError("both were asked")


# -- streams --

def chunks(*sizes, then=None):
    def answer(request, context):
        for size in sizes:
            yield reply(coordinator("SnapshotSave"), data=b"x" * size)
        if then:
            then(request, context)
    return answer


def follower_of(leader):
    def answer(request, context):
        not_leader(leader)(request, context)
        yield  # makes it a stream
    return answer


def read(where, *words):
    done = run("read", "--coordinator", where, *words, program=READER)
    same("ends", (done.returncode, done.stderr), (0, ""))
    return done.stdout.splitlines()


@test
def a_stream_is_read_to_its_end_from_whoever_leads():
    with canned(SnapshotSave=chunks(3, 1 << 20, 0)) as leader:
        same("whole", read(leader.address), ["3", "1048576", "0", "OK "])
        with canned(SnapshotSave=follower_of(leader.address)) as follower:
            same("by a follower", read(f"{dead_address()},{follower.address}"), ["3", "1048576", "0", "OK "])


@test
def a_stream_that_breaks_is_an_error_and_not_begun_again():
    with canned(SnapshotSave=chunks(3, then=says(grpc.StatusCode.UNAVAILABLE, "the disk broke"))) as server:
        got = read(server.address)
        same("what came", got[:-1], ["3"])
        same("why", got[-1], f"UNAVAILABLE the disk broke (UNAVAILABLE from {server.address})")
        same("asked once", server.times(coordinator("SnapshotSave")), 1)
    with canned(SnapshotSave=chunks(3, then=not_leader(""))) as server:
        got = read(server.address, "--timeout", "30s")
        same("not even by another leader", (got[:-1], got[-1].split()[0]), (["3"], "NOT_LEADER"))
        same("asked once", server.times(coordinator("SnapshotSave")), 1)


@test
def who_has_enough_of_a_stream_says_why():
    with canned(SnapshotSave=chunks(*range(100))) as server:
        same("two of them", read(server.address, "3"), ["0", "1", "NO_SPACE enough after 3"])


@test
def a_stream_waits_for_a_leader_but_not_for_ever():
    asked = []

    def elected_late(request, context):
        asked.append(request)
        if len(asked) <= 10:  # more often than one call asks by itself
            not_leader("")(request, context)
        yield reply(coordinator("SnapshotSave"), data=b"xx")
    with canned(SnapshotSave=elected_late) as server:
        same("waited for", read(server.address, "--timeout", "30s"), ["2", "OK "])
    with canned(SnapshotSave=follower_of("")) as server:
        got = in_time(lambda t: read(server.address, "--timeout", t), lambda got: got[0].startswith("NOT_LEADER"))
        has("no leader", got[0], "NOT_LEADER no leader (coordinator: not leader)")


# -- state-hash --

def state(name, applied, *hashes, replica_id=1):
    machines = [{"id": i + 2, "name": ("fleet", "roster")[i], "hash": h, "bytes": 10 + i} for i, h in enumerate(hashes)]
    return {"replica_id": replica_id, "name": name, "applied": applied, "term": 3, "machines": machines}


@test
def equal_states_are_0_different_ones_4_and_silence_6():
    with canned(StateHash=state("n0", 57, 0xabc, 1)) as a, canned(StateHash=state("n1", 57, 0xabc, 1)) as b, \
            canned(StateHash=state("n2", 57, 0xdef, 1)) as c:
        same("equal", good(f"{a.address},{b.address}", "state-hash"),
             f"REPLICA  ADDRESS{' ' * (len(a.address) - 7)}  APPLIED  TERM  MACHINE  HASH              BYTES\n"
             f"n0       {a.address}  57       3     fleet    0000000000000abc  10\n"
             f"n0       {a.address}  57       3     roster   0000000000000001  11\n"
             f"n1       {b.address}  57       3     fleet    0000000000000abc  10\n"
             f"n1       {b.address}  57       3     roster   0000000000000001  11\n"
             "2 replicas are equal at index 57\n")
        done = ctl(f"{a.address},{b.address},{c.address}", "state-hash")
        same("different", done.returncode, 4)
        has("the table is there", done.stdout, "0000000000000def")
        lacks("no word of equal", done.stdout, "equal")
        same("says", done.stderr, "musterctl replica hash: the replicas DIFFER at index 57 in fleet\n")
        dead = dead_address()
        done = ctl(f"{a.address},{dead},{b.address}", "state-hash", "-o", "json")
        same("one is silent", done.returncode, 6)
        got = json.loads(done.stdout)
        same("open", got["equal"], None)
        same("who", [(r["address"], r["error"] is None) for r in got["replicas"]],
             [(a.address, True), (dead, False), (b.address, True)])
        same("the others' words", got["replicas"][2]["state"]["machines"][0]["hash"], "0000000000000abc")
        has("says", done.stderr, "2 of 3 answered; no coordinator answers at " + dead)
        got = json.loads(good(f"{a.address},{b.address}", "state-hash", "-o", "json"))
        same("equal", got["equal"], True)


@test
def hashes_are_compared_at_one_index_only():
    asked = []

    def behind(request, _context):  # catches up when it is asked to
        asked.append(request.at_least)
        applied = max(50, request.at_least)
        return reply(fleet("StateHash"), **state("n1", applied, applied))

    def ahead(_request, _context):
        return reply(fleet("StateHash"), **state("n0", 57, 57))

    def running(request, _context):  # always further than anybody
        return reply(fleet("StateHash"), **state("n2", request.at_least + 100, request.at_least + 100))
    with canned(StateHash=behind) as a, canned(StateHash=ahead) as b, canned(StateHash=running) as c:
        has("caught up", good(f"{a.address},{b.address}", "state-hash"), "2 replicas are equal at index 57\n")
        same("was asked to", asked, [0, 57])
        done = ctl(f"{c.address},{b.address}", "state-hash")
        same("never together", done.returncode, 6)
        has("says so", done.stderr, "nothing was compared: writes went on")


@test
def one_address_is_enough_for_its_cluster():
    with canned(StateHash=state("n1", 9, 5)) as other:
        replicas = {}
        with canned(StateHash=state("n0", 9, 5), ListReplicas=lambda _r, _c: replicas["list"]) as server:
            replicas["list"] = reply(fleet("ListReplicas"), replicas=[
                {"replica_id": 1, "name": "n0", "grpc_address": server.address},
                {"replica_id": 2, "name": "n1", "grpc_address": other.address}])
            has("both", good(server, "state-hash"), "2 replicas are equal at index 9\n")
            replicas["list"] = reply(fleet("ListReplicas"), replicas=[
                {"replica_id": 1, "name": "n0", "grpc_address": server.address}])
            has("alone", good(server, "state-hash"), "1 replica at index 9\n")


# -- the command line --

@test
def what_is_wrong_with_the_command_line_is_2_and_nothing_is_dialled():
    files = ("cert", "key", "ca")
    parts = [{name for n, name in enumerate(files) if bits >> n & 1} for bits in range(1, 7)]  # T2: all six
    for why, words, says_what in (
            *((f"{part} of the TLS files", ("list-shards", *(word for name in part for word in (f"--tls-{name}", "x"))),
               "--tls-cert, --tls-key and --tls-ca belong together; "
               f"tls.{[name for name in files if name not in part][-1]}-file is missing") for part in parts),
            ("no address", ("list-shards", "--coordinator", "nowhere"), "--coordinator"),
            ("no shard", ("assign-domain", "--key", "k", "--value", "v"), "--shard ID is required"),
            ("a slice that is none", ("set-quota", "--provider", "p", "--region", "r", "--slices", "a"),
             "--slices: needs SHARD=N, as in shard-0=40, got 'a'"),
            ("a negative slice", ("set-quota", "--provider", "p", "--region", "r", "--slices", "a=-1"), "SHARD=N"),
            ("a shard twice", ("set-quota", "--provider", "p", "--region", "r", "--slices", "a=1,a=2"),
             "--slices: a is there twice"),
            ("neither slices nor none", ("set-quota", "--provider", "p", "--region", "r"), "or --none"),
            ("slices and none", ("set-quota", "--provider", "p", "--region", "r", "--none", "--slices", "a=1"),
             "or --none"),
            ("a part that is missing", ("instruction", "queue", "--shards", "a", "--kind", "cross-shard-drain",
                                        "--machines", "m"), "--kind cross-shard-drain needs --priority"),
            ("a part too many", ("instruction", "queue", "--shards", "a", "--kind", "reassign-speculative",
                                 "--machines", "m", "--from", "x"), "takes no --from"),
            ("a priority that is none", ("instruction", "queue", "--shards", "a", "--kind", "cross-shard-drain",
                                         "--machines", "m", "--priority", "9999999999"), "--priority: needs"),
            ("an identity that is none", ("replica", "add", "--id", "1", "--name", "n", "--raft-address", "h:1"),
             "--id: needs the identity as 16 hexadecimal digits"),
            ("an output nobody knows", ("list-shards", "-o", "xml"), "must be one of table, json")):
        done = run(*words)
        same(why, (done.returncode, done.stdout), (2, ""))
        has(why, done.stderr, says_what)


@test
def the_environment_says_where_the_coordinator_is():
    with canned(ListShards=SHARDS) as server:
        done = run("list-shards", environment={"MUSTER_COORDINATOR": server.address})
        same("exit", done.returncode, 0)
        has("found", done.stdout, "shard-bb")
        done = run("list-shards", "--coordinator", dead_address(), environment={"MUSTER_COORDINATOR": server.address})
        same("a flag is stronger", done.returncode, 6)


@test
def who_may_call_what_is_printed_without_a_server():
    text = run("auth", "table").stdout
    has("a row", text, "/bigfleet.v1alpha1.Coordinator/ReportShard                      bigfleet://shard/<id>\n")
    rows = json.loads(run("auth", "table", "-o", "json").stdout)["methods"]
    missing = [path for path in METHODS if path not in [row["method"] for row in rows]]
    same("every method of both services", missing, [])
    same("as many as in the table", len(rows), text.count("\n") - 1)
    same("one of them", [row["identity"] for row in rows if row["method"] == fleet("RemoveReplica")],
         ["bigfleet://admin"])


# -- under the other name --

@test
def under_the_name_bigfleetctl_it_takes_that_programs_command_lines():
    with tempfile.TemporaryDirectory() as scratch, canned(ListShards=SHARDS, AssignDomain={}, UnassignDomain={},
                                                          RemoveShard=says(grpc.StatusCode.NOT_FOUND, "no s9")) as server:
        program = os.path.join(scratch, "bigfleetctl")
        os.symlink(MUSTERCTL, program)
        table = good(server, "list-shards")
        for words in (("--coordinator", server.address, "list-shards"),
                      ("--coordinator=" + server.address, "--timeout", "5s", "list-shards"),
                      ("-coordinator", server.address, "-timeout=5s", "list-shards"),
                      ("list-shards", "--coordinator", server.address),
                      ("--timeout", "5s", "list-shards", "-coordinator", server.address)):
            done = run(*words, program=program)
            same(words, (done.returncode, done.stdout, done.stderr), (0, table, ""))
        done = run("-coordinator", server.address, "assign-domain", "-key", "k", "-value", "-vv", "-shard=s",
                   program=program)
        same("a value may begin with a dash", (done.returncode, done.stdout), (0, "assigned k=-vv \u2192 s\n"))
        done = run("--coordinator", server.address, "remove-shard", "--shard", "s9", program=program)
        same("mistakes", (done.returncode, done.stdout, done.stderr),
             (1, "", f"bigfleetctl: no s9 (NOT_FOUND from {server.address})\n"))
        for words, text in ((("frob",), "bigfleetctl: unknown command 'frob'"),
                            (("assign-domain", "--key", "k"), "bigfleetctl: --value VALUE is required"),
                            (("--coordinator", dead_address(), "list-shards"), "bigfleetctl: no coordinator answers"),
                            (("--tls-cert", "x", "list-shards"), "bigfleetctl: --tls-cert, --tls-key and --tls-ca")):
            done = run(*words, program=program)
            same(words, (done.returncode, done.stdout), (1, ""))
            same(words, done.stderr[:len(text)], text)
        same("help is no mistake", run("--help", program=program).returncode, 0)
        same("no command is one", run(program=program).returncode, 1)


run_tests(ONLY)
