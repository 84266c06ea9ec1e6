# SPDX-License-Identifier: Apache-2.0
"""Coordinators that serve workers, and workers played by a stock gRPC client: shared by the tests of this folder.

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--long]    (prints TAP)

A foreign worker speaks rollout's protocol only: Beat with ids, a state and a due time. Calls with a temporary status are
repeated. Times are not judged, unless a case of the specification is about them (--long).
"""
import json
import os
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
import coordinators  # noqa: E402
from coordinators import (CHANNEL, LONG, METHODS, PASSING, PATIENCE, PATIENT, Cluster, Redialed, check,  # noqa: E402,F401
                          code_of, grpc, message, run_cases, wait_for)

RUN = "01JFEAVS7C5DE5XEAEAB91EBT5"
IDS = [f"01JFEAVS7C5DE5XEAEAB91EB{a}{b}" for a in "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
       for b in "0123456789ABCDEFGHJKMNPQRSTVWXYZ"]
T5, T6, T7 = RUN, RUN[:-1] + "6", RUN[:-1] + "7"
MEMBER, BEAT = "muster.v1.Membership/", "rollout.transport.v1.Heartbeat/Beat"
SUBSCRIBE, WORK = "rollout.transport.v1.Control/Subscribe", "rollout.transport.v1.Work/Stream"
INIT, READY, RUNNING, DRAINING = 1, 2, 3, 4
UNKNOWN, ACTIVE, SUSPECTED, DEAD, REMOVED = range(5)
FREE, OWNED, REVOKING, FENCING = range(4)
# Timing that a starved machine does not trip over: nobody is failed while a test looks elsewhere.
SLOW = {"transport": {"heartbeat_interval": "30s", "worker_self_fence_timeout": "290s",
                      "coordinator_failure_timeout": "300s", "beat_reply_max": "60s"},
        "detector": {"heartbeat_timeout_sec": 600}, "placement": {"revoke_timeout": "120s"}}
# And one in which a silent worker is dead soon.
QUICK = {"transport": {"heartbeat_interval": "100ms", "worker_self_fence_timeout": "400ms",
                       "coordinator_failure_timeout": "500ms", "clock_skew_budget": "50ms", "beat_reply_max": "60s"}}


def toml(value):
    return json.dumps(value) if not isinstance(value, bool) else str(value).lower()


class Workers(Cluster):
    """A cluster whose nodes have a [transport] section: `settings` are more of its file, by section."""

    def __init__(self, count, settings=None, apart=False, **more):
        """`apart`: standard output into a file of its own, see output()."""
        super().__init__(count, join=count > 1, **more)
        for node in self.nodes:
            node.workers = self.address(node.number, 3)
            node.tls_dir = os.path.join(self.dir, "worker-tls")  # one CA for the run
            node.events_file = os.path.join(node.dir + "-events.ndjson")
            node.options += ["--config", self.file(node, settings or SLOW)]
            if apart:
                node.wrapper = ["sh", "-c", 'out=$1; shift; exec "$@" >>"$out"', "sh", node.dir + ".out"]

    def file(self, node, settings):
        sections = {"storage": {"path": node.dir + "-ledger.db"},
                    "transport": {"listen_addr": node.workers, "tls_dir": node.tls_dir},
                    "events": {"worker_sink": "file", "worker_file": node.events_file}}
        for name, more in settings.items():
            sections.setdefault(name, {}).update(more)
        path = os.path.join(self.dir, node.name + ".toml")
        with open(path, "w", encoding="utf-8") as out:
            out.write(f'run_id = "{RUN}"\n')
            for name, keys in sections.items():
                out.write(f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in keys.items()))
        return path

    @staticmethod
    def output(node):
        with open(node.dir + ".out", encoding="utf-8") as out:
            return out.read()

    def events(self, topic=None):
        """Lines of all nodes, oldest node first; those of one topic."""
        lines = []
        for node in self.nodes:
            if os.path.exists(node.events_file):
                with open(node.events_file, encoding="utf-8") as file:
                    lines += [json.loads(line) for line in file if line.endswith("\n")]  # the last may be half written
        return [line for line in lines if topic in (None, line["kind"]["domain"]["topic"])]

    def reported(self, worker):
        """The events of a worker in order, each once, also if it was written several times."""
        seen, topics = set(), []
        for line in self.events():
            if line["worker_id"] != worker:
                continue
            event = (line["attrs"] or {}).get("event_id")
            if event is None or event not in seen:
                topics.append(line["kind"]["domain"]["topic"])
            seen.add(event)
        return topics

    def member(self, name, **fields):
        """A call to any replica: followers forward it."""
        return self.ask(MEMBER + name, **fields)

    def listed(self, standing=UNKNOWN):
        return {worker.worker_id: worker for worker in self.member("ListWorkers", standing=standing).workers}

    def status(self):
        return self.member("ClusterStatus")

    def certificate(self, name, uri=None):
        """Key and certificate of `name` from the run's CA, in grpc's form."""
        tls, out = self.nodes[0].tls_dir, os.path.join(self.dir, "leaf-" + name.replace("/", "-"))
        host = "" if "/" in name else f"DNS:{name},"
        with open(out + ".ext", "w", encoding="utf-8") as ext:
            ext.write(f"subjectAltName={host}DNS:localhost{',URI:' + uri if uri else ''}\nextendedKeyUsage=clientAuth\n")
        for command in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                         "/CN=" + name.replace("/", "\\/"), "-keyout", out + ".key", "-out", out + ".csr"],
                        ["x509", "-req", "-in", out + ".csr", "-CA", tls + "/ca.pem", "-CAkey", tls + "/ca.key.pem",
                         "-set_serial", "77", "-days", "30", "-extfile", out + ".ext", "-out", out + ".pem"]):
            subprocess.run(["openssl", *command], check=True, capture_output=True)
        with open(out + ".key", "rb") as key, open(out + ".pem", "rb") as leaf:
            return key.read(), leaf.read()

    def dial_worker(self, node, name, key_and_leaf=None):
        """A channel to the workers' listener, as worker `name`."""
        wait_for(f"{node.name} listens", node.listening)  # it does there first
        key, leaf = key_and_leaf or self.certificate(name)
        with open(node.tls_dir + "/ca.pem", "rb") as ca:
            credentials = grpc.ssl_channel_credentials(ca.read(), key, leaf)
        return Redialed(lambda: grpc.secure_channel(node.workers, credentials, options=[
            *CHANNEL, ("grpc.ssl_target_name_override", "localhost")]))


def stub(channel, path, kind="unary_unary"):
    method = METHODS[path]
    return getattr(channel, kind)("/" + path, message(method.input_type).SerializeToString,
                                  message(method.output_type).FromString)


def beat(channel, worker, state=READY, due=None, run=RUN, timeout=PATIENCE, metadata=()):
    """One beat: the answer and its trailers; raises grpc.RpcError."""
    request = message("rollout.transport.v1.BeatRequest")(worker_id=worker, run_id=run, state=state)
    if due is None:
        due = time.time() + 60
    if due is not False:
        request.due_at.seconds, request.due_at.nanos = int(due // 1), int(due % 1 * 1e9)
    answer, call = stub(channel, BEAT).with_call(request, timeout=timeout, metadata=metadata)
    return answer, dict(call.trailing_metadata())


def beat_until(channel, worker, **more):
    """The same, asked again while an election or a slow disk is in the way."""
    def once():
        try:
            return beat(channel, worker, **more)
        except grpc.RpcError as error:
            check(error.code() in PASSING, f"{error.code()} {error.details()}")
            return None
    return wait_for("a beat that is acknowledged", once)


class Beating(threading.Thread):
    """A foreign worker: beats until it is stopped. A failed beat is counted and the next one tries again."""

    def __init__(self, channel, worker, interval=0.1, state=READY, metadata=()):
        super().__init__(daemon=True)
        self.channel, self.worker, self.interval, self.state = channel, worker, interval, state
        self.metadata, self.ending, self.good, self.bad, self.last = metadata, threading.Event(), 0, [], {}
        self.start()

    def run(self):
        state = INIT
        while not self.ending.is_set():
            try:
                _, self.last = beat(self.channel, self.worker, state, time.time() + 2 * self.interval,
                                    metadata=self.metadata)
                self.good, state = self.good + 1, self.state
            except grpc.RpcError as error:
                self.bad.append((error.code(), error.details()))
            except ValueError:
                return  # the channel was closed
            self.ending.wait(self.interval)

    def stop(self):
        self.ending.set()
        self.join(PATIENCE)
        check(not self.is_alive(), "a beat was never answered")
