#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Worker membership: three replicas, and a fleet of workers that beat twice a second from a process of its own.

usage: bench_heartbeat.py BUILD_DIR [--small] [PART...]      parts: beats, own, killed, found, committed

muster-beats sends rollout's Beat at fixed times, whether or not earlier ones were answered; a latency counts from the time
when the beat was due. `beats`: as many workers as an interval of 500 ms makes 100,000 beats a second, over 500
connections, in plaintext and over mTLS. `own`: 8,000 workers, each on its own mTLS connection with a warm second one
(MUSTER_BENCH_WORKERS: another number).
`killed`: the same while one replica, then the leader, is killed. `found`: when silent ones are found dead, by number.
`committed`: what each beat would cost were it committed to disk, as the original does: a put of the store by the same
number of callers. Everything shares two cores: see sides.py.
"""
import json
import os
import subprocess
import sys
import threading
import time

from sides import BUILD, PARTS, RT, WORDS, Ours, load, rss
from coordinators import wait_for

SMALL = "--small" in WORDS
SECONDS = 2 if SMALL else 10
RUN = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
BEATS = f"{BUILD}/bench/muster-beats"
SHARED = (1000, 10_000) if SMALL else (8_000, 16_000, 25_000, 50_000)
OWN = int(os.environ.get("MUSTER_BENCH_WORKERS", 200 if SMALL else 8_000))
FLEETS = (20, 200) if SMALL else (20, 1_000, 8_000)


class Members(Ours):
    """Three replicas that serve workers: over mTLS at the listener of [transport], in plaintext beside the fleet."""

    def __init__(self, more=""):
        super().__init__(3)
        self.tls = os.path.join(self.dir, "run-ca")
        for node in self.nodes:
            node.workers = self.address(node.number, 3)
            config = os.path.join(self.dir, f"{node.name}.toml")
            with open(config, "w", encoding="ascii") as file:
                file.write(f'run_id = "{RUN}"\n[storage]\npath = "{self.dir}/{node.name}-ledger"\n[transport]\n'
                           f'listen_addr = "{node.workers}"\ntls_dir = "{self.tls}"\n{more}\n'
                           '[events]\nheartbeat = "none"\n')
            node.options += ["--config", config]

    def certificate(self):
        """One of a worker of the run's own authority, for all of them: with its key anybody can make one."""
        pair, name = f"{self.dir}/worker", f"worker-{RUN}"
        ssl = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
               "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name},DNS:localhost", "-addext",
               "extendedKeyUsage=clientAuth", "-CA", f"{self.tls}/ca.pem", "-CAkey", f"{self.tls}/ca.key.pem",
               "-keyout", f"{pair}.key.pem", "-out", f"{pair}.pem"]
        subprocess.run(ssl, check=True, capture_output=True)
        return ["--tls-ca", f"{self.tls}/ca.pem", "--tls-cert", f"{pair}.pem", "--tls-key", f"{pair}.key.pem",
                "--tls-name", "localhost"]

    def failures(self):
        """The sum over all leaders so far, by their metrics."""
        return sum(int(float(line.split()[-1])) for node in self.nodes if node.running()
                   for line in node.page("/metrics")[1].splitlines()
                   if line.startswith("muster_member_failures_total"))


def beats(cluster, addresses, workers, connections, *words, seconds=SECONDS, during=None, fleets=1):
    """The fleet's figures; `during` runs beside it once it beats. One process is one core at most: `fleets` shares it out."""
    processes = []
    for number in range(fleets):
        pids = cluster.pids() if number == 0 else ()
        processes.append(subprocess.Popen(
            [*RT, BEATS, "--json", "--run", RUN, "--workers", str(workers // fleets), "--first",
             str(number * (workers // fleets)), "--connections", str(connections // fleets), "--seconds", str(seconds),
             "--warmup", "3", *(word for address in addresses for word in ("--target", address)),
             *(word for pid in pids for word in ("--pid", str(pid))), *words], stdout=subprocess.PIPE, text=True))
    side = threading.Thread(target=during) if during else None
    if side:
        side.start()
    outs = [process.communicate()[0] for process in processes]
    if side:
        side.join()
    if any(process.returncode for process in processes):
        raise SystemExit(f"muster-beats: exit {[process.returncode for process in processes]}")
    got = [json.loads(out) for out in outs]
    whole = {name: max(one[name] for one in got) for name in got[0]}  # latencies: the worse of them
    whole.update({name: sum(one[name] for one in got)
                  for name in ("workers", "connections", "rate", "errors", "overlapped", "fenced")})
    whole["server_cpu_us"] = got[0]["server_cpu_us"] / fleets
    return whole


def show(name, got):
    print(f"{name:38}{got['workers']:7} workers {got['connections']:6} connections {got['rate']:9.0f} beats/s   p50 "
          f"{got['p50_ms']:7.2f} ms   p99 {got['p99_ms']:7.2f} ms   max {got['max_ms']:7.1f} ms   CPU a beat: servers "
          f"{got['server_cpu_us']:5.2f} us, fleet {got['client_cpu_us']:5.2f} us   errors {got['errors']}   late "
          f"{got['overlapped']}   fenced {got['fenced']}", flush=True)


# -- parts --

def shared():
    with Members() as cluster:
        plain = [node.grpc for node in cluster.nodes]
        for workers in SHARED:
            show("plaintext, connections shared", beats(cluster, plain, workers, min(500, workers)))
    with Members() as cluster:
        certificate = cluster.certificate()
        for workers in SHARED:
            show("mTLS, connections shared", beats(cluster, [node.workers for node in cluster.nodes], workers,
                                                   min(500, workers), *certificate))
        print(f"RSS afterwards: {', '.join(f'{rss(pid):.0f} MiB' for pid in cluster.pids())}")


def own():
    with Members() as cluster:
        got = beats(cluster, [node.workers for node in cluster.nodes], OWN, OWN, "--second", *cluster.certificate(),
                    fleets=2)
        show("mTLS, one connection each, and a second", got)
        print(f"failures: {cluster.failures()}; RSS: {', '.join(f'{rss(pid):.0f} MiB' for pid in cluster.pids())}")


def killed():
    for who in ("a follower", "the leader"):
        failed = []
        with Members() as cluster:
            def kill(cluster=cluster, who=who, failed=failed):
                """Once all beat; 8,000 handshakes take their time."""
                wait_for("the fleet beats", lambda: active(cluster) >= OWN)
                time.sleep(4 if SMALL else 8)
                leader = cluster.leader()  # joining may have changed it
                (leader if who == "the leader" else cluster.others(leader)[0]).kill()
                time.sleep(SECONDS)  # past every deadline, while the fleet still beats
                failed.append(cluster.failures())
            got = beats(cluster, [node.workers for node in cluster.nodes], OWN, OWN, "--second", *cluster.certificate(),
                        seconds=SECONDS * 3, during=kill, fleets=2)
            show(f"{who} killed meanwhile", got)
            print(f"failed by it: {failed[0]}", flush=True)


def active(cluster):
    for node in cluster.nodes:
        if node.running():
            for line in node.page("/metrics")[1].splitlines():
                if line.startswith('muster_member_workers{standing="active"}'):
                    count = int(float(line.split()[-1]))
                    if count:
                        return count
    return 0


def found():
    """A fleet that stops at once is held back as a mass failure, so the brake is off here."""
    for workers in FLEETS:
        with Members("[detector]\nmax_fail_fraction = 1.0\n") as cluster:
            beats(cluster, [node.grpc for node in cluster.nodes], workers, min(500, workers))
            began = time.monotonic()
            wait_for("all are dead", lambda: cluster.failures() >= workers)
            print(f"{workers:7} silent workers: the last one was declared dead {time.monotonic() - began:.2f} s after the "
                  "fleet ended (6.0 to 6.25 s after its last beat; looked at every 50 ms)", flush=True)


def committed():
    with Ours(3) as cluster:
        for callers in (64, 512):
            got = load([cluster.leads()], cluster.pids(), "--store", "muster", "--op", "put", "--value", 64, "--keys",
                       8000, "--streams", callers, "--connections", 16, "--seconds", SECONDS, "--warmup", 1)
            print(f"each beat committed to three disks, {callers} callers: {got['rate']:.0f}/s, p99 "
                  f"{got['p99_us'] / 1000:.2f} ms, CPU of the servers {got['server_cpu_us_per_call']:.1f} us each; at 500 ms "
                  f"that is {got['rate'] / 2:.0f} workers (the original: 1,284 beats/s, about 600 workers)", flush=True)


ALL = {"beats": shared, "own": own, "killed": killed, "found": found, "committed": committed}
for part in PARTS or ALL:
    if part not in ALL:
        sys.exit(f"no such part: {part}; there are: {' '.join(ALL)}")
    print(f"== {part}", flush=True)
    ALL[part]()
