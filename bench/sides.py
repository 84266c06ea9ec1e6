# SPDX-License-Identifier: Apache-2.0
"""Shared by the benches of whole clusters: three replicas of ours, three etcd members, one generator for both.

A bench imports this first: it takes BUILD_DIR and the words after it from the command line, and goes on under the Python
that has grpcio. With MUSTER_BENCH_RT=1 (root) servers and generator run under real-time priority, both sides alike.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1])
WORDS = sys.argv[2:]
MUSTER, LOAD = f"{BUILD}/cmd/muster/muster", f"{BUILD}/bench/muster-load"
PROTOC = shutil.which("protoc") or "protoc"
BENCH = os.path.abspath(sys.argv[0])
sys.argv = [sys.argv[0], MUSTER, f"{BUILD}/cmd/musterctl/musterctl", PROTOC, f"{ROOT}/proto"]
sys.path[:0] = [os.path.join(ROOT, "tests/integration/fleet"), os.path.join(ROOT, "tests/lib")]
try:
    import grpc  # noqa: F401
except ImportError:  # Debian's grpcio is the system's Python's
    os.execv("/usr/bin/python3", ["/usr/bin/python3", BENCH, BUILD, *WORDS])
import coordinators  # noqa: E402
import etcd_cluster  # noqa: E402

PARTS = [word for word in WORDS if not word.startswith("--")]
RT = ["chrt", "--rr", "1"] if os.environ.get("MUSTER_BENCH_RT") else []


def load(targets, pids, *words):
    """The generator's figures."""
    done = subprocess.run(
        [*RT, LOAD, *(word for target in targets for word in ("--target", target)),
         *(word for pid in pids for word in ("--pid", str(pid))), "--json", "--allow-errors", *map(str, words)],
        capture_output=True, text=True, check=False)
    if "a watch ended" in done.stderr:  # with its leader
        return {"errors": 1}
    if done.returncode != 0:
        raise SystemExit(f"muster-load: {done.stderr}{done.stdout}")
    return json.loads(done.stdout)


def at_leader(find, measure):
    """A round with an election in it, which a busy neighbour can cause, is printed and measured again."""
    for _ in range(10):
        got = measure(find())
        if not got["errors"]:
            return got
        print("  (a round was lost to an election)", flush=True)
    raise SystemExit("no leader lasted a round; MUSTER_BENCH_RT=1 may help")


def best(rounds):
    return max(rounds, key=lambda got: got["rate"])


def rss(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def favour(pids):
    for pid in pids if RT else ():
        subprocess.run(["chrt", "-a", "--rr", "-p", "1", str(pid)], check=True)


class Ours(coordinators.Cluster):
    name = "muster"

    def __enter__(self):
        self.start()
        favour(self.pids())
        self.formed()
        return self

    def pids(self):
        return [node.process.pid for node in self.nodes]

    def leads(self):
        return self.leader().grpc


class Theirs(etcd_cluster.Cluster):
    """On the disk that ours are on."""

    name = "etcd"

    def __init__(self):
        version = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=True).stdout
        self.version = "etcd " + version.split()[2]
        super().__init__(3, base=tempfile.gettempdir())

    def __enter__(self):
        super().__enter__()
        favour(self.pids())
        return self

    def pids(self):
        return [process.pid for process in self.processes]

    def leads(self):
        return f"127.0.0.1:{self.ports[self.leader()]}"


def three_of_ours():
    return Ours(3)


def three_of_etcd():
    """Without members where there is no etcd."""
    if shutil.which("etcd"):
        return Theirs()
    print("etcd: not installed (scripts/setup bench)")
    return contextlib.nullcontext()
