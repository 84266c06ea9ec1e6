#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl where nobody answers, where no coordinator does, and with --watch; all commands, found by their --help.

usage: test_ctl_reach.py MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

How long a server was waited for is read from the error, which names it: a test machine may stop for seconds.
"""
import concurrent.futures
import contextlib
import functools
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from dead import dead_address

try:
    from fleet_contracts import Canned, contracts, says
    from cases import run_tests, same, test
    import grpc
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTERCTL, PROTOC, PROTO_ROOT = os.path.abspath(sys.argv[1]), *sys.argv[2:4]
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
PATIENCE = 120
GIVE_UP_MS = 2000
FILES, MESSAGE = contracts.load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto", "bigfleet/v1alpha1/shardread.proto",
                                "muster/v1/fleet.proto", "muster/v1/member.proto", "muster/v1/shard.proto", "muster/v1/coordination.proto")
METHODS = {"/" + path: (MESSAGE(method.input_type), MESSAGE(method.output_type))
           for path, method in contracts.methods_of(FILES).items()}
SHARDS, NEEDS = "/bigfleet.v1alpha1.Coordinator/ListShards", "/bigfleet.v1alpha1.ShardRead/InspectNeeds"
STATUS, MACHINE = "/muster.v1.ShardView/Status", "/muster.v1.ShardView/Machine"
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def run(*words, cwd=None, text=None, **environment):
    return subprocess.run([MUSTERCTL, *words], **({"stdin": subprocess.DEVNULL} if text is None else {"input": text}),
                          capture_output=True, text=True, timeout=PATIENCE, env={**ENVIRONMENT, **environment}, cwd=cwd, check=False)


def canned(answers):
    return Canned(METHODS, {path: answer if callable(answer) else METHODS[path][1](**answer) for path, answer in answers.items()})


def leaves(*path):
    """Each command that runs, as (its words, its --help)."""
    text = run(*path, "--help").stdout
    block = re.search(r"^Commands:\n((?:  .*\n|\n)+)", text, re.M)
    if not block:
        return [(path, text)]
    return [leaf for name in re.findall(r"^  (\S+)  ", block.group(1), re.M) for leaf in leaves(*path, name)]


def example(path, text):
    """The first one of its help that is this very command."""
    lines = re.findall(rf"^  (musterctl {' '.join(path)}(?: .*)?)$", text, re.M)
    return shlex.split(re.split(r" [|>;] ", lines[0])[0])[1:] if lines else None


@contextlib.contextmanager
def black_hole():
    """Packets to it are not answered: its queue of connections is full."""
    with contextlib.ExitStack() as stack:
        hole = stack.enter_context(socket.socket())
        hole.bind(("127.0.0.1", 0))
        hole.listen(0)
        for _ in range(3):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(hole.getsockname())
        yield f"127.0.0.1:{hole.getsockname()[1]}"


@contextlib.contextmanager
def stopped():
    """A process that listens, and is stopped by SIGSTOP."""
    program = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(9999)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        port = process.stdout.readline().strip()
        process.send_signal(signal.SIGSTOP)
        try:
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()


def waited_ms(text):
    return [int(ms) for ms in re.findall(r"did not speak within (\d+) ms", text)]


def gives_up(address, words, cwd):
    done = run(*words, cwd=cwd)
    text = done.stdout + done.stderr
    assert done.returncode == (1 if words[0] == "doctor" else 6) and address in text, f"{words}: {done}"
    assert 0 < sum(waited_ms(done.stderr or done.stdout.splitlines()[0])) <= GIVE_UP_MS, f"{words}: {text}"


SILENT = (black_hole, stopped)


def commands_for(address):
    for path, text in leaves():
        if "--coordinator" not in text or path in (("snapshot", "restore"), ("store", "import"), ("store", "export")):
            continue
        words = example(path, text)
        assert words, f"{path} has no example"
        if "--shard" in words and path[0] in ("need", "explain"):
            words = list(path) + (["x"] if path[0] == "explain" else [])
        if path in (("backup",), ("snapshot", "save")):
            words = [*path, "archive"]
        if "--coordinator" in words:
            at = words.index("--coordinator")
            words = words[:at] + words[at + 2:]
        yield [*words, "--coordinator", address, *(["--once"] if path == ("top",) else [])]
    yield from (["provider", "verify", address], ["need", "list", "--shard", address], ["explain", "machine", "m", "--shard", address],
                ["store", "import", "--from", f"etcd://{address}", "--coordinator", address],
                ["store", "export", "--to", f"etcd://{address}", "--coordinator", address],
                ["coord", "get", "k", "--store", f"etcd://{address}"], ["coord", "get", "k", "--store", f"muster://{address}"])


@test
def every_command_gives_up_in_two_seconds():
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(12) as pool:
        for silence in SILENT:
            with silence() as address:
                commands = list(commands_for(address))
                assert len(commands) > 40, commands
                list(pool.map(lambda words, address=address: gives_up(address, words, scratch), commands))


@test
def each_address_is_named_with_its_reason():
    refused = dead_address()
    with black_hole() as hole, stopped() as paused:
        done = run("shard", "list", "--coordinator", f"{hole},{refused},{paused}")
        same("exit", (done.returncode, done.stdout), (6, ""))
        for part in (f"{hole} (the server did not speak within", f"{refused} (connection refused)", f"{paused} (the server did not speak within"):
            assert part in done.stderr, done.stderr
        assert sum(waited_ms(done.stderr)) <= GIVE_UP_MS, done.stderr
        done = run("replica", "hash", "--coordinator", f"{hole},{paused}")
        assert done.returncode == 6 and 2 * sum(waited_ms(done.stderr)) <= GIVE_UP_MS, done
    done = run("shard", "list", "--coordinator", ",".join(dead_address() for _ in range(7)))
    assert done.stderr.count("(connection refused)") == 5 and " and 2 more; " in done.stderr, done.stderr


@test
def a_longer_timeout_waits_longer():
    with stopped() as address:
        done = run("shard", "list", "--coordinator", address)
        assert "; --timeout waits longer\n" in done.stderr, done.stderr
        done = run("shard", "list", "--coordinator", address, "--timeout", "6s")
        assert waited_ms(done.stderr) == [3000] and "waits longer" not in done.stderr, done.stderr


# -- shards without coordinators --

def shard(cluster, count=1):
    def inspect(_request, _context):
        frame = METHODS[NEEDS][1]
        yield frame(header={"cycle": 7, "computed_at_unix_nanos": time.time_ns(), "total_needs": count})
        for number in range(count):
            yield frame(need={"cluster_id": cluster, "satisfied": True, "need": {"priority": 100 + number, "aggregate_resources": {"cpu": "16"}}})

    def machine(request, context):
        if request.machine_id != "m-1":
            context.abort(grpc.StatusCode.NOT_FOUND, "the shard knows no such machine")
        return METHODS[MACHINE][1](shard_id="s", cycle=7, machine_id="m-1", state="Idle")
    return canned({STATUS: {"shard_id": "s", "cycle": 7}, NEEDS: inspect, MACHINE: machine})


@test
def a_shard_is_asked_while_every_coordinator_is_down():
    nobody = ("--coordinator", dead_address())
    with shard("prod") as one:
        for words, part in ((("need", "list"), "prod     100"), (("explain", "need", "prod"), "need of prod with priority 100"),
                            (("explain", "machine", "m-1"), "machine m-1, of shard s in cycle 7")):
            done = run(*words, "--shard", one.address, *nobody)
            same(f"{words}", (done.returncode, done.stderr), (0, ""))
            assert part in done.stdout, done.stdout
            done = run(*words, "--shard", "shard-a", *nobody)
            same(f"{words} of a name", (done.returncode, done.stdout), (6, ""))
            assert "only coordinators know the address of --shard shard-a; give the address: no coordinator answers at" in done.stderr, done.stderr
            done = run(*words, *nobody)
            same(f"{words} of all", (done.returncode, done.stdout), (6, ""))
            assert "--shard ADDRESS needs none: no coordinator answers at" in done.stderr, done.stderr
            done = run(*words, "--shard", nobody[1])
            same(f"{words} of a dead shard", (done.returncode, done.stdout), (6, ""))
            assert f"no shard answers at {nobody[1]} (connection refused)" in done.stderr, done.stderr
    done = run("explain", "worker", "w", "--shard", "x:1")
    assert done.returncode == 2 and "--shard: unknown option" in done.stderr, done


@test
def a_shard_is_found_where_it_was_while_every_coordinator_is_down():
    with shard("prod") as one, tempfile.TemporaryDirectory() as cache:
        with canned({SHARDS: {"shards": [{"shard_id": "shard-a", "address": one.address, "last_heartbeat_unix_ns": 7}]}}) as server:
            known = ("--coordinator", server.address)
            same("they answer", run("need", "list", *known, XDG_CACHE_HOME=cache).returncode, 0)
            files = [entry.stat().st_ino for entry in os.scandir(f"{cache}/muster")]
            run("need", "list", "--shard", "shard-a", *known, XDG_CACHE_HOME=cache)
            same("one file, written once", [entry.stat().st_ino for entry in os.scandir(f"{cache}/muster")], files)
        for words in (("need", "list"), ("explain", "need", "prod"), ("explain", "machine", "m-1")):
            for which in (("--shard", "shard-a"), ()):
                done = run(*words, *which, *known, XDG_CACHE_HOME=cache)
                same(f"{words} {which}", (done.returncode, done.stderr), (0, "no coordinator answers; shards are asked where they were last\n"))
        done = run("need", "list", "--shard", "shart-a", *known, XDG_CACHE_HOME=cache)
        assert done.returncode == 5 and "did you mean shard-a?" in done.stderr, done
        done = run("need", "list", "--coordinator", dead_address(), XDG_CACHE_HOME=cache)
        same("others are not known", done.returncode, 6)


@test
def a_shard_is_found_by_its_name():
    with shard("prod") as one, shard("stage") as two:
        rows = [{"shard_id": "shard-a", "address": one.address}, {"shard_id": "shard-b", "address": two.address}]
        with canned({SHARDS: {"shards": rows}}) as server:
            done = run("need", "list", "--shard", "shard-b", "--coordinator", server.address)
            assert done.returncode == 0 and "\nstage  " in done.stdout and "prod" not in done.stdout, done
            same("the first is not asked", one.asked, [])
            done = run("need", "list", "--shard", "shart-b", "--coordinator", server.address)
            same("no such name", (done.returncode, done.stdout), (5, ""))
            assert "no shard shart-b is registered (did you mean shard-b?)" in done.stderr, done.stderr
            done = run("explain", "machine", "m-1", "--shard", "shard-b", "--coordinator", server.address)
            assert done.returncode == 0 and not one.asked, done


@test
def without_a_shard_all_are_asked():
    with shard("prod") as one, shard("stage", 2) as two:
        rows = [{"shard_id": "shard-a", "address": one.address}, {"shard_id": "shard-b", "address": two.address}]
        with canned({SHARDS: {"shards": rows}}) as server:
            done = run("need", "list", "--coordinator", server.address)
            same("well", (done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            same("each shard's cycle", [line.split(" at ")[0] for line in lines[:2]], ["shard-a: cycle 7", "shard-b: cycle 7"])
            same("rows", [(line.split()[0], line.split()[-1]) for line in lines[2:]],
                 [("CLUSTER", "SHARD"), ("prod", "shard-a"), ("stage", "shard-b"), ("stage", "shard-b")])
            document = json.loads(run("need", "list", "-o", "json", "--coordinator", server.address).stdout)
            same("Needs", [(need["shard_id"], need["cluster_id"]) for need in document["needs"]],
                 [("shard-a", "prod"), ("shard-b", "stage"), ("shard-b", "stage")])
            same("shards", [(row["shard_id"], row["error"], row["cycle"], row["total_needs"]) for row in document["shards"]],
                 [("shard-a", None, 7, 1), ("shard-b", None, 7, 2)])
        with canned({SHARDS: {"shards": [*rows, {"shard_id": "shard-c", "address": dead_address()}]}}) as server:
            done = run("need", "list", "--coordinator", server.address)
            assert done.returncode == 6 and "\nstage  " in done.stdout, done
            assert "2 of 3 shards answered: shard shard-c: no shard answers at" in done.stderr, done.stderr
            document = json.loads(run("need", "list", "-o", "json", "--coordinator", server.address).stdout)
            assert "connection refused" in document["shards"][2]["error"] and len(document["needs"]) == 3, document


# -- why it takes long, and what is wrong with an address --

@test
def after_two_seconds_the_reason_of_the_wait_is_printed():
    def follows(_request, context):
        context.set_trailing_metadata((("grpc-retry-pushback-ms", "1"),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not leader")
    with canned({SHARDS: follows}) as server:
        done = run("shard", "list", "--coordinator", server.address, "--timeout", "4s")
        same("exit", (done.returncode, done.stdout), (3, ""))
        same("first", done.stderr.splitlines()[0], f"no leader yet at {server.address}; waiting up to 4000 ms (--timeout)")
        done = run("shard", "list", "--coordinator", server.address, "--timeout", "1s")
        same("not within a short time-out", (done.returncode, len(done.stderr.splitlines())), (3, 1))


def hang_up(server):
    kept = []
    with contextlib.suppress(OSError):
        while True:
            kept.append(server.accept()[0])
            kept[-1].shutdown(socket.SHUT_WR)


@test
def an_address_that_cannot_be_right_is_refused():
    for option in ("--coordinator", "--shard"):
        done = run("need", "list", option, "h:0")
        assert done.returncode == 2 and f"{option}: h:0: port 0 cannot be dialed" in done.stderr, done
    for words in (("shard", "add", "s"), ("provider", "set", "p")):
        for address, why in (("nonsense", "needs an address such as"), ("h:0", "port 0 cannot be dialed")):
            done = run(*words, "--address", address)
            same(f"{words} {address}", (done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1))
            assert why in done.stderr, done
    with socket.create_server(("127.0.0.1", 0)) as raft:
        threading.Thread(target=hang_up, args=(raft,), daemon=True).start()
        done = run("shard", "list", "--coordinator", f"127.0.0.1:{raft.getsockname()[1]}")
        assert done.returncode == 6 and "is this the gRPC port, not that of Raft?" in done.stderr, done


# -- words of kubectl and etcdctl --

def rows_of_words():
    with open(os.path.join(PROTO_ROOT, "../cmd/help/words.txt"), encoding="utf-8") as table:
        for line in table.read().split("[musterctl]\n")[1].split("[muster]\n")[0].splitlines(True):
            row = re.fullmatch(r"([^#~=!]+?) +([~=!]) *(.*)\n", line)
            if row:
                yield from ((words.split(), row.group(2), row.group(3)) for words in row.group(1).split(", "))


@functools.cache
def help_of(command):
    return run("help", *command.split())


@test
def a_word_of_another_tool_runs_a_command_or_names_one():
    rows = list(rows_of_words())
    assert len(rows) > 150, rows
    for words, kind, meaning in rows:
        option = words[0][0] == "-"
        if kind == "=" and not option:
            same(f"{words}", run("help", *words).stdout, help_of(meaning).stdout)
        elif kind == "=":
            same(f"{words}", run("version", *words).returncode, 0)
        elif kind == "!":
            done = run(*(("version",) if option else ()), *words, "x")
            same(f"{words}", (done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
            assert meaning in done.stderr, done
            named = re.findall(r"musterctl ((?:[a-z]+-?)+(?: [a-z]+(?:-[a-z]+)*)?)", meaning)
            assert named or option or "musterctl --help" in meaning, f"{words} names no command: {meaning}"
            for command in named:
                same(f"{command} of {words}", help_of(command).returncode, 0)


@test
def a_value_comes_from_standard_input():
    values = []

    def put(request, _context):
        values.append(request.value)
        return METHODS["/muster.v1.Coordination/Put"][1](revision=7)
    with canned({"/muster.v1.Coordination/Put": put}) as server:
        for words, text in (((), "a\nb\n"), (("-",), ""), (("c",), "not read")):
            done = run("store", "put", "k", *words, "--coordinator", server.address, text=text)
            same(f"{words}", (done.returncode, done.stdout), (0, "revision 7\n"))
        same("values", values, [b"a\nb\n", b"", b"c"])
        done = run("store", "put", "k", "--coordinator", server.address, text="x" * (1 << 21))
        assert done.returncode == 1 and "value from standard input" in done.stderr, done


@test
def claims_are_kept_where_the_coordinators_are():
    address = dead_address()
    done = run("coord", "get", "k", "--timeout", "1s", MUSTER_COORDINATOR=address)
    assert done.returncode == 6 and address in done.stderr, done
    with tempfile.TemporaryDirectory() as home:
        done = run("coord", "get", "k", "--store", f"file://{home}", MUSTER_COORDINATOR=address)
        same("--store is stronger", done.returncode, 5)


# -- --watch --

LISTS = re.compile(r"(list|leaving|reports|partitions|ls|holders|status)$")


@test
def every_list_has_watch():
    lists = [(path, text) for path, text in leaves() if LISTS.search(path[-1]) and path != ("store", "status")]
    assert len(lists) >= 17, [path for path, _ in lists]
    for path, text in lists:
        assert "--watch" in text and "--count" in text, f"{path} has no --watch"


def shards_of(rounds):
    def answer(_request, context):
        rows = rounds.pop(0) if len(rounds) > 1 else rounds[0]
        if rows is None:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy")
        return METHODS[SHARDS][1](shards=[{"shard_id": row, "address": "h:1"} for row in rows])
    return answer


@test
def a_watch_prints_what_changed():
    with canned({SHARDS: shards_of([["a"], ["a"], ["a", "b"], ["a", "b"], ["b"]])}) as server:
        done = run("shard", "list", "--watch", "--count", "5", "-o", "json", "--coordinator", server.address)
        same("well", (done.returncode, done.stderr), (0, ""))
        same("a line for each change", [[row["shard_id"] for row in json.loads(line)["shards"]] for line in done.stdout.splitlines()],
             [["a"], ["a", "b"], ["b"]])
        same("asked so often, printed less often", server.times(SHARDS), 5)
    with canned({SHARDS: shards_of([["a"], ["a", "b"]])}) as server:
        done = run("shard", "list", "--watch", "--count", "2", "-o", "name", "--coordinator", server.address)
        same("a blank line between", done.stdout, "a\n\na\nb\n")
    with canned({SHARDS: shards_of([["a"], ["b"]])}) as server:
        done = run("shard", "list", "--watch", "--count", "2", "-o", "yaml", "--coordinator", server.address)
        same("YAML documents", done.stdout.count("\n---\n"), 1)


@test
def a_watch_survives_a_server_that_is_away_and_ends_with_another_error():
    with canned({SHARDS: shards_of([["a"], None, None, ["b"]])}) as server:
        done = run("shard", "list", "--watch", "--count", "4", "-o", "name", "--coordinator", server.address)
        same("it goes on", (done.returncode, done.stdout), (0, "a\n\nb\n"))
        same("and says it once", done.stderr.count("busy"), 1)
    done = run("shard", "list", "--watch", "--coordinator", dead_address())
    same("one that never began", (done.returncode, done.stdout), (6, ""))
    with canned({SHARDS: says(grpc.StatusCode.PERMISSION_DENIED, "not you")}) as server:
        same("refused", run("shard", "list", "--watch", "--coordinator", server.address).returncode, 1)


@test
def ctrl_c_ends_a_watch_with_0():
    with canned({SHARDS: {"shards": [{"shard_id": "a"}]}}) as server, \
            subprocess.Popen([MUSTERCTL, "shard", "list", "--watch", "-o", "name", "--coordinator", server.address], stdout=subprocess.PIPE,
                             text=True, env=ENVIRONMENT) as process:
        same("it began", process.stdout.readline(), "a\n")
        process.send_signal(signal.SIGINT)
        same("it ended well", (process.wait(PATIENCE), process.stdout.read()), (0, ""))


# -- empty lists --

@test
def an_empty_list_says_so():
    with canned({SHARDS: {}}) as server:
        done = run("shard", "list", "--coordinator", server.address)
        same("a heading, and a line for the person", (done.returncode, done.stdout, done.stderr),
             (0, "SHARD  ADDRESS  REGISTERED  LAST_HEARTBEAT\n", "musterctl shard list: the list is empty\n"))
        for words in (("need", "list"), ("shard", "list", "-o", "name")):
            done = run(*words, "--coordinator", server.address)
            assert done.returncode == 0 and done.stderr.endswith("the list is empty\n"), done
        done = run("shard", "list", "-o", "json", "--coordinator", server.address)
        same("a document is enough", (done.stdout, done.stderr), ('{"shards":[]}\n', ""))


# -- progress --

SAVE = "/bigfleet.v1alpha1.Coordinator/SnapshotSave"


def slow_chunks(_request, _context):
    for size in (0, 700 * 1024):
        yield METHODS[SAVE][1](data=b"x" * size)
        time.sleep(0.6)


@test
def a_long_save_shows_its_progress_to_a_person_alone():
    with canned({SAVE: slow_chunks}) as server, tempfile.TemporaryDirectory() as scratch:
        words = ["snapshot", "save", os.path.join(scratch, "x"), "--coordinator", server.address]
        ours, its = os.openpty()
        with subprocess.Popen([MUSTERCTL, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=its, env=ENVIRONMENT) as process:
            os.close(its)
            process.wait(PATIENCE)
        text = os.read(ours, 4096).decode()
        os.close(ours)
        assert " KiB received" in text, text
        assert "received" not in run(*words).stderr


run_tests(ONLY)
