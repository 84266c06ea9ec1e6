# SPDX-License-Identifier: Apache-2.0
"""`muster worker run` as processes.

    with World() as world:
        worker = world.worker(["https://127.0.0.1:50051"], input=world.input).start()
        worker.wait_says("registered")

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT STORE_DRIVER PLUGIN_DIR [NAME] [--long]    (prints TAP)
Everything a worker has is in its world's directory; the run's authority is in tls/ there.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../log"))
try:
    import cryptography  # noqa: F401
    import grpc  # noqa: F401
    from contracts import load
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTER, MUSTERCTL, PROTOC, PROTO_ROOT, DRIVER, PLUGINS = (os.path.abspath(path) for path in sys.argv[1:7])
ONLY = next((word for word in sys.argv[7:] if not word.startswith("--")), "")
LONG = "--long" in sys.argv

import cluster as log_cluster  # noqa: E402
from cluster import PATIENCE, Failed, Process, Skipped, check, wait_for  # noqa: E402,F401

FILES, message = load(PROTOC, PROTO_ROOT, "rollout/transport.proto", "muster/v1/member.proto")
RUN = "01JFEAVS7C5DE5XEAEAB91EBT5"
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/plugins")


def worker_id(number):
    return f"01JFEAVS7C5DE5XEAEAB91E{number:03d}"


def totals_of(lines):
    """The totals of an uninterrupted run: count and sum by key."""
    totals = {}
    for line in lines:
        words = line.split()
        count, total = totals.get(words[0], (0, 0))
        totals[words[0]] = (count + 1, total + (int(words[1]) if len(words) > 1 else 1))
    return totals


class Worker(Process):
    """One worker; `settings` are keys of its file, with dots for sections."""

    def __init__(self, world, number, coordinators, flags=(), environment=None, **settings):
        self.world, self.id, self.flags = world, worker_id(number), list(flags)
        self.dir = os.path.join(world.dir, f"worker-{number}")
        os.makedirs(self.dir, exist_ok=True)
        self.config, self.log = os.path.join(self.dir, "w.toml"), os.path.join(self.dir, "log")
        self.environment = environment or {}
        self.write(coordinators, **settings)

    def write(self, coordinators, **settings):
        # Long times, unless a test sets others: a stall of the machine must not fence a worker.
        wanted = {"run_id": RUN, "coordinator_addr": coordinators, "transport.tls_dir": self.world.tls,
                  "storage.path": self.dir + "/worker.db", "transport.heartbeat_interval": "100ms",
                  "transport.worker_self_fence_timeout": "60s", "transport.coordinator_failure_timeout": "120s",
                  "transport.clock_skew_budget": "50ms", "process.plugin_timeout": "90s",
                  "checkpoint.store": "file://" + self.world.store, "process.input": self.world.input}
        wanted.update({key.replace("__", "."): value for key, value in settings.items()})
        with open(self.config, "w", encoding="utf-8") as file:
            for key, value in sorted(wanted.items(), key=lambda pair: ("." in pair[0], pair[0])):
                if value is not None:
                    file.write(f"{key} = {json.dumps(value)}\n")

    def start(self):
        command = ["setpriv", "--pdeathsig", "KILL", MUSTER, "worker", "run", "--config", self.config, "--worker-id", self.id,
                   "--data-dir", self.dir + "/data", *self.flags]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "AWS_", "ROLLOUT_"))}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.dir, stdin=subprocess.DEVNULL,
                                            env={**clean, **self.environment})
        self.world.started.append(self)
        return self

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def says(self, what):
        return what in self.text()

    def wait_says(self, what, count=1):
        def enough():
            check(self.running() or self.text().count(what) >= count, f"{self.id} ended: {self.text()[-2000:]}")
            return self.text().count(what) >= count
        wait_for(f"{self.id} says '{what}'", enough)
        return self

    def wait_end(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.id} did not end: {self.text()[-2000:]}") from None

    def stop(self, code=0):
        self.signal(signal.SIGTERM)
        ended = self.wait_end()
        check(ended == code, f"{self.id} ended with {ended}: {self.text()[-2000:]}")


class World:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="muster-workers-")
        self.tls, self.store, self.input = (os.path.join(self.dir, name) for name in ("tls", "checkpoints", "input"))
        os.makedirs(self.input)
        self.started, self.count = [], 0

    def worker(self, coordinators, flags=(), environment=None, **settings):
        self.count += 1
        return Worker(self, self.count, coordinators, flags, environment, **settings)

    def feed(self, partition, lines, name=".txt"):
        with open(f"{self.input}/{partition:08d}{name}", "a", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))

    def record(self, partition):
        """The newest checkpoint of a partition, read without our code; None."""
        files = sorted(glob.glob(f"{self.store}/{partition:08d}/*.ckpt"))
        while files:
            try:
                with open(files.pop(), encoding="utf-8") as file:
                    return json.loads(file.readline())
            except FileNotFoundError:
                continue
        return None

    def totals(self, partition):
        record = self.record(partition)
        return {key: tuple(pair) for key, pair in record["node_snapshots"]["totals"].items()} if record else {}

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        for worker in self.started:
            if worker.running():
                worker.kill()
        if kind:
            for worker in self.started:
                print("# " + worker.text()[-6000:].replace("\n", "\n# "))
        shutil.rmtree(self.dir, ignore_errors=True)  # a plugin that dies with its worker may still clear up behind itself


def run_cases(cases):
    log_cluster.run_cases(cases, ONLY)
