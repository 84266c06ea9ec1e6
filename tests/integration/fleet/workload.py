# SPDX-License-Identifier: Apache-2.0
"""A load over the coordinators, and the judgement afterwards.

Writers assign domains, each once; another enters providers, and readers list those. Workload.judge pauses the load and
checks that the states are equal, each acknowledged assignment is there, no refused one is, and no read was older than
the acknowledgements before it. An assignment without an answer may be either (docs/coordinator.md: UNAVAILABLE without
x-muster-applied).
"""
import random
import threading
import time

import grpc

from coordinators import CHANNEL, COORDINATOR, FLEET, METHODS, Failed, Redialed, check, message, wait_for

CODE = grpc.StatusCode
SHARD, KEY = "load", "rack"
DEADLINE = 2.0  # of one call; what takes longer has an unknown outcome
OUTCOMES = ("done", "refused", "unknown")


def outcome_of(error):
    """The outcome of a write that failed: refused or unknown."""
    trailers = dict(error.trailing_metadata() or ())
    if trailers.get("x-muster-applied") == "no":
        return "refused"
    # NOT_FOUND, ALREADY_EXISTS and the like: the tables refused it. UNAVAILABLE without a server to take the
    # call is not distinguished from an answer that was lost.
    return "unknown" if error.code() in (CODE.UNAVAILABLE, CODE.DEADLINE_EXCEEDED, CODE.CANCELLED,
                                         CODE.UNKNOWN, CODE.INTERNAL) else "refused"


class Caller:
    """Calls the leader: goes where a follower points, else to any other. One per thread."""

    def __init__(self, cluster, rng):
        self.cluster, self.rng, self.channels = cluster, rng, {}
        self.address, self.avoid = None, None

    def pick(self):
        if self.address is None:
            places = [node.grpc for node in self.cluster.nodes]
            self.address = self.rng.choice([at for at in places if at != self.avoid] or places)
        if self.address not in self.channels:
            address, options = self.address, [*CHANNEL, ("grpc.use_local_subchannel_pool", 1)]
            self.channels[address] = Redialed(lambda: grpc.insecure_channel(address, options=options))
        return self.channels[self.address]

    def turn_away(self, error):
        """To the leader that was named, or to any other."""
        leader = dict(error.trailing_metadata() or ()).get("x-muster-leader")
        self.avoid, self.address = self.address, leader or None

    def call(self, path, **fields):
        """The answer; raises grpc.RpcError, and has turned to another replica then."""
        method = METHODS[path]
        stub = self.pick().unary_unary("/" + path, message(method.input_type).SerializeToString,
                                       message(method.output_type).FromString)
        try:
            return stub(message(method.input_type)(**fields), timeout=DEADLINE)
        except grpc.RpcError as error:
            if error.code() not in (CODE.NOT_FOUND, CODE.ALREADY_EXISTS, CODE.INVALID_ARGUMENT):
                self.turn_away(error)
            raise

    def close(self):
        for channel in self.channels.values():
            channel.close()


class Workload:
    def __init__(self, cluster, writers=4, readers=2, seed=1):
        self.cluster, self.halt, self.lock = cluster, threading.Event(), threading.Lock()
        self.rng, self.wrong = random.Random(seed), []
        self.domains = {outcome: set() for outcome in OUTCOMES}
        self.entered, self.reads = [], 0
        self.last = {}  # what each thread's last refused call got
        self.bodies = [self.writer] * writers + [self.enterer] + [self.reader] * readers
        self.threads = []

    def __enter__(self):
        self.cluster.asked(FLEET + "AddShard", shard_id=SHARD, address="load:1")  # asked twice it is there already
        self.go()
        return self

    def go(self):
        self.halt.clear()
        self.threads = [threading.Thread(target=self.run, args=(body, number, random.Random(self.rng.random())))
                        for number, body in enumerate(self.bodies)]
        for thread in self.threads:
            thread.start()

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        self.halt.set()
        for thread in self.threads:
            thread.join()

    def run(self, body, number, rng):
        caller = Caller(self.cluster, rng)
        try:
            while not self.halt.is_set():
                try:
                    body(caller, number)
                except grpc.RpcError as error:
                    self.last[f"{body.__name__} {number}"] = (f"{time.strftime('%T')} at {caller.avoid}: {error.code()}"
                                                              f" {error.details()}")
                    time.sleep(0.02)
        except Exception as error:  # a thread that dies must not be silence
            self.wrong.append(f"{body.__name__}: {type(error).__name__}: {error}")
        finally:
            caller.close()

    def writer(self, caller, number):
        with self.lock:
            value = f"w{number}-{sum(map(len, self.domains.values()))}-{time.monotonic_ns()}"
        try:
            caller.call(COORDINATOR + "AssignDomain", topology_key=KEY, topology_value=value, shard_id=SHARD)
        except grpc.RpcError as error:
            with self.lock:
                self.domains[outcome_of(error)].add(value)
            raise
        with self.lock:
            self.domains["done"].add(value)

    def enterer(self, caller, _number):
        """Rows that stay: whatever was entered before a read was asked must be in its answer."""
        name = f"p-{len(self.entered)}-{time.monotonic_ns()}"
        caller.call(FLEET + "UpsertProvider", provider={"name": name})
        with self.lock:
            self.entered.append(name)
        time.sleep(0.01)  # the list is read all the time

    def reader(self, caller, _number):
        if caller.rng.random() < 0.2:  # mostly the replica that answered last, a deposed leader perhaps
            caller.address = None
        caller.pick()
        asked = caller.address
        with self.lock:
            entered = len(self.entered)
        found = {row.name for row in caller.call(COORDINATOR + "ListProviders").providers}
        missing = [name for name in self.entered[:entered] if name not in found]
        self.reads += 1
        if missing:
            self.wrong.append(f"a read at {asked} misses {len(missing)} rows of {entered}: {missing[0]}")

    def count(self):
        return len(self.domains["done"])

    def progress(self, more=30):
        """Waits until so many more writes are acknowledged, and others and the readers got on."""
        mark, entered, reads = self.count(), len(self.entered), self.reads
        try:
            wait_for("progress under load", lambda: self.wrong or (
                self.count() >= mark + more and len(self.entered) > entered and self.reads > reads))
        except Failed as error:
            refusals = "; ".join(f"{who}: {what}" for who, what in sorted(self.last.items()))
            raise Failed(f"{error}: {self.count() - mark} writes of {more}, {len(self.entered) - entered} rows, "
                         f"{self.reads - reads} reads since; last refusals: {refusals}") from None

    def ask(self, path, **fields):
        """The answer of the present leader to an idempotent call."""
        def once():
            try:
                return (self.cluster.leader().call(path, **fields),)
            except grpc.RpcError as error:
                check(error.code() in (CODE.FAILED_PRECONDITION, CODE.UNAVAILABLE), f"{path}: {error}")
                return None
        return wait_for(f"an answer to {path}", once)[0]

    def judge(self):
        """After a fault; then the load goes on."""
        self.stop()
        check(not self.wrong, "; ".join(self.wrong[:3]))
        # What hung in a paused leader's socket may still be on its way; a last write by the leader of now is
        # behind all that can be committed before the states are compared.
        self.ask(FLEET + "UpsertProvider", provider={"name": "last-word"})
        self.cluster.agree()
        there = {row.topology_value for row in self.ask(COORDINATOR + "ListDomainAssignments").assignments
                 if row.topology_key == KEY}
        lost, risen = self.domains["done"] - there, self.domains["refused"] & there
        check(not lost, f"{len(lost)} acknowledged assignments are lost: {sorted(lost)[:3]}")
        check(not risen, f"{len(risen)} refused assignments are there: {sorted(risen)[:3]}")
        strange = there - set().union(*self.domains.values())
        check(not strange, f"assignments of nobody: {sorted(strange)[:3]}")
        providers = {row.name for row in self.ask(COORDINATOR + "ListProviders").providers}
        check(providers.issuperset(self.entered), f"lost: {sorted(set(self.entered) - providers)[:3]}")
        print("# " + ", ".join(f"{len(self.domains[name])} {name}" for name in OUTCOMES)
              + f", {len(self.entered)} rows, {self.reads} reads", flush=True)
        self.go()
