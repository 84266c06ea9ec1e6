#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every method of both contracts by a stock client, against three coordinators: facts R1 to R12, N2 to N4, K1 and K2 of
coordinator.md 20 and S3 to S9 as they are seen from outside, its section 21, and the statuses of wire.md 4.

The cases share one cluster and use shards of their own. The last one demands that no method was left out.
"""
import json
import threading
import time

import grpc

import coordinators
from coordinators import (ANY_REPLICA, COORDINATOR, FLEET, METHODS, OURS, PATIENCE, PATIENT, READS, Cluster, check, code_of,
                          message, run_cases, wait_for)

CODE = grpc.StatusCode
DRIVEN = {}  # path: the statuses seen
CLUSTER = Cluster(3, PATIENT)
ACCEPTED, STALE, INVALID, FAILED = 1, 2, 3, 4  # outcomes of an ack
# Answered by any replica about itself; what a waiting replica says is in test_bootstrap.py.
BOOTSTRAP = {FLEET + "PromiseBootstrap": CODE.INVALID_ARGUMENT, FLEET + "BootstrapReplica": CODE.FAILED_PRECONDITION}


def watch(function):
    """Notes each call's status."""
    def watched(channel, path, *arguments, **fields):
        try:
            answer = function(channel, path, *arguments, **fields)
        except grpc.RpcError as error:
            DRIVEN.setdefault(path, set()).add(error.code())
            raise
        DRIVEN.setdefault(path, set()).add(CODE.OK)
        return answer
    return watched


coordinators.call, coordinators.stream = watch(coordinators.call), watch(coordinators.stream)


def leader():
    return CLUSTER.leader()


def ask(path, metadata=(), **fields):
    return leader().call(path, metadata=metadata, **fields)


def fails(why, code, path, metadata=(), node=None, **fields):
    """Its text and trailers; the call must end with `code`."""
    got, text, trailers = code_of(lambda: (node or leader()).call(path, metadata=metadata, **fields))
    check(got == code, f"{why}: {got} '{text}', not {code}")
    return text, trailers


def report(shard, cycle, **fields):
    return ask(COORDINATOR + "ReportShard", shard_id=shard, cycle=cycle, **fields)


def shards():
    return {row.shard_id: row for row in ask(COORDINATOR + "ListShards").shards}


def domains(key):
    rows = ask(COORDINATOR + "ListDomainAssignments").assignments
    return [(row.topology_value, row.shard_id) for row in rows if row.topology_key == key]


def kept(shard):
    return list(ask(COORDINATOR + "ListShardReports", shard_id=shard).reports)


def waiting(shard):
    return [row.instruction for row in ask(FLEET + "ListInstructions", shard_id=shard).instructions]


def queue(*shard_ids, **fields):
    return ask(FLEET + "QueueInstruction", shard_ids=shard_ids, instruction=fields).instruction_id


RACK = {"topology_key": "rack", "topology_value": "r-1"}


# -- reports and instructions --

def instruction_until_acked():
    """R1, R2: an instruction comes with every report until it is acked, under one id and the leader's term."""
    ask(FLEET + "AddShard", shard_id="r1", address="h:1")
    check(queue("r1", instruction_id="instr-1", assign_domain=RACK) == "instr-1", "its own id is kept")
    term = leader().state().term
    for cycle in (1, 2):
        ack = report("r1", cycle, summary={"total_machines": 100, "free_machines": 20})
        check(ack.acknowledged and ack.coordinator_term == term, f"acknowledged in term {term}: {ack}")
        check(len(ack.instructions) == 1, f"one instruction: {ack}")
        one = ack.instructions[0]
        check((one.instruction_id, one.coordinator_term) == ("instr-1", term) and one.sequence_number > 0, f"{one}")
        check(one.assign_domain == message("bigfleet.v1alpha1.AssignDomain")(**RACK), f"{one}")
    check(kept("r1")[0].summary.total_machines == 100, "the summary is kept")
    row = ask(FLEET + "ListInstructions", shard_id="r1").instructions[0]
    check((row.shard_id, row.deliveries) == ("r1", 2), f"sent twice: {row}")
    done = report("r1", 3, instruction_acks=[{"instruction_id": "instr-1", "outcome": ACCEPTED}])
    check(not done.instructions and not waiting("r1"), "the queue is empty")


def any_ack_takes_it_off():
    """21.7: FAILED, REJECTED and unknown outcomes take it off too; an ack of what is not there is ignored."""
    ask(FLEET + "AddShard", shard_id="k2")
    for outcome in (0, ACCEPTED, STALE, INVALID, FAILED, 77):
        one = queue("k2", reassign_speculative={"machine_ids": ["m-1"]})
        check(len(one) == 16 and int(one, 16) >= 0, f"a drawn id: {one}")
        left = report("k2", 1, instruction_acks=[{"instruction_id": "nobody", "outcome": ACCEPTED},
                                                 {"instruction_id": one, "outcome": outcome, "reason": "why"}])
        check(not left.instructions, f"outcome {outcome}: {left}")


class ReportClient(threading.Thread):
    """A shard's report client as in wire.md 3.1, every 50 ms: its mark, its accepted and its refused instructions."""

    def __init__(self, shard, heard=lambda client, answer: None):
        super().__init__()
        self.shard, self.heard, self.halt = shard, heard, threading.Event()  # heard: between an answer and its use
        self.mark, self.handled, self.refused, self.cycle, self.error = 0, [], [], 0, None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.halt.set()
        self.join()
        check(self.error is None, f"{self.shard}: {self.error!r}")

    def is_stale(self, term):
        self.mark = max(self.mark, term)
        return term < self.mark

    def outcome(self, one):
        if one.instruction_id in [done.instruction_id for done in self.handled]:
            return ACCEPTED
        if self.is_stale(one.coordinator_term):
            self.refused.append(one)
            return STALE
        self.handled.append(one)
        return ACCEPTED

    def run(self):
        acks = []
        try:
            while not self.halt.wait(0.05):
                self.cycle += 1
                answer = report(self.shard, self.cycle, shard_epoch=1, shard_address="h:1", instruction_acks=acks)
                acks = []
                if answer.coordinator_term and self.is_stale(answer.coordinator_term):
                    continue
                self.heard(self, answer)
                acks = [{"instruction_id": one.instruction_id, "outcome": self.outcome(one)}
                        for one in answer.instructions]
        except Exception as error:  # reported by __exit__
            self.error = error


def a_client_receives_its_instruction():
    """K1: AssignDomain queued for a client that reports: carried out once with its rack, and off the queue."""
    with ReportClient("k1") as client:
        wait_for("its first report", lambda: client.mark > 0)
        check(client.mark == leader().state().term, f"the mark is the leader's term: {client.mark}")
        # Whatever fence comes with it is not the caller's to set: the leader stamps its own.
        one = queue("k1", assign_domain=RACK, coordinator_term=0, sequence_number=0)
        wait_for("carried out, and off the queue", lambda: client.error or (client.handled and not waiting("k1")))
        after = client.cycle
        wait_for("more reports", lambda: client.error or client.cycle > after + 2)
    check([(done.instruction_id, done.assign_domain.topology_key, done.assign_domain.topology_value)
           for done in client.handled] == [(one, "rack", "r-1")], f"{client.handled}")
    check(client.handled[0].coordinator_term == client.mark and client.handled[0].sequence_number > 0,
          f"{client.handled}")


def a_stale_word_is_refused():
    """K2: a client that knows a later term refuses the instruction; its answer takes it off the queue."""
    def rise(client, answer):
        if answer.instructions:
            client.mark = max(client.mark, term + 1)  # another leader sent it, while this answer was on its way
    with ReportClient("k2-stale", rise) as client:
        wait_for("its first report", lambda: client.mark > 0)
        term = leader().state().term
        one = queue("k2-stale", assign_domain=RACK)
        wait_for("refused", lambda: client.error or client.refused)
        check([refused.instruction_id for refused in client.refused] == [one], f"{client.refused}")
        wait_for("off the queue", lambda: client.error or not waiting("k2-stale"))
    check(not client.handled, f"carried out: {client.handled}")


def all_five_in_order():
    """All five payloads travel, in the order of (term, sequence); the same id again replaces."""
    ask(FLEET + "AddShard", shard_id="five-a")
    ask(FLEET + "AddShard", shard_id="five-b")
    payloads = [{"assign_domain": RACK}, {"unassign_domain": RACK},
                {"reassign_speculative": {"machine_ids": ["m-1", "m-2"]}},
                {"cross_shard_drain": {"machine_ids": ["m-1"], "preemptor_priority": 7}},
                {"transfer_ownership": {"machine_ids": ["m-3"], "from_shard_id": "five-a", "to_shard_id": "five-b"}}]
    ids = [queue("five-a", "five-b", **payload) for payload in payloads]
    for shard in ("five-a", "five-b"):
        got = report(shard, 1).instructions
        check([one.instruction_id for one in got] == ids, f"{shard}: the order of queueing, under the same ids: {got}")
        pairs = [(one.coordinator_term, one.sequence_number) for one in got]
        check(pairs == sorted(set(pairs)), f"strictly ascending: {pairs}")
        for one, payload in zip(got, payloads):
            name = next(iter(payload))
            kind = type(getattr(one, name))
            check(one.WhichOneof("payload") == name and getattr(one, name) == kind(**payload[name]), f"{name}: {one}")
    queue("five-a", instruction_id=ids[0], cross_shard_drain={"preemptor_priority": 9})
    got = report("five-a", 2).instructions
    check(sorted(one.instruction_id for one in got) == sorted(ids) and got[-1].instruction_id == ids[0],
          f"replaced, and now the newest: {got}")


def owners_receive_their_instructions():
    """AssignDomain and UnassignDomain queue an instruction for the owner."""
    for shard in ("own-a", "own-b"):
        ask(FLEET + "AddShard", shard_id=shard)
    domain = {"topology_key": "own", "topology_value": "x"}
    ask(COORDINATOR + "AssignDomain", shard_id="own-a", **domain)
    got = report("own-a", 1).instructions
    check([one.WhichOneof("payload") for one in got] == ["assign_domain"], f"{got}")
    report("own-a", 2, instruction_acks=[{"instruction_id": got[0].instruction_id, "outcome": ACCEPTED}])
    ask(COORDINATOR + "UnassignDomain", **domain)
    check([one.WhichOneof("payload") for one in waiting("own-a")] == ["unassign_domain"], "the old owner")
    text, _ = fails("not given up", CODE.FAILED_PRECONDITION, COORDINATOR + "AssignDomain", shard_id="own-b", **domain)
    check("own-a has not given it up" in text, text)
    leaving = ask(FLEET + "ListOwnershipIssues").leaving
    check([(one.topology_key, one.topology_value, one.shard_id, one.owner_id) for one in leaving] == [("own", "x", "own-a", "")],
          f"{leaving}")
    got = report("own-a", 3).instructions
    report("own-a", 4, instruction_acks=[{"instruction_id": got[0].instruction_id, "outcome": ACCEPTED}])
    wait_for("given up", lambda: not ask(FLEET + "ListOwnershipIssues").leaving)
    ask(COORDINATOR + "AssignDomain", shard_id="own-b", **domain)
    check([one.WhichOneof("payload") for one in waiting("own-b")] == ["assign_domain"], "the new owner")
    check(waiting("own-b")[0].assign_domain.topology_value == "x", "which domain")


def self_registration():
    """R3, R4, R5: a report of an unknown shard registers it with its address, once; each is a heartbeat."""
    address = "bigfleet-shard-2.bigfleet-shard-headless:7780"
    report("r3", 1, shard_address=address)
    first = shards()["r3"]
    check(first.address == address and first.registered_at_unix_ns > 0, f"{first}")
    check(first.last_heartbeat_unix_ns >= first.registered_at_unix_ns, f"{first}")
    report("r3", 2)
    second = shards()["r3"]
    check(second.registered_at_unix_ns == first.registered_at_unix_ns and second.address == address, f"{second}")
    check(second.last_heartbeat_unix_ns > first.last_heartbeat_unix_ns, f"{second}")
    report("r3", 3, shard_address="elsewhere:1")
    check(shards()["r3"].address == address, "an address never changes")
    ask(FLEET + "AddShard", shard_id="r5")
    check(shards()["r5"].last_heartbeat_unix_ns == 0, "0 for one that never reported (wire.md 4.4)")
    check(list(shards()) == sorted(shards()), "ascending")


def two_shards_by_themselves():
    """R12: two shards that report on their own, nothing registered before, are both in the table."""
    halt = threading.Event()

    def shard(name):
        cycle = 0
        while not halt.wait(0.05):
            cycle += 1
            report(name, cycle, shard_address=f"{name}:7780", shard_epoch=1)
    threads = [threading.Thread(target=shard, args=(f"r12-{n}",)) for n in (1, 2)]
    for thread in threads:
        thread.start()
    try:
        wait_for("both", lambda: all(f"r12-{n}" in shards() for n in (1, 2)))
    finally:
        halt.set()
        for thread in threads:
            thread.join()
    check([shards()[f"r12-{n}"].address for n in (1, 2)] == ["r12-1:7780", "r12-2:7780"], "with their addresses")


SUMMARY = {"total_machines": 100, "free_machines": 20, "per_instance_type_counts": {"m5.large": 60, "c6i.xlarge": 40},
           "per_zone_counts": {"z-a": 100}, "provider_address": "p:1"}
SHORTFALL = {"priority": 1000, "deficit": {"resources": {"cpu": "8"}}, "age_cycles": 3,
             "interruption_penalty_bucket": 3}


def reports_are_listed():
    """R10, R11: the report as it was sent, with the time it came; requirements are left out; one, none or all."""
    before = time.time_ns()
    report("r10", 7, summary=SUMMARY, shortfalls=[dict(SHORTFALL, requirements=[{"key": "zone"}])])
    report("r10-b", 1, summary=SUMMARY)
    rows = kept("r10")
    check(len(rows) == 1 and rows[0].cycle == 7, f"{rows}")
    check(abs(rows[0].received_at_unix_ns - before) < 600 * 10**9, f"received: {rows[0].received_at_unix_ns}")
    check(rows[0].summary == message("bigfleet.v1alpha1.ShardSummary")(**SUMMARY), f"{rows[0].summary}")
    check(list(rows[0].shortfalls) == [message("bigfleet.v1alpha1.Shortfall")(**SHORTFALL)], f"{rows[0].shortfalls}")
    check(kept("nope") == [], "an unknown shard has none")
    names = [row.shard_id for row in kept("")]
    check(names == sorted(names) and {"r10", "r10-b"} <= set(names), f"all, ascending: {names}")


def reports_are_ordered():
    """21.2, 21.3: late reports by (epoch, cycle) change nothing but their acks count; a summary replaces shortfalls."""
    def total():
        return kept("order")[0].summary.total_machines, kept("order")[0].cycle
    report("order", 5, shard_epoch=2, summary={"total_machines": 1}, shortfalls=[SHORTFALL])
    for epoch, cycle in ((2, 4), (1, 99)):
        one = queue("order", unassign_domain=RACK)
        left = report("order", cycle, shard_epoch=epoch, summary={"total_machines": 666},
                      instruction_acks=[{"instruction_id": one, "outcome": ACCEPTED}])
        check(total() == (1, 5), f"late {epoch}, {cycle}: {total()}")
        check(not left.instructions, "its acks count")
    report("order", 6, shard_epoch=2)
    check(len(kept("order")[0].shortfalls) == 1 and total()[0] == 1, "without a summary all is kept")
    report("order", 1, shard_epoch=3, summary={"total_machines": 3})
    check(total() == (3, 1), f"a new epoch begins at 1: {total()}")
    check(not kept("order")[0].shortfalls, "none is none")
    report("order", 2, shard_epoch=3, summary={}, shortfalls=[SHORTFALL] * 150)
    check(len(kept("order")[0].shortfalls) == 100, "a hundred are kept")


# -- tables --

def domains_have_one_owner():
    """R6, R7, R8, S5: assign twice, to another, list, unassign what is and what is not there."""
    for shard in ("r6-a", "r6-b"):
        ask(FLEET + "AddShard", shard_id=shard)
    wish = {"topology_key": "r6", "topology_value": "r-1"}
    for _ in range(2):
        ask(COORDINATOR + "AssignDomain", shard_id="r6-a", **wish)
    text, _ = fails("another owner", CODE.ALREADY_EXISTS, COORDINATOR + "AssignDomain", shard_id="r6-b", **wish)
    check(all(word in text for word in ("r6=r-1", "r6-a", "r6-b")), f"names domain and both owners: {text}")
    fails("nobody", CODE.NOT_FOUND, COORDINATOR + "AssignDomain", shard_id="r6-c", **wish)
    for value, shard in (("b", "r6-b"), ("a", "r6-b"), ("z", "r6-a")):
        ask(COORDINATOR + "AssignDomain", topology_key="r6", topology_value=value, shard_id=shard)
    check(domains("r6") == [("r-1", "r6-a"), ("z", "r6-a"), ("a", "r6-b"), ("b", "r6-b")], f"in order: {domains('r6')}")
    ask(COORDINATOR + "UnassignDomain", topology_key="zone", topology_value="absent")
    ask(COORDINATOR + "UnassignDomain", **wish)
    check(("r-1", "r6-a") not in domains("r6"), "gone")


def shards_come_and_go():
    """S1, N3, R9, S6, 21.8: twice is refused; removal takes clusters, domains and instructions with it."""
    ask(FLEET + "AddShard", shard_id="s1", address="h:1")
    text, _ = fails("again", CODE.ALREADY_EXISTS, FLEET + "AddShard", shard_id="s1")
    check("s1" in text, text)
    ask(FLEET + "BindCluster", cluster_id="s1-c", shard_id="s1")
    ask(COORDINATOR + "AssignDomain", topology_key="s1", topology_value="x", shard_id="s1")
    queue("s1", unassign_domain=RACK)
    report("s1", 1, summary={"total_machines": 1})
    text, _ = fails("it lives", CODE.FAILED_PRECONDITION, COORDINATOR + "RemoveShard", shard_id="s1")
    check("reported 0 s ago" in text, text)
    ask(COORDINATOR + "RemoveShard", shard_id="s1", force_two_owners=True)
    fails("again", CODE.NOT_FOUND, COORDINATOR + "RemoveShard", shard_id="s1")
    check(not domains("s1") and "s1" not in shards(), "shard and domains")
    check("s1-c" not in {row.cluster_id for row in ask(FLEET + "ListClusters").clusters}, "clusters")
    check(not waiting("s1"), "instructions")
    back = report("s1", 1, shard_address="h:2")
    check([one.unassign_domain.topology_key for one in back.instructions] == ["s1"], f"its domain is not its own: {back}")
    check(shards()["s1"].address == "h:2", "one that lives registers again")


def clusters_bind_once():
    """S3, S4, N2: first contact wins; the shard must be there."""
    for shard in ("s3-a", "s3-b"):
        ask(FLEET + "AddShard", shard_id=shard)
    for _ in range(2):
        ask(FLEET + "BindCluster", cluster_id="s3-c", shard_id="s3-a")
    text, _ = fails("another", CODE.ALREADY_EXISTS, FLEET + "BindCluster", cluster_id="s3-c", shard_id="s3-b")
    check(all(word in text for word in ("s3-c", "s3-a", "s3-b")), text)
    fails("nobody", CODE.NOT_FOUND, FLEET + "BindCluster", cluster_id="s3-d", shard_id="s3-z")
    rows = [(row.cluster_id, row.shard_id) for row in ask(FLEET + "ListClusters").clusters]
    check(("s3-c", "s3-a") in rows and rows == sorted(rows), f"{rows}")


def quotas_and_providers():
    """S8, S9: a row is replaced whole, unknown shards are fine; providers by name; both listed in order."""
    for region, row in (("us-east-1", {"a": 1}), ("eu-1", {"a": 5}), ("us-east-1", {"a": 100, "b": 200})):
        ask(FLEET + "SetQuota", provider="aws", region=region, per_shard=row)
    rows = [(row.provider, row.region, dict(row.per_shard)) for row in ask(COORDINATOR + "ListQuotas").allocations]
    check(rows == [("aws", "eu-1", {"a": 5}), ("aws", "us-east-1", {"a": 100, "b": 200})], f"{rows}")
    for name, region in (("gcp-west", "west"), ("aws-east", "x"), ("aws-east", "us-east-1")):
        ask(FLEET + "UpsertProvider", provider={"name": name, "address": "h:1", "region": region})
    rows = [(row.name, row.address, row.region) for row in ask(COORDINATOR + "ListProviders").providers]
    check(rows == [("aws-east", "h:1", "us-east-1"), ("gcp-west", "h:1", "west")], f"{rows}")


def repeated_under_one_id():
    """x-request-id: the same write again is answered as the first was, and done once; also by the next leader."""
    again = [("x-request-id", "proof-1")]
    for _ in range(2):
        ask(FLEET + "AddShard", metadata=again, shard_id="once")
    fails("without it", CODE.ALREADY_EXISTS, FLEET + "AddShard", shard_id="once")
    ask(FLEET + "TransferLeadership")
    CLUSTER.formed()
    ask(FLEET + "AddShard", metadata=again, shard_id="once")
    text, trailers = fails("too long", CODE.INVALID_ARGUMENT, FLEET + "AddShard", metadata=[("x-request-id", "x" * 65)],
                           shard_id="never")
    check(trailers.get("x-muster-applied") == "no", f"{text} {trailers}")


# -- who answers, and with what --

# With no arguments at all, once the leader was found: a read is answered, a write misses something; but these.
EMPTY = {path: CODE.OK if path in READS else CODE.INVALID_ARGUMENT for path in OURS} | BOOTSTRAP | {
    COORDINATOR + "SnapshotSave": CODE.OK, FLEET + "Backup": CODE.OK, FLEET + "TransferLeadership": CODE.OK}
PARTLY = [  # one argument is missing
    (COORDINATOR + "AssignDomain", {"topology_value": "v", "shard_id": "s"}),
    (COORDINATOR + "AssignDomain", {"topology_key": "k", "shard_id": "s"}),
    (COORDINATOR + "AssignDomain", {"topology_key": "k", "topology_value": "v"}),
    (COORDINATOR + "UnassignDomain", {"topology_key": "k"}), (COORDINATOR + "UnassignDomain", {"topology_value": "v"}),
    (COORDINATOR + "JoinRaftCluster", {"node_id": "n"}), (COORDINATOR + "JoinRaftCluster", {"raft_address": "h:1"}),
    (FLEET + "BindCluster", {"cluster_id": "c"}), (FLEET + "BindCluster", {"shard_id": "s"}),
    (FLEET + "SetQuota", {"provider": "p"}), (FLEET + "SetQuota", {"region": "r"}),
    (FLEET + "UpsertProvider", {"provider": {"address": "h:1"}}),
    (FLEET + "QueueInstruction", {"shard_ids": ["s"]}),
    (FLEET + "QueueInstruction", {"shard_ids": ["s"], "instruction": {}}),
    (FLEET + "QueueInstruction", {"shard_ids": [""], "instruction": {"unassign_domain": {}}}),
]


def any_call(node, path):
    if METHODS[path].server_streaming:
        return node.stream(path)
    return node.call(path)


def arguments():
    """wire.md 4.2: each method without arguments, and with one missing; unknown things are NOT_FOUND."""
    for path, want in EMPTY.items():
        got, text, _ = code_of(lambda path=path: any_call(leader(), path))
        check(got == want, f"{path} without arguments: {got} '{text}', not {want} (EMPTY)")
    for path, fields in PARTLY:
        fails(f"{path} {fields}", CODE.INVALID_ARGUMENT, path, **fields)
    fails("queue for nobody", CODE.NOT_FOUND, FLEET + "QueueInstruction", shard_ids=["nobody"],
          instruction={"unassign_domain": RACK})
    fails("no such replica", CODE.NOT_FOUND, FLEET + "RemoveReplica", replica="node-9")
    channel = leader().dialed()
    for path in ("bigfleet.v1alpha1.Coordinator/Nothing", "muster.v1.Nobody/Nothing"):
        got = code_of(lambda path=path: channel.unary_unary("/" + path)(b"", timeout=PATIENCE))[0]
        check(got == CODE.UNIMPLEMENTED, f"{path}: {got}")


def followers_name_the_leader():
    """wire.md 4.1: a follower refuses all but what any replica answers and names the leader, before it looks at arguments."""
    CLUSTER.formed()

    def asked(path, number):
        """Repeats the call while the answer names no leader, or an old one, because there is an election."""
        first = leader()
        node = CLUSTER.others(first)[number]
        got, text, trailers = code_of(lambda: any_call(node, path))
        knows = path in ANY_REPLICA or path in BOOTSTRAP or trailers.get("x-muster-leader") == first.grpc
        return (got, text, trailers) if knows else None
    for number in range(2):
        for path in OURS:
            got, text, trailers = wait_for(f"{path}, at a follower that names the leader",
                                           lambda path=path, number=number: asked(path, number))
            if path in ANY_REPLICA:
                check(got == CODE.OK, f"{path}: {got} {text}")
                continue
            if path in BOOTSTRAP:
                check(got == BOOTSTRAP[path] and not trailers.get("x-muster-leader"), f"{path}: {got} {text} {trailers}")
                continue
            check(got == CODE.FAILED_PRECONDITION, f"{path} at a follower: {got} '{text}'; a method that any replica "
                  "answers is in ANY_REPLICA (coordinators.py)")


def nobody_leads():
    """N4: a replica that waits to join answers FAILED_PRECONDITION and names no leader."""
    with Cluster(1, join=False, first=8) as lone:
        node = lone.nodes[0].start("--no-bootstrap")
        for path in OURS:
            got, text, trailers = code_of(lambda path=path: any_call(node, path))
            if path in ANY_REPLICA:
                check(got == CODE.OK, f"{path}: {got} {text}")
                continue
            if path in BOOTSTRAP:
                check(got == BOOTSTRAP[path] and not trailers.get("x-muster-leader"), f"{path}: {got} {text} {trailers}")
                continue
            check(got == CODE.FAILED_PRECONDITION, f"{path}: {got} '{text}'")
            check(trailers.get("x-muster-leader", "") == "", f"{path}: {trailers}")
        check(node.page("/readyz")[0] == 503 and node.page("/healthz")[0] == 200, "alive and not ready")


def soft_state_is_the_leaders():
    """21.4, 21.6, 21.8: a new leader begins without reports, heartbeats and instructions; one that leads again too."""
    report("soft", 9, summary={"total_machines": 9})
    queue("soft", unassign_domain=RACK)
    term = report("soft", 10).coordinator_term
    first = leader()
    first.call(FLEET + "TransferLeadership")
    wait_for("another leads", lambda: leader() is not first)
    check(kept("soft") == [] and waiting("soft") == [], "begins with none")
    check(shards()["soft"].last_heartbeat_unix_ns == 0, "the tables do not know heartbeats")
    ack = report("soft", 1, summary={"total_machines": 1})  # an older cycle is new to this leader
    check(ack.coordinator_term > term and not ack.instructions and kept("soft")[0].cycle == 1, f"{ack}")
    back = ask(FLEET + "TransferLeadership", replica=first.name)
    check(back is not None and leader() is first, "back at the first")
    check(kept("soft") == [] and waiting("soft") == [], "what it knew once is gone")
    CLUSTER.agree()


# -- streams --

def snapshot_save():
    """wire.md 4.5, D1: meta first and once, then data of at most 1 MiB, which is the state of the tables."""
    ask(FLEET + "AddShard", shard_id="save", address="h:9")
    for number in range(64):
        ask(FLEET + "UpsertProvider", provider={"name": f"save-{number:04}", "address": "x" * 200})
    chunks = leader().stream(COORDINATOR + "SnapshotSave")
    check(chunks[0].WhichOneof("payload") == "meta_json", "meta first")
    check(all(chunk.WhichOneof("payload") == "data" and 0 < len(chunk.data) <= 1 << 20 for chunk in chunks[1:]),
          "then data")
    meta, state = json.loads(chunks[0].meta_json), b"".join(chunk.data for chunk in chunks[1:])
    check(meta["Version"] == 1 and meta["Index"] > 0 and meta["Term"] > 0 and meta["Size"] == len(state), f"{meta}")
    check(meta["ID"].startswith(f"{meta['Term']}-{meta['Index']}-"), f"{meta}")
    servers = {one["ID"]: one["Address"] for one in meta["Configuration"]["Servers"]}
    check(servers == {node.name: node.raft for node in CLUSTER.nodes}, f"{servers}")
    tables = json.loads(state)
    check({row["ID"]: row["Address"] for row in tables["shards"]}["save"] == "h:9", "the newest row is in it")
    check(len([row for row in tables["providers"] if row["Name"].startswith("save-")]) == 64, "and all others")
    check(b"\n" not in state and b" " not in state[:20], "compact, one line")


def backup():
    """Backup: meta first, then every section of the state, at one index."""
    chunks = leader().stream(FLEET + "Backup")
    check(chunks[0].WhichOneof("payload") == "meta_json", "meta first")
    check(all(0 < len(chunk.data) <= 1 << 20 for chunk in chunks[1:]) and len(chunks) > 1, "then data")
    text = chunks[0].meta_json.decode()
    check("fleet" in text and "roster" in text, f"its sections: {text}")
    check(b"".join(chunk.data for chunk in chunks[1:]).startswith(b"mustersn"), "an archive of ours")


def none_left_out():
    """Every method of both contracts was answered OK at least once, with nothing but the expected otherwise."""
    if coordinators.ONLY:
        return
    replica = wait_for("the list", lambda: leader().replicas())[0]
    fields = {"replica_id": replica.replica_id, "name": replica.name, "raft_address": replica.raft_address,
              "grpc_address": replica.grpc_address, "http_address": replica.http_address}
    check(ask(FLEET + "JoinReplica", **fields).voter, "one that is there already")
    identity = [("x-muster-replica", f"{replica.replica_id:016x}")]
    ask(COORDINATOR + "JoinRaftCluster", metadata=identity, node_id=replica.name, raft_address=replica.raft_address)
    gone = CLUSTER.others(leader())[0]
    ask(FLEET + "RemoveReplica", replica=gone.name)
    rest = CLUSTER.others(gone)
    CLUSTER.formed(2, rest)
    CLUSTER.agree(rest)
    said = rest[0].call(FLEET + "PromiseBootstrap", cluster_id=1, replica_id=2, name="node-9")
    check(said.has_log and not said.promised, f"a member of a cluster promises nothing: {said}")
    missing = [path for path in OURS if CODE.OK not in DRIVEN.get(path, ()) and path != FLEET + "BootstrapReplica"]
    check(not missing, f"no case of this file gets OK from: {missing}")


CASES = [instruction_until_acked, any_ack_takes_it_off, a_client_receives_its_instruction, a_stale_word_is_refused, all_five_in_order,
         owners_receive_their_instructions, self_registration, two_shards_by_themselves, reports_are_listed, reports_are_ordered,
         domains_have_one_owner, shards_come_and_go, clusters_bind_once, quotas_and_providers, repeated_under_one_id,
         arguments, followers_name_the_leader, nobody_leads, soft_state_is_the_leaders, snapshot_save, backup,
         none_left_out]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases(CASES)
