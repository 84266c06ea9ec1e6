#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our client against Python's grpcio server, plaintext and mTLS.

usage: test_python_server.py ECHO_CLIENT MUSTERCTL [NAME]    (prints TAP)

The server here has generic handlers over raw bytes; the checks are those of tests/rpc/echo_client.c,
which is run once in plaintext and once with certificates, and then as those who must be refused.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

CLIENT, MUSTERCTL = sys.argv[1:3]
ONLY = sys.argv[3:4]
DEADLINE = 240
LARGE = 64 << 20

cancelled = 0
cancelled_lock = threading.Lock()


def metadata_of(context):
    return {key: value for key, value in context.invocation_metadata()}


def fail(context, code):
    context.set_trailing_metadata((("grpc-status-details-bin", b"\x00\x01\x02\x03"),))
    codes = {status.value[0]: status for status in grpc.StatusCode}
    context.abort(codes[int(code)], "sorry, 50% of \u20ac\nare gone")


def unary(request, context):
    given = metadata_of(context)
    what, _, argument = given.get("x-do", "").partition(":")
    if what == "fail":
        fail(context, argument)
    elif what == "raise":
        raise RuntimeError("a broken handler")
    elif what == "sleep":
        end = time.monotonic() + float(argument)
        while context.is_active() and time.monotonic() < end:
            time.sleep(0.02)
    elif what == "deadline":
        return str(int((context.time_remaining() or 0) * 1000)).encode()
    elif what == "cancelled":
        with cancelled_lock:
            return str(cancelled).encode()
    elif what == "metadata":
        context.send_initial_metadata((("x-first", "one"),))
        context.set_trailing_metadata((("x-last-bin", b"two"),))
        return given["x-color"].encode() + b" " + given["x-raw-bin"].hex().encode()
    elif what == "gzip":
        context.set_compression(grpc.Compression.Gzip)
        return b"a" * 100000
    elif what == "huge":
        return bytes(9 << 20)
    elif what == "who":
        return b" ".join(context.auth_context().get("x509_subject_alternative_name", []))
    return request


def server_stream(request, context):
    global cancelled
    what, _, argument = metadata_of(context).get("x-do", "").partition(":")
    if what == "endless":
        def ended():
            global cancelled
            with cancelled_lock:
                cancelled += 1
        context.add_callback(ended)
        while context.is_active():
            yield b"again"
        return
    for number in range(int(request)):
        yield str(number).encode()
    if what == "fail":
        fail(context, argument)


def client_stream(requests, _context):
    sizes = [len(request) for request in requests]
    return f"{len(sizes)} {sum(sizes)}".encode()


def bidi(requests, _context):
    yield from requests


class Handlers(grpc.GenericRpcHandler):
    methods = {
        "/test.Echo/Unary": grpc.unary_unary_rpc_method_handler(unary),
        "/test.Echo/ServerStream": grpc.unary_stream_rpc_method_handler(server_stream),
        "/test.Echo/ClientStream": grpc.stream_unary_rpc_method_handler(client_stream),
        "/test.Echo/Bidi": grpc.stream_stream_rpc_method_handler(bidi),
    }

    def service(self, details):
        return self.methods.get(details.method)


def start(credentials=None):
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16), handlers=(Handlers(),),
                         options=(("grpc.max_receive_message_length", LARGE),
                                  ("grpc.max_send_message_length", LARGE)))
    if credentials:
        port = server.add_secure_port("localhost:0", credentials)
    else:
        port = server.add_insecure_port("localhost:0")
    server.start()
    return server, f"localhost:{port}"


class Report:
    """Joins the TAP of several runs."""

    def __init__(self):
        self.count = self.bad = 0

    def line(self, good, text):
        self.count += 1
        self.bad += not good
        print(f"{'ok' if good else 'not ok'} {self.count} - {text}", flush=True)

    def comment(self, text):
        print("# " + text.replace("\n", "\n# "), flush=True)

    def run(self, label, address, tls="", name=""):
        environment = dict(os.environ, MUSTER_ECHO_ADDRESS=address, MUSTER_ECHO_TLS=tls,
                           MUSTER_ECHO_NAME=name)
        done = subprocess.run([CLIENT, *ONLY], env=environment, timeout=DEADLINE, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace")
        lines = [text for text in done.stdout.splitlines() if text.startswith(("ok", "not ok"))]
        for text in lines:
            if "# SKIP" in text:  # a check that has no meaning in this run, not one left out
                continue
            verdict, _, rest = text.partition(" - ")
            self.line(verdict.startswith("ok"), f"{label}: {rest}")
        if done.returncode or not lines:
            self.comment(done.stderr[-4000:])
            if done.returncode and not any(text.startswith("not ok") for text in lines):
                self.line(False, f"{label}: exit code {done.returncode}")


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def issue(directory, *arguments):
    subprocess.run([MUSTERCTL, "cert", "issue", "--dir", directory, *arguments], check=True,
                   stdout=subprocess.DEVNULL)


def refused(report, label, address, tls, name):
    """A client that must not get in: its first call ends without an answer, and soon."""
    environment = dict(os.environ, MUSTER_ECHO_ADDRESS=address, MUSTER_ECHO_TLS=tls,
                       MUSTER_ECHO_NAME=name, MUSTER_ECHO_REFUSED="1")
    done = subprocess.run([CLIENT, "refused"], env=environment, timeout=DEADLINE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace")
    good = done.returncode == 0 and "\nok" in "\n" + done.stdout and "# SKIP" not in done.stdout
    report.line(good, f"refused: {label}")
    if not good:
        report.comment(done.stdout + done.stderr[-2000:])


def main():
    report = Report()
    server, address = start()
    report.run("plaintext", address)
    server.stop(None)
    with tempfile.TemporaryDirectory() as directory:
        ours, other = os.path.join(directory, "ours"), os.path.join(directory, "other")
        for ca in ours, other:
            subprocess.run([MUSTERCTL, "cert", "ca", "--dir", ca], check=True, stdout=subprocess.DEVNULL)
            issue(ca, "server")
            issue(ca, "shard", "--id", "s1")
        name = next(file[:-len(".key.pem")] for file in os.listdir(ours)
                    if file.endswith(".key.pem") and file.startswith("shard"))
        credentials = grpc.ssl_server_credentials(
            [(read(ours, "server.key.pem"), read(ours, "server.pem"))], read(ours, "ca.pem"),
            require_client_auth=True)
        server, address = start(credentials)
        report.run("mtls", address, ours, name)
        if not ONLY:
            refused(report, "no certificate", address, ours, "")
            refused(report, "trusts another authority", address, other, name)
            refused(report, "plaintext to a TLS server", address, "", "")
        server.stop(None)
    print(f"1..{report.count}")
    sys.exit(bool(report.bad))


if __name__ == "__main__":
    main()
