#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The process and the command backend of `muster provider run`: real processes that outlive it, scripts that misbehave.

usage: test_backends.py DRIVER MUSTERCTL PROTOC PROTO_ROOT MUSTER EXAMPLE_SCRIPT [NAME]    (prints TAP)
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

try:
    import grpc  # noqa: F401
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

HERE = os.path.dirname(os.path.abspath(__file__))
MUSTERCTL, PROTOC, ROOT, MUSTER, EXAMPLE = sys.argv[2:7]
ONLY = next((word for word in sys.argv[7:] if not word.startswith("--")), "")
sys.path += [os.path.join(HERE, "../../lib"), os.path.join(HERE, "../log")]
from cluster import PATIENCE, check, run_cases, wait_for  # noqa: E402
from provider import CONFIGURED, CONFIGURING, CREATING, FAILED, IDLE, SPECULATIVE  # noqa: E402
import provider_host  # noqa: E402


class World(provider_host.Host):
    """A provider with a backend; whatever its machines left running ends with it."""

    def __init__(self, *words, machines=4):
        self.top = tempfile.mkdtemp(prefix="backend-")
        super().__init__(MUSTER, self.top, machines=machines)
        self.words, self.hosts = words, os.path.join(self.dir, "machines")
        self.api = None

    def start(self, *more):
        super().start(*self.words, *more)
        if self.api:
            self.api.close()
        self.api = provider_host.Api(PROTOC, ROOT, self.address)  # the old connection is the old process's
        return self

    def restart(self, *more):
        self.kill()
        return self.start(*more)

    def pid(self, machine, role):
        """The pid of its process, or 0."""
        try:
            with open(os.path.join(self.hosts, machine, role + ".pid"), encoding="ascii") as file:
                return int(file.read().split()[0])
        except (OSError, IndexError, ValueError):
            return 0

    def to(self, machine, *states):
        wait_for(f"{machine} is in {states}", lambda: self.api.state(machine) in states)
        return self.api.ok("Get", id=machine)

    def create(self, machine):
        self.api.ok("Create", machine_id=machine)
        return self.to(machine, IDLE)

    def configure(self, machine, blob=b"blob"):
        self.api.ok("Configure", machine_id=machine, cluster_id="prod", bootstrap_blob=blob, shard_metadata={"k": "v"})

    def __exit__(self, kind, *_):
        self.kill()
        if self.api:
            self.api.close()
        for path in glob.glob(os.path.join(self.hosts, "*", "*.pid")):
            with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
                pid, start, _ = file.read().split()
                if start_of(int(pid)) == start:  # else it is somebody else's by now
                    os.killpg(int(pid), signal.SIGKILL)
        if kind is None:
            shutil.rmtree(self.top, ignore_errors=True)
        else:
            print("# " + self.text()[-4000:].replace("\n", "\n# "), flush=True)


def start_of(pid):
    """When it started, or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            words = file.read().rsplit(")", 1)[1].split()
            return None if words[0] in "ZX" else words[19]
    except OSError:
        return None


def runs(pid):
    return start_of(pid) is not None


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    wait_for(f"{pid} is dead", lambda: not runs(pid))


def verify(address):
    ran = subprocess.run([MUSTERCTL, "provider", "verify", address, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, timeout=3 * PATIENCE)
    check(ran.returncode == 0, f"{ran.returncode}: {ran.stdout} {ran.stderr}")
    return {fact["id"] for fact in json.loads(ran.stdout)["facts"] if fact["result"] == "SKIPPED"}


PROCESS = ("--backend", "process", "--process-host", "exec sleep 600", "--process-node",
           "echo start >> starts; cp $MUSTER_BLOB_FILE got; > began; exec sleep 600")


def process_contract():
    """The process backend keeps the contract"""
    with World(*PROCESS) as world:
        check(verify(world.address) == {"B16"}, "all of it")
        check(os.listdir(world.hosts) == [], f"{os.listdir(world.hosts)}")


def process_survives():
    """kill -9 of the provider: the processes live on and are found again; those that died meanwhile are reported"""
    with World(*PROCESS) as world:
        for name in ("local-1", "local-2", "local-3"):
            world.create(name)
        for name in ("local-2", "local-3"):
            world.configure(name, b"for " + name.encode())
            world.to(name, CONFIGURED)
        before = {name: (world.pid(name, "host"), world.pid(name, "node")) for name in ("local-1", "local-2", "local-3")}
        world.kill()
        check(all(runs(pid) for pids in before.values() for pid in pids if pid), f"{before}")
        kill(before["local-3"][1])
        world.start()
        failed = world.to("local-3", FAILED)
        check("node" in failed.last_error, failed.last_error)
        wait_for("what is left of it ends", lambda: not runs(before["local-3"][0]))
        for name, state in (("local-1", IDLE), ("local-2", CONFIGURED)):
            check(world.api.state(name) == state, f"{name} is as it was")
            check((world.pid(name, "host"), world.pid(name, "node")) == before[name], f"{name}: the same processes")
        record = world.api.ok("Get", id="local-2")
        check(record.cluster == "prod" and dict(record.shard_metadata) == {"k": "v"}, f"{record}")
        # A provider that adopted it sees it die, too.
        kill(before["local-1"][0])
        check("host" in world.to("local-1", FAILED).last_error, "reported")
        world.api.ok("Drain", machine_id="local-2", grace_period_seconds=30)
        world.to("local-2", IDLE)
        check(not runs(before["local-2"][1]) and runs(before["local-2"][0]), "drained")
        world.api.ok("Delete", machine_id="local-2")
        world.to("local-2", SPECULATIVE)
        check(not runs(before["local-2"][0]) and not os.path.exists(os.path.join(world.hosts, "local-2")), "deleted")


def process_resumes():
    """kill -9 in the middle of a Configure: the node that was started is the node, once"""
    with World(*PROCESS, "--process-ready-file", "ready") as world:
        world.create("local-1")
        world.configure("local-1", b"\0\xff")
        home = os.path.join(world.hosts, "local-1")
        wait_for("it begins", lambda: os.path.exists(os.path.join(home, "began")))
        node = world.pid("local-1", "node")
        for _ in range(2):
            world.restart()
            check(world.api.state("local-1") == CONFIGURING, "not before it is ready")
        open(os.path.join(home, "ready"), "w").close()
        world.to("local-1", CONFIGURED)
        check(world.pid("local-1", "node") == node and runs(node), "the same one")
        with open(os.path.join(home, "starts"), encoding="ascii") as file:
            check(file.read() == "start\n", "started once")
        with open(os.path.join(home, "got"), "rb") as file:
            check(file.read() == b"\0\xff", "its blob")


def process_number_reused():
    """A number that somebody else has now is not the machine, and is left alone"""
    with World(*PROCESS) as world:
        world.create("local-1")
        path = os.path.join(world.hosts, "local-1", "host.pid")
        with open(path, encoding="ascii") as file:
            pid, start, boot = file.read().split()
        world.kill()
        kill(int(pid))
        other = subprocess.Popen(["sleep", "600"], start_new_session=True)
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{other.pid} {start} {boot}\n")
            world.start()
            world.to("local-1", FAILED)
            check(other.poll() is None, "not ours to kill")
        finally:
            other.kill()
            other.wait()


def example_script():
    """examples/command-provider.sh keeps the contract"""
    with World("--backend", "command", "--command-script", EXAMPLE) as world:
        world.environment["CLOUD_DIR"] = os.path.join(world.top, "cloud")
        world.restart()
        wait_for("it lists", lambda: len(world.api.machines()) == 3)
        check(verify(world.address) == {"B16"}, "all of it")
        check(os.listdir(os.path.join(world.top, "cloud")) == [], "and nothing is left")
        world.create("web-1")
        world.configure("web-1", b"\0user data\xff")
        world.to("web-1", CONFIGURED)
        with open(os.path.join(world.top, "cloud/web-1/user-data"), "rb") as file:
            check(file.read() == b"\0user data\xff", "its blob")
        check(world.api.ok("Get", id="web-1").host.ref == "dir-web-1", "its name in the cloud")


HOSTILE = r"""#!/bin/sh
case $1/$MUSTER_MACHINE_ID in
list/*) printf '{"machines": ['
    for id in hang garbage flood lines fail kill good; do printf '%s{"id":"%s","instance_type":"t"}' "$comma" $id; comma=,; done
    printf ']}';;
create/hang) trap '' TERM; sleep 600 & echo $! > "$0.child"; wait; sleep 600;;
create/garbage) echo 'Welcome to your cloud!';;
create/flood) head -c 1073741824 /dev/zero | tr '\0' x;;
create/lines) yes | head -c 1073741824;;
create/fail) echo 'no quota' >&2; exit 1;;
create/kill) kill -9 $$;;
esac
"""


def script(world, text):
    path = os.path.join(world.top, "script")
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    os.chmod(path, 0o700)
    return path


def hostile_scripts():
    """Scripts that flood, print garbage or die fail their machine with words, and nobody else's"""
    world = World()
    world.words = ("--backend", "command", "--command-script", script(world, HOSTILE), "--command-running-max", "8")
    with world:
        wait_for("it lists", lambda: len(world.api.machines()) == 7)
        says = {"garbage": "no JSON object ('Welcome to your cloud!')", "flood": "printed more than",
                "lines": "printed more than", "fail": "exit status 1: no quota", "kill": "killed by signal 9"}
        for name in (*says, "good"):
            world.api.ok("Create", machine_id=name)
        for name, words in says.items():
            record = world.to(name, FAILED)
            check(record.last_error.startswith("create: ") and words in record.last_error, f"{name}: {record.last_error}")
        world.to("good", IDLE)
        check(world.stop() == 0, "and it stops well")


def hanging_script():
    """A script that hangs and takes no hint is killed with what it started, and does not keep the provider from stopping"""
    world = World()
    path = script(world, HOSTILE)
    world.words = ("--backend", "command", "--command-script", path, "--command-list-every", "100ms")
    with world:
        wait_for("it lists", lambda: len(world.api.machines()) == 7)
        world.api.ok("Create", machine_id="hang")
        wait_for("it hangs", lambda: os.path.exists(path + ".child") and os.path.getsize(path + ".child"))
        with open(path + ".child", encoding="ascii") as file:
            children = [int(file.read())]
        check(world.stop() == 0, "a stop ends it")
        wait_for("with what it started", lambda: not runs(children[0]))
        world.start("--command-timeout", "1s")
        record = world.to("hang", FAILED)
        check("was not done after 1000 ms" in record.last_error, record.last_error)
        with open(path + ".child", encoding="ascii") as file:
            children.append(int(file.read() or children[0]))  # killed before it had said anything, it left nothing
        wait_for("so does its time", lambda: not runs(children[1]))


AGAIN = r"""#!/bin/sh
[ $1 = list ] && echo '{"machines": [{"id": "m", "instance_type": "t"}]}' && exit
echo "$1 again=$MUSTER_AGAIN" >> "$0.log"
while [ $1 = create ] && [ ! -e "$0.go" ]; do sleep 0.05; done
"""


def script_again():
    """kill -9 in the middle of an operation: the script dies with the provider and is run again, and knows it"""
    world = World()
    path = script(world, AGAIN)
    world.words = ("--backend", "command", "--command-script", path)
    with world:
        wait_for("it lists", lambda: world.api.machines() == ["m"])
        world.api.ok("Create", machine_id="m")

        def calls():
            if not os.path.exists(path + ".log"):
                return []
            with open(path + ".log", encoding="ascii") as file:
                return file.read().splitlines()
        wait_for("it runs", lambda: calls() == ["create again="])
        world.restart()
        check(world.api.state("m") == CREATING, "still on its way")
        wait_for("it runs again", lambda: calls() == ["create again=", "create again=1"])
        open(path + ".go", "w").close()
        check(world.to("m", IDLE).host.ref == "host-m", "a host without a name has one")


run_cases([process_contract, process_survives, process_resumes, process_number_reused, example_script, hostile_scripts,
           hanging_script, script_again], ONLY)
