#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a person on call sees: a provider that is away, a disk that refuses, machines that rest, needs that lack."""
import json
import os
import signal
import subprocess

import grpc

from shards import (MUSTER, MUSTERCTL, PROTO_ROOT, PROTOC, World, check, cluster_operator, need, provider, run_cases,
                    wait_for)
from contracts import load, methods_of  # of tests/lib, which the line above put on the path

NOBODY = 65534


def needs(world, *more, certificate=None):
    """(exit code, what it printed, what it complained of)"""
    words = [MUSTERCTL, "needs", "--shard", world.shard.grpc, *more]
    if certificate:
        words += ["--tls-cert", f"{world.tls}/{certificate}.pem", "--tls-key", f"{world.tls}/{certificate}.key.pem",
                  "--tls-ca", f"{world.tls}/ca.pem"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=90,
                         env={key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")})
    return ran.returncode, ran.stdout, ran.stderr


def needs_in_words():
    """musterctl need list: a table for people, a document for programs, and why something is lacking."""
    with World(machines=30, tls=True) as world:
        code, out, err = needs(world, certificate="readonly")
        check(code == 6 and "no shard answers" in err and "--shard" in err and not out, f"nobody: {code} {err}")
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a, world.operator("cluster-b") as b:
            a.rollup([need(16 * 2)])
            b.rollup([need(8, types=("x1.none",), priority=2000, unit={"cpu": "8"})])
            world.wait_configured("cluster-a", 2)
            wait_for("both", lambda: [row.claimed_machine_count for row in world.inspect()[1]] == [0, 2])
            code, out, err = needs(world, certificate="readonly")
            head, columns, first, second = out.splitlines()
            check(code == 0 and head.startswith("cycle ") and head.endswith(": 2 needs"), head)
            check(columns.split() == ["CLUSTER", "PRIORITY", "MACHINES_THAT", "WANTS", "HAS", "COMING", "LACKS",
                                      "CYCLES_UNMET", "WHY", "SUPPLY"], columns)
            check(first.startswith("cluster-b") and "instance-type in x1.none" in first and "cpu=8" in first
                  and "no-matching-supply" in first and first.endswith("0/0/0"), first)
            check(second.startswith("cluster-a") and "cpu=32" in second and " 2 " in second, second)
            code, out, _ = needs(world, "--cluster", "cluster-a", "-o", "json", certificate="admin")
            document = json.loads(out)
            check(code == 0 and document["total_needs"] == 1 and len(document["needs"]) == 1, out)
            check(document["needs"][0]["satisfied"] and document["needs"][0]["cluster_id"] == "cluster-a", out)
            code, out, _ = needs(world, "--limit", "1", "-o", "json", certificate="admin")
            document = json.loads(out)
            check(document["total_needs"] == 2 and len(document["needs"]) == 1, "cut after the first")
            check(document["needs"][0]["unmet_reason"] == "UNMET_REASON_NO_MATCHING_SUPPLY", out)
            code, out, err = needs(world, certificate="cluster-cluster-a")
            check(code == 1 and not out and "PERMISSION_DENIED" in err, f"a cluster may not look: {code} {err}")
            check("certificate identity rejected" in shard.text(), "and that is logged")


def from_the_inside():
    """ShardView: the last cycle by phase, every machine once, the rails in force and the newest actions; for readers only."""
    files, message = load(PROTOC, PROTO_ROOT, "muster/v1/shard.proto")

    def ask(world, certificate, path="muster.v1.ShardView/Status", **fields):
        method = methods_of(files)[path]
        with grpc.secure_channel(world.shard.grpc, cluster_operator.credentials((world.tls, certificate))) as channel:
            return channel.unary_unary("/" + path, message(method.input_type).SerializeToString,
                                       message(method.output_type).FromString)(message(method.input_type)(**fields), timeout=90)
    with World(machines=30, tls=True, options=["--max-actions-per-cycle", "7", "--reclaim-cap-fraction", "0.25"]) as world:
        world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            a.rollup([need(16 * 2)])
            world.wait_configured("cluster-a", 2)

            def look():
                status = ask(world, "readonly")
                return status if sum(h.count for h in status.inventory if h.state == "Configured") == 2 else None
            status = wait_for("two that serve", look)
            check(status.shard_id == "shard-0" and status.epoch == 1 and status.cycle > 0 and status.sessions == 1, f"{status}")
            check(status.machines == 30 == sum(h.count for h in status.inventory) == sum(s.count for s in status.states), f"{status}")
            check(not status.inventory_left_out and all(h.instance_type and h.zone and h.capacity_type for h in status.inventory), f"{status}")
            check([p.name for p in status.phases] == ["reconcile", "snapread", "phase1", "phase2", "phase3", "emit", "execute"], f"{status}")
            check((status.max_actions, status.reclaim_fraction, status.paused, status.dry_run) == (7, 0.25, False, False), f"{status}")
            done = [json.loads(line) for line in status.audit]
            check([d["kind"] for d in done].count("Bootstrap") == 2 and all(d["outcome"] == "success" for d in done), f"{done}")
            check({a.name: a.count for a in status.actions}["Bootstrap"] == 2, f"{status.actions}")
            one = "muster.v1.ShardView/Machine"
            status = ask(world, "readonly", one, machine_id=done[0]["machine"])
            check((status.machine_id, status.shard_id, status.state, status.cluster, status.resting, status.pending) ==
                  (done[0]["machine"], "shard-0", "Configured", "cluster-a", "", False), f"{status}")
            check(status.instance_type and status.zone and status.bought_for and status.cycle > 0, f"{status}")
            check([json.loads(line)["machine"] for line in status.audit] == [status.machine_id] * len(status.audit) and len(status.audit) >= 1, f"{status}")
            for certificate, path, fields, code in [
                    ("cluster-cluster-a", "muster.v1.ShardView/Status", {}, grpc.StatusCode.PERMISSION_DENIED),
                    ("cluster-cluster-a", one, {"machine_id": status.machine_id}, grpc.StatusCode.PERMISSION_DENIED),
                    ("readonly", one, {"machine_id": status.machine_id[:-1]}, grpc.StatusCode.NOT_FOUND)]:
                try:
                    ask(world, certificate, path, **fields)
                    check(False, f"{certificate} may not look at {path}")
                except grpc.RpcError as error:
                    check(error.code() == code, f"{error}")


def demand_wakes_a_cycle():
    """New demand is decided about at once, however long the interval is; each line of the log says of whom it is."""
    with World(machines=30, mode="sync", options=["--cycle-interval", "1h"]) as world:
        shard = world.shard.start().wait_ready()
        with world.operator("cluster-a") as a:
            for count in (1, 2, 3):
                a.rollup([need(16 * count)])
                world.wait_configured("cluster-a", count)
        check(shard.metric("muster_shard_lists_total") == 1, "nothing was listed again for it")
        check(shard.stop() == 0, "stopped")
        for line in shard.text().splitlines():
            check("component=shard" not in line or " shard=shard-0 epoch=1" in line, line)
        check(shard.text().count('msg="operator session opened"') == 1, "its operator came")
        check(shard.text().count('msg="operator session closed"') == 1, "and went")


def who_rests():
    """The page /rests says of each machine that is left alone why, and for how long."""
    with World(machines=30, refuse_rate={"Create": 1, "": 0}, refuse_text="no capacity in this zone",
               refuse_status="INTERNAL", options=["--rest-first", "1h"]) as world:
        shard = world.shard.start().wait_ready()

        def page():
            status, text = shard.page("/rests")
            check(status == 200, f"{status}: {text}")
            return json.loads(text)
        wait_for("the page", lambda: shard.page("/rests")[0] == 200)
        check(page()["resting"] == 0 and page()["machines"] == [] and page()["all"], "nobody rests")
        with world.operator("cluster-a") as a:
            a.rollup([need(16)])
            wait_for("somebody rests", lambda: page()["machines"])
        machine = page()["machines"][0]
        check(machine["why"] == "refused" and machine["state"] == "Failed" and machine["refusals"] == 1, f"{machine}")
        check(machine["error"] == "create: no capacity in this zone", f"{machine}")
        check(0 < machine["left_seconds"] <= 3600, f"{machine}")


def a_provider_that_is_away():
    """Nothing is decided before it was there, nothing is forgotten while it is away, and nothing is done twice."""
    with World(machines=30, mode="sync", options=["--list-timeout", "500ms", "--execute-timeout", "500ms"]) as world:
        world.provider.kill()
        world.provider.address = world.shard.grpc.rsplit(":", 1)[0] + ":5009"  # nobody else's
        shard = world.shard.start()
        wait_for("the failure in the log", lambda: 'msg="reconcile failed"' in shard.text())
        check("connection refused" in shard.text(), "says why")
        wait_for("its page", lambda: shard.page("/healthz")[0] == 200)
        with world.operator("cluster-a") as a:
            status, text = shard.page("/readyz")
            check(status == 503 and "first provider reconcile not yet complete" in text, f"{status} {text}")
            a.rollup([need(16)])
            a.wait_acks("rollup")
            lists = shard.metric("muster_shard_lists_failed_total")
            shard.wait_metric("muster_shard_lists_failed_total", lists + 2)
            check(world.inspect()[0].cycle == 0, "nothing is decided over nothing")
            check(shard.metric("shortfalls") == 0, "nor called lacking")
            world.provider = provider.Process(PROTOC, PROTO_ROOT, "--listen", world.provider.address, "--machines", "30",
                                              "--set", 'mode="sync"')
            shard.wait_ready()
            world.wait_configured("cluster-a", 1)
            world.provider.process.send_signal(signal.SIGSTOP)
            a.rollup([need(16 * 4)])
            shard.wait_metric("muster_shard_machines_in_doubt")
            lists = shard.metric("muster_shard_lists_failed_total")
            shard.wait_metric("muster_shard_lists_failed_total", lists + 3)
            check(shard.page("/readyz")[0] == 200, "readiness is not taken back")
            check(shard.metric("inventory_machines") == 30, "every machine is known still")
            world.provider.process.send_signal(signal.SIGCONT)
            world.wait_configured("cluster-a", 4)
            wait_for("no doubt is left", lambda: shard.metric("muster_shard_machines_in_doubt") == 0)
            world.settled(quiet=3)
            made = [call["machine"] for call in world.provider.control("journal") if call["kind"] == "Create"]
            check(len(made) == len(set(made)), f"none was created twice: {made}")
            check('msg="provider answers again"' in shard.text(), "said when it is over")


def a_disk_that_refuses():
    """Without a data directory or an audit that can be written it does not start, and names what it is about."""
    with World() as world:
        words = [MUSTER, "shard", "run", "--data-dir", world.shard.dir, "--provider-addr", world.provider.address,
                 "--listen", world.shard.grpc, "--http-listen", "0"]
        ran = subprocess.run([*words, "--audit-log", "/dev/full"], capture_output=True, text=True, timeout=90)
        check(ran.returncode and "audit-log: open /dev/full" in ran.stderr, f"{ran.returncode}: {ran.stderr}")
        os.chmod(world.shard.dir, 0o555)
        if os.getuid() == 0:  # whom no mode stops
            os.chmod(world.dir, 0o755)
            words = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *words]
        ran = subprocess.run(words, capture_output=True, text=True, timeout=90)
        check(ran.returncode == 2 and f"data-dir {world.shard.dir}" in ran.stderr, f"{ran.returncode}: {ran.stderr}")


if __name__ == "__main__":
    run_cases([needs_in_words, from_the_inside, demand_wakes_a_cycle, who_rests, a_provider_that_is_away, a_disk_that_refuses])
