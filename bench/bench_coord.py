#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims on every store in one run: memory, files on a disk and in memory, one etcd member, one nats-server of
2.11 or newer (MUSTER_NATS_SERVER, or on the PATH), a kube-apiserver where one is on the PATH, and any URL given.

usage: bench_coord.py BUILD [URL...]      e.g. muster://127.0.0.1:7790
"""
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../tests/lib"), os.path.join(HERE, "../tests/integration/coord/nats")]
import kube_apiserver  # noqa: E402
import servers as nats  # noqa: E402
from etcd_cluster import Cluster  # noqa: E402

PROGRAM = os.path.join(sys.argv[1], "bench/coord_ops")
SHM = f"/dev/shm/bench-coord-{os.getpid()}"


def nats_program():
    """One that can end a claim by itself: 2.11."""
    program = os.environ.get("MUSTER_NATS_SERVER") or shutil.which("nats-server")
    if not program:
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return program if tuple(map(int, said.split("v")[-1].split(".")[:2])) >= (2, 11) else None


with contextlib.ExitStack() as stack:
    stack.callback(shutil.rmtree, SHM, True)
    urls = ["mem:", "file://%t", f"file://{SHM}"]
    if shutil.which("etcd"):
        urls.append(stack.enter_context(Cluster(1)).url())
    else:
        print("etcd is not on the PATH: not measured")
    program = nats_program()
    if program:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-nats-"))
        port = nats.free_ports(1)[0]
        server = nats.start(program, "one", port, 0, [], directory)
        stack.callback(server.wait)
        stack.callback(server.kill)
        urls.append(f"nats://127.0.0.1:{port}/bench?create=1")
    else:
        print("no nats-server of 2.11 or newer (scripts/peers/nats-server): not measured")
    why = kube_apiserver.missing()
    if why:
        print(f"k8s is not measured: {why}")
    else:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-kube-"))
        api = stack.enter_context(kube_apiserver.ApiServer(directory))
        urls.append("k8s://default?kubeconfig=" + api.kubeconfig("admin"))
    subprocess.run([PROGRAM, *urls, *sys.argv[2:]], check=True)
