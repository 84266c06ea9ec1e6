#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A capacity provider on grpcio, from the contract, for the shard's tests.

As a program, a process of its own that outlives the shard:
    provider.py PROTOC PROTO_ROOT [options]     prints one line of JSON: {"address": ..., "control": ...}
From a test: `Process(PROTOC, PROTO_ROOT, "--machines", "100")`, then `.control("set", complete_ms={"Create": 500})`.

It keeps the rules of wire.md 3.2 and 8: states, fencing per (shard, machine) before everything but argument checks,
idempotency by machine and kind of call, revisions. Tests control the rest by SETTINGS
below: latencies, transitions that fail, calls that are refused, replies that are lost, garbage, machines that vanish.
Every mutating call it accepted is in its journal, in order, so a test can prove that nothing was done twice.
"""
import argparse
import asyncio
import json
import os
import random
import struct
import subprocess
import sys
import urllib.request

import grpc

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from contracts import load  # noqa: E402

CODE = grpc.StatusCode
SERVICE = "bigfleet.v1alpha1.CapacityProvider"
(UNSPECIFIED, SPECULATIVE, CREATING, IDLE, CONFIGURING, CONFIGURED, DRAINING, DELETING, FAILED) = range(9)
STATES = ("Unspecified", "Speculative", "Creating", "Idle", "Configuring", "Configured", "Draining", "Deleting", "Failed")
BARE_METAL, RESERVED, ON_DEMAND, SPOT = 1, 2, 3, 4
# kind of call: from, passing, final
MOVES = {"Create": (SPECULATIVE, CREATING, IDLE), "Configure": (IDLE, CONFIGURING, CONFIGURED),
         "Drain": (CONFIGURED, DRAINING, IDLE), "Delete": (IDLE, DELETING, SPECULATIVE)}

# What a test may set, by --set NAME=JSON or {"op": "set"}. A number counts for every kind of call; an object
# {"Create": 1, "List": 2, "": 0} per kind, "" for the rest.
SETTINGS = {
    "mode": "async",        # async: the ack shows the passing state. sync: it comes when all is done
    "latency_ms": 0,        # before a call is looked at (List and Get too)
    "complete_ms": 0,       # from acceptance to the final state
    "fail_rate": 0,         # of transitions that end in Failed
    "refuse_rate": 0,       # of calls answered with refuse_status, nothing done
    "refuse_status": "RESOURCE_EXHAUSTED",
    "refuse_text": "by order of the test",
    "lose_rate": 0,         # of calls that are done and never answered
    "ignore_rate": 0,       # of calls that are neither done nor answered
    "garbage": {},          # "Ack"/"Get"/"List": one of GARBAGE; of a List its first garbage_count machines
    "garbage_count": 1,
    "hold": False,          # Configuring machines wait for node_ready
    "no_delete": False,     # Delete is UNIMPLEMENTED
    "revisions": True,      # List has a revision, and understands since_revision
    "tombstones": True,     # ... and says what is gone
    "page_max": 0,          # pages are never longer than this; 0: as the client asks
    "pages": 0,             # pages of so many, though nobody asked for pages
    "next_page": "",        # what every page calls the next one, instead of its name, and there is always one
    "truncate_list": 0,     # cuts so many bytes off the end of a List
    "empty_list": False,    # a List with nothing in it
    "require_identity": False,  # with TLS: bigfleet://shard/<shard_id of the request>
}

CATALOGUE = [  # type, capacity type, price, interruption, resources, share
    ("m5.large", ON_DEMAND, 0.096, 0.0, {"cpu": "2", "memory": "8Gi"}, 20),
    ("m5.4xlarge", ON_DEMAND, 0.768, 0.0, {"cpu": "16", "memory": "64Gi"}, 20),
    ("m5.4xlarge", SPOT, 0.29, 0.05, {"cpu": "16", "memory": "64Gi"}, 20),
    ("c5.9xlarge", RESERVED, 0.9, 0.0, {"cpu": "36", "memory": "72Gi"}, 15),
    ("g5.48xlarge", ON_DEMAND, 16.3, 0.0, {"cpu": "192", "memory": "768Gi", "nvidia.com/gpu": "8"}, 10),
    ("metal-64", BARE_METAL, 1.2, 0.0, {"cpu": "64", "memory": "256Gi"}, 15),
]
ZONES = ("eu-1a", "eu-1b", "eu-1c")


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def double(number, value):
    return varint(number << 3 | 1) + struct.pack("<d", value)


def entry(number, key, value):
    return field(number, field(1, key) + field(2, value))


# What is put behind a sound record; a later field wins over an earlier one, and map entries add up.
GARBAGE = {
    "nan_price": lambda m: m + double(7, float("nan")),
    "infinite_price": lambda m: m + double(7, float("inf")),
    "negative_price": lambda m: m + double(7, -1.0),
    "probability_2": lambda m: m + double(8, 2.0),
    "unknown_state": lambda m: m + b"\x10\x63",
    "unknown_type": lambda m: m + b"\x30\x63",
    "no_state": lambda m: m + b"\x10\x00",
    "no_id": lambda m: m + field(1, b""),
    "long_id": lambda m: m + field(1, b"x" * 300),
    "bad_utf8": lambda m: m + field(5, b"\xff\xfe"),
    "big_labels": lambda m: m + entry(10, b"big", b"x" * (10 << 20)),
    "label_twice": lambda m: m + entry(10, b"twice", b"1") + entry(10, b"twice", b"2"),
    "negative_cpu": lambda m: m + field(13, entry(1, b"cpu", b"-4")),
    "bad_quantity": lambda m: m + field(13, entry(1, b"cpu", b"lots")),
    "cut_record": lambda m: m[:-1] + b"\xff",
}


class Refused(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code, self.text = code, text


class Machine:
    def __init__(self, message):
        self.message, self.revision, self.packed = message, 0, None

    def bytes(self):
        if self.packed is None:
            self.packed = self.message.SerializeToString()
        return self.packed


class Provider:
    def __init__(self, message, seed=1, journal=None):
        self.under_way = self.most_under_way = 0
        self.messages, self.new = message, lambda name: message("bigfleet.v1alpha1." + name)()
        self.settings = dict(SETTINGS)
        self.random = random.Random(seed)
        self.machines = {}
        self.revision, self.removed = 1, []  # removed: (revision, id), oldest first
        self.operations, self.fences = {}, {}
        self.accepted, self.calls, self.operation = [], {}, 0
        self.journal = open(journal, "a", encoding="utf-8", buffering=1) if journal else None
        self.made = 0
        self.waiting_for_node = {}

    def set(self, **settings):
        for name, value in settings.items():
            if name not in SETTINGS:
                raise ValueError(f"no setting {name}")
            self.settings[name] = value

    def of(self, name, kind):
        """A setting as it counts for this kind of call."""
        value = self.settings[name]
        return value.get(kind, value.get("", 0)) if isinstance(value, dict) else value

    def chance(self, name, kind):
        rate = self.of(name, kind)
        return rate > 0 and self.random.random() < rate

    # -- the table --

    def touch(self, machine):
        self.revision += 1
        machine.revision, machine.packed = self.revision, None

    def seed(self, count, idle=0.0):
        """`count` more machines of the catalogue; this share of them Idle, the rest Speculative."""
        weights = [kind[-1] for kind in CATALOGUE]
        for _ in range(count):
            name, capacity, price, interruption, resources, _ = self.random.choices(CATALOGUE, weights)[0]
            self.made += 1
            m = self.new("Machine")
            m.id, m.instance_type, m.zone = f"m-{self.made:06}", name, self.random.choice(ZONES)
            m.capacity_type, m.price_per_hour, m.interruption_probability = capacity, price, interruption
            m.resources.resources.update(resources)
            m.labels["topology.bigfleet/rack"] = f"rack-{self.made // 20}"
            m.labels["topology.kubernetes.io/region"] = "eu-1"
            machine = self.machines[m.id] = Machine(m)
            self.place(machine, IDLE if self.random.random() < idle else SPECULATIVE)

    def place(self, machine, state, error=""):
        """What belongs to a state comes and goes with it."""
        m = machine.message
        m.state, m.last_error = state, error
        if state in (SPECULATIVE, CREATING):
            m.ClearField("host")
        elif not m.HasField("host"):
            m.host.provider, m.host.ref = "test", "host-" + m.id
        if state in (SPECULATIVE, CREATING, IDLE, DELETING):
            m.ClearField("cluster")
            m.ClearField("shard_metadata")
        self.touch(machine)

    def remove(self, machine_id):
        """Gone for good, with a tombstone."""
        del self.machines[machine_id]
        self.revision += 1
        self.removed.append((self.revision, machine_id))

    def reclaim(self, how, count=0, fraction=0.0, states=(IDLE, CONFIGURED), capacity=SPOT):
        """A wave: Failed, back to Speculative, or removed. The ids."""
        chosen = [m for m in self.machines.values()
                  if m.message.state in states and m.message.capacity_type == capacity]
        self.random.shuffle(chosen)
        chosen = chosen[:count or int(len(chosen) * fraction + 0.5)]
        for machine in chosen:
            if how == "removed":
                self.remove(machine.message.id)
            elif how == "failed":
                self.place(machine, FAILED, "spot instance was reclaimed")
            else:
                self.place(machine, SPECULATIVE)
        return [m.message.id for m in chosen]

    # -- the mutating calls --

    def fence(self, request):
        if not request.shard_id:
            return
        key, token = (request.shard_id, request.machine_id), (request.shard_epoch, request.sequence_number)
        mark = self.fences.get(key)
        if mark is not None and token <= mark:
            raise Refused(CODE.FAILED_PRECONDITION, f"{key[0]} on {key[1]}: {token} is not newer than {mark}")
        self.fences[key] = token

    def count(self, kind, what):
        self.calls[f"{kind}.{what}"] = self.calls.get(f"{kind}.{what}", 0) + 1

    def ack(self, operation, machine):
        ack = self.new("TransitionAck")
        ack.operation_id = operation
        ack.machine.CopyFrom(machine.message)
        return ack

    def look(self, kind, request):
        """The machine, and the operation of which this is a repeat or None."""
        if not request.machine_id:
            raise Refused(CODE.INVALID_ARGUMENT, "machine_id required")
        self.fence(request)
        if kind == "Delete" and self.settings["no_delete"]:
            raise Refused(CODE.UNIMPLEMENTED, "machines here stay")
        machine = self.machines.get(request.machine_id)
        if machine is None:
            raise Refused(CODE.NOT_FOUND, f"no machine {request.machine_id}")
        before, passing, final = MOVES[kind]
        operation = self.operations.get((request.machine_id, kind))
        if operation and machine.message.state in (passing, final):
            return machine, operation
        if machine.message.state != before:
            raise Refused(CODE.INTERNAL, f"{kind} of a machine that is {STATES[machine.message.state]}")
        return machine, None

    def accept(self, kind, request, machine):
        self.operation += 1
        operation = self.operations[(request.machine_id, kind)] = f"op-{self.operation}"
        line = {"n": len(self.accepted) + 1, "kind": kind, "machine": request.machine_id, "shard": request.shard_id,
                "epoch": request.shard_epoch, "sequence": request.sequence_number, "operation": operation,
                "cluster": getattr(request, "cluster_id", machine.message.cluster)}
        if kind == "Configure":
            line["blob"] = request.bootstrap_blob.decode("utf-8", "replace")[:4096]
        self.accepted.append(line)
        if self.journal:
            self.journal.write(json.dumps(line) + "\n")
        if kind == "Configure":
            machine.message.cluster = request.cluster_id
            machine.message.shard_metadata.clear()
            machine.message.shard_metadata.update(request.shard_metadata)
        self.place(machine, MOVES[kind][1])
        return operation

    async def finish(self, kind, machine):
        """The rest of a transition."""
        await asyncio.sleep(self.of("complete_ms", kind) / 1000)
        if kind == "Configure" and self.settings["hold"]:
            event = self.waiting_for_node[machine.message.id] = asyncio.Event()
            await event.wait()
        if self.machines.get(machine.message.id) is not machine or machine.message.state != MOVES[kind][1]:
            return  # reclaimed or removed meanwhile
        if self.chance("fail_rate", kind):
            self.place(machine, FAILED, f"{kind} failed by order of the test")
        else:
            self.place(machine, MOVES[kind][2])

    async def mutate(self, kind, request):
        if self.chance("ignore_rate", kind):
            self.count(kind, "ignored")
            await asyncio.Event().wait()
        if self.chance("refuse_rate", kind):
            self.count(kind, "refused")
            raise Refused(CODE[self.settings["refuse_status"]], self.settings["refuse_text"])
        try:
            machine, operation = self.look(kind, request)
        except Refused as no:
            self.count(kind, no.code.name)
            raise
        self.count(kind, "repeated" if operation else "accepted")
        if operation is None:
            operation = self.accept(kind, request, machine)
            rest = asyncio.ensure_future(self.finish(kind, machine))
            if self.settings["mode"] == "sync":
                await asyncio.shield(rest)
        if self.chance("lose_rate", kind):
            self.count(kind, "lost")
            await asyncio.Event().wait()
        return self.spoil_ack(self.ack(operation, machine))

    def spoil_ack(self, ack):
        how = self.of("garbage", "Ack") if self.settings["garbage"] else 0
        if not how:
            return ack.SerializeToString()
        if how == "bytes":
            return b"\xff\xff\xff\xff"
        if how == "no_machine":
            return field(1, b"op")
        return field(1, ack.operation_id.encode()) + field(2, GARBAGE[how](ack.machine.SerializeToString()))

    # -- the reading calls --

    async def get(self, request):
        if not request.id:
            raise Refused(CODE.INVALID_ARGUMENT, "id required")
        if request.id not in self.machines:
            raise Refused(CODE.NOT_FOUND, f"no machine {request.id}")
        how = self.of("garbage", "Get") if self.settings["garbage"] else 0
        record = self.machines[request.id].bytes()
        return GARBAGE[how](record) if how else record

    def since(self, request):
        """The revision a delta begins after; 0: everything."""
        if not self.settings["revisions"] or not request.since_revision:
            return 0
        try:
            return int(request.since_revision)
        except ValueError:
            return 0

    async def list(self, request):
        if any(state < 0 or state > FAILED for state in request.states):
            raise Refused(CODE.INVALID_ARGUMENT, "unknown state")
        first, start, since = self.revision, "", self.since(request)
        if request.page_token:
            revision, _, start = request.page_token.decode().partition(":")
            first = int(revision) if revision.isdigit() else first
        chosen = [m for m in self.machines.values() if m.revision > since and
                  (not request.states or m.message.state in request.states)]
        if self.settings["empty_list"]:
            chosen = []
        if request.max_results > 0:
            chosen = chosen[:request.max_results]
        size, tail = request.page_size or self.settings["pages"], b""
        if size > 0 and self.settings["page_max"]:
            size = min(size, self.settings["page_max"])
        if size > 0:  # by id, so that a page begins where the last one ended whatever happened meanwhile
            chosen = sorted((m for m in chosen if m.message.id > start), key=lambda m: m.message.id)
            if len(chosen) > size:
                chosen = chosen[:size]
                tail = b"\xb0\x06\x01" + field(103, f"{first}:{chosen[-1].message.id}".encode())
        if self.settings["next_page"]:
            tail = b"\xb0\x06\x01" + field(103, self.settings["next_page"].encode())
        if self.settings["revisions"]:
            tail += field(2, str(first).encode())
            if self.settings["tombstones"]:
                tail += b"\xa8\x06\x01" + b"".join(field(100, name.encode()) for revision, name in self.removed
                                                   if since and revision > since and name not in self.machines)
        records = [m.bytes() for m in chosen]
        how = self.of("garbage", "List") if self.settings["garbage"] and not start else 0
        if how == "duplicates":
            records = records[:self.settings["garbage_count"]] + records
        elif how:
            for i in range(min(self.settings["garbage_count"], len(records))):
                records[i] = GARBAGE[how](records[i])
        answer = b"".join(b"\x0a" + varint(len(r)) + r for r in records) + tail
        cut = self.settings["truncate_list"]
        return answer[:-cut] if cut else answer

    # -- serving --

    def check_identity(self, request, context):
        if not self.settings["require_identity"] or not hasattr(request, "shard_id"):
            return
        names = context.auth_context().get("x509_subject_alternative_name", [])
        uris = [name.decode() for name in names if name.startswith(b"bigfleet:")]
        if uris != ["bigfleet://shard/" + request.shard_id]:
            raise Refused(CODE.PERMISSION_DENIED, f"{uris} is not shard {request.shard_id}")

    def handler(self, kind, type_name, work):
        async def handle(data, context):
            request = self.new(type_name)
            self.count(kind, "called")
            try:
                request.ParseFromString(data)
            except Exception:
                await context.abort(CODE.INTERNAL, "cannot be read")
            if kind in MOVES:
                self.under_way += 1
                self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                if self.of("latency_ms", kind):
                    await asyncio.sleep(self.of("latency_ms", kind) / 1000)
                self.check_identity(request, context)
                return await work(request)
            except Refused as no:
                await context.abort(no.code, no.text)
            finally:
                self.under_way -= kind in MOVES

        return grpc.unary_unary_rpc_method_handler(handle)

    def handlers(self):
        methods = {kind: self.handler(kind, kind + "Request", lambda request, kind=kind: self.mutate(kind, request))
                   for kind in MOVES}
        methods["Get"] = self.handler("Get", "MachineRef", self.get)
        methods["List"] = self.handler("List", "ListFilter", self.list)
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    # -- control by the test --

    def control(self, op, **args):
        return getattr(self, "control_" + op)(**args)

    def control_reset(self, machines=0, idle=0.0, **settings):
        """Another provider in its place: no machine, mark, journal or setting of before."""
        self.__init__(self.messages, 1)
        self.set(**settings)
        self.seed(machines, idle)

    def control_set(self, **settings):
        self.set(**settings)

    def control_machines(self, states=()):
        return [{"id": m.message.id, "state": STATES[m.message.state], "cluster": m.message.cluster,
                 "type": m.message.instance_type, "zone": m.message.zone, "error": m.message.last_error,
                 "metadata": dict(m.message.shard_metadata)}
                for m in self.machines.values() if not states or STATES[m.message.state] in states]

    def control_counts(self):
        counts = dict.fromkeys(STATES, 0)
        for m in self.machines.values():
            counts[STATES[m.message.state]] += 1
        return counts

    def control_journal(self, since=0):
        return self.accepted[since:]

    def control_calls(self):
        return self.calls

    def control_most_under_way(self):
        """Calls that change a machine, at once, since the start."""
        return self.most_under_way

    def control_reclaim(self, how="failed", count=0, fraction=0.0):
        return self.reclaim(how, count, fraction)

    def control_node_ready(self, ids=None):
        for name in ids or list(self.waiting_for_node):
            self.waiting_for_node.pop(name).set()

    def control_add(self, count, idle=0.0):
        self.seed(count, idle)

    def control_remove(self, ids):
        for name in ids:
            self.remove(name)

    def control_place(self, machine, state, error="", cluster=""):
        found = self.machines[machine]
        if cluster:
            found.message.cluster = cluster
        self.place(found, STATES.index(state), error)


# -- the program --

async def answer_control(provider, reader, writer):
    """One request of HTTP/1.1: POST of {"op": ..., arguments}, answered by JSON."""
    try:
        length = 0
        while (line := (await reader.readline()).strip()):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        try:
            body, status = json.dumps(provider.control(**json.loads(await reader.readexactly(length)))), "200 OK"
        except Exception as error:  # the test's mistake: it shall read what
            body, status = json.dumps(f"{type(error).__name__}: {error}"), "400 Bad Request"
        body = body.encode()
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        await writer.drain()
    finally:
        writer.close()


async def serve(options):
    _, message = load(options.protoc, os.path.abspath(options.root), "bigfleet/v1alpha1/provider.proto")
    provider = Provider(message, options.seed, options.journal)
    provider.set(**{name: json.loads(value) for name, _, value in (word.partition("=") for word in options.set)})
    provider.seed(options.machines, options.idle)
    unlimited = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1),
                 ("grpc.so_reuseport", 0)]
    if options.streams_max:
        unlimited.append(("grpc.max_concurrent_streams", options.streams_max))
    server = grpc.aio.server(options=unlimited)
    server.add_generic_rpc_handlers((provider.handlers(),))
    if options.cert:
        pem = [open(name, "rb").read() for name in (options.key, options.cert, options.ca)]
        port = server.add_secure_port(options.listen, grpc.ssl_server_credentials([tuple(pem[:2])], pem[2], True))
    else:
        port = server.add_insecure_port(options.listen)
    await server.start()
    side = await asyncio.start_server(lambda r, w: answer_control(provider, r, w), "127.0.0.1", 0)
    host = options.listen.rsplit(":", 1)[0]
    print(json.dumps({"address": f"{host}:{port}",
                      "control": "127.0.0.1:%d" % side.sockets[0].getsockname()[1]}), flush=True)
    # It ends with its parent, however the parent ends.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


class Process:
    """The program, run by a test; it ends with the test."""

    def __init__(self, protoc, root, *words, python=sys.executable):
        self.process = subprocess.Popen([python, os.path.abspath(__file__), protoc, root, *words],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ready = self.process.stdout.readline()
        if not ready:
            raise RuntimeError(f"the provider did not start: {self.process.wait()}")
        self.__dict__.update(json.loads(ready))
        self.control_address = self.__dict__.pop("control")

    def control(self, op, **args):
        request = urllib.request.Request(f"http://{self.control_address}/", json.dumps({"op": op, **args}).encode())
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return json.load(answer)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("protoc")
    parser.add_argument("root")
    parser.add_argument("--listen", default="127.0.0.1:0")
    parser.add_argument("--machines", type=int, default=0)
    parser.add_argument("--idle", type=float, default=0.0, help="share of them that is Idle; the rest is Speculative")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--streams-max", type=int, default=0)
    parser.add_argument("--journal", help="a file for what was accepted, a line of JSON each")
    for name in ("cert", "key", "ca"):
        parser.add_argument("--" + name)
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
