# SPDX-License-Identifier: Apache-2.0
"""A cluster's operator in one file, to copy and change: put your cluster where `Cluster` is and keep the rest.

    python3 cluster_operator.py --proto ../../proto --shard 127.0.0.1:7780 --cluster cluster-a --demand demand.json

Needs grpcio, protobuf and protoc; the messages are made from the .proto files when it starts. docs/operators.md says what
every rule here is for. demand.json: [{"count": 3, "cpu": 16, "memory_gib": 64, "types": ["m5.4xlarge"], "priority": 10,
"group": "training-7", "same": "topology.kubernetes.io/zone"}, ...], read again every second. (Not called operator.py: Python
has a module of that name, and whatever lies beside this file would find it instead.)
"""
import argparse
import json
import math
import os
import queue
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SESSION = "/bigfleet.v1alpha1.Shard/Session"
IN, SAME = 1, 5
STATES = ("?", "SPECULATIVE", "CREATING", "IDLE", "CONFIGURING", "CONFIGURED", "DRAINING", "DELETING", "FAILED")
ROLLUP_SECONDS, PAUSE_FIRST, PAUSE_MOST = 10, 0.5, 30


class Cluster:
    """Replace this: your workloads, your machines."""

    def __init__(self, demand):
        self.path = demand

    def workloads(self):
        """All of them, each for its whole life. None: not known now, and then nothing is said."""
        try:
            with open(self.path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            print(f"demand not known: {error}", flush=True)
            return None

    def blob(self, cluster, request):
        """What a new machine is started with. Raise, and the machine fails with the text."""
        return f"#!/bin/sh\n# join {cluster}\n".encode()

    def cordon(self, machine):
        """No new work goes there from now on."""

    def drain(self, machine, grace_seconds):
        """Move what runs there; returns when it is empty, or after the grace."""

    def node(self, machine, state, error):
        """The newest word on a machine."""
        print(json.dumps({"machine": machine, "state": STATES[state] if state < len(STATES) else "?", "error": error}), flush=True)


def bucket(dollars):
    """Penalties are rounded up to a power of two; None is not said."""
    if dollars is None:
        return 0
    if dollars <= 0.5:
        return 1 if dollars <= 0 else 2
    return min(27, 3 + max(0, math.ceil(math.log2(dollars)))) if math.isfinite(dollars) else 27


def rows(Need, workloads):
    """One row for all that share a profile and a group: amounts added up, the largest unit of each dimension."""
    found = {}
    for load in workloads:
        unit = {"cpu": load.get("cpu", 0), "memory": load.get("memory_gib", 0)}
        profile = (tuple(sorted(load.get("types", ()))), load.get("priority", 0), bucket(load.get("interruption_penalty")),
                   bucket(load.get("reclamation_penalty")), load.get("same", ""), load.get("group", ""))
        row = found.setdefault(profile, {"total": dict.fromkeys(unit, 0), "unit": dict.fromkeys(unit, 0)})
        for name, amount in unit.items():
            row["total"][name] += amount * load.get("count", 1)
            row["unit"][name] = max(row["unit"][name], amount)
    for (types, priority, interruption, reclamation, same, group), row in found.items():
        need = Need(priority=priority, interruption_penalty_bucket=interruption, reclamation_penalty_bucket=reclamation)
        if types:
            need.requirements.add(key="node.kubernetes.io/instance-type", operator=IN, values=types)
        if same:
            need.requirements.add(key=same, operator=SAME)
            need.group = same + "\0" + group
        for into, amounts in ((need.aggregate_resources, row["total"]), (need.min_unit, row["unit"])):
            into.update({name: text(name, amount) for name, amount in amounts.items() if amount})
        yield need


def text(name, amount):
    return f"{amount}Gi" if name == "memory" else f"{amount}"


class Operator:
    def __init__(self, message, arguments):
        self.To, self.From = message("OperatorMessage"), message("ShardMessage")
        self.Need = message("CapacityNeed")
        self.cluster, self.arguments = Cluster(arguments.demand), arguments
        self.known = {}  # machine: state, as far as this session told

    def hello(self):
        frame = self.To()
        frame.hello.cluster_id, frame.hello.protocol_version = self.arguments.cluster, "v1alpha1"
        return frame

    def rollup(self, workloads):
        frame = self.To()
        frame.rollup.cluster_id, frame.rollup.timestamp_unix_nanos = self.arguments.cluster, time.time_ns()
        frame.rollup.needs.extend(rows(self.Need, workloads))
        return frame

    def frames(self, answers, over):
        """What we say: Hello, demand when it changed and every ten seconds, answers in between."""
        yield self.hello()
        said, due = None, 0.0
        while not over.is_set():
            workloads = self.cluster.workloads()
            if workloads is not None and (workloads != said or time.monotonic() >= due):
                yield self.rollup(workloads)
                said, due = workloads, time.monotonic() + ROLLUP_SECONDS
            try:
                yield answers.get(timeout=1)
            except queue.Empty:
                pass

    def hear(self, frame, answers):
        kind = frame.WhichOneof("payload")
        answer = self.To()
        if kind == "bootstrap_request":
            answer.bootstrap_response.request_id = frame.bootstrap_request.request_id
            try:
                answer.bootstrap_response.user_data = self.cluster.blob(self.arguments.cluster, frame.bootstrap_request)
                answer.bootstrap_response.ttl_seconds = 600
            except Exception as error:  # pylint: disable=broad-except
                answer.bootstrap_response.error = str(error) or "no blob"
            answers.put(answer)
        elif kind == "reclaim_instruction":
            order = frame.reclaim_instruction
            for machine in order.nodes:
                self.cluster.cordon(machine)
            answer.reclaim_ack.instruction_id, answer.reclaim_ack.nodes_started = order.instruction_id, len(order.nodes)
            answers.put(answer)
            for machine in order.nodes:  # its own thread: the shard goes on talking
                threading.Thread(target=self.cluster.drain, daemon=True,
                                 args=(machine, order.grace_period_seconds or 30)).start()
        elif kind == "node_state_update":
            update = frame.node_state_update
            self.known[update.machine_id] = update.state
            self.cluster.node(update.machine_id, update.state, update.last_error)
        elif kind == "ack":
            print(f"acknowledged: {frame.ack.echo}", flush=True)

    def session(self):
        """One stream, until it ends."""
        answers, over = queue.Queue(256), threading.Event()
        with channel(self.arguments) as open_channel:
            stream = open_channel.stream_stream(SESSION, self.To.SerializeToString, self.From.FromString)
            try:
                for frame in stream(self.frames(answers, over)):
                    self.hear(frame, answers)
            except grpc.RpcError as error:
                print(f"session ended: {error.code().name}: {error.details()}", flush=True)
            finally:
                over.set()

    def run(self):
        pause = PAUSE_FIRST
        while True:
            began = time.monotonic()
            self.known.clear()
            self.session()
            pause = PAUSE_FIRST if time.monotonic() - began > PAUSE_MOST else min(2 * pause, PAUSE_MOST)
            time.sleep(pause)


def channel(arguments):
    if not arguments.tls:
        return grpc.insecure_channel(arguments.shard)

    def read(ending):
        with open(arguments.tls + ending, "rb") as file:
            return file.read()
    with open(arguments.ca, "rb") as file:
        return grpc.secure_channel(arguments.shard, grpc.ssl_channel_credentials(file.read(), read(".key.pem"), read(".pem")))


def messages(root):
    """The classes of the contract, made from the .proto files."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "out")
        subprocess.run(["protoc", "-I", root, "--include_imports", "-o", out, "bigfleet/v1alpha1/shard.proto"], check=True)
        with open(out, "rb") as file:
            files = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.Add(each)

    def message(name):
        found = pool.FindMessageTypeByName("bigfleet.v1alpha1." + name)
        make = getattr(message_factory, "GetMessageClass", None)
        return make(found) if make else message_factory.MessageFactory(pool).GetPrototype(found)
    return message


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a cluster's operator, to copy and change")
    parser.add_argument("--proto", required=True, help="where bigfleet/v1alpha1/*.proto are")
    parser.add_argument("--shard", required=True, help="host:port")
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--demand", required=True, help="a JSON file")
    parser.add_argument("--tls", help="NAME: NAME.pem and NAME.key.pem of the cluster")
    parser.add_argument("--ca", help="the authority's certificate")
    given = parser.parse_args()
    Operator(messages(given.proto), given).run()
