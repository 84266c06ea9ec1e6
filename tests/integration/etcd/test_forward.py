#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A write that a follower forwards, whose answer is lost with the connection to the leader.

A TCP proxy at each replica's advertised address holds the leader's answer back and then resets the connection. Envoy and
Istio add x-request-id to every request: the header must not make the follower send the write a second time.

usage: test_forward.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
from etcds import (EQUAL, KV, LEASE, PATIENT, VERSION, Client, Etcds, check, code_of, compare, grpc, op_put, op_range,
                   patiently, run_cases, wait_for)
from link import Link

IN_DOUBT = (grpc.StatusCode.UNAVAILABLE, "etcdserver: request timed out, possibly due to connection lost")
HEADER = (("x-request-id", "6a1f0c1e-7e67-4f3c-9d0a-3c7f6f1d2b11"),)


class Linked(Etcds):
    """Three replicas; each replica's peers reach it through a proxy of its own."""

    def __init__(self):
        super().__init__(3, PATIENT)
        self.links = {}
        for node in self.nodes:
            host, port = node.grpc.rsplit(":", 1)
            self.links[node] = Link(int(port), host)
            node.options += ["--advertise", f"127.0.0.1:{self.links[node].port}"]

    def __exit__(self, *failure):
        for link in self.links.values():
            link.close()
        super().__exit__(*failure)

    def parts(self):
        """A client of the leader itself, one of a follower whose requests carry the header, the leader's proxy."""
        self.ready()
        leader = self.leader()
        return Client(leader), Client(self.others(leader)[0], metadata=HEADER), self.links[leader]


def lose_answer(link, follower, call, applied, meanwhile=lambda: None):
    """How a call through the follower ends: the leader has applied it, and its answer is lost with the connection.

    `call`: path and fields."""
    patiently(lambda: follower.put(b"warm"))    # the follower is connected before replies are held back
    check(link.pairs, "the follower asks the leader through the proxy")
    link.cut(requests=True, replies=False)
    pending = follower.future(call[0], **call[1])
    wait_for("the leader has applied it", applied)
    meanwhile()
    link.heal()
    return code_of(pending.result)[:2]


def put():
    """A forwarded Put with x-request-id whose answer is lost is in doubt, and does not overwrite a later write"""
    with Linked() as cluster:
        direct, follower, link = cluster.parts()
        ended = lose_answer(link, follower, (KV + "Put", {"key": b"k", "value": b"A"}), lambda: direct.get(b"k") == b"A",
                            lambda: direct.put(b"k", b"B"))
        now = patiently(lambda: direct.range(b"k")).kvs[0]
        check((now.value, now.version) == (b"B", 2), f"B was acknowledged after A took effect: {now}")
        check(ended == IN_DOUBT, f"{ended}")


def txn():
    """A forwarded Txn with x-request-id that creates a key is in doubt; it is never answered that another created it"""
    with Linked() as cluster:
        direct, follower, link = cluster.parts()
        create = {"compare": [compare(b"lock", VERSION, EQUAL, 0)], "success": [op_put(b"lock", b"mine")],
                  "failure": [op_range(b"lock")]}
        ended = lose_answer(link, follower, (KV + "Txn", create), lambda: direct.get(b"lock") == b"mine")
        check(ended == IN_DOUBT, f"{ended}")
        twice = {"success": [op_put(b"count", b"1"), op_put(b"beside", b"1")]}
        ended = lose_answer(link, follower, (KV + "Txn", twice), lambda: direct.get(b"count") == b"1")
        check(patiently(lambda: direct.range(b"count")).kvs[0].version == 1, "applied once")
        check(ended == IN_DOUBT, f"{ended}")


def grant():
    """A forwarded LeaseGrant with x-request-id whose answer is lost is in doubt, and grants one lease"""
    with Linked() as cluster:
        direct, follower, link = cluster.parts()

        def leases():
            return len(patiently(lambda: direct.call(LEASE + "LeaseLeases")).leases)
        before = leases()
        ended = lose_answer(link, follower, (LEASE + "LeaseGrant", {"TTL": 600}), lambda: leases() > before)
        check(leases() == before + 1, f"one lease was asked for: {leases() - before}")
        check(ended == IN_DOUBT, f"{ended}")


if __name__ == "__main__":
    run_cases([put, txn, grant])
