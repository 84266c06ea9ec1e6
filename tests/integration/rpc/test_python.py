#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python's grpcio, a stock client, against our server.

usage: test_python.py ECHO_SERVER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

Messages are built from a descriptor set that protoc makes here, so nothing generated is needed. With
NAME only the tests whose name contains it run. A deadline is only there so that a broken server fails
instead of hanging.
"""
import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
    from google.protobuf import descriptor_pb2
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
    from cases import run_tests, same, test
    from contracts import load
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

ECHO_SERVER, MUSTERCTL, PROTOC, PROTO_ROOT = sys.argv[1:5]
ONLY = sys.argv[5] if len(sys.argv) > 5 else ""
DEADLINE = 60
LIMIT = 4 << 20  # the server's default for requests and answers
ECHO = "/muster.test.v1.Echo/"
HEALTH = "/grpc.health.v1.Health/"


def check(why, holds, got=None):
    if not holds:
        raise AssertionError(why if got is None else f"{why}: got {got!r}")


# -- messages --

_, message = load(PROTOC, PROTO_ROOT, "muster/test/v1/echo.proto", "grpc/health/v1/health.proto",
                  "grpc/reflection/v1/reflection.proto", "google/rpc/status.proto")
EchoRequest = message("muster.test.v1.EchoRequest")
EchoResponse = message("muster.test.v1.EchoResponse")
HealthRequest = message("grpc.health.v1.HealthCheckRequest")
HealthResponse = message("grpc.health.v1.HealthCheckResponse")
ReflectionRequest = message("grpc.reflection.v1.ServerReflectionRequest")
ReflectionResponse = message("grpc.reflection.v1.ServerReflectionResponse")
Status = message("google.rpc.Status")


def unary(channel):
    return channel.unary_unary(ECHO + "Unary", EchoRequest.SerializeToString, EchoResponse.FromString)


def server_stream(channel):
    return channel.unary_stream(ECHO + "ServerStream", EchoRequest.SerializeToString,
                                EchoResponse.FromString)


def client_stream(channel):
    return channel.stream_unary(ECHO + "ClientStream", EchoRequest.SerializeToString,
                                EchoResponse.FromString)


def bidi(channel):
    return channel.stream_stream(ECHO + "Bidi", EchoRequest.SerializeToString,
                                 EchoResponse.FromString)


def fails(why, code, call, *arguments, **options):
    options.setdefault("timeout", DEADLINE)
    try:
        call(*arguments, **options)
    except grpc.RpcError as error:
        same(why, error.code(), code)
        return error
    raise AssertionError(f"{why}: it succeeded")


# -- the server --

class Server:
    """The echo server as a process; ends with the `with` block, and must end well."""

    def __init__(self, *arguments):
        self.arguments = arguments

    def __enter__(self):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([ECHO_SERVER, "--listen", "127.0.0.1:0", *self.arguments],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        line = self.process.stdout.readline()
        check("the server says where it listens", line.startswith("listening on "), line)
        self.address = line.split()[-1]
        self.received = False
        return self

    def channel(self, options=(), credentials=None):
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1),
                   *options]
        if credentials:
            return grpc.secure_channel(self.address, credentials, options)
        return grpc.insecure_channel(self.address, options)

    def stop(self):
        self.received = True
        self.process.send_signal(signal.SIGTERM)

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None and not self.received:
            self.stop()
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        if code != 0:
            self.log.seek(0)
            sys.stderr.write(self.log.read().decode("utf-8", "replace"))
        self.log.close()
        if kind is None:
            same("the server ends well", code, 0)


@contextlib.contextmanager
def served(*arguments, options=()):
    with Server(*arguments) as server:
        with server.channel(options) as channel:
            yield channel


# -- the four kinds --

@test
def unary_comes_back():
    with served() as channel:
        answer = unary(channel)(EchoRequest(text="héllo", payload=b"\0\1", sequence=7, report_peer=True),
                                timeout=DEADLINE)
        same("text", answer.text, "héllo")
        same("payload", answer.payload, b"\0\1")
        same("sequence", answer.sequence, 7)
        check("the peer's address is ours", answer.peer.address.startswith("127.0.0.1:"))
        # C-core counts from a clock it looked at a little earlier, and rounds up.
        check("the deadline arrived", 0 < answer.peer.deadline_ms <= (DEADLINE + 1) * 1000)


@test
def server_stream_of_1000():
    with served() as channel:
        answers = list(server_stream(channel)(EchoRequest(text="x", count=1000), timeout=DEADLINE))
        same("answers", len(answers), 1000)
        same("none at all is a stream, too",
             list(server_stream(channel)(EchoRequest(count=0), timeout=DEADLINE)), [])


@test
def client_stream_is_summed_up():
    with served() as channel:
        answer = client_stream(channel)(
            (EchoRequest(text=str(i), payload=b"x" * 100) for i in range(1000)), timeout=DEADLINE)
        same("requests", answer.requests, 1000)
        same("bytes", answer.request_bytes, 100000)
        same("the last text", answer.text, "999")
        same("no request is one, too", client_stream(channel)(iter(()), timeout=DEADLINE).requests, 0)


@test
def bidi_of_2000_in_order():
    with served() as channel:
        answers = bidi(channel)((EchoRequest(sequence=i) for i in range(2000)), timeout=DEADLINE)
        same("in order, none lost, none doubled", [a.sequence for a in answers], list(range(2000)))


@test
def bidi_one_at_a_time():
    """The next request is written only when the last was answered: nothing waits for more."""
    with served() as channel:
        turn = threading.Semaphore(1)

        def requests():
            for i in range(50):
                turn.acquire()
                yield EchoRequest(sequence=i)

        seen = []
        for answer in bidi(channel)(requests(), timeout=DEADLINE):
            seen.append(answer.sequence)
            turn.release()
        same("fifty turns", seen, list(range(50)))


# -- size --

@test
def messages_of_3_mib_both_ways():
    payload = os.urandom(3 << 20)
    with served() as channel:
        same("unary", unary(channel)(EchoRequest(payload=payload), timeout=DEADLINE).payload, payload)
        answers = bidi(channel)((EchoRequest(payload=payload, sequence=i) for i in range(5)),
                                timeout=DEADLINE)
        same("five in a stream", [(a.sequence, a.payload == payload) for a in answers],
             [(i, True) for i in range(5)])
        sizes = [len(a.payload) for a in
                 server_stream(channel)(EchoRequest(response_bytes=3 << 20, count=8), timeout=DEADLINE)]
        same("eight answers", sizes, [3 << 20] * 8)


@test
def message_over_the_limit_is_refused():
    with served() as channel:
        error = fails("a request of 5 MiB", grpc.StatusCode.RESOURCE_EXHAUSTED, unary(channel),
                      EchoRequest(payload=bytes(5 << 20)))
        check("says why", "limit" in error.details(), error.details())
        fails("an answer of 5 MiB", grpc.StatusCode.INTERNAL, unary(channel),
              EchoRequest(response_bytes=5 << 20))
        fails("one byte over", grpc.StatusCode.RESOURCE_EXHAUSTED,
              channel.unary_unary(ECHO + "Unary"), bytes(LIMIT + 1))
        same("the connection lives", unary(channel)(EchoRequest(text="x"), timeout=DEADLINE).text, "x")


@test
def gzip_requests_are_inflated():
    payload = b"squeeze" * 100000
    with served() as channel:
        answer = unary(channel)(EchoRequest(payload=payload), timeout=DEADLINE,
                                compression=grpc.Compression.Gzip)
        same("unary", answer.payload, payload)
        answers = bidi(channel)((EchoRequest(payload=payload) for _ in range(10)), timeout=DEADLINE,
                                compression=grpc.Compression.Gzip)
        same("a stream", [a.payload == payload for a in answers], [True] * 10)
        fails("a bomb: small on the wire, 64 MiB inflated", grpc.StatusCode.RESOURCE_EXHAUSTED,
              unary(channel), EchoRequest(payload=bytes(64 << 20)), compression=grpc.Compression.Gzip)
        error = fails("deflate is not spoken", grpc.StatusCode.UNIMPLEMENTED, unary(channel),
                      EchoRequest(payload=payload), compression=grpc.Compression.Deflate)
        check("says what is", "gzip" in error.details(), error.details())


# -- time --

@test
def deadline_is_kept_by_the_server():
    with served() as channel:
        began = time.monotonic()
        error = fails("a call that takes a minute", grpc.StatusCode.DEADLINE_EXCEEDED, unary(channel),
                      EchoRequest(delay_ms=60000), timeout=0.3)
        check("not before its time", time.monotonic() - began > 0.25, time.monotonic() - began)
        same("and is over", error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        call = server_stream(channel)(EchoRequest(count=1000, delay_ms=100), timeout=0.5)
        try:
            seen = len([answer for answer in call])
        except grpc.RpcError as error:
            seen = -1
            same("a stream, too", error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        same("it did not end by itself", seen, -1)


@test
def cancellation_reaches_the_server():
    with served() as channel:
        call = server_stream(channel)(EchoRequest(count=1000000, payload=bytes(1000)), timeout=DEADLINE)
        next(call)
        call.cancel()
        try:
            for _ in call:
                pass
            raise AssertionError("it went on")
        except grpc.RpcError as error:
            same("cancelled", error.code(), grpc.StatusCode.CANCELLED)
        future = unary(channel).future(EchoRequest(delay_ms=60000))
        future.cancel()
        check("a unary call", future.cancelled())
        same("the connection lives", unary(channel)(EchoRequest(text="x"), timeout=DEADLINE).text, "x")


# -- metadata and status --

@test
def calls_cancelled_before_they_left_disturb_no_other():
    """gRPC's C core resets streams that it never opened: what else is on the connection goes on"""
    with served() as channel:
        asked = queue.SimpleQueue()
        stream = bidi(channel)(iter(asked.get, None), timeout=DEADLINE)
        asked.put(EchoRequest(sequence=1))
        same("before", next(stream).sequence, 1)

        def cancel_at_once():
            for number in range(100):
                unary(channel).future(EchoRequest(), timeout=number % 20 / 10000)
                bidi(channel)(iter(()), timeout=DEADLINE).cancel()
        threads = [threading.Thread(target=cancel_at_once) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked.put(EchoRequest(sequence=2))
        same("and afterwards", next(stream).sequence, 2)
        asked.put(None)
        same("to its end", list(stream), [])


@test
def metadata_travels_both_ways():
    sent = (("x-text", "a value, with commas"), ("x-bytes-bin", bytes(range(256))), ("x-empty", ""))
    with served() as channel:
        for kind, call in (("unary", lambda r: unary(channel).with_call(r, metadata=sent,
                                                                        timeout=DEADLINE)),):
            answer, info = call(EchoRequest(echo_metadata=[name for name, _ in sent]))
            want = {name: value.encode() if isinstance(value, str) else value for name, value in sent}
            same(f"{kind}: as the server saw it", dict(answer.metadata), want)
            headers, trailers = dict(info.initial_metadata()), dict(info.trailing_metadata())
            for name, value in sent:
                same(f"{kind}: {name} in the headers", headers.get(name), value)
                same(f"{kind}: {name} in the trailers", trailers.get(name), value)
        stream = server_stream(channel)(EchoRequest(count=2, echo_metadata=["x-bytes-bin"]),
                                        metadata=sent, timeout=DEADLINE)
        same("stream: headers come first", dict(stream.initial_metadata())["x-bytes-bin"],
             bytes(range(256)))
        same("stream: then answers", len(list(stream)), 2)
        same("stream: then trailers", dict(stream.trailing_metadata())["x-bytes-bin"],
             bytes(range(256)))


@test
def trace_id_comes_back():
    trace = "0af7651916cd43dd8448eb211c80319c"
    with served() as channel:
        for metadata in ((("traceparent", f"00-{trace}-b7ad6b7169203331-01"),),
                         (("x-muster-trace", trace),)):
            _, info = unary(channel).with_call(EchoRequest(), metadata=metadata, timeout=DEADLINE)
            same("the client's own", dict(info.trailing_metadata()).get("x-muster-trace"), trace)
        drawn = {dict(unary(channel).with_call(EchoRequest(), timeout=DEADLINE)[1].trailing_metadata())
                 .get("x-muster-trace") for _ in range(100)}
        same("else one is drawn, each time another", len(drawn), 100)
        check("32 hex digits", all(len(one) == 32 and int(one, 16) >= 0 for one in drawn))
        error = fails("an error", grpc.StatusCode.UNIMPLEMENTED, channel.unary_unary("/no/Such"), b"",
                      metadata=(("x-muster-trace", trace),))
        same("errors carry it, too", dict(error.trailing_metadata()).get("x-muster-trace"), trace)


@test
def every_status_with_text_and_details():
    with served() as channel:
        for code in grpc.StatusCode:
            if code is grpc.StatusCode.OK:
                continue
            text = f"why: 100% «{code.name}»\nnext line"
            details = Status(code=code.value[0], message=text).SerializeToString()
            request = EchoRequest(fail={"code": code.value[0], "message": text, "details": details})
            error = fails(code.name, code, unary(channel), request)
            same(f"{code.name}: text", error.details(), text)
            same(f"{code.name}: details", dict(error.trailing_metadata())["grpc-status-details-bin"],
                 details)
        call = server_stream(channel)(
            EchoRequest(count=10, fail={"code": 9, "message": "late", "after": 3}), timeout=DEADLINE)
        seen = []
        try:
            for answer in call:
                seen.append(answer)
            raise AssertionError("it ended well")
        except grpc.RpcError as error:
            same("after three answers", (len(seen), error.code()),
                 (3, grpc.StatusCode.FAILED_PRECONDITION))


@test
def unknown_methods_are_unimplemented():
    with served() as channel:
        for path in (ECHO + "Nothing", "/no.such.Service/Method", "/", "/a"):
            error = fails(path, grpc.StatusCode.UNIMPLEMENTED, channel.unary_unary(path), b"")
            check("names it", path in error.details(), error.details())


@test
def malformed_protobuf_is_an_invalid_argument():
    deep = b""
    for _ in range(20000):  # Everything.child = 17, a message in a message in ...
        deep = b"\x8a\x01" + varint(len(deep)) + deep
    cases = {"cut off": b"\x0a\x05hel", "not UTF-8": b"\x0a\x02\xff\xfe", "NUL in text": b"\x0a\x01\0",
             "a group": b"\x0b\x0c", "nested 20,000 deep": b"\x52" + varint(len(deep)) + deep}
    with served() as channel:
        for why, request in cases.items():
            fails(why, grpc.StatusCode.INVALID_ARGUMENT, channel.unary_unary(ECHO + "Unary"), request)
            stream = channel.stream_stream(ECHO + "Bidi")(iter([request]), timeout=DEADLINE)
            try:
                list(stream)
                raise AssertionError("a stream took it")
            except grpc.RpcError as error:
                same(f"{why}, in a stream", error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        same("the connection lives", unary(channel)(EchoRequest(text="x"), timeout=DEADLINE).text, "x")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


@test
def requests_are_counted():
    """Exactly one request for unary and server streaming, whatever the client says it is."""
    with served() as channel:
        for path in ("Unary", "ServerStream"):
            call = channel.stream_stream(ECHO + path)
            for why, requests in (("none", []), ("two", [b"", b""])):
                try:
                    list(call(iter(requests), timeout=DEADLINE))
                    raise AssertionError(f"{path} took {why}")
                except grpc.RpcError as error:
                    same(f"{path}: {why}", error.code(), grpc.StatusCode.UNIMPLEMENTED)


# -- many --

@test
def a_thousand_streams_at_once():
    with served() as channel:
        go = threading.Event()

        def requests(number):
            yield EchoRequest(sequence=number)
            go.wait(DEADLINE)
            yield EchoRequest(sequence=number + 1000000)

        calls = [bidi(channel)(requests(i), timeout=2 * DEADLINE) for i in range(1000)]
        same("each has its first answer while all are open", [next(c).sequence for c in calls],
             list(range(1000)))
        go.set()
        same("and its second", [next(c).sequence for c in calls],
             [i + 1000000 for i in range(1000)])
        for call in calls:
            check("and its end", next(call, None) is None)


@test
def ten_thousand_calls_in_flight_are_answered_once():
    with served() as channel:
        call = unary(channel)
        futures = [call.future(EchoRequest(sequence=i), timeout=2 * DEADLINE) for i in range(10000)]
        same("each its own", [f.result().sequence for f in futures], list(range(10000)))


# -- the server's life --

@test
def draining_finishes_what_runs_and_takes_no_more():
    with Server() as server, server.channel() as channel:
        slow = unary(channel).future(EchoRequest(text="slow", delay_ms=500), timeout=DEADLINE)
        turn = threading.Event()

        def requests():
            yield EchoRequest(sequence=1)
            turn.wait(DEADLINE)
            yield EchoRequest(sequence=2)

        stream = bidi(channel)(requests(), timeout=DEADLINE)
        same("a stream runs", next(stream).sequence, 1)
        server.stop()
        same("the slow call is answered", slow.result().text, "slow")
        turn.set()
        same("the stream goes on", [a.sequence for a in stream], [2])
        same("the server ends", server.process.wait(DEADLINE), 0)
        fails("a new call", grpc.StatusCode.UNAVAILABLE, unary(channel), EchoRequest())


@test
def keep_alive_pings_are_answered():
    options = [("grpc.keepalive_time_ms", 200), ("grpc.keepalive_timeout_ms", 1000 * DEADLINE),
               ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0)]
    with served("--ping-min-interval-ms", "1", options=options) as channel:
        same("a quiet call with pings under it", unary(channel)(
            EchoRequest(text="x", delay_ms=1500), timeout=DEADLINE).text, "x")


@test
def health_is_reported_and_watched():
    with Server() as server, server.channel() as channel:
        call = channel.unary_unary(HEALTH + "Check", HealthRequest.SerializeToString,
                                   HealthResponse.FromString)
        same("the server", call(HealthRequest(), timeout=DEADLINE).status, 1)
        same("the service", call(HealthRequest(service="muster.test.v1.Echo"), timeout=DEADLINE).status, 1)
        fails("another", grpc.StatusCode.NOT_FOUND, call, HealthRequest(service="nobody"))
        watch = channel.unary_stream(HEALTH + "Watch", HealthRequest.SerializeToString,
                                     HealthResponse.FromString)
        unknown = watch(HealthRequest(service="nobody"), timeout=DEADLINE)
        same("an unknown one is watched", next(unknown).status, 3)
        unknown.cancel()
        known = watch(HealthRequest(), timeout=DEADLINE)
        same("now", next(known).status, 1)
        server.stop()
        same("and when it stops", next(known).status, 2)


@test
def reflection_lists_every_service():
    for version in ("v1", "v1alpha"):
        with served() as channel:
            call = channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                ReflectionRequest.SerializeToString, ReflectionResponse.FromString)
            asked = [ReflectionRequest(list_services=""),
                     ReflectionRequest(file_containing_symbol="muster.test.v1.Echo.Unary"),
                     ReflectionRequest(file_by_filename="google/rpc/status.proto"),
                     ReflectionRequest(file_containing_symbol="no.such.Type"),
                     ReflectionRequest(all_extension_numbers_of_type="muster.test.v1.EchoRequest")]
            received = list(call(iter(asked), timeout=DEADLINE))
            names = [s.name for s in received[0].list_services_response.service]
            same("services", sorted(names), [
                "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection", "muster.test.v1.Echo"])
            files = [descriptor_pb2.FileDescriptorProto.FromString(f).name
                     for f in received[1].file_descriptor_response.file_descriptor_proto]
            same("the file of a method", files, ["muster/test/v1/echo.proto"])
            files = [descriptor_pb2.FileDescriptorProto.FromString(f).name
                     for f in received[2].file_descriptor_response.file_descriptor_proto]
            same("a file with what it imports", files,
                 ["google/rpc/status.proto", "google/protobuf/any.proto"])
            same("nothing", received[3].error_response.error_code, 5)
            same("no extensions", received[4].all_extension_numbers_response.base_type_name,
                 "muster.test.v1.EchoRequest")


# -- mTLS --

def issue(directory, kind, *arguments):
    subprocess.run([MUSTERCTL, "cert", "issue", "--dir", directory, kind, *arguments], check=True,
                   stdout=subprocess.DEVNULL)


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


WORKER = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
IDENTITIES = {  # kind of certificate: (arguments, file)
    "admin": ((), "admin"),
    "readonly": ((), "readonly"),
    "shard": (("--id", "s1"), "shard-s1"),
    "cluster": (("--id", "c1"), "cluster-c1"),
    "worker": (("--id", WORKER), f"worker-{WORKER}"),
    "replica": (("--id", "1"), "replica-1"),
}
# rule: who passes. A replica's certificate carries bigfleet://admin beside its own.
MATRIX = {
    "anyone": set(IDENTITIES),
    "admin": {"admin", "replica"},
    "read": {"admin", "readonly", "replica"},
    "shard": {"shard"},
    "cluster": {"cluster"},
    "worker": {"worker"},
}


@test
def mtls_matrix():
    with tempfile.TemporaryDirectory() as directory:
        ours, other = os.path.join(directory, "ca"), os.path.join(directory, "other")
        for ca in (ours, other):
            subprocess.run([MUSTERCTL, "cert", "ca", "--dir", ca], check=True,
                           stdout=subprocess.DEVNULL)
            issue(ca, "admin")
        issue(ours, "server")
        for kind, (arguments, _) in IDENTITIES.items():
            issue(ours, kind, *arguments)
        tls = ("--tls-cert", f"{ours}/server.pem", "--tls-key", f"{ours}/server.key.pem",
               "--tls-ca", f"{ours}/ca.pem")
        for rule, may in MATRIX.items():
            with Server(*tls, "--access", rule) as server:
                for kind, (_, name) in IDENTITIES.items():
                    credentials = grpc.ssl_channel_credentials(
                        read(ours, "ca.pem"), read(ours, name + ".key.pem"), read(ours, name + ".pem"))
                    with server.channel(credentials=credentials) as channel:
                        if kind in may:
                            answer = unary(channel)(EchoRequest(text="x", report_peer=True),
                                                    timeout=DEADLINE)
                            check(f"{rule}: {kind} is known", answer.peer.uri or answer.peer.common_name)
                        else:
                            error = fails(f"{rule}: {kind}", grpc.StatusCode.PERMISSION_DENIED,
                                          unary(channel), EchoRequest())
                            check("says what is needed", "needed" in error.details(), error.details())
                        status = channel.unary_unary(HEALTH + "Check")(b"", timeout=DEADLINE)
                        same(f"{rule}: {kind} may ask for health", status, b"\x08\x01")
        with Server(*tls) as server:
            strangers = {
                "no certificate": grpc.ssl_channel_credentials(read(ours, "ca.pem")),
                "another authority's": grpc.ssl_channel_credentials(
                    read(ours, "ca.pem"), read(other, "admin.key.pem"), read(other, "admin.pem")),
                "who trusts another": grpc.ssl_channel_credentials(
                    read(other, "ca.pem"), read(ours, "admin.key.pem"), read(ours, "admin.pem")),
            }
            for why, credentials in strangers.items():
                with server.channel(credentials=credentials) as channel:
                    fails(why, grpc.StatusCode.UNAVAILABLE, unary(channel), EchoRequest())
            with server.channel() as channel:
                fails("plaintext", grpc.StatusCode.UNAVAILABLE, unary(channel), EchoRequest())
            credentials = grpc.ssl_channel_credentials(
                read(ours, "ca.pem"), read(ours, "admin.key.pem"), read(ours, "admin.pem"))
            with server.channel(credentials=credentials) as channel:
                payload = os.urandom(3 << 20)
                same("3 MiB through TLS",
                     unary(channel)(EchoRequest(payload=payload), timeout=DEADLINE).payload, payload)
                answers = bidi(channel)((EchoRequest(sequence=i) for i in range(500)), timeout=DEADLINE)
                same("a stream through TLS", [a.sequence for a in answers], list(range(500)))


run_tests(ONLY)
