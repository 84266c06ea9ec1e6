#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What machines run decides which of them go: real processes, the file source with `machines`."""
import json

from operators import OperatorWorld, check, request, run_cases, wait_for


def machine(name, evictable=0, held=0, free=0):
    amounts = {"requested": {"cpu": evictable}, "largest": {"cpu": 1}} if evictable else {}
    return {"machine": name, "evictable": evictable, "held": int(held), "free": {"cpu": free}, **amounts}


def say(operator, count, *machines):
    operator.write(json.dumps({"requests": [request("web", count)], "machines": list(machines)}))


def bound(world, count):
    """An operator with machines, and their names. It can state nothing before it has them."""
    operator = world.muster_operator("a", [request("web", count)]).start()
    operator.wait_ready_nodes(count)
    return operator, sorted(operator.nodes())


def empty_machines_go_and_held_ones_stay():
    """Empty machines go and machines with held pods stay."""
    with OperatorWorld(machines=40) as world:
        world.shard.start()
        operator, names = bound(world, 6)
        empty = {names[1], names[4]}
        say(operator, 0, *(machine(name, held=name not in empty) for name in names))
        operator.wait_ready_nodes(4)
        world.settled()
        check(set(operator.nodes()) == set(names) - empty, f"the empty ones went: {operator.nodes()}")
        say(operator, 0, *(machine(name, held=name != names[0]) for name in names))
        operator.wait_ready_nodes(3)
        check(names[0] not in operator.nodes(), "its last pod ended")
        say(operator, 0)
        operator.wait_ready_nodes(0)


def a_busy_machine_goes_when_its_pods_have_room():
    """A busy machine goes when its pods have room elsewhere."""
    with OperatorWorld(machines=40) as world:
        world.shard.start()
        operator, names = bound(world, 4)
        say(operator, 3, *(machine(name, evictable=2) for name in names))
        world.shard.wait_metric("muster_shard_reclaims_withheld_total")
        world.settled()
        check(len(operator.nodes()) == 4, "nobody has room")
        check("busy machines stay: their pods have no room elsewhere" in world.shard.text(), "and that is logged")
        say(operator, 3, *(machine(name, evictable=2, free=1) for name in names))
        operator.wait_ready_nodes(3)
        world.settled()
        check(len(operator.nodes()) == 3, "the demand is met by these")


def a_restart_takes_no_busy_machine():
    """A restart of shard and operator takes no busy machine."""
    with OperatorWorld(machines=40) as world:
        world.shard.start()
        operator, names = bound(world, 4)
        say(operator, 0, *(machine(name, held=1) for name in names))
        wait_for("reports", lambda: operator.metric("muster_operator_occupancy_machines") == 4)
        world.settled()
        for _ in range(3):
            world.shard.kill()
            operator.kill()
            world.shard.start()
            operator.start()
            operator.wait_ready_nodes(4)
            world.settled()
        check(sorted(operator.nodes()) == names, "all serve")
        check(not [line for line in world.shard.audit() if line["kind"] == "Reclaim"], "nothing was reclaimed")


if __name__ == "__main__":
    run_cases([empty_machines_go_and_held_ones_stay, a_busy_machine_goes_when_its_pods_have_room, a_restart_takes_no_busy_machine])
