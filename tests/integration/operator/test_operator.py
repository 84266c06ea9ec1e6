#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster operator run` with the file source, before a real shard: demand, blobs, node states, reclaims, kills, TLS."""
import json
import os
import signal
import subprocess

from operators import Operator, OperatorWorld, check, request, run_cases, wait_for

TEMPLATE = "#!/bin/sh\njoin {{cluster_id}} {{request_id}} {{requirement node.kubernetes.io/instance-type}} {{requirement zone|any}}\n"


def script(world, name, text):
    path = os.path.join(world.dir, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def demand_met_edited_released():
    """What the file says is what the cluster gets; blobs come from the template; nodes.json says what is."""
    with OperatorWorld(machines=60) as world:
        world.shard.start().wait_ready()
        template = os.path.join(world.dir, "user-data.tmpl")
        with open(template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        a = world.muster_operator("cluster-a", [request("web", 2), request("db", 1, priority=10)])
        # Every edit is sent when it is made, not when the interval is over.
        a.start("--bootstrap-template", template, "--rollup-interval", "1h").wait_ready()
        world.wait_configured("cluster-a", 3)
        a.wait_ready_nodes(3)
        blobs = [line["blob"] for line in world.provider.control("journal") if line["kind"] == "Configure"]
        check(blobs and all(blob.startswith("#!/bin/sh\njoin cluster-a ") and blob.endswith(" m5.4xlarge any\n")
                            for blob in blobs), f"from the template: {blobs}")
        a.say(request("web", 5))
        world.wait_configured("cluster-a", 5)
        a.wait_ready_nodes(5)
        _, rows = world.inspect("cluster-a")
        check(len(rows) == 1 and rows[0].need.aggregate_resources["cpu"] == "80" and
              rows[0].need.min_unit["cpu"] == "16", f"the exact sum: {rows}")
        a.say()
        world.wait_configured("cluster-a", 0)
        a.wait_ready_nodes(0)
        a.wait_metric("muster_operator_reclaims_drained_total", 5)  # each was given up
        wait_for("none is counted any more", lambda: a.metric("muster_operator_nodes") == 0)
        check(a.stop() == 0, "it stops in order")


def a_bad_edit_keeps_the_demand():
    """Also over a restart, and it differs from no demand at all."""
    with OperatorWorld(machines=60) as world:
        world.shard.start().wait_ready()
        a = world.muster_operator("cluster-a", [request("web", 3)])
        a.start().wait_ready()
        world.wait_configured("cluster-a", 3)
        good = json.dumps({"requests": [request("web", 3)]})
        for bad, why in (("[[requests]]\nname = 'x'\nkount = 3\n", 'line 1: \\"x\\": unknown key'),
                         ("", "no 'requests'"), (good[:-9], "line 1, column"),
                         (good.replace('"16"', '"lots"'), 'requests[0] \\"web\\": aggregate_resources[cpu]')):
            seen = a.text().count(why)
            a.write(bad)
            a.wait_text(why, seen + 1)
            wait_for("it says so", lambda: a.page("/readyz")[0] == 503)
        os.unlink(a.demand)
        a.wait_text("not found")
        a.kill()
        a.start().wait_text("the last valid demand stays in force", 6)  # what was good is in its directory
        wait_for("demand is sent again", lambda: a.metric("muster_operator_rollups_acknowledged_total") > 0)
        world.settled()
        world.wait_configured("cluster-a", 3)
        a.say(request("web", 1))
        world.wait_configured("cluster-a", 1)
        a.wait_ready()
        check(a.metric("muster_operator_demand_file_errors_total") >= 1, "counted")
        b = world.muster_operator("cluster-b")
        b.write("requests = 7")
        b.start()
        check(b.wait_end() != 0 and "must be a list" in b.text(), "without anything good it does not start")


def reclaims_run_the_users_command():
    """It may take its time; what hangs is killed with all it started when the grace is over."""
    with OperatorWorld(machines=60) as world:
        world.shard.start().wait_ready()
        drained = os.path.join(world.dir, "drained")
        command = script(world, "drain", f'echo "$1 $2 $DRAIN_CLUSTER $DRAIN_MACHINE" >> {drained}\n')
        a = world.muster_operator("cluster-a", [request("web", 2)])
        a.start("--drain-command", command).wait_ready()
        world.wait_configured("cluster-a", 2)
        machines = {m["id"] for m in world.machines("Configured")}
        a.say()
        world.wait_configured("cluster-a", 0)
        wait_for("both were drained", lambda: a.metric("muster_operator_reclaims_drained_total") == 2)
        with open(drained, encoding="utf-8") as file:
            lines = [line.split() for line in file]
        check({line[0] for line in lines} == machines and all(line[0] == line[3] and line[2] == "cluster-a" and
                                                              int(line[1]) > 0 for line in lines), f"{lines}")
        failing = script(world, "failing", "echo cannot; exit 3\n")
        check(a.stop() == 0, "stopped")
        a.say(request("web", 1))
        a.start("--drain-command", failing).wait_ready()
        world.wait_configured("cluster-a", 1)
        a.say()
        a.wait_text("ended with status 3")
        wait_for("what it prints is in the log", lambda: "drain command printed a line" in a.text() and "cannot" in a.text())


def a_reclaim_survives_kill_9():
    """The order was given once; the next process takes it up, with what is left of the grace."""
    with OperatorWorld(machines=60, complete_ms={"Drain": 3600000, "": 0}) as world:
        world.shard.start("--operator-return-timeout", "1h").wait_ready()
        ran = os.path.join(world.dir, "ran")
        slow = script(world, "slow", f"echo $$ >> {ran}\nexec sleep 1000\n")
        quick = script(world, "quick", "exit 0\n")
        a = world.muster_operator("cluster-a", [request("web", 1)])
        a.start("--drain-command", slow).wait_ready()
        world.wait_configured("cluster-a", 1)
        a.say()
        wait_for("the command runs", lambda: os.path.exists(ran) and os.path.getsize(ran) > 0)
        check(a.orders() == 1, "on disk before it is begun")
        a.kill()
        with open(ran, encoding="utf-8") as file:
            pid = int(file.read().split()[0])
        wait_for("it died with its operator", lambda: not alive(pid))
        a.start("--drain-command", quick)
        a.wait_text("resumed=true")
        wait_for("drained", lambda: a.metric("muster_operator_reclaims_drained_total") == 1)
        wait_for("and that is on disk", lambda: a.orders(drained=True) == 1)
        wait_for("the provider drains", lambda: len(world.machines("Draining")) == 1)
        a.kill()
        a.start("--drain-command", slow).wait_ready()
        world.settled()
        check(a.metric("muster_operator_reclaims") == 0, "and is not begun a third time")
        world.provider.control("place", machine=world.machines("Draining")[0]["id"], state="Idle")
        wait_for("forgotten when the machine has left", lambda: a.orders() == 0)


def a_machine_that_leaves_while_the_operator_is_dead_is_not_shown():
    """The shard keeps the last report of such a machine for the next session, and the operator never saw the machine."""
    with OperatorWorld(machines=60) as world:
        world.shard.start().wait_ready()
        a = world.muster_operator("cluster-a", [request("web", 2)])
        a.start().wait_ready()
        a.wait_ready_nodes(2)
        a.kill()
        gone = {m["id"] for m in world.machines("Configured")}
        for machine in gone:
            world.provider.control("place", machine=machine, state="Idle")
        world.wait_configured("cluster-a", 0)
        wait_for("the shard wants them again", lambda: "outcome=no_session" in world.shard.text())
        a.say()
        a.start().wait_ready()
        wait_for("the shard reported everything", lambda: a.metric("muster_operator_rollups_acknowledged_total") >= 8)
        wait_for("nothing is shown that left", lambda: not a.nodes())


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def either_side_may_be_away():
    """kill -9 of operator and shard in turn: nothing is reclaimed, what left meanwhile is not shown for ever."""
    with OperatorWorld(machines=60) as world:
        world.shard.start().wait_ready()
        a = world.muster_operator("cluster-a", [request("web", 4)])
        b = world.muster_operator("cluster-b", [request("web", 2)])
        for each in (a, b):
            each.start().wait_ready()
        world.wait_configured("cluster-a", 4)
        world.wait_configured("cluster-b", 2)
        for _ in range(2):
            a.kill()
            a.start().wait_ready()
            a.wait_ready_nodes(4)
            world.shard.kill()
            wait_for("it notices", lambda: a.page("/readyz")[0] == 503)
            world.shard.start().wait_ready()
            for each in (a, b):
                each.wait_ready()
        world.settled()
        check(not [line for line in world.provider.control("journal") if line["kind"] == "Drain"], "nothing was reclaimed")
        a.kill()
        b.kill()
        b.say(request("web", 1))
        world.shard.kill()  # with it goes what it keeps of machines that left
        gone = world.machines("Configured", cluster="cluster-a")[0]["id"]
        world.provider.control("remove", ids=[gone])
        world.shard.start().wait_ready()
        a.start()
        b.start()
        world.wait_configured("cluster-a", 4)
        world.wait_configured("cluster-b", 1)
        wait_for("the one that left is not shown", lambda: gone not in a.nodes())
        a.wait_ready_nodes(4)
        b.wait_ready_nodes(1)


def identities():
    """mTLS: the right certificate works, another cluster's does not, and each says why."""
    with OperatorWorld(machines=40, tls=True) as world:
        world.shard.start().wait_ready()
        a = world.muster_operator("cluster-a", [request("web", 2)])
        thief = world.muster_operator("cluster-b", [request("web", 9)], certificate="cluster-cluster-a")
        a.start().wait_ready()
        thief.start().wait_text("the shard rejected this operator's identity")
        world.wait_configured("cluster-a", 2)
        wait_for("and is not ready", lambda: thief.page("/readyz")[0] == 503 and
                 "PERMISSION_DENIED" in thief.page("/readyz")[1])
        check(not world.machines("Configured", cluster="cluster-b"), "and gets nothing")
        world.shard.wait_metric("session_identity_rejected_total")


def two_of_one_cluster():
    """They take turns and both say so; the demand is never doubled."""
    with OperatorWorld(machines=40) as world:
        world.shard.start().wait_ready()
        first = world.muster_operator("cluster-a", [request("web", 2)])
        second = world.muster_operator("cluster-a", [request("web", 2)])
        first.start().wait_ready()
        second.start()
        first.wait_text("another operator speaks for this cluster")
        second.wait_text("another operator speaks for this cluster")
        world.wait_configured("cluster-a", 2)
        check(second.stop() == 0, "stopped")
        first.wait_ready()
        world.settled()
        world.wait_configured("cluster-a", 2)
        same = Operator(world, "cluster-a", 9, [])
        same.dir, same.demand = first.dir, first.demand
        done = subprocess.run(same.command(), capture_output=True, text=True, timeout=90, check=False)
        check(done.returncode == 4 and str(first.process.pid) in done.stderr, f"one directory, one process: {done}")


def a_hostile_shard_address():
    """Nobody there, or somebody who speaks something else: it goes on trying, and stops when asked."""
    with OperatorWorld(machines=0) as world:
        a = world.muster_operator("cluster-a", [request("web", 2)])
        a.start()
        a.wait_text("no shard can be reached")
        wait_for("alive, not ready", lambda: a.page("/healthz")[0] == 200 and a.page("/readyz")[0] == 503)
        a.signal(signal.SIGTERM)
        check(a.wait_end() == 0, "stops")


if __name__ == "__main__":
    run_cases([demand_met_edited_released, a_bad_edit_keeps_the_demand, reclaims_run_the_users_command,
               a_reclaim_survives_kill_9, a_machine_that_leaves_while_the_operator_is_dead_is_not_shown,
               either_side_may_be_away, identities, two_of_one_cluster, a_hostile_shard_address])
