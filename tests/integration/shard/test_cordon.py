#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl machine: lists, cordons and drains by the shard's own listener; no coordinator runs anywhere here."""
import json
import os
import subprocess

from shards import MUSTERCTL, World, check, need, run_cases, wait_for


def machine(world, *words, certificate=None, code=0):
    """What it printed; what it complained of when it is to fail."""
    command = [MUSTERCTL, "machine", *words, "--shard", world.shard.grpc]
    if certificate:
        command += ["--tls-cert", f"{world.tls}/{certificate}.pem", "--tls-key", f"{world.tls}/{certificate}.key.pem",
                    "--tls-ca", f"{world.tls}/ca.pem"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=90, stdin=subprocess.DEVNULL,
                         env={key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")})
    check(ran.returncode == code, f"{words}: {ran.returncode} {ran.stdout} {ran.stderr}")
    return ran.stderr if code else ran.stdout


def rows(world, *words, **how):
    return json.loads(machine(world, "list", "-o", "json", *words, **how))["machines"]


def orders(world):
    return [line for line in world.shard.audit() if line["msg"] == "order"]


def lists():
    """Filters, order, limit, a document; a reader may look, and only an administrator may order."""
    with World(machines=12, idle=0.5, tls=True) as world:
        world.shard.start().wait_ready()
        every = rows(world, certificate="readonly")
        check(len(every) == 12 and [r["machine_id"] for r in every] == sorted(r["machine_id"] for r in every), f"{every}")
        check(all(r["shard_id"] == "shard-0" or r["shard_id"] == world.shard.grpc for r in every), f"{every[0]}")
        idle = rows(world, "--state", "Idle", certificate="readonly")
        check({r["state"] for r in idle} == {"Idle"} and 0 < len(idle) < 12, f"{idle}")
        zone = every[0]["zone"]
        check({r["zone"] for r in rows(world, "--zone", zone, certificate="admin")} == {zone}, zone)
        check(not rows(world, "--label", "no=such", certificate="admin"), "a label that no machine has")
        prices = [r["price_per_hour"] for r in rows(world, "--sort", "price", "--limit", "5", certificate="admin")]
        check(len(prices) == 5 and prices == sorted(prices, reverse=True), f"{prices}")
        text = machine(world, "list", "--sort", "state", certificate="readonly")
        check(text.splitlines()[0].split() == ["MACHINE", "STATE", "CLUSTER", "TYPE", "ZONE", "CAPACITY", "PRICE", "AGE",
                                               "CORDON", "SHARD"], text)
        target = idle[0]["machine_id"]
        error = machine(world, "cordon", target, certificate="readonly", code=1)
        check("PERMISSION_DENIED" in error and "bigfleet://admin" in error, error)
        error = machine(world, "cordon", target, "--zone", zone, certificate="admin", code=2)
        check("name either one machine" in error, error)
        error = machine(world, "cordon", "m-none", certificate="admin", code=5)
        check("knows no such machine" in error, error)
        error = machine(world, "uncordon", target, certificate="admin", code=5)
        check("no cordon of exactly this" in error, error)
        machine(world, "cordon", target, "--reason", "ticket 1", certificate="admin")
        check([r["machine_id"] for r in rows(world, "--cordoned", certificate="readonly")] == [target], "cordoned")
        known = json.loads(machine(world, "cordons", "-o", "json", certificate="readonly"))["cordons"]
        check(len(known) == 1 and known[0]["by"] == "bigfleet://admin" and known[0]["reason"] == "ticket 1", f"{known}")
        check([(o["kind"], o["by"], o["outcome"]) for o in orders(world)]
              == [("Cordon", "bigfleet://admin", "error"), ("Uncordon", "bigfleet://admin", "error"),
                  ("Cordon", "bigfleet://admin", "success")], f"{orders(world)}")
        shown = machine(world, "show", target, certificate="readonly")
        check("cordoned" in shown and "uncordon" in shown, shown)


def held_through_a_kill():
    """kill -9 right after the answer: the order is in effect before the next process decides anything."""
    with World(machines=2, idle=1.0) as world:
        world.shard.start().wait_ready()
        first, second = [r["machine_id"] for r in rows(world)]
        types = tuple({r["instance_type"] for r in rows(world)})
        machine(world, "cordon", first)
        world.shard.kill()
        world.shard.start()
        with world.operator("cluster-a") as a:
            a.rollup([need(100000, types=types, unit={"cpu": "1"})])
            world.wait_configured("cluster-a", 1)
            world.settled()
            check([m["id"] for m in world.machines("Configured")] == [second], "the other one serves")
            check(world.shard.metric("muster_shard_cordoned_machines", order="cordon") == 1, "counted")
            machine(world, "uncordon", first)
            world.wait_configured("cluster-a", 2)
            check(not rows(world, "--cordoned"), "no cordon is left")


def emptied():
    """A drain goes to the operator first, the Need gets another machine, and the machine stays out of use."""
    with World(machines=12, idle=1.0) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            kind = max((r["instance_type"] for r in rows(world)), key=[r["instance_type"] for r in rows(world)].count)
            a.rollup([need(16, types=(kind,), unit={"cpu": "1"})])
            world.wait_configured("cluster-a", 1)
            serves = world.machines("Configured")[0]["id"]
            out = machine(world, "replace", serves, "--yes", "--reason", "new disk")
            check("1 machine is drained" in out, out)
            wait_for("another serves, and it is empty", lambda: [m["id"] for m in world.machines("Configured")] not in ([], [serves])
                     and serves in [m["id"] for m in world.machines("Idle")])
            world.settled()
            check(serves in [m["id"] for m in world.machines("Idle")], "and stays so")
            check([line["reason"] for line in world.shard.audit() if line.get("machine") == serves and line["kind"] == "Reclaim"]
                  == ["maintenance"], "audited as maintenance")
            world.shard.kill()
            world.shard.start().wait_ready()
            a2 = world.operator("cluster-a")
            a2.rollup([need(16 * 2, types=(kind,))])
            world.wait_configured("cluster-a", 2)
            world.settled()
            check(serves in [m["id"] for m in world.machines("Idle")], "also after a kill")


def whole_zone():
    """A label covers machines that appear later; a broken file stops the start with its name."""
    with World(machines=6, idle=0.5) as world:
        world.shard.start().wait_ready()
        zone = rows(world)[0]["zone"]
        there = rows(world, "--zone", zone)
        out = machine(world, "cordon", "--zone", zone)
        check(f"{len(there)} machine" in out, out)
        check({r["machine_id"] for r in rows(world, "--cordoned")} == {r["machine_id"] for r in there}, "all of the zone")
        error = machine(world, "uncordon", there[0]["machine_id"], code=5)
        check("no cordon of exactly this" in error, error)
        world.shard.stop()
        path = os.path.join(world.shard.dir, "cordons")
        with open(path, "r+b") as file:
            text = file.read()
            file.seek(0)
            file.write(text.replace(b"cordon\t", b"drain!\t"))
        world.shard.start()
        check(world.shard.wait_end() != 0 and "cordons: its checksum is wrong" in world.shard.text(), world.shard.text()[-500:])


run_cases([lists, held_through_a_kill, emptied, whole_zone])
