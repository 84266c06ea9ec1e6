#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every limit of spec/coordination.md A2 by raw gRPC: one less, the limit itself, one more. A refusal names the limit and
changes nothing."""
import json
import subprocess

import stores
from stores import (ARGUMENT, GROUP, HANDLE, INVALID, KEY, OK, OWNER, PATIENT, TTL_RANGE, VALUE_SIZE, Client, Cluster,
                    check, code_of, grpc, new_id, run_cases)

CODE = grpc.StatusCode
CLUSTER = Cluster(1, PATIENT, join=False)
FINE = None
NUMBER = [0]


def client():
    return Client(CLUSTER.nodes[0])


def fresh(text):
    """Another name each time, by its last six bytes."""
    NUMBER[0] += 1
    return text[:-6] + b"%06d" % NUMBER[0]


def judge(why, want, ask, words=""):
    """`want`: the reason of INVALID, or FINE. Methods without an Outcome say INVALID_ARGUMENT."""
    c = client()
    before = c.ask("Status").revision
    try:
        got = ask(c)
    except grpc.RpcError as error:
        check(want is not FINE and error.code() == CODE.INVALID_ARGUMENT and words in error.details(), f"{why}: {error}")
        got = None
    if got is not None and hasattr(got, "code"):
        if want is FINE:
            check(got.code != INVALID, f"{why}: {got}")
        else:
            check((got.code, got.reason) == (INVALID, want) and got.text and words in got.text, f"{why}: {got}")
    else:
        check(got is None or want is FINE, f"{why}: {got}")
    if want is not FINE:
        check(c.ask("Status").revision == before, f"{why}: it changed something")


def names(limit, reason):
    """Names of keys and groups, each with the expected result."""
    yield "empty", b"", reason
    for length, want in ((1, FINE), (limit - 1, FINE), (limit, FINE), (limit + 1, reason), (4 * limit, reason)):
        yield f"{length} bytes", b"k" * length, want
    for depth, want in ((15, FINE), (16, FINE), (17, reason), (200, reason)):
        yield f"{depth} segments", b"/".join([b"seg"] + [b"a"] * (depth - 1)), want
    for byte, want in ((0x00, reason), (0x1f, reason), (0x20, reason), (0x21, FINE), (0x7e, FINE), (0x7f, reason),
                       (0x80, reason), (0xff, reason)):
        yield f"byte {byte:#x}", b"name-%c-tail" % byte, want
    for text in (b"/lead", b"trail/", b"dou//ble", b"/", b"dot/./x", b"dot/../x", b"dot/.x", b".", b"..", b".x",
                 b"dot/.group", b".group"):
        yield f"{text}", text, reason


def keys():
    """Keys: 1-512 bytes of 0x21-0x7e, at most 16 segments, none empty, none that begins with a dot."""
    for why, key, want in names(512, KEY):
        for what, ask in (("create", lambda c: c.create(key)),
                          ("cas", lambda c: c.ask("CompareAndSet", key=key, expected=7)),
                          ("delete", lambda c: c.ask("Delete", key=key, any=True)),
                          ("get", lambda c: c.get(key)),
                          ("get from any", lambda c: c.get(key, serializable=True)),
                          ("release", lambda c: c.ask("Release", lease_id=new_id(), key=key))):
            if what == "release" and not key:
                continue  # all keys of the lease
            judge(f"{what}, key of {why}", want, ask, "key of")


def groups():
    """Groups: 1-480 bytes, the same alphabet."""
    for why, group, want in names(480, GROUP):
        for what, ask in (("acquire", lambda c: c.acquire(group, "w")),
                          ("resize", lambda c: c.ask("Resize", group=group, expected=1, slot_count=1)),
                          ("holders", lambda c: c.ask("Holders", group=group))):
            judge(f"{what}, group of {why}", want, ask, "group of")


def plain_keys():
    """Plain keys are any bytes, 1-512 of them, outside muster/; ranges that reach into it are refused."""
    for why, key, want in (("empty", b"", KEY), ("1", b"\x00", FINE), ("511", b"\xff" * 511, FINE),
                           ("512", b"\xff" * 512, FINE), ("513", b"\xff" * 513, KEY), ("a claim", b"muster/x", KEY)):
        judge(f"put, {why}", want, lambda c: c.ask("Put", key=key))
    for why, key, end, want in (("up to claims", b"a", b"muster/", FINE), ("one further", b"a", b"muster/\x00", KEY),
                                ("behind them", b"muster0", b"\x00", FINE), ("among them", b"muster/z", b"\x00", KEY),
                                ("all", b"", b"\x00", KEY), ("long", b"b" * 512, b"b" * 513, KEY)):
        judge(f"delete, {why}", want, lambda c: c.ask("DeleteRange", key=key, range_end=end))
    for length, want in ((1023, FINE), (1024, FINE), (1025, KEY)):
        judge(f"range, {length}", want, lambda c: c.ask("Range", key=b"r" * length))
    for limit, want in ((0, FINE), (9999, FINE), (10000, FINE), (10001, ARGUMENT)):
        judge(f"range, limit {limit}", want, lambda c: c.ask("Range", key=b"r", range_end=b"s", limit=limit))


def values():
    """Values: 0 to 1,048,576 bytes, wherever one is given."""
    for size, want in ((0, FINE), (1048575, FINE), (1048576, FINE), (1048577, VALUE_SIZE)):
        value = b"v" * size
        for what, ask in (("create", lambda c: c.create(fresh(b"value/xxxxxx"), value)),
                          ("cas", lambda c: c.ask("CompareAndSet", key=fresh(b"value/xxxxxx"), value=value)),
                          ("put", lambda c: c.ask("Put", key=b"value", value=value)),
                          ("acquire", lambda c: c.acquire(fresh(b"value/xxxxxx"), "w", value=value))):
            judge(f"{what}, value of {size}", want, ask, "value of")
    code, text, _ = code_of(lambda: client().create(b"far", b"v" * (64 << 20)))
    check(code == CODE.RESOURCE_EXHAUSTED and "64" not in text[:1] and text, f"a message past all limits: {code} {text}")


def owners():
    """Owners: 1-128 bytes of A-Z a-z 0-9 . _ : @ / -"""
    cases = [("", OWNER), ("w", FINE), ("w" * 127, FINE), ("w" * 128, FINE), ("w" * 129, OWNER), ("AZaz09._:@/-", FINE)]
    cases += [(f"w{byte}", OWNER) for byte in "\x00 !,;=+*\\~\u00e9"]
    for owner, want in cases:
        judge(f"create, owner {owner!r}", want, lambda c: c.lease(fresh(b"owner/xxxxxx"), owner), "owner")
        judge(f"acquire, owner {owner!r}", want, lambda c: c.acquire(fresh(b"owner/xxxxxx"), owner), "owner")


def over(c, got):
    """Releases a granted lease, because its later expiry would add a revision to another case."""
    if got.code == OK:
        c.release(got.lease_id)
    return got


def times():
    """TTL 500 ms to a day in steps of 10 ms, waits up to a day, cooldown up to a minute."""
    for ttl, want in ((-1, TTL_RANGE), (1, TTL_RANGE), (499, TTL_RANGE), (500, FINE), (501, FINE), (86399999, FINE),
                      (86400000, FINE), (86400001, TTL_RANGE), (2 ** 63 - 1, TTL_RANGE), (-2 ** 63, TTL_RANGE)):
        judge(f"create, ttl {ttl}", want, lambda c: over(c, c.lease(fresh(b"ttl/xxxxxx"), ttl_ms=ttl)), "ttl of")
        judge(f"acquire, ttl {ttl}", want, lambda c: over(c, c.acquire(fresh(b"ttl/xxxxxx"), "w", ttl_ms=ttl)), "ttl of")
        if ttl != -1:  # to keep it
            judge(f"cas, ttl {ttl}", want, lambda c: over(c, c.ask("CompareAndSet", key=fresh(b"ttl/xxxxxx"), ttl_ms=ttl,
                                                                   owner="w", lease_id=new_id())), "ttl of")
    judge("acquire without a lease", TTL_RANGE, lambda c: c.acquire(b"ttl/none", "w", ttl_ms=0))
    c = client()
    got = over(c, c.lease(fresh(b"ttl/xxxxxx"), ttl_ms=501))
    check(got.granted_ttl_ms == 510, f"never less, in steps: {got}")
    for wait, want in ((-1, ARGUMENT), (0, FINE), (86399999, FINE), (86400000, FINE), (86400001, ARGUMENT)):
        judge(f"wait {wait}", want, lambda c: c.acquire(fresh(b"wait/xxxxxx"), "w", wait_ms=wait))
    for rest, want in ((0, FINE), (59999, FINE), (60000, FINE), (60001, ARGUMENT), (2 ** 64 - 1, ARGUMENT)):
        judge(f"cooldown {rest}", want, lambda c: c.acquire(fresh(b"rest/xxxxxx"), "w", cooldown_ms=rest))


def slots():
    """1-1,024 slots; flags that there are; a slot that is preferred and not there is not minded."""
    for count, want in ((0, ARGUMENT), (1, FINE), (1023, FINE), (1024, FINE), (1025, ARGUMENT), (2 ** 32 - 1, ARGUMENT)):
        judge(f"acquire of {count}", want, lambda c: c.acquire(fresh(b"slots/xxxxxx"), "w", slots=count))
        judge(f"resize to {count}", want, lambda c: c.ask("Resize", group=b"slots/x", expected=1, slot_count=count))
    for flags, want in ((0, FINE), (3, FINE), (4, ARGUMENT), (2 ** 32 - 1, ARGUMENT)):
        judge(f"flags {flags}", want, lambda c: c.acquire(fresh(b"flags/xxxxxx"), "w", flags=flags))
    got = client().ask("Acquire", group=b"slots/prefer", slot_count=2, prefer_slot=2 ** 31 - 1, owner="w",
                       ttl_ms=stores.TTL_MS, lease_id=new_id())
    check((got.code, got.slot) == (OK, 0), f"{got}")


def ids():
    """Lease ids of 16 bytes with a number in the first eight; requests with a client and a sequence."""
    for why, lease, want in (("none", b"", HANDLE), ("15", b"i" * 15, HANDLE), ("16", b"i" * 16, FINE),
                             ("17", b"i" * 17, HANDLE), ("no number", b"\x00" * 8 + b"i" * 8, HANDLE),
                             ("the topmost bit only", b"\x00" * 7 + b"\x80" + b"i" * 8, HANDLE)):
        judge(f"create, id {why}", want, lambda c: c.ask("Create", key=b"id", ttl_ms=stores.TTL_MS, owner="w",
                                                               lease_id=lease))
        judge(f"release, id {why}", want, lambda c: c.ask("Release", lease_id=lease))
        judge(f"renew, id {why}", want, lambda c: c.ask("Renew", lease_ids=[lease]), "lease id")
        if lease:
            judge(f"held, id {why}", want, lambda c: c.ask("Delete", key=b"absent", any=True, held=lease))
    for why, request, want in (("15", {"client_id": b"c" * 15, "sequence": 1}, ARGUMENT),
                               ("16", {"client_id": b"c" * 16, "sequence": 1}, FINE),
                               ("17", {"client_id": b"c" * 17, "sequence": 1}, ARGUMENT),
                               ("sequence 0", {"client_id": b"c" * 16}, ARGUMENT)):
        judge(f"request, {why}", want, lambda c: c.ask("Delete", key=b"absent", any=True, request=request))


def how_many():
    """1,024 keys under one lease, 1,024 ids in one renewal."""
    c, lease = client(), new_id()
    c.lease(b"many/0", lease_id=lease)
    for n in range(1, 1024):
        check(c.ask("Create", key=b"many/%d" % n, under=lease).code == OK, f"key {n + 1} of the lease")
    judge("one key more", ARGUMENT, lambda c: c.ask("Create", key=b"many/more", under=lease), "1,024 keys")
    check(c.release(lease).code == OK and c.ask("Range", key=b"muster/many/", range_end=b"muster/many0",
                                                count_only=True).count == 0, "all end with it")
    for count, want in ((0, FINE), (1023, FINE), (1024, FINE), (1025, ARGUMENT)):
        judge(f"{count} ids", want, lambda c: c.ask("Renew", lease_ids=[new_id() for _ in range(count)]), "at most")


def holders_of_much():
    """Holders whose values are more than one answer carries come in pages, by slot; libmuster puts them together."""
    c = client()
    for n in range(6):
        check(c.acquire(b"heavy", f"w{n}", slots=6, value=b"%d" % n * 1048576).code == OK, f"slot {n}")
    rows, pages, more = [], 0, True
    while more:
        got = c.ask("Holders", group=b"heavy", from_slot=rows[-1].slot + 1 if rows else 0)
        check(len(got.holders) > 0 and got.ByteSize() < 4 << 20, f"a page of {got.ByteSize()} bytes")
        rows, pages, more = rows + list(got.holders), pages + 1, got.more
    check([row.slot for row in rows] == list(range(6)) and pages > 2, f"{pages} pages of {[row.slot for row in rows]}")
    check(all(row.value == b"%d" % row.slot * 1048576 for row in rows), "whole values")
    check(len(c.ask("Holders", group=b"heavy", from_slot=1024).holders) == 0, "behind the last")
    done = subprocess.run([stores.coordinators.MUSTERCTL, "coord", "holders", "--store", f"muster://{c.node.grpc}",
                           "--output", "json", "--timeout", "60s", "heavy"], capture_output=True, check=True)
    received = json.loads(done.stdout)
    check([row["slot"] for row in received["holders"]] == list(range(6)) and received["atomic"], f"{received.keys()}")


def counts_of_the_past():
    """A count or a page of the past reads no more keys than a turn has time for, and reports that."""
    c, value = client(), b""
    before = c.ask("Put", key=b"past/0", value=value).revision
    calls = [c.later("Put", key=b"past/%d" % n, value=value) for n in range(1, 300)]
    check(all(call.result().code == OK for call in calls), "put")
    got = c.ask("Range", key=b"past/", range_end=b"past0", revision=before, count_only=True)
    check(got.count == 1, f"as it was: {got}")
    got = c.ask("Range", key=b"past/", range_end=b"past0", revision=before)
    check(len(got.entries) == 1 and not got.more, f"{got}")
    now = c.ask("Range", key=b"past/", range_end=b"past0", count_only=True)
    check(now.count == 300, f"{now}")


def bytes_that_are_no_message():
    """An unreadable request is refused, and the connection serves the next call."""
    c = client()
    for name in ("Create", "Acquire", "Renew", "Range", "Put"):
        stub = c.node.dialed().unary_unary("/" + stores.STORE + name)
        for junk in (b"\xff" * 40, b"\x0a\x7f", b"\x12\xff\xff\xff\xff\x0f", b"\x80" * 11):
            code, text, _ = code_of(lambda: stub(junk, timeout=stores.PATIENCE))
            check(code in (CODE.INVALID_ARGUMENT, CODE.INTERNAL) and text, f"{name} of {junk}: {code} {text}")
    check(c.create(b"after/junk").code == OK, "it goes on")


CASES = [keys, groups, plain_keys, values, owners, times, slots, ids, how_many, holders_of_much, counts_of_the_past,
         bytes_that_are_no_message]

if __name__ == "__main__":
    with CLUSTER.start():
        CLUSTER.leader()
        run_cases(CASES)
