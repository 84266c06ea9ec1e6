# SPDX-License-Identifier: Apache-2.0
"""Random requests of one generator to two servers of the etcd API; their answers must be the same.

A sequence is data: all its numbers count from its begin (revisions from the base, leases by their
place), so it can be run again on the same servers, shortened, and printed. Before each sequence both key spaces are
emptied and compacted. The following may differ: ids in headers, how long a lease still has, in which order leases and their keys
are listed. Events are compared watcher by watcher, however they were divided into responses.

Cases are left out in which 3.4.23 answers by chance or against the specification: a watch from exactly the compacted
revision, and prev_kv of an event that was on its way during a compaction (C10; watchers are waited for before one); in
one transaction a deletion up to the end of all keys, and two transactions side by side, of which it does not see that
they meet (C3 Txn 6); the header of a transaction inside another, which it leaves empty (C2); a limit with
a target and no order to sort by, which it cuts by before it sorts (C3 Range 2); which of two mistakes in one put is
named.
"""
import queue
import random
import threading
import time

from cluster import PATIENCE, Failed, check, wait_for
from contracts import load, methods_of
import grpc

KEYS = [b"a", b"a\x00", b"a/", b"a/1", b"a/2", b"a0", b"b", b"b/x", b"c", b"\xff", b"\xff\xff"]
VALUES = [b"", b"1", b"2", b"22", b"\x00\xff"]
ENDS = [b"", b"", b"", b"a0", b"b", b"c", b"\x00", b"\xff\xff\xff", b"a"]
LEASES = 4
PB = "etcdserverpb."


class Contract:
    """Messages by name and how to call each method."""

    def __init__(self, protoc, root):
        self.files, self.message = load(protoc, root, "etcd/rpc.proto", "etcd/lock.proto", "etcd/election.proto")
        self.methods = methods_of(self.files)

    def __call__(self, name, **fields):
        return self.message(PB + name)(**fields)

    def stub(self, channel, path, kind="unary_unary"):
        method = self.methods[path]
        return getattr(channel, kind)("/" + path, self.message(method.input_type).SerializeToString,
                                      self.message(method.output_type).FromString)


# -- the generator: a sequence is a list of [what, arguments] --

def pick_range(rng):
    return {"key": rng.choice(KEYS + [b"\x00"]) if rng.random() < .98 else b"", "range_end": rng.choice(ENDS)}


def some_range(rng, at):
    out = pick_range(rng)
    if rng.random() < .3:
        out["limit"] = rng.choice([1, 2, 3, 100])
    if rng.random() < .3:
        out["revision"] = ["rev", rng.randint(-1, at + 2)]
    if rng.random() < .4:
        out["sort_order"], out["sort_target"] = rng.randint(0, 2), rng.randint(0, 4)
        if not out["sort_order"]:
            out.pop("limit", None)
    for name in ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision"):
        if rng.random() < .08:
            out[name] = ["rev", rng.randint(1, at + 1)]
    for name in ("serializable", "keys_only", "count_only"):
        if rng.random() < .12:
            out[name] = True
    return out


def some_put(rng):
    out = {"key": rng.choice(KEYS) if rng.random() < .98 else b"", "value": rng.choice(VALUES)}
    if rng.random() < .3:
        out["lease"] = ["lease", rng.randrange(LEASES)]
    if rng.random() < .3:
        out["prev_kv"] = True
    if rng.random() < .1 and "lease" not in out:
        out["ignore_value"] = True
        if rng.random() < .8:
            out["value"] = b""
    if rng.random() < .1:
        out["ignore_lease"] = True
    return out


def some_delete(rng):
    return {**pick_range(rng), **({"prev_kv": True} if rng.random() < .4 else {})}


def some_compare(rng, at):
    target = rng.randint(0, 4)
    name = ("version", "create_revision", "mod_revision", "value", "lease")[target]
    value = (rng.randint(0, 3), ["rev", rng.randint(1, at + 1)], ["rev", rng.randint(1, at + 1)], rng.choice(VALUES),
             ["lease", rng.randrange(LEASES)])[target]
    out = {"result": rng.randint(0, 3), "target": target, "key": rng.choice(KEYS) if rng.random() < .99 else b""}
    if rng.random() < .8:       # else: the union stays unset, which compares with nothing
        out[name] = value if rng.random() < .8 or target == 3 else 0
    if rng.random() < .15:
        out["range_end"] = rng.choice(ENDS)
    return out


def some_op(rng, at, depth):
    dice = rng.random()
    if dice < .4:
        return ["request_put", some_put(rng)]
    if dice < .7:
        return ["request_range", some_range(rng, at)]
    if dice < .9 or depth:
        found = some_delete(rng)
        if found["range_end"] == b"\x00":
            found["range_end"] = b"\xff\xff\xff"
        return ["request_delete_range", found]
    if dice < .99:
        return ["request_txn", some_txn(rng, at, depth + 1)]
    return ["nothing", {}]


def some_branch(rng, at, depth, counts):
    """Of several transactions inside one branch only the last stays."""
    found = [some_op(rng, at, depth) for _ in range(rng.choice(counts))]
    inside = [op for op in found if op[0] == "request_txn"]
    return [op for op in found if op not in inside[:-1]]


def some_txn(rng, at, depth=0):
    return {"compare": [some_compare(rng, at) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))],
            "success": some_branch(rng, at, depth, [0, 1, 1, 2, 3]),
            "failure": some_branch(rng, at, depth, [0, 0, 1, 2])}


def some_watch(rng, at):
    out = pick_range(rng)
    out["key"] = out["key"] or b"a"
    if rng.random() < .5:
        out["start_revision"] = ["rev", rng.randint(-1, at + 3)]
    if rng.random() < .4:
        out["prev_kv"] = True
    if rng.random() < .2:
        out["filters"] = [rng.randint(0, 1)]
    return out


def generate(seed, count):
    """A sequence of so many requests."""
    rng, found = random.Random(seed), []
    kinds = [("put", 26), ("range", 20), ("txn", 24), ("delete", 8), ("grant", 5), ("revoke", 3), ("ttl", 3),
             ("leases", 1), ("keepalive", 3), ("compact", 2), ("watch", 6), ("cancel", 2), ("sync", 2), ("short", 1)]
    names = [name for name, weight in kinds for _ in range(weight)]
    for at in range(count):
        name = rng.choice(names)
        found.append([name, {
            "put": lambda: some_put(rng), "range": lambda: some_range(rng, at), "txn": lambda: some_txn(rng, at),
            "delete": lambda: some_delete(rng), "watch": lambda: some_watch(rng, at),
            "grant": lambda: {"ID": ["lease", rng.randrange(LEASES)], "TTL": rng.choice([3600, 7200, 10 ** 10])},
            "revoke": lambda: {"ID": ["lease", rng.randrange(LEASES)]},
            "keepalive": lambda: {"ID": ["lease", rng.randrange(LEASES)]},
            "ttl": lambda: {"ID": ["lease", rng.randrange(LEASES)], "keys": rng.random() < .7},
            "compact": lambda: {"revision": ["rev", rng.randint(-1, at // 2 + 1)], "physical": rng.random() < .3},
            "cancel": lambda: {"watch_id": rng.randint(0, 6)},
        }.get(name, dict)()])
    return found


# -- one server --

class Watches:
    """The watch stream of a sequence; responses by watcher as they come."""

    def __init__(self, contract, channel):
        self.contract, self.requests, self.arrived = contract, queue.Queue(), threading.Condition()
        self.responses, self.failure, self.live, self.next_id = [], None, {}, 0
        self.call = contract.stub(channel, PB + "Watch/Watch", "stream_stream")(iter(self.requests.get, None))
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        try:
            for one in self.call:
                with self.arrived:
                    self.responses.append(one)
                    self.arrived.notify_all()
        except grpc.RpcError as error:
            with self.arrived:
                self.failure = error
                self.arrived.notify_all()

    def until(self, what, ready):
        """Waits until `ready` of the responses so far is true; returns its result."""
        with self.arrived:
            end = time.monotonic() + PATIENCE
            while not (found := ready(self.responses)):
                check(self.failure is None, f"the watch stream ended: {self.failure}")
                check(self.arrived.wait(max(0, end - time.monotonic())), f"waited for {what}: {self.responses[-3:]}")
            return found

    def create(self, request):
        known = len([r for r in self.responses if r.created])
        self.requests.put(self.contract("WatchRequest", create_request=request))
        return self.until("created", lambda all_: [r for r in all_ if r.created][known:])[0]

    def cancel(self, watch_id):
        self.requests.put(self.contract("WatchRequest", cancel_request={"watch_id": watch_id}))
        self.until("canceled", lambda all_: [r for r in all_ if r.watch_id == watch_id and r.canceled])

    def events(self, watch_id):
        return [(r, e) for r in self.responses if r.watch_id == watch_id for e in r.events]

    def close(self):
        self.requests.put(None)
        self.call.cancel()
        self.reader.join(PATIENCE)


class Server:
    """One side. `channels`: requests go round over them, so every replica is asked."""

    def __init__(self, name, contract, channels, spoil=None, serializable=True):
        self.name, self.contract, self.channels, self.spoil = name, contract, channels, spoil
        self.serializable = serializable
        self.turn = 0

    def ask(self, path, request, turn=None):
        channel = self.channels[(self.turn if turn is None else turn) % len(self.channels)]
        answer = self.contract.stub(channel, PB + path)(request, timeout=PATIENCE)
        return self.spoil(path, request, answer) if self.spoil else answer

    def begin(self, run):
        """Empty, compacted, without leases: where the sequence's revisions count from."""
        make = self.contract
        for lease in self.ask("Lease/LeaseLeases", make("LeaseLeasesRequest"), 0).leases:
            self.ask("Lease/LeaseRevoke", make("LeaseRevokeRequest", ID=lease.ID), 0)
        self.ask("KV/Put", make("PutRequest", key=b"base"), 0)
        everything = make("DeleteRangeRequest", key=b"\x00", range_end=b"\x00")
        self.base = self.ask("KV/DeleteRange", everything, 0).header.revision
        self.ask("KV/Compact", make("CompactionRequest", revision=self.base, physical=True), 0)
        self.run, self.compacted, self.watches = run, self.base, None

    def end(self):
        if self.watches:
            self.watches.close()

    # -- from the sequence's numbers to the server's and back --

    def put_in(self, value):
        if isinstance(value, list) and value[:1] == ["rev"]:
            return self.base + value[1]
        if isinstance(value, list) and value[:1] == ["lease"]:
            return self.run * 100 + value[1] + 1
        if isinstance(value, dict):
            return {name: self.put_in(each) for name, each in value.items()}
        if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):   # an op of a transaction
            if value[0] == "nothing":
                return self.contract("RequestOp")
            kind = {"request_put": "PutRequest", "request_range": "RangeRequest", "request_txn": "TxnRequest",
                    "request_delete_range": "DeleteRangeRequest"}[value[0]]
            return self.contract("RequestOp", **{value[0]: self.make(kind, value[1])})
        return [self.put_in(each) for each in value] if isinstance(value, list) else value

    def make(self, kind, fields):
        fields = dict(fields)
        if kind == "TxnRequest":
            fields["compare"] = [self.contract("Compare", **self.put_in(each)) for each in fields["compare"]]
        if kind == "RangeRequest" and not self.serializable:
            fields.pop("serializable", None)    # a replica may be behind: that is what was asked for
        return self.contract(kind, **self.put_in(fields))

    def revision(self, number):
        return number - self.base if number >= self.base else number

    def received(self, message):
        """The answer, with revisions counted from the base."""
        out = {}
        for field, value in message.ListFields():
            name = field.name
            if name == "header":
                out[name] = self.revision(value.revision)
            elif name in ("mod_revision", "create_revision", "compact_revision"):
                out[name] = self.revision(value)
            elif field.message_type is None:
                out[name] = list(value) if field.label == field.LABEL_REPEATED else value
            elif field.label == field.LABEL_REPEATED:
                out[name] = [self.received(each) for each in value]
            else:
                out[name] = self.received(value)
                if name == "response_txn":  # etcd's has no revision, against C2
                    out[name].pop("header")
        return out

    # -- the requests --

    def do(self, what, fields):
        self.turn += 1
        try:
            return getattr(self, "do_" + what)(fields)
        except grpc.RpcError as error:
            check(error.code() != grpc.StatusCode.DEADLINE_EXCEEDED, f"{self.name} does not answer {what} {fields}")
            return {"error": [str(error.code()), error.details()]}

    def do_put(self, fields):
        return self.received(self.ask("KV/Put", self.make("PutRequest", fields)))

    def do_range(self, fields):
        return self.received(self.ask("KV/Range", self.make("RangeRequest", fields)))

    def do_txn(self, fields):
        return self.received(self.ask("KV/Txn", self.make("TxnRequest", fields)))

    def do_delete(self, fields):
        return self.received(self.ask("KV/DeleteRange", self.make("DeleteRangeRequest", fields)))

    def do_compact(self, fields):
        seen = self.do_sync({})
        request = self.make("CompactionRequest", fields)
        answer = self.ask("KV/Compact", request)
        self.compacted = request.revision
        return [seen, self.received(answer)]

    def do_grant(self, fields):
        return self.received(self.ask("Lease/LeaseGrant", self.make("LeaseGrantRequest", fields)))

    def do_short(self, _):
        """A TTL below the least, and an id of the server's choice; gone before it could end by itself."""
        made = self.ask("Lease/LeaseGrant", self.contract("LeaseGrantRequest", TTL=1))
        self.ask("Lease/LeaseRevoke", self.contract("LeaseRevokeRequest", ID=made.ID))
        return {"ttl": made.TTL, "positive": made.ID > 0}

    def do_revoke(self, fields):
        return self.received(self.ask("Lease/LeaseRevoke", self.make("LeaseRevokeRequest", fields)))

    def do_keepalive(self, fields):
        requests = iter([self.make("LeaseKeepAliveRequest", fields)])
        channel = self.channels[self.turn % len(self.channels)]
        stub = self.contract.stub(channel, PB + "Lease/LeaseKeepAlive", "stream_stream")
        return [self.received(each) for each in stub(requests, timeout=PATIENCE)]

    def do_ttl(self, fields):
        answer = self.received(self.ask("Lease/LeaseTimeToLive", self.make("LeaseTimeToLiveRequest", fields)))
        if answer.get("TTL", 0) > 0:
            answer["TTL"] = "so long" if 0 <= answer["grantedTTL"] - answer["TTL"] <= 900 else answer["TTL"]
        answer["keys"] = sorted(answer.get("keys", []))
        return answer

    def do_leases(self, _):
        answer = self.received(self.ask("Lease/LeaseLeases", self.contract("LeaseLeasesRequest")))
        answer["leases"] = sorted(each["ID"] for each in answer.get("leases", []))
        return answer

    # -- watches --

    def do_watch(self, fields):
        if self.watches is None:
            self.watches = Watches(self.contract, self.channels[self.run % len(self.channels)])
        if not self.serializable:   # "from now on" is what the replica that is asked has applied
            now = self.ask("KV/Range", self.contract("RangeRequest", key=b"a")).header.revision
            there = self.contract("RangeRequest", key=b"a", serializable=True)
            wait_for("the replica is there", lambda: self.ask("KV/Range", there, self.run).header.revision >= now)
        request = self.make("WatchCreateRequest", fields)
        if request.start_revision == self.compacted:
            request.start_revision += 1
        made = self.watches.create(request)
        if made.canceled:
            return self.received(made)
        if 0 < request.start_revision < self.compacted:
            self.watches.until("compacted", lambda all_: [r for r in all_ if r.watch_id == made.watch_id and r.canceled])
        else:
            self.watches.live[made.watch_id] = request
        return self.seen(made.watch_id)["marks"]    # events may be there already, or later

    def seen(self, watch_id):
        """The events of this watcher so far; checks the rules that hold for one server alone."""
        last = 0
        for response in self.watches.responses:
            if response.watch_id != watch_id or not response.events:
                continue
            revisions = [event.kv.mod_revision for event in response.events]
            check(revisions == sorted(revisions) and revisions[0] > last,
                  f"{self.name}: events out of order or one revision in two responses: {revisions} after {last}")
            check(response.header.revision >= revisions[-1], f"{self.name}: a header older than its events: {response}")
            last = revisions[-1]
        marks = [[r.created, r.canceled, self.revision(r.compact_revision), r.cancel_reason]
                 for r in self.watches.responses if r.watch_id == watch_id and (r.created or r.canceled)]
        return {"marks": marks, "events": [self.received(event) for _, event in self.watches.events(watch_id)]}

    def do_sync(self, _):
        """A put and a deletion in the range of each watcher: when the last has come, all have come."""
        out = []
        for watch_id, request in sorted((self.watches.live if self.watches else {}).items()):
            put = self.ask("KV/Put", self.contract("PutRequest", key=request.key, value=b"sync")).header.revision
            gone = self.ask("KV/DeleteRange", self.contract("DeleteRangeRequest", key=request.key)).header.revision
            expected = gone if list(request.filters) == [0] else put
            if request.range_end and request.range_end != b"\x00" and request.range_end <= request.key:
                continue    # refused
            if expected >= request.start_revision:
                self.watches.until(f"revision {expected} by watcher {watch_id}", lambda _: [
                    1 for _, e in self.watches.events(watch_id) if e.kv.mod_revision >= expected])
            out.append([watch_id, self.seen_up_to(watch_id, expected)])
        return out

    def seen_up_to(self, watch_id, revision):
        seen = self.seen(watch_id)
        seen["events"] = [e for e in seen["events"] if e["kv"]["mod_revision"] <= revision - self.base]
        return seen

    def do_cancel(self, fields):
        if not self.watches or fields["watch_id"] not in self.watches.live:
            return "no such watcher"
        seen = self.do_sync({})
        del self.watches.live[fields["watch_id"]]
        self.watches.cancel(fields["watch_id"])
        return seen


# -- both --

class Difference(Failed):
    """At which request, and what each answered."""


def run_once(servers, run, sequence):
    """The first difference as (place, answers), or None."""
    for server in servers:
        server.begin(run)
    try:
        for place, (what, fields) in enumerate([*sequence, ["sync", {}]]):
            answers = [server.do(what, fields) for server in servers]
            if answers[0] != answers[1]:
                return place, answers
    finally:
        for server in servers:
            server.end()
    return None


class Differential:
    def __init__(self, left, right):
        self.servers, self.runs = (left, right), 0

    def differs(self, sequence):
        self.runs += 1
        return run_once(self.servers, self.runs, sequence)

    def shortest(self, sequence, tries=300):
        """Leaves out what the difference does not need: halves first, single requests last."""
        size = max(1, len(sequence) // 2)
        while tries > 0:
            at = 0
            while at < len(sequence) and tries > 0:
                shorter = sequence[:at] + sequence[at + size:]
                tries -= 1
                found = self.differs(shorter)
                if found:
                    sequence = shorter[:found[0] + 1]
                else:
                    at += size
            if size == 1:
                break
            size //= 2
        return sequence

    def compare(self, seed, count):
        """Raises Difference with the seed and the shortest sequence that shows it."""
        sequence = generate(seed, count)
        found = self.differs(sequence)
        if not found:
            return
        text = [f"seed {seed}, {count} requests: {self.servers[0].name} and {self.servers[1].name} differ at "
                f"{found[0]}", *answers_of(self.servers, [*sequence, ["sync", {}]], found)]
        small = self.shortest(sequence[:found[0] + 1])
        found = self.differs(small)
        text.append(f"the shortest found, {len(small)} requests" + ("" if found else " (which did not differ again)"))
        text += [f"  {what} {fields}" for what, fields in small]
        if found:
            text += answers_of(self.servers, [*small, ["sync", {}]], found)
        raise Difference("\n# ".join(text))


def answers_of(servers, sequence, found):
    place, answers = found
    return [f"  asked: {sequence[place]}", *(f"  {s.name}: {a}" for s, a in zip(servers, answers))]
