#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The coordinators' store beside etcd: three replicas each with fsync, on this machine and its one disk, in one run.

usage: bench_store.py BUILD_DIR [--quick] [--etcd-api] [PART...]
parts: idle, write, read, claim, renew, watch, size; with --etcd-api also list, failover, go

One generator, muster-load, asks both sides over gRPC in turn; best of the rounds. With --etcd-api ours are asked by
etcd's API, too: the same bytes go to both, and "go" asks both by unmodified clientv3. CPU is that of the three servers.
Budgets are those of the design (section 9). --quick shows that it works and measures nothing. Everything shares two
cores: see sides.py.
"""
import json
import os
import socket
import statistics
import subprocess
import threading
import time

from sides import BUILD, PARTS, ROOT, RT, WORDS, Ours, at_leader, best, load, rss, three_of_etcd, three_of_ours
import grpc
from coordinators import wait_for

QUICK = "--quick" in WORDS
ETCD_API = "--etcd-api" in WORDS
CLIENTS = (1, 64, 256)
SECONDS, ROUNDS = (0.3, 1) if QUICK else (3, 2)
READ_KEYS = 1000 if QUICK else 100_000
LEASES = 200 if QUICK else 10_000
WATCHERS = 50 if QUICK else 1000
KILLS = 2 if QUICK else 10
GO_SOURCES = "/usr/share/gocode"
SIZES = (500, 2000) if QUICK else (100_000, 1_000_000)
missed = []


def measure(side, op, clients, *words, everywhere=False):
    """One round; `everywhere`: any member is asked, not the leader alone."""
    def ask(leader):
        return load(addresses(side) if everywhere else [leader], side.pids(), "--store", speaks(side), "--op", op,
                    "--streams", clients, "--connections", min(clients, 6 if everywhere else 4), "--seconds", SECONDS,
                    "--warmup", 0.1 if QUICK else 0.5, *words)
    return at_leader(side.leads, ask)


def speaks(side):
    return "etcd" if ETCD_API else side.name


def addresses(side):
    if isinstance(side, Ours):
        return [node.grpc for node in side.nodes]
    return [f"127.0.0.1:{port}" for port in side.ports]


def cpu_seconds(pids):
    """The sum over all replicas so far."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            total += sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
    return total / os.sysconf("SC_CLK_TCK")


def fill(side, op, count, prefix):
    """Creates `count` of them; after an election the missing ones are created under another name."""
    done, took, rounds = 0, 0.0, []
    while done < count:
        got = load([side.leads()], side.pids(), "--store", speaks(side), "--op", op, "--streams", 256, "--connections", 4,
                   "--count", count - done, "--seconds", 1800, "--prefix", f"{prefix}{len(rounds) or ''}")
        rounds.append(got)
        done, took = done + got["calls"], took + got["seconds"]
        if len(rounds) > 20:
            raise SystemExit(f"{side.name}: {op}: {got}")
    return {"rate": done / took, "p99_us": max(got["p99_us"] for got in rounds), "whole": len(rounds) == 1}


def fill_whole(side, op, count, prefix):
    """The same, every one under its own name."""
    if not fill(side, op, count, prefix)["whole"]:
        raise SystemExit(f"{side.name}: an election while {count} were made; try again")


# -- reporting --

def figures(got):
    return (f"{got['rate']:9.0f}/s  p50 {got['p50_us'] / 1000:7.2f}  p99 {got['p99_us'] / 1000:7.2f} ms  "
            f"{got['server_cpu_us_per_call'] / 100:7.3f} s")


def judge(name, *claims):
    """Each claim: what, how much, at most or at least, the budget."""
    for what, figure, way, budget in claims:
        met = figure <= budget if way == "<=" else figure >= budget
        line = f"{name}: {what} {figure:.3g}, budget {way} {budget:.3g}"
        print(f"      {'met   ' if met else 'MISSED'} {what} {figure:.3g} {way} {budget:.3g}", flush=True)
        if not met:
            missed.append(line)


def compare(name, clients, sides, budgets, op, *words, **rest):
    """Rounds of both sides in turn; then the table's lines. `budgets`: made of both figures; theirs may be None."""
    return compare_by(name, clients, sides, budgets, lambda side, number: measure(
        side, op, clients, "--prefix", f"{op}-{clients}-{number}/k", *words, **rest))


def compare_by(name, clients, sides, budgets, a_round):
    rounds = {side.name: [] for side in sides}
    for number in range(ROUNDS):
        for side in sides:
            rounds[side.name].append(a_round(side, number))
    got = [best(rounds[side.name]) for side in sides]
    for side, figure in zip(sides, got):
        print(f"{name if side is sides[0] else '':30}{clients:5}  {side.name:7}{figures(figure)}", flush=True)
    if len(got) == 2:
        share = {what: got[0][what] / got[1][what] for what in got[0] if got[1][what]}
        print(f"{'':35}  ratio  {share['rate']:9.1f} x  p50 {share['p50_us']:7.2f}  p99 {share['p99_us']:7.2f}     "
              f"{share['server_cpu_us_per_call']:7.3f}")
    judge(f"{name}, {clients} clients", *budgets(got[0], got[1] if len(got) == 2 else None))
    return got


def write_budgets(clients):
    def of(ours, theirs):
        if clients == 1:
            return [("p50 ms", ours["p50_us"] / 1000, "<=", 0.35)]
        claims = [("rate", ours["rate"], ">=", 40_000 if clients == 64 else 60_000)]
        if clients == 64:
            claims.append(("CPU s per 10K", ours["server_cpu_us_per_call"] / 100, "<=", 0.3))
        if theirs:
            claims.append(("p99 of etcd's", ours["p99_us"] / theirs["p99_us"], "<=", 1 / 3))
        return claims
    return of


def at_least(rate, cpu_share=None):
    def of(ours, theirs):
        claims = [("rate", ours["rate"], ">=", rate)]
        if theirs and cpu_share:
            claims.append(("CPU of etcd's", ours["server_cpu_us_per_call"] / theirs["server_cpu_us_per_call"], "<=",
                           cpu_share))
        return claims
    return of


def no_budget(*_):
    return []


# -- parts --

def idle(sides):
    time.sleep(1 if QUICK else 5)
    sums = {side.name: sum(rss(pid) for pid in side.pids()) for side in sides}
    for name, total in sums.items():
        print(f"{'idle, RSS of the three':30}       {name:7}{total:9.1f} MiB")
    judge("idle memory", ("MB of three", sums["muster"] * 1.048576, "<=", 30))


def write(sides):
    for clients in CLIENTS:
        if ETCD_API:
            compare("put, 256 bytes", clients, sides, write_budgets(clients), "put")
        compare("create, 256 bytes", clients, sides, write_budgets(clients), "create")
        compare("compare and set, 256 bytes", clients, sides, write_budgets(clients), "cas")


def read(sides):
    for side in sides:
        fill_whole(side, "create", READ_KEYS, "read/k")
    words = "--keys", READ_KEYS, "--prefix", "read/k"
    for clients in CLIENTS:
        compare("get, linearizable", clients, sides, at_least(100_000, 1 / 6) if clients == 64 else no_budget, "get",
                *words)
    compare("get, serializable, all members", 64, sides, no_budget, "get-stale", *words, everywhere=True)


def list_(sides):
    """The newest thousand of many: one message each."""
    if not ETCD_API:
        return
    for side in sides:
        fill_whole(side, "put", READ_KEYS, "list/k")
    for clients in (1, 16):
        compare("range of 1,000 keys", clients, sides, no_budget, "range", "--keys", READ_KEYS - 999, "--prefix", "list/k")


def claim(sides):
    for clients in CLIENTS[:2]:
        compare("acquire and release", clients, sides, no_budget, "claim", "--value", 0)


def renew(sides):
    for side in sides:
        fill_whole(side, "lease", LEASES, "lease/k")
    words = "--keys", LEASES
    compare(f"keep-alive of {LEASES}, single", 64, sides, no_budget, "renew", *words)
    compare(f"keep-alive of {LEASES}, by 100", 64, sides, at_least(100_000), "renew", *words, "--batch", 100)


def watch(sides):
    words = "--watchers", WATCHERS, "--watch-connections", 10
    for writers in (1, 16):
        compare(f"events at {WATCHERS} watchers", writers, sides,
                at_least(500_000) if writers == 16 else no_budget, "watch", *words)


def size(sides):
    few, many = SIZES
    took = {}
    for side in sides:
        fill_whole(side, "create", few, "size/a")
        took[side.name] = restart(side, f"size/a-{few - 1:08}"), restart_all(side, f"size/a-{few - 1:08}")
        print(f"{f'restart with {few} keys':30}       {side.name:7}one member {took[side.name][0]:.2f} s until it has "
              f"the last key; all three {took[side.name][1]:.2f} s until a linearizable get", flush=True)
    judge("restart", ("seconds", took["muster"][0], "<=", 0.3))
    sums = {}
    for side in sides:
        got = fill(side, "put", many - few, "size/b")  # which etcd does three times as fast as transactions
        each = [rss(pid) for pid in side.pids()]
        sums[side.name] = sum(each)
        print(f"{f'{many} keys of 256 bytes':30}       {side.name:7}RSS {', '.join(f'{one:.0f}' for one in each)} MiB; "
              f"filled by 256 clients at {got['rate']:.0f}/s, p99 {got['p99_us'] / 1000:.1f} ms", flush=True)
    if len(sums) == 2:
        judge(f"RSS at {many} keys", ("of etcd's", sums["muster"] / sums["etcd"], "<=", 0.5))


def failover(sides):
    """kill -9 of the leader until another has acknowledged a put, both others asked all the time."""
    if not ETCD_API:
        return
    times = {side.name: sorted(lose_leader(side, f"failover/{number}") for number in range(KILLS)) for side in sides}
    for name, each in times.items():
        print(f"{f'failover, {KILLS} kills':30}       {name:7}median {statistics.median(each):.3f} s, "
              f"worst {each[-1]:.3f} s", flush=True)
    judge("failover", ("median s", statistics.median(times["muster"]), "<=", 0.5))


def lose_leader(side, key):
    victim = addresses(side).index(side.leads())
    others = [grpc.insecure_channel(address) for n, address in enumerate(addresses(side)) if n != victim]
    request = bytes([0x0a, len(key)]) + key.encode() + b"\x12\x01v"
    done, at = threading.Event(), []

    def put(channel):
        call = channel.unary_unary("/etcdserverpb.KV/Put")
        while not done.is_set():
            try:
                call(request, timeout=0.1)  # what was lost with the leader is not waited for
                at.append(time.monotonic())
                done.set()
            except grpc.RpcError:
                time.sleep(0.002)

    for channel in others:  # connected before anything is measured
        channel.unary_unary("/etcdserverpb.KV/Put")(request, timeout=10)
    kill(side, [victim])
    began = time.monotonic()
    threads = [threading.Thread(target=put, args=(channel,)) for channel in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for channel in others:
        channel.close()
    start(side, [victim])
    wait_for("all three again", lambda: holds(side, addresses(side)[victim], key, True))
    return min(at) - began


def go(sides):
    """An unmodified client: Go's clientv3 costs more than either server, so CPU is a better figure than the rate."""
    program = build_go() if ETCD_API else None
    if not program:
        return
    for side in sides:
        fill_whole(side, "put", READ_KEYS, "go/k")
    for op, clients in (("put", 1), ("put", 64), ("put", 256), ("create", 64), ("get", 64), ("get-stale", 64)):
        prefix = "go/k" if op.startswith("get") else f"go-{op}-{clients}/k"
        compare_by(f"clientv3 {op}", clients, sides, no_budget,
                   lambda side, number, op=op, clients=clients, prefix=prefix: by_go(program, side, op, clients, prefix))


def build_go():
    if not os.path.isdir(f"{GO_SOURCES}/src/go.etcd.io/etcd/clientv3"):
        print(f"go: no sources of clientv3 under {GO_SOURCES} (scripts/setup interop)")
        return None
    program = f"{BUILD}/bench/clientv3"
    subprocess.run(["go", "build", "-o", program, "."], cwd=f"{ROOT}/bench/clientv3", check=True,
                   env={**os.environ, "GO111MODULE": "off", "GOPATH": GO_SOURCES, "GOFLAGS": "", "GOCACHE": f"{BUILD}/gocache"})
    return program


def by_go(program, side, op, clients, prefix):
    def ask(leader):
        before = cpu_seconds(side.pids())
        done = subprocess.run([*RT, program, op, str(clients), str(min(clients, 4)), str(SECONDS), prefix, str(READ_KEYS),
                               leader], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"clientv3: {done.stderr}")
        got = json.loads(done.stdout)
        got["server_cpu_us_per_call"] = (cpu_seconds(side.pids()) - before) * 1e6 / max(got["calls"], 1)
        return got
    return at_leader(side.leads, ask)


def holds(side, address, key, stale):
    """Whether it answers with that key now; by bytes, so that both are asked alike."""
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    ours = isinstance(side, Ours) and not ETCD_API
    request = bytes([0x0a, len(key)]) + key.encode()
    if stale:
        request += b"\x10\x01" if ours else b"\x38\x01"
    with grpc.insecure_channel(address) as channel:
        try:
            got = channel.unary_unary("/muster.v1.Coordination/Get" if ours else "/etcdserverpb.KV/Range")(
                request, timeout=2)
            return key.encode() in got
        except grpc.RpcError:
            return False


def until(done):
    while not done():
        time.sleep(0.002)


def kill(side, numbers):
    for number in numbers:
        if isinstance(side, Ours):
            side.nodes[number].process.kill()
            side.nodes[number].wait_end()
        else:
            side.kill(number)


def start(side, numbers):
    for number in numbers:
        if isinstance(side, Ours):
            side.nodes[number].start()
        else:
            side.start(number)


def restart(side, key):
    """kill -9 of a member that does not lead, then its start, until it has the last key itself."""
    victim = next(n for n, address in enumerate(addresses(side)) if address != side.leads())
    kill(side, [victim])
    began = time.monotonic()
    start(side, [victim])
    until(lambda: holds(side, addresses(side)[victim], key, True))
    return time.monotonic() - began


def restart_all(side, key):
    kill(side, range(3))
    began = time.monotonic()
    start(side, range(3))
    until(lambda: any(holds(side, address, key, False) for address in addresses(side)))
    took = time.monotonic() - began
    wait_for("a leader", side.leads)
    return took


if __name__ == "__main__":
    print(f"{'':30}{'clients':>5}  {'':7}{'rate':>9}   latency{'':28}CPU of three per 10K")
    for part in (idle, write, read, list_, claim, renew, watch, size, failover, go):
        if not PARTS or part.__name__.strip("_") in PARTS:
            with three_of_ours() as ours, three_of_etcd() as theirs:  # new ones: no part sees what another left
                if theirs and part is idle:
                    print(f"peer: {theirs.version} of Debian; the design's figures were of 3.6")
                part([ours, theirs] if theirs else [ours])
    print("\nmissed budgets:" if missed else "\nno budget was missed")
    for line in missed:
        print("  " + line)
