#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl explain: the explanation of a Need, a machine and a worker, from canned answers of the fleet.

usage: test_ctl_explain.py MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

../shard/test_trouble.py has a real shard with its machines.
"""
import json
import subprocess
import sys
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
FILES, MESSAGE = contracts.load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto", "bigfleet/v1alpha1/shardread.proto",
                                "muster/v1/fleet.proto", "muster/v1/member.proto", "muster/v1/shard.proto")
METHODS = {"/" + path: (MESSAGE(method.input_type), MESSAGE(method.output_type))
           for path, method in contracts.methods_of(FILES).items()}
SHARDS, NEEDS = "/bigfleet.v1alpha1.Coordinator/ListShards", "/bigfleet.v1alpha1.ShardRead/InspectNeeds"
STATUS, MACHINE = "/muster.v1.ShardView/Status", "/muster.v1.ShardView/Machine"
MEMBERS = "/muster.v1.Membership/"
NOON = 1780315200


def canned(answers):
    return Canned(METHODS, {path: answer if callable(answer) else METHODS[path][1](**answer) for path, answer in answers.items()})


def action(machine, cluster, cycle, kind="Bootstrap", reason="phase1.idle", outcome="success", **more):
    return json.dumps({"time": "2026-06-01T12:00:00.000Z", "cycle": cycle, "kind": kind, "machine": machine, "cluster": cluster,
                       "reason": reason, "outcome": outcome, **more}, separators=(",", ":"))


def need(cluster="prod", priority=100, satisfied=False, **more):
    view = {"cluster_id": cluster, "profile_fingerprint": f"p={priority}|zone", "satisfied": satisfied, "claimed_machine_count": 2,
            "arrival_unix_nanos": NOON * 10**9, **more}
    wish = {"priority": priority, "aggregate_resources": {"cpu": "16"}, "min_unit": {"cpu": "4"}, **view.pop("need", {})}
    if not satisfied:
        view["residual_deficit"] = {"resources": {"cpu": "8"}}
    return {**view, "need": wish}


def shard(needs=(), machines=(), **status):
    def inspect(request, _context):
        frame = METHODS[NEEDS][1]
        yield frame(header={"cycle": 7, "computed_at_unix_nanos": time.time_ns(), "total_needs": len(needs)})
        for one in needs:
            if request.cluster_id in ("", one["cluster_id"]):
                yield frame(need=one)

    def machine(request, context):
        if request.machine_id not in machines:
            context.abort(grpc.StatusCode.NOT_FOUND, "the shard knows no such machine")
        return METHODS[MACHINE][1](shard_id="shard-0", cycle=7, machine_id=request.machine_id, **machines[request.machine_id])
    return canned({STATUS: {"shard_id": "shard-0", "cycle": 7, **status}, NEEDS: inspect, MACHINE: machine})


def explain(server, *words):
    return subprocess.run([MUSTERCTL, "explain", *words, "--coordinator", server.address, "--timeout", "20s"], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=PATIENCE, env={"PATH": "/usr/bin:/bin"}, check=False)


def explained(server, *words):
    """{label: [text]}, with lines joined again, and the first line under ""."""
    done = explain(server, *words)
    same(f"{words} ends well", (done.returncode, done.stderr), (0, ""))
    said, label = {"": []}, ""
    for line in done.stdout.splitlines():
        if line.startswith("             "):
            said[label][-1] += " " + line.strip()
        elif line.startswith("  "):
            label = line[2:12].strip()
            said.setdefault(label, []).append(line[13:])
        elif line:
            said[""].append(line)
    return said


def of_shard(one, *words, more=()):
    listed = [{"shard_id": "shard-0", "address": one.address}, *more]
    with canned({SHARDS: {"shards": listed}}) as server:
        return explained(server, *words)


def refused(one, code, text, *words, more=()):
    listed = [{"shard_id": "shard-0", "address": one.address}, *more]
    with canned({SHARDS: {"shards": listed}}) as server:
        done = explain(server, *words)
    same(f"{words}", (done.returncode, done.stdout), (code, ""))
    assert text in done.stderr, f"{text!r} in {done.stderr!r}"


@test
def a_need_that_is_met():
    audit = [*[action(f"m-{number}", "prod", number) for number in range(2, 9)], action("m-1", "other", 9)]
    with shard([need(satisfied=True, same_domain="rack-7", bootstrap_count=1, provision_count=2)], audit=audit) as one:
        said = of_shard(one, "need", "prod")
    same("what it is", said[""], ["need of prod with priority 100"])
    same("asks", said["asks"], ["for machines of any kind with 16 cpu in all; the largest piece, 4 cpu, must fit on one machine"])
    assert said["decided"][0].startswith("by shard shard-0 in cycle 7, ") and said["decided"][0].endswith("since 2026-06-01T12:00:00Z"), said
    same("has", said["has"], ["2 machines that serve it, all in rack-7"])
    same("coming", said["coming"], ["in that cycle 1 idle and 2 to be bought were taken for it"])
    same("lacks", said["lacks"], ["nothing"])
    assert "why" not in said and "demand of its operator" in said["change"][0], said
    same("whose they are", said["lately"].pop(0), "for all Needs of prod:")
    same("its cluster's newest actions", [line.split(" of ")[1].split(" ")[0] for line in said["lately"]], [f"m-{n}" for n in range(4, 9)])
    assert said["lately"][0] == ("2026-06-01T12:00:00Z, cycle 4: Bootstrap of m-4 for prod, because an idle machine of a fitting shape "
                                 "was free: success"), said["lately"]


REASONS = [
    (1, {"matching_supply": {"idle": 0, "speculative": 3, "configured": 12}}, "3 that could be bought, 12 that serve somebody), and more important",
     "a higher priority"),
    (2, {}, "no machine of a fitting shape is there", "a larger quota at the provider"),
    (3, {"same_candidates": [{"domain": "rack-1", "coverage_per_mille": 300}, {"domain": "rack-2", "coverage_per_mille": 625}],
         "acquisition_parked": True, "parked_age_cycles": 9}, "the best, rack-2, has 62.5 % of what is scarcest", "a smaller group"),
    (4, {"preemption": {"victims_found": 5}}, "5 machines are being taken from less important Needs", "the drains that are under way"),
]


@test
def a_need_that_lacks_something_and_why():
    for reason, more, why, change in REASONS:
        with shard([need(unmet_reason=reason, age_cycles_unmet=12, **more)], paused=reason == 1, dry_run=reason == 2,
                   fenced=reason == 3, drains_waiting=5 if reason == 4 else 0) as one:
            said = of_shard(one, "need", "prod")
        same("lacks", said["lacks"], ["8 cpu, for 12 cycles"])
        text = " ".join(said["why"] + said.get("", []))
        assert why in text and change in said["change"][0], f"{reason}: {said}"
        assert ("held" in said) == (reason in (1, 2, 3)), said
        assert ("fenced" in str(said.get("held"))) == (reason == 3), said
        assert ("they drain 5 machines" in json.dumps(said.get("waits"))) == (reason == 4), said
        if reason == 3:
            assert "parked for 9 cycles" in json.dumps(said), said


@test
def which_need_is_meant():
    needs = [need(priority=100, need={"requirements": [{"key": "zone", "operator": 1, "values": ["a", "b"]}, {"key": "rack", "operator": 5}]}),
             need(priority=200, need={"group": b"train\x00x"}), need("stage", 300, satisfied=True)]
    with shard(needs) as one:
        said = of_shard(one, "need", "prod")
        same("all of the cluster", len(said[""]), 2)
        same("by priority", of_shard(one, "need", "prod/100")["asks"],
             ["for machines whose zone is one of a, b and rack is the same on all, with 16 cpu in all; the largest piece, 4 cpu, must fit on one "
              "machine"])
        same("by words of the fingerprint", of_shard(one, "need", "prod/p=200")[""], ["need of prod with priority 200, group train/x"])
        refused(one, 5, "prod has no Need '7'; it has those of priority 100, 200 group train/x", "need", "prod/7")
        refused(one, 5, "prod has no Need '10'", "need", "prod/10")  # a number is a priority, and no part of one
        same("by its group", of_shard(one, "need", "prod/train/x")[""], ["need of prod with priority 200, group train/x"])
        refused(one, 5, "no Need of a cluster stagd is known (did you mean stage?)", "need", "stagd")
        away = [{"shard_id": "shard-1", "address": dead_address()}]
        said = of_shard(one, "need", "stage", more=away)
        assert said["missing"][0].startswith("shard shard-1 does not answer, and may know more"), said


@test
def a_machine():
    machines = {
        "m-1": {"state": "Configured", "cluster": "prod", "instance_type": "m5.large", "zone": "eu-1a", "capacity_type": "Spot", "price_per_hour": 0.4,
                "bought_for": "p=100", "priority": 100, "planned_state": "Draining", "pending": True, "promised_to": "vip",
                "audit": [action("m-1", "prod", 5, "Preempt", "phase2.inversion", "provider_error", error="busy")]},
        "m-2": {"state": "Idle", "idle_ms": 90000, "pending": True},
        "m-3": {"state": "Failed", "last_error": "create: no \x1b[31mroom", "resting": "refused", "refusals": 3, "rest_left_ms": 41000},
        "m-4": {"state": "Creating", "resting": "doubt", "asked": 2, "rest_left_ms": 500, "destination": "prod", "bought_for": "p=7"},
        "m-5": {"state": "Failed", "resting": "failed", "rest_left_ms": 7000},
        "m-6": {"state": "Draining", "cluster": "prod", "pending": True, "operator_drains": True, "operator_left_ms": 90000},
        "m-7": {"state": "Draining", "cluster": "prod", "operator_drains": True, "operator_away": True, "operator_left_ms": 7000},
    }
    with shard(machines=machines, audit=[action("machine-77", "prod", 5)]) as one:
        said = of_shard(one, "machine", "m-1")
        same("what it is", (said[""], said["is"]), (["machine m-1, of shard shard-0 in cycle 7"],
                                                    ["m5.large in eu-1a, Spot, 0.4 an hour, interrupted with probability 0"]))
        same("state", said["state"], ["Configured for prod: a node of its cluster"])
        same("bought", said["bought"], ["for a Need of priority 100, p=100"])
        assert "vip" in said["promised"][0] and "Draining" in said["planned"][0], said
        same("lately", said["lately"], ["2026-06-01T12:00:00Z, cycle 5: Preempt of m-1 for prod, because a more important Need lacks machines: "
                                        "provider_error: busy"])
        said = of_shard(one, "machine", "m-2")
        assert said["state"][0].startswith("Idle for 90.0 s") and "under way" in said["planned"][0] and "a Need that it fits" in said["change"][0], said
        said = of_shard(one, "machine", "m-3")
        assert "3 times in a row" in said["rests"][0] and "41.0 s" in said["rests"][0] and "end of its rest" in said["change"][0], said
        same("nothing steers the terminal", said["error"], ["create: no \\x1B[31mroom"])
        said = of_shard(one, "machine", "m-4")
        assert "asked 2 times without an answer" in said["rests"][0] and "of prod" in said["bought"][0] and "reachable" in said["change"][0], said
        assert "given back by Delete in 7.0 s" in of_shard(one, "machine", "m-5")["rests"][0]
        said = of_shard(one, "machine", "m-6")
        same("its operator drains it", said["waits"],
             ["for the operator of prod to drain it; the provider drains it in 90.0 s at the latest"])
        assert "PodDisruptionBudget" in said["change"][0] and "planned" not in said, said
        same("its operator is away", of_shard(one, "machine", "m-7")["waits"],
             ["for the operator of prod, which is not connected, to drain it; the provider drains it in 7.0 s at the latest"])
        refused(one, 5, "none of 1 shards knows machine machine-78 (did you mean machine-77?)", "machine", "machine-78")
        refused(one, 5, "shard shard-1 does not answer", "machine", "x", more=[{"shard_id": "shard-1", "address": dead_address()}])
    with shard(machines=machines, paused=True) as one:
        assert "kill switch" in of_shard(one, "machine", "m-1")["change"][0]
    with shard(machines=machines, paused=True, fenced=True) as one:
        assert "fenced" in of_shard(one, "machine", "m-1")["change"][0]


def members(workers, partitions=(), status=None):
    return canned({MEMBERS + "ClusterStatus": {"active": 2, "known": 3, "total_partitions": 8, "assignment_epoch": 9, **(status or {})},
                   MEMBERS + "ListWorkers": lambda request, _: METHODS[MEMBERS + "ListWorkers"][1](
                       workers=[one for one in workers if (one["standing"] == 4) == (request.standing == 4)]),
                   MEMBERS + "ListPartitions": {"partitions": partitions}})


@test
def a_worker():
    well = {"worker_id": "w-1", "incarnation": 3, "run_id": "r", "standing": 1, "phase": 3, "grant_capable": True, "registered_at_ms": NOON * 1000,
            "received_at_ms": 1, "silent_ms": 120, "load": 0.5, "load_average": 0.25, "partitions": 2, "assignment_epoch": 8, "weight": 2,
            "address": "10.0.0.1", "labels": {"zone": "a"}}
    rows = [{"partition": 1, "state": 1, "owner": "w-1"}, {"partition": 2, "state": 1, "owner": "w-1", "next_owner": "w-1"},
            {"partition": 3, "state": 2, "owner": "w-1", "next_owner": "w-2", "revoke_deadline_in_ms": 4000},
            {"partition": 4, "state": 3, "owner": "w-0", "next_owner": "w-1"}, {"partition": 5, "state": 2, "owner": "w-2", "next_owner": "w-1"}]
    with members([well], rows) as server:
        said = explained(server, "worker", "w-1")
        done = explain(server, "worker", "w-2")
    same("who", (said[""], said["is"]), (["worker w-1"], ["incarnation 3 of run r, registered 2026-06-01T12:00:00Z from 10.0.0.1, weight 2; zone=a"]))
    same("standing", said["standing"], ["active: its last beat came 120 ms ago; it says running, load 0.50 (0.25 over a minute)"])
    same("has", said["has"], ["2 partitions: 1, 2"])
    assert said["gives up"][0].startswith("partition 3 to w-2: it has 4.0 s") and said["fenced"][0].startswith("partition 4: "), said
    same("waits for", said["waits for"], ["partition 5, which w-2 still has"])
    same("behind", said["behind"], ["it has applied assignment 8 of 9, and fetches the newer one with its next beat"])
    assert "why" not in said and "musterctl worker drain" in said["change"][0], said
    same("an unknown one", (done.returncode, done.stdout), (5, ""))
    assert "no worker w-2 is known (did you mean w-1?)" in done.stderr, done.stderr


@test
def workers_that_have_nothing_and_why():
    base = {"worker_id": "w-1", "registered_at_ms": NOON * 1000, "received_at_ms": 1, "silent_ms": 9000, "grant_capable": True}
    cases = [
        ({"standing": 2}, {}, "suspected: silent for 9.0 s", "it is not active", "a beat within its time"),
        ({"standing": 3, "reason": "lease ran out"}, {}, "dead: lease ran out", "it is not active", "a start of the process"),
        ({"standing": 4, "reason": "left"}, {}, "removed: left", "it is not active", "a start of the process"),
        ({"standing": 1, "received_at_ms": 0}, {"active": 20}, "has heard no beat of it yet", "more active workers than partitions", "musterctl worker drain"),
        ({"standing": 1, "draining": True}, {}, "active", "it drains", "it leaves when it has let go"),
        ({"standing": 1, "grant_capable": False}, {}, "active", "did not promise to stop by its own clock", "a worker that fences itself"),
        ({"standing": 2}, {"hold": True}, "suspected", "it is not active", "musterctl worker release-hold"),
    ]
    for row, status, standing, why, change in cases:
        with members([{**base, **row}], status=status) as server:
            said = explained(server, "worker", "w-1")
        for label, part in [("standing", standing), ("why", why), ("change", change)]:
            assert part in said[label][0], f"{row}: {part!r} in {said}"


@test
def nobody_to_ask():
    with canned({SHARDS: says(grpc.StatusCode.PERMISSION_DENIED, "not for you")}) as server:
        done = explain(server, "machine", "m-1")
    assert done.returncode != 0 and "not for you" in done.stderr and done.stdout == "", done
    for words in [("need", "x"), ("machine", "x"), ("worker", "x")]:
        done = subprocess.run([MUSTERCTL, "explain", *words, "--coordinator", dead_address()], capture_output=True, text=True, timeout=PATIENCE,
                              env={"PATH": "/usr/bin:/bin"}, check=False)
        same(f"{words}", (done.returncode, done.stdout), (6, ""))
        assert "no coordinator answers" in done.stderr, done.stderr


run_tests(ONLY)
