# SPDX-License-Identifier: Apache-2.0
"""The agreement of a worker and its coordinators at Register: fence times, and one process for each worker id.

The worker's file and the coordinators' file may differ. A cut-off worker must stop by the shorter time, because the
coordinators reassign its partitions by their own.
"""
import os
import re
import sys

from runs import World, check, run_cases, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../member"))
from link import Link  # noqa: E402
from workers import ACTIVE, OWNED, Workers  # noqa: E402

PARTITIONS = 8
FENCE_MS = 4000
COORDINATORS = {"transport": {"heartbeat_interval": "500ms", "worker_self_fence_timeout": f"{FENCE_MS}ms",
                              "coordinator_failure_timeout": "5s", "beat_reply_max": "5s"},
                "placement": {"total_partitions": PARTITIONS}, "checkpoint": {"checkpoint_interval_sec": 1}}
LINES = [f"key{number % 11} {number}" for number in range(200)]


class Scene(World):
    """One coordinator, and workers whose files are their own."""

    def __init__(self, coordinators=COORDINATORS):
        super().__init__()
        self.cluster = Workers(1, coordinators)
        self.node = self.cluster.nodes[0]
        self.tls = self.node.tls_dir

    def join(self, address=None, **settings):
        times = {"transport__heartbeat_interval": "500ms", "transport__worker_self_fence_timeout": f"{FENCE_MS}ms",
                 "transport__coordinator_failure_timeout": "5s", "transport__clock_skew_budget": "250ms"}
        return self.worker([address or "https://" + self.node.workers], **{**times, **settings})

    def link(self):
        """A proxy before the coordinator."""
        host, port = self.node.workers.rsplit(":", 1)
        return Link(port, host)

    def owned_by(self, worker):
        def look():
            rows = self.cluster.member("ListPartitions").partitions
            return len(rows) == PARTITIONS and all(row.state == OWNED and row.owner == worker.id for row in rows)
        wait_for(f"{worker.id} owns everything", look)

    def __enter__(self):
        self.cluster.__enter__()
        self.cluster.start().formed()
        for number in range(PARTITIONS):
            self.feed(number, LINES)
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.cluster.__exit__(*exception)


def the_shorter_fence_holds():
    """A worker whose file says 60 s stops by the coordinator's 4 s when it is cut off"""
    with Scene() as scene:
        link = scene.link()
        cut = scene.join(f"https://127.0.0.1:{link.port}", transport__worker_self_fence_timeout="60s",
                         transport__coordinator_failure_timeout="61s").start()
        scene.owned_by(cut)
        other = scene.join().start()
        wait_for("the other is ready", lambda: scene.cluster.listed().get(other.id) is not None)
        link.cut()
        cut.wait_says("fenced:")
        fenced = re.search(r"fenced:.*timeout_ms=(\d+)", cut.text())
        check(fenced and int(fenced.group(1)) == FENCE_MS, f"it stopped by {fenced and fenced.group(0)}")
        scene.owned_by(other)
        check("given back" not in cut.text().split("fenced:")[1], "it wrote after it was fenced")


def a_worker_that_cannot_keep_the_time_is_refused():
    """A worker that beats more rarely than the coordinators' fence allows is not registered, and its log says why"""
    with Scene() as scene:
        rare = scene.join(transport__heartbeat_interval="5s", transport__worker_self_fence_timeout="60s",
                          transport__coordinator_failure_timeout="61s").start()
        rare.wait_says("heartbeat_interval")
        check("not registered" in rare.text() and f"{FENCE_MS}" in rare.text(), rare.text()[-2000:])
        check(all(row.state != OWNED for row in scene.cluster.member("ListPartitions").partitions), "it was given partitions")


def the_second_of_one_id_is_refused():
    """Two processes with one worker id: the first works on, the second is refused and waits until the first is gone"""
    with Scene() as scene:
        first = scene.join().start()
        scene.owned_by(first)
        second = scene.join()
        second.id = first.id
        second.start()
        second.wait_says("is in use by another process", 6)
        row = scene.cluster.listed()[first.id]
        events = scene.cluster.reported(first.id)
        check(row.standing == ACTIVE and row.incarnation == 1, f"standing {row.standing} incarnation {row.incarnation}")
        check("worker_failed" not in events and "worker_restarted" not in events and "worker_identity_conflict" not in events,
              str(events))
        check("reset" not in first.text() and first.text().count('msg="worker registered') == 1, first.text()[-2000:])
        scene.owned_by(first)
        first.kill()
        second.wait_says("worker registered")
        check("incarnation=2" in second.text(), second.text()[-2000:])
        scene.owned_by(second)
        third = scene.join()
        third.id = first.id
        third.start()
        third.wait_says("is in use by another process")
        third.stop()  # it holds nothing
        check(scene.cluster.listed()[first.id].incarnation == 2, "the second works on")
        second.stop()


def a_fence_that_is_shortened_holds():
    """A worker that is registered under 60 s gets the coordinator's new 4 s with its next heartbeat, and stops by them"""
    longer = {**COORDINATORS, "transport": {**COORDINATORS["transport"], "worker_self_fence_timeout": "60s",
                                            "coordinator_failure_timeout": "61s"}}
    with Scene(longer) as scene:
        link = scene.link()
        first = scene.join(f"https://127.0.0.1:{link.port}", transport__worker_self_fence_timeout="60s", transport__coordinator_failure_timeout="61s").start()
        scene.owned_by(first)
        scene.node.stop()
        scene.cluster.file(scene.node, COORDINATORS)
        scene.node.start()
        scene.cluster.formed()
        wait_for("the new time is in force", lambda: re.search(f"worker_self_fence_timeout of the coordinators changed.* coordinator_ms={FENCE_MS}", first.text()))
        second = scene.join().start()
        wait_for("the second is listed", lambda: scene.cluster.listed().get(second.id) is not None)
        link.cut()
        scene.owned_by(second)
        check("fenced:" in first.text(), "the first stopped before the second owned its partitions")


run_cases([the_shorter_fence_holds, a_fence_that_is_shortened_holds, a_worker_that_cannot_keep_the_time_is_refused, the_second_of_one_id_is_refused])
