#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every number of the coordinator, with each of its labels, is driven above zero; and its events and audit lines.

A metric that nothing moves is a promise nobody kept. The names are those of docs/observability.md: a name or label that
is added, lost or renamed fails here.
"""
import collections
import json
import os
import re
import shutil
import threading

import grpc

from coordinators import (COORDINATOR, FLEET, METHODS, PATIENT, PROTO_ROOT, Cluster, Failed, check, code_of, message,
                          run_cases, wait_for)

CODE = grpc.StatusCode
PREFIXES = ("bigfleet_coordinator_", "muster_coordinator_")
WANTED = {f"{name}{{{label}=\"{value}\"}}" for name, label, values in (
    ("bigfleet_coordinator_apply_total", "outcome", ("success", "error", "fsm_error")),
    ("muster_coordinator_reports_total", "result", ("taken", "late", "refused")),
    ("muster_coordinator_instruction_acks_total", "outcome", (
        "unspecified", "accepted", "rejected_stale", "rejected_invalid", "failed", "other", "not_waiting")),
    ("muster_coordinator_instructions_dropped_total", "reason", ("full", "shard_removed", "term")),
    ("muster_coordinator_rows", "table", ("shards", "clusters", "domains", "quotas", "providers", "leaving")),
    ("bigfleet_coordinator_pending_instructions", "shard", ("a",)),
    ("muster_coordinator_exports_total", "outcome", ("done", "failed", "empty")),
) for value in values}
with open(os.path.join(PROTO_ROOT, "../docs/observability.md"), encoding="utf-8") as observability:
    PAGE = observability.read()
WANTED |= set(re.findall(r"`((?:bigfleet|muster)_coordinator_\w+)`", PAGE))  # those without labels
SEEN = collections.Counter()  # series: the most it ever was, on any replica
CLUSTER = Cluster(3, [*PATIENT, "--snapshot-export-interval", "1s"])
for one_of_them in CLUSTER.nodes:
    one_of_them.options = ["--snapshot-export-dir", one_of_them.dir + "-export"]


def scrape(nodes=None):
    """The samples of each replica by name; seen values are kept in SEEN."""
    found = {}
    for node in nodes or CLUSTER.nodes:
        samples = {}
        for line in node.page("/metrics")[1].splitlines():
            if line.startswith(PREFIXES):
                series, value = line.rsplit(" ", 1)
                samples[series] = float(value)
                SEEN[series] = max(SEEN[series], float(value))
        found[node.name] = samples
    return found


def until(*series, nodes=None):
    """Scrapes until all of these were above zero; gauges are set once a second."""
    def look():
        scrape(nodes)
        return all(SEEN[one] > 0 for one in series)
    try:
        wait_for("series above zero", look)
    except Failed as late:
        raise Failed(f"still zero: {sorted(one for one in series if SEEN[one] <= 0)}") from late


def events(node):
    with open(node.dir + "/events.ndjson", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def report(leader, cycle, **fields):
    return leader.call(COORDINATOR + "ReportShard", shard_id="a", cycle=cycle, **fields)


def tables_and_reports():
    """Writes, refusals, reports, acks and rows."""
    until('muster_coordinator_exports_total{outcome="empty"}')  # counted only while there is no row
    leader = CLUSTER.leader()
    leader.call(FLEET + "AddShard", shard_id="a")
    code_of(lambda: leader.call(FLEET + "AddShard", shard_id="a"))
    leader.call(FLEET + "BindCluster", cluster_id="c", shard_id="a")
    leader.call(COORDINATOR + "AssignDomain", topology_key="k", topology_value="v", shard_id="a")
    leader.call(FLEET + "SetQuota", provider="p", region="r", per_shard={"a": 1})
    leader.call(FLEET + "UpsertProvider", provider={"name": "p"})
    report(leader, 5, summary={"total_machines": 1})
    report(leader, 4, summary={"total_machines": 1})
    large = {"per_zone_counts": {"x" * (2 << 20): 1}}
    check(code_of(lambda: report(leader, 6, summary=large))[0] != CODE.OK, "a summary of 2 MiB is refused")
    for outcome in (0, 1, 2, 3, 4, 99):
        queued = leader.call(FLEET + "QueueInstruction", shard_ids=["a"], instruction={"unassign_domain": {}})
        report(leader, 7, instruction_acks=[{"instruction_id": queued.instruction_id, "outcome": outcome},
                                            {"instruction_id": "nobody's"}])
    until(*(series for series in WANTED if "dropped" not in series and "error\"" not in series
            and "export" not in series and "leaving" not in series and
            not series.endswith(("_silent", "_requests", "_streamed_bytes_total", "_conflicts", "_unscoped"))),
          'bigfleet_coordinator_apply_total{outcome="fsm_error"}')
    for series, values in (("muster_coordinator_is_leader", [0, 0, 1]),
                           ("bigfleet_coordinator_raft_term", [leader.state().term] * 3),
                           ('muster_coordinator_rows{table="domains"}', [1, 1, 1])):
        wait_for(f"{series} of each is one of {values}", lambda series=series, values=values: sorted(
            samples.get(series, -1) for samples in scrape().values()) == values)


def ownership():
    """Domains that are leaving or contested, two processes under one id, and shards without domains are counted."""
    leader = CLUSTER.leader()
    leader.call(COORDINATOR + "AssignDomain", topology_key="k", topology_value="w", shard_id="a")
    leader.call(COORDINATOR + "UnassignDomain", topology_key="k", topology_value="w")
    for cycle in range(8, 12):
        for address in ("h:1", "h:2"):
            report(leader, cycle, shard_address=address)
    for shard in ("twin-1", "twin-2"):
        leader.call(COORDINATOR + "ReportShard", shard_id=shard, cycle=1, summary={"provider_address": "p:1"})
    leader.call(COORDINATOR + "AssignDomain", topology_key="k", topology_value="x", shard_id="a")
    leader.call(COORDINATOR + "ReportShard", shard_id="twin-1", cycle=2, summary={"provider_address": "p:1"},
                domains=[{"topology_key": "k", "topology_value": "x"}])
    until("muster_coordinator_domain_conflicts", 'muster_coordinator_rows{table="leaving"}', "muster_coordinator_shard_id_conflicts",
          "muster_coordinator_shards_unscoped")


def streams():
    """What is streamed is counted, by kind."""
    leader = CLUSTER.leader()
    for path in (COORDINATOR + "SnapshotSave", FLEET + "Backup"):
        leader.stream(path)
    until("muster_coordinator_state_streamed_bytes_total")
    kinds = [series for series in SEEN if series.startswith("muster_coordinator_state_streams_total{")]
    check(len(kinds) >= 2 and all(SEEN[series] > 0 for series in kinds), f"{kinds}")


def exports():
    """The export loop: done, and a directory that cannot be written."""
    until(*(series for series in WANTED if "export" in series and "failed" not in series))
    leader = CLUSTER.leader()
    place = leader.dir + "-export"
    shutil.rmtree(place)
    with open(place, "w", encoding="ascii") as file:
        file.write("no directory")
    leader.call(FLEET + "UpsertProvider", provider={"name": "news"})
    until('muster_coordinator_exports_total{outcome="failed"}')
    os.remove(place)


def too_many_words():
    """A shard that does not report and gets 16,385 domains: no instruction is sent for the last of them."""
    leader = CLUSTER.leader()
    leader.call(FLEET + "AddShard", shard_id="deaf")
    method = METHODS[COORDINATOR + "AssignDomain"]
    kind = message(method.input_type)
    assign = leader.dialed().unary_unary(f"/{COORDINATOR}AssignDomain", kind.SerializeToString,
                                         message(method.output_type).FromString)
    pending = collections.deque()
    for number in range(16385):
        request = kind(topology_key="deaf", topology_value=f"{number}", shard_id="deaf")
        pending.append(assign.future(request, timeout=90))
        if len(pending) >= 512:
            pending.popleft().result()
    while pending:
        pending.popleft().result()
    until('muster_coordinator_instructions_dropped_total{reason="full"}')
    leader.call(COORDINATOR + "RemoveShard", shard_id="deaf")
    until('muster_coordinator_instructions_dropped_total{reason="shard_removed"}')
    check(not [series for series in scrape([leader])[leader.name] if "deaf" in series], "its gauge goes with it")


def calls_under_way():
    """Calls are counted while they are under way."""
    leader = CLUSTER.leader()
    kind = message(METHODS[COORDINATOR + "ListShards"].input_type)
    ask = leader.dialed().unary_unary(f"/{COORDINATOR}ListShards", kind.SerializeToString)
    halt = threading.Event()

    def load():
        pending = collections.deque()
        while not halt.is_set() or pending:
            if len(pending) >= 256 or halt.is_set():
                pending.popleft().exception()
            else:
                pending.append(ask.future(kind(), timeout=90))
    thread = threading.Thread(target=load)
    thread.start()
    try:
        until("muster_coordinator_requests", nodes=[leader])
    finally:
        halt.set()
        thread.join()


def without_a_majority():
    """A write without a majority; instructions that wait for shards are dropped with the leadership."""
    leader = CLUSTER.leader()
    report(leader, 8)
    leader.call(FLEET + "QueueInstruction", shard_ids=["a"], instruction={"unassign_domain": {}})
    followers = CLUSTER.others(leader)
    for node in followers:
        node.pause()
    code, text, _ = code_of(lambda: leader.call(COORDINATOR + "RemoveShard", shard_id="nobody"))
    check(code == CODE.UNAVAILABLE, f"{code} {text}")
    for node in followers:
        node.resume()
    until('bigfleet_coordinator_apply_total{outcome="error"}', nodes=[leader])
    CLUSTER.formed()
    leader.call(FLEET + "TransferLeadership")
    until('muster_coordinator_instructions_dropped_total{reason="term"}')


def silence():
    """A shard without reports for --shard-silent-after is counted and reported, and again when it is back."""
    with Cluster(1, ["--shard-silent-after", "300ms"], join=False, first=8) as alone:
        node = alone.nodes[0].start()
        report(alone.leader(), 1)
        until("muster_coordinator_shards_silent", nodes=[node])
        wait_for("an event", lambda: any(one.get("event") == "shard-silent" for one in events(node)))
        event = next(one for one in events(node) if one.get("event") == "shard-silent")
        check(300 <= event["silent_ms"] < 60000, f"not the default of a minute: {event}")
        report(node, 2)
        wait_for("and back", lambda: any(one.get("event") == "shard-back" for one in events(node)))


def reported():
    """Without any option: events, and on every replica an audit line for each change with caller, action, object and result."""
    kinds = {"leadership-gained", "leadership-lost", "leader-changed", "members-changed", "shard-first-seen",
             "shard-removed", "instruction-refused"}
    wait_for(f"all of {kinds}", lambda: kinds <= {one.get("event") for node in CLUSTER.nodes for one in events(node)})
    for node in CLUSTER.nodes:
        def audited(node=node):
            return {(one["audit"], one.get("shard"), one.get("result"), one["actor"].split(":")[0])
                    for one in events(node) if "audit" in one}
        wanted = {("AddShard", "a", "done", "plaintext"), ("AddShard", "a", "shard exists", "plaintext"),
                  ("AssignDomain", "a", "done", "plaintext"), ("RemoveShard", "deaf", "done", "plaintext")}
        wait_for(f"{node.name} has them all", lambda: wanted <= audited())
        line = next(one for one in events(node) if one.get("audit") == "AssignDomain" and one["result"] == "done")
        check(line["actor"].startswith("plaintext:127.") and line["key"] and line["value"] and line["shard"] == "a" and
              line["changed"] and line["index"] > 0 and line["node"] == node.name, f"{node.name}: {line}")


def all_of_them():
    """Each documented series was above zero, and there is no other."""
    missing = sorted(series for series in WANTED if SEEN[series] <= 0)
    check(not missing, f"in docs/observability.md, and no case of this file makes it larger than zero: {missing}")
    lazy = ("bigfleet_coordinator_pending_instructions{", "muster_coordinator_state_streams_total{")
    extra = sorted(series for series in SEEN if series not in WANTED and not series.startswith(lazy))
    check(not extra, f"exposed, and neither in docs/observability.md nor, with labels, in WANTED: {extra}")


if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases([tables_and_reports, ownership, streams, exports, too_many_words, calls_under_way, without_a_majority, silence,
                   reported, all_of_them])
