# SPDX-License-Identifier: Apache-2.0
"""The real parts of the closed loop as processes of this test: the control plane of Kubernetes, provider, shard, operators."""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.abspath(os.path.join(HERE, "../../.."))
sys.path[:0] = [os.path.join(SOURCE, "tests", folder) for folder in ("lib", "integration/operator")]
import kube_apiserver  # noqa: E402
from kubelets import MACHINE, UPCOMING, Api, Kubelets  # noqa: E402
from operators import Operator  # noqa: E402
from provider_host import Api as ProviderApi, Host  # noqa: E402
from shards import (CONFIGURED, DRAINING, MUSTER, MUSTERCTL, PROTOC, PROTO_ROOT, SPECULATIVE, Shard, check)  # noqa: E402,F401
from coordinators import Failed  # noqa: E402,F401

OLD, NEW = "cluster-k", "cluster-b"  # of Kubernetes; of a file
DEFAULT = "--default-timings" in sys.argv
SHARD_TIMINGS = [] if DEFAULT else ["--cycle-interval", "1s", "--idle-hold-on-demand", "10s", "--idle-hold-spot", "10s",
                                    "--reclaim-cap-fraction", "0.25"]
OPERATOR_TIMINGS = [] if DEFAULT else ["--rollup-interval", "1s", "--stale-after", "5s"]
PATIENCE = int(os.environ.get("MUSTER_LOOP_PATIENCE", "3600" if DEFAULT else "300"))  # so that a hang becomes a failure
REQUESTS = "/apis/bigfleet.lucy.sh/v1alpha1/capacityrequests"
CORE, APPS, POLICY = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default", "/apis/policy/v1/namespaces/default"
CONTROLLERS = ("deployment-controller,replicaset-controller,disruption-controller,pod-garbage-collector-controller,"
               "node-lifecycle-controller,garbage-collector-controller,namespace-controller")
CATALOGUE = """
zones = ["eu-1a", "eu-1b", "eu-1c"]
[latency]
create = "300ms"
configure = "300ms"
drain = "300ms"
delete = "300ms"
""" + "".join(f"""
[[pool]]
name = "{name}"
type = "{kind}"
capacity = "{capacity}"
price = {price}
resources = {{ cpu = "{cpu}", memory = "{memory}" }}
{more}
""" for name, kind, capacity, price, cpu, memory, more in (
    ("large", "m5.large", "on-demand", 0.096, "1930m", "8Gi", "count = 180"),
    ("xlarge", "m5.xlarge", "on-demand", 0.192, "3920m", "16Gi", "count = 180"),
    ("xxlarge", "m5.2xlarge", "on-demand", 0.384, "7910m", "32Gi", "count = 180"),
    ("spot", "m5.4xlarge", "spot", 0.29, "15500m", "64Gi", "count = 54"),
    ("rare", "i3.xlarge", "on-demand", 0.312, "3920m", "30Gi", 'count = 6\nlabels = { disk = "nvme" }')))


def missing():
    """Why the loop cannot be closed here, or None."""
    if kube_apiserver.missing():
        return kube_apiserver.missing()
    for program in ("kube-scheduler", "kube-controller-manager"):
        if not shutil.which(program):
            return f"no {program} on the PATH; scripts/peers/kube-apiserver /usr/local/bin/{program} builds one"
    return None


class Kubernetes(kube_apiserver.ApiServer):
    """API server, scheduler, controllers, the program that plays the kubelets, and what muster wants there."""

    def __enter__(self):
        super().__enter__()
        try:
            self.api = Api(self)
            admin = self.kubeconfig("admin")
            common = ["--kubeconfig", admin, "--leader-elect=false", "--secure-port", "0"]
            self._start("kube-scheduler", ["kube-scheduler", *common])
            # No Node of the program that plays the kubelets sends heartbeats.
            self._start("kube-controller-manager", ["kube-controller-manager", *common, "--controllers", CONTROLLERS,
                                                    "--node-monitor-grace-period", "24h", "--node-startup-grace-period", "24h"])
            self.apply("crds.yaml")
            self.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "muster"}})
            self.apply("operator-rbac.yaml")
            self.until("the three kinds are served", lambda: all(
                self.api.call("GET", path)[0] == 200 for path in (REQUESTS, UPCOMING, UPCOMING.replace(
                    "upcomingnodes", "availablecapacities"))))
            account = "/api/v1/namespaces/muster/serviceaccounts/muster-operator/token"
            answer = self.must("POST", account, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                                                 "spec": {"expirationSeconds": 86400}})
            self.tokens["muster-operator"] = answer["status"]["token"]
            self.operator_config = self.kubeconfig("muster-operator")
            self.kubelets = Kubelets(self)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *how):
        if hasattr(self, "kubelets"):
            self.kubelets.stop()
        super().__exit__(*how)

    def apply(self, name):
        with open(os.path.join(SOURCE, "deploy/kubernetes", name), encoding="utf-8") as file:
            for thing in yaml.safe_load_all(file):
                version, space = thing["apiVersion"], thing["metadata"].get("namespace")
                self.must("POST", ("/apis/" if "/" in version else "/api/") + version +
                          (f"/namespaces/{space}/" if space else "/") + thing["kind"].lower() + "s", thing)

    def must(self, method, path, body=None):
        status, answer = self.api.call(method, path, body)
        check(status in (200, 201), f"{method} {path}: {status} {answer}")
        return answer

    def check_running(self):
        for name, process in self.processes:
            check(process.poll() is None, f"{name} ended: {self._tail(name)}")
        check(self.kubelets.is_alive() if hasattr(self, "kubelets") else True, "the kubelets ended")

    def until(self, what, question):
        """Asks until the answer is true, and returns it."""
        end = time.monotonic() + PATIENCE
        while True:
            self.check_running()
            answer = question()
            if answer:
                return answer
            if time.monotonic() > end:
                error = getattr(getattr(self, "kubelets", None), "error", None)
                raise AssertionError(f"waited {PATIENCE} s in vain: {what}" + (f"; kubelets: {error}" if error else ""))
            time.sleep(0.1)

    def clear(self):
        """Everything that a case made; machines are its own."""
        paths = [APPS + "/deployments", APPS + "/replicasets", POLICY + "/poddisruptionbudgets", CORE + "/pods",
                 REQUESTS.replace("/capacity", "/namespaces/default/capacity"), UPCOMING, "/api/v1/nodes", CORE + "/events"]

        def empty():
            for path in paths:
                if self.api.items(path):
                    self.api.call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            return not any(self.api.items(path) for path in paths[:-1])
        self.until("an empty cluster", empty)

    # -- what a user writes --

    def template(self, name, cpu, grace=2, **spec):
        return {"metadata": {"labels": {"app": name}}, "spec": {
            "terminationGracePeriodSeconds": grace, **spec,
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}}}]}}

    def pod(self, name, cpu, app=None, **spec):
        template = self.template(app or name, cpu, **spec)
        template["metadata"]["name"] = name
        return self.must("POST", CORE + "/pods", {"apiVersion": "v1", "kind": "Pod", **template})

    def deployment(self, name, replicas, cpu, **spec):
        self.must("POST", APPS + "/deployments", {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                     "template": self.template(name, cpu, **spec)}})

    def scale(self, name, replicas):
        status, answer = self.api.patch(f"{APPS}/deployments/{name}", {"spec": {"replicas": replicas}})
        check(status == 200, f"scale {name}: {answer}")

    def budget(self, name, available):
        self.must("POST", POLICY + "/poddisruptionbudgets", {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
            "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": name}}}})
        self.until("the budget is counted", lambda: self.must("GET", f"{POLICY}/poddisruptionbudgets/{name}").get(
            "status", {}).get("expectedPods"))

    # -- what a user reads --

    def pods(self, app, running=True):
        """Those that are not about to end."""
        return [pod for pod in self.api.items(f"{CORE}/pods?labelSelector=app%3D{app}")
                if "deletionTimestamp" not in pod["metadata"] and (not running or pod["status"].get("phase") == "Running")]

    def shown(self):
        """machine -> (phase, provider id), by UpcomingNodes."""
        return {one["spec"]["machineID"]: (one.get("status", {}).get("phase", ""), one["spec"].get("providerID", ""))
                for one in self.api.items(UPCOMING)}


def machine_of(node):
    return node["metadata"].get("annotations", {}).get(MACHINE, node["metadata"]["name"])


class LoopShard(Shard):
    def start(self, *more):
        command = ["setpriv", "--pdeathsig", "KILL", *self.program, "--id", self.name, "--data-dir", self.dir, "--provider-addr",
                   self.world.provider.address, "--listen", self.grpc, "--http-listen", self.http, "--audit-log", "audit.ndjson",
                   *SHARD_TIMINGS, *self.world.options, *more]
        return spawn(self, command)


class LoopOperator(Operator):
    """Of the cluster of Kubernetes, with the rights that are shipped; or of one whose demand is a file."""

    def command(self, *more):
        kube = ["--kubernetes", "--kubeconfig", self.world.kube.operator_config]
        source = kube if self.cluster == OLD else ["--demand", self.demand]
        return [MUSTER, "operator", "run", "--cluster-id", self.cluster, "--state-dir", self.dir, "--shard-addr",
                self.world.shard.grpc, "--http-listen", self.http, *source, *OPERATOR_TIMINGS, *more]

    def start(self, *more):
        return spawn(self, ["setpriv", "--pdeathsig", "KILL", *self.command(*more)])


def spawn(part, command):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MUSTER_", "KUBE"))}
    with open(part.log, "ab") as log:
        part.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    return part


class Scene:
    """A provider, a shard and the operator of the cluster, new for each case, beside the one control plane."""
    number, quiet = 0, False

    def __init__(self, kube, *options):
        self.kube, self.options, self.tls = kube, list(options), None
        self.others = []

    def __enter__(self):
        Scene.number += 1
        self.dir = tempfile.mkdtemp(prefix="muster-loop-")
        self.provider = Host(MUSTER, self.dir, CATALOGUE, machines=600, number=Scene.number)
        self.shard = LoopShard(self, number=10 * Scene.number)
        self.operator = LoopOperator(self, OLD, 10 * Scene.number + 1)
        self.other = LoopOperator(self, NEW, 10 * Scene.number + 2)
        try:
            self.provider.start()
            self.cloud = ProviderApi(PROTOC, PROTO_ROOT, self.provider.address)
            self.shard.start().wait_ready()
            self.operator.start()
            self.until("the operator is ready", self.operator_ready)
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, *_):
        for part in (self.operator, self.other, self.shard):
            if kind and not self.quiet:
                print(f"# {part.name}: " + self.tail(part).replace("\n", "\n# "), flush=True)
            if part.running():
                part.kill()
        self.provider.kill()
        self.kube.clear()
        if kind and not self.quiet:
            print(f"# kept: {self.dir}", flush=True)
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    @staticmethod
    def tail(part):
        return part.text()[-1200:] if os.path.exists(part.log) else ""

    def until(self, what, question):
        def ask():
            check(self.shard.running(), "the shard ended: " + self.tail(self.shard))
            return question()
        return self.kube.until(what, ask)

    def operator_ready(self):
        check(self.operator.running(), "the operator ended: " + self.tail(self.operator))
        return self.operator.page("/readyz")[0] == 200

    def machines(self, *states, cluster=OLD):
        return {m.id: m for m in self.cloud.ok("List", states=states or range(SPECULATIVE + 1, 9)).machines
                if cluster in (None, m.cluster)}

    def configured(self, cluster=OLD):
        return self.machines(CONFIGURED, cluster=cluster)

    def cycles(self, count):
        began = self.shard.metric("cycle_duration_seconds_count")
        self.until(f"{count} cycles", lambda: self.shard.metric("cycle_duration_seconds_count") >= began + count)

    def at_rest(self):
        """Fifteen cycles without an action; none under way."""
        def look():
            actions = self.shard.metric("actions_total")
            self.cycles(15)
            return self.shard.metric("actions_total") == actions and self.shard.metric("execute_inflight") == 0
        self.until("a fleet at rest", look)

    def placed(self, app, replicas):
        self.until(f"{replicas} pods of {app} run", lambda: len(self.kube.pods(app)) == replicas)

    def matched(self, count):
        """The cluster's Nodes, its UpcomingNodes and the machines that it has are the same, and so many."""
        seen = {}

        def look():
            seen["machines"] = set(self.configured())
            seen["shown"] = {machine for machine, (phase, _) in self.kube.shown().items() if phase == "Ready"}
            seen["stale"] = set(self.kube.shown()) - seen["shown"]
            seen["nodes"] = {machine_of(node) for node in self.kube.api.items("/api/v1/nodes")}
            return not seen["stale"] and seen["machines"] == seen["shown"] == seen["nodes"] and len(seen["nodes"]) == count
        try:
            self.until("", look)
        except AssertionError as error:
            figures = ", ".join(f"{len(names)} {what}" for what, names in seen.items())
            raise AssertionError(f"{error} {count} wanted of each and none stale: {figures}") from None


class Sampler(threading.Thread):
    """Looks again and again, and keeps what must never be seen. Each sample reads the machines, then the cluster, then the machines
    again: only what holds in both readings is judged. `least` pods run at least; `forced`: pods may lose their machine."""

    def __init__(self, scene, app, least, forced=False):
        super().__init__(daemon=True)
        self.scene, self.app, self.least, self.forced, self.done = scene, app, least, forced, False
        self.api = Api(scene.kube)
        self.cloud = ProviderApi(PROTOC, PROTO_ROOT, scene.provider.address)
        self.violations, self.samples, self.lowest, self.error = [], 0, None, None

    def owners(self):
        """machine -> (its cluster, whether the provider is not draining it)."""
        return {m.id: (m.cluster, m.state == CONFIGURED)
                for m in self.cloud.ok("List", states=range(SPECULATIVE + 1, 9)).machines}

    def run(self):
        try:
            while not self.done:
                self.sample()
                time.sleep(0.1)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def sample(self):
        first = self.owners()
        nodes = {node["metadata"]["name"]: node for node in self.api.items("/api/v1/nodes")}
        shown = {one["spec"]["machineID"]: one.get("status", {}).get("phase", "") for one in self.api.items(UPCOMING)}
        pods = [pod for pod in self.api.items(f"{CORE}/pods?labelSelector=app%3D{self.app}")
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]]
        second = self.owners()

        def taken(machine):
            return all(reading.get(machine, ("", False))[0] != OLD for reading in (first, second))

        def dead(pod):
            node = nodes.get(pod["spec"]["nodeName"])
            return not node or all(reading.get(machine_of(node)) != (OLD, True) for reading in (first, second))
        lost = [pod["metadata"]["name"] for pod in pods if dead(pod)]
        good = len(pods) - len(lost)
        self.lowest = min(good, good if self.lowest is None else self.lowest)
        found = []
        if lost and not self.forced:
            found.append(f"{len(lost)} pods are 'Running' on machines that the cluster does not have: {lost}")
        if self.least is not None and good < self.least:
            found.append(f"{good} pods run, {self.least} must")
        found += [f"Node {name} is open, but its machine is not the cluster's" for name, node in nodes.items()
                  if taken(machine_of(node)) and not node["spec"].get("unschedulable")]
        found += [f"UpcomingNode of {machine} is Ready, but its machine is not the cluster's" for machine, phase in shown.items()
                  if taken(machine) and phase == "Ready"]
        self.violations += [f"sample {self.samples}: {text}" for text in found]
        self.samples += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done = True
        self.join()

    def check_now(self):
        check(self.error is None, f"the sampler ended: {self.error!r}")
        check(not self.violations, f"{len(self.violations)} violations in {self.samples} samples, first " +
              "; ".join(self.violations[:4]))

    def judge(self):
        self.done = True
        self.join()
        self.check_now()
