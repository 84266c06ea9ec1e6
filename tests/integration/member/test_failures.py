#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Silent workers, over real coordinators (workers.md 24.2 to 24.4). Times are not judged here, because a machine that
stalls makes them longer; tests/unit/member judges the numbers."""
import json

from workers import (DEAD, DRAINING, IDS, LONG, QUICK, REMOVED, RUN, SUSPECTED, T5, T6, T7, Beating, Workers,
                     beat, beat_until, check, code_of, grpc, run_cases, wait_for)


def settings(**more):
    return {**QUICK, **more}


def failures(cluster, worker):
    """The worker's failures as (event id, incarnation), each once."""
    return sorted({(line["attrs"]["event_id"], line["attrs"]["incarnation"]) for line in cluster.events("worker_failed")
                   if line["worker_id"] == worker})


def standing(cluster, worker, want):
    return wait_for(f"{worker} is {want}", lambda: cluster.listed(want).get(worker))


def once_78_79():
    """24.4: a death is reported once, also across restarts; a second one is another (41, 61, 78, 79)."""
    with Workers(1, settings()) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        beat_until(node.dialed(), T6)
        standing(cluster, T6, DEAD)
        line = wait_for("61: worker_failed", lambda: cluster.events("worker_failed"))[0]
        check(line["level"] == "warn" and line["run_id"] == RUN and line["worker_id"] == T6, f"61: {line}")
        check(isinstance(line["attrs"]["due_at_ms"], int), f"61: {line}")
        check(f"{T6}" in node.text(), "a warn line in the log, too")
        check("worker_suspected" in cluster.reported(T6), f"suspected before: {cluster.reported(T6)}")
        for _ in range(2):                                                                          # 78
            node.stop()
            node.start()
            standing(cluster, T6, DEAD)
        check(len(failures(cluster, T6)) == 1, f"78: {failures(cluster, T6)}")
        _, trailers = beat_until(node.dialed(), T6)                                                 # 41
        check(trailers["x-worker-incarnation"] == "2" and trailers["x-directive"] == "reset", f"41: {trailers}")
        standing(cluster, T6, DEAD)
        found = wait_for("79: another failure", lambda: len(failures(cluster, T6)) == 2 and failures(cluster, T6))
        check([incarnation for _, incarnation in found] == [1, 2], f"79: {found}")
        again = [line for line in cluster.events("worker_registered") if line["worker_id"] == T6][-1]
        check(again["attrs"]["previous"] == "dead", f"41: {again}")


def scope_80():
    """24.4: with failure_scope = "worker" there is one failure for all of them (80)."""
    with Workers(1, settings(events={"failure_scope": "worker"})) as cluster:
        cluster.start().formed()
        for _ in range(2):
            beat_until(cluster.nodes[0].dialed(), T6)
            standing(cluster, T6, DEAD)
        wait_for("both deaths are over", lambda: cluster.listed()[T6].incarnation == 2)
        beat_until(cluster.nodes[0].dialed(), T7)
        standing(cluster, T7, DEAD)
        wait_for("what came after it is reported", lambda: failures(cluster, T7))
        check(len(failures(cluster, T6)) == 1, f"80: {failures(cluster, T6)}")


def drained_46():
    """24.2: a draining worker that falls silent has left, and never failed (21, 46)."""
    with Workers(1, settings()) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        beat_until(channel, T6)
        beat_until(channel, T6, state=DRAINING)
        row = standing(cluster, T6, REMOVED)
        check(row.reason == "left", f"46: {row}")
        wait_for("46: worker_deregistered", lambda: "worker_deregistered" in cluster.reported(T6))
        beat_until(channel, T7)
        standing(cluster, T7, DEAD)
        check("worker_failed" not in cluster.reported(T6), f"21: {cluster.reported(T6)}")


def suspected_40():
    """24.2: a suspected worker that beats goes on as if nothing had been (39, 40)."""
    with Workers(1, {"transport": {"heartbeat_interval": "100ms", "worker_self_fence_timeout": "200s",
                                   "coordinator_failure_timeout": "300s", "clock_skew_budget": "50ms",
                                   "beat_reply_max": "60s"}}) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        beat_until(channel, T6, due=False)
        standing(cluster, T6, SUSPECTED)
        epoch = cluster.status().assignment_epoch

        def recovered():
            beat_until(channel, T6, due=False)
            return "worker_recovered" in cluster.reported(T6)
        wait_for("40: worker_recovered", recovered)
        check(cluster.listed()[T6].incarnation == 1, "40: the same incarnation")
        check(cluster.status().assignment_epoch == epoch, "40: nothing moved")


def unknown_38():
    """24.2: an unknown worker's beat may be ignored or refused; another run's may be accepted (10, 38)."""
    with Workers(1, {**settings(), "membership": {"unknown_beat": "ignore", "run_mismatch": "accept"}}) as cluster:
        cluster.start().formed()
        beat_until(cluster.nodes[0].dialed(), T6)
        check(not cluster.listed() and not cluster.reported(T6), "38: ignored")
        cluster.member("Register", worker_id=T6, run_id=RUN)
        beat_until(cluster.nodes[0].dialed(), T6, run=T7)                                           # 10
        check(cluster.listed()[T6].run_id == RUN, f"10: {cluster.listed()}")
    with Workers(1, {**settings(), "membership": {"unknown_beat": "reject"}}) as cluster:
        cluster.start().formed()
        wait_for("38: refused", lambda: code_of(lambda: beat(cluster.nodes[0].dialed(), T6))[0] == grpc.StatusCode.NOT_FOUND)


def leader_killed_24():
    """24.1: a leader is killed, and no worker fails for it (24, 140)."""
    calm = {"transport": {"heartbeat_interval": "1s", "worker_self_fence_timeout": "280s",
                          "coordinator_failure_timeout": "300s", "clock_skew_budget": "250ms", "beat_reply_max": "200ms"}}
    with Workers(3, calm) as cluster:
        cluster.start().formed()
        leader = cluster.leader()
        follower = cluster.others(leader)[0]
        worker = Beating(follower.dialed(), T6)
        wait_for("it beats", lambda: worker.good > 5)
        before = int(worker.last["x-coord-epoch"])
        leader.kill()
        good = worker.good
        wait_for("its beats are acknowledged again, by another leader",
                 lambda: worker.good > good + 5 and int(worker.last["x-coord-epoch"]) > before)
        worker.stop()
        check(not cluster.events("worker_failed"), "24: nobody was failed")
        check(all(code == grpc.StatusCode.UNAVAILABLE for code, _ in worker.bad), f"24: {worker.bad}")
        check(cluster.listed()[T6].incarnation == 1, "24: the same incarnation")


def leaders_81_86():
    """24.4: leaders are killed while workers die: each death has one identity, whichever leader wrote it (81, 82, 86)."""
    with Workers(3, settings()) as cluster:
        cluster.start().formed()
        workers = IDS[:6]
        for worker in workers:
            beat_until(cluster.nodes[0].dialed(), worker)
        wait_for("somebody is failed", lambda: cluster.events("worker_failed"))
        leader = cluster.leader()
        leader.kill()
        cluster.leader(cluster.others(leader))
        leader.start()
        wait_for("all of them are dead", lambda: set(cluster.listed(DEAD)) == set(workers))
        wait_for("and each is reported", lambda: all(failures(cluster, worker) for worker in workers))
        for worker in workers:
            last = cluster.listed()[worker].incarnation  # more than one: it was dead before it had beaten last
            check(len(failures(cluster, worker)) == last, f"86: {worker} {last}: {failures(cluster, worker)}")
        cluster.agree()


def no_majority_95():
    """24.5: a leader without a majority acknowledges nothing, and still answers (25, 95)."""
    with Workers(3, {**settings(transport={**QUICK["transport"], "beat_reply_max": "200ms",
                                           "coordinator_failure_timeout": "300s", "worker_self_fence_timeout": "280s"})}) \
            as cluster:
        cluster.start().formed()
        leader = cluster.leader()
        beat_until(leader.dialed(), T6)
        for node in cluster.others(leader):
            node.pause()

        def refused():
            return code_of(lambda: beat(leader.dialed(), T6))[0] == grpc.StatusCode.UNAVAILABLE
        wait_for("95: UNAVAILABLE", refused)
        check(refused() and refused(), "95: none of them is acknowledged")
        for node in cluster.others(leader):
            node.resume()
        beat_until(leader.dialed(), T6)


def stdout_107():
    """24.6: standard output holds events and nothing else, each one line (98, 99, 100, 107)."""
    keys = ["ts", "kind", "level", "run_id", "worker_id", "trace_id", "span_id", "plugin_id", "algorithm", "message",
            "attrs"]
    with Workers(1, settings(events={"worker_sink": "stdout"}), apart=True) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        beat_until(node.dialed(), T6)
        standing(cluster, T6, DEAD)
        wait_for("its failure is reported", lambda: "worker_failed" in cluster.output(node))
        node.stop()
        for line in cluster.output(node).splitlines():
            event = json.loads(line)
            check(list(event) == keys and " " not in line.split('"message"')[0], f"98: {line}")
            check(sorted(event["ts"]) == ["nanos_since_epoch", "secs_since_epoch"], f"99: {line}")
            check(list(event["kind"]) == ["domain"] and event["level"] in ("info", "warn", "error"), f"100: {line}")


cases = [once_78_79, drained_46, suspected_40, unknown_38, leader_killed_24, leaders_81_86, no_majority_95, stdout_107]
run_cases([*cases, scope_80] if LONG else cases)
