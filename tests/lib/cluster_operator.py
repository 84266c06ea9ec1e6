# SPDX-License-Identifier: Apache-2.0
"""A cluster's operator on grpcio, from the contract, for the shard's tests.

    contract = Contract(PROTOC, PROTO_ROOT)
    with Operator(contract, address, "cluster-a", tls=(directory, "cluster-a")) as operator:
        operator.rollup([contract.need(cpu="8")])
        operator.wait(lambda frame: frame.ack.echo == "rollup")

Every frame that came is in `frames`, in order. Requests for a blob are answered as `blob` says: bytes, an Exception
(its text is the error), None (never), or a function of the request that returns one of these; `blob_delay` seconds
later. An operator with reads=False never reads. What it says is never checked: a test may send any bytes. Its stream
waits for a shard that listens, unless it is not `patient`: then it ends, as UNAVAILABLE.

All operators share one thread, so a test may have thousands. (The module is not called operator: Python has one.)
"""
import asyncio
import os
import sys
import threading
import time

import grpc

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from contracts import load  # noqa: E402

SESSION = "/bigfleet.v1alpha1.Shard/Session"
INSPECT = "/bigfleet.v1alpha1.ShardRead/InspectNeeds"
DEADLINE = 60  # only so that a broken shard fails a test instead of hanging it
MESSAGE_MAX = 256 << 20


class Contract:
    """The messages of the stream and of the inspection."""

    def __init__(self, protoc, root):
        _, self.message = load(protoc, root, "bigfleet/v1alpha1/shard.proto", "bigfleet/v1alpha1/shardread.proto")
        self.FromOperator = self.message("bigfleet.v1alpha1.OperatorMessage")
        self.FromShard = self.message("bigfleet.v1alpha1.ShardMessage")
        self.Need = self.message("bigfleet.v1alpha1.CapacityNeed")
        self.Inspect = self.message("bigfleet.v1alpha1.InspectNeedsRequest")
        self.Inspected = self.message("bigfleet.v1alpha1.InspectNeedsResponse")

    def need(self, types=(), priority=0, group="", unit=None, same=None, interruption=0, reclamation=0, **amounts):
        """A row: contract.need(["m5.large"], 1000, cpu="8", memory="16Gi"); a name with a slash goes by amounts=."""
        row = self.Need(priority=priority, group=group, interruption_penalty_bucket=interruption,
                        reclamation_penalty_bucket=reclamation)
        if types:
            row.requirements.add(key="node.kubernetes.io/instance-type", operator=1, values=types)
        if same:
            row.requirements.add(key=same, operator=5)
        row.aggregate_resources.update(amounts.pop("amounts", {}), **amounts)
        row.min_unit.update(unit or {})
        return row


def credentials(tls):
    """(directory with ca.pem, NAME.pem and NAME.key.pem; NAME), as `musterctl cert` leaves them."""
    def read(name):
        with open(os.path.join(tls[0], name), "rb") as file:
            return file.read()
    return grpc.ssl_channel_credentials(read("ca.pem"), read(tls[1] + ".key.pem"), read(tls[1] + ".pem"))


class _Loop:
    """The thread in which all operators live."""
    lock = threading.Lock()
    loop = None

    @classmethod
    def run(cls, coroutine, deadline=DEADLINE):
        with cls.lock:
            if cls.loop is None:
                cls.loop = asyncio.new_event_loop()
                threading.Thread(target=cls.loop.run_forever, daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, cls.loop).result(deadline)


class Operator:
    def __init__(self, contract, address, cluster, tls=None, blob=b"blob", blob_delay=0, reads=True, hello=True,
                 compression=None, patient=True):
        self.contract, self.address, self.cluster, self.tls = contract, address, cluster, tls
        self.patient, self.closed = patient, False
        self.blob, self.blob_delay, self.reads, self.compression = blob, blob_delay, reads, compression
        self.frames, self.code, self.details = [], None, None
        self.changed = threading.Condition()
        _Loop.run(self._open())
        if hello:
            self.hello()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # -- sending --

    def hello(self, cluster=None, **more):
        """`more`: fields of muster's own."""
        frame = self.contract.FromOperator()
        frame.hello.cluster_id = self.cluster if cluster is None else cluster
        frame.hello.protocol_version = "v1alpha1"
        for name, value in more.items():
            setattr(frame.hello, name, value)
        self.send(frame)

    def rollup(self, needs, cluster=None, at_ns=None):
        frame = self.contract.FromOperator()
        frame.rollup.cluster_id = self.cluster if cluster is None else cluster
        frame.rollup.timestamp_unix_nanos = time.time_ns() if at_ns is None else at_ns
        frame.rollup.needs.extend(needs)
        self.send(frame)

    def answer(self, request_id, blob):
        self.send(self._blob_frame(request_id, blob))

    def reclaim_ack(self, instruction_id, nodes=1):
        frame = self.contract.FromOperator()
        frame.reclaim_ack.instruction_id = instruction_id
        frame.reclaim_ack.nodes_started = nodes
        self.send(frame)

    def send(self, frame):
        self.send_bytes(frame.SerializeToString())

    def send_bytes(self, frame):
        """A stream that has ended reports nothing: its code says why it ended."""
        _Loop.run(self._write(frame))

    def end(self):
        """No more from us; the shard ends the stream."""
        _Loop.run(self.call.done_writing())

    def close(self):
        self.closed = True
        _Loop.run(self._close())

    def check_open(self):
        """Ends every wait for an acknowledgement at once: nobody reads the stream any more."""
        if self.code is not None and not self.closed:
            raise AssertionError(f"{self.cluster}: its stream has ended with {self.code}: {self.details}")

    # -- receiving --

    def wait(self, wanted, count=1, deadline=DEADLINE):
        """The frames for which wanted(frame) holds, as soon as there are `count` of them."""
        def found():
            return [frame for frame in self.frames if wanted(frame)]
        with self.changed:
            if not self.changed.wait_for(lambda: len(found()) >= count or self.code is not None, deadline):
                raise AssertionError(f"{self.cluster}: not heard; {len(self.frames)} frames")
            got = found()
        if len(got) < count:
            raise AssertionError(f"{self.cluster}: ended with {self.code}: {self.details}")
        return got

    def wait_acks(self, echo, count=1):
        return self.wait(lambda frame: frame.ack.echo == echo, count)

    def states(self, machine=None):
        """(machine, state) of every NodeStateUpdate so far."""
        return [(f.node_state_update.machine_id, f.node_state_update.state) for f in list(self.frames)
                if f.HasField("node_state_update") and machine in (None, f.node_state_update.machine_id)]

    def wait_ended(self, deadline=DEADLINE):
        """The status the stream ended with."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.code is not None, deadline):
                raise AssertionError(f"{self.cluster}: the stream goes on")
        return self.code

    # -- in the thread of the loop --

    async def _open(self):
        options = [("grpc.max_receive_message_length", MESSAGE_MAX), ("grpc.max_send_message_length", MESSAGE_MAX),
                   ("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        self.channel = (grpc.aio.secure_channel(self.address, credentials(self.tls), options) if self.tls
                        else grpc.aio.insecure_channel(self.address, options))
        self.call = self.channel.stream_stream(SESSION)(compression=self.compression, wait_for_ready=self.patient)
        self.writing = asyncio.Lock()
        self.listener = asyncio.ensure_future(self._listen() if self.reads else self._mind())

    async def _write(self, frame):
        # One at a time: of two writes at once grpcio may lose one without a word.
        async with self.writing:
            try:
                await self.call.write(frame)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError, asyncio.CancelledError):
                pass

    async def _listen(self):
        try:
            while (bytes_ := await self.call.read()) is not grpc.aio.EOF:
                frame = self.contract.FromShard.FromString(bytes_)
                self._keep(frame)
                if frame.HasField("bootstrap_request"):
                    asyncio.ensure_future(self._answer(frame.bootstrap_request))
        except grpc.aio.AioRpcError:
            pass
        await self._mind()

    async def _mind(self):
        code = await self.call.code()
        details = await self.call.details()
        with self.changed:
            self.code, self.details = code, details
            self.changed.notify_all()

    def _keep(self, frame):
        with self.changed:
            self.frames.append(frame)
            self.changed.notify_all()

    async def _answer(self, request):
        blob = self.blob(request) if callable(self.blob) else self.blob
        if blob is None:
            return
        await asyncio.sleep(self.blob_delay)
        await self._write(self._blob_frame(request.request_id, blob).SerializeToString())

    def _blob_frame(self, request_id, blob):
        frame = self.contract.FromOperator()
        frame.bootstrap_response.request_id = request_id
        if isinstance(blob, Exception):
            frame.bootstrap_response.error = str(blob)
        else:
            frame.bootstrap_response.user_data = blob
            frame.bootstrap_response.ttl_seconds = 600
        return frame

    async def _close(self):
        self.call.cancel()
        await self.channel.close()


def inspect(contract, address, cluster="", limit=0, tls=None):
    """The header and the rows of InspectNeeds."""
    with (grpc.secure_channel(address, credentials(tls)) if tls else grpc.insecure_channel(address)) as channel:
        frames = list(channel.unary_stream(INSPECT, contract.Inspect.SerializeToString, contract.Inspected.FromString)(
            contract.Inspect(cluster_id=cluster, limit=limit), timeout=DEADLINE))
    return frames[0].header, [frame.need for frame in frames[1:]]
