#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Raw HTTP/2 peers against the leader of three coordinators: many open streams, metadata by reference, answers that are
never read. Judged by bytes and by the term: the leader's resident memory grows by a bounded amount, no replica sees an
election, and writes through the leader succeed meanwhile and afterwards."""
import os
import socket
import struct
import sys
import threading
import time

from coordinators import PATIENCE, Cluster, Failed, check, run_cases, wait_for

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../rpc"))
import test_hostile as wire  # noqa: E402  (frames by hand)

MIB = 1 << 20
GROWTH_MAX = 64 * MIB
STREAMS_MAX = 1000
CHECK = b"/grpc.health.v1.Health/Check"
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + wire.frame(wire.SETTINGS, 0, 0)
# Longer than the machine may pause, shorter than the old binary's loop did for a million streams.
OPTIONS = ("--election", "10s")


def number(node, name):
    """The sum of a metric's series."""
    status, text = node.page("/metrics")
    check(status == 200, f"/metrics: {status} {text}")
    rows = [line.split() for line in text.splitlines() if line.split("{")[0].split(" ")[0] == name]
    return sum(int(float(row[-1])) for row in rows)


def status_of(node, name):
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))


def sanitized(node):
    with open(f"/proc/{node.process.pid}/maps", encoding="ascii") as file:
        return any(word in line for line in file for word in ("libasan", "libtsan"))


class Judge:
    """The cost of an attack for the leader."""

    def __init__(self, cluster):
        self.cluster, self.leader = cluster, cluster.leader()
        wait_for("one term", lambda: len(set(self.terms_now())) == 1 and self.terms_now()[0] > 0)
        self.terms = self.terms_now()
        self.writes, self.failed, self.over = 0, None, threading.Event()
        with open(f"/proc/{self.leader.process.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        self.before = status_of(self.leader, "VmRSS")
        self.thread = threading.Thread(target=self.write, daemon=True)

    def terms_now(self):
        return [number(node, "muster_log_term") for node in self.cluster.nodes]

    def write(self):
        """A neighbour on a connection of its own."""
        name = 0
        while not self.over.is_set() and self.failed is None:
            name += 1
            try:
                self.leader.call("muster.v1.Coordination/Create", key=b"neighbour/%d" % name, value=b"v", timeout=PATIENCE,
                                 request={"client_id": b"n" * 16, "sequence": name})
                self.writes += 1
            except Exception as error:  # reported to the caller that waits for us
                self.failed = error
            time.sleep(0.02)

    def __enter__(self):
        self.leader.dialed()
        self.thread.start()
        return self

    def __exit__(self, kind, error, trace):
        written = self.writes
        if error is None:
            wait_for("a write after the attack", lambda: self.failed or self.writes > written + 1)
        self.over.set()
        self.thread.join()
        if error is not None:
            return
        check(self.failed is None, f"the neighbour's write failed: {self.failed}")
        grown = max(0, status_of(self.leader, "VmHWM") - self.before)
        print(f"# {grown / MIB:.1f} MiB, {self.writes} writes of a neighbour")
        if not sanitized(self.leader):
            check(grown < GROWTH_MAX, f"the leader grew by {grown / MIB:.0f} MiB")
        time.sleep(1.5)  # cadence: these are looked at once a second
        terms = self.terms_now()
        check(terms == self.terms, f"terms were {self.terms}, are {terms}")


def connect(node):
    host, port = node.grpc.rsplit(":", 1)
    peer = socket.create_connection((host, int(port)))
    peer.sendall(GREETING)
    return peer


def hang_up(peer):
    """With a reset: nothing that is under way is read."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def closed_by_server(peer):
    """Reads until the end; the last GOAWAY's words."""
    peer.settimeout(PATIENCE)
    seen = b""
    try:
        while got := peer.recv(1 << 16):
            seen += got
    except ConnectionResetError:
        pass
    except TimeoutError:
        raise Failed("the connection was not closed") from None
    words = b""
    while len(seen) >= 9:
        length = int.from_bytes(seen[:3], "big")
        if seen[3] == 7:
            words = seen[9 + 8:9 + length]
        seen = seen[9 + length:]
    return words


def cluster():
    """A new one for each case: memory that an earlier one left behind would hide what this one takes."""
    one = Cluster(3, OPTIONS).start()
    one.formed()
    return one


def requests(count, path, end=False):
    return b"".join(wire.request(2 * n + 1, path, end) for n in range(count))


def streams_up_to_the_limit_and_then_a_hang_up():
    """A peer that opens as many streams as it may, on several connections, and hangs up."""
    with cluster() as replicas, Judge(replicas) as judge:
        peers = [connect(judge.leader) for _ in range(4)]
        for peer in peers:
            wire.pour(peer, requests(STREAMS_MAX, CHECK))
        wait_for("all are open", lambda: number(judge.leader, "muster_rpc_server_running") >= 4 * STREAMS_MAX)
        for peer in peers:
            hang_up(peer)
        wait_for("none is left", lambda: number(judge.leader, "muster_rpc_server_running") < STREAMS_MAX)


def streams_past_the_limit():
    """A peer that opens a hundred thousand streams has a thousand at most."""
    with cluster() as replicas, Judge(replicas) as judge:
        peer = connect(judge.leader)
        wire.pour(peer, requests(100000, CHECK))
        check(number(judge.leader, "muster_rpc_server_running") <= STREAMS_MAX + 10, "more streams than that run")
        hang_up(peer)
        wait_for("none is left", lambda: number(judge.leader, "muster_rpc_server_running") < STREAMS_MAX)


def metadata_by_reference():
    """A peer whose open calls name a long entry of the header table again and again."""
    value = b"\x40\x01x\x7f" + wire.varint(3900 - 127) + b"v" * 3900
    bomb = b"".join(wire.frame(wire.HEADERS, 4, 2 * n + 1,
                               wire.fields(CHECK) + (value + b"\xbe" * 14 if n == 0 else b"\xbe" * 15))
                    for n in range(4000))
    with cluster() as replicas, Judge(replicas) as judge:
        refused = number(judge.leader, "muster_rpc_server_refused_total")
        peer = connect(judge.leader)
        peer.sendall(bomb[:1 << 14])
        try:
            peer.sendall(bomb[1 << 14:])
        except (BrokenPipeError, ConnectionResetError):
            pass
        words = closed_by_server(peer)
        check(words in (b"metadata of open calls", b""), f"closed because of {words}")  # a reset may overtake it
        wait_for("it is counted", lambda: number(judge.leader, "muster_rpc_server_refused_total") > refused)
        wait_for("none is left", lambda: number(judge.leader, "muster_rpc_server_running") < STREAMS_MAX)
        check("metadata of open calls" in judge.leader.text(), "the log names the reason")


def refusals_that_are_never_read():
    """A peer that asks for what there is not, for ever, and reads nothing."""
    with cluster() as replicas, Judge(replicas) as judge:
        peer = connect(judge.leader)
        wire.pour(peer, requests(300000, b"/no.Such/Method", True), reads=False)
        hang_up(peer)


if __name__ == "__main__":
    run_cases([streams_up_to_the_limit_and_then_a_hang_up, streams_past_the_limit, metadata_by_reference,
               refusals_that_are_never_read])
