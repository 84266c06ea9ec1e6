# SPDX-License-Identifier: Apache-2.0
"""A channel of the stock gRPC client that dials again after a failed connection.

A channel that failed to connect refuses calls for seconds without a new attempt, so a client that only calls and pauses
never learns that a server listens by now. Redialed behaves like a channel and is in that state for one call at most: the
call that found no server fails as usual, and the next one dials.

    channel = Redialed(lambda: grpc.insecure_channel(address))
"""
import threading

import grpc


def never_connected(error):
    """The channel could not connect; the call was not sent."""
    return error.code() == grpc.StatusCode.UNAVAILABLE and "failed to connect" in (error.details() or "")


class Redialed:
    def __init__(self, dial):
        self.dial, self.lock, self.channel, self.given_up = dial, threading.Lock(), dial(), None
        self.old = []  # closed with the last: another thread may be about to ask on one

    def current(self):
        with self.lock:
            if self.given_up is self.channel:
                self.old.append(self.channel)
                self.channel = self.dial()
            return self.channel

    def ended(self, channel, call):
        if call.code() is not None and never_connected(call):
            self.given_up = channel

    def unary_unary(self, *method):
        return Method(self, "unary_unary", method)

    def unary_stream(self, *method):
        return Method(self, "unary_stream", method)

    def stream_stream(self, *method):
        return Method(self, "stream_stream", method)

    def subscribe(self, callback, try_to_connect=False):
        self.current().subscribe(callback, try_to_connect)

    def unsubscribe(self, callback):
        self.channel.unsubscribe(callback)

    def close(self):
        for channel in [*self.old, self.channel]:
            channel.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Method:
    """A method of a channel: makes calls, and checks how a later answer ends."""

    def __init__(self, owner, kind, method):
        self.owner, self.kind, self.method = owner, kind, method

    def asked(self, how, arguments, named):
        channel = self.owner.current()
        stub = getattr(channel, self.kind)(*self.method)
        try:
            call = (getattr(stub, how) if how else stub)(*arguments, **named)
        except grpc.RpcError as error:
            self.owner.ended(channel, error)
            raise
        return channel, call

    def __call__(self, *arguments, **named):
        channel, call = self.asked("", arguments, named)
        if self.kind != "unary_unary" and not call.add_callback(lambda: self.owner.ended(channel, call)):
            self.owner.ended(channel, call)  # it is over already
        return call

    def with_call(self, *arguments, **named):
        return self.asked("with_call", arguments, named)[1]

    def future(self, *arguments, **named):
        channel, call = self.asked("future", arguments, named)
        call.add_done_callback(lambda _: self.owner.ended(channel, call))
        return call
