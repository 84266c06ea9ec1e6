#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hostile peers over real sockets: their cost for the server and for other clients.

usage: test_hostile.py ECHO_SERVER [PART OF A CASE'S NAME]    (prints TAP)

The client is HTTP/2 by hand. Each attack is judged three ways: how much the resident set of the
server's process grew at its peak, whether the attacker's connections were closed (or rightly kept),
and whether another client is served meanwhile and afterwards. Under a sanitizer, whose shadow memory
is larger, memory is printed and not judged.
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
ECHO = b"/muster.test.v1.Echo/"
PATIENCE = 60  # seconds until what must happen counts as not happening
DATA, HEADERS, RESET, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9


# -- bytes --

def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def fields(path):
    return (field(b":method", b"POST") + field(b":scheme", b"http") + field(b":path", path)
            + field(b":authority", b"x") + field(b"content-type", b"application/grpc")
            + field(b"te", b"trailers"))


def request(stream, path, end=False):
    return frame(HEADERS, 4 | end, stream, fields(path))


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def framed(body):
    return b"\0" + struct.pack(">I", len(body)) + body


def echo(size):
    """One framed EchoRequest with a payload of `size` bytes."""
    return framed(b"\x12" + varint(size) + bytes(size))


def wants(count, size):
    """One framed EchoRequest for `count` answers of `size` bytes."""
    return framed(b"\x18" + varint(size) + b"\x28" + varint(count))


def split(stream, data):
    return b"".join(frame(DATA, 0, stream, data[at:at + 16384]) for at in range(0, len(data), 16384))


def frames(data):
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        if len(data) < 9 + length:
            return
        yield data[3], data[4]
        data = data[9 + length:]


# -- the server --

class Server:
    def __init__(self, quick):
        """`quick`: gives up on peers soon, so that the test need not wait for long."""
        self.options = ["--header-timeout-ms", "3000", "--write-timeout-ms", "3000",
                        "--ping-timeout-ms", "3000"] if quick else []

    def __enter__(self):
        self.process = subprocess.Popen([ECHO_SERVER, "--listen", "127.0.0.1:0"] + self.options,
                                        text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        host, port = self.process.stdout.readline().split()[-1].rsplit(":", 1)
        self.address = (host, int(port))
        self.idle, self.before = self.sockets(), 0
        return self

    def connect(self):
        peer = socket.create_connection(self.address)
        peer.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        return peer

    def proc(self, name):
        return f"/proc/{self.process.pid}/{name}"

    def status(self, name):
        with open(self.proc("status"), encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(name + ":"))

    def mark(self):
        """From here on the peak counts."""
        with open(self.proc("clear_refs"), "w", encoding="ascii") as file:
            file.write("5")
        self.before = self.status("VmRSS")

    def grown(self):
        return max(0, self.status("VmHWM") - self.before)

    def sockets(self):
        count = 0
        for name in os.listdir(self.proc("fd")):
            try:
                count += os.readlink(self.proc("fd/" + name)).startswith("socket:")
            except FileNotFoundError:  # closed while we look
                pass
        return count

    def sanitized(self):
        with open(self.proc("maps"), encoding="ascii") as file:
            return any(word in line for line in file for word in ("libasan", "libtsan"))

    def alive(self):
        """Checks that another client's call is answered."""
        try:
            return self.served()
        except OSError:
            return False

    def served(self):
        with self.connect() as peer:
            peer.settimeout(PATIENCE)
            peer.sendall(request(1, ECHO + b"Unary") + frame(DATA, 1, 1, echo(10)))
            seen = b""
            while len(seen) < 10000:
                got = peer.recv(4096)
                if not got:
                    return False
                seen += got
                if any(kind == HEADERS and flags & 1 for kind, flags in frames(seen)):
                    return True
        return False

    def __exit__(self, kind, value, trace):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()


def comes_true(holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def pour(peer, data, reads=True):
    """Writes as long as the server takes it: until it has taken nothing for half a second, or closed."""
    peer.setblocking(False)
    end, at = time.monotonic() + 20, 0
    while at < len(data) and time.monotonic() < end:
        readable, writable, _ = select.select([peer] if reads else [], [peer], [], 0.5)
        try:
            if readable and not peer.recv(1 << 16):
                return
            if writable:
                at += peer.send(data[at:at + 65536])
        except BlockingIOError:
            pass
        except (ConnectionResetError, BrokenPipeError):
            return
        if not readable and not writable:
            return


# -- never read: not even the socket --

def echo_streams(size):
    """64 echo streams; each sends what its window of 256 KiB takes, in turns."""
    out, per_stream = b"", max(1, (64 << 10) // (size + 10))
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, ECHO + b"Bidi")
    for _ in range(4):
        for stream in range(1, 2 * STREAMS, 2):
            out += split(stream, echo(size) * per_stream)
    return out[: 12 * MIB]


def answer_streams(size):
    out = b""
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, ECHO + b"ServerStream")
        out += frame(DATA, 1, stream, wants(1000000, size))
    return out


def unary_calls(size):
    out = b""
    for stream in range(1, 2 * STREAMS, 2):
        out += request(stream, ECHO + b"Unary") + frame(DATA, 1, stream, wants(1, size))
    return out


# -- floods --

def rapid_resets():
    return b"".join(request(stream, ECHO + b"Bidi") + frame(RESET, 0, stream, b"\0\0\0\x08")
                    for stream in range(1, 40001, 2))


def pings():
    return frame(PING, 0, 0, b"12345678") * 100000


def long_headers():
    block = b"\0\x01x\x7f" + varint(16000 - 127) + b"v" * 16000
    return frame(HEADERS, 0, 1, block) + frame(CONTINUATION, 0, 1, block) * 1000


def headers_by_reference():
    """One long entry of the header table, named 12,000 times in 12,000 bytes."""
    block = fields(ECHO + b"Unary") + b"\x40\x01x\x7f" + varint(4000 - 127) + b"v" * 4000
    return b"".join(frame(HEADERS, 4, stream, (block if stream == 1 else fields(ECHO + b"Unary"))
                          + b"\xbe" * 12000) for stream in range(1, 200, 2))


def data_for_nobody():
    """After an answer that needs none. In small frames: the connection's window would stop larger ones."""
    return request(1, ECHO + b"NoSuch") + frame(DATA, 0, 1, b"x") * 2000000


def no_window():
    """SETTINGS_INITIAL_WINDOW_SIZE 0, and questions with endless answers."""
    return frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0") + answer_streams(1000)


def deep_nesting():
    deep = b""
    for _ in range(20000):  # Everything.child = 17, a message in a message in ...
        deep = b"\x8a\x01" + varint(len(deep)) + deep
    message = framed(b"\x52" + varint(len(deep)) + deep)
    return b"".join(request(stream, ECHO + b"Unary") + split(stream, message) + frame(DATA, 1, stream)
                    for stream in range(1, 2 * 8, 2))


def half_headers():
    return request(1, ECHO + b"Unary")[:-20]


# why, bytes, connections, whether they are read from, and whether they are closed for it
CASES = [
    ("64 echo streams of 1 KiB messages, never read", lambda: echo_streams(1000), 1, False, True),
    ("64 echo streams of 16 KiB messages, never read", lambda: echo_streams(16000), 1, False, True),
    ("64 streams of endless answers of 1 KiB, never read", lambda: answer_streams(1000), 1, False, True),
    ("64 streams of endless answers of 30 KiB, never read", lambda: answer_streams(30000), 1, False, True),
    ("64 unary calls with answers of 64 KiB, never read", lambda: unary_calls(64000), 1, False, True),
    ("20,000 rapid resets", rapid_resets, 1, True, True),
    ("100,000 pings", pings, 1, True, True),
    ("a header block without end", long_headers, 1, True, True),
    ("a header bomb by reference", headers_by_reference, 1, True, True),
    ("2,000,000 frames for a stream that is over", data_for_nobody, 1, True, True),
    ("100 connections whose headers do not end", half_headers, 100, True, True),
    ("64 streams of endless answers, windows of zero", no_window, 1, True, False),
    ("8 messages nested 20,000 deep", deep_nesting, 1, True, False),
]


def judge(server, data, connections, reads, closed):
    """The fault, or None."""
    if not server.alive():
        return "the server does not work at all"
    if not comes_true(lambda: server.sockets() == server.idle):
        return "a good connection was not closed"
    server.mark()
    peers = [server.connect() for _ in range(connections)]
    try:
        for peer in peers:
            pour(peer, data, reads)
        if not server.alive():
            return "the neighbour is not served meanwhile"
        if closed and not comes_true(lambda: server.sockets() == server.idle):
            return "the connection was not closed"
        if not closed and not comes_true(lambda: server.sockets() == server.idle + connections):
            return "the connection was closed, or the neighbour's was not"
        if not server.alive():
            return "the neighbour is not served afterwards"
    finally:
        for peer in peers:
            peer.close()
    if server.grown() > BOUND and not server.sanitized():
        return "too much memory"
    return None


def main():
    bad = 0
    cases = [case for case in CASES if " ".join(sys.argv[2:]) in case[0]]
    print(f"1..{len(cases)}")
    for number, (why, make, connections, reads, closed) in enumerate(cases, 1):
        with Server(quick=closed) as server:
            problem = judge(server, make(), connections, reads, closed)
            if server.process.poll() is not None:
                print(f"not ok {number} - {why}: the server died")
                sys.exit(1)
            bad += problem is not None
            if problem:
                print(f"# {problem}")
            print(f"{'not ok' if problem else 'ok'} {number} - {why}: {server.grown() / MIB:.1f} MiB, "
                  f"{'closed' if closed else 'kept'}"
                  f"{' (under a sanitizer, memory not judged)' if server.sanitized() else ''}", flush=True)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
