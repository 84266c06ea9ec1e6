# SPDX-License-Identifier: Apache-2.0
"""Coordinators as real processes on loopback addresses of this test's own, and a stock gRPC client.

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME [DISK_SHIM]] [--long]    (prints TAP)

A deadline is only there so that what is broken fails instead of hanging; waiting is never a verdict.
"""
import glob
import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

try:
    import grpc
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
    from contracts import load, methods_of
    from dialing import Redialed
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTER, MUSTERCTL, PROTOC, PROTO_ROOT = (os.path.abspath(path) for path in sys.argv[1:5])
ONLY = next((word for word in sys.argv[5:] if not word.startswith("--")), "")
SHIM = os.path.abspath(sys.argv[6]) if len(sys.argv) > 6 else ""
LONG = "--long" in sys.argv

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../log"))
import cluster as log_cluster  # noqa: E402
from cluster import PATIENCE, Failed, Process, Skipped, check, wait_for  # noqa: E402


# -- messages and methods --

FILES, message = load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto", "muster/v1/coordination.proto",
                      "muster/v1/fleet.proto", "muster/v1/member.proto", "rollout/transport.proto",
                      "etcd/lock.proto", "etcd/election.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1/reflection.proto")
METHODS = methods_of(FILES)
FLEET, COORDINATOR = "muster.v1.Fleet/", "bigfleet.v1alpha1.Coordinator/"
OURS = sorted(path for path in METHODS if path.startswith((COORDINATOR, FLEET)))
# What a certificate that only reads may call; of the rest all but ReportShard is an administrator's.
READS = {COORDINATOR + name for name in ("ListShards", "ListDomainAssignments", "ListShardReports", "ListQuotas",
                                         "ListProviders")} | {
    FLEET + name for name in ("ListClusters", "ListInstructions", "ListOwnershipIssues", "ListReplicas", "StateHash")}
ANY_REPLICA = {FLEET + "StateHash"}  # methods that a follower answers, too
HEALTH = "grpc.health.v1.Health/"
# For tests that hold on to a leader: a machine that pauses makes no other. The first replica of a new cluster does
# not wait for it, nor does who is handed the lead; who comes back without a leader does.
PATIENT = ("--election", "60s")
# Statuses that say nothing but that another time, or another replica, may say more.
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN, grpc.StatusCode.ABORTED,
           grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)
CHANNEL = [("grpc.enable_retries", 0)]


def call(channel, path, metadata=(), timeout=PATIENCE, **fields):
    """One unary call; raises grpc.RpcError."""
    method = METHODS[path]
    stub = channel.unary_unary("/" + path, message(method.input_type).SerializeToString,
                               message(method.output_type).FromString)
    return stub(message(method.input_type)(**fields), timeout=timeout, metadata=metadata)


def stream(channel, path, timeout=60, **fields):
    """All messages of a call that answers with a stream; raises grpc.RpcError."""
    method = METHODS[path]
    stub = channel.unary_stream("/" + path, message(method.input_type).SerializeToString,
                                message(method.output_type).FromString)
    return list(stub(message(method.input_type)(**fields), timeout=timeout))


def code_of(function):
    """The status a call ends with, its text and its trailers; OK when it does not fail."""
    try:
        function()
    except grpc.RpcError as error:
        return error.code(), error.details(), dict(error.trailing_metadata() or ())
    return grpc.StatusCode.OK, "", {}


# -- processes --

def shimmed(**what):
    """The environment of a process over ../log/disk_shim.c: KILL_AT=7 and the like."""
    return {"LD_PRELOAD": SHIM, **{"MUSTER_TEST_DISK_" + name: str(value) for name, value in what.items()},
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def contents(directory):
    """The content of its files by path, without the pid file."""
    found = {}
    for path in glob.glob(directory + "/**", recursive=True):
        if os.path.isfile(path) and os.path.basename(path) not in ("LOCK", "PID"):
            with open(path, "rb") as file:
                found[path] = hash(file.read())
    return found


class Coordinator(Process):
    """One replica. Its directory outlives its processes."""

    def __init__(self, cluster, number):
        self.cluster, self.number, self.name = cluster, number, f"node-{number}"
        self.dir = os.path.join(cluster.dir, self.name)
        self.log = os.path.join(cluster.dir, self.name + ".log")
        self.grpc, self.raft, self.http = (cluster.address(number, which) for which in range(3))
        self.options, self.process, self.channel, self.environment = [], None, None, {}
        self.host = number + 1  # of the sandbox
        self.wrapper = ["ip", "netns", "exec", f"h{self.host}"] if cluster.hosts else []

    def start(self, *more):
        command = [*self.wrapper, "setpriv", "--pdeathsig", "KILL", MUSTER, "coordinator", "run", "--id", self.name,
                   "--data-dir", self.dir, "--listen", self.grpc, "--raft-bind", self.raft, "--http-listen", self.http,
                   *self.cluster.options, *self.options, *more]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**environment, **self.environment})
        return self

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def hang_up(self):
        if self.channel:
            self.channel.close()
        self.channel = None

    def wait_end(self):
        self.hang_up()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} did not end") from None

    def stop(self):
        self.signal(signal.SIGTERM)
        code = self.wait_end()
        check(code == 0, f"{self.name} ended with {code}")

    def listening(self):
        """A stock client that could not connect waits for seconds before it tries again, so check the port first."""
        host, port = self.grpc.rsplit(":", 1)
        try:
            with socket.create_connection((host, int(port)), 20):
                return True
        except OSError:
            return False

    def call(self, path, metadata=(), timeout=PATIENCE, **fields):
        return call(self.dialed(), path, metadata, timeout, **fields)

    def dialed(self):
        if self.channel is None:
            wait_for(f"{self.name} listens", self.listening)
            self.channel = self.cluster.dial(self.grpc)
        return self.channel

    def stream(self, path, **fields):
        return stream(self.dialed(), path, **fields)

    def page(self, path):
        """Status and body of a page; (0, why) when it cannot be had."""
        scheme = "https" if self.cluster.trust else "http"
        try:
            with urllib.request.urlopen(f"{scheme}://{self.http}{path}", timeout=PATIENCE,
                                        context=self.cluster.trust) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, http.client.HTTPException) as error:  # it may end in the middle of an answer
            return 0, str(error)

    def replicas(self):
        """The leader that the replica reports; None when it knows none."""
        if not self.running() or not self.listening():
            return None
        try:
            return list(self.call(FLEET + "ListReplicas", timeout=5).replicas)
        except grpc.RpcError:
            return None

    def state(self):
        return self.call(FLEET + "StateHash")

    def try_state(self):
        """None when it does not answer now."""
        try:
            return self.state()
        except grpc.RpcError:
            return None


class Cluster:
    def __init__(self, count, options=(), join=True, hosts=False, first=0, dashboard=False):
        """`hosts`: replica n is host n + 1 of the sandbox, so that the network between them can be cut.
        `first`: ordinal of the first, another one when two clusters live at once.
        `dashboard`: off, so that what is counted and logged is the test's own doing."""
        self.dir, self.hosts = tempfile.mkdtemp(prefix="muster-fleet-"), hosts
        self.options = [*options, *(["--insecure"] if hosts else []),
                        *([] if dashboard else ["--no-dashboard-enabled"])]
        self.dial = lambda address: Redialed(lambda: grpc.insecure_channel(address, options=CHANNEL))
        self.trust = None
        self.nodes = [Coordinator(self, number) for number in range(first, first + count)]
        if join:
            self.options += ["--join-addr", ",".join(node.grpc for node in self.nodes), "--bootstrap-expect", str(count)]

    def over_tls(self):
        """Each gets a certificate of an authority of this test's own; the client that of an administrator."""
        tls = os.path.join(self.dir, "tls")
        issue = [MUSTERCTL, "cert", "issue", "--dir", tls, "--names", self.address(0, 0).split(":")[0]]
        subprocess.run([MUSTERCTL, "cert", "ca", "--dir", tls], check=True, capture_output=True)
        subprocess.run([*issue, "admin"], check=True, capture_output=True)
        for node in self.nodes:
            subprocess.run([*issue, "replica", "--id", node.name], check=True, capture_output=True)
            pair = os.path.join(tls, "replica-" + node.name)
            node.options += ["--tls-cert", pair + ".pem", "--tls-key", pair + ".key.pem", "--tls-ca", tls + "/ca.pem"]
        files = [open(os.path.join(tls, name), "rb").read() for name in ("ca.pem", "admin.key.pem", "admin.pem")]
        self.trust = ssl.create_default_context(cafile=tls + "/ca.pem")
        self.dial = lambda address: Redialed(lambda: grpc.secure_channel(
            address, grpc.ssl_channel_credentials(*files), options=CHANNEL))
        return self

    def address(self, number, which):
        """Loopback has 2^24 addresses: one of this process' own makes fixed ports safe."""
        if self.hosts:
            return f"10.77.0.{number % 10 + 1}:{7790 + number // 10 * 10 + which}"
        pid = os.getpid()
        return f"127.{164 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}:{4000 + 10 * number + which}"

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        well = error is None or isinstance(error, Skipped) or (isinstance(error, SystemExit) and not error.code)
        for node in self.nodes:
            node.hang_up()
            if not well and os.path.exists(node.log):
                print(f"# -- {node.name}\n# " + "\n# ".join(node.text().splitlines()[-15:]))
            if node.running():
                node.process.kill()
                node.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self):
        for node in self.nodes:
            node.start()
        return self

    def others(self, *these):
        return [node for node in self.nodes if node not in these]

    def leader(self, among=None):
        """Waits for a replica that lists the replicas and itself as their leader."""
        def look():
            for node in among or self.nodes:
                for replica in node.replicas() or ():
                    if replica.leader and replica.name == node.name:
                        return node
            return None
        return wait_for("a leader", look)

    def asked(self, path, among=None, **fields):
        """The answer of the leader, and code_of it. An idempotent call, which is repeated while there is an election."""
        def once():
            answers = []
            how = code_of(lambda: answers.append(self.leader(among).call(path, **fields)))
            passing = how[0] in PASSING or "x-muster-leader" in how[2] or "not the leader" in how[1]
            return None if passing else (answers, *how)
        answers, code, text, trailers = wait_for(path, once)
        return answers[0] if answers else None, code, text, trailers

    def ask(self, path, among=None, **fields):
        answer, code, text, _ = self.asked(path, among, **fields)
        check(code == grpc.StatusCode.OK, f"{path}: {code} {text}")
        return answer

    def formed(self, count=None, among=None):
        """Waits until the members are exactly `count` voters; returns the list."""
        count = count or len(self.nodes)

        def look():
            replicas = self.leader(among).replicas() or ()
            return replicas if len(replicas) == count and all(r.voter for r in replicas) else None
        return wait_for(f"{count} voters", look)

    def agree(self, among=None):
        """All have applied the same entries and hold the same state; the hashes by machine."""
        def look():
            states = [node.try_state() for node in among or self.nodes]
            return states if None not in states and len({state.applied for state in states}) == 1 else None
        states = wait_for("the same index everywhere", look)
        hashes = {tuple((m.name, m.hash) for m in state.machines) for state in states}
        check(len(hashes) == 1, f"states differ: {states}")
        return dict(hashes.pop())


# -- TAP --

def run_cases(cases):
    log_cluster.run_cases(cases, ONLY)
