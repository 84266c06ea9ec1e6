#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of a store that is written to while the log takes snapshots of its own: each waits its turn, none is refused."""
import os
import subprocess
import threading

import stores
from stores import Client, Cluster, check, run_cases, wait_for

EAGER = ("--timing-scale", "1000", "--snapshot-entries", "4", "--snapshot-every", "10ms", "--trailing-entries", "4")
KEYS, VALUE = 8, os.urandom(1 << 20)


class Writer(threading.Thread):
    """Replaces a few large values and compacts, so that the log soon outweighs the state, again and again."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.client, self.over, self.written = Client(node), threading.Event(), 0

    def run(self):
        while not self.over.is_set():
            put = self.client.ask("Put", key=b"large/%d" % (self.written % KEYS), value=VALUE)
            check(put.code == stores.OK, f"{put}")
            self.written += 1
            if self.written % KEYS == 0:
                self.client.ask("Compact", revision=put.revision)


def taken_meanwhile(node):
    return sum(int(line.split()[-1]) for line in node.page("/metrics")[1].splitlines()
               if line.startswith("muster_log_snapshots_taken_total"))


def beside_snapshots():
    """Backups while snapshots are taken: none is refused, some waited, and snapshots go on."""
    with Cluster(1, EAGER) as cluster:
        cluster.start()
        cluster.formed()
        node = cluster.nodes[0]
        writer = Writer(node)
        writer.start()
        wait_for("snapshots are taken", lambda: taken_meanwhile(node) > 2)
        archive, count, before = os.path.join(cluster.dir, "copy.muster"), 0, taken_meanwhile(node)

        def once():
            nonlocal count
            check(len(node.stream(stores.coordinators.FLEET + "Backup")) > 1, "a stream of nothing")  # or it raises
            count += 1
            return count >= 5 and "waits until another snapshot is finished" in node.text() and taken_meanwhile(node) > before
        wait_for("one had to wait", once)
        writer.over.set()
        writer.join()
        subprocess.run([stores.coordinators.MUSTERCTL, "backup", archive, "--coordinator", node.grpc], check=True,
                       capture_output=True)
        subprocess.run([stores.coordinators.MUSTERCTL, "backup", "verify", archive], check=True, capture_output=True)


if __name__ == "__main__":
    run_cases([beside_snapshots])
