#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment: the next start finds everything in the provider's List and acts twice on nothing."""
import random
import shutil
import time

from shards import LONG, SEED, Cluster, Shard, World, check, need, run_cases

KILLS = 100 if LONG else 20
RNG = random.Random(SEED)
# What may follow what, of one machine: the journal has what the provider accepted.
AFTER = {None: {"Create"}, "Create": {"Configure", "Delete"}, "Configure": {"Drain"}, "Drain": {"Configure", "Delete"},
         "Delete": {"Create"}}


def judge_journal(journal):
    """No call was accepted that its predecessor does not allow: a repeat is answered, not done again."""
    last = {}
    for entry in journal:
        machine, kind = entry["machine"], entry["kind"]
        check(kind in AFTER[last.get(machine)], f"{machine}: {kind} after {last.get(machine)}")
        last[machine] = kind


def killed_at_any_moment():
    """Killed again and again under load, it finds its machines and their protection, and doubles nothing."""
    slow = {"Create": 300, "Configure": 200, "Drain": 200, "Delete": 100, "": 0}
    with World(machines=120, complete_ms=slow, latency_ms={"Create": 30, "Configure": 30, "Drain": 30, "List": 10, "": 0},
               options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard", "--idle-hold-spot", "1s",
                        "--idle-hold-on-demand", "1s",
                        "--execute-timeout", "200ms"]) as world:  # a restarted process acts after that
        names = ["cluster-a", "cluster-b", "cluster-c"]
        clusters = [Cluster(world, name) for name in names]
        try:
            for round_ in range(KILLS):
                world.shard.start()
                for n, cluster in enumerate(clusters):
                    cluster.say(need(16 * RNG.randrange(1, 9), priority=1000 * n, interruption=3 + n))
                if RNG.random() < 0.7:
                    world.shard.wait_ready()
                time.sleep(RNG.random())
                world.shard.kill()
            world.shard.start().wait_ready()
            for n, cluster in enumerate(clusters):
                cluster.say(need(16 * 4, priority=1000 * n, interruption=3 + n))
            for name in names:
                world.wait_configured(name, 4)
            world.settled()
            for n, name in enumerate(names):
                bound = world.machines("Configured", cluster=name)
                check(len(bound) == 4, f"{name} has {len(bound)}")
                for machine in bound:
                    priority = machine["metadata"].get("bigfleet.lucy.sh/assigned-priority")
                    check(priority == str(1000 * n), f"{name}: bought at priority {priority}")
            counts = world.provider.control("counts")
            check(counts["Failed"] == 0, f"{counts}")
            journal = world.provider.control("journal")
            judge_journal(journal)
            check(int(world.shard.metric("machines_rejected_total")) == 0, "records refused")
            print(f"# {KILLS} kills, {len(journal)} calls accepted", flush=True)
        finally:
            for cluster in clusters:
                cluster.stop()


def a_deposed_shard_is_fenced():
    """An older start that wakes up is refused by the provider, says so, and changes nothing."""
    with World(machines=40, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
        old = world.shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 3)])
            world.wait_configured("cluster-a", 3)
            world.settled()
        old.pause()
        new = world.shard = Shard(world, number=1)
        new.dir = old.dir + "-copy"
        shutil.copytree(old.dir, new.dir)
        new.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([])
            world.wait_configured("cluster-a", 0)
            operator.rollup([need(16 * 3)])  # idle ones come first: now every one of them has met the newer start
            world.wait_configured("cluster-a", 3)
            world.settled()
        new.pause()
        world.others, world.shard = [new], old
        before = world.provider.control("journal")
        old.resume()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 1)])
            old.wait_metric("action_execute_outcomes_total", outcome="fenced")
        check("provider fenced this shard's mutation" in old.text(), "it says so")
        check(world.provider.control("journal") == before, "and nothing was done")


if __name__ == "__main__":
    run_cases([killed_at_any_moment, a_deposed_shard_is_fenced])
