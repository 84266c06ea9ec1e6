# SPDX-License-Identifier: Apache-2.0
"""`muster operator run` beside a real shard and a provider.

    with OperatorWorld(machines=40) as world:
        world.shard.start()
        a = world.muster_operator("cluster-a", [request("web", 4, cpu=16)])
        world.wait_configured("cluster-a", 4)

A Fleet of processes: each operator has a directory (its demand file, its state) that outlives it.
usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long]    (prints TAP)
"""
import json
import os
import ssl
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../shard"))
from shards import CONTRACT, LONG, MUSTER, MUSTERCTL, PROTOC, PROTO_ROOT, SEED, Shard, World, check, need, run_cases, wait_for  # noqa: E402,F401


def request(name, count, types=("m5.4xlarge",), cpu=16, **more):
    """Of machines with 16 cpus one unit each, unless asked otherwise."""
    return {"name": name, "count": count, "instance-types": list(types), "resources": {"cpu": str(cpu)}, **more}


class Operator(Shard):
    """The process; page, metric and their like are a shard's. Its directory outlives it."""

    def __init__(self, world, cluster, number, demand=(), certificate=None):
        super().__init__(world, "operator-" + cluster, number)
        self.cluster, self.certificate = cluster, certificate or "cluster-" + cluster
        self.demand = os.path.join(world.dir, f"{self.name}-{number}.json")
        self.dir = os.path.join(world.dir, f"{self.name}-{number}")
        self.say(*demand)

    def trust(self):
        """Its certificate is a client's: its pages are served with it, but it names no host."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def say(self, *requests):
        """All demand, replaced in one step."""
        self.write(json.dumps({"requests": list(requests)}))

    def write(self, text):
        with open(self.demand + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.demand + ".new", self.demand)

    def command(self, *more):
        words = [MUSTER, "operator", "run", "--cluster-id", self.cluster, "--state-dir", self.dir, "--demand", self.demand,
                 "--shard-addr", self.world.shard.grpc, "--http-listen", self.http, "--rollup-interval", "300ms",
                 "--stale-after", "1s", *more]
        if self.world.tls:
            words += self.world.files(self.certificate, "--tls-{}", {"cert": ".pem", "key": ".key.pem"})
            words += ["--tls-ca", os.path.join(self.world.tls, "ca.pem")]
        return words

    def start(self, *more):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.command(*more)], stdout=log, stderr=log,
                                            env=environment)
        return self

    def nodes(self):
        """nodes.json: machine -> phase."""
        try:
            with open(os.path.join(self.dir, "nodes.json"), encoding="utf-8") as file:
                return {node["machine"]: node["phase"] for node in json.load(file)["nodes"]}
        except FileNotFoundError:
            return {}

    def orders(self, drained=False):
        """Reclaims that are on disk, or of them those that are drained."""
        with open(os.path.join(self.dir, "reclaims.ndjson"), encoding="utf-8") as file:
            lines = file.readlines()[1:]
        return len([line for line in lines if not drained or '"drained":true' in line])

    def wait_ready_nodes(self, count):
        def look():
            check(self.running(), f"the operator ended: {self.text()[-2000:]}")
            return list(self.nodes().values()) == ["Ready"] * count
        wait_for(f"{count} nodes that are Ready", look)

    def wait_text(self, text, count=1):
        wait_for(f"'{text}' in the log", lambda: self.text().count(text) >= count)


class OperatorWorld(World):
    def __init__(self, *words, **settings):
        settings.setdefault("options", ["--reclaim-cap-fraction", "0", "--empty-rollup-guard=false"])
        super().__init__(*words, **settings)

    def muster_operator(self, cluster, demand=(), **how):
        operator = Operator(self, cluster, 1 + len(self.others), demand, **how)
        self.others.append(operator)
        return operator

    def __exit__(self, kind, *rest):
        if kind is not None:
            for operator in self.others:
                if os.path.exists(operator.log):
                    print(f"# {operator.name}:\n# " + operator.text()[-3000:].replace("\n", "\n# "))
        super().__exit__(kind, *rest)
