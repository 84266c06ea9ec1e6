#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes and the chart they come from.

usage: test_kubernetes.py SOURCE MUSTER     (prints TAP)

`make interop` (scripts/interop-helm) checks that Helm renders muster.yaml, and that an API server accepts it."""
import os
import re
import sys
import tempfile

from tap import judge, ok, run

try:
    import yaml
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

SOURCE, MUSTER = (os.path.abspath(path) for path in sys.argv[1:3])
CHART = os.path.join(SOURCE, "deploy/helm/muster")
with open(os.path.join(SOURCE, "deploy/kubernetes/muster.yaml"), encoding="utf-8") as manifests:
    THINGS = [thing for thing in yaml.safe_load_all(manifests) if thing]


def of_kind(*kinds):
    return [thing for thing in THINGS if thing["kind"] in kinds]


def named(kind, name):
    return next((thing for thing in of_kind(kind) if thing["metadata"]["name"] == name), None)


WORKLOADS = of_kind("StatefulSet", "Deployment")


def role_of(thing):
    return thing["metadata"]["labels"]["app.kubernetes.io/component"]


def complete():
    ok(sorted(role_of(thing) for thing in WORKLOADS) == ["coordinator", "operator", "provider", "shard"],
       "a workload for each role")
    names = [(thing["kind"], thing["metadata"]["name"]) for thing in THINGS]
    ok(len(names) == len(set(names)), "nothing twice", names)
    outside = ("ClusterRole", "ClusterRoleBinding")
    ok(all(("namespace" in thing["metadata"]) != (thing["kind"] in outside) for thing in THINGS),
       "each in its namespace")


def pods():
    for thing in WORKLOADS:
        role, pod = role_of(thing), thing["spec"]["template"]["spec"]
        [container] = pod["containers"]
        ok(thing["spec"]["selector"]["matchLabels"] == thing["spec"]["template"]["metadata"]["labels"],
           f"{role}: finds its own pods")
        ok(pod["enableServiceLinks"] is False,
           f"{role}: no MUSTER_ variables of Kubernetes' making, which would be refused")
        ok(pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
           and container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
           and container["securityContext"]["allowPrivilegeEscalation"] is False, f"{role}: may do little", pod)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        probes = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
        ok(probes["livenessProbe"]["path"] == "/healthz" and probes["readinessProbe"]["path"] == "/readyz"
           and all(probe["port"] == "http" and probe["scheme"] == "HTTPS" for probe in probes.values()),
           f"{role}: restarted on /healthz, routed by /readyz", probes)
        ok(str(ports["http"]) == thing["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"],
           f"{role}: is scraped there")


def expanded(text):
    return text.replace("$(POD_NAME)", "muster-x-0").replace("$(POD_NAMESPACE)", "fleet")


def arguments_are_options():
    for thing in WORKLOADS:
        role, [container] = role_of(thing), thing["spec"]["template"]["spec"]["containers"]
        words = [expanded(word) for word in container["args"] if not word.startswith("--tls-")] + ["--insecure",
                                                                                                   "--print-config"]
        with tempfile.TemporaryDirectory(prefix="muster-kube-") as home:
            done = run([MUSTER, *words], cwd=home, env={"PATH": os.environ["PATH"]})
        ok(done.returncode == 0 and "$(" not in "".join(words), f"muster {' '.join(words)}", done.stdout)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        for name, option in (("grpc", "--listen"), ("raft", "--raft-bind"), ("http", "--http-listen")):
            if name in ports:
                ok(f"{option}=:{ports[name]}" in words, f"{role}: listens on the port it names, {name}", words)


def tls_as_bootstrapped():
    """The files that deploy/tls/bootstrap --kubernetes muster/NAMESPACE puts into the Secrets, by their names."""
    files = {"coordinator": "$(POD_NAME)", "shard": "$(POD_NAME)", "provider": "muster-provider",
             "operator": "cluster-kubernetes"}
    for thing in WORKLOADS:
        role, pod = role_of(thing), thing["spec"]["template"]["spec"]
        args = pod["containers"][0]["args"]
        ok(f"--tls-cert-file=/etc/muster/tls/{files[role]}.pem" in args
           and f"--tls-key-file=/etc/muster/tls/{files[role]}.key.pem" in args
           and "--tls-ca-file=/etc/muster/tls/ca.pem" in args and "--insecure" not in args,
           f"{role}: shows its certificate", args)
        secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        ok(secrets == [f"muster-{role}-tls"], f"{role}: sees the keys of its kind only", secrets)


def stateful():
    for role in ("coordinator", "shard", "provider"):
        thing = named("StatefulSet", "muster-" + role)
        service = named("Service", thing["spec"]["serviceName"])
        ok(service and service["spec"]["clusterIP"] == "None" and service["spec"]["publishNotReadyAddresses"] is True
           and service["spec"]["selector"] == thing["spec"]["selector"]["matchLabels"],
           f"{role}: a headless service names its pods", service)
        [claim] = thing["spec"]["volumeClaimTemplates"]
        [container] = thing["spec"]["template"]["spec"]["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        args = container["args"]
        ok(claim["spec"]["accessModes"] == ["ReadWriteOnce"]
           and f"--data-dir={mounts[claim['metadata']['name']]}" in args,
           f"{role}: keeps its data on a volume of its own", mounts)


def coordinators():
    thing = named("StatefulSet", "muster-coordinator")
    pod = thing["spec"]["template"]["spec"]
    ok(thing["spec"]["replicas"] == 3 and thing["spec"]["podManagementPolicy"] == "Parallel", "three, started together")
    [apart] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ok(apart["topologyKey"] == "kubernetes.io/hostname" and apart["labelSelector"]["matchLabels"] ==
       thing["spec"]["selector"]["matchLabels"],
       "no two on one node", apart)
    budget = named("PodDisruptionBudget", "muster-coordinator")
    ok(budget["spec"]["maxUnavailable"] == 1 and budget["spec"]["selector"]["matchLabels"] ==
       thing["spec"]["selector"]["matchLabels"],
       "one at a time is taken away", budget)
    args = pod["containers"][0]["args"]
    ok("--id=$(POD_NAME)" in args and "--join-addr=muster-coordinator.$(POD_NAMESPACE).svc:7790" in args
       and f"--bootstrap-expect={thing['spec']['replicas']}" in args
       and "--raft-advertise=$(POD_NAME).muster-coordinator.$(POD_NAMESPACE).svc:7791" in args,
       "all get the same arguments", args)
    shard = named("StatefulSet", "muster-shard")["spec"]["template"]["spec"]["containers"][0]["args"]
    ok("--dry-run=true" in shard, "a new shard is in shadow mode", shard)


def operator_may_what_it_needs():
    with open(os.path.join(SOURCE, "deploy/kubernetes/operator-rbac.yaml"), encoding="utf-8") as file:
        rules = next(thing["rules"] for thing in yaml.safe_load_all(file) if thing["kind"] == "ClusterRole")
    ok(named("ClusterRole", "muster-operator")["rules"] == rules, "the chart's role is operator-rbac.yaml's")
    crds = os.path.join(CHART, "crds/crds.yaml")
    ok(os.path.realpath(crds) == os.path.realpath(os.path.join(SOURCE, "deploy/kubernetes/crds.yaml")),
       "and its CRDs are crds.yaml")


def leaves(values, path=()):
    for name, value in values.items():
        if isinstance(value, dict) and value and name != "resources":
            yield from leaves(value, (*path, name))
        else:
            yield ".".join((*path, name))


def values_are_used():
    text = ""
    for name in sorted(os.listdir(os.path.join(CHART, "templates"))):
        with open(os.path.join(CHART, "templates", name), encoding="utf-8") as file:
            text += file.read()
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as file:
        known = set(leaves(yaml.safe_load(file)))
    used = set(re.findall(r"\.Values\.([A-Za-z.]+)", text))
    ok(known == used, "every value is used, and every used one has a default", known ^ used)
    with open(os.path.join(SOURCE, "deploy/helm/README.md"), encoding="utf-8") as file:
        page = file.read()
    ok(all(f"`{name}`" in page for name in known), "deploy/helm/README.md explains each",
       [n for n in known if f"`{n}`" not in page])


judge(complete, pods, arguments_are_options, tls_as_bootstrapped, stateful, coordinators, operator_may_what_it_needs,
      values_are_used)
