#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A whole shard: 500,000 machines over a provider process on loopback, 50,000 Needs of 200 clusters.

usage: bench_shard.py BUILD [--quick]

Measured of the shard alone: its CPU and memory (procfs), its own histograms of the decide thread. Limits are printed beside the figures.
  cold      from its start to ready: List, merge, first decision
  re-plan   the decision after all demand came at once
  actions   through the execute pool at a provider that takes 7 s, default settings
  steady    a delta List with 0.1 % of the machines changed, and the decision after it
"""
import collections
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.append(os.path.join(ROOT, "tests/lib"))
import cluster_operator  # noqa: E402

BUILD, QUICK = sys.argv[1], "--quick" in sys.argv
MACHINES, NEEDS, CLUSTERS = (20000, 2000, 20) if QUICK else (500000, 50000, 200)
LATENCY_MS = 7000
PROVIDER, GRPC, HTTP = "127.0.0.1:17977", "127.0.0.1:17987", "127.0.0.1:17988"
PARTS = ("snapread", "phase1", "phase2", "phase3", "emit", "execute")
OPERATORS = {"In": 1, "NotIn": 2, "Exists": 3, "DoesNotExist": 4, "Same": 5}


def line(what, text):
    print(f"{what:<10} {text}", flush=True)


class Operators:
    """One process for all clusters: grpcio would take more CPU than the shard."""

    def __init__(self, directory):
        self.directory, self.count = directory, 0
        self.process = subprocess.Popen([os.path.join(BUILD, "bench/operators_stub"), GRPC], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def rollup(self, contract, rows):
        """Every cluster sends its demand; returns when all roll-ups were acknowledged."""
        self.count += 1
        path = os.path.join(self.directory, f"rollups-{self.count}")
        with open(path, "wb") as file:
            for cluster, wanted in rows.items():
                frame = contract.FromOperator()
                frame.rollup.cluster_id = cluster
                frame.rollup.timestamp_unix_nanos = time.time_ns()
                frame.rollup.needs.extend(wanted)
                for part in (cluster.encode(), frame.SerializeToString()):
                    file.write(struct.pack("<I", len(part)) + part)
        self.process.stdin.write(path + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "acked\n":
            raise SystemExit("the operators ended")


class Shard:
    def __init__(self, directory):
        self.process = subprocess.Popen(
            [os.path.join(BUILD, "cmd/muster/muster"), "shard", "run", "--provider-addr", PROVIDER, "--listen", GRPC,
             "--http-listen", HTTP, "--data-dir", directory, "--cycle-interval", "1s", "--incremental-reconcile",
             "--execute-concurrency", "80000", "--execute-concurrency-start", "80000"],  # the default spares slow providers
            stdout=subprocess.DEVNULL, stderr=open(os.path.join(directory + ".log"), "wb"))

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def page(self, path):
        try:
            with urllib.request.urlopen(f"http://{HTTP}{path}", timeout=30) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    def numbers(self):
        found = collections.defaultdict(float)
        for name, labels, value in re.findall(r"^(\w+)(\{[^}]*\})? (\S+)$", self.page("/metrics"), re.M):
            found[name + labels] += float(value)
            if labels:
                found[name] += float(value)
        return found

    def decide_seconds(self, numbers):
        """Seconds of the decide thread in decisions so far."""
        return sum(numbers[f'bigfleet_shard_cycle_phase_duration_seconds_sum{{phase="{part}"}}'] for part in PARTS)


def row_of(contract, given):
    row = contract.Need(priority=given["priority"], group=given.get("group", ""),
                        interruption_penalty_bucket=given["interruption_penalty_bucket"],
                        reclamation_penalty_bucket=given["reclamation_penalty_bucket"])
    for requirement in given["requirements"]:
        row.requirements.add(key=requirement["key"], operator=OPERATORS[requirement["operator"]],
                             values=requirement["values"])
    for spread in given["spread"]:
        row.spread.add(topology_key=spread["topology_key"], max_skew=spread["max_skew"],
                       when_unsatisfiable=1 if spread["when_unsatisfiable"] == "DoNotSchedule" else 2)
    row.aggregate_resources.update(given["aggregate_resources"])
    row.min_unit.update(given["min_unit"])
    return row


def demand(contract, directory):
    """The rows that fit the machines, by cluster."""
    subprocess.run([os.path.join(BUILD, "cmd/muster/muster"), "plan", "--generate", "--machines", str(MACHINES), "--needs",
                    str(NEEDS), "--clusters", str(CLUSTERS), "--seed", "1", "--dump", os.path.join(directory, "fleet")],
                   check=True, stdout=subprocess.DEVNULL)
    rows = collections.defaultdict(list)
    with open(os.path.join(directory, "fleet-needs.ndjson"), encoding="utf-8") as lines:
        for given in map(json.loads, lines):
            rows[given["cluster_id"]] += [row_of(contract, need) for need in given["needs"]]
    return rows


def wait(question, seconds=300):
    end = time.monotonic() + seconds
    while not question():
        if time.monotonic() > end:
            raise SystemExit("waited in vain")
        time.sleep(0.05)


def run(directory):
    contract = cluster_operator.Contract(shutil.which("protoc"), os.path.join(ROOT, "proto"))
    rows = demand(contract, directory)
    stub = subprocess.Popen([os.path.join(BUILD, "bench/provider_stub"), PROVIDER, str(MACHINES), str(NEEDS), str(CLUSTERS),
                             str(LATENCY_MS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    stub.stdout.readline()
    began, operators = time.monotonic(), None
    shard = Shard(os.path.join(directory, "shard"))
    try:
        wait(lambda: shard.page("/readyz").startswith("ok"))
        cpu, seconds = shard.cpu(), time.monotonic() - began
        line("cold", f"{seconds:.2f} s, {cpu:.2f} s of CPU (limit 3 s; List 0.5 s of CPU); "
                     f"{shard.resident() / MACHINES:.0f} bytes of RSS a machine (limit 300)")
        before = shard.numbers()
        operators = Operators(directory)
        operators.rollup(contract, rows)
        time.sleep(10)
        after = shard.numbers()
        cycles = after["bigfleet_shard_cycle_duration_seconds_count"] - before["bigfleet_shard_cycle_duration_seconds_count"]
        line("re-plan", f"{cycles:.0f} decisions while all demand came, "
                        f"{1000 * (shard.decide_seconds(after) - shard.decide_seconds(before)) / max(cycles, 1):.0f} ms each on average "
                        "(limit 500 for a full one)")
        samples, last = [], shard.numbers()
        began, cpu = time.monotonic(), shard.cpu()
        while len(samples) < (10 if QUICK else 40) and time.monotonic() < began + 180:
            time.sleep(0.2)
            now = shard.numbers()
            count = now["bigfleet_shard_cycle_duration_seconds_count"] - last["bigfleet_shard_cycle_duration_seconds_count"]
            if count:
                samples.append(1000 * (shard.decide_seconds(now) - shard.decide_seconds(last)) / count)
                last = now
        samples.sort()
        line("steady", f"p50 {samples[len(samples) // 2]:.1f} ms, p99 {samples[-1]:.1f} ms of the decide thread over "
                       f"{len(samples)} cycles (limit 50); {100 * (shard.cpu() - cpu) / (time.monotonic() - began):.0f} % of a "
                       f"core at one cycle a second; {shard.resident() / MACHINES:.0f} bytes of RSS a machine")
        base, began, cpu, resident = shard.numbers(), time.monotonic(), shard.cpu(), shard.resident()
        # Rows given twice add up: everybody wants twice as much.
        operators.rollup(contract, {cluster: 2 * wanted for cluster, wanted in rows.items()})
        ended, underway, largest, last = [(0, 0)], 0, 0, base
        while ended[-1][0] < (20 if QUICK else 60):
            time.sleep(0.5)
            last = shard.numbers()
            name = "bigfleet_shard_action_execute_outcomes_total"
            ended.append((time.monotonic() - began, last[name] - base[name]))
            underway = max(underway, last["bigfleet_shard_execute_inflight"])
            largest = max(largest, shard.resident())
        # The demand is a backlog: the best ten seconds show the capacity of the pool.
        best = max((b[1] - a[1]) / (b[0] - a[0]) for a in ended for b in ended if b[0] - a[0] >= 10)
        line("actions", f"{ended[-1][1]:.0f} ended in {ended[-1][0]:.0f} s, {best:.0f} a second in the best ten (limit 5,000), at "
                        f"most {underway:.0f} under way; {1e6 * (shard.cpu() - cpu) / max(ended[-1][1], 1):.0f} us of CPU each, all "
                        f"else included; {(largest - resident) / 1e6:.0f} MB more at most, decisions included")
    finally:
        for process in (shard.process, stub, operators and operators.process):
            if process:
                process.kill()


if __name__ == "__main__":
    scratch = tempfile.mkdtemp(prefix="bench-shard-")
    try:
        run(scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
