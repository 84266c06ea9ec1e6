#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registered workers of real coordinators: partitions, work, orders, copies (workers.md 24.1, 24.2, 24.9, 24.16)."""
import json
import os
import subprocess
import threading

from workers import (ACTIVE, DEAD, MEMBER, OWNED, PATIENCE, PATIENT, REVOKING, RUN, SUBSCRIBE, T5, T6, T7, WORK,
                     Workers, beat_until, check, code_of, coordinators, grpc, message, run_cases, stub, wait_for)
from link import Link


def joins(cluster, worker, instance, channel=None):
    """Registers and beats READY; returns its incarnation."""
    answer = cluster.member("Register", worker_id=worker, run_id=RUN, instance=instance * 16, fences_itself=True)
    beat_until(channel or cluster.nodes[0].dialed(), worker, metadata=[("x-worker-instance", instance * 16)])
    return answer.incarnation


def owners(cluster):
    return {p.partition: (p.owner, p.state) for p in cluster.member("ListPartitions").partitions}


def all_owned(cluster, *workers):
    def look():
        have = owners(cluster)
        return have if set(have.values()) <= {(worker, OWNED) for worker in workers} and \
            {owner for owner, _ in have.values()} == set(workers) else None
    return wait_for(f"all partitions are owned by {workers}", look)


def give_back(cluster, worker, incarnation):
    """Acknowledges all revoked partitions; returns their number."""
    assignment = cluster.member("GetAssignment", worker_id=worker, incarnation=incarnation)
    cluster.member("AckRevoke", worker_id=worker, incarnation=incarnation, revoked=[
        {"partition": one.partition, "grant_epoch": one.grant_epoch, "checkpoint": f"ckpt-{worker}-1"}
        for one in assignment.revoking])
    return len(assignment.revoking)


def partitions_142():
    """24.9: a partition is revoked, acknowledged, then granted; leave frees at once (48, 142, 144, 153)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        beat_until(cluster.nodes[0].dialed(), T7)
        first = joins(cluster, T5, "aa")
        before = all_owned(cluster, T5)
        check(len(before) == 128, f"{len(before)} partitions")
        second = joins(cluster, T6, "bb")
        wait_for("142: some are being revoked", lambda: REVOKING in {state for _, state in owners(cluster).values()})
        check(T6 not in {owner for owner, _ in owners(cluster).values()}, "142: nothing is granted before it was given back")
        stale = cluster.member("GetAssignment", worker_id=T5, incarnation=first).revoking[0]
        refused = cluster.member("AckRevoke", worker_id=T5, incarnation=first,
                                 revoked=[{"partition": stale.partition, "grant_epoch": stale.grant_epoch - 1}]).refused
        check(list(refused) == [stale.partition], f"144: {refused}")
        wait_for("142: all that move were given back", lambda: give_back(cluster, T5, first) == 0 and
                 {state for _, state in owners(cluster).values()} == {OWNED} and
                 T6 in {owner for owner, _ in owners(cluster).values()})
        granted = cluster.member("GetAssignment", worker_id=T6, incarnation=second).granted
        check(granted and all(one.checkpoint == f"ckpt-{T5}-1" for one in granted), "with what its owner wrote last")
        check(cluster.listed()[T7].partitions == 0, "153: who only beats owns nothing")
        cluster.member("Leave", worker_id=T6, incarnation=second)                                   # 48
        all_owned(cluster, T5)
        check("worker_failed" not in cluster.reported(T6), "48: leaving is no failure")


def push_142():
    """24.9: the watch stream sends each change, also through a follower (141, 155)."""
    with Workers(3, options=PATIENT) as cluster:
        cluster.start().formed()
        follower = cluster.others(cluster.leader())[0]
        incarnation = joins(cluster, T5, "aa", follower.dialed())
        all_owned(cluster, T5)
        request = message("muster.v1.AssignmentRequest")(worker_id=T5, incarnation=incarnation)
        stream = stub(follower.dialed(), MEMBER + "WatchAssignment", "unary_stream")(request, timeout=PATIENCE)
        first = next(stream)
        check(len(first.granted) == 128 and first.incarnation == incarnation, f"{len(first.granted)}")
        joins(cluster, T6, "bb", follower.dialed())
        sent = next(answer for answer in stream if answer.revoking)
        check(sent.assignment_epoch > first.assignment_epoch, "141: a newer epoch")
        stream.cancel()


def evicted_49():
    """24.2: an evicted worker fails with a reason, and is reset (41, 49)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        joins(cluster, T5, "aa")
        check(cluster.member("Evict", worker_id=T5).incarnation == 1, "49")
        check(cluster.listed()[T5].standing == DEAD and cluster.listed()[T5].reason == "evicted", f"{cluster.listed()}")
        lines = wait_for("49: worker_failed", lambda: cluster.events("worker_failed"))
        check(lines[0]["attrs"]["reason"] == "evicted" and lines[0]["level"] == "warn", f"49, 61: {lines}")
        _, trailers = beat_until(channel, T5, metadata=[("x-worker-instance", "aa" * 16), ("x-worker-incarnation", "1")])
        check(trailers.get("x-directive") == "reset", f"41: {trailers}")
        check(cluster.status().active == 1 or trailers["x-worker-incarnation"], f"{trailers}")


def control_14_to_18():
    """24.1: orders go down the control stream, or ride on a beat (14-18)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        beat_until(channel, T6)
        check(not cluster.member("Drain", worker_id=T6, deadline_ms=30000).delivered, "16: nobody listens")
        answer, _ = beat_until(channel, T6)
        check(answer.pending_control.drain.deadline.seconds == 30, f"16: {answer}")
        answer, _ = beat_until(channel, T6)
        check(not answer.HasField("pending_control"), "16: once")
        request = message("rollout.transport.v1.ControlSubscribeRequest")(worker_id=T6, run_id=RUN)
        first = stub(channel, SUBSCRIBE, "unary_stream")(request, timeout=PATIENCE)
        wait_for("14: it is delivered", lambda: cluster.member("Drain", worker_id=T6, deadline_ms=30000).delivered)
        pushed = next(first)
        check(pushed.drain.deadline.seconds == 30, f"14: {pushed}")
        second = stub(channel, SUBSCRIBE, "unary_stream")(request, timeout=PATIENCE)
        check(not [push for push in first if push.WhichOneof("event") != "drain"], "18: the first stream ends")
        wait_for("18: the second has it", lambda: cluster.member("Drain", worker_id=T6, deadline_ms=1000).delivered)
        check(next(second).drain.deadline.seconds == 1, "18")
        cluster.member("Leave", worker_id=T6, incarnation=1)                                        # 15
        try:
            list(second)
        except grpc.RpcError as error:
            check(error.code() in (grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN),
                  f"15: {error.code()}")


def work_219_to_229():
    """24.16: work is dispatched in order, done once, and comes back from a worker that leaves (219-229), 24.1: 19."""
    with Workers(1) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        one, two = joins(cluster, T5, "aa"), joins(cluster, T6, "bb")
        items = [item.id for item in cluster.member("Enqueue", payloads=[b"alpha", b"bravo", b"charlie"]).items]
        pulled = cluster.member("Pull", worker_id=T5, incarnation=one, max_items=2).items
        check([item.payload for item in pulled] == [b"alpha", b"bravo"], f"221: {pulled}")
        check(not cluster.member("Submit", worker_id=T5, incarnation=one,
                                 results=[{"id": items[0], "result_id": b"r" * 32}]).refused, "219")
        check(list(cluster.member("Submit", worker_id=T5, incarnation=one,
                                  results=[{"id": items[0], "result_id": b"s" * 32}]).refused) == [items[0]], "239: once")
        again = cluster.member("Enqueue", payloads=[b"alpha"]).items[0]
        check(again.state == 2 and again.result_id == b"r" * 32, f"228: {again}")
        check(list(cluster.member("GiveBack", worker_id=T5, incarnation=one, ids=[items[0]]).refused) == [items[0]], "220")
        check(not cluster.member("GiveBack", worker_id=T5, incarnation=one, ids=[items[1]]).refused, "give back")
        pulled = cluster.member("Pull", worker_id=T6, incarnation=two, max_items=8).items
        check({item.payload for item in pulled} == {b"bravo", b"charlie"}, f"{pulled}")
        later, got = threading.Event(), []

        def wait_for_work():
            got.extend(cluster.nodes[0].call(MEMBER + "Pull", worker_id=T5, incarnation=one, wait_ms=30000).items)
            later.set()
        threading.Thread(target=wait_for_work, daemon=True).start()
        cluster.member("Enqueue", payloads=[b"delta"])
        check(later.wait(PATIENCE) and [item.payload for item in got] == [b"delta"], f"the caller that waits is answered: {got}")
        cluster.member("Submit", worker_id=T5, incarnation=one, results=[{"id": got[0].id, "failed": "no such file"}])
        failed = wait_for("20.1: work_failed", lambda: cluster.events("work_failed"))[0]
        check(failed["attrs"]["reason"] == "no such file" and failed["attrs"]["work_id"] == got[0].id.hex(), f"{failed}")
        cluster.member("Evict", worker_id=T6)                                                      # 229
        rows = {row.id: row for row in cluster.member("ListWork").rows}
        check([rows[item].state for item in items] == [2, 0, 0], f"229: {rows}")
        up = message("rollout.transport.v1.WorkUp")
        frames = stub(channel, WORK, "stream_stream")(iter([up(ready="no ulid"), up(ready=T5)]), timeout=PATIENCE)
        down = list(frames)
        check(down[0].heartbeat == "ack", f"19: {down}")
        check(down[1].item in (b"bravo", b"charlie"), f"20.1: {down}")


def pages_164_165():
    """24.11: /health, /status and the lists as pages; without a quorum /health is 503 (164, 165, 166)."""
    with Workers(3) as cluster:
        cluster.start().formed()
        leader = cluster.leader()
        wait_for("164: an empty cluster", lambda: leader.page("/status") == (
            200, '{"active":0,"known":0,"total_partitions":128,"assignment_epoch":0}'))
        joins(cluster, T5, "aa")
        beat_until(leader.dialed(), T6)
        cluster.member("Evict", worker_id=T6)
        wait_for("164: counted", lambda: '"active":1,"known":2,' in leader.page("/status")[1])
        page = wait_for("165: ok", lambda: '"status":"ok"' in leader.page("/health")[1] and leader.page("/health"))
        check(page[0] == 200 and list(json.loads(page[1])) == [
            "status", "role", "leader", "coord_epoch", "assignment_epoch", "workers", "partitions", "last_scan_ms",
            "scan_lag_ms", "checkpoint_round", "uptime_s", "version"], f"165: {page}")

        def rows():
            status, text = leader.page("/workers")
            return [json.loads(line)["worker_id"] for line in text.splitlines()] if status == 200 else []
        wait_for("workers by id", lambda: rows() == [T5, T6])
        follower = cluster.others(leader)[0]
        wait_for("166: a follower that knows its leader is ready", lambda: follower.page("/ready")[0] == 200)
        check(follower.page("/x")[0] == 404, "166")
        for node in cluster.others(follower):
            node.kill()
        wait_for("165: unavailable", lambda: follower.page("/health")[0] == 503)
        check(json.loads(follower.page("/health")[1])["status"] == "unavailable", "165")
        wait_for("166: and it is not ready", lambda: follower.page("/ready")[0] == 503)


def copies():
    """A backup holds the workers, and what is restored from it has them."""
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        joins(cluster, T5, "aa")
        owned = all_owned(cluster, T5)
        cluster.member("Enqueue", payloads=[b"alpha"])
        archive = os.path.join(cluster.dir, "copy.muster")
        subprocess.run([coordinators.MUSTERCTL, "backup", archive, "--coordinator", node.grpc], check=True,
                       capture_output=True)
        hashes = {machine.name: machine.hash for machine in node.state().machines}
        check("member" in hashes, f"{hashes}")
        node.stop()
        subprocess.run([coordinators.MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise",
                        node.raft, "--yes"], check=True, capture_output=True)
        node.start()
        wait_for("the workers are there again", lambda: list(cluster.listed()) == [T5])
        check(cluster.listed()[T5].standing == ACTIVE, "and nobody was failed")
        check(owners(cluster) == owned, "with their partitions")
        check([row.bytes for row in cluster.member("ListWork").rows] == [5], "and the work")


def unanswered_pull():
    """A Pull that a follower forwards is sent once, also with x-request-id: an answer that is lost is in doubt"""
    with Workers(3, options=PATIENT) as cluster:
        links = {}
        for node in cluster.nodes:
            host, port = node.grpc.rsplit(":", 1)
            links[node] = Link(int(port), host)
            node.options += ["--advertise", f"127.0.0.1:{links[node].port}"]
        cluster.start().formed()
        leader = cluster.leader()
        follower, link = cluster.others(leader)[0], links[leader]
        incarnation = joins(cluster, T5, "aa")
        cluster.member("Enqueue", payloads=[b"alpha", b"bravo"])

        def pulled():
            return len([row for row in leader.call(MEMBER + "ListWork").rows if row.state == 1])
        wait_for("the follower forwards", lambda: code_of(lambda: follower.call(MEMBER + "ListWork"))[0] ==
                 grpc.StatusCode.OK)
        check(link.pairs and pulled() == 0, "through the proxy, and nothing is taken")
        link.cut(requests=True, replies=False)
        pull = message(coordinators.METHODS[MEMBER + "Pull"].input_type)
        pending = stub(follower.dialed(), MEMBER + "Pull").future(
            pull(worker_id=T5, incarnation=incarnation, max_items=1), timeout=PATIENCE,
            metadata=[("x-request-id", "mesh-1")])
        wait_for("the leader has given one", pulled)
        link.heal()
        code, text, _ = code_of(pending.result)
        check(pulled() == 1, f"one was asked for, {pulled()} were given")
        check(code == grpc.StatusCode.UNKNOWN, f"{code} {text}")
        for each in links.values():
            each.close()


run_cases([unanswered_pull, partitions_142, push_142, evicted_49, control_14_to_18, work_219_to_229, pages_164_165, copies])
