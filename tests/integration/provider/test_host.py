#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The reference provider as a process: killed under load and at any disk call, damaged, attacked, reloaded, under TLS.

usage: test_host.py MUSTER MUSTERCTL PROTOC PROTO_ROOT DISK_SHIM [NAME] [--long]    (prints TAP)
"""
import os
import random
import re
import shutil
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
MUSTER, MUSTERCTL, PROTOC, ROOT, SHIM = sys.argv[1:6]
ONLY = next((word for word in sys.argv[6:] if not word.startswith("--")), "")
sys.path += [os.path.join(HERE, "../../lib"), os.path.join(HERE, "../log")]
from cluster import LONG, SEED, check, run_cases, wait_for  # noqa: E402
from contracts import load  # noqa: E402
from provider import CONFIGURED, IDLE, MOVES, SPECULATIVE  # noqa: E402
from provider_host import FAST, Api, Host  # noqa: E402

CODE = grpc.StatusCode
UNCERTAIN = (CODE.UNAVAILABLE, CODE.UNKNOWN, CODE.CANCELLED, CODE.DEADLINE_EXCEEDED)
LIFE = ("Create", "Configure", "Drain", "Delete")


HOSTS = []


def new_host(directory, **how):
    HOSTS.append(Host(MUSTER, directory, **how))
    return HOSTS[-1]


class Directory:
    """For one case; it takes the processes of the case with it."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="muster-provider-")
        return self.path

    def __exit__(self, kind, *_):
        for host in HOSTS:
            host.kill()
        HOSTS.clear()
        if kind is None:
            shutil.rmtree(self.path, ignore_errors=True)
        else:
            print(f"# kept: {self.path}", flush=True)


def connect(host, **how):
    return Api(PROTOC, ROOT, host.address, **how)


class Owner:
    """One machine and what its calls were answered; it never has two under way."""

    def __init__(self, machine, number):
        self.machine, self.shard, self.sequence = machine, f"shard-{number}", 0
        self.kind, self.operation, self.token, self.doubt = None, None, None, False
        self.done = 0

    def step(self, api):
        """The next call of its life, if its last one is over."""
        state = api.call("Get", id=self.machine)
        if isinstance(state, CODE):
            return
        kind = next((kind for kind in LIFE if MOVES[kind][0] == state.state and (kind, self.kind) != ("Delete", "Create")), None)
        if state.state == IDLE and self.kind in ("Create", None):
            kind = "Configure"
        if kind is None:
            return
        self.sequence += 1
        token = (1, self.sequence)
        fields = {"cluster_id": "c", "bootstrap_blob": b"b" * 100, "shard_metadata": {"k": self.machine}} \
            if kind == "Configure" else {}
        answer = api.call(kind, machine_id=self.machine, shard_id=self.shard, shard_epoch=token[0],
                          sequence_number=token[1], **fields)
        if answer in UNCERTAIN:
            self.doubt = True
            return
        check(not isinstance(answer, CODE), f"{kind} {self.machine}: {answer} {api.details}")
        self.kind, self.operation, self.token, self.doubt = kind, answer.operation_id, token, False
        self.done += 1

    def judge(self, api):
        """Answered calls are there: the operation, the state it leads to, the token."""
        if self.operation is None:
            return
        record = api.ok("Get", id=self.machine)
        if not self.doubt:
            check(record.state in MOVES[self.kind][1:], f"{self.machine}: {self.kind} was acknowledged, {record}")
            again = {"cluster_id": "c"} if self.kind == "Configure" else {}
            check(api.ok(self.kind, machine_id=self.machine, **again).operation_id == self.operation,
                  f"{self.machine}: another operation than {self.operation}")
        if record.state == CONFIGURED:
            check(dict(record.shard_metadata) == {"k": self.machine}, f"{record}")
        stale = api.call("Drain", machine_id=self.machine, shard_id=self.shard, shard_epoch=self.token[0],
                         sequence_number=self.token[1])
        check(stale == CODE.FAILED_PRECONDITION, f"{self.machine}: the token {self.token} passes again: {stale}")


def killed_under_load():
    """kill -9 under load: every answer that was given still holds, and Lists go on where they were."""
    dice = random.Random(SEED)
    with Directory() as directory:
        host = new_host(directory, machines=64)
        host.start("--state-rewrite", "16KiB")
        api = connect(host)
        owners = [Owner(machine, number) for number, machine in enumerate(api.machines())]
        for _ in range(12 if LONG else 3):
            stop, broken = threading.Event(), []

            def work(mine):
                own = connect(host)
                try:
                    while not stop.is_set():
                        for owner in mine:
                            owner.step(own)
                except Exception as error:
                    broken.append(error)
                finally:
                    own.close()

            threads = [threading.Thread(target=work, args=(owners[i::8],)) for i in range(8)]
            begun = sum(owner.done for owner in owners)
            for thread in threads:
                thread.start()
            revision = api.ok("List").revision
            wanted = begun + dice.randrange(20, 300)
            wait_for("calls", lambda: broken or sum(owner.done for owner in owners) >= wanted)
            host.kill()
            stop.set()
            for thread in threads:
                thread.join()
            check(not broken, f"{broken}")
            host.start("--state-rewrite", "16KiB")
            wait_for("it answers", lambda: not isinstance(api.call("List", max_results=1), CODE))
            delta = api.ok("List", since_revision=revision)
            check(delta.tombstones, "a cursor of before is understood")
            for owner in owners:
                owner.judge(api)
        rewrites = host.metric('muster_provider_state_rewrites_total{end="published"}')
        print(f"# {sum(owner.done for owner in owners)} calls; in its last life the state was rewritten {rewrites:.0f} times")
        api.close()
        check(host.stop() == 0, "ends in order")


def killed_with_a_newer_epoch():
    """kill -9 after a shard used a newer epoch on one machine: the older one is refused on all of them, over a rewrite, too."""
    with Directory() as directory:
        host = new_host(directory, machines=8)
        host.start("--state-rewrite", "4KiB")
        api = connect(host)
        first, second, *_ = api.machines()
        api.ok("Create", machine_id=first, shard_id="s", shard_epoch=41, sequence_number=1)

        def judge(when):
            answer = api.call("Create", machine_id=second, shard_id="s", shard_epoch=40, sequence_number=99)
            check(answer == CODE.FAILED_PRECONDITION, f"{when}: {answer} {api.details}")
            check("(40, 99) is not newer than (41, *)" in api.details, f"{when}: {api.details}")
            check(api.state(second) == SPECULATIVE, when)

        judge("at once")
        host.kill()
        api.close()
        host.start("--state-rewrite", "4KiB")
        api = connect(host)
        judge("after kill -9")
        for number in range(400):
            api.call("Create", machine_id=f"ghost-{number}", shard_id="other", shard_epoch=1, sequence_number=1)
        wait_for("the state is rewritten", lambda: (host.metric('muster_provider_state_rewrites_total{end="published"}') or 0) >= 1)
        host.kill()
        api.close()
        host.start()
        api = connect(host)
        judge("after a rewrite")
        api.ok("Create", machine_id=second)  # no shard, no fence
        api.close()


def dies_at_a_disk_call():
    """kill -9 instead of any call that changes a file, also while the state is rewritten: no answered call is lost."""
    dice = random.Random(SEED)
    calls = range(1, 90) if LONG else sorted(dice.sample(range(1, 90), 8))
    died = 0
    with Directory() as directory:
        for call in calls:
            host = new_host(directory, machines=4, number=call)
            options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
            host.environment = {"LD_PRELOAD": SHIM, "MUSTER_TEST_DISK_KILL_AT": str(call),
                                "MUSTER_TEST_DISK_ONLY": host.dir, "ASAN_OPTIONS": options}
            owners = []
            try:
                host.start("--state-rewrite", "4KiB")
                api = connect(host)
                listed = api.call("List")
                owners = [] if isinstance(listed, CODE) else [Owner(m.id, i) for i, m in enumerate(listed.machines)]
                while host.process.poll() is None:
                    for owner in owners:
                        owner.step(api)
                api.close()
            except RuntimeError:
                pass  # it died while it started
            wait_for(f"it dies at call {call}", lambda: host.process.poll() is not None)
            died += host.process.returncode == -signal.SIGKILL
            host.kill()
            host.environment = {}
            host.start()
            api = connect(host)
            check(len(api.ok("List").machines) == 4, "all machines")
            for owner in owners:
                owner.judge(api)
            api.close()
            check(host.stop() == 0, "ends in order")
    check(died == len(calls), f"{died} of {len(calls)} died")


def damage():
    """A torn end is cut; damage is refused with file and offset, and the file is left as it is."""
    with Directory() as directory:
        host = new_host(directory, machines=10).start()
        api = connect(host)
        machine = api.machines()[0]
        api.ok("Create", machine_id=machine)
        api.close()
        host.stop()
        with open(host.state, "rb") as file:
            whole = file.read()
        with open(host.state, "ab") as file:
            file.write(whole[-200:-100])
        host.start()
        check("incomplete last write" in host.text(), host.text()[-500:])
        api = connect(host)
        check(api.state(machine) != SPECULATIVE, "it was created")
        api.close()
        host.stop()
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 1
        with open(host.state, "wb") as file:
            file.write(flipped)
        host.start(wait=False)
        check(host.process.wait(90) == 1, "refused")
        host.end(signal.SIGCONT)
        check(re.search(r"state: damaged at offset \d+", host.text()), host.text()[-500:])
        with open(host.state, "rb") as file:
            check(file.read() == flipped, "as it was")


def verified():
    """musterctl provider verify finds nothing to complain of"""
    with Directory() as directory, new_host(directory, machines=20) as host:
        table = subprocess.run([MUSTERCTL, "provider", "verify", host.address], capture_output=True, text=True, timeout=180,
                               check=False)
        check(table.returncode == 0 and re.search(r"^B8 +PASS", table.stdout, re.M), table.stdout + table.stderr)
        check(not re.search(r"^\w+ +FAIL", table.stdout, re.M), table.stdout)


def second_process():
    """A second process on the same state is refused, and the first goes on."""
    with Directory() as directory, new_host(directory, machines=5) as host:
        second = subprocess.run([MUSTER, "provider", "run", "--data-dir", host.dir, "--listen", host.address.rsplit(":", 1)[0] + ":0",
                                 "--http-listen", "0"], capture_output=True, timeout=90, check=False)
        check(second.returncode == 4, f"{second.returncode} {second.stderr}")
        third = subprocess.run([MUSTER, "provider", "run", "--data-dir", host.dir + "-2", "--state", host.state, "--listen",
                                host.address.rsplit(":", 1)[0] + ":0", "--http-listen", "0"], capture_output=True, timeout=90,
                               check=False)
        check(third.returncode == 4, f"{third.returncode} {third.stderr}")
        api = connect(host)
        check(len(api.machines()) == 5, "it goes on")
        api.close()


def hostile():
    """Garbage, forged tokens, replayed bytes, huge metadata: refused, and the book is unchanged."""
    top = 2 ** 63 - 1
    with Directory() as directory, new_host(directory, machines=20) as host:
        api = connect(host)
        machine, other = api.machines()[:2]
        api.ok("Create", machine_id=other)
        wait_for("Idle", lambda: api.state(other) == IDLE)
        before = api.ok("List").revision
        dice = random.Random(SEED)
        for method in (*LIFE, "Get", "List"):
            for _ in range(30):
                got = api.raw(method, bytes(dice.randrange(256) for _ in range(dice.randrange(1, 60))))
                check(not isinstance(got, bytes) or method == "List", f"{method}: {got}")
        configure = {"machine_id": other, "cluster_id": "c"}
        for what, fields in (
                ("too many entries", {"shard_metadata": {f"k{i}": "" for i in range(257)}}),
                ("too many bytes", {"shard_metadata": {"k": "x" * 70000}}),
                ("far too many bytes", {"shard_metadata": {f"k{i}": "x" * 100000 for i in range(21)}}),
                ("too large a blob", {"bootstrap_blob": b"x" * (1 << 20) + b"y"}),
                ("no cluster", {"cluster_id": ""}),
                ("control characters", {"cluster_id": "a\x1b[31m"}),
                ("a long shard", {"shard_id": "s" * 300})):
            got = api.call("Configure", **{**configure, **fields})
            check(got == CODE.INVALID_ARGUMENT, f"{what}: {got} {api.details}")
        got = api.call("Configure", **configure, shard_metadata={f"k{i}": "x" * 100000 for i in range(60)})
        check(got == CODE.RESOURCE_EXHAUSTED, f"6 MB: {got}")
        check(api.ok("List").revision == before, "nothing of it changed anything")
        # Forged tokens lock out only the shard that they name, on every machine, because an epoch counts for all.
        forged = {"machine_id": machine, "shard_id": "victim", "shard_epoch": top, "sequence_number": top}
        api.ok("Create", **forged)
        check(api.call("Create", **forged) == CODE.FAILED_PRECONDITION, "once")
        check(api.call("Create", machine_id=machine, shard_id="victim", shard_epoch=-top - 1, sequence_number=top)
              == CODE.FAILED_PRECONDITION, "numbers do not wrap")
        api.ok("Create", machine_id=machine, shard_id="honest", shard_epoch=1, sequence_number=1)
        check(api.call("Create", machine_id=other, shard_id="victim", shard_epoch=1, sequence_number=1)
              == CODE.FAILED_PRECONDITION, "on every machine")
        api.ok("Create", machine_id=other, shard_id="honest", shard_epoch=1, sequence_number=2)
        # A replayed request is fenced, or the operation of before; never a second one.
        data = api.request("Configure", **configure, shard_id="s", shard_epoch=5, sequence_number=5).SerializeToString()
        first = api.new("TransitionAck").FromString(api.raw("Configure", data)).operation_id
        for _ in range(200):
            check(api.raw("Configure", data) == CODE.FAILED_PRECONDITION, "fenced")
        check({api.ok("Configure", **configure).operation_id for _ in range(200)} == {first}, "one operation")
        api.close()
        check(host.stop() == 0 and "died by" not in host.text(), host.text()[-500:])


def old_peers():
    """A client that was made before our fields: a full List, a delta, a cap, all as it knows them."""
    with Directory() as directory, new_host(directory, machines=30) as host:
        old = os.path.join(directory, "bigfleet/v1alpha1")
        os.makedirs(old)
        with open(os.path.join(ROOT, "bigfleet/v1alpha1/provider.proto"), encoding="utf-8") as source:
            lines = [line for line in source if not re.search(r"= 10[0-9];", line)]
        with open(os.path.join(old, "provider.proto"), "w", encoding="utf-8") as out:
            out.writelines(lines)
        _, message = load(PROTOC, directory, "bigfleet/v1alpha1/provider.proto")
        new = {name: message("bigfleet.v1alpha1." + name) for name in ("ListFilter", "MachineList")}
        check("removed_ids" not in new["MachineList"].DESCRIPTOR.fields_by_name, "made before")
        api = connect(host)

        def listed(**fields):
            return new["MachineList"].FromString(api.raw("List", new["ListFilter"](**fields).SerializeToString()))

        full = listed()
        check(len(full.machines) == 30 and full.revision, "everything, and a cursor")
        api.ok("Create", machine_id=full.machines[3].id)
        delta = listed(since_revision=full.revision)
        check([m.id for m in delta.machines] == [full.machines[3].id] and delta.revision != full.revision, f"{delta}")
        check(len(listed(max_results=7).machines) == 7, "a cap")
        check(len(listed(since_revision=b"its own idea").machines) == 30, "an odd cursor: everything")
        api.close()


def catalogue():
    """The catalogue is read again by itself and on SIGHUP; a wrong one changes nothing and is reported."""
    with Directory() as directory, new_host(directory, machines=10) as host:
        api = connect(host)
        host.sell(FAST.replace("price = 0.7", "price = 0.5"))
        wait_for("the price", lambda: {m.price_per_hour for m in api.ok("List").machines} == {0.5})
        host.sell(FAST.replace("price", "prize"))
        wait_for("it is said", lambda: "unknown key 'prize'" in host.text())
        host.process.send_signal(signal.SIGHUP)
        wait_for("again", lambda: host.text().count("unknown key 'prize'") >= 2)
        check({m.price_per_hour for m in api.ok("List").machines} == {0.5}, "as before")
        check(host.page("/readyz").startswith("ok"), "ready")
        check(host.metric('muster_provider_machines{state="Speculative"}') == 10, "counted")
        # A drain may take its grace and no longer; a create takes its time.
        host.sell(FAST.replace('create = "20ms"', 'create = "10d"'))
        wait_for("taken over", lambda: "catalogue reloaded" in host.text()[host.text().rfind("unknown key"):])
        machine = api.machines()[0]
        api.ok("Create", machine_id=machine)
        host.kill()
        host.sell(FAST)
        host.start()
        wait_for("it answers", lambda: not isinstance(api.call("Get", id=machine), CODE))
        wait_for("a Create that was under way goes on after a restart", lambda: api.state(machine) == IDLE)
        api.close()


def only_the_shard_itself():
    """Under TLS a shard speaks for itself: neither for another nor without a name."""
    with Directory() as directory:
        tls = os.path.join(directory, "tls")
        host = new_host(directory, machines=5)
        names = "localhost," + host.address.rsplit(":", 1)[0]
        for words in (["ca"], ["issue", "provider", "--id", "p", "--names", names], ["issue", "shard", "--id", "a"],
                      ["issue", "cluster", "--id", "c"]):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", tls], check=True, stdout=subprocess.DEVNULL)

        def pem(name):
            with open(os.path.join(tls, name), "rb") as file:
                return file.read()

        def as_(name):
            return connect(host, credentials=grpc.ssl_channel_credentials(pem("ca.pem"), pem(name + ".key.pem"), pem(name + ".pem")))

        host.start("--tls-cert", tls + "/provider-p.pem", "--tls-key", tls + "/provider-p.key.pem", "--tls-ca", tls + "/ca.pem")
        shard, cluster = as_("shard-a"), as_("cluster-c")
        machine = shard.machines()[0]
        token = {"shard_epoch": 1, "sequence_number": 1}
        check(shard.call("Create", machine_id=machine, shard_id="b", **token) == CODE.PERMISSION_DENIED, "another's name")
        check(shard.call("Create", machine_id=machine) == CODE.PERMISSION_DENIED, "no name")
        check(cluster.call("List") == CODE.PERMISSION_DENIED, "a cluster")
        check(shard.state(machine) == SPECULATIVE, "nothing was done")
        shard.ok("Create", machine_id=machine, shard_id="a", **token)
        shard.close()
        cluster.close()
        check(host.stop() == 0, "ends in order")


if __name__ == "__main__":
    run_cases([verified, killed_under_load, killed_with_a_newer_epoch, dies_at_a_disk_call, damage, second_process, hostile,
               old_peers, catalogue, only_the_shard_itself], ONLY)
