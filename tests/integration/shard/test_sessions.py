#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A foreign operator (grpcio, from the contract) on the shard's sessions: every frame both ways, wrong identities,
garbage, a stream that never reads. What needs a clock or a budget is in tests/unit/shard.

usage: test_sessions.py SESSION_SERVER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
import contextlib
import os
import subprocess
import sys
import tempfile
import threading

try:
    import grpc
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
    from cases import run_tests, same, test
    from cluster_operator import Contract, Operator, inspect
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

SERVER, MUSTERCTL, PROTOC, PROTO_ROOT = sys.argv[1:5]
ONLY = sys.argv[5] if len(sys.argv) > 5 else ""
CODE = grpc.StatusCode


class Server:
    """session_server; its lines, as they come."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([SERVER, "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.lines, self.changed = [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()

    def wait(self, line, count=1):
        with self.changed:
            if not self.changed.wait_for(lambda: sum(l.startswith(line) for l in self.lines) >= count, 60):
                raise AssertionError(f"no {line!r} in {self.lines}")

    def stop(self):
        self.process.terminate()
        same("it ends well", self.process.wait(60), 0)
        self.reader.join(60)


@contextlib.contextmanager
def server(*arguments):
    it = Server(*arguments)
    try:
        yield it
        it.stop()
    finally:
        it.process.kill()
        it.process.wait()


CONTRACT = Contract(PROTOC, PROTO_ROOT)
need = CONTRACT.need


@test
def every_frame_goes_both_ways():
    with server() as s, Operator(CONTRACT, s.address, "a", blob=b"data") as o:
        same("the first frame", [f.WhichOneof("payload") for f in o.wait(lambda f: True)][0], "ack")
        same("its epoch", o.frames[0].ack.shard_epoch, 3)
        resync = o.wait(lambda f: f.HasField("node_state_update"))[0].node_state_update
        same("what is bound", (resync.machine_id, resync.cluster_id, resync.state), ("m-1", "a", 5))
        same("by its key", resync.supersedes_key, "node:m-1")
        same("host", resync.provider_id, "cloud:///zone/i-1")
        same("labels", dict(resync.labels), {"node.kubernetes.io/instance-type": "m5.large",
                                             "topology.kubernetes.io/zone": "zone"})
        same("no node's name", resync.node_name, "")
        o.rollup([need(["m5.large"], 1000, "blob", cpu="8"), need(group="reclaim m-1", cpu="1"),
                  need(group="state m-1 6", cpu="1"), need(["m5.large"], group="capacity", cpu="1")])
        o.wait_acks("rollup")
        s.wait("rollup a 4 rows")
        request = o.wait(lambda f: f.HasField("bootstrap_request"))[0].bootstrap_request
        same("requirements", [(r.key, r.operator, list(r.values)) for r in request.requirements],
             [("node.kubernetes.io/instance-type", 1, ["m5.large"])])
        same("cluster", request.cluster_id, "a")
        s.wait("blob 1 ready data")
        reclaim = o.wait(lambda f: f.HasField("reclaim_instruction"))[0].reclaim_instruction
        same("one machine", (list(reclaim.nodes), reclaim.grace_period_seconds, reclaim.preemptor_priority), (["m-1"], 10, 7))
        o.reclaim_ack(reclaim.instruction_id)
        same("states", o.wait(lambda f: f.node_state_update.state == 6)[0].node_state_update.machine_id, "m-1")
        hint = o.wait(lambda f: f.HasField("available_capacity"))[0].available_capacity
        same("hint", (hint.available_count, hint.confidence, hint.cost_per_hour), (3, 4, 4.5))
        same("its key", hint.supersedes_key,
             "available:p=0|ipb=0|rpb=0|reqs=node.kubernetes.io/instance-type:1:m5.large;|spr=")
        o.end()
        same("a good end", o.wait_ended(), CODE.OK)
        s.wait("close a")


@test
def blobs_may_fail_be_late_or_come_twice():
    with server() as s, Operator(CONTRACT, s.address, "a", blob=RuntimeError("no template")) as o:
        o.rollup([need(group="blob", cpu="1")])
        s.wait("blob 1 error no template")
        o.blob = None
        o.rollup([need(group="blob", cpu="2")])
        request = o.wait(lambda f: f.HasField("bootstrap_request"), 2)[1].bootstrap_request
        o.answer("0" * 16, b"unknown")
        o.answer(request.request_id, b"first")
        o.answer(request.request_id, b"second")
        s.wait("blob 2 ready first")
        o.rollup([need(group="blob", cpu="3")])
        o.wait(lambda f: f.HasField("bootstrap_request"), 3)
        with Operator(CONTRACT, s.address, "a") as new:
            s.wait("blob 3 no session")
            same("the old one is closed", o.wait_ended(), CODE.ABORTED)
            new.wait_acks("hello")
            same("one session", s.lines.count("open a"), 2)


@test
def garbage_is_refused_and_others_go_on():
    with server() as s, Operator(CONTRACT, s.address, "good") as good:
        good.wait_acks("hello")
        for why, first in (("no frame", b"\xff\xff\xff\xff"), ("a roll-up", b"\x12\x00"), ("no cluster", b"\x0a\x00")):
            with Operator(CONTRACT, s.address, "x", hello=False) as o:
                o.send_bytes(first)
                same(why, o.wait_ended(), CODE.INVALID_ARGUMENT)
        with Operator(CONTRACT, s.address, "x") as o:
            o.wait_acks("hello")
            o.send_bytes(b"")  # no payload: a warning
            o.rollup([need(cpu="NaN")])
            s.wait("refused x: needs[0]: aggregate_resources[cpu]: ")
            o.rollup([need(cpu="1"), need(["x" * (10 << 20)], cpu="1")])
            s.wait("refused x: needs[1]: ")
            o.rollup([need(cpu="1", interruption=28)])
            s.wait("refused x: needs[0]: interruption_penalty_bucket: ")
            o.rollup([need(cpu="1")], cluster="good")
            s.wait('refused x: cluster_id: "good" in a session of "x"')
            same("none was acknowledged", [f.ack.echo for f in o.frames if f.ack.echo == "rollup"], [])
            o.rollup([need(cpu="1")])
            o.wait_acks("rollup")
            o.send_bytes(b"\x0a\x7f")
            same("garbage ends it", o.wait_ended(), CODE.INVALID_ARGUMENT)
        good.rollup([])
        good.wait_acks("rollup")


@test
def large_and_compressed_rollups_are_taken():
    rows = [need(["m5.large"], i, f"gang-{i}\0rack", cpu="8", memory="16Gi") for i in range(20000)]
    with server() as s:
        for number, compression in enumerate((None, grpc.Compression.Gzip)):
            with Operator(CONTRACT, s.address, f"c{number}", compression=compression) as o:
                o.rollup(rows)
                o.wait_acks("rollup")
                s.wait(f"rollup c{number} 20000 rows")
        header, needs = inspect(CONTRACT, s.address, "c1", 2)
        same("inspected", (header.cycle, header.total_needs, len(needs)), (7, 20000, 2))
        same("a row", (needs[0].cluster_id, needs[0].need.group, dict(needs[0].residual_deficit.resources)),
             ("c1", "gang-0\0rack", {"cpu": "8", "memory": "16Gi"}))
        same("nobody there", inspect(CONTRACT, s.address, "c9")[0].total_needs, 0)


@test
def who_never_reads_holds_up_nobody():
    with server() as s, Operator(CONTRACT, s.address, "deaf", reads=False) as deaf, Operator(CONTRACT, s.address, "b") as b:
        for i in range(50):
            deaf.rollup([need(group=f"state m-{n} 5", cpu=str(i + 1)) for n in range(200)])
        s.wait("rollup deaf 200 rows")
        b.rollup([need(group="state m-2 5", cpu="1")])
        b.wait_acks("rollup")
        b.wait(lambda f: f.node_state_update.machine_id == "m-2")


def issue(directory, kind, *arguments):
    subprocess.run([MUSTERCTL, "cert", "issue", "--dir", directory, kind, *arguments], check=True, stdout=subprocess.DEVNULL)


@test
def the_certificate_is_the_cluster():
    with tempfile.TemporaryDirectory() as ca, tempfile.TemporaryDirectory() as other:
        for directory in (ca, other):
            subprocess.run([MUSTERCTL, "cert", "ca", "--dir", directory], check=True, stdout=subprocess.DEVNULL)
            issue(directory, "cluster", "--id", "a")
        issue(ca, "shard", "--id", "s1", "--names", "127.0.0.1")
        for kind in ("admin", "readonly"):
            issue(ca, kind)
        tls = ("--tls-cert", f"{ca}/shard-s1.pem", "--tls-key", f"{ca}/shard-s1.key.pem", "--tls-ca", f"{ca}/ca.pem")
        with server(*tls) as s:
            with Operator(CONTRACT, s.address, "a", tls=(ca, "cluster-a")) as o:  # T13
                same("acknowledged first", o.wait_acks("hello")[0], o.frames[0])
                o.rollup([need(cpu="1")])
                o.wait_acks("rollup")
            for why, name, cluster in (("T14: another's", "cluster-a", "b"), ("an administrator", "admin", "a"),
                                       ("a shard", "shard-s1", "a")):
                with Operator(CONTRACT, s.address, cluster, tls=(ca, name)) as o:
                    same(why, o.wait_ended(), CODE.PERMISSION_DENIED)
            with Operator(CONTRACT, s.address, "a", tls=(ca, "cluster-a")) as o:
                o.wait_acks("hello")
                o.rollup([need(cpu="1")], cluster="b")
                s.wait('refused a: cluster_id: "b" in a session of "a"')
            with open(f"{other}/ca.pem", "wb") as file, open(f"{ca}/ca.pem", "rb") as ours:
                file.write(ours.read())  # it trusts our shard, which does not trust it
            with Operator(CONTRACT, s.address, "a", tls=(other, "cluster-a"), patient=False) as o:
                same("another authority's", o.wait_ended(), CODE.UNAVAILABLE)
            same("readers may look", inspect(CONTRACT, s.address, tls=(ca, "readonly"))[0].cycle, 7)
            try:
                inspect(CONTRACT, s.address, tls=(ca, "cluster-a"))
                raise AssertionError("a cluster may look")
            except grpc.RpcError as error:
                same("clusters may not", error.code(), CODE.PERMISSION_DENIED)
            same("only a's was opened", {line for line in s.lines if line.startswith("open")}, {"open a"})


run_tests(ONLY)
