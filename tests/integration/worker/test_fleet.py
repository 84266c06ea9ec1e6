# SPDX-License-Identifier: Apache-2.0
"""Real coordinators and real workers: the owners of partitions, and totals as in an undisturbed run.

Timing is generous: a stall of the machine must not make the coordinators fail a live worker by accident. Times are never
judged.
"""
import os
import subprocess
import sys

from runs import LONG, MUSTER, MUSTERCTL, World, check, run_cases, totals_of, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../member"))
from workers import ACTIVE, OWNED, Workers  # noqa: E402

WORKERS, PARTITIONS = (20, 64) if LONG else (5, 24)
TIMES = {"heartbeat_interval": "500ms", "worker_self_fence_timeout": "6s", "coordinator_failure_timeout": "8s"}
SETTINGS = {"transport": {**TIMES, "beat_reply_max": "5s"}, "placement": {"total_partitions": PARTITIONS},
            "checkpoint": {"checkpoint_interval_sec": 1}}
LINES = [f"key{number % 11} {number}" for number in range(600)]


class Fleet(World):
    def __init__(self, coordinators, workers):
        super().__init__()
        self.cluster = Workers(coordinators, SETTINGS)
        self.tls = self.cluster.nodes[0].tls_dir
        self.addresses = ["https://" + node.workers for node in self.cluster.nodes]
        self.workers = [self.join() for _ in range(workers)]

    def join(self, **settings):
        times = {"transport__" + key: value for key, value in TIMES.items()}
        return self.worker(self.addresses, **{**times, "process__rate": 3000, "transport__clock_skew_budget": "250ms",
                                              **settings})

    def start(self):
        self.cluster.start().formed()
        for worker in self.workers:
            worker.start()
        self.settled(self.workers)
        return self

    def settled(self, workers):
        """All partitions belong to these, and each of them knows it."""
        names = {worker.id for worker in workers}

        def look():
            rows = self.cluster.member("ListPartitions").partitions
            owners = {row.owner for row in rows if row.state == OWNED}
            return rows if len(rows) == PARTITIONS and all(row.state == OWNED for row in rows) and owners <= names else None
        return wait_for("every partition is owned by who should", look)

    def topics(self, worker):
        return self.cluster.reported(worker.id)

    def finished(self, lines):
        """Every partition's checkpoint has the totals of all its lines."""
        want = totals_of(lines)
        wait_for("all totals", lambda: all(self.totals(number) == want for number in range(PARTITIONS)))

    def nobody_failed_for_nothing(self, but=None):
        """A worker that is declared dead had stopped by its own clock before: on a machine that stops that may happen."""
        for worker in self.workers:
            failures, fences = self.topics(worker).count("worker_failed"), worker.text().count("fenced:")
            check(worker is but or failures <= fences, f"{worker.id}: failed {failures} times, fenced {fences}")

    def feed_all(self, lines):
        for number in range(PARTITIONS):
            self.feed(number, lines)

    def __enter__(self):
        self.cluster.__enter__()
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.cluster.__exit__(*exception)


def kills_pauses_and_drains():
    """A worker killed, one stopped past its time, one drained, the leader killed: each once, and exact totals"""
    with Fleet(3, WORKERS) as fleet:
        fleet.feed_all(LINES)
        fleet.start()
        killed, paused, drained, *others = fleet.workers
        wait_for("checkpoints", lambda: any(fleet.totals(number) for number in range(PARTITIONS)))

        killed.kill()
        paused.pause()
        fences = paused.text().count("fenced:")
        for worker in (killed, paused):
            wait_for("worker_failed", lambda worker=worker: "worker_failed" in fleet.topics(worker))
        fleet.settled([drained, *others])
        fleet.feed_all(LINES)
        paused.resume()
        paused.wait_says("fenced:", fences + 1)
        text = paused.text()
        check("given back" not in text[text.rindex("fenced:"):].split("registered")[0], "it wrote after it was fenced")
        wait_for("it is there again", lambda: fleet.cluster.listed()[paused.id].standing == ACTIVE
                 and fleet.cluster.listed()[paused.id].incarnation > 1)

        drained.stop()
        wait_for("worker_deregistered", lambda: "worker_deregistered" in fleet.topics(drained))
        fleet.cluster.leader().kill()
        check(fleet.cluster.leader(), "another leads")
        fleet.settled([paused, *others])
        fleet.feed_all(LINES)
        fleet.finished(3 * LINES)
        check(fleet.topics(killed).count("worker_failed") == 1, str(fleet.topics(killed)))
        fleet.nobody_failed_for_nothing(but=killed)
        for worker in [paused, *others]:
            worker.stop()


def coordinators_restart():
    """All coordinators restarted: registry, incarnations and totals are as they were"""
    with Fleet(3, 3) as fleet:
        fleet.feed_all(LINES)
        fleet.start()
        before = {name: row.incarnation for name, row in fleet.cluster.listed().items()}
        for node in fleet.cluster.nodes:
            node.stop()
        for node in fleet.cluster.nodes:
            node.start()
        after = wait_for("the registry", lambda: {name: row.incarnation for name, row in fleet.cluster.listed().items()})
        check(set(after) == set(before) and all(after[name] >= before[name] for name in before), f"{before} then {after}")
        fleet.nobody_failed_for_nothing()
        fleet.feed_all(LINES)
        fleet.finished(2 * LINES)
        for worker in fleet.workers:
            worker.stop()


def restored():
    """Coordinators restored from an old backup: workers that saw later epochs work on, with higher tokens, and without a restart"""
    with Fleet(1, 2) as fleet:
        node = fleet.cluster.nodes[0]
        fleet.feed_all(LINES)
        fleet.start()
        archive = os.path.join(fleet.cluster.dir, "workers.muster")
        subprocess.run([MUSTERCTL, "backup", archive, "--coordinator", node.grpc], check=True, capture_output=True)
        for _ in range(3):  # each is a later epoch
            node.stop()
            node.start()
            fleet.settled(fleet.workers)
        fleet.finished(LINES)  # by workers that have seen the newest one
        epoch = fleet.cluster.status().coord_epoch
        wait_for("a beat under the newest epoch", lambda: all(
            row.standing == ACTIVE for row in fleet.cluster.listed().values()))
        tokens = {row.partition: row.grant_epoch for row in fleet.cluster.member("ListPartitions").partitions}
        node.stop()
        subprocess.run([MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise", node.raft,
                        "--yes"], check=True, capture_output=True)
        node.start()

        def granted_anew():
            rows = fleet.cluster.member("ListPartitions").partitions
            return all(row.state == OWNED and row.grant_epoch > tokens[row.partition] for row in rows)
        wait_for("every partition under a higher token", granted_anew)
        check(fleet.cluster.status().coord_epoch > epoch, f"epoch {fleet.cluster.status().coord_epoch} after {epoch}")
        fleet.settled(fleet.workers)
        fleet.feed_all(LINES)
        fleet.finished(2 * LINES)
        for worker in fleet.workers:
            check("ignored an outdated answer of a coordinator" not in worker.text(), "no answer was ignored")
            worker.stop()


def newcomers():
    """A worker joins: partitions move to it by revoke and acknowledgement, none is read twice: 142"""
    with Fleet(1, 2) as fleet:
        fleet.feed_all(LINES)
        fleet.start()
        third = fleet.join().start()
        wait_for("some are its own", lambda: fleet.cluster.member("ListPartitions", worker_id=third.id).partitions)
        fleet.settled([*fleet.workers, third])
        fleet.feed_all(LINES)
        fleet.finished(2 * LINES)
        fleet.nobody_failed_for_nothing()
        for worker in [*fleet.workers, third]:
            worker.stop()


run_cases([kills_pauses_and_drains, restored] + ([coordinators_restart, newcomers] if LONG else []))
