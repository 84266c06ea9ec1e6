# SPDX-License-Identifier: Apache-2.0
"""A program that plays the kubelets of a cluster, and a follower of its objects.

The kubelets do this, and no more:
- a Node for each UpcomingNode that is Ready, with its provider id, labels and resources;
- pods bound to such a Node run and are Ready; pods with a deletion time end at that time;
- a Node ends when its UpcomingNode is Drained or gone. Pods of a Node that ended have no kubelet.
"""
import datetime
import http.client
import json
import ssl
import threading
import time

MACHINE = "closed-loop/machine"  # a Node's annotation
UPCOMING = "/apis/bigfleet.lucy.sh/v1alpha1/upcomingnodes"
READ_SECONDS = 300  # a watch that says nothing for so long is opened again


class Api:
    """Calls as the administrator; one object for each thread, because it keeps its connection."""

    def __init__(self, server):
        self.server, self.connection = server, None
        self.context = ssl.create_default_context(cafile=server.path("ca.crt"))

    def open(self):
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=self.context, timeout=READ_SECONDS)

    def headers(self, kind="application/json"):
        return {"Authorization": "Bearer " + self.server.tokens["admin"], "Content-Type": kind}

    def call(self, method, path, body=None, kind="application/json"):
        """(status, object); a connection that the server closed is opened once more."""
        for last in (False, True):
            self.connection = self.connection or self.open()
            try:
                self.connection.request(method, path, None if body is None else json.dumps(body), self.headers(kind))
                answer = self.connection.getresponse()
                text = answer.read()
                return answer.status, json.loads(text) if text[:1] == b"{" else text
            except (OSError, http.client.HTTPException):
                self.connection.close()
                self.connection = None
                if last:
                    raise
        return None

    def items(self, path):
        status, answer = self.call("GET", path)
        if status != 200:
            raise RuntimeError(f"list {path}: {status} {answer}")
        return answer["items"]

    def patch(self, path, body):
        return self.call("PATCH", path, body, "application/merge-patch+json")


class Follower(threading.Thread):
    """All objects of a resource by namespace/name, kept up to date by a watch. `on_event` is called after every change."""

    def __init__(self, server, path, on_event):
        super().__init__(daemon=True)
        self.api, self.path, self.on_event, self.ended = Api(server), path, on_event, False
        self.objects, self.lock = {}, threading.Lock()
        self.start()

    @staticmethod
    def key(thing):
        return thing["metadata"].get("namespace", "") + "/" + thing["metadata"]["name"]

    def all(self):
        with self.lock:
            return list(self.objects.values())

    def run(self):
        while not self.ended:
            try:
                status, answer = self.api.call("GET", self.path)
                if status != 200:
                    raise OSError(f"{self.path}: {status}")
                with self.lock:
                    self.objects = {self.key(thing): thing for thing in answer["items"]}
                self.on_event()
                self.watch(answer["metadata"]["resourceVersion"])
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.2)

    def watch(self, version):
        connection = self.api.open()
        try:
            connection.request("GET", f"{self.path}?watch=1&resourceVersion={version}", None, self.api.headers())
            answer = connection.getresponse()
            while not self.ended:
                line = answer.readline()
                event = json.loads(line) if line else {"type": "ERROR"}
                if event["type"] == "ERROR":
                    return
                with self.lock:
                    if event["type"] == "DELETED":
                        self.objects.pop(self.key(event["object"]), None)
                    else:
                        self.objects[self.key(event["object"])] = event["object"]
                self.on_event(event)
        finally:
            connection.close()


def seconds_of(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()


def node_of(upcoming):
    """What a kubelet registers."""
    spec = upcoming["spec"]
    name = spec.get("nodeName") or spec["machineID"]
    amounts = {**spec.get("resources", {}), "pods": "110"}
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "annotations": {MACHINE: spec["machineID"]}, "labels": {
                **spec.get("labels", {}), "kubernetes.io/hostname": name, "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64"}},
            "spec": {"providerID": spec.get("providerID", ""), "taints": spec.get("taints", [])},
            "status": {"capacity": amounts, "allocatable": amounts, "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now,
                 "lastTransitionTime": now}]}}


RUNNING = {"status": {"phase": "Running", "conditions": [{"type": kind, "status": "True"} for kind in (
    "PodScheduled", "Initialized", "ContainersReady", "Ready")]}}


class Kubelets(threading.Thread):
    def __init__(self, server):
        super().__init__(daemon=True)
        self.api, self.changed, self.ended = Api(server), threading.Event(), False
        self.nodes = {}  # machine -> name of its Node
        self.error = None
        self.pod_events = []  # callables that hear of every event of a pod
        self.upcoming = Follower(server, UPCOMING, self.on_event)
        self.pods = Follower(server, "/api/v1/pods", self.told_of_pod)
        self.start()

    def on_event(self, _event=None):
        self.changed.set()

    def told_of_pod(self, event=None):
        for each in list(self.pod_events) if event else ():
            each(event)
        self.changed.set()

    def run(self):
        while not self.ended:
            pause = None
            try:
                self.changed.clear()
                self.keep_nodes()
                pause = self.keep_pods()
            except (OSError, http.client.HTTPException, RuntimeError) as error:
                self.error, pause = error, 0.5
            self.changed.wait(pause)

    def must(self, answer, *fine):
        if answer[0] not in (200, 201, 202, *fine):
            raise RuntimeError(f"a kubelet was refused: {answer}")

    def keep_nodes(self):
        shown = {one["spec"]["machineID"]: one for one in self.upcoming.all()}
        phase = {machine: one.get("status", {}).get("phase", "") for machine, one in shown.items()}
        for machine in [m for m in self.nodes if phase.get(m, "Drained") == "Drained"]:
            self.must(self.api.call("DELETE", "/api/v1/nodes/" + self.nodes[machine]), 404)
            del self.nodes[machine]
        for machine, one in shown.items():
            if phase[machine] == "Ready" and machine not in self.nodes:
                node = node_of(one)
                self.must(self.api.call("POST", "/api/v1/nodes", node), 409)
                self.nodes[machine] = node["metadata"]["name"]

    def keep_pods(self):
        """Seconds until the next pod ends."""
        mine, now, pause = set(self.nodes.values()), time.time(), None
        for pod in self.pods.all():
            if pod["spec"].get("nodeName") not in mine:
                continue
            meta = pod["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
            if "deletionTimestamp" in meta:
                left = seconds_of(meta["deletionTimestamp"]) - now
                if left <= 0:
                    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
                    self.must(self.api.call("DELETE", path, body), 404, 409)
                else:
                    pause = min(left, pause or left)
            elif pod.get("status", {}).get("phase") == "Pending":
                self.must(self.api.patch(path + "/status", {"metadata": {"uid": meta["uid"]}, **RUNNING}), 404, 409)
        return pause

    def stop(self):
        for thread in (self, self.upcoming, self.pods):
            thread.ended = True
        self.changed.set()
