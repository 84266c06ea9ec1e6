#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long a new user waits: from `muster dev` in an empty directory to the first dashboard page with real data.

usage: bench_dev.py BUILD [--quick]

The bench asks like a browser (the page, then its data), every 20 ms. The limit is 5 s. The load of the machine
is printed, too, because some thirty processes start at once: on a busy machine the figures say little.
  page      the first answer to GET /
  full      all that the first page shows: three replicas with a leader, reports of both shards, machines that run with
            zone and price, machines to be had (as tests/integration/dash/test_browser.py waits for it)
  needs, workers   their pages have something to show
  ready     `muster dev` printed that it is ready"""
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

BUILD, QUICK = os.path.abspath(sys.argv[1]), "--quick" in sys.argv
ROUNDS, LIMIT_S, GIVE_UP_S, EVERY_S = 1 if QUICK else 7, 5.0, 120, 0.02
FIRST_PAGE = ("page", "raft", "reports", "machines")  # its content
HTTP_LINE = 2  # of DIR/ports: where the first coordinator's dashboard listens


def get(port, path):
    """The body, or None: not there yet."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        return body if answer.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def topic(port, name):
    body = get(port, "/api/" + name)
    return json.loads(body) if body else {}


def machines_shown(port):
    """The tables of the first page: machines that run, with what they cost, and what could be had, of both shards."""
    shards = topic(port, "shards").get("shards") or []
    rows = [row for shard in shards for row in (shard.get("said") or {}).get("inventory") or []]
    runs = [row for row in rows if row["state"] not in ("Speculative", "Deleted")]
    offers = {(row["instance_type"], row["capacity_type"]) for row in rows if row["state"] == "Speculative"}
    return len(shards) == 2 and all(shard.get("said") for shard in shards) and runs and len(offers) > 5


def reports_shown(port):
    return len((topic(port, "fleet").get("reports") or {}).get("reports") or []) == 2


def replicas_shown(port):
    replicas = (topic(port, "raft").get("replicas") or {}).get("replicas") or []
    return len(replicas) == 3 and any(replica.get("leader") for replica in replicas)


def needs_shown(port):
    return any((shard.get("said") or {}).get("needs") for shard in topic(port, "needs").get("shards") or [])


def workers_shown(port):
    return bool((topic(port, "workers").get("workers") or {}).get("workers"))


def http_port(directory):
    try:
        with open(os.path.join(directory, "ports"), encoding="ascii") as file:
            return int(file.read().split()[HTTP_LINE])
    except (OSError, IndexError):
        return None


def said_ready(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return "\nready\n" in file.read()


def one_round():
    home = tempfile.mkdtemp(prefix="muster-bench-dev-")
    data, out = os.path.join(home, "data"), os.path.join(home, "out")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    waits = {"page": lambda port: get(port, "/"), "raft": replicas_shown, "reports": reports_shown,
             "machines": machines_shown, "needs": needs_shown, "workers": workers_shown, "ready": lambda _port: said_ready(out)}
    seen = {}
    with open(out, "wb") as file:
        began = time.monotonic()
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", os.path.join(BUILD, "cmd/muster/muster"), "dev", "--free-ports",
                                    "--http-listen", "127.0.0.1:0", "--data-dir", data],
                                   stdout=file, stderr=subprocess.STDOUT, env=environment, cwd=home)
    try:
        while len(seen) < len(waits) and time.monotonic() - began < GIVE_UP_S and process.poll() is None:
            port = http_port(data)
            for name, there in waits.items():
                if port and name not in seen and there(port):
                    seen[name] = time.monotonic() - began
            time.sleep(EVERY_S)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(GIVE_UP_S)
    missing = set(waits) - set(seen)
    if missing:
        with open(out, encoding="utf-8", errors="replace") as file:
            sys.exit(f"never seen: {', '.join(sorted(missing))}; it said\n{file.read()[-3000:]}")
    shutil.rmtree(home)
    seen["full"] = max(seen[name] for name in FIRST_PAGE)
    return seen


def main():
    load = os.getloadavg()[0]
    rounds = [one_round() for _ in range(ROUNDS)]
    print(f"{ROUNDS} rounds, each in an empty directory; load before {load:.1f}, after {os.getloadavg()[0]:.1f}; limit {LIMIT_S:.0f} s")
    for name in (*FIRST_PAGE, "full", "needs", "workers", "ready"):
        times = sorted(seen[name] for seen in rounds)
        print(f"{name:<10} best {times[0]:.2f} s   median {times[len(times) // 2]:.2f} s   worst {times[-1]:.2f} s")
    best = min(seen["full"] for seen in rounds)
    print(f"{'':<10} first full page, best: {best / LIMIT_S:.2f} of the limit")


main()
