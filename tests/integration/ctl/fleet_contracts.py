# SPDX-License-Identifier: Apache-2.0
"""The contracts of the coordinator as Python messages, and a server with canned answers over them.
"""
import concurrent.futures
import inspect
import os
import sys
import threading

import grpc

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import contracts  # noqa: E402

COORDINATOR = "bigfleet.v1alpha1.Coordinator"
FLEET = "muster.v1.Fleet"


def load(protoc, root):
    """Returns (type by full name, {path: (input type, output type)})."""
    files, message = contracts.load(protoc, root, "bigfleet/v1alpha1/coordinator.proto", "muster/v1/fleet.proto")
    return message, {"/" + path: (message(method.input_type), message(method.output_type))
                     for path, method in contracts.methods_of(files).items()
                     if path.startswith((COORDINATOR, FLEET))}


class Canned:
    """A coordinator with canned answers: answers[path] is a message, or a function of (request,
    context) that returns one, or a generator function that yields a stream of them. Requests are in `asked` as (path, request, metadata)."""

    def __init__(self, methods, answers, credentials=None):
        self.methods, self.answers, self.asked = methods, answers, []
        self.lock = threading.Lock()
        # Nobody else may listen on the port, or two servers of a test would share their callers.
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), options=(("grpc.so_reuseport", 0),))
        self.server.add_generic_rpc_handlers((self,))
        if credentials:
            self.port = self.server.add_secure_port("127.0.0.1:0", credentials)
        else:
            self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{self.port}"
        self.server.start()

    def service(self, call):
        if call.method not in self.methods or call.method not in self.answers:
            return None
        given, answered = self.methods[call.method]

        def encode(answer):  # bytes: what no message of ours would look like
            return answer if isinstance(answer, bytes) else answered.SerializeToString(answer)

        def handle(request, context):
            with self.lock:
                self.asked.append((call.method, request, dict(context.invocation_metadata())))
            answer = self.answers[call.method]
            return answer(request, context) if callable(answer) else answer
        streams = inspect.isgeneratorfunction(self.answers[call.method])
        make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        return make(handle, request_deserializer=given.FromString, response_serializer=encode)

    def times(self, path):
        return sum(1 for asked in self.asked if asked[0] == path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0)


def says(code, text, **trailers):
    """An answer that is an error, with trailers such as x_muster_leader."""
    def answer(_request, context):
        context.set_trailing_metadata(tuple((name.replace("_", "-"), value) for name, value in trailers.items()))
        context.abort(code, text)
    return answer
