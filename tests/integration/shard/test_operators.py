#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of a real shard: garbage, one that never reads, one that was away, all of them at once."""
import grpc

from shards import CONFIGURED, CONTRACT, DRAINING, IDLE, LONG, World, check, need, run_cases, wait_for

CODE = grpc.StatusCode
MANY = 5000 if LONG else 60


def garbage_of_an_operator():
    """What cannot be is refused and counted, the last good demand stays, and other clusters are served."""
    with World(machines=60) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a, world.operator("cluster-b") as b:
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)
            spoilt = [need("NaN"), need("-1"), need("1e40"), need(1, unit={"cpu": ""}), need(1, interruption=28),
                      need(1, ["x" * (10 << 20)]), need(1, ["a\nb"]), need(1, group="g" * 2000)]
            unknown = need(1)
            unknown.requirements[0].operator = 6
            for n, row in enumerate(spoilt + [unknown], 1):
                a.rollup([need(16 * 9), row])
                shard.wait_metric("rollups_rejected_total", n, cluster="cluster-a")
            a.send_bytes(b"")
            a.send_bytes(b"\x7a\x01x")
            a.answer("0" * 16, b"nobody asked")
            a.reclaim_ack("0" * 16)
            b.rollup([need(16)])
            world.wait_configured("cluster-b", 1)
            check(len([f for f in a.frames if f.ack.echo == "rollup"]) == 1, "none of it was acknowledged")
            check(len(world.machines("Configured", cluster="cluster-a")) == 2, "the last good demand stays")
            with world.operator("cluster-c", hello=False) as c:
                c.rollup([need(16)])
                check(c.wait_ended() == CODE.INVALID_ARGUMENT, f"{c.code}: {c.details}")
            a.send_bytes(b"\xff\xff\xff")
            check(a.wait_ended() == CODE.INVALID_ARGUMENT, f"{a.code}: {a.details}")
            b.rollup([need(16 * 2)])
            world.wait_configured("cluster-b", 2)
            check(len(world.machines("Configured", cluster="cluster-a")) == 2, "a cluster without a session keeps its own")


def one_that_never_reads():
    """Its demand is served as far as that goes without it, and everybody else's as ever."""
    with World(machines=60) as world:
        world.shard.start().wait_ready()
        with world.operator("deaf", reads=False) as deaf, world.operator("cluster-b") as b:
            for n in range(200):
                deaf.rollup([need(16, [f"type-{i}"], priority=i) for i in range(n % 10, 100)])
            b.rollup([need(16 * 3)])
            world.wait_configured("cluster-b", 3)
            b.wait_acks("rollup")
            check(deaf.code is None, f"it is still there: {deaf.code}: {deaf.details}")


def what_happened_while_it_was_away():
    """A new session hears of what is bound to its cluster, then of what has left it, and of nothing else."""
    with World(machines=60, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"],
               complete_ms={"Drain": 3600000}) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-b") as b, world.operator("cluster-a") as a:
            b.rollup([need(16)])
            a.rollup([need(16 * 4)])
            world.wait_configured("cluster-a", 4)
            world.wait_configured("cluster-b", 1)
            wait_for("it heard of all", lambda: len({m for m, state in a.states() if state == CONFIGURED}) == 4)
            a.rollup([need(16)])
            wait_for("three drain", lambda: len(world.machines("Draining")) == 3)
            a.wait(lambda f: f.node_state_update.state == DRAINING, 3)
        all_of_a = {machine for machine, state in a.states() if state == CONFIGURED}
        shard.wait_metric("session_lifecycle_total", 2, event="removed")
        shard.wait_metric("inventory_machines", 3, state="Draining")
        for machine in world.machines("Draining"):
            world.provider.control("place", machine=machine["id"], state="Idle")
        wait_for("drained while nobody listens", lambda: shard.metric("inventory_machines", state="Draining") == 0)
        bound = {m["id"] for m in world.machines("Configured", cluster="cluster-a")}
        with world.operator("cluster-a") as again:
            wait_for("it hears of all", lambda: {m for m, _ in again.states()} >= all_of_a)
            last = dict(again.states())
            check({m for m, state in last.items() if state == CONFIGURED} == bound, f"bound: {last}")
            check({m for m, state in last.items() if state == IDLE} >= all_of_a - bound, f"left: {last}")
            order = [state for _, state in again.states()]
            check(order == sorted(order, reverse=True), f"what is bound first: {again.states()}")
            check(set(last) == all_of_a, f"and nobody else's: {last}")


def all_of_them_at_once():
    """Many clusters, each with a machine; all operators hang up and come back: nothing is bought or lost."""
    with World(machines=2 * MANY, options=["--max-actions-per-cycle", str(4 * MANY),
                                           "--available-capacity-interval", "1h"]) as world:
        shard = world.shard.start().wait_ready()

        def come():
            operators = [world.operator(f"cluster-{n:05}") for n in range(MANY)]
            for operator in operators:
                operator.rollup([CONTRACT.need(cpu="1", unit={"cpu": "1"})])
            for operator in operators:
                operator.wait_acks("rollup")
            return operators
        operators = come()
        wait_for("each has one", lambda: len({m["cluster"] for m in world.machines("Configured")}) == MANY)
        world.settled(2)
        bought = {(m["id"], m["cluster"]) for m in world.machines("Configured")}
        for operator in operators:
            operator.close()
        operators = come()
        shard.wait_metric("active_sessions", MANY)
        for operator in operators:
            operator.wait(lambda f: f.node_state_update.state == CONFIGURED)
        world.settled(2)
        check({(m["id"], m["cluster"]) for m in world.machines("Configured")} == bought, "the same machines")
        for operator in operators:
            operator.close()


def what_its_needs_got():
    """An operator that takes it gets the status of each Need, also in its next session; no other operator does."""
    with World(machines=60) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a", hello=False) as a, world.operator("cluster-b") as b:
            a.hello(reports_drains=True, takes_need_status=True)
            a.rollup([need(16 * 2), need(16, ["no-such-type"])])
            for operator in a, b:
                operator.rollup([need(16 * 2), need(16, ["no-such-type"])])
            met = a.wait(lambda f: f.need_status.satisfied and f.need_status.ready == 2)[0].need_status
            check(not met.reason and not met.lacking and "m5.4xlarge" in met.fingerprint, f"{met}")
            lacks = a.wait(lambda f: f.need_status.reason == "NO_MATCHING_SUPPLY")[0].need_status
            check(not lacks.satisfied and lacks.lacking >= 1 and lacks.since_unix_ms > 0, f"{lacks}")
            world.wait_configured("cluster-b", 2)
            check(not [f for f in b.frames if f.HasField("need_status")], "b did not ask")
        with world.operator("cluster-a", hello=False) as a:
            a.hello(reports_drains=True, takes_need_status=True)
            again = a.wait(lambda f: f.need_status.reason == "NO_MATCHING_SUPPLY")[0].need_status
            check(again.fingerprint == lacks.fingerprint, f"{again}")


if __name__ == "__main__":
    run_cases([garbage_of_an_operator, one_that_never_reads, what_happened_while_it_was_away, all_of_them_at_once,
               what_its_needs_got])
