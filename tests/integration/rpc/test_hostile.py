#!/usr/bin/env python3
"""Peers that never read, over real sockets: what the server's memory does.

usage: test_hostile.py ECHO_SERVER    (prints TAP)

The client is HTTP/2 by hand. Memory is the resident set of the server's process, so under a
sanitizer, whose shadow memory drowns it, the numbers are printed and not judged.
"""
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

ECHO_SERVER = sys.argv[1]
MIB = 1 << 20
BOUND = 4 * MIB
STREAMS = 64


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request(stream, path):
    block = (field(b":method", b"POST") + field(b":scheme", b"http") + field(b":path", path)
             + field(b":authority", b"x") + field(b"content-type", b"application/grpc")
             + field(b"te", b"trailers"))
    return frame(1, 4, stream, block)


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def echo(size):
    """One framed EchoRequest with a payload of `size` bytes."""
    body = b"\x12" + varint(size) + bytes(size)
    return b"\0" + struct.pack(">I", len(body)) + body


def wants(count, size):
    """One framed EchoRequest for `count` answers of `size` bytes."""
    body = b"\x18" + varint(size) + b"\x28" + varint(count)
    return b"\0" + struct.pack(">I", len(body)) + body


class Server:
    def __enter__(self):
        self.process = subprocess.Popen([ECHO_SERVER, "--listen", "127.0.0.1:0"], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        host, port = self.process.stdout.readline().split()[-1].rsplit(":", 1)
        self.address = (host, int(port))
        return self

    def connect(self):
        peer = socket.create_connection(self.address)
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0))
        return peer

    def resident(self):
        with open(f"/proc/{self.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def sanitized(self):
        with open(f"/proc/{self.process.pid}/maps", encoding="ascii") as file:
            return any(word in file.read() for word in ("libasan", "libtsan", "asan"))

    def __exit__(self, kind, value, trace):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def pour(peer, data, seconds):
    """Writes as long as the server takes it: until it has taken nothing for half a second."""
    peer.setblocking(False)
    end, at = time.monotonic() + seconds, 0
    while at < len(data) and time.monotonic() < end:
        if not select.select([], [peer], [], 0.5)[1]:
            break
        try:
            at += peer.send(data[at:at + 65536])
        except BlockingIOError:
            pass
    return at


def settle(server):
    """The resident set once it has stopped growing."""
    last, quiet = server.resident(), 0
    while quiet < 5:
        time.sleep(0.1)
        now = server.resident()
        quiet = quiet + 1 if now <= last else 0
        last = max(last, now)
    return last


def alive(server):
    with server.connect() as peer:
        peer.settimeout(30)
        peer.sendall(request(1, b"/muster.test.v1.Echo/Unary") + frame(0, 1, 1, echo(10)))
        seen = b""
        while b"grpc-status" not in seen and b"x-muster-trace" not in seen and len(seen) < 10000:
            got = peer.recv(4096)
            if not got:
                return False
            seen += got
            if any(kind == 1 and flags & 1 for kind, flags in frames(seen)):
                return True
    return False


def frames(data):
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        if len(data) < 9 + length:
            return
        yield data[3], data[4]
        data = data[9 + length:]


def split(stream, data):
    return b"".join(frame(0, 0, stream, data[at:at + 16384]) for at in range(0, len(data), 16384))


def echo_streams(size):
    """64 echo streams; each sends what its window of 256 KiB takes, in turns."""
    out, per_stream = b"", max(1, (64 << 10) // (size + 10))
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, b"/muster.test.v1.Echo/Bidi")
    for _ in range(4):
        for stream in range(1, 2 * STREAMS, 2):
            out += split(stream, echo(size) * per_stream)
    return out[: 12 * MIB]


def answer_streams(size):
    out = b""
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, b"/muster.test.v1.Echo/ServerStream")
        out += frame(0, 1, stream, wants(1000000, size))
    return out


def unary_calls(size):
    out = b""
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, b"/muster.test.v1.Echo/Unary") + frame(0, 1, stream, wants(1, size))
    return out


CASES = [
    ("64 echo streams of 1 KiB messages", echo_streams, 1000),
    ("64 echo streams of 16 KiB messages", echo_streams, 16000),
    ("64 streams of endless answers of 1 KiB", answer_streams, 1000),
    ("64 streams of endless answers of 30 KiB", answer_streams, 30000),
    ("64 unary calls with answers of 64 KiB", unary_calls, 64000),
]


def main():
    bad = 0
    for number, (why, make, size) in enumerate(CASES, 1):
        with Server() as server:
            good = alive(server)
            before = settle(server)
            with server.connect() as peer:
                pour(peer, make(size), 20)
                grown = settle(server) - before
                judged = not server.sanitized()
                good = good and alive(server) and (grown <= BOUND or not judged)
            bad += not good
            print(f"{'ok' if good else 'not ok'} {number} - {why}, never read, cost "
                  f"{grown / MIB:.1f} MiB{'' if judged else ' (under a sanitizer, not judged)'}",
                  flush=True)
    print(f"1..{len(CASES)}")
    sys.exit(bool(bad))


main()
