#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines that the provider has no stock of: the next kind is bought, and a Need that waits for them says why."""
import json
import os
import subprocess

from shards import MUSTER, MUSTERCTL, PROTO_ROOT, PROTOC, World, check, need, run_cases, wait_for
from provider import STATES
from provider_host import Api, Host

CATALOGUE = """
zones = ["z1"]
[latency]
create = "20ms"
configure = "20ms"
drain = "20ms"
delete = "20ms"
[[pool]]
name = "cheap"
type = "m5.4xlarge"
capacity = "spot"
price = 0.10
count = 400
quota = 0
resources = { cpu = "16", memory = "64Gi" }
[[pool]]
name = "dear"
type = "m6.4xlarge"
capacity = "spot"
price = 0.11
count = 20
resources = { cpu = "16", memory = "64Gi" }
"""


class Sold:
    def __init__(self, directory):
        self.host = Host(MUSTER, directory, catalogue=CATALOGUE, machines=420).start()
        self.api, self.address = Api(PROTOC, PROTO_ROOT, self.host.address), self.host.address

    def control(self, op, states=()):
        if op != "machines":
            return {}
        listed = self.api.call("List", states=[STATES.index(state) for state in states])
        return [{"id": m.id, "state": STATES[m.state], "cluster": m.cluster} for m in getattr(listed, "machines", [])]

    def kill(self):
        self.api.close()
        self.host.kill()


class SoldWorld(World):
    def __init__(self, options):
        super().__init__(options=["--cycle-interval", "100ms", *options])
        self.provider.kill()
        self.provider = Sold(self.dir)

    def creates(self):
        return [line for line in self.shard.audit() if line["kind"] == "Provision"]


def the_next_kind_is_bought():
    """400 machines at $0.10 that cannot be had, 20 at $0.11: one refused Create, then one that costs $0.11"""
    with SoldWorld([]) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16, types=("m5.4xlarge", "m6.4xlarge"))])
            world.wait_configured("cluster-a", 1)
            world.settled(quiet=30)
            tries = world.creates()
            check(len(tries) == 2, f"one refused, one bought: {tries}")
            check(world.machines("Configured")[0]["id"].startswith("dear"), f"{world.machines('Configured')}")
            check(not world.machines("Failed"), "no slot is Failed")
            check(world.shard.metric("muster_shard_pools_sold_out") == 1, "one pool")
            check(world.shard.metric("muster_shard_stock_refusals_total") == 1, "one refusal")
            check(world.shard.metric("shortfalls") == 0, "nobody lacks a machine")
        check(world.shard.stop() == 0, "ends in order")


def who_waits_for_stock_is_told_so():
    """A Need that only the sold-out pool could serve: a shortfall with its reason, also after a restart"""
    with SoldWorld(["--rest-first", "20m", "--rest-most", "1h"]) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(32)])
            wait_for("a shortfall", lambda: world.shard.metric("shortfalls") == 1)
            world.settled(quiet=30)
            check(len(world.creates()) == 2, f"not again: {world.creates()}")
            done = subprocess.run([MUSTERCTL, "need", "list", "--shard", world.shard.grpc], capture_output=True)
            check("m5.4xlarge Spot z1: sold out, next try in" in done.stdout.decode("utf-8", "replace"), f"{done}")
            pools = json.loads(world.shard.page("/rests")[1])["pools"]
            check(len(pools) == 1 and pools[0]["instance_type"] == "m5.4xlarge" and pools[0]["refusals"] == 1, f"{pools}")
        check(world.shard.stop() == 0, "ends in order")
        check(os.path.exists(os.path.join(world.shard.dir, "sold-out")), "kept")
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(32)])
            wait_for("the same shortfall", lambda: world.shard.metric("shortfalls") == 1)
            world.settled(quiet=30)
            check(len(world.creates()) == 2, f"not tried by the new process: {world.creates()}")
        check(world.shard.stop() == 0, "ends in order")


run_cases([the_next_kind_is_bought, who_waits_for_stock_is_told_so])
