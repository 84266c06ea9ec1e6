# SPDX-License-Identifier: Apache-2.0
"""A shard that says what a test wants and remembers what it heard: on grpcio, from the contract.

    with FakeShard() as shard:
        session = shard.wait_session()      # of the next operator that said Hello
        session.say(reclaim_instruction={...})
        session.wait(lambda frame: frame.HasField("reclaim_ack"))

While `reading` is clear it reads nothing.
"""
import queue
import threading
from concurrent import futures

import grpc

from operators import CONTRACT, wait_for


class Session:
    """One stream. None in `out` ends it."""

    def __init__(self):
        self.frames, self.out, self.over = [], queue.Queue(), False

    def say(self, **payload):
        self.out.put(CONTRACT.FromShard(**payload).SerializeToString())

    def say_bytes(self, data):
        self.out.put(data)

    def end(self):
        self.out.put(None)

    def heard(self, wanted):
        return [frame for frame in list(self.frames) if wanted(frame)]

    def wait(self, wanted, count=1):
        return wait_for("a frame of the operator", lambda: self.heard(wanted) if len(self.heard(wanted)) >= count else None)


class FakeShard:
    def __init__(self):
        self.sessions, self.reading = queue.Queue(), threading.Event()
        self.reading.set()
        self.server = grpc.server(futures.ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
        handler = grpc.stream_stream_rpc_method_handler(self.session, CONTRACT.FromOperator.FromString, lambda data: data)
        self.server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("bigfleet.v1alpha1.Shard", {"Session": handler}),))
        self.grpc = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def session(self, frames, context):
        session = Session()

        def listen():
            try:
                for frame in frames:
                    session.frames.append(frame)
                    if frame.HasField("hello"):
                        session.say(ack={"echo": "hello"})
                        self.sessions.put(session)
                    elif frame.HasField("rollup"):
                        session.say(ack={"echo": "rollup"})
                    self.reading.wait()
            except grpc.RpcError:
                pass
            session.over = True
            session.end()
        threading.Thread(target=listen, daemon=True).start()
        while (data := session.out.get()) is not None:
            yield data
        if not session.over:
            context.abort(grpc.StatusCode.UNAVAILABLE, "by order of the test")

    def wait_session(self):
        return wait_for("a session", lambda: None if self.sessions.empty() else self.sessions.get())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()
