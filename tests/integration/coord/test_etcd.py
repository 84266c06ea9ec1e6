#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The etcd store over a real etcd: its cases of Part D (P01-P09), and cases that need access to the server.

usage: test_etcd.py ACTOR PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
import os
import shutil
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../lib")]
ACTOR, PROTOC, PROTO_ROOT = (os.path.abspath(path) for path in sys.argv[1:4])
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
try:
    import grpc
    from between import Between, Refuse
    from contracts import load
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)
from actors import PATIENCE, Actor, Failed, check, run, same  # noqa: E402
from etcd_cluster import Cluster, b64  # noqa: E402

_, message = load(PROTOC, PROTO_ROOT, "etcd/rpc.proto")
TESTS = []
TTL = 2000
SLOTS, TAKEOVER = 1 << 3, 1


def test(function):
    TESTS.append(function)
    return function


def read(name, data):
    return message("etcdserverpb." + name).FromString(data)


def until(truth, why, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not truth():
        if time.monotonic() > deadline:
            raise Failed(why)
        time.sleep(0.05)


# -- D11 --

@test
def p01_an_entry_deleted_with_a_command_line_ends_the_claim_though_its_lease_lives():
    with Actor(ACTOR, ONE.url("/p01")) as a:
        a.says("OK/created", "create", 1, "k", "v", 600000, "me")    # the next renewal is minutes away
        a.says("OK/created", "create", 2, "l", "v", 60000, "me")
        a.says("OK", "keep", 1)
        same("deleted", ONE.delete("muster/p01/k") + ONE.delete("muster/p01/l"), 2)
        same("reported", a.wait_lost(1)["reason"], "revoked")
        a.says("EXPIRED/revoked", "renew", 2)
        a.says("EXPIRED/revoked", "renew", 2)


@test
def p02_a_lease_revoked_by_an_administrator_takes_all_its_keys_and_each_loss_is_reported():
    with Actor(ACTOR, ONE.url("/p02")) as a:
        before = set(ONE.leases())
        a.says("OK/created", "create", 1, "b/x", "v", 60000, "me")
        a.says("OK/created", "under", 1, "b/y", "w")
        a.says("OK", "watch", 1, "b", 1)
        a.says("OK", "keep", 1)
        lease, = set(ONE.leases()) - before
        ONE.post("lease/revoke", ID=lease)
        check(a.wait_lost(1)["reason"] in ("revoked", "deadline"), "why")
        events = a.events(1, lambda seen: len([e for e in seen if e[0] in ("expire", "del")]) == 2)
        same("per key", sorted(e[:2] for e in events if e[0] == "expire"), [["expire", "b/x"], ["expire", "b/y"]])
        a.says("NOT_FOUND", "get", "b/x")


@test
def p03_history_that_was_compacted_meanwhile_makes_a_resync():
    with Actor(ACTOR, LINKED.url("/p03")) as a:
        a.says("OK/created", "create", 1, "b/x", "1", 0, "-")
        a.says("OK", "watch", 1, "b", 1)
        a.events(1, lambda seen: any(e[0] == "end" for e in seen))
        LINKED.links[0].cut()
        with Actor(ACTOR, f"etcd://127.0.0.1:{LINKED.ports[0]}/p03") as other:
            other.says("OK/deleted", "delete", "b/x", "any", "-")
            other.says("OK/created", "create", 1, "b/y", "2", 0, "-")
            LINKED.compact()
        LINKED.links[0].heal()
        events = a.events(1, lambda seen: any(e[0] == "end" for e in seen))
        kinds = [e[0] for e in events if e[0] != "progress"]
        same("order", kinds, ["resync", "begin", "entry", "end"])
        same("what is left", [e[1] for e in events if e[0] == "entry"], ["b/y"])


@test
def a_lost_connection_is_no_gap_and_no_resync():
    with Actor(ACTOR, LINKED.url("/resume")) as a:
        a.says("OK", "watch", 1, "b", 1)
        a.events(1, lambda seen: any(e[0] == "end" for e in seen))
        LINKED.links[0].drop()
        with Actor(ACTOR, f"etcd://127.0.0.1:{LINKED.ports[0]}/resume") as other:
            for i in range(20):
                other.says("OK/created", "create", 1, f"b/{i:02}", "v", 0, "-")
        events = a.events(1, lambda seen: len([e for e in seen if e[0] == "put"]) >= 20)
        same("all of them, once, in order", [e[1] for e in events if e[0] != "progress"],
             [f"b/{i:02}" for i in range(20)])


@test
def p04_a_grant_whose_reply_was_lost_is_known_again():
    lost = []

    def hook(method, request, forward):
        reply = forward()
        if method == "LeaseGrant" and len(lost) < 1:
            lost.append(read("LeaseGrantRequest", request).ID)
            raise Refuse(grpc.StatusCode.UNAVAILABLE, "the reply is lost")
        return reply
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR, between.url("/p04")) as a:
        before = set(ONE.leases())
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        same("one lease, the first", set(ONE.leases()) - before, {str(lost[0])})
        same("asked twice", between.counts["LeaseGrant"], 2)
        a.says("OK/renewed", "renew", 1)


@test
def p05_claims_that_died_between_grant_and_put_leave_nothing():
    granted = threading.Semaphore(0)

    def hook(method, _, forward):
        if method == "Txn":
            granted.release()
            time.sleep(5)
            raise Refuse(grpc.StatusCode.UNAVAILABLE, "too late")
        return forward()
    before = set(ONE.leases())
    with Between(ONE.ports[0], hook) as between:
        actors = [Actor(ACTOR, between.url("/p05")) for _ in range(12)]
        for i, actor in enumerate(actors):
            actor.send("create", 1, f"k{i}", "v", TTL, "me")
        for _ in actors:
            check(granted.acquire(timeout=PATIENCE), "a put")
        check(between.counts["LeaseGrant"] >= len(actors), "they are granted")
        for actor in actors:
            actor.kill()
    until(lambda: not set(ONE.leases()) - before, "leases are left over")
    same("entries", ONE.keys("muster/p05/"), {})


@test
def p06_a_server_that_grants_another_ttl_than_asked_is_refused_and_the_lease_revoked():
    def hook(method, request, forward):
        if method != "LeaseGrant":
            return forward()
        raised = read("LeaseGrantRequest", request)
        if raised.TTL == 3:
            raised.TTL = 600    # as a server raises what is under 1.5 election timeouts
        return forward(raised.SerializeToString())
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR, between.url("/p06")) as a:
        before = set(ONE.leases())
        said = a.says("UNSUPPORTED/server", "create", 1, "k", "v", 3000, "me")
        check("600 s" in said["text"], said["text"])
        until(lambda: not set(ONE.leases()) - before, "the lease is revoked")
        a.says("UNSUPPORTED/server", "acquire", 1, "g", 1, "me", 3000, 0)
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        a.says("INVALID/ttl_range", "create", 2, "l", "v", 1999, "me")


@test
def p07_two_claims_on_one_lease_release_one_and_the_other_lives():
    with Actor(ACTOR, ONE.url("/p07")) as a:
        before = set(ONE.leases())
        a.says("OK/created", "create", 1, "x", "v", 60000, "me")
        a.says("OK/created", "under", 1, "y", "v")
        a.says("OK", "keep", 1)
        a.says("OK/released", "releasekey", 1, "x")
        time.sleep(1.5)     # a revoke would have come by now
        same("lease", len(set(ONE.leases()) - before), 1)
        a.says("OK/renewed", "renew", 1)
        a.says("NOT_FOUND", "get", "x")
        a.says("OK", "get", "y")
        same("not lost", a.lost, {})
        a.says("OK/released", "release", 1)
        until(lambda: not set(ONE.leases()) - before, "the lease is revoked after the last key")


@test
def p08_versions_begin_anew_after_a_delete_revisions_do_not():
    with Actor(ACTOR, ONE.url("/p08")) as a:
        seen = []
        for _ in range(5):
            seen.append(a.says("OK/created", "create", 1, "k", "v", 0, "-")["revision"])
            same("etcd's own count", ONE.keys("muster/p08/")["muster/p08/k"]["version"], "1")
            seen.append(a.says("OK/deleted", "delete", "k", seen[-1], "-")["revision"])
        same("rising", seen, sorted(set(seen)))
        a.says("CONFLICT/absent", "cas", "k", seen[0], "v", 0, "-", 1)


@test
def p09_with_the_quota_used_up_nothing_is_created_and_leases_still_renew():
    with Between(ONE.ports[0]) as between, Actor(ACTOR, between.url("/p09")) as a:
        member = ONE.post("maintenance/status")["header"]["member_id"]
        revision = a.says("OK/created", "create", 1, "k", "v", 60000, "me")["revision"]
        ONE.post("maintenance/alarm", action="ACTIVATE", memberID=member, alarm="NOSPACE")
        try:
            for words in (("create", 2, "l", "v", 0, "-"), ("create", 2, "l", "v", 60000, "me"),
                          ("cas", "k", revision, "w", -1, 1, 3), ("acquire", 2, "g", 1, "me", 60000, 0)):
                before = dict(between.counts)
                same("not in doubt", a.says("UNAVAILABLE/quota", *words)["flags"], 0)
                tried = {name: count - before.get(name, 0) for name, count in between.counts.items()}
                check(sum(tried[name] for name in ("Txn", "LeaseGrant")) <= 2, f"answered, not tried again: {tried}")
            a.says("OK/renewed", "renew", 1)
            a.says("OK", "get", "k")
            a.says("OK/released", "release", 1)
        finally:
            ONE.post("maintenance/alarm", action="DEACTIVATE", memberID=member, alarm="NOSPACE")


# -- B3 --

def as_text(txn, lease):
    """A transaction as the table of the specification writes it."""
    def key(raw):
        return raw.decode().removeprefix("muster/t/")

    def compare(c):
        target = c.WhichOneof("target_union")
        value = getattr(c, target)
        return f"{target.split('_')[0]}({key(c.key)}) = {'L' if target == 'lease' and value == lease else value}"

    def op(o):
        body = getattr(o, o.WhichOneof("request"))
        name = o.WhichOneof("request").removeprefix("request_")
        if name == "put":
            return f"put({key(body.key)}" + (", lease L" if lease and body.lease == lease else "") + \
                (", same lease" if body.ignore_lease else "") + ")"
        return f"{name}({key(body.key)}{'..' if body.range_end else ''})"
    return "if " + "; ".join(map(compare, txn.compare)) + " then " + " ".join(map(op, txn.success)) + \
        " else " + " ".join(map(op, txn.failure))


@test
def every_operation_is_the_transaction_of_the_table():
    seen, lease = [], [-1]

    def hook(method, request, forward):
        if method == "LeaseGrant":
            lease[0] = read("LeaseGrantRequest", request).ID
        if method == "Txn" and (read("TxnRequest", request).compare or read("TxnRequest", request).failure):
            seen.append(as_text(read("TxnRequest", request), lease[0]))
        return forward()
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR, between.url("/t")) as a:
        def did(why, *want):
            same(why, seen, list(want))
            seen.clear()
        a.says("OK/created", "create", 1, "k", "v", 0, "-")
        did("create", "if create(k) = 0 then put(k) else range(k)")
        m = a("get", "k")["revision"]
        a.says("OK/updated", "cas", "k", m, "w", 0, "-", 2)
        did("CAS, plain key", f"if mod(k) = {m}; lease(k) = 0 then put(k) else range(k)")
        m = a("get", "k")["revision"]
        a.says("OK/deleted", "delete", "k", m, "-")
        did("delete, plain", f"if mod(k) = {m}; lease(k) = 0 then delete_range(k) else range(k)")
        c = a.says("OK/created", "create", 1, "k", "v", 60000, "me")["revision"]
        did("create, leased", "if create(k) = 0 then put(k, lease L) else range(k)")
        a.says("OK/updated", "cas", "k", c, "w", -1, 1, 2)
        did("CAS, own claim",
            f"if mod(k) = {c}; create(k) = {c}; lease(k) = L then put(k, same lease) else range(k)")
        a.says("OK/renewed", "renew", 1)
        did("verify on renew", f"if create(k) = {c}; lease(k) = L then  else range(k)")
        a.says("OK/released", "release", 1)
        did("release", f"if create(k) = {c}; lease(k) = L then delete_range(k) else range(k)")
        m = a.says("OK/acquired", "acquire", 1, "g", 2, "me", 60000, 0)["revision"]
        did("create group, acquire slot", "if create(g/.group) = 0 then put(g/.group) else range(g/.group)",
            f"if mod(g/.group) = {m - 1}; create(g/slot-0000) = 0 then put(g/slot-0000, lease L) "
            "else range(g/slot-0000)")
        old = lease[0]
        a.says("OK/acquired", "acquire", 2, "g", 2, "me", 60000, TAKEOVER)
        did("takeover, same owner",
            f"if mod(g/slot-0000) = {m}; lease(g/slot-0000) = {old} then put(g/slot-0000, lease L) "
            "else range(g/slot-0000)")
        a.says("OK/resized", "resize", "g", m - 1, 3)
        did("resize", f"if mod(g/.group) = {m - 1}; lease(g/.group) = 0 then put(g/.group) else range(g/.group)")


# -- lost replies --

def lose_first_txn(lost, status=grpc.StatusCode.UNAVAILABLE):
    def hook(method, _, forward):
        reply = forward()
        if method == "Txn" and read("TxnResponse", reply).responses and not lost and \
                read("TxnResponse", reply).responses[0].WhichOneof("response") != "response_range":
            lost.append(1)
            raise Refuse(status, "etcdserver: request timed out")
        return reply
    return hook


@test
def a_write_whose_reply_was_lost_is_known_again():
    cases = [("create", 1, "c", "v", 0, "-"), ("create", 1, "d", "v", 60000, "me"),
             ("acquire", 2, "g", 3, "me", 60000, 0), ("cas", "u", None, "w", 0, "-", 1), ("delete", "u", None, "-")]
    wanted = ["OK/replayed", "OK/replayed", "OK/replayed", "OK/replayed", "OK/already"]
    with Actor(ACTOR, ONE.url("/lost")) as plain:
        revision = plain.says("OK/created", "create", 1, "u", "v", 0, "-")["revision"]
        for words, want in zip(cases, wanted):
            if words[0] == "acquire":   # the group's record first, so that it is the slot's reply that is lost
                plain.says("OK/acquired", "acquire", 9, "g", 3, "other", 60000, 0)
            lost = []
            with Between(ONE.ports[0], lose_first_txn(lost)) as between, Actor(ACTOR, between.url("/lost")) as a:
                said = a.says(want, *(revision if word is None else word for word in words))
                if words[0] == "cas":
                    revision = said["revision"]
                same("a reply was lost", lost, [1])
                if words[0] == "acquire":
                    same("one slot", len(a("holders", "g")["rows"]), 2)
                if words[0] in ("acquire", "create") and words[4 if words[0] == "create" else 5] == 60000:
                    a.says("OK/renewed", "renew", words[1])


@test
def a_request_id_used_for_something_else_is_no_replay():
    with Actor(ACTOR, ONE.url("/ids")) as a:
        a("id", "one")
        a.says("OK/created", "create", 1, "k", "v", 0, "-")
        a("id", "one")
        a.says("OK/replayed", "create", 1, "k", "v", 0, "-")
        a("id", "one")
        a.says("EXISTS/held", "create", 1, "k", "v", 60000, "me")
        a("id", "two")
        first = a.says("OK/created", "create", 2, "l", "v", 60000, "me")
        a("id", "two")
        same("the first answer again", a.says("OK/replayed", "create", 3, "l", "v", 60000, "me")["token"], first["token"])
        a("id", "two")
        a.says("EXISTS/held", "create", 4, "l", "v", 0, "-")


@test
def a_release_whose_reply_was_lost_is_done_once():
    lost = []
    with Between(ONE.ports[0]) as between, Actor(ACTOR, between.url("/rel")) as a:
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        between.hook = lose_first_txn(lost)
        a.says("OK/already", "release", 1)
        same("a reply was lost", lost, [1])
        a.says("OK/already", "release", 1)


@test
def a_late_answer_makes_no_lease_longer():
    with Between(ONE.ports[0]) as between, Actor(ACTOR, between.url("/late")) as a:
        a.says("OK/created", "create", 1, "k", "v", 10000, "me")
        between.stream_delay = 2
        a.says("OK/renewed", "renew", 1)
        safe = a("safe", 1)["done"]
        check(safe <= 10000 - 1000 - 2000, f"safe for {safe} ms: counted from the answer")


# -- who it talks to --

@test
def a_server_older_than_3_4_is_refused_by_name():
    def hook(method, _, forward):
        status = read("StatusResponse", forward()) if method == "Status" else None
        if status is None:
            return forward()
        status.version = "3.3.27"
        return status.SerializeToString()
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR) as a:
        check("3.3.27" in a.says("UNSUPPORTED/server", "open", between.url())["text"], "names it")


@test
def endpoints_that_lead_to_another_cluster_end_every_claim():
    with Between(ONE.ports[0]) as between, Actor(ACTOR, between.url("/moved")) as a:
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        a.says("OK", "keep", 1)
        between.retarget(LINKED.ports[0])
        same("refused", a("get", "k")["code"], "UNAVAILABLE")
        a.wait_lost(1)
        same("says so", a("caps")["degraded"], 1)
        check(a("create", 2, "l", "v", 60000, "me")["code"] in ("UNSUPPORTED", "UNAVAILABLE"), "no new grant")
        same("nothing there", LINKED.keys("muster/moved/"), {})


@test
def errors_of_the_server_have_our_names():
    says = []

    def hook(method, _, forward):
        if method == "Txn" and says:
            raise Refuse(*says[0])
        return forward()
    code = grpc.StatusCode
    table = [
        (code.UNAVAILABLE, "etcdserver: no leader", "UNAVAILABLE/no_leader", 1),
        (code.UNAVAILABLE, "etcdserver: request timed out", "UNAVAILABLE/timeout", 1),
        (code.RESOURCE_EXHAUSTED, "etcdserver: too many requests", "UNAVAILABLE/overloaded", 0),
        (code.PERMISSION_DENIED, "etcdserver: permission denied", "UNAVAILABLE/forbidden", 0),
        (code.DATA_LOSS, "etcdserver: corrupt cluster", "UNAVAILABLE/corrupt", 1),
        (code.UNIMPLEMENTED, "no such method", "UNSUPPORTED/server", 0),
        (code.INVALID_ARGUMENT, "etcdserver: request is too large", "INVALID/value_size", 0),
        (code.UNKNOWN, "what", "UNAVAILABLE/storage", 1),
        (code.OUT_OF_RANGE, "what", "UNAVAILABLE/storage", 0),
    ]
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR, between.url("/err"), timeout_ms=700) as a:
        for status, text, want, doubt in table:
            says[:] = [(status, text)]
            for _ in range(4):  # a machine that stalls for the whole call gives another answer
                got = a("create", 1, "k", "v", 0, "-")
                if got["text"] != "etcd: no time left":
                    break
            same(text, (f"{got['code']}/{got['reason']}", got["flags"]), (want, doubt))


@test
def a_server_that_refuses_everything_is_not_hammered():
    with Between(ONE.ports[0]) as between, Actor(ACTOR, between.url("/calm"), timeout_ms=3000) as a:
        for i in range(10):
            a.says("OK/created", "create", i, f"k{i}", "v", 3000, "me")
            a.says("OK", "keep", i)
        a.says("OK", "watch", 1, "b", 1)
        between.refuse = (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
        before, began = dict(between.counts), time.monotonic()
        a.says("UNAVAILABLE/no_leader", "create", 20, "new", "v", 0, "-")
        seconds = time.monotonic() - began
        calls = {method: count - before.get(method, 0) for method, count in between.counts.items()}
        print(f"# 10 kept leases, a watch, a caller: {sum(calls.values()) / seconds:.0f} calls a second: {calls}")
        check(sum(calls.values()) < 150 * seconds, f"{calls} in {seconds} s")
        between.refuse = None
        a.says("OK/created", "create", 21, "after", "v", 0, "-")


@test
def no_etcd_there_is_said_at_once():
    with Actor(ACTOR, timeout_ms=2000 * PATIENCE) as a:  # longer than an answer is waited for
        a.says("UNAVAILABLE/connection", "open", "etcd://127.0.0.1:1,127.0.0.1:2")
        for url in ("etcd://", "etcd://h/a?prefix=b", "etcd://h?tls=2", "etcd://h?ca=/x", ONE.url("?nonsense=1"),
                    "etcds://h?ca=/no/such/file", "etcds://h?cert=/x", "etcd://h?raw=yes"):
            a.says("INVALID/url", "open", url)


# -- the store's own ways --

@test
def prefixes_are_stores_of_their_own():
    with Actor(ACTOR, ONE.url("/one")) as a, Actor(ACTOR, ONE.url("?prefix=two/deep")) as b:
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        b.says("NOT_FOUND", "get", "k")
        b.says("INVALID/other_store", "import", 1, a("export", 1)["blob"])
        b.says("OK/created", "create", 1, "k", "v", 0, "-")
        check("muster/two/deep/k" in ONE.keys(), "in the server's keys")


@test
def raw_entries_hold_the_bare_value_and_no_slots():
    with Actor(ACTOR, ONE.url("/plain?raw=1")) as a:
        a.says("OK/created", "create", 1, "d/k", "hello", 60000, "me")
        same("as other programs see it", ONE.keys("plain/")["plain/d/k"]["value"], b64("hello"))
        a.says("UNSUPPORTED/capability", "acquire", 2, "g", 1, "me", 60000, 0)
        a.says("EXISTS/held", "create", 2, "d/k", "x", 0, "-")
        ONE.put("plain/d/other", "theirs")
        same("theirs", a.says("OK", "get", "d/other")["value"], "theirs")
        a.says("CONFLICT/not_owner", "cas", "d/k", a("get", "d/k")["revision"], "x", -1, "-", 3)
        a.says("OK/updated", "cas", "d/k", a("get", "d/k")["revision"], "x", -1, 1, 3)
        a.says("OK/renewed", "renew", 1)
        a.says("OK/released", "release", 1)


@test
def a_foreign_key_among_ours_is_corrupt_never_absent():
    with Actor(ACTOR, ONE.url("/foreign")) as a:
        ONE.put("muster/foreign/k", "not an envelope")
        a.says("UNAVAILABLE/corrupt", "get", "k")
        a.says("UNAVAILABLE/corrupt", "create", 1, "k", "v", 0, "-")
        a.says("UNAVAILABLE/corrupt", "create", 1, "k", "v", 60000, "me")
        a.says("OK/acquired", "acquire", 1, "g", 2, "me", 60000, 0)
        ONE.put("muster/foreign/g/slot-0001", "nonsense")
        a.says("UNAVAILABLE/corrupt", "acquire", 2, "g", 2, "you", 60000, 0)
        a.says("UNAVAILABLE/corrupt", "holders", "g")
        ONE.put("muster/foreign/g/slot-0000", "overwritten")
        a.says("EXPIRED/revoked", "renew", 1)


@test
def a_watch_distinguishes_release_from_expiry():
    with Actor(ACTOR, ONE.url("/why")) as a, Actor(ACTOR, ONE.url("/why")) as dying:
        a.says("OK", "watch", 1, "b", 1)
        dying.says("OK/created", "create", 1, "b/dies", "v", TTL, "him")
        dying.kill()
        a.says("OK/created", "create", 1, "b/k", "v", 60000, "me")
        a.says("OK/updated", "cas", "b/k", a("get", "b/k")["revision"], "w", -1, 1, 3)
        a.says("OK/released", "release", 1)
        a.says("OK/created", "create", 1, "b/deep/er", "v", 0, "-")
        a.says("OK/created", "create", 1, "b2/k", "v", 0, "-")
        events = a.events(1, lambda seen: any(e[0] == "expire" for e in seen))
        events = [e for e in events if e[0] not in ("progress", "begin", "end")]
        same("in order", [e[:2] for e in events],
             [["put", "b/dies"], ["put", "b/k"], ["put", "b/k"], ["del", "b/k"], ["expire", "b/dies"]])
        same("whose", [e[4] for e in events], ["him", "me", "me", "me", "him"])
        revisions = [e[2] for e in events]
        same("rising", revisions, sorted(set(revisions)))


@test
def a_snapshot_of_many_pages_is_one_instant():
    with Actor(ACTOR, ONE.url("/many")) as a:
        for i in range(300):
            a.send("create", 1, f"b/{i:03}", "v", 0, "-")
        for _ in range(300):
            same("made", a.take()["code"], "OK")
        a.says("OK", "watch", 1, "b", 1)
        events = a.events(1, lambda seen: any(e[0] == "end" for e in seen))
        same("entries", [e[1] for e in events if e[0] == "entry"], [f"b/{i:03}" for i in range(300)])


@test
def an_exported_lease_goes_on_in_another_process():
    with Actor(ACTOR, ONE.url("/exp")) as a, Actor(ACTOR, ONE.url("/exp")) as b:
        made = a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        blob = a("export", 1)["blob"]
        a.kill()
        b.says("OK", "import", 1, blob)
        same("token", b.says("OK/renewed", "renew", 1)["token"], made["token"])
        b.says("OK/released", "release", 1)
        b.says("EXPIRED", "import", 2, blob)


@test
def a_lease_that_ends_while_it_is_imported_is_reported_as_ended_not_as_revoked():
    """The lease ends between the request for its time and the request for its keys."""
    def hook(method, request, forward):
        reply = forward()
        if method == "LeaseTimeToLive":
            lease = read("LeaseTimeToLiveRequest", request).ID
            if str(lease) in ONE.leases():
                ONE.post("lease/revoke", ID=str(lease))
        return reply
    with Between(ONE.ports[0], hook) as between, Actor(ACTOR, ONE.url("/ends")) as a, \
            Actor(ACTOR, between.url("/ends")) as b:
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        b.says("EXPIRED/deadline", "import", 1, a("export", 1)["blob"])


@test
def a_lease_of_many_keys_is_one_claim():
    with Actor(ACTOR, ONE.url("/wide")) as a:
        a.says("OK/created", "create", 1, "k", "v", 60000, "me")
        for i in range(40):
            a.says("OK/created", "under", 1, f"u{i}", "v")
        a.says("OK/renewed", "renew", 1)
        ONE.delete("muster/wide/u33")
        a.says("EXPIRED/revoked", "renew", 1)
        with Actor(ACTOR, ONE.url("/wide")) as b:
            b.says("OK/created", "create", 1, "m", "v", 60000, "me")
            for i in range(40):
                b.says("OK/created", "under", 1, f"w{i}", "v")
            b.says("OK/released", "release", 1)
            same("all gone", [key for key in ONE.keys("muster/wide/") if "/w" in key[12:] or "/m" in key[12:]], [])


@test
def the_singleton_race_has_one_winner_each_time():
    before = set(ONE.leases())
    with Actor(ACTOR, ONE.url("/race")) as a, Actor(ACTOR, ONE.url("/race")) as b:
        for i in range(1000):
            for actor in (a, b):
                actor.send("acquire", i, f"g{i}", 1, "a" if actor is a else "b", 60000, 0)
            same(f"round {i}", sorted([a.take()["reason"], b.take()["reason"]]), ["acquired", "full"])
        until(lambda: len(set(ONE.leases()) - before) == 1000, "who lost leaves no lease")


# -- users and certificates --

@test
def users_passwords_and_rights():
    with Cluster(1) as cluster:
        for name, password in (("root", "rootpw"), ("ann", "secret"), ("bob", "secret")):
            cluster.post("auth/user/add", name=name, password=password)
        cluster.post("auth/role/add", name="root")
        cluster.post("auth/role/add", name="claims")
        cluster.post("auth/role/grant", name="claims",
                     perm={"permType": "READWRITE", "key": b64("muster/app/"), "range_end": b64("muster/app0")})
        cluster.post("auth/user/grant", user="root", role="root")
        cluster.post("auth/user/grant", user="ann", role="claims")
        with Actor(ACTOR, cluster.url("/app", "ann:secret@")) as early:
            early.says("OK/created", "create", 1, "early", "v", 0, "-")     # a password where none is needed yet
        cluster.post("auth/enable")
        with Actor(ACTOR) as a:
            a.says("UNAVAILABLE/forbidden", "open", cluster.url("/app"))
            a.says("UNAVAILABLE/forbidden", "open", cluster.url("/app", "bob:secret@"))
            a.says("UNAVAILABLE/forbidden", "open", cluster.url("/other", "ann:secret@"))
            refused = a.says("UNAVAILABLE/forbidden", "open", cluster.url("/app", "ann:wrong@"))
            check("wrong" not in refused["text"], "no password in the text")
            a.says("OK", "open", cluster.url("/app", "ann:secret@"))
            a.says("OK/created", "create", 1, "k", "v", 60000, "me")
            a.says("OK", "keep", 1)
            a.says("OK", "watch", 1, "b", 1)
            root = cluster.post("auth/authenticate", name="root", password="rootpw")["token"]
            cluster.post("auth/user/changepw", token=root, name="ann", password="secret")   # ends every token of hers
            a.says("OK/created", "create", 2, "b/l", "v", 0, "-")
            a.says("OK/acquired", "acquire", 3, "g", 1, "me", 60000, 0)
            a.events(1, lambda seen: any(e[0] == "put" for e in seen))
            a.says("OK/renewed", "renew", 1)
            same("nothing is lost by it", a.lost, {})


@test
def over_tls_with_certificates_on_both_sides():
    with Cluster(1, tls=True) as cluster, Cluster(1, tls=True) as strange:
        with Actor(ACTOR, cluster.url("/tls")) as a:
            a.says("OK/created", "create", 1, "k", "v", 60000, "me")
            a.says("OK/renewed", "renew", 1)
            a.says("OK", "watch", 1, "b", 1)
        with Actor(ACTOR, timeout_ms=1500) as a:
            hosts = f"127.0.0.1:{cluster.ports[0]}"
            same("another's CA", a("open", f"etcds://{hosts}?ca={strange.path('ca.pem')}")["code"], "UNAVAILABLE")
            same("no certificate", a("open", f"etcds://{hosts}?ca={cluster.path('ca.pem')}")["code"], "UNAVAILABLE")
            same("no TLS", a("open", f"etcd://{hosts}")["code"], "UNAVAILABLE")


if __name__ == "__main__":
    with Cluster(1) as ONE, Cluster(1) as LINKED:
        LINKED.link()
        run(TESTS, sys.argv[4] if len(sys.argv) > 4 else "")
