# SPDX-License-Identifier: Apache-2.0
"""A real shard, a provider and operators on grpcio, all processes and streams of their own.

    with World(machines=40) as world:
        world.shard.start()
        with world.operator("cluster-a") as a:
            a.rollup([world.contract.need(["m5.4xlarge"], cpu="64", unit={"cpu": "16"})])
            world.wait_configured("cluster-a", 4)

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long]    (prints TAP)
"""
import http.client
import json
import os
import re
import signal
import ssl
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
import coordinators  # noqa: E402
from coordinators import LONG, MUSTER, MUSTERCTL, PROTOC, PROTO_ROOT, Process, check, run_cases, wait_for  # noqa: E402,F401
import cluster_operator  # noqa: E402
import provider  # noqa: E402
import shutil
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

SEED = coordinators.log_cluster.SEED
CONTRACT = cluster_operator.Contract(PROTOC, PROTO_ROOT)
CYCLE = "200ms"
SPECULATIVE, CREATING, IDLE, CONFIGURING, CONFIGURED, DRAINING, DELETING, FAILED = range(1, 9)


class Shard(Process):
    """Its directory outlives its processes."""

    def __init__(self, world, name="shard-0", number=0):
        pid = os.getpid()
        host = f"127.{164 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}"
        self.world, self.name, self.program = world, name, (MUSTER, "shard", "run")
        self.dir = os.path.join(world.dir, name)
        self.log = os.path.join(world.dir, f"{name}-{number}.log")
        self.grpc, self.http = f"{host}:{5000 + 10 * number}", f"{host}:{5001 + 10 * number}"

    def start(self, *more):
        command = ["setpriv", "--pdeathsig", "KILL", *self.program, "--id", self.name, "--data-dir", self.dir,
                   "--provider-addr", self.world.provider.address, "--listen", self.grpc, "--http-listen", self.http,
                   "--cycle-interval", CYCLE, "--audit-log", "audit.ndjson", "--available-capacity-interval", "10ms",
                   *self.world.options, *more]
        if os.path.exists(self.dir) and "--execute-timeout" not in command:
            command += ["--execute-timeout", "5s"]  # for so long a process that is not the first begins nothing
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        return self

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def wait_end(self):
        code = self.process.wait(timeout=coordinators.PATIENCE)
        self.process = None
        return code

    def stop(self):
        self.signal(signal.SIGTERM)
        return self.wait_end()

    def trust(self):
        return ssl.create_default_context(cafile=os.path.join(self.world.tls, "ca.pem"))

    def page(self, path):
        """(status, text); (0, why) when nobody answers."""
        trust = self.trust() if self.world.tls else None
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
        try:
            with opener.open(f"{'https' if trust else 'http'}://{self.http}{path}", timeout=coordinators.PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException) as error:  # it may end in the middle of an answer
            return 0, str(error)

    def wait_ready(self):
        def look():
            check(self.running(), f"the shard ended: {self.text()[-2000:]}")
            return self.page("/readyz")[0] == 200
        wait_for(f"{self.name} is ready", look)
        return self

    def metric(self, name, **labels):
        """The sum of the series that have these labels; a name without prefix is the original's."""
        name = name if name.startswith(("muster_", "process_")) else "bigfleet_shard_" + name
        total, text = 0.0, self.page("/metrics")[1]
        for series, value in re.findall(r"^" + name + r"(\{[^}]*\})? (\S+)$", text, re.M):
            if all(f'{key}="{wanted}"' in series for key, wanted in labels.items()):
                total += float(value)
        return total

    def wait_metric(self, name, least=1, **labels):
        def look():
            check(self.running(), "the shard is gone")
            return self.metric(name, **labels) >= least
        wait_for(f"{name} {labels} of {least}", look)

    def audit(self):
        path = os.path.join(self.dir, "audit.ndjson")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("\n")]


class World:
    """A provider, a shard and what is needed to speak with both."""

    def __init__(self, machines=0, idle=0.0, options=(), tls=False, **settings):
        self.dir = tempfile.mkdtemp(prefix="shard-")
        self.contract, self.options, self.tls = CONTRACT, list(options), None
        words = ["--machines", str(machines), "--idle", str(idle)]
        words += [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        if tls:
            self.tls = os.path.join(self.dir, "tls")
            self.issue()
            words += self.files("provider-p", "--{}", {"cert": ".pem", "key": ".key.pem"}) + \
                ["--ca", os.path.join(self.tls, "ca.pem"), "--listen", "localhost:0"]
            self.options += self.files("shard-shard-0", "--tls-{}", {"cert": ".pem", "key": ".key.pem"}) + \
                ["--tls-ca", os.path.join(self.tls, "ca.pem")]
        self.provider = provider.Process(PROTOC, PROTO_ROOT, *words)
        self.shard = Shard(self)
        self.others, self.operators = [], []

    def files(self, name, flag, endings):
        return [word for kind, ending in endings.items()
                for word in (flag.format(kind), os.path.join(self.tls, name + ending))]

    def issue(self):
        host = Shard.__new__(Shard)
        host.__init__(self)
        names = "localhost,127.0.0.1," + host.grpc.rsplit(":", 1)[0]
        for words in (["ca"], ["issue", "shard", "--id", "shard-0", "--names", names],
                      ["issue", "provider", "--id", "p", "--names", names],
                      ["issue", "cluster", "--id", "cluster-a"], ["issue", "cluster", "--id", "cluster-b"],
                      ["issue", "readonly"], ["issue", "admin"]):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", self.tls], check=True, stdout=subprocess.DEVNULL)

    def operator(self, cluster, certificate=None, **how):
        tls = (self.tls, certificate or "cluster-" + cluster) if self.tls else None
        self.operators.append(cluster_operator.Operator(self.contract, self.shard.grpc, cluster, tls=tls, **how))
        return self.operators[-1]

    def print_facts(self):
        """What everybody knows when a case fails: the operators' streams, the shard's actions, the provider's machines."""
        for operator in self.operators[-4:]:
            print(f"# operator {operator.cluster}: {len(operator.frames)} frames, ended: {operator.code} {operator.details}")
        actions = [f"{line['kind']} {line['outcome']} {line.get('error', '')}" for line in self.shard.audit()[-6:]]
        numbers = re.findall(r"^bigfleet_shard_(cycle_duration_seconds_count|execute_inflight|action_execute_out.*) ([1-9]\S*)$",
                             self.shard.page("/metrics")[1], re.M)
        print(f"# shard: {actions} {dict(numbers)}"[:1500].replace("\n", " "))
        try:
            print(f"# provider: {self.provider.control('counts')}")
        except OSError as error:
            print(f"# provider: {error}")

    def inspect(self, cluster="", limit=0, certificate="readonly"):
        tls = (self.tls, certificate) if self.tls else None
        return cluster_operator.inspect(self.contract, self.shard.grpc, cluster, limit, tls)

    def machines(self, *states, cluster=None):
        return [m for m in self.provider.control("machines", states=states) if cluster in (None, m["cluster"])]

    def wait_configured(self, cluster, count):
        mine = [operator for operator in self.operators if operator.cluster == cluster and operator.patient][-1:]

        def look():
            check(self.shard.running(), "the shard is gone")
            for operator in mine:
                operator.check_open()
            return len(self.machines("Configured", cluster=cluster)) == count
        wait_for(f"{count} machines of {cluster}", look)

    def settled(self, quiet=10):
        """Nothing is queued or under way, and so many cycles came without an action."""
        def look():
            began, actions = self.shard.metric("cycle_duration_seconds_count"), self.shard.metric("actions_total")
            wait_for("cycles", lambda: self.shard.metric("cycle_duration_seconds_count") >= began + quiet)
            return self.shard.metric("actions_total") == actions and self.shard.metric("execute_inflight") == 0
        wait_for("a fleet at rest", look)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print("# " + self.shard.text()[-6000:].replace("\n", "\n# ") if os.path.exists(self.shard.log) else "")
            self.print_facts()
        for process in [self.shard, *self.others]:
            if process.running():
                process.kill()
        self.provider.kill()
        if kind is None:
            shutil.rmtree(self.dir, ignore_errors=True)
        else:
            print(f"# kept: {self.dir}", flush=True)


def need(cpu, types=("m5.4xlarge",), unit=None, **more):
    return CONTRACT.need(list(types), cpu=str(cpu), unit=unit or {"cpu": "16"}, **more)


class Cluster:
    """A cluster whose operator comes back by itself and says its demand again."""

    def __init__(self, world, name, needs=(), **how):
        self.world, self.name, self.needs, self.how = world, name, list(needs), how
        self.states, self.sessions, self.operator, self.done = {}, 0, None, False
        self.lock = threading.Lock()  # what is said last is what is sent last, though it comes back meanwhile
        self.thread = threading.Thread(target=self.keep, daemon=True)
        self.thread.start()

    def say(self, *needs):
        with self.lock:
            self.needs = list(needs)
            if self.operator:
                self.operator.rollup(self.needs)

    def keep(self):
        while not self.done:
            with self.world.operator(self.name, patient=False, **self.how) as operator:
                self.sessions += 1
                with self.lock:
                    operator.rollup(self.needs)
                    self.operator = operator
                while not self.done and operator.code is None:
                    time.sleep(0.02)
                self.operator = None
            time.sleep(0.05)

    def stop(self):
        self.done = True
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
