#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shard as a process: it buys, drains and gives back, and says so to everybody."""
from shards import CONFIGURED, World, check, need, run_cases, wait_for


def buys_and_gives_back():
    """Demand becomes machines, less demand gives them back, and each step is reported, counted and audited."""
    with World(machines=60, options=["--reclaim-cap-fraction", "1", "--idle-hold-on-demand", "1s",
                                     "--idle-hold-spot", "1s", "--no-empty-rollup-guard"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.wait_acks("hello")
            a.rollup([need(16 * 6)])
            a.wait_acks("rollup")
            world.wait_configured("cluster-a", 6)
            world.settled()
            bought = {m["id"] for m in world.machines("Configured")}
            check(len(bought) == 6, "no more than was asked for")
            for machine in bought:
                wait_for(f"the operator heard of {machine}", lambda machine=machine: a.states(machine)[-1:] == [(machine, CONFIGURED)])
            header, rows = world.inspect()
            check(header.total_needs == 1 and rows[0].satisfied, f"inspected: {rows}")
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
            wait_for("reclaims were sent", lambda: len([f for f in a.frames if f.HasField("reclaim_instruction")]) == 4)
            wait_for("given back", lambda: not world.machines("Idle", "Draining", "Deleting"))
            world.settled()
        audit = shard.audit()
        check({line["outcome"] for line in audit} == {"success"}, f"outcomes: {audit}")
        kinds = sorted({line["kind"] for line in audit})
        check(kinds == ["Delete", "Provision", "Reclaim"] or kinds == ["Bootstrap", "Delete", "Provision", "Reclaim"],
              f"kinds: {kinds}")
        check(shard.stop() == 0, "ends in order")


def latency_changes_no_total():
    """However many cycles a machine takes to come and to go, the same calls are made: nothing is bought twice meanwhile."""
    totals = {}
    for cycles in (0, 4, 8):
        slow = {"Create": 200 * cycles, "Configure": 100 * cycles, "Drain": 150 * cycles, "": 0}
        with World(machines=120, complete_ms=slow,
                   options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
            world.shard.start().wait_ready()
            with world.operator("cluster-a") as a, world.operator("cluster-b") as b:
                # one cluster at a time: two that change at once may meet in one cycle or in two
                for wants_a, wants_b in ((5, 0), (5, 4), (9, 4), (9, 1)):
                    a.rollup([need(16 * wants_a, priority=1000)])
                    b.rollup([need(16 * wants_b)] if wants_b else [])
                    world.wait_configured("cluster-a", wants_a)
                    world.wait_configured("cluster-b", wants_b)
                    world.settled(3)
            made = [entry["kind"] for entry in world.provider.control("journal")]
            totals[cycles] = {kind: made.count(kind) for kind in ("Create", "Configure", "Drain")}
            check(world.provider.control("counts")["Failed"] == 0, "nothing failed")
    print(f"# calls by cycles that a machine takes to be created: {totals}", flush=True)
    check(totals[0] == totals[4] == totals[8] == {"Create": 13, "Configure": 13, "Drain": 3}, f"{totals}")


def s5_twelve_and_then_two():
    """An asynchronous provider and eight workers: twelve come, none fails; ten go, and none is left on its way."""
    with World(machines=60, complete_ms=300, options=["--execute-concurrency", "8", "--reclaim-cap-fraction", "1",
                                                      "--no-empty-rollup-guard"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 12)])
            world.wait_configured("cluster-a", 12)
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
            wait_for("none is left Draining", lambda: not world.machines("Draining"))
            check(not world.machines("Failed"), "none failed")
            check(shard.metric("action_execute_outcomes_total") ==
                  shard.metric("action_execute_outcomes_total", outcome="success"), "no action ended badly")


if __name__ == "__main__":
    run_cases([buys_and_gives_back, latency_changes_no_total, s5_twelve_and_then_two])
