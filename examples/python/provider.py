# SPDX-License-Identifier: Apache-2.0
"""A capacity provider in one file, to copy and change: put your cloud where `Cloud` is and keep the rest.

    python3 provider.py --proto ../../proto --state provider.json
    musterctl provider verify 127.0.0.1:7770

Needs grpcio, protobuf and protoc; the messages are made from the .proto files when it starts. docs/providers.md says what
every rule here is for. All that was answered survives `kill -9`: the state file is written before the answer leaves, and
what was under way is taken up again. The whole file is written each time, which is fine for some thousand machines.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "bigfleet.v1alpha1."
SPECULATIVE, CREATING, IDLE, CONFIGURING, CONFIGURED, DRAINING, DELETING, FAILED = range(1, 9)
# kind of call: the state it needs, the one it passes through, the one it ends in
MOVES = {"Create": (SPECULATIVE, CREATING, IDLE), "Configure": (IDLE, CONFIGURING, CONFIGURED),
         "Drain": (CONFIGURED, DRAINING, IDLE), "Delete": (IDLE, DELETING, SPECULATIVE)}
ON_DEMAND = 3


class Cloud:
    """Replace this. Each method returns when it is done, or raises; the machine is Failed then, with the text of the error.

    After a crash a method is called again for what was under way: find by the machine's id what is there already."""

    def __init__(self, seconds):
        self.seconds = seconds

    def machines(self):
        """What could be had, in the words of provider.proto. The id is for ever."""
        for number in range(1, 9):
            yield {"id": f"demo-{number}", "instance_type": "demo.small" if number < 7 else "demo.large", "zone": "eu-1a",
                   "capacity_type": ON_DEMAND, "price_per_hour": 0.1 if number < 7 else 0.4,
                   "resources": {"resources": {"cpu": "2" if number < 7 else "8", "memory": "8Gi"}},
                   "labels": {"topology.bigfleet/rack": f"rack-{number % 2}"}}

    def create(self, machine):
        """Make a host; its name in your cloud."""
        time.sleep(self.seconds)
        return "host-of-" + machine["id"]

    def configure(self, machine, blob):
        """Hand the blob to the host, as cloud-init user data say, and wait until its node is ready in machine["cluster"]."""
        time.sleep(self.seconds)

    def drain(self, machine, grace_seconds):
        """Take the host out of its cluster; its pods have so long. If that cannot be done, raise: it never goes back."""
        time.sleep(self.seconds)

    def delete(self, machine):
        """Give the host back. A cloud that cannot: answer Delete with UNIMPLEMENTED instead."""
        time.sleep(self.seconds)


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Provider:
    def __init__(self, new, cloud, path):
        self.new, self.cloud, self.path = new, cloud, path
        self.lock = threading.Lock()
        self.workers = concurrent.futures.ThreadPoolExecutor(16)
        # Keys of two parts are JSON texts, because a JSON object has no others.
        self.machines, self.operations, self.marks, self.revision = {}, {}, {}, 0
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.__dict__.update(json.load(file))
        for machine in cloud.machines():
            if machine["id"] not in self.machines:
                self.machines[machine["id"]] = {**machine, "state": SPECULATIVE}
                self.touch(self.machines[machine["id"]])
        self.save()
        for machine in self.machines.values():
            for kind, (_, passing, _) in MOVES.items():
                if machine["state"] == passing:
                    self.workers.submit(self.work, kind, machine)

    # -- what is kept --

    def touch(self, machine):
        self.revision += 1
        machine["revision"] = self.revision

    def save(self):
        kept = {name: getattr(self, name) for name in ("machines", "operations", "marks", "revision")}
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            json.dump(kept, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(self.path + ".new", self.path)

    def record(self, machine):
        """A machine on the wire; what is ours alone stays here."""
        return self.new("Machine")(**{key: value for key, value in machine.items()
                                      if key not in ("revision", "blob", "grace_seconds")})

    # -- the four changes: the order of the checks is part of the contract --

    def change(self, kind, request):
        if not request.machine_id:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "machine_id required")
        with self.lock:
            try:
                self.fence(request)
                return self.accept(kind, request)
            finally:
                self.save()  # also after a refusal: its token counts

    def fence(self, request):
        """A token that is not newer than the newest of this shard for this machine comes from a shard that was replaced."""
        if not request.shard_id:
            return
        key, token = json.dumps([request.shard_id, request.machine_id]), [request.shard_epoch, request.sequence_number]
        if key in self.marks and token <= self.marks[key]:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, f"{token} is not newer than {self.marks[key]}")
        self.marks[key] = token

    def accept(self, kind, request):
        needed, passing, final = MOVES[kind]
        machine = self.machines.get(request.machine_id)
        if machine is None:
            raise Refused(grpc.StatusCode.NOT_FOUND, f"no machine {request.machine_id}")
        key = json.dumps([request.machine_id, kind])
        if key in self.operations and machine["state"] in (passing, final):  # the same call again: nothing is done twice
            return self.new("TransitionAck")(operation_id=self.operations[key], machine=self.record(machine))
        if machine["state"] != needed:  # any code but FAILED_PRECONDITION, which is the fence's
            raise Refused(grpc.StatusCode.INTERNAL, f"{kind} of a machine in state {machine['state']}")
        if kind == "Configure":
            machine.update(cluster=request.cluster_id, shard_metadata=dict(request.shard_metadata),
                           blob=request.bootstrap_blob.hex())
        if kind == "Drain":
            machine["grace_seconds"] = request.grace_period_seconds
        machine["state"] = passing
        self.touch(machine)
        self.operations[key] = f"op-{self.revision}"
        self.workers.submit(self.work, kind, machine)
        return self.new("TransitionAck")(operation_id=self.operations[key], machine=self.record(machine))

    def work(self, kind, machine):
        """The slow part, on a thread of its own."""
        host, error = None, ""
        try:
            if kind == "Create":
                host = self.cloud.create(machine)
            elif kind == "Configure":
                self.cloud.configure(machine, bytes.fromhex(machine["blob"]))
            elif kind == "Drain":
                self.cloud.drain(machine, machine["grace_seconds"])
            else:
                self.cloud.delete(machine)
        except Exception as problem:  # whatever it is, the machine must not stay on its way for ever
            error = f"{kind}: {problem}" or kind
        with self.lock:
            if error:
                machine.update(state=FAILED, last_error=error)
            else:
                self.finish(kind, machine, host)
            self.touch(machine)
            self.save()

    def finish(self, kind, machine, host):
        machine["state"] = MOVES[kind][2]
        if kind == "Create":
            machine["host"] = {"provider": "demo", "ref": host}
        gone = {"Configure": ["blob"], "Drain": ["cluster", "shard_metadata", "grace_seconds"], "Delete": ["host"]}
        for key in gone.get(kind, []):
            machine.pop(key, None)

    # -- reading --

    def get(self, request):
        if not request.id:
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "id required")
        with self.lock:
            if request.id not in self.machines:
                raise Refused(grpc.StatusCode.NOT_FOUND, f"no machine {request.id}")
            return self.record(self.machines[request.id])

    def list(self, request):
        if any(state > FAILED or state < 0 for state in request.states):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "unknown state")
        since = int(request.since_revision) if request.since_revision.isdigit() else 0
        with self.lock:
            chosen = [self.record(machine) for machine in self.machines.values()
                      if machine["revision"] > since and (not request.states or machine["state"] in request.states)]
            if request.max_results > 0:
                chosen = chosen[:request.max_results]
            # No machine ever goes away here, so a delta that names none tells all: tombstones.
            return self.new("MachineList")(machines=chosen, revision=str(self.revision).encode(), tombstones=True)


# -- gRPC --

def load(root, protoc):
    """The message types by name, from the .proto file."""
    with tempfile.NamedTemporaryFile() as made:
        subprocess.run([protoc, "--proto_path=" + root, "--include_imports", "--descriptor_set_out=" + made.name,
                        "bigfleet/v1alpha1/provider.proto"], check=True)
        files = descriptor_pb2.FileDescriptorSet.FromString(made.read()).file
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    if hasattr(message_factory, "GetMessageClass"):  # protobuf 4.22 and later
        return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(PACKAGE + name))
    factory = message_factory.MessageFactory(pool)
    return lambda name: factory.GetPrototype(pool.FindMessageTypeByName(PACKAGE + name))


def method(request_type, work, check):
    def handle(request, context):
        try:
            check(request, context)
            return work(request)
        except Refused as no:
            context.abort(no.code, str(no))
    return grpc.unary_unary_rpc_method_handler(handle, request_type.FromString, lambda answer: answer.SerializeToString())


def check_identity(request, context):
    """With TLS a shard may speak for itself only; its certificate says who it is."""
    shard = getattr(request, "shard_id", "")
    names = [name.decode() for name in context.auth_context().get("x509_subject_alternative_name", [])]
    if "bigfleet://shard/" + shard not in names and hasattr(request, "shard_id"):
        raise Refused(grpc.StatusCode.PERMISSION_DENIED, f"not shard {shard}: {names}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:7770")
    parser.add_argument("--state", default="provider.json", help="file for all that must survive")
    parser.add_argument("--proto", default="proto", help="the folder that holds bigfleet/v1alpha1/provider.proto")
    parser.add_argument("--protoc", default="protoc")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long the demo cloud takes for anything")
    for name in ("cert", "key", "ca"):
        parser.add_argument("--tls-" + name, help="all three, or plaintext")
    options = parser.parse_args()
    new = load(os.path.abspath(options.proto), options.protoc)
    provider = Provider(new, Cloud(options.seconds), options.state)
    check = check_identity if options.tls_cert else lambda request, context: None
    methods = {kind: method(new(kind + "Request"), lambda request, kind=kind: provider.change(kind, request), check)
               for kind in MOVES}
    methods["Get"] = method(new("MachineRef"), provider.get, check)
    methods["List"] = method(new("ListFilter"), provider.list, check)
    # The default limit of 4 MiB is a few thousand machines; so_reuseport lets two providers share one address unseen.
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(16),
                         options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PACKAGE + "CapacityProvider", methods),))
    if options.tls_cert:
        key, cert, ca = (open(path, "rb").read() for path in (options.tls_key, options.tls_cert, options.tls_ca))
        port = server.add_secure_port(options.listen, grpc.ssl_server_credentials([(key, cert)], ca, True))
    else:
        port = server.add_insecure_port(options.listen)
    server.start()
    print(f"provider: {options.listen.rsplit(':', 1)[0]}:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
