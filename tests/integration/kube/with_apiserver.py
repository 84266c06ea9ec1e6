#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a test program beside a real API server: with_apiserver.py PROGRAM [ARGUMENT...]

{url} in an argument becomes the URL of a store there.
The program finds in its environment: KUBE_DIR (certificates), KUBE_ADMIN, KUBE_LIMITED, KUBE_CERT and
KUBE_PROXIED (kubeconfig files), KUBE_URL and KUBE_PID of the server, KUBE_PROXY (HOST:PORT of
tests/lib/kube_proxy.py).
"""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
import kube_apiserver  # noqa: E402
import kube_proxy  # noqa: E402


def main():
    why = kube_apiserver.missing()
    if why:
        print(f"1..0 # SKIP {why}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    with tempfile.TemporaryDirectory(prefix="muster-kube-") as directory:
        with kube_apiserver.ApiServer(directory) as server, \
                kube_proxy.Proxy(server.url, server.path("ca.crt")) as proxy:
            env = dict(os.environ)
            for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
                env.pop(name, None)
            env.update(KUBE_DIR=directory, KUBE_URL=server.url, KUBE_PID=str(server.processes[-1][1].pid), KUBE_PROXY=proxy.address,
                       KUBE_ADMIN=server.kubeconfig("admin"), KUBE_LIMITED=server.kubeconfig("limited"),
                       KUBE_CERT=server.kubeconfig(None, "kubeconfig-cert"),
                       KUBE_PROXIED=server.kubeconfig("admin", "kubeconfig-proxy", "http://" + proxy.address))
            command = [word.replace("{url}", "k8s://default?kubeconfig=" + env["KUBE_ADMIN"])
                       for word in sys.argv[1:]]
            return subprocess.run(command, env=env, preexec_fn=kube_apiserver.die_with_parent).returncode


if __name__ == "__main__":
    sys.exit(main())
