#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The closed loop with our own provider: demand becomes its machines, also when it is killed on the way."""
from shards import MUSTER, PROTO_ROOT, PROTOC, World, check, need, run_cases, wait_for
from provider import STATES
from provider_host import FAST, Api, Host

# On the way long enough to be met there: operations are under way when the provider dies. One Create in four fails;
# nothing is repaired by itself, so what failed must be given back.
SLOW = 'repair = "10d"\n' + FAST.replace("20ms", "400ms").replace("[[pool]]", "[fails]\ncreate = 0.25\n[[pool]]")


class Reference:
    """The reference provider behind the side channel that a World uses."""

    def __init__(self, directory, machines):
        self.host = Host(MUSTER, directory, catalogue=SLOW, machines=machines).start()
        self.api, self.address = Api(PROTOC, PROTO_ROOT, self.host.address), self.host.address

    def control(self, op, states=()):
        check(op == "machines", op)
        listed = self.api.call("List", states=[STATES.index(state) for state in states])
        return [{"id": m.id, "state": STATES[m.state], "cluster": m.cluster} for m in getattr(listed, "machines", [])]

    def kill(self):
        self.api.close()
        self.host.kill()


class OurWorld(World):
    def __init__(self, machines, options):
        super().__init__(options=options)
        self.provider.kill()
        self.provider = Reference(self.dir, machines)


def demand_becomes_machines():
    """Ours for theirs: two clusters get what they want, a killed provider costs nothing, less demand gives it back"""
    with OurWorld(40, ["--reclaim-cap-fraction", "1", "--idle-hold-on-demand", "1s", "--no-empty-rollup-guard",
                       "--rest-first", "100ms", "--rest-most", "1s"]) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a, world.operator("cluster-b") as b:
            a.rollup([need(16 * 8)])
            b.rollup([need(16 * 5, priority=1000)])
            wait_for("operations under way", lambda: world.machines("Creating"))
            world.provider.host.kill()
            world.provider.host.start()
            world.wait_configured("cluster-a", 8)
            world.wait_configured("cluster-b", 5)
            world.settled()
            check(len(world.machines("Configured")) == 13, "no more than was asked for")
            for m in world.provider.api.ok("List", states=[STATES.index("Configured")]).machines:
                check(len(m.shard_metadata) >= 5, f"what the shard said is kept: {m}")
            b.rollup([])
            world.wait_configured("cluster-b", 0)
            wait_for("given back", lambda: len(world.machines("Speculative")) == 32)
            world.settled()
            check(not world.machines("Failed"), f"{world.machines('Failed')}")
        check(world.shard.stop() == 0, "ends in order")


run_cases([demand_becomes_machines])
