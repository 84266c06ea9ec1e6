# SPDX-License-Identifier: Apache-2.0
"""`muster provider run` as a process of a test, and a stock gRPC client for any provider.

    with Host(MUSTER, directory, catalogue=FAST, machines=60) as host:
        api = Api(PROTOC, ROOT, host.address)
        api.ok("Create", machine_id=api.machines()[0])

A host ends with the test, however that ends; its directory stays for the next process.
"""
import os
import re
import signal
import subprocess
import sys
import urllib.request

import grpc

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from contracts import load  # noqa: E402
from dialing import Redialed  # noqa: E402
from provider import SERVICE, SPECULATIVE  # noqa: E402

CODE = grpc.StatusCode
PATIENCE = int(os.environ.get("MUSTER_TEST_PATIENCE", "90"))
FAST = """
zones = ["z1", "z2"]
[latency]
create = "20ms"
configure = "20ms"
drain = "20ms"
delete = "20ms"
[[pool]]
name = "plain"
type = "m5.4xlarge"
capacity = "on-demand"
price = 0.7
resources = { cpu = "16", memory = "64Gi" }
"""


class Host:
    def __init__(self, muster, directory, catalogue=FAST, machines=60, number=0, preload=None):
        pid = os.getpid()
        host = f"127.{164 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}"
        self.muster, self.dir, self.machines, self.process = muster, os.path.join(directory, f"provider-{number}"), machines, None
        self.address, self.http = f"{host}:{6000 + 10 * number}", f"{host}:{6001 + 10 * number}"
        self.environment = preload or {}
        self.catalogue = os.path.join(directory, f"catalogue-{number}.toml")
        self.log = os.path.join(directory, f"provider-{number}.log")
        self.state = os.path.join(self.dir, "state")
        self.sell(catalogue)

    def sell(self, catalogue):
        """Writes a temporary file and renames it, so that no reader sees half of it."""
        with open(self.catalogue + ".new", "w", encoding="utf-8") as out:
            out.write(catalogue)
        os.replace(self.catalogue + ".new", self.catalogue)

    def start(self, *more, wait=True):
        command = ["setpriv", "--pdeathsig", "KILL", self.muster, "provider", "run", "--data-dir", self.dir,
                   "--listen", self.address, "--http-listen", self.http, "--catalogue", self.catalogue,
                   "--seed-count", str(self.machines), *more]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env={**environment, **self.environment})
        if wait:
            while True:  # it says where it listens when it does
                line = self.process.stdout.readline()
                if not line:
                    raise RuntimeError(f"the provider did not start: {self.process.wait()}\n{self.text()}")
                if line.lstrip().startswith(b"machines "):
                    break
        return self

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def end(self, how):
        if self.process:
            self.process.send_signal(how)
            self.process.stdout.read()
            self.process.stdout.close()
            code, self.process = self.process.wait(PATIENCE), None
            return code
        return None

    def kill(self):
        return self.end(signal.SIGKILL)

    def stop(self):
        return self.end(signal.SIGTERM)

    def page(self, path):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.http}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metric(self, name):
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.page("/metrics"), re.M)
        return float(found.group(1)) if found else None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


class Api:
    """Calls that answer with a message, or with the status code that refused them."""

    def __init__(self, protoc, root, address, credentials=None):
        _, self.message = load(protoc, os.path.abspath(root), "bigfleet/v1alpha1/provider.proto")
        options = [("grpc.max_receive_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 50),
                   ("grpc.max_reconnect_backoff_ms", 200)]
        self.channel, self.details = Redialed(lambda: (grpc.secure_channel(address, credentials, options) if credentials else
                                                       grpc.insecure_channel(address, options))), ""

    def new(self, name):
        return self.message("bigfleet.v1alpha1." + name)

    def request(self, method, **fields):
        return self.new({"Get": "MachineRef", "List": "ListFilter"}.get(method, method + "Request"))(**fields)

    def raw(self, method, data, timeout=30):
        """Any bytes as a request; the answer's bytes or the code."""
        try:
            return self.channel.unary_unary(f"/{SERVICE}/{method}", None, None)(data, timeout=timeout)
        except grpc.RpcError as error:
            self.details = error.details()
            return error.code()

    def call(self, method, **fields):
        answer = self.raw(method, self.request(method, **fields).SerializeToString())
        if isinstance(answer, CODE):
            return answer
        return self.new({"Get": "Machine", "List": "MachineList"}.get(method, "TransitionAck")).FromString(answer)

    def ok(self, method, **fields):
        answer = self.call(method, **fields)
        if isinstance(answer, CODE):
            raise AssertionError(f"{method} {fields}: {answer} {self.details}")
        return answer

    def state(self, machine):
        return self.ok("Get", id=machine).state

    def machines(self, states=(SPECULATIVE,)):
        return sorted(m.id for m in self.ok("List", states=states).machines)

    def close(self):
        self.channel.close()
