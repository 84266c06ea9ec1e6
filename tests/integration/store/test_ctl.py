#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl store against three coordinators, and a backup of the store restored."""
import json
import os
import subprocess

import stores
from stores import PATIENT, Client, Cluster, check, new_id, run_cases, wait_for
from test_faults import Follower

CLUSTER = Cluster(3, PATIENT)


def ctl(*words, code=0, node=None):
    """Its output; it must end with `code`."""
    addresses = node.grpc if node else ",".join(one.grpc for one in CLUSTER.nodes)
    done = subprocess.run([stores.coordinators.MUSTERCTL, "store", *words, "--coordinator", addresses],
                          capture_output=True, timeout=60)
    check(done.returncode == code, f"store {words}: {done.returncode}, not {code}: {done.stderr} {done.stdout}")
    return (done.stdout if code == 0 else done.stderr).decode()


def keys_by_hand():
    """put, get, ls, del, by people and by programs; exit codes say what was found."""
    first = int(ctl("put", "app/a", "one").split()[1])
    ctl("put", "app/a", "two")
    ctl("put", "app/b", "x")
    check(ctl("get", "app/a") == "two\n", "the value")
    check(ctl("get", "app/a", "--revision", str(first)) == "one\n", "the past")
    got = json.loads(ctl("get", "app/a", "-o", "json"))
    check((got["key"], got["value"], got["create_revision"]) == ("app/a", "two", first), f"{got}")
    rows = [line.split() for line in ctl("ls", "app/").splitlines()]
    check([row[0] for row in rows] == ["KEY", "app/a", "app/b"], f"{rows}")
    check([json.loads(line)["key"] for line in ctl("ls", "app/", "-o", "json").splitlines()] == ["app/a", "app/b"],
          "lines")
    check("no such key" in ctl("get", "app/none", code=5), "5")
    check("deleted 2" in ctl("del", "app/", "--prefix"), "all of them")
    ctl("del", "app/a", code=5)
    check("claims" in ctl("put", "muster/a", "x", code=2), "not a claim")
    check("claims" in ctl("del", "", "--prefix", code=2), "nor all there is")


def a_repeat_by_hand():
    """The same request id does it once."""
    first = ctl("put", "rep/a", "one", "--request-id", "r-1")
    ctl("put", "rep/a", "two")
    check(ctl("put", "rep/a", "one", "--request-id", "r-1") == first, "the first answer again")
    check(ctl("get", "rep/a") == "two\n", "and nothing was done")


def claims_are_shown():
    """ls shows claims with their holders; many keys come in pages."""
    c = Client(CLUSTER.leader())
    c.lease(b"jobs/a", owner="w7")
    check(ctl("ls", "muster/jobs/").splitlines()[1].split()[::2] == ["muster/jobs/a", "w7"], "its holder")
    for n in range(1100):
        c.ask("Put", key=b"page/%04d" % n)
    lines = ctl("ls", "page/", "-o", "json").splitlines()
    check([json.loads(line)["key"] for line in lines] == ["page/%04d" % n for n in range(1100)], f"{len(lines)}")


def watching():
    """watch prints the present keys, then each change; a compacted revision is reported."""
    ctl("put", "see/a", "1")
    leader = CLUSTER.leader()
    process = subprocess.Popen([stores.coordinators.MUSTERCTL, "store", "watch", "see/", "-o", "json", "--coordinator",
                                leader.grpc], stdout=subprocess.PIPE)
    try:
        there = json.loads(process.stdout.readline())
        check((there["event"], there["key"]) == ("there", "see/a"), f"{there}")
        ctl("put", "see/b", "2")
        put = json.loads(process.stdout.readline())
        check((put["event"], put["key"], put["value"]) == ("put", "see/b", "2"), f"{put}")
        ctl("del", "see/a")
        gone = json.loads(process.stdout.readline())
        check((gone["event"], gone["key"]) == ("delete", "see/a"), f"{gone}")
    finally:
        process.kill()
        process.wait()
    ctl("compact", str(gone["revision"]))
    check("gone" in ctl("watch", "see/", "--revision", "2", code=5), "compacted")
    ctl("compact", "2", code=4)
    ctl("compact", "x", code=2)


def how_it_is():
    """status shows identity and sizes."""
    received = json.loads(ctl("status", "-o", "json"))
    check(len(received["store_id"]) == 32 and received["keys"] > 0 and received["quota"] == 2 << 30, f"{received}")
    check(received["store_id"] in ctl("status"), "for people, too")


def a_copy_is_another_store():
    """A backup holds the store; restored, its keys, groups and leases are there, its identity is new, its revisions go
    on far above: no token and no watch of before can be taken for one of after."""
    c, lease = Client(CLUSTER.leader()), new_id()
    made = c.lease(b"copy/held", owner="w1", ttl_ms=3600000, lease_id=lease)
    c.acquire(b"copy/group", "w2", 3, ttl_ms=3600000)
    c.create(b"copy/plain", b"value")
    before = c.ask("Status")
    archive = os.path.join(CLUSTER.dir, "copy.muster")
    muster, musterctl = stores.coordinators.MUSTER, stores.coordinators.MUSTERCTL
    subprocess.run([musterctl, "backup", archive, "--coordinator", c.node.grpc], check=True, capture_output=True)
    shown = subprocess.run([muster, "coordinator", "restore", archive, "--data-dir", CLUSTER.dir + "/node-5",
                            "--raft-advertise", CLUSTER.address(5, 1)], capture_output=True, check=True).stdout.decode()
    check("store" not in shown or "lacks" not in shown, shown)
    with Cluster(1, PATIENT, join=False, first=5) as other:
        os.rename(CLUSTER.dir + "/node-5", other.nodes[0].dir)
        other.start()
        copy = Client(other.leader())
        after = wait_for("it answers", lambda: copy.ask("Status"))
        check(after.store_id != before.store_id and after.store_id != bytes(16), f"{after}")
        check(after.revision >= before.revision + (1 << 40), f"{after.revision}")
        check(copy.get(b"copy/plain").entry.value == b"value", "a key")
        held = copy.get(b"copy/held").entry
        check((held.owner, held.token) == ("w1", made.token), f"{held}")
        check([h.owner for h in copy.ask("Holders", group=b"copy/group").holders] == ["w2"], "a slot")
        check(copy.acquire(b"copy/group", "w3", 3).token > before.revision + (1 << 40), "tokens grow")
        gone = stores.Watch(copy.node, scope=b"copy", bucket=True, start_revision=before.revision).next()
        check(gone.kind == stores.COMPACTED, f"{gone}")


def all_start_again():
    """All replicas stop and start: keys, leases, groups and the identity are as they were, and the clock did not move."""
    c, lease = Client(CLUSTER.leader()), new_id()
    c.lease(b"again/held", owner="w1", lease_id=lease)
    c.acquire(b"again/group", "w2", 3)
    before = c.ask("Status")
    for node in CLUSTER.nodes:
        node.process.kill()
        node.wait_end()
    for node in CLUSTER.nodes:
        node.start("--election", "1s")  # they have to elect one; nothing below needs that one to stay
    after = Follower(CLUSTER)
    revision = after.ask("Range", key=b"again/held", count_only=True).revision
    check(revision == before.revision, f"{before}, then {revision}")
    wait_for("each knows whose it is", lambda: after.ask("Status").store_id == before.store_id)
    check(after.get(b"again/held").entry.owner == "w1" and after.renew(lease)[0].code == stores.OK, "its lease lives")
    check([h.owner for h in after.ask("Holders", group=b"again/group").holders] == ["w2"], "its slot")
    CLUSTER.agree()


CASES = [keys_by_hand, a_repeat_by_hand, claims_are_shown, watching, how_it_is, a_copy_is_another_store,
         all_start_again]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.formed()
        run_cases(CASES)
