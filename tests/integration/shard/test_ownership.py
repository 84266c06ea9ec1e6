#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No domain gets a second owner unseen: not when its unassignment dies with a leader, not when a live shard is removed, and
shards that own the same machines are found."""
import json
import os
import re
import signal
import subprocess

import grpc

from shards import MUSTER, MUSTERCTL, Shard, World, check, coordinators, need, run_cases, wait_for

COORDINATOR, FLEET = coordinators.COORDINATOR, coordinators.FLEET
LABEL = "topology.kubernetes.io/zone"
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
LEVEL = 4
DOMAIN = {"topology_key": LABEL, "topology_value": "eu-1a"}


def domains(shard):
    """The values that are on the shard's disk."""
    path = os.path.join(shard.dir, "domains")
    if not os.path.exists(path):
        return set()
    with open(path, encoding="utf-8") as lines:
        return set(re.findall(r"eu-1\w", lines.read()))


def owns(shard, *values):
    wait_for(f"{shard.name} has {values} on disk", lambda: domains(shard) == set(values))


def ctl(node, *words):
    done = subprocess.run([MUSTERCTL, *words, "--coordinator", node.grpc], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def issues(node):
    code, text = ctl(node, "list-leaving-domains", "-o", "json")
    check(code == 0, f"list-leaving-domains: {code} {text}")
    return json.loads(text)


def leaving(node):
    return [(row["topology_value"], row["shard_id"]) for row in issues(node).get("leaving", [])]


def events(node):
    with open(os.path.join(node.dir, "events.ndjson"), encoding="utf-8") as lines:
        return lines.read()


def more_reports(shard, count=5):
    taken = shard.metric("muster_shard_reports_total")
    shard.wait_metric("muster_shard_reports_total", taken + count)


def gauge(node, name):
    found = re.search(rf"^{name} (\S+)$", node.page("/metrics")[1], re.M)
    return float(found.group(1)) if found else -1


def two_shards(fleet, world):
    """Each owns a domain. Before the cluster has reached its level no domain is ever leaving."""
    for node in fleet.nodes:
        wait_for("the cluster's level", lambda at=node: gauge(at, "muster_log_cluster_level") == LEVEL)
    world.options += ["--coordinator-addr", ",".join(node.grpc for node in fleet.nodes),
                      "--coordinator-heartbeat-interval", "50ms"]
    other = Shard(world, "shard-1", 1)
    world.others.append(other)
    for shard in (world.shard, other):
        shard.start().wait_ready()
    wait_for("both are registered", lambda: len(fleet.ask(COORDINATOR + "ListShards").shards) == 2)
    fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-0")
    fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="eu-1b", shard_id="shard-1")
    owns(world.shard, "eu-1a")
    owns(other, "eu-1b")
    return world.shard, other


def lost_with_its_leader():
    """An unassignment whose leader dies before the shard reports reaches the shard; nobody else gets the domain before."""
    with coordinators.Cluster(3).start() as fleet, World(machines=30) as world:
        fleet.formed()
        first, second = two_shards(fleet, world)
        first.signal(signal.SIGSTOP)
        leader = fleet.leader()
        fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
        fleet.agree()  # the followers applied it: their next leader does not apply it anew
        leader.kill()
        among = fleet.others(leader)
        fleet.leader(among)
        _, code, text, _ = fleet.asked(COORDINATOR + "AssignDomain", among, **DOMAIN, shard_id="shard-1")
        check(code == PRECONDITION and "shard-0 has not given it up" in text, f"assigned although shard-0 owns it: {code} {text}")
        check(leaving(fleet.leader(among)) == [("eu-1a", "shard-0")], "it is listed")
        first.signal(signal.SIGCONT)
        owns(first)
        wait_for("its acknowledgement", lambda: not leaving(fleet.leader(among)))
        fleet.ask(COORDINATOR + "AssignDomain", among, **DOMAIN, shard_id="shard-1")
        owns(second, "eu-1a", "eu-1b")
        leader.start()
        fleet.formed()
        fleet.agree()


def machines_serve():
    """A shard keeps a domain while it serves machines there: nobody else gets it, and the reason is shown."""
    with coordinators.Cluster(1).start() as fleet, \
            World(machines=30, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
        fleet.formed()
        node = fleet.leader()
        first, second = two_shards(fleet, world)
        with world.operator("cluster-a") as operator:
            operator.rollup([need(16 * 3)])
            world.wait_configured("cluster-a", 3)
            fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
            owns(first)
            more_reports(first)
            check(leaving(node) == [("eu-1a", "shard-0")], "given up although 3 machines serve there")
            why = f"3 machines of {LABEL}=eu-1a still serve"
            wait_for("the reason", lambda: why in issues(node)["leaving"][0].get("reason", ""))
            code, text = ctl(node, "list-leaving-domains")
            check(code == 0 and why in text, text)
            code, text = ctl(node, "doctor")
            check(code == 1 and why in text, text)
            machine = world.machines("Configured", cluster="cluster-a")[0]["id"]
            code, text = ctl(node, "explain", "machine", machine)
            check(code == 0 and "its domain was taken from the shard" in text, text)
            _, code, text, _ = fleet.asked(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-1")
            check(code == PRECONDITION, f"{code} {text}")
            more_reports(first)
            check(node.text().count("instruction not carried out") == 1, "logged once, not with each report")
            operator.rollup([])
            world.wait_configured("cluster-a", 0)
            wait_for("its acknowledgement", lambda: not leaving(node))
            check(first.metric("inventory_machines", state="Configured") == 0, "it gave the machines up")
            fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-1")
            owns(second, "eu-1a", "eu-1b")


def undone_before_it_was_told():
    """A shard that owns everything keeps it when a domain is assigned to it and taken again before it heard of it."""
    with coordinators.Cluster(1).start() as fleet, World(machines=30) as world:
        fleet.formed()
        node = fleet.leader()
        wait_for("the cluster's level", lambda: gauge(node, "muster_log_cluster_level") == LEVEL)
        world.options += ["--coordinator-addr", node.grpc, "--coordinator-heartbeat-interval", "50ms"]
        shard = world.shard.start().wait_ready()
        more_reports(shard)

        def machines():
            return sum(shard.metric("inventory_machines", state=state)
                       for state in ("Speculative", "Creating", "Idle", "Configuring", "Configured"))

        check(machines() == 30, "it owns all")
        shard.kill()
        fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="typo", shard_id="shard-0")
        fleet.ask(COORDINATOR + "UnassignDomain", topology_key=LABEL, topology_value="typo")
        shard.start().wait_ready()
        more_reports(shard)
        wait_for("nothing is leaving", lambda: not leaving(node))
        more_reports(shard)
        check(not os.path.exists(os.path.join(shard.dir, "domains")), "it was never given a domain")
        check(machines() == 30, f"it owns {machines()}")


def every_leader_repeats_it():
    """The mark outlives restarts of every coordinator, and each new leader sends it to the shard anew."""
    with coordinators.Cluster(3).start() as fleet, World(machines=30) as world:
        fleet.formed()
        first, second = two_shards(fleet, world)
        first.signal(signal.SIGSTOP)
        fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
        fleet.agree()
        for node in fleet.nodes:
            node.kill()
        fleet.start()
        fleet.formed()
        check(leaving(fleet.leader()) == [("eu-1a", "shard-0")], "it is still leaving")
        # Given back, it is no longer leaving, and the shard keeps it.
        fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-0")
        check(leaving(fleet.leader()) == [], "given back")
        fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
        # The administrator says that the process is dead: the domain has an owner at once, and the mark stays.
        code, text = ctl(fleet.leader(), "assign-domain", "--key", LABEL, "--value", "eu-1a", "--shard", "shard-1")
        check(code == 4 and "force" in text, f"{code} {text}")
        code, text = ctl(fleet.leader(), "assign-domain", "--key", LABEL, "--value", "eu-1a", "--shard", "shard-1",
                         "--force-two-owners")
        check(code == 0, f"{code} {text}")
        owns(second, "eu-1a", "eu-1b")
        code, text = ctl(fleet.leader(), "doctor")
        check(code == 1 and "shard-1 owns it, and shard-0 has not given it up" in text, text)
        first.signal(signal.SIGCONT)  # it was not
        owns(first)
        wait_for("its acknowledgement", lambda: not leaving(fleet.leader()))


def restored():
    """A domain that moved after the backup: the restored tables give it to its old owner, and the new one gives it up."""
    with coordinators.Cluster(1, join=False).start() as fleet, \
            World(machines=30, options=["--reclaim-cap-fraction", "1", "--no-empty-rollup-guard"]) as world:
        node = fleet.nodes[0]
        fleet.formed()
        first, second = two_shards(fleet, world)
        archive = os.path.join(fleet.dir, "fleet.muster")
        subprocess.run([MUSTERCTL, "backup", archive, "--coordinator", node.grpc], check=True, capture_output=True)
        fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
        wait_for("its acknowledgement", lambda: not leaving(node))
        fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-1")
        owns(second, "eu-1a", "eu-1b")
        world.shard = second
        with world.operator("cluster-b") as operator:
            operator.rollup([need(16 * 20)])  # more than eu-1b has
            wait_for("machines in both zones", lambda: {m["zone"] for m in world.machines("Configured")} == {"eu-1a", "eu-1b"})
            node.stop()
            subprocess.run([MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise", node.raft,
                            "--yes"], check=True, capture_output=True)
            node.start()
            fleet.leader()
            owns(first, "eu-1a")
            owns(second, "eu-1b")  # as the tables say; its machines in eu-1a serve on
            wait_for("the conflict is counted", lambda: gauge(node, "muster_coordinator_domain_conflicts") == 1)
            check('"event":"domain-conflict"' in events(node), "an event")
            code, text = ctl(node, "doctor")
            check(code == 1 and f"domain {LABEL}=eu-1a: shard-0 owns it, and shard-1 acts on it" in text, text)
            check("no domain is named by two shards" not in text, text)
            operator.rollup([])
            wait_for("the conflict is over", lambda: gauge(node, "muster_coordinator_domain_conflicts") == 0)
            code, text = ctl(node, "doctor")
            check("no domain is named by two shards" in text, text)
        world.shard = first


def removed_while_it_lives():
    """A shard that reports is not removed without force; removed, it comes back owning nothing."""
    with coordinators.Cluster(1).start() as fleet, World(machines=30) as world:
        fleet.formed()
        first, second = two_shards(fleet, world)
        _, code, text, _ = fleet.asked(COORDINATOR + "RemoveShard", shard_id="shard-0")
        check(code == PRECONDITION and "still acts on its machines" in text, f"a live shard was removed: {code} {text}")
        first.signal(signal.SIGSTOP)
        code, text = ctl(fleet.leader(), "remove-shard", "--shard", "shard-0")
        check(code == 4 and "force" in text, f"{code} {text}")
        code, text = ctl(fleet.leader(), "remove-shard", "--shard", "shard-0", "--force-two-owners")
        check(code == 0, f"{code} {text}")
        check([s.shard_id for s in fleet.ask(COORDINATOR + "ListShards").shards] == ["shard-1"], "it is gone")
        _, code, text, _ = fleet.asked(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-1")
        check(code == PRECONDITION, f"{code} {text}")
        first.signal(signal.SIGCONT)
        wait_for("it registers again", lambda: len(fleet.ask(COORDINATOR + "ListShards").shards) == 2)
        owns(first)
        wait_for("its acknowledgement", lambda: not leaving(fleet.leader()))
        fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-1")
        owns(second, "eu-1a", "eu-1b")


def one_id_twice():
    """Two processes under one shard id, from two directories, are an event, a metric and a finding until one is gone."""
    with coordinators.Cluster(1, ["--shard-silent-after", "5s"]).start() as fleet, World(machines=30) as world:
        fleet.formed()
        node = fleet.leader()
        world.options += ["--coordinator-addr", node.grpc, "--coordinator-heartbeat-interval", "50ms"]
        world.shard.start().wait_ready()
        check(gauge(node, "muster_coordinator_shard_id_conflicts") == 0, "one process is fine")
        other = Shard(world, "shard-0", 1)
        other.dir += "-copy"
        world.others.append(other)
        other.start().wait_ready()
        wait_for("counted", lambda: gauge(node, "muster_coordinator_shard_id_conflicts") == 1)
        check("two processes report under one shard id" in node.text(), "logged")
        code, text = ctl(node, "doctor")
        check(code == 1 and "shard shard-0: 2 processes report under this id" in text, text)
        check(world.shard.grpc in text and other.grpc in text, text)
        check(world.shard.running() and other.running(), "nobody was stopped")
        other.stop()
        wait_for("over", lambda: gauge(node, "muster_coordinator_shard_id_conflicts") == 0)
        taken = world.shard.metric("muster_shard_reports_total")
        world.shard.wait_metric("muster_shard_reports_total", taken + 3)
        # A restart from the same directory is no second process.
        for _ in range(3):
            world.shard.kill()
            world.shard.start().wait_ready()
            taken = world.shard.metric("muster_shard_reports_total")
            world.shard.wait_metric("muster_shard_reports_total", taken + 3)
        check(gauge(node, "muster_coordinator_shard_id_conflicts") == 0, "a restart is fine")
        check(node.text().count("two processes report under one shard id") == 1, "once")


def without_domains():
    """Two shards without domains on one provider own the same machines; with domains they do not."""
    with coordinators.Cluster(1).start() as fleet, World(machines=30) as world:
        fleet.formed()
        node = fleet.leader()
        world.options += ["--coordinator-addr", node.grpc, "--coordinator-heartbeat-interval", "50ms"]
        world.shard.start().wait_ready()
        other = Shard(world, "shard-1", 1)
        world.others.append(other)
        other.start().wait_ready()
        wait_for("counted", lambda: gauge(node, "muster_coordinator_shards_unscoped") == 2)
        check("shards without domains share a provider: each acts on the other's machines" in node.text(), "logged")
        code, text = ctl(node, "doctor")
        check(code == 1 and "2 shards without domains use it (shard-0, shard-1)" in text, text)
        fleet.ask(COORDINATOR + "AssignDomain", **DOMAIN, shard_id="shard-0")
        owns(world.shard, "eu-1a")
        wait_for("the other one owns eu-1a too", lambda: gauge(node, "muster_coordinator_shards_unscoped") == 1)
        code, text = ctl(node, "doctor")
        check(code == 1 and "1 shard without domains uses it (shard-1) beside shard-0" in text, text)
        fleet.ask(COORDINATOR + "AssignDomain", topology_key=LABEL, topology_value="eu-1b", shard_id="shard-1")
        owns(other, "eu-1b")
        wait_for("no longer", lambda: gauge(node, "muster_coordinator_shards_unscoped") == 0)
        # Taken away, the shard owns nothing, which is no conflict either.
        fleet.ask(COORDINATOR + "UnassignDomain", **DOMAIN)
        owns(world.shard)
        wait_for("its acknowledgement", lambda: not leaving(node))
        taken = other.metric("muster_shard_reports_total")
        other.wait_metric("muster_shard_reports_total", taken + 3)
        code, text = ctl(node, "doctor")
        check("shards without domains use it" not in text, text)


run_cases([lost_with_its_leader, machines_serve, undone_before_it_was_told, every_leader_repeats_it, restored, removed_while_it_lives,
           one_id_twice, without_domains])
