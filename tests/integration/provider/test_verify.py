#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`musterctl provider verify` against a provider that keeps the contract, and against many that break one rule of it.

usage: test_verify.py DRIVER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

Each planted fault is tests/lib/provider.py with one faulty method, and the list of exactly the checks that must fail.
"""
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading

try:
    import grpc
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTERCTL, PROTOC, ROOT = sys.argv[2:5]
ONLY = next((word for word in sys.argv[5:] if not word.startswith("--")), "")
sys.path += [os.path.join(HERE, "../../lib"), os.path.join(HERE, "../log")]
from cluster import PATIENCE, check, run_cases, wait_for  # noqa: E402
from contracts import load  # noqa: E402
import provider as double  # noqa: E402
from provider import CODE, CONFIGURED, CREATING, DRAINING, FAILED, IDLE, MOVES, SPECULATIVE, Provider, Refused  # noqa: E402

_, message = load(PROTOC, ROOT, "bigfleet/v1alpha1/provider.proto")


class Server(grpc.GenericRpcHandler):
    """One address for all of them; `provider` is the one that answers."""

    def __init__(self):
        self.provider, self.address, up = None, None, threading.Event()

        async def serve():
            self.loop = asyncio.get_running_loop()
            server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
            server.add_generic_rpc_handlers((self,))
            self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            await server.start()
            up.set()
            await server.wait_for_termination()

        threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
        up.wait()

    def service(self, details):
        return self.provider.handlers().service(details)


SERVER = Server()


def verify(provider, *words, wait="5m"):
    """Exit code, the document, and what it said beside it."""
    SERVER.provider = provider
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    ran = subprocess.run([MUSTERCTL, "provider", "verify", SERVER.address, "--json", "--wait", wait, *words],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, timeout=3 * PATIENCE)
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else None, ran.stderr


def made(kind=Provider, machines=6, idle=0.0, **settings):
    provider = kind(message)
    provider.set(complete_ms=5, **settings)
    provider.seed(machines, idle)
    return provider


def facts(document, result):
    return {fact["id"] for fact in document["facts"] if fact["result"] == result}


# -- faults: what must fail, and the provider --

FAULTS = []


def fault(*ids, wait="5m"):
    def keep(kind):
        FAULTS.append((kind, set(ids), wait))
        return kind
    return keep


@fault("P1", "P2", "P3", "P4", "P7", "F1")
class NoFence(Provider):
    """fences nothing"""
    def fence(self, request):
        pass


@fault("P1", "P2", "P3", "P4", "P7", "F1")
class NoFenceAtOnce(NoFence):
    """fences nothing, and has done what it took before it answers"""
    def accept(self, kind, request, machine):
        operation = super().accept(kind, request, machine)
        self.place(machine, MOVES[kind][2])
        return operation


@fault("P4")
class OneMark(Provider):
    """one mark for all machines of a shard"""
    def fence(self, request):
        if request.shard_id:
            token = (request.shard_epoch, request.sequence_number)
            if token <= self.fences.get(request.shard_id, (0, 0)):
                raise Refused(CODE.FAILED_PRECONDITION, "not newer")
            self.fences[request.shard_id] = token


@fault("P1", "P2", "P3", "P4", "P7")
class RepeatFirst(Provider):
    """looks for a repeat before it looks at the token"""
    def look(self, kind, request):
        machine = self.machines.get(request.machine_id)
        operation = self.operations.get((request.machine_id, kind))
        if machine and operation and machine.message.state in MOVES[kind][1:]:
            return machine, operation
        return super().look(kind, request)


@fault("P2", "P4", "P7")
class AnyEpoch(Provider):
    """takes a high number of an old epoch"""
    def fence(self, request):
        key, token = (request.shard_id, request.machine_id), (request.shard_epoch, request.sequence_number)
        mark = self.fences.get(key, (0, 0))
        if request.shard_id and token[0] <= mark[0] and token[1] <= mark[1]:
            raise Refused(CODE.FAILED_PRECONDITION, "not newer")
        self.fences[key] = max(mark, token)


@fault("F1")
class Forgetful(Provider):
    """forgets the token of a call that it refused"""
    def look(self, kind, request):
        marks = dict(self.fences)
        try:
            return super().look(kind, request)
        except Refused:
            self.fences = marks
            raise


@fault("F2")
class WantsToken(Provider):
    """refuses a call without a shard id"""
    def fence(self, request):
        if not request.shard_id:
            raise Refused(CODE.FAILED_PRECONDITION, "who are you?")
        super().fence(request)


@fault("P6")
class FencedReading(Provider):
    """lets nobody read after it fenced somebody"""
    fenced = 0

    def fence(self, request):
        try:
            super().fence(request)
        except Refused:
            self.fenced += 1
            raise

    async def get(self, request):
        if self.fenced == 4:  # the third after the first change
            raise Refused(CODE.FAILED_PRECONDITION, "fenced")
        return await super().get(request)


@fault("P7")
class ObeysDeposed(Provider):
    """says that a deposed shard is fenced, and does what it wants"""
    def fence(self, request):
        try:
            super().fence(request)
        except Refused:
            if request.sequence_number == 999 and hasattr(request, "cluster_id"):
                self.machines[request.machine_id].message.price_per_hour = 7
                self.touch(self.machines[request.machine_id])
            raise


@fault("B9", "B10")
class WrongCode(Provider):
    """refuses a wrong state with the code of the fence"""
    def look(self, kind, request):
        try:
            return super().look(kind, request)
        except Refused as no:
            raise Refused(CODE.FAILED_PRECONDITION if no.code == CODE.INTERNAL else no.code, no.text) from no


@fault("B10")
class DeletesNodes(Provider):
    """deletes a machine that serves a cluster"""
    def look(self, kind, request):
        machine = self.machines.get(request.machine_id)
        if kind == "Delete" and machine and machine.message.state == CONFIGURED:
            self.fence(request)
            return machine, None
        return super().look(kind, request)


@fault("B2")
class NewOperations(Provider):
    """has a new operation for every repeat"""
    def ack(self, operation, machine):
        self.operation += 1
        return super().ack(f"op-{self.operation}-again", machine)


@fault("A2")
class NoOperation(Provider):
    """answers without an operation"""
    def ack(self, operation, machine):
        return super().ack("", machine)


@fault("O1")
class OneOperation(Provider):
    """has one operation for all the Configures of a machine"""
    def accept(self, kind, request, machine):
        super().accept(kind, request, machine)
        self.operations[(request.machine_id, kind)] = f"{kind}-{request.machine_id}"
        return f"{kind}-{request.machine_id}"


@fault("B13", "D1")
class CutsAtNul(Provider):
    """keeps metadata in strings that end at NUL"""
    def accept(self, kind, request, machine):
        operation = super().accept(kind, request, machine)
        for key, value in machine.message.shard_metadata.items():
            machine.message.shard_metadata[key] = value.partition("\0")[0]
        return operation


@fault("B13")
class BindsLate(Provider):
    """stores the cluster when the node is ready, not when it says yes"""
    def accept(self, kind, request, machine):
        operation = super().accept(kind, request, machine)
        if kind == "Configure":
            machine.later = (request.cluster_id, dict(request.shard_metadata))
            machine.message.ClearField("cluster")
            machine.message.shard_metadata.clear()
        return operation

    def place(self, machine, state, error=""):
        if state == CONFIGURED:
            machine.message.cluster, given = machine.later
            machine.message.shard_metadata.update(given)
        super().place(machine, state, error)


@fault("B14")
class KeepsMetadata(Provider):
    """keeps the metadata after a Drain"""
    def place(self, machine, state, error=""):
        kept = dict(machine.message.shard_metadata)
        super().place(machine, state, error)
        if state == IDLE:
            machine.message.shard_metadata.update(kept)


@fault("D1")
class ForgetsMetadata(Provider):
    """forgets the metadata when a Drain begins"""
    def place(self, machine, state, error=""):
        super().place(machine, state, error)
        if state == DRAINING:
            machine.message.shard_metadata.clear()


@fault("B8")
class SameRevision(Provider):
    """has the same revision after a change"""
    async def list(self, request):
        self.revision = 1000
        return await super().list(request)


@fault("B8")
class LosesChanges(Provider):
    """leaves the change out of the List that follows it"""
    def since(self, request):
        return 1 << 40 if super().since(request) else 0


@fault("B5")
class NoFilter(Provider):
    """knows no filter by state"""
    async def list(self, request):
        if all(0 < state <= FAILED for state in request.states):
            request.ClearField("states")
        return await super().list(request)


@fault("B6")
class NoLimit(Provider):
    """knows no max_results"""
    async def list(self, request):
        request.max_results = 0
        return await super().list(request)


@fault("L1")
class AnyState(Provider):
    """takes a state that nobody knows"""
    async def list(self, request):
        if 99 in request.states:
            return b""
        return await super().list(request)


@fault("L2")
class OddCursor(Provider):
    """refuses a cursor that it did not give"""
    def since(self, request):
        if request.since_revision.startswith(b"\xff"):
            raise Refused(CODE.INVALID_ARGUMENT, "what?")
        return super().since(request)


@fault("L3")
class SamePage(Provider):
    """begins every page with the last machine of the page before"""
    async def list(self, request):
        if request.page_token:
            revision, _, start = request.page_token.decode().partition(":")
            request.page_token = f"{revision}:{start[:-1]}{chr(ord(start[-1]) - 1)}".encode()
        return await super().list(request)


@fault("L4")
class TwoTruths(Provider):
    """has another price in Get than in List"""
    async def get(self, request):
        record = await super().get(request)
        return record if self.accepted else record + double.double(7, 5.0)


@fault("A1")
class NoSuchNobody(Provider):
    """says NOT_FOUND where no machine was named"""
    def look(self, kind, request):
        if not request.machine_id:
            raise Refused(CODE.NOT_FOUND, "nobody")
        return super().look(kind, request)


@fault("B3")
class UnknownIsInternal(Provider):
    """calls an unknown machine an internal error"""
    async def get(self, request):
        if request.id and request.id not in self.machines:
            raise Refused(CODE.INTERNAL, "KeyError")
        return await super().get(request)


@fault("B4")
class UnknownIsInvalid(Provider):
    """calls an unknown machine a wrong argument"""
    def look(self, kind, request):
        if request.machine_id and request.machine_id not in self.machines:
            raise Refused(CODE.INVALID_ARGUMENT, "KeyError")
        return super().look(kind, request)


@fault("B7b")
class NoHost(Provider):
    """has no host for an Idle machine"""
    def place(self, machine, state, error=""):
        super().place(machine, state, error)
        if state == IDLE:
            machine.message.ClearField("host")


@fault("B1d", "B7b")
class KeepsHost(Provider):
    """keeps the host of a deleted machine"""
    def place(self, machine, state, error=""):
        super().place(machine, state, error)
        if state == SPECULATIVE and self.accepted:
            machine.message.host.ref = "still here"


class Staged(Provider):
    """A machine on its way takes a step whenever somebody looks."""
    looks = 0

    def stage(self, machine, looks):
        pass

    async def get(self, request):
        machine = self.machines.get(request.id)
        if machine and self.accepted:
            self.looks += 1
            self.stage(machine, self.looks)
        return await super().get(request)


@fault("B11", "B7b", "D1")
class Detour(Staged):
    """shows a new machine Draining before it is Idle"""
    async def finish(self, kind, machine):
        if kind != "Create":
            await super().finish(kind, machine)

    def stage(self, machine, looks):
        if machine.message.state in (CREATING, DRAINING):
            self.place(machine, {1: CREATING, 2: DRAINING}.get(looks, IDLE))


@fault("B11")
class DrainedBack(Staged):
    """takes a Drain back"""
    drains = 0

    async def finish(self, kind, machine):
        self.drains += kind == "Drain"
        self.looks = 0
        if kind != "Drain" or self.drains > 1:
            await super().finish(kind, machine)

    def stage(self, machine, looks):
        if machine.message.state == DRAINING and self.drains == 1 and looks > 1:
            self.place(machine, CONFIGURED)


@fault("B1a", "Z")
class FailsToCreate(Provider):
    """fails to create"""
    def chance(self, name, kind):
        return name == "fail_rate" and kind == "Create"


@fault("B1a", "Z")
class FailsAtOnce(Provider):
    """fails to create, before anybody asks again"""
    def accept(self, kind, request, machine):
        operation = super().accept(kind, request, machine)
        if kind == "Create":
            asyncio.get_running_loop().call_soon(self.place, machine, FAILED, "no luck")
        return operation


@fault("B1a", "Z", wait="1s")
class NeverEnds(Provider):
    """never ends a Create"""
    async def finish(self, kind, machine):
        if kind != "Create":
            await super().finish(kind, machine)


@fault("B7b", "Z", "B12")
class FailsSilently(Staged):
    """fails a Drain without grace, and does not say why"""
    def again(self):
        return sum(line["kind"] == "Drain" for line in self.accepted) > 1

    async def finish(self, kind, machine):
        if kind != "Drain" or not self.again():
            await super().finish(kind, machine)

    def stage(self, machine, looks):
        if machine.message.state == DRAINING and self.again():
            self.place(machine, FAILED)


# -- cases --

def a_sound_provider():
    """A provider that keeps the contract passes, at once or later, from Speculative and from Idle"""
    for idle, mode in ((0, "async"), (0, "sync"), (1, "async"), (1, "sync")):
        provider = made(idle=idle, mode=mode)
        untouched = {name: m.revision for name, m in provider.machines.items()}
        code, document, text = verify(provider)
        check(code == 0 and document["failed"] == 0, f"{idle} {mode}: {code} {document} {text}")
        check(facts(document, "SKIPPED") >= {"B16"} and document["skipped"] <= (5 if idle else 1) + (mode == "sync"),
              f"{facts(document, 'SKIPPED')}")
        worked_on = {machine["id"] for machine in document["machines"]}
        check(len(worked_on) == 2 and all(name in text for name in worked_on), f"said before: {text}")
        for name, revision in untouched.items():
            check((provider.machines[name].revision == revision) == (name not in worked_on), f"{name}")
            check(provider.machines[name].message.state == (IDLE if idle else SPECULATIVE), f"{name} was put back")


def faults():
    """Each planted fault is found, and nothing else is blamed"""
    wrong = []
    for kind, wanted, wait in FAULTS:
        code, document, text = verify(made(kind), wait=wait)
        got = facts(document, "FAIL")
        print(f"# {kind.__doc__}: {sorted(got)}", flush=True)
        if code != 1 or got != wanted:
            seen = [fact for fact in document["facts"] if fact["id"] in got ^ wanted]
            wrong.append(f"{kind.__name__}: exit {code}, wanted {sorted(wanted)}: {seen} {text}")
    check(not wrong, "\n".join(wrong))


def records():
    """A record that a shard would refuse is found in the List"""
    for garbage in ("negative_price", "unknown_state", "no_state", "bad_quantity", "duplicates"):
        code, document, text = verify(made(machines=30, garbage={"List": garbage}), "--dry-run")
        check(code == 1 and "B7" in facts(document, "FAIL"), f"{garbage}: {code} {document} {text}")


def no_delete():
    """A provider without Delete is fine; what stays behind is said"""
    code, document, text = verify(made(no_delete=True))
    check(code == 0 and facts(document, "FAIL") == set(), f"{code} {document} {text}")
    check({"B1d", "Z"} <= facts(document, "SKIPPED"), f"{document}")
    check([m["after"] for m in document["machines"]] == ["Idle", "Idle"], f"{document['machines']}")


def only_what_was_chosen():
    """--id and --machine-type choose; what is not spare is not touched"""
    provider = made(machines=30)
    kind = provider.machines["m-000007"].message.instance_type
    code, document, _ = verify(provider, "--id", "m-000007")
    check(code == 0 and [m["id"] for m in document["machines"]] == ["m-000007"], f"{code} {document}")
    check("P4" in facts(document, "SKIPPED"), "there was no second machine")
    code, document, _ = verify(provider, "--machine-type", kind)
    check(code == 0 and {m["type"] for m in document["machines"]} == {kind}, f"{code} {document}")
    for words, wanted in ((["--id", "nobody"], 5), (["--id", "m-1,m-2,m-3"], 2)):
        code, document, text = verify(provider, *words)
        check(code == wanted and document is None, f"{words}: {code} {text}")
    provider.control_place("m-000009", "Configured", cluster="prod")
    provider.accepted.clear()
    code, document, text = verify(provider, "--id", "m-000009")
    check(code == 4 and "Configured" in text and not provider.accepted, f"{code} {text} {provider.accepted}")
    code, document, text = verify(provider, "--dry-run")
    check(code == 0 and not provider.accepted and "would work on" in text, f"{code} {text} {provider.accepted}")
    code, document, text = verify(provider, "--machine-type", "no-such-type")
    check(code == 4 and document["passed"] > 5 and not provider.accepted, f"nothing to work on: {code} {document} {text}")


class Contended(Provider):
    """Another cluster takes the machine before ours does."""
    async def finish(self, kind, machine):
        await super().finish(kind, machine)
        if kind == "Create":
            machine.message.cluster = "prod"
            self.place(machine, CONFIGURED)


def hands_off():
    """A machine that somebody else configured meanwhile is not touched again"""
    provider = made(Contended, machines=1)
    code, document, text = verify(provider)
    check(code == 4 and "prod" in text, f"{code} {text} {document}")
    check([line["kind"] for line in provider.accepted] == ["Create"], f"{provider.accepted}")
    check(provider.machines["m-000001"].message.cluster == "prod", "and it serves")


def interrupted():
    """An interrupt in the middle puts the machines back"""
    provider = SERVER.provider = made(machines=2, hold=True)
    run = subprocess.Popen([MUSTERCTL, "provider", "verify", SERVER.address, "--json"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    wait_for("a machine waits for its node", lambda: provider.waiting_for_node)
    run.send_signal(signal.SIGINT)
    provider.set(hold=False)
    SERVER.loop.call_soon_threadsafe(provider.control_node_ready)
    document = json.loads(run.communicate(timeout=3 * PATIENCE)[0])
    check(run.returncode == 4, f"{run.returncode} {document}")
    check(all(m["after"] in ("Speculative", None) for m in document["machines"]), f"{document['machines']}")
    check(all(m.message.state == SPECULATIVE for m in provider.machines.values()), f"{provider.control_counts()}")


def nobody():
    """Nobody at the address is 6, and is said"""
    SERVER.provider = made()
    ran = subprocess.run([MUSTERCTL, "provider", "verify", "127.0.0.1:1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=3 * PATIENCE)
    check(ran.returncode == 6 and "no provider answers at 127.0.0.1:1" in ran.stderr and not ran.stdout, f"{ran}")


def identity():
    """Over TLS as a shard whose certificate the provider compares"""
    with tempfile.TemporaryDirectory() as tls:
        for words in (["ca"], ["issue", "provider", "--id", "p", "--names", "localhost"], ["issue", "shard", "--id", "verify"]):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", tls], check=True, stdout=subprocess.DEVNULL)

        def files(name, prefix):
            return [f"--{prefix}cert", f"{tls}/{name}.pem", f"--{prefix}key", f"{tls}/{name}.key.pem", f"--{prefix}ca",
                    f"{tls}/ca.pem"]
        with double.Process(PROTOC, ROOT, "--machines", "3", "--set", "require_identity=true", "--listen", "localhost:0",
                            *files("provider-p", "")) as provider:
            for words, wanted in (([], 1), (["--shard", "verify"], 0), (["--shard", "verify"], 0)):
                ran = subprocess.run([MUSTERCTL, "provider", "verify", provider.address, *files("shard-verify", "tls-"), *words],
                                     stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3 * PATIENCE)
                check(ran.returncode == wanted, f"{words}: {ran.returncode} {ran.stdout}")


run_cases([a_sound_provider, faults, records, no_delete, only_what_was_chosen, hands_off, interrupted, nobody, identity], ONLY)
