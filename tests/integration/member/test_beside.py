#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The parts beside membership in a real coordinator: the development CA, events, the ledger, a reload, giving up,
musterctl (workers.md 24.6, 24.7, 24.11, 24.13)."""
import json
import os
import re
import signal
import subprocess

from workers import (ACTIVE, READY, SLOW, T5, T6, T7, Workers, beat_until, check, coordinators, wait_for)

SAID = "Generated dev CA at "


def with_settings(**sections):
    return {**SLOW, **sections}


def own_stdout(node):
    """Writes its standard output to a file; returns the path."""
    path = node.log + ".out"
    node.wrapper = ["sh", "-c", 'exec "$@" >>"$0"', path]
    return path


def stdout_107():
    """24.6, 24.13: standard output holds events only; the CA is made once and found again (107, 189, 190)."""
    with Workers(1, with_settings(events={"worker_sink": "stdout"})) as cluster:
        node = cluster.nodes[0]
        out = own_stdout(node)
        cluster.start().formed()
        beat_until(node.dialed(), T5)
        check(node.text().count(SAID + node.tls_dir + "/ca.pem\n") == 1, "189: one line says where the CA is")
        mode = os.stat(node.tls_dir + "/ca.key.pem").st_mode & 0o777
        check(mode == 0o600, f"189: its key is its owner's: {mode:o}")
        first = {name: open(f"{node.tls_dir}/{name}", "rb").read() for name in ("ca.pem", "ca.key.pem")}
        node.stop()
        node.start()
        cluster.formed()
        beat_until(node.dialed(), T6)
        check(node.text().count(SAID) == 1, "190: later starts say nothing")
        again = {name: open(f"{node.tls_dir}/{name}", "rb").read() for name in first}
        check(again == first, "190: and change nothing")
        node.stop()
        with open(out, encoding="utf-8") as file:
            lines = file.read()
        check(lines.endswith("\n"), "98: whole lines")
        topics = [json.loads(line)["kind"]["domain"]["topic"] for line in lines.splitlines()]
        check({"worker_registered", "worker_heartbeat", "leader_changed"} <= set(topics), f"107: {topics}")
        check('"topic"' not in node.text(), "107: and no event is in the log")


def read_ledger(path):
    return subprocess.run([coordinators.MUSTER, "coordinator", "ledger", path], capture_output=True, text=True,
                          timeout=coordinators.PATIENCE, check=False)


def ledger_119():
    """24.7: the ledger has a row for each worker, and one that is damaged or another's stops no beat (119, 248)."""
    with Workers(1, with_settings(storage={"heartbeat_flush_interval": "20ms"})) as cluster:
        node = cluster.nodes[0]
        ledger = node.dir + "-ledger.db"
        cluster.start().formed()
        beat_until(node.dialed(), T5)
        wait_for("119: a row is written behind", lambda: os.path.exists(ledger) and
                 T5.encode() in open(ledger, "rb").read())
        beat_until(node.dialed(), T5, state=READY, metadata=[("x-worker-load", "0.42")])
        check(T5 in read_ledger(ledger).stdout, "it can be read while the coordinator runs")
        node.stop()
        rows = [json.loads(line) for line in read_ledger(ledger).stdout.splitlines()]
        check([(row["row"], row["worker_id"]) for row in rows] == [("worker", T5), ("heartbeat", T5)], f"119: {rows}")
        check((rows[0]["standing"], rows[0]["incarnation"]) == ("active", 1), f"{rows}")
        check((rows[1]["phase"], rows[1]["load"]) == ("ready", 0.42), f"the newest beat, written at the end: {rows}")
        with open(ledger, "r+b") as file:
            file.seek(20)  # behind its head
            file.write(b"\xff" * (os.path.getsize(ledger) - 20))
        node.start()
        cluster.formed()
        beat_until(node.dialed(), T6)
        wait_for("a damaged one is set aside", lambda: os.path.exists(ledger + ".damaged"))
        wait_for("and a new one begun", lambda: os.path.exists(ledger) and T6.encode() in open(ledger, "rb").read())
        check(set(cluster.listed()) == {T5, T6}, "nobody was forgotten: the ledger decides nothing")
        node.stop()
        with open(ledger, "wb") as file:
            file.write(b"redb, and nothing of ours")
        node.start()
        cluster.formed()
        beat_until(node.dialed(), T7)
        wait_for("another's is reported", lambda: "is no file of rows of muster's" in node.text())
        check(set(cluster.listed(ACTIVE)) == {T5, T6, T7}, "beats go on")
        node.stop()
        check(open(ledger, "rb").read() == b"redb, and nothing of ours", "and it is not touched")


def reload_19():
    """19: SIGHUP takes how many heartbeats are written; the rest waits for a restart and is named."""
    with Workers(1) as cluster:
        node = cluster.nodes[0]
        cluster.start().formed()
        beat_until(node.dialed(), T5)
        wait_for("reported", lambda: cluster.events("worker_heartbeat"))
        before = len(cluster.events("worker_heartbeat"))
        cluster.file(node, with_settings(events={"heartbeat": "none"}, checkpoint={"checkpoint_interval_sec": 11},
                                         detector={**SLOW.get("detector", {}), "kind": "silence", "suspect": "phi"}))
        node.signal(signal.SIGHUP)
        wait_for("the reload is reported", lambda: re.search(r'detector.kind.*restart', node.text()))
        wait_for("and done", lambda: "events.heartbeat" in node.text())
        for _ in range(5):
            beat_until(node.dialed(), T5, state=READY)
        node.stop()
        check(not re.search(r'(checkpoint_interval_sec|detector.suspect)[^\n]*restart', node.text()), "19: those are taken")
        lines = cluster.events("worker_heartbeat")
        check(len(lines) == before, f"{len(lines) - before} more were written")


def give_up_15():
    """15: without a leader a coordinator gives up with the configured code (23.9)."""
    for settings, code in (({"start_timeout": "1s"}, 3), ({"start_timeout": "1s", "loser_exit": 75}, 75)):
        with Workers(1, first=1) as cluster:
            node = cluster.nodes[0]
            node.options += ["--join-addr", cluster.address(9, 0), "--start-timeout", settings["start_timeout"]]
            if "loser_exit" in settings:
                node.options += ["--loser-exit", str(settings["loser_exit"])]
            node.start()
            ended = node.wait_end()
            check(ended == code, f"wanted {code}, ended with {ended}")
            check("no leader was heard of" in node.text(), "and says why")


def ctl_164():
    """24.11: musterctl shows the same as the pages (164, 167)."""
    with Workers(1) as cluster:
        node = cluster.nodes[0]
        cluster.start().formed()

        def ctl(*words):
            """Repeats the call while the machine is too slow for an answer."""
            def once():
                done = subprocess.run([coordinators.MUSTERCTL, *words, "--coordinator", node.grpc], capture_output=True,
                                      text=True, timeout=coordinators.PATIENCE, check=False)
                return done if done.stdout else None
            return wait_for(" ".join(words), once)
        empty = json.loads(ctl("status", "--json").stdout)
        check(empty == {"active": 0, "known": 0, "total_partitions": 128, "assignment_epoch": 0}, f"164: {empty}")
        for worker in (T5, T6, T7):
            beat_until(node.dialed(), worker)
        cluster.member("Evict", worker_id=T7)
        numbers = json.loads(ctl("status", "--json").stdout)
        check((numbers["active"], numbers["known"]) == (2, 3), f"164: {numbers}")
        wait_for("167: the page says the same", lambda: node.page("/status")[1].strip() ==
                 ctl("status", "--json").stdout.strip())
        rows = json.loads(ctl("workers", "-o", "json").stdout)["workers"]
        check([(row["worker_id"], row["standing"]) for row in rows] ==
              [(T5, "STANDING_ACTIVE"), (T6, "STANDING_ACTIVE"), (T7, "STANDING_DEAD")], f"{rows}")
        check(len(json.loads(ctl("partitions", "-o", "json").stdout)["partitions"]) == 128, "every partition")
        watched = ctl("workers", "--watch", "--count", "1", "-o", "json")
        check(json.loads(watched.stdout)["workers"] and watched.returncode == 0, f"a watch begins at once: {watched}")


if __name__ == "__main__":
    coordinators.run_cases([stdout_107, ledger_119, reload_19, give_up_15, ctl_164])
