# SPDX-License-Identifier: Apache-2.0
"""A gRPC proxy in front of a real etcd: passes everything on, except calls that a test wants lost, held or changed.

hook(method, request bytes, forward) -> reply bytes, or raises Refuse(status, text); `forward()` asks the real one.
`refuse` (status, text): the answer to every call and every new stream. Messages of streams are `stream_delay` s late.
"""
import time
from concurrent import futures

import grpc

STREAMS = {"/etcdserverpb.Watch/Watch", "/etcdserverpb.Lease/LeaseKeepAlive"}


class Refuse(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status, self.text = status, text


class Between(grpc.GenericRpcHandler):
    def __init__(self, target_port, hook=None):
        self.hook, self.counts, self.refuse, self.stream_delay = hook, {}, None, 0
        self.retarget(target_port)
        self.server = grpc.server(futures.ThreadPoolExecutor(32), handlers=(self,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def retarget(self, port):
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(0).wait()
        self.channel.close()

    def url(self, tail="", user=""):
        return f"etcd://{user}127.0.0.1:{self.port}{tail}"

    def service(self, details):
        method = details.method
        self.counts[method.rsplit("/", 1)[1]] = self.counts.get(method.rsplit("/", 1)[1], 0) + 1
        metadata = [(key, value) for key, value in details.invocation_metadata if key in ("hasleader", "token")]
        if method in STREAMS:
            def stream(requests, context):
                if self.refuse:
                    context.abort(*self.refuse)
                for answer in self.channel.stream_stream(method)(requests, metadata=metadata):
                    time.sleep(self.stream_delay)
                    yield answer
            return grpc.stream_stream_rpc_method_handler(stream)

        def unary(request, context):
            channel = self.channel

            def forward(changed=None):
                return channel.unary_unary(method)(changed or request, metadata=metadata, timeout=30)
            if self.refuse:
                context.abort(*self.refuse)
            try:
                return self.hook(method.rsplit("/", 1)[1], request, forward) if self.hook else forward()
            except Refuse as refusal:
                context.abort(refusal.status, refusal.text)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())
        return grpc.unary_unary_rpc_method_handler(unary)
