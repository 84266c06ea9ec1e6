#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Floods of the port of etcd's clients: bytes that are no HTTP/2, frames at every limit, more writes than are
accepted at once. Another client's calls go on; every refused call has a named error."""
import collections
import os
import random
import socket
import struct
import threading

from etcds import PATIENT, CHANNEL, Client, Etcds, check, coordinators, grpc, patiently, refused, run_cases
from etcds import TOO_LARGE

CLUSTER = Etcds(3, PATIENT)
CONNECTIONS = 10000
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TOO_MANY = (8, "etcdserver: too many requests")


def frame(kind, flags, stream, body, length=None):
    return struct.pack(">I", len(body) if length is None else length)[1:] + struct.pack(">BBI", kind, flags, stream) + body


def junk(draw):
    """One of each kind: nothing, noise, noise behind a preface, frames with false lengths."""
    noise = draw.randbytes(draw.randrange(1, 400))
    return draw.choice((
        b"", noise, PREFACE[:draw.randrange(1, 24)], PREFACE + noise,
        PREFACE + frame(4, 0, 0, b"") + frame(1, 5, 1, noise),
        PREFACE + frame(4, 0, 0, b"") + frame(0, 1, 1, noise),
        PREFACE + frame(4, 0, 0, noise[:6]), PREFACE + frame(6, 0, 0, noise[:8]),
        PREFACE + frame(4, 0, 0, b"") + frame(0, 0, 1, b"", 0xffffff) + noise,
        PREFACE + frame(4, 0, 0, b"") + frame(9, 0, 1, noise), b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + noise))


def garbage():
    """Connections full of garbage: none disturbs a neighbour, and the replica goes on"""
    node, draw = CLUSTER.leader(), random.Random(coordinators.log_cluster.SEED)
    host, port = node.etcd.rsplit(":", 1)
    kv, over, wrong = Client(node), threading.Event(), []

    def neighbour():
        count = 0
        while not over.is_set():
            try:
                kv.put(b"neighbour", b"%d" % count)
                check(kv.get(b"neighbour") == b"%d" % count, "what was written is read")
            except grpc.RpcError as error:
                wrong.append(error)
                return
            count += 1
    thread = threading.Thread(target=neighbour)
    thread.start()
    try:
        held = collections.deque()
        for _ in range(CONNECTIONS):
            peer = socket.create_connection((host, int(port)), coordinators.PATIENCE)
            try:
                peer.sendall(junk(draw))
            except OSError:
                pass  # it was shown the door already
            held.append(peer)
            if len(held) > 100:
                held.popleft().close()
        while held:
            held.popleft().close()
    finally:
        over.set()
        thread.join()
    check(not wrong, f"{wrong}")
    check(node.running() and kv.put(b"after").header.revision, "it goes on")


def frames():
    """A message up to 2 MiB is read and judged; one byte more is 8, and the connection goes on"""
    kv = Client(CLUSTER.leader())
    raw = kv.channel.unary_unary("/etcdserverpb.KV/Put")
    limit = (3 << 19) + (512 << 10)

    def put_of(size):
        """A put whose message has this many bytes."""
        body = size - 2 - 1 - 1 - 4
        varint = bytes([body & 127 | 128, body >> 7 & 127 | 128, body >> 14 & 127 | 128, body >> 21])
        return b"\x0a\x01k" + b"\x12" + varint + b"v" * (size - 3 - 1 - 4)
    for size in (limit - 1, limit):
        message = put_of(size)
        check(len(message) == size, f"{len(message)} for {size}")
        code, text = refused(lambda: raw(message, timeout=coordinators.PATIENCE))
        check((code, text) == TOO_LARGE or code in (3, 13), f"{size}: {code} {text}")
    code, text = refused(lambda: raw(put_of(limit + 1), timeout=coordinators.PATIENCE))
    check(code == 8, f"{limit + 1}: {code} {text}")
    check(kv.put(b"after").header.revision, "and it goes on")


def flood():
    """More writes than are accepted at once, at a follower: each is done or refused by name, and none waits for ever"""
    leader = CLUSTER.leader()
    node = CLUSTER.others(leader)[0]
    method = coordinators.METHODS["etcdserverpb.KV/Put"]
    kind = coordinators.message(method.input_type)
    channels = [grpc.insecure_channel(node.etcd, options=CHANNEL) for _ in range(3)]
    calls = []
    for channel in channels:
        stub = channel.unary_unary("/etcdserverpb.KV/Put", kind.SerializeToString,
                                   coordinators.message(method.output_type).FromString)
        calls += [stub.future(kind(key=b"flood/%d" % (n % 50), value=os.urandom(200)), timeout=coordinators.PATIENCE)
                  for n in range(1500)]
    found = collections.Counter()
    for call in calls:
        error = call.exception(timeout=2 * coordinators.PATIENCE)
        found[(error.code().value[0], error.details()) if error else (0, "")] += 1
    for channel in channels:
        channel.close()
    print(f"# {dict(found)}", flush=True)
    check(found[0, ""] > 0, "some of it is done")
    for code, text in found:
        check(code == 0 or (code, text) == TOO_MANY or (code == 14 and text.startswith("etcdserver: ")), f"{code} {text}")
    patiently(lambda: Client(node).put(b"after"))
    CLUSTER.agree()


if __name__ == "__main__":
    with CLUSTER:
        CLUSTER.ready()
        run_cases([garbage, frames, flood])
