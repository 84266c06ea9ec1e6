# SPDX-License-Identifier: Apache-2.0
"""etcd's API of real coordinators, by a stock gRPC client: shared by the tests of this folder.

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

    with Etcds(3) as cluster: cluster.start().formed(); kv = Client(cluster.nodes[0]); kv.put(b"k", b"v")

A client asks the node's own listener for etcd (node.etcd), or with port="grpc" its gRPC port. Errors are grpc.RpcError;
refused() returns code and text of one.
"""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
import coordinators  # noqa: E402
from coordinators import (METHODS, PASSING, PATIENCE, PATIENT, Cluster, Redialed, check, code_of,  # noqa: E402,F401
                          grpc, message, run_cases, wait_for)

KV, WATCH, LEASE = "etcdserverpb.KV/", "etcdserverpb.Watch/", "etcdserverpb.Lease/"
LOCK, ELECTION = "v3lockpb.Lock/", "v3electionpb.Election/"
VERSION, CREATE, MOD, VALUE, LEASE_ID = range(5)  # targets of a compare
EQUAL, GREATER, LESS, NOT_EQUAL = range(4)
# A list is one message, as Go takes it; a new channel is a new connection.
CHANNEL = [*coordinators.CHANNEL, ("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
ALL = b"\0"  # as an end of a range: everything from its begin on
# Refusals by their code and text, as C7 has them.
EMPTY_KEY = (3, "etcdserver: key is not provided")
KEY_NOT_FOUND = (3, "etcdserver: key not found")
VALUE_PROVIDED = (3, "etcdserver: value is provided")
LEASE_PROVIDED = (3, "etcdserver: lease is provided")
TOO_MANY_OPS = (3, "etcdserver: too many operations in txn request")
DUPLICATE_KEY = (3, "etcdserver: duplicate key given in txn request")
BAD_SORT = (3, "etcdserver: invalid sort option")
TOO_LARGE = (3, "etcdserver: request is too large")
COMPACTED = (11, "etcdserver: mvcc: required revision has been compacted")
FUTURE = (11, "etcdserver: mvcc: required revision is a future revision")
NO_SPACE = (8, "etcdserver: mvcc: database space exceeded")
LEASE_NOT_FOUND = (5, "etcdserver: requested lease not found")
NO_LEADER = (14, "etcdserver: no leader")
DENIED = (7, "etcdserver: permission denied")


def after(prefix):
    """The end of the range of all keys that begin with it."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


class Etcds(Cluster):
    """Coordinators that listen for etcd's clients, too."""

    def __init__(self, count=1, options=(), **more):
        super().__init__(count, options, **more)
        self.dial_etcd = lambda address: Redialed(lambda: grpc.insecure_channel(address, options=CHANNEL))
        for node in self.nodes:
            node.etcd = self.address(node.number, 3)
            node.options += ["--etcd-listen", node.etcd]
            node.etcd_channel = None

    def __exit__(self, kind, error, trace):
        for node in self.nodes:
            if node.etcd_channel:
                node.etcd_channel.close()
        super().__exit__(kind, error, trace)

    def ready(self):
        """All are voters, and there is a leader."""
        self.start()
        self.formed()
        return self


def channel_of(node, port="etcd"):
    if port == "grpc":
        return node.dialed()
    if node.etcd_channel is None:
        node.dialed()  # waits until it listens; its other listener is open by then
        node.etcd_channel = node.cluster.dial_etcd(node.etcd)
    return node.etcd_channel


class Client:
    """One endpoint, one channel. `channel` instead of a node: of anything else that speaks etcd's API."""

    def __init__(self, node=None, port="etcd", channel=None, metadata=()):
        self.channel, self.metadata = channel or channel_of(node, port), metadata

    def call(self, path, timeout=PATIENCE, **fields):
        return coordinators.call(self.channel, path, self.metadata, timeout, **fields)

    def future(self, path, timeout=PATIENCE, **fields):
        """The call under way: result() waits for its answer."""
        method = METHODS[path]
        stub = self.channel.unary_unary("/" + path, message(method.input_type).SerializeToString,
                                        message(method.output_type).FromString)
        return stub.future(message(method.input_type)(**fields), timeout=timeout, metadata=self.metadata)

    def range(self, key, end=b"", **fields):
        return self.call(KV + "Range", key=key, range_end=end, **fields)

    def get(self, key, **fields):
        """The value, or None."""
        found = self.range(key, **fields).kvs
        return found[0].value if found else None

    def put(self, key, value=b"", **fields):
        return self.call(KV + "Put", key=key, value=value, **fields)

    def delete(self, key, end=b"", **fields):
        return self.call(KV + "DeleteRange", key=key, range_end=end, **fields)

    def txn(self, compare=(), success=(), failure=()):
        return self.call(KV + "Txn", compare=compare, success=success, failure=failure)

    def compact(self, revision, **fields):
        return self.call(KV + "Compact", revision=revision, **fields)

    def revision(self):
        return self.range(b"\0").header.revision


def patiently(function):
    """The answer to an idempotent call, which is repeated while the answer is temporary."""
    answers = []

    def once():
        code, text, _ = code_of(lambda: answers.append(function()))
        check(code == grpc.StatusCode.OK or code in PASSING, f"{code} {text}")
        return code == grpc.StatusCode.OK
    wait_for("an answer", once)
    return answers[-1]


def refused(function):
    """Code and text of its refusal; (0, "") when it is not refused."""
    code, text, _ = code_of(function)
    return code.value[0], text or ""


# -- operations of a transaction --

def op_put(key, value=b"", **fields):
    return {"request_put": {"key": key, "value": value, **fields}}


def op_range(key, end=b"", **fields):
    return {"request_range": {"key": key, "range_end": end, **fields}}


def op_delete(key, end=b"", **fields):
    return {"request_delete_range": {"key": key, "range_end": end, **fields}}


def op_txn(compare=(), success=(), failure=()):
    return {"request_txn": {"compare": compare, "success": success, "failure": failure}}


def compare(key, target, result, value=None, end=b""):
    """`value` None: the number is left out, as it is for zero."""
    union = ("version", "create_revision", "mod_revision", "value", "lease")[target]
    return {"key": key, "target": target, "result": result, "range_end": end, **({} if value is None else {union: value})}
