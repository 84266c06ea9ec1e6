#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/python/cluster_operator.py before the real shard: what docs/operators.md asks people to copy works."""
import json
import os
import subprocess
import sys

from operators import PROTO_ROOT, OperatorWorld, Shard, check, run_cases, wait_for

EXAMPLE = os.path.join(PROTO_ROOT, "../examples/python/cluster_operator.py")


class Example(Shard):
    """The script as a process; it has no pages."""

    def __init__(self, world, cluster, number):
        super().__init__(world, "example-" + cluster, number)
        self.cluster, self.demand = cluster, os.path.join(world.dir, f"example-{number}.json")

    def say(self, *loads):
        with open(self.demand + ".new", "w", encoding="utf-8") as file:
            json.dump(loads, file)
        os.rename(self.demand + ".new", self.demand)

    def start(self, *more):
        words = [sys.executable, EXAMPLE, "--proto", PROTO_ROOT, "--shard", self.world.shard.grpc, "--cluster", self.cluster,
                 "--demand", self.demand, *more]
        if self.world.tls:
            words += ["--tls", os.path.join(self.world.tls, "cluster-" + self.cluster), "--ca",
                      os.path.join(self.world.tls, "ca.pem")]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdout=log, stderr=log)
        return self


def the_example_works(tls=False):
    """Demand met, edited, released; a blob for each machine; it comes back after the shard was away."""
    with OperatorWorld(machines=40, tls=tls) as world:
        world.shard.start().wait_ready()
        example = Example(world, "cluster-a", 1)
        world.others.append(example)
        example.say({"count": 2, "cpu": 16, "types": ["m5.4xlarge"]}, {"cpu": 16, "types": ["m5.4xlarge"], "priority": 5})
        example.start()
        world.wait_configured("cluster-a", 3)
        _, rows = world.inspect("cluster-a")
        check(sorted(row.need.aggregate_resources["cpu"] for row in rows) == ["16", "32"], f"two rows: {rows}")
        blobs = [line["blob"] for line in world.provider.control("journal") if line["kind"] == "Configure"]
        check(blobs and all("join cluster-a" in blob for blob in blobs), f"{blobs}")
        example.say({"count": 4, "cpu": 16, "types": ["m5.4xlarge"], "same": "topology.kubernetes.io/zone", "group": "g",
                     "interruption_penalty": 3})
        wait_for("one row", lambda: len(world.inspect("cluster-a")[1]) == 1)
        row = world.inspect("cluster-a")[1][0]
        check(row.need.interruption_penalty_bucket == 5 and row.need.group == "topology.kubernetes.io/zone\0g", f"{row}")
        world.wait_configured("cluster-a", 4)
        world.shard.kill()
        world.shard.start().wait_ready()
        wait_for("it came back", lambda: world.shard.metric("active_sessions") == 1)
        example.say()
        world.wait_configured("cluster-a", 0)
        check("Traceback" not in example.text(), example.text())


def the_example_works_under_tls():
    """The same with certificates."""
    the_example_works(tls=True)


if __name__ == "__main__":
    run_cases([the_example_works, the_example_works_under_tls])
