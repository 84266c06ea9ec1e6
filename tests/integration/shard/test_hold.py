#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A shard that must not act: fenced by a newer process, without its data directory, or paused by SIGHUP."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from shards import CONTRACT, MUSTER, PROTOC, PROTO_ROOT, Shard, World, check, need, run_cases, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
from provider import CONFIGURED, FAILED, IDLE, SPECULATIVE, STATES  # noqa: E402
from provider_host import Api, Host  # noqa: E402

QUIET_CYCLES = 10


class OurProvider(Host):
    def control(self, *_, **__):
        raise OSError("muster provider run has no control port")


class OurWorld(World):
    """A shard and `muster provider run` instead of the provider of the tests."""

    def __init__(self, machines, options=()):
        self.dir = tempfile.mkdtemp(prefix="shard-")
        self.contract, self.options, self.tls = CONTRACT, list(options), None
        self.provider = OurProvider(MUSTER, self.dir, machines=machines).start()
        self.api = Api(PROTOC, PROTO_ROOT, self.provider.address)
        self.shard = Shard(self)
        self.others, self.operators = [], []

    def machines(self, *states, cluster=None):
        return [{"id": m.id, "state": STATES[m.state], "cluster": m.cluster} for m in self.api.ok("List").machines
                if (not states or STATES[m.state] in states) and cluster in (None, m.cluster)]

    def count(self, state):
        return len(self.api.machines((state,)))


def write_epoch(shard, epoch):
    os.makedirs(shard.dir, exist_ok=True)
    with open(os.path.join(shard.dir, "epoch"), "w", encoding="ascii") as file:
        file.write(f"{epoch}\n")


def more_cycles(shard, count=QUIET_CYCLES):
    began = shard.metric("cycle_duration_seconds_count")
    wait_for("cycles", lambda: shard.metric("cycle_duration_seconds_count") >= began + count)


def set_epoch(directory, epoch):
    return subprocess.run([MUSTER, "shard", "set-epoch", "--data-dir", directory, str(epoch)], capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL)


def check_stopped(shard, newest, above=None):
    """It says that it is fenced, everywhere, and serves reads."""
    wait_for("the shard says that it is fenced", lambda: shard.metric("muster_shard_fenced") == 1)
    lines = [line for line in shard.text().splitlines() if "has stopped acting" in line]
    check(len(lines) == 1 and "level=error" in lines[0], f"one error line: {lines}")
    check(f"newest_epoch={newest}" in lines[0], lines[0])
    check("newer process" in lines[0] and "data directory" in lines[0], f"both causes: {lines[0]}")
    check(f"muster shard set-epoch --data-dir {shard.dir} {above or newest}" in lines[0], f"the remedy: {lines[0]}")
    status, text = shard.page("/readyz")
    check(status == 200, f"readiness is latched: {status} {text}")
    check("fenced" in text and str(newest) in text, text)


def a_deposed_shard_stops_acting():
    """The newer process has touched one machine; the older one buys, configures and drains none of the others."""
    with OurWorld(machines=60, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
        old = world.shard
        write_epoch(old, 10)
        old.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 3)])
            world.wait_configured("cluster-a", 3)
            world.settled()
        old.pause()
        new = world.shard = Shard(world, number=1)
        new.dir = old.dir + "-copy"
        shutil.copytree(old.dir, new.dir)
        write_epoch(new, 40)
        new.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 4)])
            world.wait_configured("cluster-a", 4)
            world.settled()
        world.others, world.shard = [new], old
        old.resume()
        with world.operator("cluster-a") as mine, world.operator("cluster-b") as other:
            mine.rollup([])  # the older one would drain what it serves
            other.rollup([need(16 * 20)])
            wait_for("an answer to the older one",
                     lambda: old.metric("action_execute_outcomes_total", outcome="fenced") >= 1
                     or world.machines(cluster="cluster-b"))
            more_cycles(old, 3)
            check(not world.machines(cluster="cluster-b"), "the older one configured machines")
            more_cycles(old)
            check_stopped(old, 41)
            calls = old.metric("action_execute_outcomes_total")
            other.rollup([need(16 * 30)])
            more_cycles(old)
            check(old.metric("action_execute_outcomes_total") == calls, "nothing was tried after that")
            check(world.inspect()[0].total_needs >= 1, "needs are served")
            mine.check_open()
            other.check_open()
        check(len(world.machines("Configured", cluster="cluster-a")) == 4, "what the newer one configured")
        check(world.count(FAILED) == 0 and world.count(SPECULATIVE) == 56, f"{world.machines()}")
        check(new.metric("muster_shard_fenced") == 0, "the newer one goes on")


def a_shard_without_its_directory():
    """It lost its epoch: no machine becomes Failed, none is bought, and the command it names brings it back."""
    with OurWorld(machines=60, options=["--no-empty-rollup-guard", "--reclaim-cap-fraction", "1"]) as world:
        shard = world.shard
        write_epoch(shard, 40)
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 6)])
            world.wait_configured("cluster-a", 6)
            operator.rollup([need(16 * 2)])  # four are Idle then
            world.wait_configured("cluster-a", 2)
            wait_for("Idle machines", lambda: world.count(IDLE) == 4)
        shard.kill()
        shutil.rmtree(shard.dir)
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 6)])
            shard.wait_metric("action_execute_outcomes_total", outcome="fenced")
            more_cycles(shard)
            states = {state: shard.metric("inventory_machines", state=state) for state in ("Failed", "Idle", "Configured")}
            check(states == {"Failed": 0, "Idle": 4, "Configured": 2}, f"the shard sees {states}")
            check((world.count(IDLE), world.count(CONFIGURED), world.count(SPECULATIVE)) == (4, 2, 54), f"{world.machines()}")
            check_stopped(shard, 41)
            done = set_epoch(shard.dir, 41)
            check(done.returncode != 0 and "in use" in done.stderr, f"refused while it runs: {done}")
        shard.stop()
        done = set_epoch(shard.dir, 41)
        check(done.returncode == 0 and "42" in done.stdout, f"{done}")
        done = set_epoch(shard.dir, 40)
        check(done.returncode != 0 and "41" in done.stderr, f"never lower: {done}")
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 6)])
            world.wait_configured("cluster-a", 6)
        check(world.count(FAILED) == 0 and world.count(SPECULATIVE) == 54, "nothing was bought in their place")


def a_foreign_provider_fences():
    """A provider that compares per machine only, as the contract says: the first refusal stops the older process."""
    with World(machines=40, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
        shard = world.shard
        write_epoch(shard, 40)
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 4)])
            world.wait_configured("cluster-a", 4)
            operator.rollup([])
            world.wait_configured("cluster-a", 0)
            wait_for("Idle machines", lambda: len(world.machines("Idle")) == 4)
        shard.kill()
        shutil.rmtree(shard.dir)
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 4)])
            shard.wait_metric("action_execute_outcomes_total", outcome="fenced")
            more_cycles(shard)
            check_stopped(shard, 41)
            before = world.provider.control("journal")
            operator.rollup([need(16 * 20)])
            more_cycles(shard)
            check(world.provider.control("journal") == before, "nothing was done after that")
        check(world.provider.control("counts")["Failed"] == 0, "no machine failed")
        check(shard.metric("inventory_machines", state="Failed") == 0, "and the shard calls none so")


def what_the_refusal_names():
    """A mark of its own epoch is no newer process: it goes on. A provider that names no epoch is believed."""
    with World(machines=20, refuse_rate=1, refuse_status="FAILED_PRECONDITION",
               refuse_text="s on m: (1, 7) is not newer than (1, 9)") as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 2)])
            shard.wait_metric("action_execute_outcomes_total", outcome="fenced")
            more_cycles(shard, 3)
            check(shard.metric("muster_shard_fenced") == 0 and "has stopped acting" not in shard.text(), "it goes on")
            world.provider.control("set", refuse_rate=0)
            world.wait_configured("cluster-a", 2)
            check(shard.page("/readyz") == (200, "ok\n"), shard.page("/readyz"))
            world.provider.control("set", refuse_rate=1, refuse_text="go away")
            operator.rollup([need(16 * 6)])
            check_stopped(shard, "unknown", "$(date +%s)")
            world.provider.control("set", refuse_rate=0)
            more_cycles(shard)
            check(len(world.machines("Configured")) == 2, "it does not try again")
            wait_for("nothing is in doubt", lambda: shard.metric("muster_shard_machines_in_doubt") == 0)
            check(shard.metric("inventory_machines", state="Failed") == 0, "no machine is Failed")
            check(shard.metric("inventory_machines", state="Creating") == 0, "and none half made")
        shard.stop()
        shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 6)])
            world.wait_configured("cluster-a", 6)


def the_kill_switch():
    """SIGHUP switches it on at once; off only with a restart, and the reload says so."""
    with World(machines=100, latency_ms={"Create": 100, "Configure": 100, "": 0}) as world:
        settings = os.path.join(world.dir, "shard.toml")

        def write(paused):
            with open(settings, "w", encoding="ascii") as file:
                file.write(f"actuation-paused = {'true' if paused else 'false'}\n")

        def calls():
            return len(world.provider.control("journal"))

        write(False)
        world.options += ["--config", settings, "--execute-concurrency", "4", "--reclaim-cap-fraction", "1",
                          "--no-empty-rollup-guard"]
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 3)])
            world.wait_configured("cluster-a", 3)
            operator.rollup([need(16 * 60)])
            wait_for("many calls", lambda: calls() >= 12)
            write(True)
            shard.signal(signal.SIGHUP)
            wait_for("the pause, or a reload that changes nothing at once", lambda: "actuation is paused" in shard.text()
                     or "no setting changed" in shard.text() or "setting not applied: it needs a restart" in shard.text())
            then = calls()
            check("actuation is paused" in shard.text(), "it takes effect at once: " + shard.text()[-400:])
            check("setting not applied: it needs a restart" not in shard.text(), shard.text()[-400:])
            shard.wait_metric("actuation_paused", 1)
            wait_for("calls under way end", lambda: shard.metric("execute_inflight") == 0)
            more_cycles(shard)
            check(calls() - then <= 4, f"{calls() - then} calls came after the reload, and 4 were under way")
            then = calls()
            operator.rollup([need(16 * 90)])
            more_cycles(shard)
            operator.rollup([])
            more_cycles(shard)
            check(calls() == then, f"{calls() - then} calls while it is paused")
            shard.wait_metric("actions_suppressed_total", 1, kind="Reclaim")
            check(shard.metric("inventory_machines", state="Creating") == 0, "no machine stays half made")
            write(False)
            shard.signal(signal.SIGHUP)
            wait_for("it says so", lambda: "actuation stays paused until a restart" in shard.text())
            operator.rollup([need(16 * 60)])
            more_cycles(shard)
            check(calls() == then and shard.metric("actuation_paused") == 1, "it stays paused")
        shard.stop()
        shard.start().wait_ready()
        check(shard.metric("actuation_paused") == 0, "a restart switches it off")
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 10)])
            world.wait_configured("cluster-a", 10)


if __name__ == "__main__":
    run_cases([a_deposed_shard_stops_acting, a_shard_without_its_directory, a_foreign_provider_fences,
               what_the_refusal_names, the_kill_switch])
