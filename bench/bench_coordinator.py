#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The fleet coordinator: three replicas with fsync on this machine and its one disk, beside three etcd members.

usage: bench_coordinator.py BUILD_DIR [--small] [PART...]      parts: assign, report, snapshot, failover

One generator, muster-load, asks both sides over gRPC in turn, in the same run: AssignDomain of a domain of its own per
call here, one put per assignment there. CPU is that of the three servers. --small shows that it works and measures
nothing. Everything shares two cores: see sides.py.
"""
import os
import statistics
import subprocess
import time

from sides import MUSTER, PARTS, WORDS, at_leader, best, load, rss, three_of_etcd, three_of_ours
import grpc
from coordinators import COORDINATOR, FLEET, Cluster, message, wait_for

SMALL = "--small" in WORDS
CALLERS = (1, 64, 256)
SECONDS, ROUNDS = (1, 1) if SMALL else (5, 3)
SHARDS = 100 if SMALL else 2000
SIZES = (1000, 5000) if SMALL else (100_000, 1_000_000)
KILLS = 3 if SMALL else 20


def ask(address, path, request, callers, pids, directory, vary, seconds=SECONDS):
    """The generator's figures; `request` with its ### is another one for each call."""
    file = os.path.join(directory, "request")
    with open(file, "wb") as out:
        out.write(request)
    return load([address], pids, "--path", path, "--request-file", file, "--vary", vary, "--streams", callers,
                "--connections", min(callers, 4), "--seconds", seconds, "--warmup", 0.5)


def show(name, callers, got):
    print(f"{name:34}{callers:8} {got['rate']:9.0f} /s   p50 {got['p50_us']:8.0f} us   p99 {got['p99_us']:8.0f} us   "
          f"CPU of the servers {got['server_cpu_us_per_call']:7.1f} us each   errors {got['errors']}", flush=True)


def add_shards(leader, count):
    method = message("muster.v1.AddShardRequest")
    stub = leader.dialed().unary_unary(f"/{FLEET}AddShard", method.SerializeToString)
    for one in [stub.future(method(shard_id=f"s-{number:04}", address="h:1"), timeout=60) for number in range(count)]:
        one.exception()  # there already, perhaps


def assignment(round_):
    """Domains of a shard, by the last three digits of their number; each round has domains of its own."""
    kind = message("bigfleet.v1alpha1.AssignDomainRequest")
    return kind(topology_key="topology.kubernetes.io/rack", topology_value=f"r{round_}-########",
                shard_id="s-0###").SerializeToString()


# -- parts --

def assign():
    with three_of_ours() as cluster, three_of_etcd() as members:
        leader = cluster.leader()
        add_shards(leader, 1000)
        print(f"{'one assignment, committed':34}{'callers':>8}")
        number = 0
        for callers in CALLERS:
            ours, theirs = [], []
            for _ in range(ROUNDS):
                number += 1
                ours.append(at_leader(cluster.leader, lambda leader: ask(
                    leader.grpc, f"/{COORDINATOR}AssignDomain", assignment(number), callers, cluster.pids(), cluster.dir,
                    10**8)))
                if members:
                    theirs.append(put(members, number, callers))
            show("AssignDomain, three replicas", callers, best(ours))
            if theirs:
                show(f"one put, {members.version}", callers, best(theirs))
                print(f"{'':42} {best(ours)['rate'] / best(theirs)['rate']:9.1f} x   CPU "
                      f"{best(ours)['server_cpu_us_per_call'] / best(theirs)['server_cpu_us_per_call']:.2f} x")
        cluster.agree()
        print(f"RSS afterwards: {', '.join(f'{rss(pid):.0f} MiB' for pid in cluster.pids())}")


def put(members, round_, callers):
    key, value = f"/domains/rack/r{round_}-########".encode(), b"s-0###"
    request = bytes([0x0a, len(key)]) + key + bytes([0x12, len(value)]) + value
    return at_leader(members.leads, lambda leader: ask(
        leader, "/etcdserverpb.KV/Put", request, callers, members.pids(), members.root, 10**8))


def report():
    with three_of_ours() as cluster:
        leader = cluster.leader()
        kind = message("bigfleet.v1alpha1.ShardReport")
        types = {f"m{n}.large": 10 * n for n in range(10)}
        shortfalls = [{"priority": n, "deficit": {"resources": {"cpu": "8"}}, "age_cycles": n} for n in range(5)]
        summary = {"total_machines": 500000, "free_machines": 1000, "per_instance_type_counts": types}
        request = kind(shard_id="s-####", cycle=1, shard_epoch=1, shard_address="shard:7780", shortfalls=shortfalls,
                       summary=summary).SerializeToString()
        add_shards(leader, SHARDS)
        print(f"report of {len(request)} bytes, {SHARDS} shards    callers")
        for callers in CALLERS:
            show("ReportShard", callers, best([at_leader(cluster.leader, lambda leader: ask(
                leader.grpc, f"/{COORDINATOR}ReportShard", request, callers, cluster.pids(), cluster.dir, SHARDS))
                for _ in range(ROUNDS)]))
        print(f"RSS of the leader {rss(leader.process.pid):.0f} MiB; a report each 10 s of {SHARDS} shards is {SHARDS / 10:.0f} /s")


def snapshot():
    for size in SIZES:
        with three_of_ours() as cluster:
            leader = cluster.leader()
            add_shards(leader, 1000)
            began, rows = time.monotonic(), 0
            while rows < size:  # the generator knows seconds, not calls: it goes on where numbers begin again
                ask(cluster.leader().grpc, f"/{COORDINATOR}AssignDomain", assignment(0), 256, [], cluster.dir, size,
                     seconds=max(1, min(30, size // 10000)))
                rows = domains(leader)
            leader = cluster.leader()
            print(f"{size} domains in 1,000 shards, filled in {time.monotonic() - began:.0f} s; RSS "
                  f"{', '.join(f'{rss(pid):.0f} MiB' for pid in cluster.pids())}", flush=True)
            archives = {}
            for path in (COORDINATOR + "SnapshotSave", FLEET + "Backup"):
                began = time.monotonic()
                chunks = leader.stream(path, timeout=600)
                took, length = time.monotonic() - began, sum(len(chunk.data) for chunk in chunks)
                archives[path] = b"".join(chunk.data for chunk in chunks)
                name = path.split("/")[1]
                print(f"  {name:14} {took:7.2f} s  {length / 1e6:8.1f} MB, {length / size:.0f} B a domain")
            cluster.agree()
            restore(cluster, archives[FLEET + "Backup"], size)


def domains(node):
    """How many there are, by the metric: a list of a million is no way to count."""
    def look():
        for line in node.page("/metrics")[1].splitlines():
            if line.startswith('muster_coordinator_rows{table="domains"}'):
                return int(float(line.split()[-1])) + 1
        return None
    time.sleep(1.2)  # set once a second
    return wait_for("the metric", look) - 1


def restore(cluster, archive, size):
    path = os.path.join(cluster.dir, "backup")
    with open(path, "wb") as file:
        file.write(archive)
    with Cluster(1, join=False, first=7) as scratch:
        node = scratch.nodes[0]
        began = time.monotonic()
        subprocess.run([MUSTER, "coordinator", "restore", "--data-dir", node.dir, "--id", node.name, "--raft-advertise",
                        node.raft, path], check=True, capture_output=True)
        took = time.monotonic() - began
        node.start()
        scratch.leader()
        ready = time.monotonic() - began - took
        print(f"  restore        {took:7.2f} s, then started and leading in {ready:.2f} s with "
              f"{domains(node)} of {size} domains; RSS {rss(node.process.pid):.0f} MiB", flush=True)


def failover():
    times = []
    kind = message("bigfleet.v1alpha1.AssignDomainRequest")
    with three_of_ours() as cluster:
        cluster.leader().call(FLEET + "AddShard", shard_id="s")
        for number in range(KILLS):
            victim = cluster.leader()
            others = cluster.others(victim)
            stubs = [node.dialed().unary_unary(f"/{COORDINATOR}AssignDomain", kind.SerializeToString)
                     for node in others]
            request = kind(topology_key="k", topology_value=f"{number}", shard_id="s")
            for node in others:
                node.state()  # connected
            began = time.monotonic()
            victim.process.kill()
            while not any(taken(stub, request) for stub in stubs):
                time.sleep(0.002)
            times.append(time.monotonic() - began)
            victim.wait_end()
            victim.start()
            cluster.formed()
            cluster.agree()
    print(f"failover, leader killed to first accepted write, {KILLS} kills: median {statistics.median(times):.3f} s, "
          f"worst {max(times):.3f} s, best {min(times):.3f} s")


def taken(stub, request):
    try:
        stub(request, timeout=2)
        return True
    except grpc.RpcError:
        return False


if __name__ == "__main__":
    for part in (assign, report, snapshot, failover):
        if not PARTS or part.__name__ in PARTS:
            print(f"-- {part.__name__}", flush=True)
            part()
