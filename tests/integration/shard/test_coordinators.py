#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With every coordinator dead the shard does everything; with them alive it reports, obeys and follows."""
import os
import subprocess
from concurrent import futures

import grpc

from shards import PROTO_ROOT, PROTOC, World, check, coordinators, need, run_cases, wait_for
from contracts import load  # shards says where it is

COORDINATOR, FLEET = coordinators.COORDINATOR, coordinators.FLEET

DEAD = "127.0.0.1:9"
LABEL = "topology.kubernetes.io/zone"


def all_dead():
    """No coordinator answers, ever: it comes up ready, buys, drains and gives back."""
    with World(machines=60, options=["--coordinator-addr", DEAD, "--coordinator-heartbeat-interval", "50ms",
                                     "--reclaim-cap-fraction", "1", "--no-empty-rollup-guard",
                                     "--idle-hold-spot", "1s", "--idle-hold-on-demand", "1s"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 5)])
            world.wait_configured("cluster-a", 5)
            a.rollup([need(16 * 1)])
            world.wait_configured("cluster-a", 1)
            wait_for("given back", lambda: not world.machines("Idle", "Draining", "Deleting"))
        shard.wait_metric("muster_shard_report_failures_total", 3)
        check(shard.metric("muster_shard_reports_total") == 0, "nobody took a report")
        check(shard.page("/readyz")[0] == 200, "ready all the time")


def alive():
    """Reports and domains flow, and a new leader is followed."""
    with coordinators.Cluster(3).start() as fleet, World(machines=60) as world:
        fleet.formed()
        world.options += ["--coordinator-addr", ",".join(node.grpc for node in fleet.nodes),
                          "--coordinator-heartbeat-interval", "50ms", "--incremental-reconcile"]
        shard = world.shard.start().wait_ready()

        def report(among=None):
            """The newest; another leader has none until the next one comes."""
            return wait_for("a report", lambda: fleet.ask(COORDINATOR + "ListShardReports", among, shard_id="shard-0").reports)[0]
        wait_for("its report", lambda: report().summary.total_machines == 60)
        check(report().summary.free_machines == 60, f"{report()}")
        check(fleet.ask(COORDINATOR + "ListShards").shards[0].address == shard.grpc, "how it is reached")
        own = len([m for m in world.machines() if m["zone"] == "eu-1b"])
        check(0 < own < 60, f"{own} machines in the domain")
        fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="eu-1b", shard_id="shard-0")
        wait_for("the shard to know only its own", lambda: report().summary.total_machines == own)
        # To take the last one away is no gift: nothing is its own, and it does not buy everywhere.
        fleet.ask(COORDINATOR + "UnassignDomain", topology_key=LABEL, topology_value="eu-1b")
        wait_for("nothing is its own", lambda: report().summary.total_machines == 0)
        wait_for("said", lambda: "this shard has no domain left: it buys nothing" in shard.text())
        with world.operator("cluster-a") as a:
            a.rollup([need(16)])
            shard.wait_metric("shortfalls")
            check(not world.provider.control("journal"), "nothing was bought")
        # No delta names what was listed long ago: the shard asks for everything once more.
        fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="eu-1b", shard_id="shard-0")
        wait_for("the shard to know only its own", lambda: report().summary.total_machines == own)
        with world.operator("cluster-a") as a:
            a.rollup([need(1 << 20)])  # more than there is: all of the domain, and nothing else
            wait_for("shortfalls in the report", lambda: report().shortfalls)
            world.settled()
            zones = {m["zone"] for m in world.machines("Configured")}
            check(zones == {"eu-1b"}, f"bought in {zones}")
            leader = fleet.leader()
            leader.kill()
            among = fleet.others(leader)
            fleet.leader(among)
            taken = shard.metric("muster_shard_reports_total")
            shard.wait_metric("muster_shard_reports_total", taken + 3)
            check(report(among).summary.total_machines == own, f"the new leader knows: {report(among)}")

            # The three that are not built are refused by name.
            def refused():
                """Said again when a leader of its own has forgotten it."""
                fleet.ask(FLEET + "QueueInstruction", among, shard_ids=["shard-0"],
                          instruction={"instruction_id": "move", "reassign_speculative": {"machine_ids": ["m"]}})
                wait_for("taken off", lambda: not fleet.ask(FLEET + "ListInstructions", among, shard_id="shard-0").instructions)
                return "ReassignSpeculative is not implemented" in shard.text()
            wait_for("refused by name", refused)
        shard.kill()
        for node in among:
            node.kill()
        shard.start().wait_ready()  # its domain is on disk: it does not take the rest for its own
        with world.operator("cluster-a") as a:
            a.rollup([need(1 << 20)])
            world.settled()
            zones = {m["zone"] for m in world.machines("Configured")}
            check(zones == {"eu-1b"}, f"after the restart: {zones}")


def restored():
    """Coordinators restored from a backup that is older than what the shard has heard: it obeys them, without a restart."""
    with coordinators.Cluster(1, join=False).start() as fleet, World(machines=60) as world:
        node = fleet.nodes[0]
        world.options += ["--coordinator-addr", node.grpc, "--coordinator-heartbeat-interval", "50ms"]
        shard = world.shard.start().wait_ready()

        def machines():
            reports = fleet.ask(COORDINATOR + "ListShardReports", shard_id="shard-0").reports
            return reports[0].summary.total_machines if reports else -1
        wait_for("its report", lambda: machines() == 60)
        archive = os.path.join(fleet.dir, "fleet.muster")
        subprocess.run([coordinators.MUSTERCTL, "backup", archive, "--coordinator", node.grpc], check=True,
                       capture_output=True)
        for _ in range(3):  # each start is a later term, and the shard hears of it
            node.stop()
            node.start()
            wait_for("its report", lambda: machines() == 60)
        term = node.state().term
        node.stop()
        subprocess.run([coordinators.MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise",
                        node.raft, "--yes"], check=True, capture_output=True)
        node.start()
        fleet.leader()
        own = len([m for m in world.machines() if m["zone"] == "eu-1b"])
        fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="eu-1b", shard_id="shard-0")
        wait_for("the shard to carry out the instruction", lambda: machines() == own)
        check("of an older term" not in shard.text(), "no answer was ignored")
        check(node.state().term > term, f"term {node.state().term} after {term}")


class Foreign:
    """A coordinator on grpcio, from the contract, that gives the answers it was given, one a report, and then empty ones."""

    def __init__(self, *answers):
        _, message = load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto")
        self.Report, self.Ack = (message("bigfleet.v1alpha1." + name) for name in ("ShardReport", "ReportAck"))
        self.answers, self.reports = list(answers), []
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "bigfleet.v1alpha1.Coordinator", {"ReportShard": grpc.unary_unary_rpc_method_handler(
                self.report, self.Report.FromString, self.Ack.SerializeToString)}),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def report(self, report, context):
        self.reports.append(report)
        answer = self.answers.pop(0) if self.answers else {}
        if answer is None:
            context.abort(grpc.StatusCode.INTERNAL, "by order of the test")
        return self.Ack(**{"coordinator_term": 0, "acknowledged": True, **answer})

    def wait(self, count):
        wait_for(f"{count} reports", lambda: len(self.reports) >= count)

    def acks(self, at):
        """(id, outcome, reason) of a report, from 0."""
        self.wait(at + 1)
        return [(ack.instruction_id, self.Report.DESCRIPTOR.file.message_types_by_name["InstructAck"].enum_types[0]
                 .values_by_number[ack.outcome].name, ack.reason) for ack in self.reports[at].instruction_acks]


def domain(name, term, zone, verb="assign_domain"):
    return {"instruction_id": name, "coordinator_term": term, verb: {"topology_key": LABEL, "topology_value": zone}}


def a_foreign_coordinator():
    """What it says is fenced by term, done once, and acked until that was heard; what is not understood is refused."""
    for _ in range(5):  # a machine that stopped for the 5 s of a report loses the test an answer
        if heard_every_answer():
            return
    check(False, "no report was answered in time")


def heard_every_answer():
    foreign = Foreign(
        {"coordinator_term": 5, "instructions": [
            domain("i-1", 5, "eu-1b"), domain("", 5, "eu-1c"), domain("late", 4, "eu-1c"),
            {"instruction_id": "odd", "coordinator_term": 5},
            {"instruction_id": "move", "coordinator_term": 5, "reassign_speculative": {}},
            {"instruction_id": "drain", "coordinator_term": 5, "cross_shard_drain": {}},
            {"instruction_id": "give", "coordinator_term": 5, "transfer_ownership": {}}]},
        None,  # what was acked with this report was not heard
        {"coordinator_term": 5, "instructions": [domain("i-1", 3, "eu-1b")]},  # sent again, under an old term
        {"coordinator_term": 4, "instructions": [domain("i-2", 9, "eu-1c")]},  # all of it is of an old leader
        {"instructions": [domain("i-3", 6, "eu-1c")]},  # one that does not say its term: each instruction does
        {"coordinator_term": 5, "instructions": [domain("i-4", 7, "eu-1a")]})
    with World(machines=60) as world:
        world.options += ["--coordinator-addr", foreign.address, "--coordinator-heartbeat-interval", "50ms"]
        shard = world.shard.start().wait_ready()
        said = [("i-1", "OUTCOME_ACCEPTED", ""), ("late", "OUTCOME_REJECTED_STALE", "term 4 is below 5"),
                ("odd", "OUTCOME_REJECTED_INVALID", "unknown payload"),
                ("move", "OUTCOME_REJECTED_INVALID", "ReassignSpeculative is not implemented by this shard"),
                ("drain", "OUTCOME_REJECTED_INVALID", "CrossShardDrain is not implemented by this shard"),
                ("give", "OUTCOME_REJECTED_INVALID", "TransferOwnership is not implemented by this shard")]
        foreign.wait(8)
        if shard.metric("muster_shard_report_failures_total") != 1:
            return False
        for at, want in enumerate(([], said, said, [("i-1", "OUTCOME_ACCEPTED", "duplicate-redelivery")], [],
                                   [("i-3", "OUTCOME_ACCEPTED", "")], [])):
            check(foreign.acks(at) == want, f"report {at}: {foreign.acks(at)}")
        first = foreign.reports[0]
        # It has everything until it is given a domain, and says which process it is.
        check((first.scope, foreign.reports[7].scope) == (1, 2), f"{first.scope} {foreign.reports[7].scope}")
        check({report.process_id for report in foreign.reports} == {first.process_id} and first.process_id, "one process")
        check(first.shard_id == "shard-0" and first.shard_epoch == 1 and first.shard_address == shard.grpc, f"{first}")
        check([report.cycle for report in foreign.reports[:4]] == [1, 2, 3, 4], "reports are counted")
        own = len([m for m in world.machines() if m["zone"] in ("eu-1b", "eu-1c")])
        wait_for("both domains are its own, and no other", lambda: foreign.reports[-1].summary.total_machines == own)
        with world.operator("cluster-a") as a:
            check(a.wait_acks("hello")[0].ack.coordinator_term == 6, "operators hear of the highest term")
        check("ReportShard failed" in shard.text(), "the failure is logged")
    foreign.server.stop(None).wait()
    return True


if __name__ == "__main__":
    run_cases([all_dead, alive, restored, a_foreign_coordinator])
