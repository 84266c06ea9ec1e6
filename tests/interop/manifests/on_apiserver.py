#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes files of deploy/ with a real kube-apiserver: the documented commands work; every object is accepted,
strictly and without a warning, in a namespace that allows restricted pods only; so are the pods and volume
claims that the workloads would make; the operator's account has exactly the rights that it needs.

usage: on_apiserver.py SOURCE MUSTERCTL     (prints TAP)
"""
import copy
import http.client
import json
import os
import shutil
import ssl
import sys
import tempfile
import time

SOURCE, MUSTERCTL = (os.path.abspath(path) for path in sys.argv[1:3])
sys.path[:0] = [os.path.join(SOURCE, "tests", folder) for folder in ("lib", "packaging")]
import kube_apiserver  # noqa: E402
import yaml  # noqa: E402
from tap import judge, ok, run  # noqa: E402

MANIFESTS = [os.path.join(SOURCE, "deploy/kubernetes", name) for name in ("crds.yaml", "operator-rbac.yaml", "muster.yaml")]
ACCOUNT = "system:serviceaccount:muster:muster-operator"
LEVEL = "pod-security.kubernetes.io/"
PATIENCE = 180  # seconds, on a starved machine


def objects(*paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            yield from (thing for thing in yaml.safe_load_all(file) if thing)


class Api:
    """Asks the server; each answer is (status, object, warnings)."""
    server = None
    kinds = {}

    @classmethod
    def ask(cls, method, path, body=None, kind="application/json"):
        context = ssl.create_default_context(cafile=cls.server.path("ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", cls.server.port, context=context, timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Authorization": "Bearer " + cls.server.tokens["admin"], "Content-Type": kind})
        answer = connection.getresponse()
        text, warnings = answer.read(), answer.headers.get_all("Warning") or []
        connection.close()
        return answer.status, json.loads(text or b"{}"), warnings

    @classmethod
    def folder(cls, version, kind, namespace):
        """The path of objects of this kind, from the server's discovery."""
        root = ("/apis/" if "/" in version else "/api/") + version
        if (version, kind) not in cls.kinds:
            for each in cls.ask("GET", root)[1]["resources"]:
                if "/" not in each["name"]:
                    cls.kinds[version, each["kind"]] = each
        found = cls.kinds[version, kind]
        return root + (f"/namespaces/{namespace}" if found["namespaced"] else "") + "/" + found["name"]

    @classmethod
    def apply(cls, thing):
        """As kubectl apply --server-side --validate=strict."""
        meta = thing["metadata"]
        folder = cls.folder(thing["apiVersion"], thing["kind"], meta.get("namespace", "default"))
        return cls.ask("PATCH", f"{folder}/{meta['name']}?fieldManager=interop&fieldValidation=Strict&force=true", thing,
                       "application/apply-patch+yaml")

    @classmethod
    def try_out(cls, thing):
        """Everything that making it would do, and nothing is kept."""
        folder = cls.folder(thing["apiVersion"], thing["kind"], thing["metadata"]["namespace"])
        return cls.ask("POST", folder + "?dryRun=All&fieldValidation=Strict", thing)


def revisions():
    """All objects of muster.yaml, as the server stores them."""
    folders = {(thing["kind"], thing["metadata"]["name"]): Api.folder(thing["apiVersion"], thing["kind"], "muster")
               for thing in objects(MANIFESTS[2])}
    return {of: Api.ask("GET", f"{folder}/{of[1]}")[1]["metadata"]["resourceVersion"] for of, folder in folders.items()}


def as_documented():
    """deploy/kubernetes/README.md, by hand; where there is a kubectl."""
    if not shutil.which("kubectl"):
        print("# no kubectl here: the documented commands were not run")
        return
    env = {**os.environ, "KUBECONFIG": Api.server.kubeconfig("admin"), "MUSTERCTL": MUSTERCTL, "HOME": Api.server.directory}
    kubernetes = os.path.join(SOURCE, "deploy/kubernetes")
    made = run(["kubectl", "create", "namespace", "muster"], env=env)
    ok(made.returncode == 0, "kubectl create namespace muster", made.stdout)
    printed = run([os.path.join(SOURCE, "deploy/tls/bootstrap"), "--kubernetes", "muster/muster", "--cluster", "kubernetes",
                   Api.server.path("fleet-ca")], env=env)
    commands = [line for line in printed.stdout.splitlines() if line.startswith("kubectl ")]
    ok(printed.returncode == 0 and len(commands) == 4, "bootstrap prints a command for each Secret", printed.stdout)
    for command in commands:
        done = run(["sh", "-c", command], env=env, cwd=Api.server.directory)
        ok(done.returncode == 0, command.replace(Api.server.directory, ""), done.stdout)
    done = run(["kubectl", "apply", "-f", f"{kubernetes}/crds.yaml", "-f", f"{kubernetes}/muster.yaml"], env=env)
    said = [line for line in done.stdout.splitlines() if not line.endswith(" created")]
    ok(done.returncode == 0 and not said, "kubectl apply makes everything, and warns of nothing", done.stdout)
    before = revisions()
    again = run(["kubectl", "apply", "-f", f"{kubernetes}/crds.yaml", "-f", f"{kubernetes}/muster.yaml"], env=env)
    # By the objects: kubectl says "configured" of every StatefulSet with a claim, whose defaults it does not know.
    ok(again.returncode == 0 and revisions() == before, "a second time changes nothing", (again.stdout, before, revisions()))
    secrets = {thing["metadata"]["name"] for thing in Api.ask("GET", "/api/v1/namespaces/muster/secrets")[1]["items"]}
    mounted = {volume["secret"]["secretName"] for thing in workloads(MANIFESTS[2])
               for volume in thing["spec"]["template"]["spec"]["volumes"] if "secret" in volume}
    ok(mounted and mounted <= secrets, "every Secret that a pod mounts is there", (mounted, secrets))


def taken():
    status, answer, _ = Api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "muster", "labels": {LEVEL + "enforce": "restricted", LEVEL + "warn": "restricted"}}})
    ok(status in (200, 201), "a namespace for restricted pods only", answer)
    for path in MANIFESTS:
        for thing in objects(path):
            status, answer, warnings = Api.apply(thing)
            ok(status in (200, 201) and not warnings,
               f"{os.path.basename(path)}: {thing['kind']} {thing['metadata']['name']} is taken", (status, answer, warnings))


def mistakes_are_seen():
    """The check itself can fail: the server refuses a faulty object."""
    thing = next(thing for thing in objects(MANIFESTS[2]) if thing["kind"] == "StatefulSet")
    unknown, impossible, loose = (copy.deepcopy(thing) for _ in range(3))
    unknown["spec"]["replica"] = 3
    impossible["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["name"] = "no-such-volume"
    loose["spec"]["template"]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    for wrong in (unknown, impossible):
        wrong["metadata"]["name"] = "planted"
    status, answer, _ = Api.apply(unknown)
    ok(status >= 400, "a field that does not exist is refused", (status, answer))
    status, answer, _ = Api.ask("POST", Api.folder("v1", "Pod", "muster") + "?dryRun=All", pod_of(impossible))
    ok(status == 422, "so is a volume that does not exist", (status, answer))
    status, answer, _ = Api.try_out(pod_of(loose))
    ok(status == 403, "so is a pod that may gain rights", (status, answer))
    loose["metadata"]["name"] = "planted"
    status, answer, warnings = Api.try_out(loose)
    ok(status == 201 and warnings, "and its workload is warned of", (status, answer, warnings))


def workloads(*paths):
    return [thing for thing in objects(*paths) if thing["kind"] in ("StatefulSet", "Deployment")]


def pod_of(workload):
    """As the controller makes it: each claim of a StatefulSet is a volume."""
    template, name = copy.deepcopy(workload["spec"]["template"]), workload["metadata"]["name"] + "-0"
    template["metadata"].update(name=name, namespace=workload["metadata"]["namespace"])
    for claim in workload["spec"].get("volumeClaimTemplates", []):
        claimed = claim["metadata"]["name"]
        template["spec"].setdefault("volumes", []).append(
            {"name": claimed, "persistentVolumeClaim": {"claimName": f"{claimed}-{name}"}})
    return {"apiVersion": "v1", "kind": "Pod", **template}


def pods_may_start():
    for workload in workloads(MANIFESTS[2]):
        name = workload["metadata"]["name"]
        status, answer, warnings = Api.try_out(pod_of(workload))
        ok(status == 201 and not warnings, name + ": its pod is let in", (status, answer, warnings))
        for claim in workload["spec"].get("volumeClaimTemplates", []):
            asked = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **copy.deepcopy(claim)}
            asked["metadata"]["namespace"] = workload["metadata"]["namespace"]
            status, answer, warnings = Api.try_out(asked)
            ok(status == 201 and not warnings, name + ": so is its volume claim", (status, answer, warnings))


def may(verb, group, resource, part=""):
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": ACCOUNT, "groups": ["system:serviceaccounts", "system:authenticated"],
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "subresource": part, "namespace": "default"}}}
    return Api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)[1]["status"]["allowed"]


def operator_rights():
    """The server applies a role a moment after it was written: waits for the granted rights, then checks the others."""
    ours = "bigfleet.lucy.sh"
    needed = [("list", "", "pods"), ("watch", "", "pods"), ("create", "", "pods", "eviction"), ("update", "", "nodes"),
              ("create", ours, "capacityrequests"), ("update", ours, "capacityrequests", "status"),
              ("delete", ours, "upcomingnodes"), ("update", ours, "availablecapacities", "status")]
    until = time.monotonic() + PATIENCE
    while not all(may(*each) for each in needed) and time.monotonic() < until:
        time.sleep(0.2)
    ok(all(may(*each) for each in needed), "the operator's account may do what it must", [e for e in needed if not may(*e)])
    refused = [("get", "", "secrets"), ("delete", "", "pods"), ("create", "", "pods"), ("delete", "", "nodes"),
               ("create", "apps", "deployments")]
    ok(not any(may(*each) for each in refused), "and no more", [e for e in refused if may(*e)])


def resources():
    """The server accepts valid custom objects of the three kinds and refuses invalid ones."""
    group, folder = "bigfleet.lucy.sh/v1alpha1", "/apis/bigfleet.lucy.sh/v1alpha1"
    until = time.monotonic() + PATIENCE
    while Api.ask("GET", folder)[0] != 200 and time.monotonic() < until:
        time.sleep(0.2)
    served = {each["kind"] for each in Api.ask("GET", folder)[1].get("resources", [])}
    ok(served == {"CapacityRequest", "UpcomingNode", "AvailableCapacity"}, "all three are served", served)
    request = {"apiVersion": group, "kind": "CapacityRequest", "metadata": {"name": "training", "namespace": "default"},
               "spec": {"count": 8, "priority": 1000, "interruptionPenalty": "50", "reclamationPenalty": "pinned",
                        "resources": {"cpu": "96", "memory": "768Gi"},
                        "requirements": [{"key": "disk", "operator": "In", "values": ["nvme"]}],
                        "topologySpread": [{"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1}],
                        "coLocation": {"topologyKey": "topology.kubernetes.io/rack", "labelSelector": {"matchLabels": {"a": "b"}}}}}
    status, answer, warnings = Api.try_out(request)
    ok(status == 201 and not warnings, "a request with all that it may say", (status, answer, warnings))
    for what, spec in (("no unit at all", {"count": 0}), ("a wrong type", {"resources": {"cpu": 96}}),
                       ("a field that is not ours", {"colocation": {}}), ("a spread of no kind", {"topologySpread": [{
                           "topologyKey": "zone", "whenUnsatisfiable": "Perhaps"}]})):
        status, answer, _ = Api.try_out({**request, "spec": {**request["spec"], **spec}})
        ok(status in (400, 422), "refused: " + what, (status, answer))


if __name__ == "__main__":
    why = kube_apiserver.missing()
    if why:
        print(f"1..0 # SKIP {why}")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="muster-kube-") as directory, kube_apiserver.ApiServer(directory) as Api.server:
        judge(as_documented, taken, mistakes_are_seen, pods_may_start, operator_rights, resources)
