#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/python/provider.py, as a user would start it: it keeps the contract, and all it said survives kill -9.

usage: test_example.py DRIVER MUSTERCTL PROTOC PROTO_ROOT EXAMPLE [NAME]    (prints TAP)
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import grpc
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTERCTL, PROTOC, ROOT, EXAMPLE = sys.argv[2:6]
ONLY = next((word for word in sys.argv[6:] if not word.startswith("--")), "")
sys.path += [os.path.join(HERE, "../../lib"), os.path.join(HERE, "../log")]
from cluster import PATIENCE, check, run_cases, wait_for  # noqa: E402
from contracts import load  # noqa: E402

CODE = grpc.StatusCode
_, message = load(PROTOC, ROOT, "bigfleet/v1alpha1/provider.proto")


class Example:
    """Its directory outlives its processes."""

    def __init__(self, *words):
        self.dir, self.words = tempfile.mkdtemp(prefix="example-"), words

    def start(self, *words):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", sys.executable, EXAMPLE, "--listen", "localhost:0", "--proto",
                                         ROOT, "--protoc", PROTOC, "--state", os.path.join(self.dir, "state.json"),
                                         *self.words, *words], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        return self

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def call(self, method, **fields):
        """The answer, or the status code that refused it."""
        new = lambda name: message("bigfleet.v1alpha1." + name)  # noqa: E731
        request, answer = {"Get": ("MachineRef", "Machine")}.get(method, (method + "Request", "TransitionAck"))
        with grpc.insecure_channel(self.address) as channel:
            stub = channel.unary_unary("/bigfleet.v1alpha1.CapacityProvider/" + method, lambda m: m.SerializeToString(),
                                       new(answer).FromString)
            try:
                return stub(new(request)(**fields), timeout=PATIENCE)
            except grpc.RpcError as error:
                return error.code()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)


def verify(address, *words):
    ran = subprocess.run([MUSTERCTL, "provider", "verify", address, "--json", *words], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, timeout=3 * PATIENCE)
    check(ran.returncode == 0, f"{ran.returncode}: {ran.stdout} {ran.stderr}")
    return {fact["id"] for fact in json.loads(ran.stdout)["facts"] if fact["result"] == "SKIPPED"}


def it_keeps_the_contract():
    """The example keeps every rule, twice in a row"""
    with Example("--seconds", "0.02") as example:
        for _ in range(2):
            skipped = verify(example.address)
            check(skipped == {"B16", "L3"}, f"{skipped}")


def over_tls():
    """The example over TLS lets a shard speak for itself only"""
    with tempfile.TemporaryDirectory() as tls:
        for words in (["ca"], ["issue", "provider", "--id", "p", "--names", "localhost"], ["issue", "shard", "--id", "verify"]):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", tls], check=True, stdout=subprocess.DEVNULL)

        def files(name):
            return ["--tls-cert", f"{tls}/{name}.pem", "--tls-key", f"{tls}/{name}.key.pem", "--tls-ca", f"{tls}/ca.pem"]
        with Example("--seconds", "0.02", *files("provider-p")) as example:
            verify(example.address, "--shard", "verify", *files("shard-verify"))
            refused = subprocess.run([MUSTERCTL, "provider", "verify", example.address, "--shard", "other", *files("shard-verify")],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3 * PATIENCE)
            check(refused.returncode == 1 and "PERMISSION_DENIED" in refused.stdout, f"{refused}")


def killed():
    """After kill -9 what was under way goes on, under the same operation, and old tokens stay old"""
    token = {"shard_id": "s", "shard_epoch": 2, "sequence_number": 1}
    with Example() as example:
        example.kill()
        example.start("--seconds", "3600")
        made = example.call("Create", machine_id="demo-1", **token)
        check(made.machine.state == 2 and made.operation_id, f"{made}")
        example.kill()
        example.start("--seconds", "0")
        check(example.call("Create", machine_id="demo-1", **token) == CODE.FAILED_PRECONDITION, "its mark was kept")
        again = example.call("Create", machine_id="demo-1", **{**token, "sequence_number": 2})
        check(again.operation_id == made.operation_id, f"{made} {again}")
        wait_for("it is Idle", lambda: example.call("Get", id="demo-1").state == 3)
        check(example.call("Configure", machine_id="demo-1", cluster_id="prod", bootstrap_blob=b"\xff\0", shard_metadata={"g": "a\0b"},
                           **{**token, "sequence_number": 3}).machine.cluster == "prod", "configured")
        example.kill()
        example.start("--seconds", "0")
        wait_for("it is Configured", lambda: example.call("Get", id="demo-1").state == 5)
        check(dict(example.call("Get", id="demo-1").shard_metadata) == {"g": "a\0b"}, "its metadata was kept")


run_cases([it_keeps_the_contract, over_tls, killed], ONLY)
