# SPDX-License-Identifier: Apache-2.0
"""Replicas as real processes, a workload over them, and the judgement afterwards.

Every test of this folder ends with Workload.judge: all replicas have the same state, each acknowledged write is there,
no refused write is, and no read was older than the acknowledgements before it. A write without an answer may be either.
"""
import atexit
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

# Seconds until what must happen counts as not happening; waiting is never a verdict.
PATIENCE = int(os.environ.get("MUSTER_TEST_PATIENCE", "90"))
SEED = int(os.environ.get("MUSTER_TEST_SEED", os.getpid()))


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(what, question, patience=PATIENCE):
    """Asks until the answer is true, and returns it."""
    end = time.monotonic() + patience
    while True:
        answer = question()
        if answer:
            return answer
        check(time.monotonic() < end, f"waited {patience} s in vain: {what}")
        time.sleep(0.02)


# -- talking to a replica --

# Answers that say nothing but that another time, or another replica, may say more.
TRANSIENT = ("err not_leader", "err not_ready", "err busy", "err unknown", "err timeout")


class Gone(Exception):
    """The connection ended, or no answer came in time: the outcome is not known."""


class Client:
    def __init__(self, address, patience=5.0):
        self.address, self.patience = address, patience
        self.socket, self.rest = None, b""

    def connect(self):
        if self.socket is None:
            host, port = self.address.rsplit(":", 1)
            try:
                self.socket = socket.create_connection((host, int(port)), self.patience)
            except OSError as error:
                raise ConnectionRefusedError(str(error)) from error
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.rest = b""

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket = None

    def send(self, line):
        self.connect()
        try:
            self.socket.settimeout(self.patience)
            self.socket.sendall(line.encode() + b"\n")
        except OSError as error:
            self.close()
            raise Gone(str(error)) from error

    def receive(self, patience=None):
        end = time.monotonic() + (patience or self.patience)
        while b"\n" not in self.rest:
            try:
                self.socket.settimeout(max(0.001, end - time.monotonic()))
                data = self.socket.recv(65536)
            except OSError as error:
                self.close()
                raise Gone(str(error)) from error
            if not data:
                self.close()
                raise Gone("closed")
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def ask(self, line, patience=None):
        self.send(line)
        return self.receive(patience)


def fields(answer):
    """"ok a 1 b 2" as a dict."""
    words = answer.split(" ")
    check(words[0] == "ok", f"answered '{answer}'")
    return dict(zip(words[1::2], words[2::2]))


# -- processes --

class Process:
    """A process of ours that is sent signals; wait_end() is its owner's."""
    process = None

    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def pause(self):
        """Pauses the process; returns when it is stopped."""
        self.signal(signal.SIGSTOP)
        wait_for("stopped", lambda: self.run_state() == "T")

    def resume(self):
        self.signal(signal.SIGCONT)

    def run_state(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait_end()


class Node(Process):
    """One replica. Its directory outlives its processes."""

    def __init__(self, cluster, number, host=None):
        self.cluster, self.number, self.host = cluster, number, host
        self.id = f"{number:016x}"
        self.dir = os.path.join(cluster.dir, f"r{number}")
        self.raft = cluster.address(number, 0)
        self.text = cluster.address(number, 1)
        self.process, self.log, self.client = None, os.path.join(cluster.dir, f"r{number}.log"), None
        self.first_options, self.options, self.environment = [], [], {}
        self.wrapper = []

    def start(self, wait=True):
        command = list(self.wrapper)
        if self.host is not None:
            command += ["ip", "netns", "exec", f"h{self.host}"]
        command += ["setpriv", "--pdeathsig", "KILL", self.cluster.program, "node", "--data-dir", self.dir,
                    "--listen", self.raft, "--client-listen", self.text]
        if not os.path.exists(os.path.join(self.dir, "FORMAT")):
            command += self.first_options
        command += self.cluster.options + self.options
        environment = dict(os.environ, **self.environment)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        self.client = Client(self.text)
        if wait:
            line = self.process.stdout.readline().decode()
            check(line.startswith("node "), f"replica {self.number} did not start: {self.tail()}")
            self.id = line.split()[1]
        return self

    def tail(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-12:])

    def stop(self):
        self.signal(signal.SIGTERM)
        code = self.wait_end()
        check(code == 0, f"replica {self.number} ended with {code}: {self.tail()}")

    def wait_end(self):
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"replica {self.number} did not end") from None
        self.process.stdout.close()
        self.client.close()
        return code

    def ask(self, line, patience=PATIENCE):
        return self.client.ask(line, patience)

    def status(self, patience=PATIENCE):
        return fields(self.ask("status", patience))

    def try_status(self):
        """None when it does not answer now."""
        if not self.running():
            return None
        try:
            return self.status(2)
        except (Gone, OSError):
            return None


class Cluster:
    TIMING = ("--election", "300ms", "--heartbeat", "50ms")

    def __init__(self, program, count, options=(), hosts=False, name="log", timing=TIMING):
        self.program, self.hosts = program, hosts
        self.dir = tempfile.mkdtemp(prefix=f"muster-{name}-")
        self.options = [*timing, *options]
        self.cluster_id = f"{random.getrandbits(63) | 1:x}"
        self.nodes = {}
        for number in range(1, count + 1):
            self.nodes[number] = Node(self, number, number if hosts else None)
        founders = ",".join(f"{n}={node.raft}" for n, node in self.nodes.items())
        for number, node in self.nodes.items():
            node.first_options = ["--id", f"{number:x}", "--cluster", self.cluster_id, "--founders", founders]

    def address(self, number, which):
        """Loopback has 2^24 addresses: one of this process' own makes fixed ports safe."""
        if self.hosts:
            return f"10.77.0.{number}:{7791 + which}"
        pid = os.getpid()
        return f"127.{100 + (pid >> 16 & 63)}.{pid >> 8 & 255}.{pid & 255}:{4000 + 2 * number + which}"

    def __enter__(self):
        try:
            for node in self.nodes.values():
                node.start()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind, error, trace):
        if error and not isinstance(error, Skipped):
            for node in self.nodes.values():
                if os.path.exists(node.log):
                    print(f"# -- replica {node.number}\n# " + node.tail().replace("\n", "\n# "))
        for node in self.nodes.values():
            if node.running():
                node.process.kill()
                node.process.wait()
        shutil.rmtree(self.dir, ignore_errors=True)

    def joiner(self, number):
        node = self.nodes[number] = Node(self, number, number if self.hosts else None)
        node.first_options = ["--join"]
        return node

    def leader(self, among=None):
        """The ready leader of the highest term that is seen; waits for one."""
        def look():
            best = None
            for node in among or self.nodes.values():
                status = node.try_status()
                if status and status["role"] == "leader" and status["ready"] == "1":
                    if best is None or int(status["term"]) > best[0]:
                        best = (int(status["term"]), node)
            return best
        return wait_for("a leader", look)[1]

    def steady(self, quick):
        """Before the start: gives all nodes but one an election time-out of a minute, however starved the machine is. That
        one can be elected first; the others refuse a second election of it."""
        for node in self.nodes.values():
            if node is not quick:
                node.options = [*node.options, "--election", "60s"]

    def steady_leader(self, quick):
        """One of the others, which stays."""
        while (leader := self.leader()) is quick:
            heir = next(node for node in self.nodes.values() if node is not quick)
            quick.ask(f"transfer {heir.id}")
        return leader

    def followers(self):
        leader = self.leader()
        return [node for node in self.nodes.values() if node is not leader and node.running()]

    def write(self, line, among=None):
        """Repeats the line at the leader until it is acknowledged. Only for idempotent lines."""
        def once():
            try:
                answer = self.leader(among).ask(line, 10)
            except (Gone, OSError):
                return None
            return answer if answer.startswith("ok") else None
        return fields(wait_for(line[:40], once))

    def read(self, lines, among=None):
        """The leader's answer to each line. After an election all are asked again."""
        def once():
            try:
                leader, answers = self.leader(among), {}
                leader.client.send("\n".join(f"#{n} {line}" for n, line in enumerate(lines)))
                while len(answers) < len(lines):
                    tag, answer = leader.client.receive(PATIENCE).split(" ", 1)
                    answers[int(tag[1:])] = answer
            except (Gone, OSError):
                return None
            except ValueError:  # an answer to an earlier question, which had timed out
                leader.client.close()
                return None
            if any(answer.lower().startswith(TRANSIENT) for answer in answers.values()):
                return None
            return [answers[n] for n in range(len(lines))]
        return wait_for(f"answers to {lines[0]} and so on", once) if lines else []

    def change(self, line):
        """A change of members: asked again while it is not ready or leadership moves. Asking again
        after a lost answer may find it done."""
        done = ("err exists", "err not_found", "err invalid") if line.startswith("member") else ()

        def once():
            nonlocal doubt
            try:
                answer = self.leader().ask(line, 20)
            except (Gone, OSError):
                doubt = True
                return None
            if answer.startswith("ok") or (doubt and answer.lower().startswith(done)):
                return answer
            doubt = doubt or answer.lower().startswith("err unknown")
            check(answer.lower().startswith(TRANSIENT), f"{line}: {answer}")
            time.sleep(0.05)
            return None
        doubt = False
        return wait_for(line, once)

    def agree(self, nodes=None):
        """All have applied the same, to the last entry, and their states are equal."""
        nodes = list(nodes or self.nodes.values())

        def look():
            seen = [node.try_status() for node in nodes]
            if None in seen:
                return None
            applied = {status["applied"] for status in seen} | {status["last"] for status in seen}
            return seen if len(applied) == 1 else None
        seen = wait_for("all replicas at the same index", look)
        hashes = {status["hash"] for status in seen}
        check(len(hashes) == 1, f"states differ: {[(s['id'], s['applied'], s['hash']) for s in seen]}")
        return seen


# -- workload --

class Workload:
    """Writers of keys that are written once, one adder to a register, and readers of the register. They run in
    threads until stopped and ask any replica that answers, deposed leaders too."""

    def __init__(self, cluster, writers=3, readers=2):
        self.cluster = cluster
        self.acked, self.refused, self.unknown = {}, set(), set()
        self.lock = threading.Lock()
        self.added = self.tried = self.refused_adds = 0
        self.reads = 0
        self.wrong = []
        self.halt = threading.Event()
        self.threads = [threading.Thread(target=self.guard, args=(self.writer, n), daemon=True)
                        for n in range(writers)]
        self.threads += [threading.Thread(target=self.guard, args=(self.reader, 100 + n), daemon=True)
                         for n in range(readers)]
        self.threads.append(threading.Thread(target=self.guard, args=(self.adder, 99), daemon=True))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        self.halt.set()
        for thread in self.threads:
            thread.join(PATIENCE)
            check(not thread.is_alive(), "a client hangs")

    def guard(self, body, number):
        try:
            body(number, random.Random(f"{SEED} {number}"))
        except Exception:  # reported with the verdict
            self.wrong.append(traceback.format_exc())

    def clients(self):
        return {number: Client(node.text, 2.0) for number, node in list(self.cluster.nodes.items())}

    def rounds(self, rng):
        """A client for each turn; stays with a replica that serves, and changes after the answer `moved`."""
        clients = self.clients()
        at = None
        while not self.halt.is_set():
            for number, node in list(self.cluster.nodes.items()):
                if number not in clients or clients[number].address != node.text:
                    clients[number] = Client(node.text, 2.0)
            if at is None or at not in clients:
                at = rng.choice(list(clients))
            if (yield clients[at]) is False:
                clients[at].close()
                at = None
                time.sleep(0.01)

    def writer(self, number, rng):
        count = 0
        turns = self.rounds(rng)
        client = next(turns, None)
        while client:
            key, value = f"w{number}-{count}", f"v{rng.getrandbits(40):x}"
            count += 1
            good = False
            try:
                client.connect()
            except OSError:
                client = self.turn(turns, False)
                continue
            try:
                answer = client.ask(f"set {key} {value}")
                good = answer.startswith("ok")
                if good:
                    self.acked[key] = value
                elif answer.lower().startswith("err unknown"):
                    self.unknown.add(key)
                else:
                    self.refused.add(key)
            except Gone:
                self.unknown.add(key)
            client = self.turn(turns, good)

    @staticmethod
    def turn(turns, good):
        try:
            return turns.send(good)
        except StopIteration:
            return None

    def adder(self, number, rng):
        turns = self.rounds(rng)
        client = next(turns, None)
        while client:
            good = False
            try:
                client.connect()
            except OSError:
                client = self.turn(turns, False)
                continue
            with self.lock:
                self.tried += 1
            try:
                answer = client.ask("add register 1")
                good = answer.startswith("ok")
                with self.lock:
                    if good:
                        self.added += 1
                    elif not answer.lower().startswith("err unknown"):
                        self.refused_adds += 1
            except Gone:
                pass
            client = self.turn(turns, good)

    def reader(self, number, rng):
        clients = self.clients()
        client = None
        while not self.halt.is_set():
            if client is None or rng.random() < 0.2:  # mostly the last replica that answered, perhaps a deposed leader
                client = rng.choice(list(clients.values()))
            with self.lock:
                low = self.added
            try:
                answer = client.ask("get register", 1.0)
            except (Gone, OSError):
                client.close()
                client = None
                time.sleep(0.01)
                continue
            with self.lock:
                high = self.tried
            if answer.startswith("ok"):
                found = int(fields(answer)["number"])
                self.reads += 1
                if not low <= found <= high:
                    self.wrong.append(f"a read at {client.address} found {found}, not {low} to {high}")
            elif answer.startswith("none") and low > 0:
                self.wrong.append(f"a read at {client.address} found nothing after {low} additions")
            if not answer.startswith("ok"):
                client = None
                time.sleep(0.005)

    def count(self):
        return len(self.acked) + self.added

    def progress(self, more=30):
        """Waits until so many more writes are acknowledged: the load is under way."""
        mark = self.count()
        wait_for("progress under load", lambda: self.wrong or self.count() >= mark + more)

    def judge(self, nodes=None):
        """Stops, then demands that nothing acknowledged is missing and nothing refused is there."""
        wait_for("a write, an addition and a read",
                 lambda: self.wrong or (self.acked and self.added and self.reads))
        self.stop()
        check(not self.wrong, "; ".join(self.wrong[:3]))
        # A write that hung in a paused leader's socket may still be on its way; a last write by the
        # leader of now is behind all that can be committed before the states are compared.
        self.cluster.write("set last-word 1")
        seen = self.cluster.agree(nodes)
        keys = list(self.acked) + sorted(self.refused)
        for start in range(0, len(keys), 500):
            part = keys[start:start + 500]
            for key, answer in zip(part, self.cluster.read([f"get {key}" for key in part], nodes)):
                if key in self.acked:
                    check(answer.startswith("ok") and answer.split(" value ")[-1] == self.acked[key],
                          f"acknowledged {key}={self.acked[key]}, found '{answer}'")
                else:
                    check(answer.startswith("none"), f"refused {key}, found '{answer}'")
        number = int(fields(self.cluster.read(["get register"], nodes)[0])["number"])
        check(self.added <= number <= self.tried - self.refused_adds,
              f"register {number}: {self.added} acknowledged, {self.refused_adds} refused of {self.tried}")
        print(f"# {len(self.acked)} writes and {self.added} additions acknowledged, "
              f"{len(self.refused) + self.refused_adds} refused, {len(self.unknown)} unknown, "
              f"{self.reads} reads; term {seen[0]['term']}, last {seen[0]['last']}", flush=True)


# -- TAP --

def run_cases(cases, only=None):
    """Each case is a function whose first line of documentation is its name."""
    if only is None:
        only = next((word for word in sys.argv[3:] if not word.startswith("--")), "")
    chosen = [case for case in cases if only in case.__name__]
    print(f"TAP version 13\n1..{len(chosen)}\n# seed {SEED}", flush=True)
    failed = 0
    for number, case in enumerate(chosen, 1):
        name = case.__doc__.splitlines()[0].rstrip(".")
        began = time.monotonic()
        try:
            case()
            print(f"ok {number} - {name}")
        except Skipped as reason:
            print(f"ok {number} - {name} # SKIP {reason}")
        except Exception as error:
            failed += 1
            print(f"not ok {number} - {name}")  # first: scripts/test repeats the comments behind it
            print(f"# {error}".replace("\n", "\n# "))
            if not isinstance(error, Failed):
                print("# " + traceback.format_exc().replace("\n", "\n# "))
        print(f"# {time.monotonic() - began:.1f} s", flush=True)
    leave(1 if failed else 0)


def leave(code):
    """Ends with this code, or with 1 when an exit handler fails. All output is written by then. The interpreter's own
    shutdown is skipped, because threads of gRPC have crashed during it."""
    result = [code]

    def uncaught(kind, error, trace):
        result[0] = 1
        sys.__excepthook__(kind, error, trace)

    def last():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(result[0])
    sys.excepthook = uncaught
    atexit.register(last)
    sys.exit(code)


PROGRAM = sys.argv[1] if len(sys.argv) > 1 else ""
SHIM = sys.argv[2] if len(sys.argv) > 2 else ""
LONG = "--long" in sys.argv
