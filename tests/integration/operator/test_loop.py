#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole loop, all of it ours: a provider, a shard, two operators and a coordinator, each killed (-9) in turn.

With demand at rest a kill changes nothing: the same machines stay where they are. With demand that just changed it is met
all the same, exactly. What the provider lists is followed all the time: no machine is lost, in two places, or left between two
states, and the shard's audit has a line for whatever was done to one (but for what was under way when the shard itself died).
"""
import collections
import os
import random
import shutil
import tempfile
import threading
import time

import grpc

from operators import LONG, MUSTER, PROTO_ROOT, PROTOC, SEED, Operator, Shard, check, request, run_cases, wait_for
from provider_host import FAST, Api, Host  # shards says where it is
from shards import CONFIGURED, CONFIGURING, CREATING, DELETING, DRAINING, FAILED, SPECULATIVE, coordinators

MACHINES, SECONDS = 24, 600 if LONG else 0  # not long: each is killed twice
RNG = random.Random(SEED)
PASSING = (CREATING, CONFIGURING, DRAINING, DELETING)
# Slow enough that a kill finds something under way.
CATALOGUE = FAST.replace('create = "20ms"', 'create = "100ms..300ms"').replace('"20ms"', '"50ms..200ms"')
ACQUIRES, RELEASES = {"Bootstrap", "Provision"}, {"Reclaim", "Preempt"}


class Provider(Host):
    def __init__(self, world):
        super().__init__(MUSTER, world.dir, CATALOGUE, MACHINES)

    def running(self):
        return self.process is not None and self.process.poll() is None

    def api(self):
        return Api(PROTOC, PROTO_ROOT, self.address)


def listed(api):
    """id -> (state, cluster); None when nobody answers."""
    found = api.call("List")
    if isinstance(found, grpc.StatusCode):
        return None
    check(len({m.id for m in found.machines}) == len(found.machines) == MACHINES, f"each once: {len(found.machines)}")
    return {m.id: (m.state, m.cluster) for m in found.machines}


class Watcher(threading.Thread):
    """Follows the provider's List and keeps every machine's way: [(state, cluster, episode)]."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.ways, self.wrong, self.over = world, {}, None, threading.Event()
        self.api = world.provider.api()

    def run(self):
        while not self.over.wait(0.03):
            try:
                self.look()
            except Exception as error:  # pylint: disable=broad-except
                self.wrong = self.wrong or repr(error)

    def look(self):
        episode = self.world.episode
        for machine, now in (listed(self.api) or {}).items():
            way = self.ways.setdefault(machine, [])
            if not way or way[-1][:2] != now:
                way.append((*now, episode))

    def stop(self):
        self.over.set()
        self.join()
        check(self.wrong is None, f"the provider's List: {self.wrong}")


class Loop:
    """Everything, each a process that may be killed and started again."""

    def __init__(self):
        self.dir, self.tls = tempfile.mkdtemp(prefix="loop-"), None
        self.episode, self.dark = 0, set()  # an episode is from rest to rest; dark: the shard was killed in it
        self.coordinators = coordinators.Cluster(1)
        self.options = ["--reclaim-cap-fraction", "0", "--empty-rollup-guard=false", "--idle-hold-on-demand", "1s",
                        "--coordinator-addr", self.coordinators.nodes[0].grpc, "--coordinator-heartbeat-interval", "200ms"]
        self.provider, self.shard = Provider(self), Shard(self)
        self.api = self.provider.api()
        self.wanted = {"cluster-a": 4, "cluster-b": 3}
        self.operators = {name: Operator(self, name, 1 + n) for n, name in enumerate(self.wanted)}
        self.say()

    def say(self, **wanted):
        self.wanted.update({name.replace("_", "-"): count for name, count in wanted.items()})
        for name, count in self.wanted.items():
            self.operators[name].say(*([request("web", count)] if count else []))

    def parts(self):
        return {"provider": self.provider, "shard": self.shard, "coordinator": self.coordinators.nodes[0], **self.operators}

    def start(self, name):
        part = self.parts()[name]
        part.start()
        if name == "shard":
            part.wait_ready()

    def kill(self, name):
        if name == "shard":
            self.dark.add(self.episode)
        self.parts()[name].kill()

    def everything_runs(self):
        for name, part in self.parts().items():
            check(part.running(), f"{name} is gone")
        for operator in self.operators.values():
            operator.wait_ready()
        self.coordinators.formed()

    def bound(self):
        """cluster -> its machines, when all is at rest and as demanded; else None."""
        found = listed(self.api)
        if not found or any(state in PASSING for state, _ in found.values()):
            return None
        check(not [m for m, (state, _) in found.items() if state == FAILED], f"failed: {found}")
        per = {name: {m for m, at in found.items() if at == (CONFIGURED, name)} for name in self.wanted}
        return per if {name: len(machines) for name, machines in per.items()} == self.wanted else None

    def met(self):
        """Demand is met and nothing moves for some cycles."""
        def look():
            before = self.bound()
            if before is None:
                return None
            began = self.shard.metric("cycle_duration_seconds_count")
            wait_for("cycles", lambda: self.shard.metric("cycle_duration_seconds_count") >= began + 5)
            return before if self.bound() == before else None
        found = wait_for(f"{self.wanted} met and at rest", look)
        self.episode += 1
        return found

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for name, part in self.parts().items():
            if part.running():
                part.kill()
            if kind is not None and os.path.exists(part.log):
                with open(part.log, encoding="utf-8", errors="replace") as log:
                    print(f"# {name}:\n# " + log.read()[-2500:].replace("\n", "\n# "))
        shutil.rmtree(self.coordinators.dir, ignore_errors=True)
        if kind is None:
            shutil.rmtree(self.dir, ignore_errors=True)
        else:
            print(f"# kept: {self.dir}", flush=True)


def judge(loop, watcher):
    """Every way a machine went is allowed, and is in the audit as often as it was seen to go it."""
    audited, seen = collections.Counter(), collections.Counter()
    for line in loop.shard.audit():
        if line["msg"] == "action":
            audited[line["machine"], line["cluster"], line["kind"] in ACQUIRES] += 1
            check(line["kind"] in ACQUIRES | RELEASES | {"Delete"} and line["reason"] and line["outcome"], f"{line}")
            check(line["machine"] in watcher.ways, f"nobody the provider knows: {line}")
    for machine, way in watcher.ways.items():
        for (state, cluster, _), (after, to, episode) in zip(way, way[1:]):
            # What was looked at too late is not seen; but nobody goes from one cluster to another without a drain.
            check(not (cluster and to and cluster != to and state == CONFIGURED and after == CONFIGURING),
                  f"{machine}: {cluster} -> {to}")
            # What the shard was about when it died has no line; all else has.
            if episode not in loop.dark and cluster != to:
                seen.update({(machine, to, True): bool(to), (machine, cluster, False): bool(cluster)})
    missing = {what: (count, audited[what]) for what, count in seen.items() if count > audited[what]}
    check(not missing, f"(machine, cluster, acquired): (seen, audited): {missing}")
    return sum(seen.values()), sum(audited.values())


def one_round(loop, victim):
    """Killed at rest, then while demand changes."""
    before = loop.met()
    loop.kill(victim)
    time.sleep(RNG.random() / 2)
    loop.start(victim)
    loop.everything_runs()
    check(loop.met() == before, f"{victim} was killed at rest, and machines moved: {before} -> {loop.bound()}")
    loop.say(cluster_a=RNG.randrange(0, 9), cluster_b=RNG.randrange(0, 9))
    time.sleep(RNG.random())
    loop.kill(victim)
    time.sleep(RNG.random() / 2)
    loop.start(victim)
    loop.everything_runs()
    loop.met()


def each_is_killed_in_turn():
    """Demand is met, no machine is lost or doubled, and the audit explains every action."""
    with Loop() as loop:
        for name in ("coordinator", "provider", "shard", *loop.operators):
            loop.start(name)
        watcher = Watcher(loop)
        watcher.start()
        loop.everything_runs()
        began, rounds = time.monotonic(), 0
        while rounds == 0 or time.monotonic() - began < SECONDS:
            for victim in loop.parts():
                one_round(loop, victim)
                rounds += 1
        loop.say(cluster_a=0, cluster_b=0)
        loop.met()
        wait_for("all was given back", lambda: {at for at in (listed(loop.api) or {"": None}).values()} == {(SPECULATIVE, "")})
        loop.met()
        watcher.stop()
        loop.shard.wait_metric("muster_shard_reports_total")  # the coordinator has a report
        check(loop.shard.stop() == 0, "the shard stops, and its audit is whole")
        seen, lines = judge(loop, watcher)
        print(f"# {2 * rounds} kills, {seen} changes seen to be explained, {lines} lines of audit", flush=True)


if __name__ == "__main__":
    run_cases([each_is_killed_in_turn])
