#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl worker status, workers, partitions, checkpoints, work and the commands that change workers, against canned answers.

usage: test_ctl_members.py MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)

The output, byte for byte, and the ending of each call; workers.md 24.11 by its numbers. The membership's own tests have
real coordinators.
"""
import json
import subprocess
import sys

from dead import dead_address

try:
    import grpc
    from fleet_contracts import Canned, contracts, says
    from cases import run_tests, same, test
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

MUSTERCTL, PROTOC, PROTO_ROOT = sys.argv[1:4]
ONLY = sys.argv[4] if len(sys.argv) > 4 else ""
DEADLINE = 60
FILES, MESSAGE = contracts.load(PROTOC, PROTO_ROOT, "muster/v1/member.proto")
METHODS = {"/" + path: (MESSAGE(method.input_type), MESSAGE(method.output_type))
           for path, method in contracts.methods_of(FILES).items()}
A, B = "01JFEAVS7C5DE5XEAEAB91EBT6", "01JFEAVS7C5DE5XEAEAB91EBT7"
NOON = 1780315200000
DASH = "\u2014"


def path_of(name):
    return f"/muster.v1.Membership/{name}"


def canned(**answers):
    return Canned(METHODS, {path_of(name): answer if callable(answer) else METHODS[path_of(name)][1](**answer)
                            for name, answer in answers.items()})


def ctl(server, *words):
    where = server if isinstance(server, str) else server.address
    return subprocess.run([MUSTERCTL, *words, "--coordinator", where], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=DEADLINE, env={"PATH": "/usr/bin:/bin"}, check=False)


def good(server, *words):
    done = ctl(server, *words)
    same(f"{' '.join(words)} ends well", (done.returncode, done.stderr), (0, ""))
    return done.stdout


def asked(server, name):
    return [request for path, request, _ in server.asked if path == path_of(name)]


STATUS = {"active": 3, "known": 4, "total_partitions": 128, "assignment_epoch": 7, "status": "ok"}
WORKERS = [{"worker_id": A, "incarnation": 2, "standing": 1, "phase": 2, "partitions": 43, "load": 0.421,
            "registered_at_ms": NOON, "received_at_ms": NOON, "silent_ms": 120},
           {"worker_id": B, "incarnation": 1, "standing": 3, "phase": 3, "reason": "dead", "registered_at_ms": NOON}]
TABLE = ("WORKER                      INCARNATION  STANDING  PHASE    PARTITIONS  LOAD  SILENT  "
         "REGISTERED            REASON\n"
         f"{A}  2            ACTIVE    READY    43          0.42  120ms   2026-06-01T12:00:00Z  {DASH}\n"
         f"{B}  1            DEAD      RUNNING  0           0.00  {DASH}       2026-06-01T12:00:00Z  dead\n")


@test
def case_164_an_empty_cluster_is_four_numbers():
    with canned(ClusterStatus={"total_partitions": 128, "status": "ok"}, ListWorkers={}) as server:
        done = ctl(server, "status")
        same("the list of workers is empty", (done.returncode, done.stderr), (0, "musterctl worker status: the list is empty\n"))
        same("for people, with the heading of nobody", done.stdout,
             "active workers    0\nknown workers     0\ntotal partitions  128\nassignment epoch  0\n\n"
             "WORKER  INCARNATION  STANDING  PHASE  PARTITIONS  LOAD  SILENT  REGISTERED  REASON\n")


@test
def case_164_status_is_four_numbers_then_the_workers():
    with canned(ClusterStatus=STATUS, ListWorkers={"workers": WORKERS}) as server:
        same("for people", good(server, "status"),
             "active workers    3\nknown workers     4\ntotal partitions  128\nassignment epoch  7\n\n" + TABLE)


@test
def case_167_status_json_is_what_the_page_says_and_the_exit_codes():
    want = '{"active":3,"known":4,"total_partitions":128,"assignment_epoch":7}\n'
    with canned(ClusterStatus=STATUS, ListWorkers={}) as server:
        same("--json", good(server, "status", "--json"), want)
        same("-o json", good(server, "status", "-o", "json"), want)
    with canned(ClusterStatus={**STATUS, "status": "degraded", "hold": True}, ListWorkers={}) as server:
        done = ctl(server, "status", "--json")
        same("not well: the numbers, and 1", (done.returncode, done.stdout), (1, want))
        assert "degraded" in done.stderr and "held back" in done.stderr, done.stderr
    same("nobody answers: 2", ctl(dead_address(), "status").returncode, 2)
    same("by its other name, as every command", ctl(dead_address(), "worker", "status").returncode, 6)
    with canned(ClusterStatus=says(grpc.StatusCode.UNAVAILABLE, "no quorum")) as server:
        same("no leader: 2", ctl(server, "status", "--timeout", "300ms").returncode, 2)


@test
def workers_are_listed_and_filtered():
    with canned(ListWorkers={"workers": WORKERS}) as server:
        same("for people", good(server, "workers"), TABLE)
        rows = json.loads(good(server, "workers", "-o", "json", "--standing", "dead"))
        same("all of it for programs", [row["worker_id"] for row in rows["workers"]], [A, B])
        same("words, not numbers", rows["workers"][0]["standing"], "STANDING_ACTIVE")
        same("the filter is the server's", [request.standing for request in asked(server, "ListWorkers")], [0, 3])


@test
def pages_are_put_together():
    everybody = [{"worker_id": f"w{number:04}", "standing": 1} for number in range(2500)]

    def page(request, _context):
        rest = [row for row in everybody if row["worker_id"] > request.after]
        return METHODS[path_of("ListWorkers")][1](workers=rest[:1000], more=len(rest) > 1000)
    with canned(ListWorkers=page) as server:
        rows = json.loads(good(server, "workers", "-o", "json"))
        same("every one once, in order", [row["worker_id"] for row in rows["workers"]],
             [row["worker_id"] for row in everybody])
        same("and no more", rows["more"], False)
        same("in three calls", len(server.asked), 3)


@test
def partitions_and_the_assignment_of_one_worker():
    rows = [{"partition": 0, "state": 1, "owner": A, "owner_incarnation": 2, "grant_epoch": 9,
             "checkpoint": "ckpt-1"},
            {"partition": 11, "state": 2, "owner": A, "owner_incarnation": 2, "grant_epoch": 10, "next_owner": B}]
    want = ("PARTITION  STATE     OWNER                       INCARNATION  GRANT_EPOCH  NEXT_OWNER                  "
            "CHECKPOINT\n"
            f"0          OWNED     {A}  2            9            {DASH}                           ckpt-1\n"
            f"11         REVOKING  {A}  2            10           {B}  {DASH}\n")

    def page(request, _context):
        first = getattr(request, "from")
        return METHODS[path_of("ListPartitions")][1](
            partitions=[row for row in rows if row["partition"] >= first][:1], more=first == 0)
    with canned(ListPartitions=page) as server:
        same("for people, of two pages", good(server, "partitions"), want)
        same("of one worker", good(server, "partitions", "--worker", A), want)
        same("assignment", good(server, "assignment", A), want)
        same("who was asked for", [request.worker_id for request in asked(server, "ListPartitions")],
             ["", "", A, A, A, A])


@test
def checkpoints_come_with_their_round():
    with canned(ListCheckpoints={"round": 57, "outstanding": 2, "checkpoints": [
            {"partition": 3, "checkpoint": "ckpt-w-1", "grant_epoch": 4, "at_ms": NOON, "worker_id": A}]}) as server:
        same("for people", good(server, "checkpoints"),
             "round 57, 2 workers have not answered\n\n"
             "PARTITION  CHECKPOINT  GRANT_EPOCH  AT                    WORKER\n"
             f"3          ckpt-w-1    4            2026-06-01T12:00:00Z  {A}\n")
        same("for programs", json.loads(good(server, "checkpoints", "-o", "json"))["round"], 57)


@test
def work_items_are_known_by_their_hash():
    item = bytes(range(32))
    with canned(ListWork={"rows": [{"id": item, "state": 1, "worker_id": A, "started_at_ms": NOON, "attempts": 2,
                                    "bytes": 17}]}) as server:
        same("for people", good(server, "work", "--unfinished"),
             f"ITEM{' ' * 62}STATE    WORKER                      STARTED               ATTEMPTS  BYTES  REASON\n"
             f"{item.hex()}  RUNNING  {A}  2026-06-01T12:00:00Z  2         17     {DASH}\n")
        same("only what is not done", asked(server, "ListWork")[0].unfinished, True)
        same("for programs", json.loads(good(server, "work", "-o", "json"))["rows"][0]["id"], item.hex())


@test
def a_watch_lists_again_with_every_change():
    rounds = iter(range(100))

    def page(_request, _context):
        return METHODS[path_of("ListWorkers")][1](workers=[{"worker_id": f"w{next(rounds)}", "standing": 1}])
    with canned(ListWorkers=page) as server:
        out = good(server, "workers", "--watch", "--count", "2", "-o", "json")
        same("a line for each change", [json.loads(line)["workers"][0]["worker_id"] for line in out.splitlines()],
             ["w0", "w1"])
        out = good(server, "workers", "--watch", "--count", "2")
        same("tables with a blank line between", [line.split(" ")[0] for line in out.splitlines()],
             ["WORKER", "w2", "", "WORKER", "w3"])
        assert "\033" not in out, "nothing steers a pipe"


@test
def a_watch_that_never_began_is_a_failure():
    done = ctl(dead_address(), "workers", "--watch", "--timeout", "300ms")
    same("unreachable", done.returncode, 6)
    with canned(ListWorkers=says(grpc.StatusCode.PERMISSION_DENIED, "not you")) as server:
        same("refused", ctl(server, "workers", "--watch").returncode, 1)


@test
def what_a_person_may_do():
    with canned(Drain={"delivered": True}, Evict={"incarnation": 3}, ReleaseHold={"held": False},
                CheckpointNow={"round": 8, "workers": 20}) as server:
        same("drain", good(server, "drain", A, "--deadline", "5s"), f"{A} has been ordered to drain\n")
        same("its deadline", asked(server, "Drain")[0].deadline_ms, 5000)
        same("evict", good(server, "evict", A), f"evicted {A}, incarnation 3\n")
        same("release-hold", good(server, "release-hold"), "nothing was held back\n")
        same("checkpoint now", good(server, "checkpoint", "now"), "round 8 asks 20 workers\n")
        same("for programs", json.loads(good(server, "evict", A, "-o", "json"))["response"]["incarnation"], 3)
    with canned(Drain={"delivered": False}, Evict=says(grpc.StatusCode.NOT_FOUND, f"no {A}")) as server:
        same("drain", good(server, "drain", A), f"{A} will be ordered to drain with its next beat\n")
        same("unknown", ctl(server, "evict", A).returncode, 5)


run_tests(ONLY)
