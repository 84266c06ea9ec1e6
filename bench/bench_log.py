#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The replicated log: three replicas on this machine and its one disk, beside what the disk can do.

usage: bench_log.py BUILD_DIR [--long] [PART...]      parts: rate, etcd, failover, restart, snapshot

A replica proposes by itself (`load` of muster-log), so the log is measured, not a protocol in front
of it; etcd is asked over gRPC by h2load. Everything shares two cores: with MUSTER_BENCH_RT=1 (root) all of
it runs under real-time priority, both sides alike, so that a neighbour's compiler is not what is measured.
"""
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests/integration/log"))
from cluster import Client, Cluster, Gone, fields, wait_for  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
MUSTER_LOG, BARE = f"{BUILD}/tests/integration/log/muster-log", f"{BUILD}/bench/bare_sync"
PARTS = [word for word in sys.argv[2:] if not word.startswith("--")]
LONG = "--long" in sys.argv
TIMING = ("--election", "250ms", "--heartbeat", "50ms")
IN_FLIGHT = (1, 16, 64, 256, 1024)
TICKS = os.sysconf("SC_CLK_TCK")
GIB = 1 << 30


def cpu_of(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            words = stat.read().rsplit(")", 1)[1].split()
        total += int(words[11]) + int(words[12])
    return total / TICKS


def bare(directory, size=4096):
    """Syncs a second, p50, p99: as one in flight of one process could be at best."""
    done = subprocess.run([BARE, os.path.join(directory, "bare"), str(size), "2000"], capture_output=True, text=True,
                          check=True)
    return [int(word) for word in done.stdout.split()]


def cluster_of(count, *options):
    return Cluster(MUSTER_LOG, count, options, timing=TIMING, name="bench")


def load(node, in_flight, size, ms, keys=0):
    """A load on a connection of its own; its figures as numbers."""
    client = Client(node.text)
    answer = client.ask(f"load {in_flight} {size} {ms}" + (f" {keys}" if keys else ""), ms / 1000 + 120)
    client.close()
    return {name: int(value) for name, value in fields(answer).items()}


def rate():
    with cluster_of(3) as cluster:
        leader = cluster.leader()
        pids = [node.process.pid for node in cluster.nodes.values()]
        term = leader.status()["term"]
        for size in (256, 1024):
            print(f"{size} B, three replicas:  in flight      rate    of bare     p50 us     p99 us  CPU s/10K")
            for in_flight in IN_FLIGHT:
                rounds = []
                for _ in range(3):
                    syncs = bare(cluster.dir)
                    before = cpu_of(pids)
                    got = load(leader, in_flight, size, 2000)
                    cpu = (cpu_of(pids) - before) * 10000 / max(1, got["done"])
                    rounds.append((got["done"] * 1000 / got["wall_ms"], got["p50_us"], got["p99_us"], cpu, syncs))
                per_s, p50, p99, cpu, _ = max(rounds)
                syncs, sync_us = max(r[4][0] for r in rounds), min(r[4][1] for r in rounds)
                print(f"{'':25}{in_flight:9} {per_s:9.0f} {per_s / syncs:9.1f}x {p50:10} {p99:10} {cpu:10.3f}   bare: "
                      f"{syncs}/s, p50 {sync_us} us ({p50 / sync_us:.1f}x)", flush=True)
        print(f"elections meanwhile: {int(leader.status()['term']) - int(term)}")


def etcd():
    program, h2load = shutil.which("etcd"), shutil.which("h2load")
    if not program or not h2load:
        print("etcd: not installed (scripts/setup bench)")
        return
    directory = tempfile.mkdtemp(prefix="muster-bench-etcd-")
    pid = os.getpid()
    address = f"127.{100 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}"
    peers = ",".join(f"e{n}=http://{address}:{5000 + n}" for n in (1, 2, 3))
    nodes = []
    try:
        for n in (1, 2, 3):
            with open(f"{directory}/e{n}.log", "wb") as log:
                nodes.append(subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", program, "--name", f"e{n}", "--data-dir", f"{directory}/e{n}",
                     "--listen-client-urls", f"http://{address}:{5010 + n}",
                     "--advertise-client-urls", f"http://{address}:{5010 + n}",
                     "--listen-peer-urls", f"http://{address}:{5000 + n}",
                     "--initial-advertise-peer-urls", f"http://{address}:{5000 + n}",
                     "--initial-cluster", peers, "--initial-cluster-state", "new", "--log-level", "error"],
                    stdout=log, stderr=log))
        wait_for("etcd", lambda: subprocess.run(["curl", "-sf", f"http://{address}:5011/health"], check=False,
                                                capture_output=True).returncode == 0)
        for size in (256, 1024):
            message = b"\x0a\x04load\x12" + bytes([size & 127 | 128, size >> 7]) + b"x" * size
            with open(f"{directory}/put", "wb") as file:
                file.write(b"\0" + len(message).to_bytes(4, "big") + message)
            print(f"{size} B, etcd puts:  in flight      rate     p50 us     p99 us  CPU s/10K (three servers)")
            for in_flight in IN_FLIGHT:
                best = max((etcd_round(directory, nodes, address, in_flight) for _ in range(2)), key=lambda r: r[0])
                print(f"{'':20}{in_flight:9} {best[0]:9.0f} {best[1]:10} {best[2]:10} {best[3]:10.3f}", flush=True)
    finally:
        for node in nodes:
            node.kill()
            node.wait()
        shutil.rmtree(directory, ignore_errors=True)


def etcd_round(directory, nodes, address, in_flight):
    """Asks member 1, leader or not; per request it costs the same work in all."""
    log = f"{directory}/requests"
    before = cpu_of([node.pid for node in nodes])
    connections = max(1, in_flight // 256)
    subprocess.run(["h2load", "-c", str(connections), "-m", str(in_flight // connections), "-D", "2", "-d",
                    f"{directory}/put", "--log-file", log, "-H", "content-type: application/grpc", "-H", "te: trailers",
                    f"http://{address}:5011/etcdserverpb.KV/Put"], check=True, capture_output=True)
    cpu = cpu_of([node.pid for node in nodes]) - before
    with open(log, encoding="ascii") as file:
        took = sorted(int(line.split("\t")[2]) for line in file if line.split("\t")[1] == "200")
    os.remove(log)
    count = max(1, len(took))
    took = took or [0]
    return count / 2, took[count // 2], took[count * 99 // 100], cpu * 10000 / count


def failover():
    times = []
    with cluster_of(3) as cluster:
        for _ in range(20):
            victim = cluster.leader()
            others = [node for node in cluster.nodes.values() if node is not victim]
            for node in others:
                node.status()
            began = time.monotonic()
            victim.process.kill()
            while not any(written(node) for node in others):
                time.sleep(0.002)
            times.append(time.monotonic() - began)
            victim.wait_end()
            victim.start()
            cluster.agree()
    print(f"failover, 20 kills, 250/50 ms: median {statistics.median(times):.3f} s, worst {max(times):.3f} s, "
          f"best {min(times):.3f} s")


def written(node):
    try:
        return node.ask("set failover 1", 2).startswith("ok")
    except (Gone, OSError):
        return False


def restart():
    with cluster_of(1, "--snapshot-entries", "1000000000", "--trailing-entries", "1000000000") as cluster:
        node = cluster.nodes[1]
        cluster.leader()
        for size in (1024, 65536):
            for _ in range(100):
                load(node, 64, size, 500)
                if log_bytes(node) >= GIB:
                    break
            last = node.status()["last"]
            node.kill()
            forget(node)
            began = time.monotonic()
            node.start()
            opened = time.monotonic() - began
            wait_for("ready", lambda: node.status()["ready"] == "1")
            print(f"restart after kill -9, cold, {log_bytes(node) / GIB:.2f} GiB of log, {last} entries of {size} B: open in "
                  f"{opened:.2f} s, leads and has applied all in {time.monotonic() - began:.2f} s", flush=True)
            node.kill()
            shutil.rmtree(node.dir)
            node.start()
            cluster.leader()


def forget(node):
    """Out of the page cache, as after a reboot."""
    os.sync()
    folder = os.path.join(node.dir, "log")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def log_bytes(node):
    folder = os.path.join(node.dir, "log")
    return sum(os.stat(os.path.join(folder, name)).st_blocks * 512 for name in os.listdir(folder)
               if name.endswith(".seg"))


def snapshot():
    with cluster_of(3, "--snapshot-every", "1h") as cluster:
        leader = cluster.leader()
        for _ in range(100):
            load(leader, 64, 16384, 500, 65536)
            if int(leader.status()["keys"]) == 65536:
                break
        term = leader.status()["term"]
        quiet = load(leader, 64, 256, 5000)
        figures = {}
        thread = threading.Thread(target=lambda: figures.update(load(leader, 64, 256, 30000 if LONG else 10000)))
        thread.start()
        time.sleep(1)
        before = int(leader.status()["snapshot"])
        began = time.monotonic()
        for node in cluster.nodes.values():
            node.ask("snapshot")
        wait_for("the snapshot", lambda: int(leader.status()["snapshot"]) > before)
        took = time.monotonic() - began
        thread.join()
        moved = int(cluster.leader().status()["term"]) - int(term)
        print(f"snapshot of 1 GiB on all three at once while writing: {took:.1f} s on the leader; p99 "
              f"{figures['p99_us'] / 1000:.1f} ms (quiet {quiet['p99_us'] / 1000:.1f}), longest "
              f"{figures['max_us'] / 1000:.0f} ms (quiet {quiet['max_us'] / 1000:.0f}), elections {moved}", flush=True)


def endurance():
    with cluster_of(3, "--snapshot-every", "10s") as cluster:
        leader = cluster.leader()
        term = leader.status()["term"]
        got = load(leader, 256, 1024, 600000, 100000)
        print(f"10 minutes at 256 in flight of 1 KiB: {got['done'] / 600:.0f}/s, p99 {got['p99_us'] / 1000:.1f} ms, longest "
              f"{got['max_us'] / 1000:.0f} ms, failed {got['failed']}, elections "
              f"{int(cluster.leader().status()['term']) - int(term)}, snapshots to {leader.status()['snapshot']}")


def room():
    """The parts write some gigabytes; a full disk would hurt others."""
    free = os.statvfs(tempfile.gettempdir())
    if free.f_bavail * free.f_frsize < 24 * GIB:
        sys.exit("bench_log: 24 GiB of free disk are needed in " + tempfile.gettempdir())


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # so that directories are removed
    room()
    if os.environ.pop("MUSTER_BENCH_RT", None):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print(f"load average {os.getloadavg()[0]:.1f}, scheduler {'round-robin' if os.sched_getscheduler(0) else 'other'}, "
          f"nice {os.nice(0)}")
    for part in [rate, etcd, failover, restart, snapshot] + ([endurance] if LONG else []):
        if not PARTS or part.__name__ in PARTS:
            part()
