#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A machine is given away when its operator has drained it or the grace has ended: with the processes that ship, a slow
drain command, kill -9 of operator and shard, and an operator that does not report its drains (the original's)."""
import os
import time

import grpc
from operators import PROTO_ROOT, PROTOC, OperatorWorld, check, need, request, run_cases, wait_for
from contracts import load, methods_of  # of tests/lib, which the line above put on the path

CYCLES = 5        # that the shard decides while the machine stays where it is
GRACE = 10        # seconds, the shortest there is: the priorities lie more than 900,000 apart
LOW, HIGH, HIGHEST = 0, 1000, 2000000


def view(world, machine):
    files, message = load(PROTOC, PROTO_ROOT, "muster/v1/shard.proto")
    path = "muster.v1.ShardView/Machine"
    method = methods_of(files)[path]
    with grpc.insecure_channel(world.shard.grpc) as channel:
        return channel.unary_unary("/" + path, message(method.input_type).SerializeToString,
                                   message(method.output_type).FromString)(message(method.input_type)(machine_id=machine), timeout=90)


def script(world, name, text):
    path = os.path.join(world.dir, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def types(world):
    return sorted({m["type"] for m in world.machines()})


def one(world, priority):
    """One machine, of whatever there is."""
    return request("one", 1, types(world), 1, priority=priority)


class Held:
    """A cluster whose drain command ends when the test says so; one machine, and nothing else is left."""

    def __init__(self, world, *options):
        self.world, self.go = world, os.path.join(world.dir, "go")
        self.ran = os.path.join(world.dir, "ran")
        command = script(world, "drain", f'echo "$1" >> {self.ran}\nwhile [ ! -e {self.go} ]; do sleep 0.05; done\n')
        world.shard.start(*options).wait_ready()
        self.a = world.muster_operator("cluster-a", [one(world, LOW)])
        self.a.start("--drain-command", command).wait_ready()
        self.options = ("--drain-command", command)
        world.wait_configured("cluster-a", 1)
        self.a.wait_ready_nodes(1)
        self.machine = world.machines("Configured")[0]["id"]

    def wait_ran(self, times=1):
        def look():
            if not os.path.exists(self.ran):
                return False
            with open(self.ran, encoding="utf-8") as file:
                return len(file.readlines()) >= times
        wait_for("the drain command runs", look)

    def release(self):
        with open(self.go, "w", encoding="utf-8"):
            pass

    def drains(self):
        return sum(line["kind"] == "Drain" for line in self.world.provider.control("journal"))

    def stays(self):
        """For some cycles the provider hears nothing of the machine, and nothing holds a place among the actions."""
        shard = self.world.shard
        began = shard.metric("cycle_duration_seconds_count")
        wait_for("cycles", lambda: shard.metric("cycle_duration_seconds_count") >= began + CYCLES)
        check(self.drains() == 0, f"the provider was asked to drain: {self.world.provider.control('calls')}")
        machines = self.world.machines("Configured")
        check([(m["id"], m["cluster"]) for m in machines] == [(self.machine, "cluster-a")],
              f"given away before it was drained: {machines}")


def a_preempted_machine_waits_for_the_drain_command():
    """A machine that another cluster preempts stays until the drain command ended, and other actions go on."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world, "--execute-concurrency", "1")
        b = world.muster_operator("cluster-b", [one(world, HIGH)])
        b.start().wait_ready()
        held.wait_ran()
        held.stays()
        shard = world.shard
        shard.wait_metric("muster_shard_drains_waiting")
        check(shard.metric("execute_inflight") == 0, "the wait holds no place")
        said = view(world, held.machine)
        check(said.state == "Draining" and said.operator_drains and not said.operator_away and
              0 < said.operator_left_ms <= 600000, f"{said}")
        world.provider.control("add", count=1, idle=1.0)
        c = world.muster_operator("cluster-c", [one(world, LOW)])
        c.start().wait_ready()
        wait_for("other actions go on", lambda: len(world.machines("Configured")) == 2)
        held.release()
        world.wait_configured("cluster-b", 1)
        check(held.drains() == 1, "one call")
        check(shard.metric("muster_shard_drain_waits_total", result="drained") == 1, "counted")
        wait_for("nothing is left of the order", lambda: held.a.orders() == 0)


def a_reclaimed_machine_waits_for_the_drain_command():
    """So does a machine that its own cluster does not need any more."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world)
        held.a.say()
        held.wait_ran()
        held.stays()
        held.release()
        world.wait_configured("cluster-a", 0)
        check(held.drains() == 1, "one call")


def the_grace_ends_the_wait():
    """A drain command that never ends holds the machine until the grace ends, and no longer."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world)
        b = world.muster_operator("cluster-b", [one(world, HIGHEST)])
        b.start().wait_ready()
        held.wait_ran()
        began = time.monotonic()
        world.wait_configured("cluster-b", 1)
        # The shard's grace began before the command: less what that took.
        check(time.monotonic() - began > GRACE - 5, "not before the grace ended")
        check(world.shard.metric("muster_shard_drain_waits_total", result="grace_ended") == 1, "counted")
        check("grace period ended before the operator reported the machine drained" in world.shard.text(), "said")


def an_operator_that_was_killed_has_time_to_return():
    """kill -9 of the operator, before the drain began and within it: the machine waits for the next process."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world, "--operator-return-timeout", "1h")
        held.a.kill()
        b = world.muster_operator("cluster-b", [one(world, HIGH)])
        b.start().wait_ready()
        world.shard.wait_metric("muster_shard_drains_waiting")
        held.stays()
        check("drain waits for an operator that is disconnected" in world.shard.text(), "said")
        held.a.start(*held.options)
        held.wait_ran()
        held.stays()
        held.a.kill()
        held.stays()
        check("operator disconnected while it drains machines" in world.shard.text(), "said")
        held.a.start(*held.options)
        held.wait_ran(2)
        held.release()
        world.wait_configured("cluster-b", 1)
        check(held.drains() == 1, "one call")


def an_operator_that_does_not_return_is_not_waited_for():
    """After --operator-return-timeout the provider drains the machine."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world, "--operator-return-timeout", "1s")
        b = world.muster_operator("cluster-b", [one(world, HIGH)])
        b.start().wait_ready()
        held.wait_ran()
        held.a.kill()
        world.wait_configured("cluster-b", 1)
        check(world.shard.metric("muster_shard_drain_waits_total", result="operator_away") == 1, "counted")
        check("operator did not reconnect in time to drain a machine" in world.shard.text(), "said")


def an_operator_that_does_not_report_is_told_and_not_waited_for():
    """The original's operator: the drain begins at once, as ever."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(1, types(world), {"cpu": "1"}, priority=LOW)])
            world.wait_configured("cluster-a", 1)
            with world.operator("cluster-b") as b:
                b.rollup([need(1, types(world), {"cpu": "1"}, priority=HIGH)])
                given = a.wait(lambda f: f.HasField("reclaim_instruction"))[0].reclaim_instruction
                check(len(given.instruction_id) == 16 and given.grace_period_seconds == 600, f"{given}")
                world.wait_configured("cluster-b", 1)
            check(not any(f.ack.takes_drain_reports for f in a.frames), "and is answered as ever")
        check(world.shard.metric("muster_shard_drain_waits_total") == 0, "nobody waited")
        check(not os.path.exists(os.path.join(world.shard.dir, "drain-reports")), "nor does a later process wait")


def a_shard_that_was_killed_goes_on():
    """kill -9 of the shard while it waits, also when the demand that took the machine is gone: a drained machine is not left to its cluster."""
    with OperatorWorld(machines=1, idle=1.0) as world:
        held = Held(world)
        b = world.muster_operator("cluster-b", [one(world, HIGH)])
        b.start().wait_ready()
        held.wait_ran()
        world.shard.wait_metric("muster_shard_drains_waiting")
        check(os.path.exists(os.path.join(world.shard.dir, "drain-reports")), "the next process knows to wait")
        b.kill()
        world.shard.kill()
        world.shard.start().wait_ready()
        world.shard.wait_metric("active_sessions")
        wait_for("the operator reports what it drains", lambda: "resumed a drain" in world.shard.text())
        held.stays()
        world.shard.kill()
        held.release()
        wait_for("drained while the shard is away", lambda: held.a.metric("muster_operator_reclaims_drained_total") == 1)
        world.shard.start().wait_ready()
        wait_for("the machine is drained for good", lambda: held.drains() == 1)
        world.wait_configured("cluster-a", 1)
        held.a.wait_ready_nodes(1)
        wait_for("nothing is left of the order", lambda: held.a.orders() == 0)
        world.settled()
        check(held.drains() == 1, "and serves on")


if __name__ == "__main__":
    run_cases([a_preempted_machine_waits_for_the_drain_command, a_reclaimed_machine_waits_for_the_drain_command,
               the_grace_ends_the_wait, an_operator_that_was_killed_has_time_to_return,
               an_operator_that_does_not_return_is_not_waited_for,
               an_operator_that_does_not_report_is_told_and_not_waited_for, a_shard_that_was_killed_goes_on])
