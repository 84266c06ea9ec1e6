# SPDX-License-Identifier: Apache-2.0
"""Streams of etcd's API, by a stock gRPC client: the requests, and the responses so far."""
import queue
import threading
import time

from etcds import ELECTION, LEASE, METHODS, PATIENCE, WATCH, check, grpc, message


class Stream:
    """A bidirectional call. Responses are read as they come; when it is `deaf`, only by hear()."""

    def __init__(self, channel, path, metadata=(), deaf=False):
        method = METHODS[path]
        self.make = message(method.input_type)
        self.requests, self.arrived, self.responses, self.failure = queue.Queue(), threading.Condition(), [], None
        stub = channel.stream_stream("/" + path, self.make.SerializeToString, message(method.output_type).FromString)
        self.call = stub(iter(self.requests.get, None), metadata=metadata)
        self.reader = threading.Thread(target=self.read, daemon=True)
        if not deaf:
            self.hear()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.requests.put(None)
        self.call.cancel()
        if self.reader.ident:
            self.reader.join(PATIENCE)

    def hear(self):
        self.reader.start()

    def read(self):
        try:
            for one in self.call:
                with self.arrived:
                    self.responses.append(one)
                    self.arrived.notify_all()
            failure = (0, "")
        except grpc.RpcError as error:
            failure = (error.code().value[0], error.details())
        with self.arrived:
            self.failure = failure
            self.arrived.notify_all()

    def ask(self, **fields):
        self.requests.put(self.make(**fields))

    def until(self, what, found):
        """Waits until `found` of the responses so far is true; returns its result."""
        with self.arrived:
            end = time.monotonic() + PATIENCE
            while not (answer := found(self.responses)):
                check(self.failure is None, f"waited for {what}, and the stream ended: {self.failure}")
                left = end - time.monotonic()
                check(left > 0 and (self.arrived.wait(left) or True), f"waited for {what}: {self.responses[-3:]}")
            return answer

    def ended(self):
        """Code and text that it ends with."""
        with self.arrived:
            check(self.arrived.wait_for(lambda: self.failure, PATIENCE), f"it goes on: {self.responses[-3:]}")
            return self.failure


class Watch(Stream):
    def __init__(self, client, deaf=False, metadata=()):
        super().__init__(client.channel, WATCH + "Watch", metadata, deaf)
        self.created = 0

    def create(self, key, end=b"", **fields):
        """The response to the request."""
        self.ask(create_request={"key": key, "range_end": end, **fields})
        self.created += 1
        return self.until("created", lambda all_: [r for r in all_ if r.created][self.created - 1:])[0]

    def cancel(self, watch_id):
        self.ask(cancel_request={"watch_id": watch_id})

    def progress(self):
        self.ask(progress_request={})

    def received(self, watch_id):
        """Responses with events of this watch, so far."""
        return [r for r in self.responses if r.watch_id == watch_id and r.events]

    def events(self, watch_id, count):
        """The first `count` events, waited for."""
        def enough(_):
            all_ = [e for r in self.received(watch_id) for e in r.events]
            return all_ if len(all_) >= count else None
        return self.until(f"{count} events of {watch_id}", enough)

    def canceled(self, watch_id):
        return self.until("canceled", lambda all_: [r for r in all_ if r.watch_id == watch_id and r.canceled])[0]


class KeepAlive(Stream):
    def __init__(self, client, metadata=(), deaf=False):
        super().__init__(client.channel, LEASE + "LeaseKeepAlive", metadata, deaf)

    def beat(self, lease):
        """One request and its answer."""
        known = len(self.responses)
        self.ask(ID=lease)
        return self.until("an answer", lambda all_: all_[known:])[0]


def shown(events):
    """Events as tuples: type, key, value, mod revision, version."""
    return [("PUT" if e.type == 0 else "DELETE", e.kv.key, e.kv.value, e.kv.mod_revision, e.kv.version) for e in events]


class Observe:
    """The leaders of an election as they come."""

    def __init__(self, client, name, metadata=()):
        method = METHODS[ELECTION + "Observe"]
        stub = client.channel.unary_stream("/" + ELECTION + "Observe", message(method.input_type).SerializeToString,
                                           message(method.output_type).FromString)
        self.call, self.received, self.failure, self.arrived = stub(message(method.input_type)(name=name), metadata=metadata), \
            [], None, threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            for one in self.call:
                with self.arrived:
                    self.received.append(one)
                    self.arrived.notify_all()
            failure = (0, "")
        except grpc.RpcError as error:
            failure = (error.code().value[0], error.details())
        with self.arrived:
            self.failure = failure
            self.arrived.notify_all()

    def shown(self):
        return [(one.kv.key, one.kv.value) for one in self.received]

    def until(self, *shown):
        """It received exactly this, and each once."""
        with self.arrived:
            check(self.arrived.wait_for(lambda: self.failure or len(self.received) >= len(shown), PATIENCE), self.shown())
            check(self.shown() == list(shown) and not self.failure, f"{self.shown()} {self.failure}")

    def ended(self):
        with self.arrived:
            check(self.arrived.wait_for(lambda: self.failure, PATIENCE), f"it goes on: {self.shown()}")
            return self.failure
