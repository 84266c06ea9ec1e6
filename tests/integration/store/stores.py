# SPDX-License-Identifier: Apache-2.0
"""The store of real coordinators, by a stock gRPC client: shared by the tests of this folder.

usage of a test: TEST MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
import os
import queue
import sys
import threading

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
import coordinators  # noqa: E402
from coordinators import (METHODS, PATIENCE, PATIENT, Cluster, check, code_of, grpc, message,  # noqa: E402,F401
                          run_cases, wait_for)

STORE = "muster.v1.Coordination/"
OK, EXISTS, CONFLICT, NOT_FOUND, EXPIRED, INVALID, UNSUPPORTED, UNAVAILABLE = range(8)
CREATED, UPDATED, DELETED, ACQUIRED, RENEWED, RELEASED, ALREADY, REPLAYED, RESIZED = range(1, 10)
HELD, FULL, ALREADY_HOLDER = 20, 21, 22
REVISION, ABSENT, PRESENT, NOT_OWNER, SLOT_COUNT = 30, 31, 32, 33, 34
DEADLINE, SUPERSEDED, REVOKED = 40, 41, 42
KEY, VALUE_SIZE, TTL_RANGE, OWNER, HANDLE, GROUP, ARGUMENT = 50, 51, 52, 53, 55, 56, 58
CHANGES, SNAPSHOT, RESYNC, PROGRESS, COMPACTED = range(5)
PUT, DELETE, EXPIRED_EVENT = range(3)
TTL_MS = 600000  # no test lasts so long: the end of a lease is a revision, and none that another case counts on


def new_id():
    return os.urandom(16)


class Client:
    """Numbers its requests; asks one node."""

    def __init__(self, node):
        self.node, self.id, self.sequence = node, new_id(), 0

    def request(self):
        self.sequence += 1
        return {"client_id": self.id, "sequence": self.sequence}

    def ask(self, name, timeout=PATIENCE, request=None, **fields):
        path = STORE + name
        kind = message(METHODS[path].input_type)
        if "request" in kind.DESCRIPTOR.fields_by_name:
            fields["request"] = request or self.request()
        return self.node.call(path, timeout=timeout, **fields)

    def create(self, key, value=b"", **fields):
        return self.ask("Create", key=key, value=value, **fields)

    def lease(self, key, owner="w1", ttl_ms=TTL_MS, lease_id=None, **fields):
        return self.ask("Create", key=key, ttl_ms=ttl_ms, owner=owner, lease_id=lease_id or new_id(), **fields)

    def acquire(self, group, owner, slots=1, ttl_ms=TTL_MS, lease_id=None, **fields):
        return self.ask("Acquire", group=group, slot_count=slots, prefer_slot=-1, owner=owner, ttl_ms=ttl_ms,
                        lease_id=lease_id or new_id(), **fields)

    def release(self, lease_id, **fields):
        return self.ask("Release", lease_id=lease_id, **fields)

    def renew(self, *ids):
        return self.ask("Renew", lease_ids=ids).renewals

    def get(self, key, **fields):
        return self.ask("Get", key=key, **fields)

    def later(self, name, **fields):
        """A call under way: .result() is its answer, .cancel() ends it."""
        path = STORE + name
        method = METHODS[path]
        if "request" not in fields:
            fields["request"] = self.request()
        stub = self.node.dialed().unary_unary("/" + path, message(method.input_type).SerializeToString,
                                              message(method.output_type).FromString)
        return stub.future(message(method.input_type)(**fields), timeout=PATIENCE)


class Watch:
    """The messages of a stream, read by a thread of its own."""

    def __init__(self, node, **fields):
        method = METHODS[STORE + "Watch"]
        stub = node.dialed().unary_stream("/" + STORE + "Watch", message(method.input_type).SerializeToString,
                                          message(method.output_type).FromString)
        self.call, self.queue = stub(message(method.input_type)(**fields)), queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for one in self.call:
                self.queue.put(one)
            self.queue.put(None)
        except grpc.RpcError as error:
            self.queue.put(error)

    def next(self):
        return self.queue.get(timeout=PATIENCE)

    def snapshot(self):
        """The entries of the snapshot: {key: revision}."""
        found = {}
        while True:
            one = self.next()
            check(one is not None and not isinstance(one, Exception), f"the watch ended: {one}")
            check(one.kind in (SNAPSHOT, RESYNC), f"not a snapshot: {one}")
            found.update({event.entry.key: event.entry.revision for event in one.events})
            if one.kind == SNAPSHOT and not one.more:
                return found

    def events(self, count):
        """The next so many, in order."""
        found = []
        while len(found) < count:
            one = self.next()
            check(one is not None and not isinstance(one, Exception), f"the watch ended: {one}")
            check(one.kind in (CHANGES, PROGRESS), f"neither changes nor progress: {one}")
            found += one.events
        check(len(found) == count, f"more than {count} events: {found}")
        return found

    def close(self):
        self.call.cancel()


def outcome(got, code, reason, why):
    check((got.code, got.reason) == (code, reason), f"{why}: {got}")
    return got
