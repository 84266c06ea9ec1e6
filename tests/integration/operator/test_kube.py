#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster operator run in a Kubernetes cluster: a real API server, a real shard, a provider on grpcio.

usage: test_kube.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

There is no kubelet and no controller: this test is both, where one is needed.
"""
import contextlib
import os
import re
import signal
import ssl
import sys
import tempfile
import urllib.request

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../lib"))
import kube_apiserver  # noqa: E402
if kube_apiserver.missing():
    print(f"1..0 # SKIP {kube_apiserver.missing()}")
    sys.exit(0)
from operators import Operator, OperatorWorld, check, run_cases, wait_for  # noqa: E402

MANIFESTS = os.path.join(HERE, "../../../deploy/kubernetes")
GROUP = "/apis/bigfleet.lucy.sh/v1alpha1"
STRANGER = "/api/v1/namespaces/other/pods/stranger"
POD = {"apiVersion": "v1", "kind": "Pod"}


class Kube(kube_apiserver.ApiServer):
    """The API server, and what the rest of a cluster would do."""

    def apply(self, name):
        """The API server reads YAML itself."""
        with open(os.path.join(MANIFESTS, name), encoding="utf-8") as file:
            documents = file.read().split("\n---\n")
        for text in documents:
            plural = re.search(r"^kind: (\w+)$", text, re.M)[1].lower() + "s"
            version = re.search(r"^apiVersion: (\S+)$", text, re.M)[1]
            request = urllib.request.Request(f"{self.url}/apis/{version}/{plural}", data=text.encode(), headers={
                "Authorization": "Bearer " + self.tokens["admin"], "Content-Type": "application/yaml"})
            with urllib.request.urlopen(request, timeout=30,
                                        context=ssl.create_default_context(cafile=self.path("ca.crt"))) as answer:
                check(answer.status == 201, f"{plural}: {answer.status}")

    def grant_all_but_events(self):
        with open(os.path.join(MANIFESTS, "operator-rbac.yaml"), encoding="utf-8") as file:
            role = yaml.safe_load(file.read().split("\n---\n")[1])
        role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["events"]]
        self.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
        self.must("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}]})

    def must(self, method, path, body=None):
        status, answer = self.ask(method, path, body)
        check(status in (200, 201), f"{method} {path}: {status} {answer}")
        return answer

    def all(self, path):
        """The items of a list; none while the server is away."""
        try:
            status, answer = self.ask("GET", path)
        except OSError:
            return []
        return answer["items"] if status == 200 else []

    def pod(self, name, cpu="16", annotations=(), node=None, labels=(), namespace="default", **spec):
        body = {**POD, "metadata": {"name": name, "annotations": dict(annotations), "labels": dict(labels)},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
                         "nodeSelector": {"node.kubernetes.io/instance-type": "m5.4xlarge"},
                         **({"nodeName": node} if node else {}), **spec}}
        return self.must("POST", f"/api/v1/namespaces/{namespace}/pods", body)

    def remove(self, name):
        """As a kubelet ends a pod that is to go."""
        self.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")

    def node(self, machine, provider_id, cpu=0):
        status = {"allocatable": {"cpu": str(cpu), "pods": "110"}} if cpu else {}
        self.must("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine},
                                            "spec": {"providerID": provider_id}, "status": status})

    def bind(self, pod, machine):
        self.must("POST", f"/api/v1/namespaces/default/pods/{pod}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": machine}})

    def requests(self):
        return {item["metadata"]["name"]: item for item in self.all(GROUP + "/capacityrequests")}

    def upcoming(self):
        return {item["spec"]["machineID"]: item.get("status", {}).get("phase", "")
                for item in self.all(GROUP + "/upcomingnodes")}

    def restart(self):
        """kill -9 of the API server; its store lives on."""
        name, process = self.processes.pop()
        command = process.args
        process.kill()
        process.wait()
        self._start(name, command)
        self._await_ready()

    @contextlib.contextmanager
    def silent(self):
        """Connections are taken, and nothing is ever said."""
        self.processes[-1][1].send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[-1][1].send_signal(signal.SIGCONT)


class KubeOperator(Operator):
    flags = ()
    user = "admin"

    def command(self, *more):
        words = super().command(*self.flags, *more)
        at = words.index("--demand")
        words[at:at + 2] = ["--kubeconfig", self.world.kube.kubeconfig(self.user)]
        return words

    def again(self):
        self.kill()
        return self.start()


class Scene:
    """All of it, started."""

    def __init__(self, *flags, machines=12, user="admin", **settings):
        """`user` limited has the rights of operator-rbac.yaml, except for Events."""
        self.stack = contextlib.ExitStack()
        self.flags, self.machines, self.user, self.settings = flags, machines, user, settings

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="muster-kube-"))
            self.kube = stack.enter_context(Kube(directory))
            self.world = stack.enter_context(OperatorWorld(machines=self.machines, **self.settings))
            self.world.kube = self.kube
            self.kube.apply("crds.yaml")
            if self.user == "limited":
                self.kube.grant_all_but_events()
            self.world.shard.start().wait_ready()
            wait_for("the kinds are served", lambda: self.kube.ask("GET", GROUP + "/capacityrequests")[0] == 200)
            self.operator = KubeOperator(self.world, "cluster-k", 1)
            self.operator.flags, self.operator.user = self.flags, self.user
            self.world.others.append(self.operator)
            self.operator.start()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *how):
        return self.stack.__exit__(*how)

    def running(self):
        check(self.operator.running(), "the operator ended: " + self.operator.text()[-2000:])
        return True

    def wait(self, what, look):
        wait_for(what, lambda: self.running() and look())

    def configured(self, count):
        self.world.wait_configured("cluster-k", count)

    def phases(self, names, phase):
        def look():
            requests = self.kube.requests()
            return set(requests) == set(names) and all(
                request.get("status", {}).get("phase") == phase for request in requests.values())
        self.wait(f"requests {sorted(names)} {phase}", look)


def life():
    """A pod has its request for its whole life, placed or not; machines are shown; all survives kill -9 and restarts."""
    with Scene() as s:
        for number in range(3):
            s.kube.pod(f"web-{number}")
        s.kube.pod("mine", annotations={"bigfleet.lucy.sh/ignore": "true"})
        names = {f"web-{number}" for number in range(3)}
        s.phases(names, "Acknowledged")
        s.configured(3)
        s.wait("machines on show", lambda: sorted(s.kube.upcoming().values()) == ["Ready"] * 3)
        for machine, pod in zip(sorted(s.kube.upcoming()), sorted(names)):  # as a scheduler
            s.kube.node(machine, "x://" + machine)
            s.kube.bind(pod, machine)
        s.operator.again()
        s.kube.pod("late")
        s.phases(names | {"late"}, "Acknowledged")
        s.configured(4)
        s.kube.restart()
        s.kube.pod("later")
        s.phases(names | {"late", "later"}, "Acknowledged")
        s.configured(5)
        check(s.world.shard.metric("actions_total", kind="Reclaim") == 0, "a placed pod lost its machine")
        s.kube.remove("late")
        s.phases(names | {"later"}, "Acknowledged")
        s.configured(4)
        s.wait("it is not shown any more", lambda: len(s.kube.upcoming()) == 4)
        for machine in s.kube.upcoming():
            s.kube.ask("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": machine}})
        for name in names:  # and leave nodes on which nothing runs
            s.kube.remove(name)
        s.configured(1)
        s.wait("they are not shown any more, either", lambda: len(s.kube.upcoming()) == 1)
        s.wait("all drained", lambda: s.operator.metric("muster_operator_reclaims_drained_total") >= 4)
        check(sum("unschedulable" in node["spec"] for node in s.kube.all("/api/v1/nodes")) >= 3, "nodes are not closed")


def rejected():
    """A request that cannot be is rejected, and costs nobody else anything; what a person wrote is left to them."""
    with Scene() as s:
        term = {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}
        s.kube.pod("odd", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term]}}})
        s.kube.pod("even")
        s.kube.must("POST", GROUP + "/namespaces/default/capacityrequests", {
            "apiVersion": "bigfleet.lucy.sh/v1alpha1", "kind": "CapacityRequest", "metadata": {"name": "by-hand"},
            "spec": {"count": 2, "resources": {"cpu": "16"}, "requirements": [
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.4xlarge"]}]}})
        s.configured(3)

        def look():
            requests = s.kube.requests()
            return {name: one.get("status", {}).get("phase") for name, one in requests.items()} == {
                "odd": "Rejected", "even": "Acknowledged", "by-hand": "Acknowledged"}
        s.wait("each has its answer", look)
        check("Gt" in s.kube.requests()["odd"]["status"]["message"], "why it was rejected")
        even = s.kube.requests()["even"]
        served, asked = even["spec"].pop("podUID"), even["spec"]["resources"].copy()
        even["spec"]["resources"]["cpu"] = "1"
        s.kube.must("PUT", GROUP + "/namespaces/default/capacityrequests/even", even)

        def mended():
            spec = s.kube.requests()["even"]["spec"]
            return spec.get("podUID") == served and spec["resources"] == asked
        s.wait("what a person edited is the pod's again", mended)
        s.kube.remove("even")
        again = s.kube.pod("even")["metadata"]["uid"]  # as a StatefulSet does

        def serves():
            request = s.kube.requests().get("even", {})
            owners = request.get("metadata", {}).get("ownerReferences", [{}])
            return request.get("spec", {}).get("podUID") == again and owners[0].get("uid") == again
        s.wait("another pod of that name has a request of its own", serves)
        s.configured(3)
        s.kube.remove("even")
        s.wait("and goes with it", lambda: "even" not in s.kube.requests())
        s.kube.must("DELETE", GROUP + "/namespaces/default/capacityrequests/by-hand")
        s.configured(0)


def reclaim():
    """A machine that is taken back is cordoned; a disruption budget blocks until it does not; DaemonSets stay.

    Demand is read in one namespace only; what runs on the node in another is moved all the same."""
    with Scene("--kube-namespace", "default") as s:
        s.kube.pod("web")
        s.configured(1)
        s.wait("on show", lambda: list(s.kube.upcoming().values()) == ["Ready"])
        machine = "worker-1"  # what it is called in the cluster; what the provider calls it is said by both
        s.kube.node(machine, "host-" + next(iter(s.kube.upcoming())))
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
        guest = s.kube.pod("guest", node=machine, labels={"app": "guest"}, annotations={"bigfleet.lucy.sh/ignore": "true"})
        guest["status"] = {"phase": "Running"}  # as its kubelet says; no budget protects what only waits
        s.kube.must("PUT", "/api/v1/namespaces/default/pods/guest/status", guest)
        s.kube.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        s.kube.pod("stranger", node=machine, namespace="other")
        daemon = s.kube.must("POST", "/api/v1/namespaces/default/pods", {
            **POD, "metadata": {"name": "daemon", "ownerReferences": [owner]},
            "spec": {"nodeName": machine, "containers": [{"name": "c", "image": "i"}]}})
        s.kube.must("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guests"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guest"}}}})
        s.kube.remove("web")

        def node():
            return s.kube.must("GET", "/api/v1/nodes/" + machine)
        s.wait("cordoned", lambda: node()["spec"].get("unschedulable"))

        def blocked():
            return s.operator.metric("muster_operator_kube_evictions_blocked_total")
        s.wait("the budget is in the way", lambda: blocked() >= 2)
        s.wait("a pod elsewhere is evicted", lambda: s.kube.ask("GET", STRANGER)[0] == 404 or
               "deletionTimestamp" in s.kube.must("GET", STRANGER)["metadata"])
        s.kube.ask("DELETE", STRANGER + "?gracePeriodSeconds=0")
        check({one["metadata"]["namespace"] for one in s.kube.all(GROUP + "/capacityrequests")} <= {"default"}, "a request elsewhere")
        check("deletionTimestamp" not in pod(s, "guest")["metadata"], "evicted over its budget")
        s.operator.again()  # and takes it up again
        s.wait("the budget is in the way again", lambda: blocked() >= 1)
        s.kube.must("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guests")
        s.wait("evicted", lambda: "deletionTimestamp" in pod(s, "guest")["metadata"])
        s.kube.remove("guest")
        s.wait("nothing on show", lambda: s.kube.upcoming() == {})
        check(pod(s, "daemon")["metadata"]["uid"] == daemon["metadata"]["uid"], "a DaemonSet's pod was moved")
        with s.kube.silent():
            check(s.operator.stop() == 0, "did not end well before a server that does not answer")


def occupied():
    """The empty machine goes, whichever it is; bare pods, a budget, and a lack of room elsewhere hold a machine."""
    with Scene() as s:
        for number in range(4):
            s.kube.pod(f"web-{number}")
        s.configured(4)
        s.wait("machines on show", lambda: sorted(s.kube.upcoming().values()) == ["Ready"] * 4)
        machines = sorted(s.kube.upcoming())
        for number, machine in enumerate(machines):
            s.kube.node(machine, "x://" + machine, cpu=16)
            s.kube.bind(f"web-{number}", machine)
        s.wait("reported", lambda: s.operator.metric("muster_operator_occupancy_machines") == 4)
        s.world.settled()
        s.kube.remove("web-0")  # on the machine that would be kept to the last
        s.configured(3)
        s.world.settled()
        s.wait("it is gone", lambda: sorted(s.kube.upcoming()) == machines[1:])
        s.kube.must("POST", "/api/v1/namespaces/default/pods", {
            **POD, "metadata": {"name": "guest", "labels": {"app": "guest"}, "annotations": {"bigfleet.lucy.sh/ignore": "true"},
                                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r",
                                                     "controller": True}]},
            "spec": {"nodeName": machines[2], "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}]}})
        s.kube.must("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "guests"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guest"}}}})
        s.kube.remove("web-2")
        s.phases({"web-1", "web-3"}, "Acknowledged")
        s.world.settled()
        check(sorted(s.kube.upcoming()) == machines[1:], "the budget holds the machine")
        s.kube.must("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/guests")
        s.wait("no room", lambda: s.world.shard.metric("muster_shard_reclaims_withheld_total") >= 1)
        s.world.settled()
        check(sorted(s.kube.upcoming()) == machines[1:], "the others are full")
        s.operator.again()
        s.wait("reported again", lambda: s.operator.metric("muster_operator_occupancy_machines") == 3)
        s.world.settled()
        check(sorted(s.kube.upcoming()) == machines[1:], "a restart of the operator took a busy machine")
        check("deletionTimestamp" not in pod(s, "guest")["metadata"], "the guest was evicted")
        check(s.operator.metric("muster_operator_kube_evictions_total") == 0, "no pod was evicted")
        node = s.kube.must("GET", "/api/v1/nodes/" + machines[1])
        node["status"]["allocatable"]["cpu"] = "20"
        s.kube.must("PUT", f"/api/v1/nodes/{machines[1]}/status", node)
        s.wait("now it is evicted", lambda: s.kube.ask("GET", "/api/v1/namespaces/default/pods/guest")[0] == 404 or
               "deletionTimestamp" in pod(s, "guest")["metadata"])
        s.kube.remove("guest")
        s.configured(2)
        check("web-1" in {one["metadata"]["name"] for one in s.kube.all("/api/v1/pods")}, "a bare pod was lost")


def terminating():
    """A pod that ends counts no more, so its replacement buys nothing; one of a StatefulSet counts until it is gone."""
    with Scene() as s:
        machine = "worker-1"
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db"}
        s.kube.node(machine, "x://1")
        s.kube.pod("web-1", node=machine)
        s.kube.must("POST", "/api/v1/namespaces/default/pods", {
            **POD, "metadata": {"name": "db-0", "ownerReferences": [owner]}, "spec": {
                "nodeName": machine, "nodeSelector": {"node.kubernetes.io/instance-type": "m5.4xlarge"},
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "16"}}}]}})
        s.phases({"web-1", "db-0"}, "Acknowledged")
        s.configured(2)
        for name in ("web-1", "db-0"):  # each stays as long as no kubelet ends it
            s.kube.must("DELETE", f"/api/v1/namespaces/default/pods/{name}")
        s.kube.pod("web-2")
        s.phases({"web-2", "db-0"}, "Acknowledged")
        check("deletionTimestamp" in pod(s, "web-1")["metadata"], "web-1 is terminating")
        s.world.settled()
        check(s.world.shard.metric("actions_total", kind="Provision") == 2, "a machine was bought for the replacement")
        s.kube.remove("db-0")
        s.phases({"web-2"}, "Acknowledged")


def waiting():
    """A request that lacks machines and its pod say why; what is met needs no word, except after it was not."""
    with Scene(machines=2) as s:
        s.kube.pod("fine")
        s.kube.pod("odd", nodeSelector={"node.kubernetes.io/instance-type": "no-such-type"})
        s.phases({"fine", "odd"}, "Acknowledged")

        def condition(name):
            status = s.kube.requests().get(name, {}).get("status", {})
            found = [one for one in status.get("conditions", ()) if one["type"] == "Supplied"]
            return (found[0]["status"], found[0]["reason"]) if found else None

        def events(name):
            return [one for one in s.kube.all("/api/v1/namespaces/default/events") if one["involvedObject"]["name"] == name]
        s.wait("the request says why", lambda: condition("odd") == ("False", "NoMatchingSupply"))
        s.wait("so does the pod", lambda: [one["reason"] for one in events("odd")] == ["NoMatchingSupply"])
        event = events("odd")[0]
        check(event["involvedObject"]["uid"] == pod(s, "odd")["metadata"]["uid"] and event["type"] == "Warning", f"{event}")
        s.configured(1)
        check(condition("fine") is None and not events("fine"), "what is met needs no word")
        s.kube.pod("more")  # one too many for the machines of this type
        s.wait("the row lacks a machine", lambda: condition("more") == condition("fine") == ("False", "PriorityStarved"))
        s.kube.remove("fine")
        s.wait("met", lambda: condition("more") == ("True", "Supplied"))
        s.operator.again()
        s.kube.remove("odd")
        s.phases({"more"}, "Acknowledged")
        check(len(events("odd")) == 1, "one event for a reason")


def events_refused():
    """Without the right to create Events the operator does everything else, and says so once."""
    with Scene("--kube-namespace", "default", user="limited") as s:
        for number in range(2):
            s.kube.pod(f"odd-{number}", nodeSelector={"node.kubernetes.io/instance-type": "no-such-type"})
        s.wait("refused", lambda: "the API server refuses events" in s.operator.text())
        s.kube.pod("fine")
        s.phases({"odd-0", "odd-1", "fine"}, "Acknowledged")
        s.configured(1)
        check(s.operator.text().count("the API server refuses events") == 1, "said once")
        check(not s.kube.all("/api/v1/namespaces/default/events"), "no event")


def left_while_dead():
    """Machines that leave while the operator is dead are not on show after its restart."""
    with Scene() as s:
        for number in range(3):
            s.kube.pod(f"web-{number}")
        s.wait("on show", lambda: sorted(s.kube.upcoming().values()) == ["Ready"] * 3)
        s.operator.kill()
        for machine in s.kube.upcoming():
            s.world.provider.control("place", machine=machine, state="Idle")
        wait_for("the shard wants them again", lambda: "outcome=no_session" in s.world.shard.text())
        for number in range(3):
            s.kube.remove(f"web-{number}")
        s.operator.start()
        s.wait("no request", lambda: s.kube.requests() == {})
        s.wait("nothing on show", lambda: s.kube.upcoming() == {})


def pod(scene, name):
    return scene.kube.must("GET", "/api/v1/namespaces/default/pods/" + name)


if __name__ == "__main__":
    run_cases([life, rejected, reclaim, occupied, terminating, waiting, events_refused, left_while_dead])
