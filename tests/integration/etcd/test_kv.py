#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""D12 of spec/coordination.md by a stock client: keys of one replica, at both of its ports; with --real of a real etcd,
so that what is expected is what etcd does.

usage: test_kv.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--real]    (prints TAP)
"""
import itertools
import os
import shutil
import sys
import threading

from etcds import (ALL, BAD_SORT, CHANNEL, COMPACTED, CREATE, DENIED, DUPLICATE_KEY, EMPTY_KEY, EQUAL, FUTURE, GREATER,
                   KEY_NOT_FOUND, LEASE, LEASE_ID, LEASE_NOT_FOUND, LEASE_PROVIDED, LESS, MOD, NOT_EQUAL, PATIENCE, PATIENT,
                   TOO_LARGE, TOO_MANY_OPS, VALUE, VALUE_PROVIDED, VERSION, Client, Etcds, after, check, compare, coordinators,
                   grpc, op_delete, op_put, op_range, op_txn, refused, run_cases)

REAL = "--real" in sys.argv
CLUSTER = None


def client(port="etcd"):
    if REAL:
        return Client(channel=grpc.insecure_channel(f"127.0.0.1:{CLUSTER.ports[0]}", options=CHANNEL))
    return Client(CLUSTER.nodes[0], port)


def pairs(answer):
    return [(pair.key, pair.value) for pair in answer.kvs]


def names(answer):
    return [pair.key for pair in answer.kvs]


def six(kv, prefix):
    """Six keys whose order is another by each target; the first revision after which all is there."""
    for key, value in ((b"c", b"4"), (b"a", b"6"), (b"e", b"1"), (b"b", b"3"), (b"f", b"2"), (b"d", b"5")):
        kv.put(prefix + key, value)
    for key, times in ((b"a", 3), (b"d", 1), (b"f", 2)):
        for _ in range(times):
            kv.put(prefix + key, ignore_value=True)
    return kv.revision()


def t01_round_trip():
    """T01: put, get and delete round trip at both ports; each write is one revision"""
    for port in ("etcd", "grpc"):
        kv = client(port)
        first = kv.revision()
        check(kv.put(b"t01/k", b"one").header.revision == first + 1, "a put is one revision")
        answer = kv.range(b"t01/k")
        check([(pair.key, pair.value, pair.version) for pair in answer.kvs] == [(b"t01/k", b"one", 1)], answer)
        check(answer.count == 1 and not answer.more and answer.header.revision == first + 1, answer)
        check(answer.header.cluster_id and answer.header.member_id and answer.header.raft_term, answer.header)
        check(kv.delete(b"t01/k").deleted == 1, "deleted")
        check(kv.range(b"t01/k").count == 0 and kv.revision() == first + 2, "and gone")


def t02_delete_missing():
    """T02: a delete of what is not there deletes 0 and is no revision"""
    kv = client()
    first = kv.revision()
    answer = kv.delete(b"t02/none")
    check(answer.deleted == 0 and answer.header.revision == first and kv.revision() == first, answer)
    answer = kv.delete(b"t02/", after(b"t02/"), prev_kv=True)
    check(answer.deleted == 0 and not answer.prev_kvs and kv.revision() == first, answer)


def t03_empty_key():
    """T03: an empty key is refused in Range, Put, DeleteRange and Compare"""
    kv = client()
    for why, ask in (("range", lambda: kv.range(b"")), ("put", lambda: kv.put(b"", b"v")),
                     ("delete", lambda: kv.delete(b"")), ("a range with an end", lambda: kv.range(b"", ALL)),
                     ("compare", lambda: kv.txn([compare(b"", VERSION, EQUAL, 0)], [op_put(b"t03/k")])),
                     ("a put inside", lambda: kv.txn([], [op_txn([], [op_put(b"")])]))):
        check(refused(ask) == EMPTY_KEY, f"{why}: {refused(ask)}")


def t04_ranges():
    """T04: ranges, prefixes, from a key on, all keys: exact sets"""
    kv = client()
    kv.delete(b"\0", ALL)
    for key in (b"a", b"b", b"ba", b"c", b"d\xff", b"d\xff\xff", b"e"):
        kv.put(key, key)
    for start, end, want in ((b"a", b"c", [b"a", b"b", b"ba"]), (b"b", after(b"b"), [b"b", b"ba"]),
                             (b"d\xff", b"e", [b"d\xff", b"d\xff\xff"]), (b"c", ALL, [b"c", b"d\xff", b"d\xff\xff", b"e"]),
                             (b"\0", ALL, [b"a", b"b", b"ba", b"c", b"d\xff", b"d\xff\xff", b"e"]), (b"c", b"a", []),
                             (b"b", b"b", []), (b"bb", b"c", []), (b"f", ALL, []), (b"b", b"", [b"b"])):
        answer = kv.range(start, end)
        check(names(answer) == want and answer.count == len(want) and not answer.more, f"{start} {end}: {answer}")
        check(kv.range(start, end, count_only=True).count == len(want), f"{start} {end}: counted")
    check(kv.delete(b"b", b"c").deleted == 2 and names(kv.range(b"a", b"d")) == [b"a", b"c"], "a deleted range")
    check(kv.delete(b"\0", ALL).deleted == 5 and kv.range(b"\0", ALL).count == 0, "all of them")


def t05_limit():
    """T05: a limit of 2 of 6: more, and how many there are"""
    kv = client()
    six(kv, b"t05/")
    for limit, shown, more in ((2, 2, True), (5, 5, True), (6, 6, False), (7, 6, False), (0, 6, False), (-1, 6, False)):
        answer = kv.range(b"t05/", after(b"t05/"), limit=limit)
        check((len(answer.kvs), answer.more, answer.count) == (shown, more, 6), f"{limit}: {answer}")


def t06_sort():
    """T06: sorted by each target, up, down and unsaid; cut after that"""
    kv = client()
    six(kv, b"t06/")
    every = list(kv.range(b"t06/", after(b"t06/")).kvs)
    fields = ("key", "version", "create_revision", "mod_revision", "value")
    for target, field in enumerate(fields):
        up = sorted(every, key=lambda pair: (getattr(pair, field), pair.key))
        for order in (0, 1, 2):
            for limit in (0, 2):
                if REAL and order == 0 and limit:  # it cuts before it sorts; C3 says after
                    continue
                got = kv.range(b"t06/", after(b"t06/"), sort_order=order, sort_target=target, limit=limit)
                want = sorted((getattr(pair, field) for pair in every), reverse=order == 2)[:limit or 6]
                check([getattr(pair, field) for pair in got.kvs] == want, f"{field} {order} {limit}: {got}")
                check(got.count == 6 and got.more == bool(limit), f"{field} {order} {limit}: {got}")
        if not REAL:  # equal ones in the order of their keys, which etcd leaves open
            got = kv.range(b"t06/", after(b"t06/"), sort_order=1, sort_target=target)
            check(names(got) == [pair.key for pair in up], f"{field}: {got}")
    if not REAL:  # 3.4 does not look
        for wrong in ({"sort_order": 3}, {"sort_target": 5}, {"sort_order": 1, "sort_target": 99}):
            check(refused(lambda: kv.range(b"t06/", ALL, **wrong)) == BAD_SORT, f"{wrong}")


def t06_many():
    """T06, T07: sorted or filtered, and cut, of more keys than one turn looks at"""
    kv, count = client(), 2500
    prefix = b"t06many/"
    for at in range(0, count, 100):
        kv.txn(success=[op_put(prefix + b"%04d" % (n * 7 % count), b"%d" % (n % 13)) for n in range(at, at + 100)])
    for n in range(0, count, 50):
        kv.put(prefix + b"%04d" % n, b"again")
    every = list(kv.range(prefix, after(prefix)).kvs)
    check(len(every) == count, f"{len(every)}")
    for target, field in enumerate(("key", "version", "create_revision", "mod_revision", "value")):
        for order in (1, 2):
            for limit in (1, 40):
                got = kv.range(prefix, after(prefix), sort_order=order, sort_target=target, limit=limit)
                want = sorted((getattr(pair, field) for pair in every), reverse=order == 2)[:limit]
                check([getattr(pair, field) for pair in got.kvs] == want, f"{field} {order} {limit}: {got}")
                check((got.count, got.more) == (count, True), f"{field} {order} {limit}: {got.count} {got.more}")
    middle = sorted(pair.mod_revision for pair in every)[-3]
    got = kv.range(prefix, after(prefix), min_mod_revision=middle, limit=5)
    check(names(got) == [pair.key for pair in every if pair.mod_revision >= middle], f"{names(got)}")
    check(not got.more and got.count == count, f"{got.more} {got.count}")


def too_much():
    """More than 65,536 keys: sorted whole, or looked at by a transaction, is too large; sent as they come, or cut, it is not"""
    if REAL:    # it does it, and answers nobody else meanwhile
        return
    kv, count, prefix = client(), 66000, b"much/"
    first = kv.put(b"much0").header.revision
    kv.call(LEASE + "LeaseGrant", ID=77, TTL=3600)
    put = kv.channel.unary_unary("/etcdserverpb.KV/Txn")
    for at in range(0, count, 125):     # by hand, which is ten times as fast: success { request_put { key, lease } }
        put(b"".join(b"\x12\x10\x12\x0e\x0a\x0amuch/%05d\x18\x4d" % n for n in range(at, at + 125)), timeout=PATIENCE)
    end = after(prefix)
    check(len(kv.range(prefix, end, keys_only=True).kvs) == count, "as they come")
    late = op_range(prefix, end, count_only=True, revision=kv.revision())
    check(kv.txn([], [op_put(b"much0"), late]).responses[1].response_range.count == count, "counted as it is now")
    check(names(kv.range(prefix, end, limit=2, sort_order=2)) == [prefix + b"65999", prefix + b"65998"], "the last")
    check(kv.txn([], [op_range(prefix, end, limit=3)]).responses[0].response_range.count == count, "cut, in a transaction")
    before = kv.revision()
    for why, ask in (("sorted", lambda: kv.range(prefix, end, sort_order=2)),
                     ("cut late", lambda: kv.range(prefix, end, sort_order=2, limit=257)),
                     ("in a transaction", lambda: kv.txn([], [op_range(prefix, end)])),
                     ("in one that writes", lambda: kv.txn([], [op_put(b"much"), op_range(prefix, end)])),
                     ("deleted there", lambda: kv.txn([], [op_put(b"much"), op_delete(prefix, end)])),
                     ("deleted, and shown", lambda: kv.delete(prefix, end, prev_kv=True)),
                     ("compared", lambda: kv.txn([compare(prefix, VERSION, EQUAL, 1, end)], [op_put(b"much")])),
                     ("listed as a lease's", lambda: kv.call(LEASE + "LeaseTimeToLive", ID=77, keys=True)),
                     ("counted as it was", lambda: kv.txn([], [op_range(prefix, end, count_only=True, revision=first)])),
                     ("that, and a write", lambda: kv.txn([], [op_put(b"much"), op_range(prefix, end, limit=1, revision=first)]))):
        check(refused(ask) == TOO_LARGE, f"{why}: {refused(ask)}")
    check(kv.revision() == before, "nothing was done")
    check(kv.call(LEASE + "LeaseTimeToLive", ID=77).grantedTTL == 3600, "without keys it is answered")
    check(kv.delete(prefix, end).deleted == count, "deleted")
    check(not kv.call(LEASE + "LeaseTimeToLive", ID=77, keys=True).keys, "none is left to list")
    kv.call(LEASE + "LeaseRevoke", ID=77)


def t07_filters():
    """T07: by modification and creation: before the limit, and not counted"""
    kv = client()
    six(kv, b"t07/")
    every = list(kv.range(b"t07/", after(b"t07/")).kvs)
    middle_mod = sorted(pair.mod_revision for pair in every)[2]
    middle_create = sorted(pair.create_revision for pair in every)[2]
    for name, holds in (("min_mod_revision", lambda p: p.mod_revision >= middle_mod),
                        ("max_mod_revision", lambda p: p.mod_revision <= middle_mod),
                        ("min_create_revision", lambda p: p.create_revision >= middle_create),
                        ("max_create_revision", lambda p: p.create_revision <= middle_create)):
        bound = middle_mod if "mod" in name else middle_create
        want = [pair.key for pair in every if holds(pair)]
        got = kv.range(b"t07/", after(b"t07/"), **{name: bound})
        check(names(got) == want and got.count == 6 and not got.more, f"{name}: {got}")
        got = kv.range(b"t07/", after(b"t07/"), limit=2, **{name: bound})
        check(names(got) == want[:2] and got.count == 6 and got.more, f"{name}, limit: {got}")
    got = kv.range(b"t07/", after(b"t07/"), min_mod_revision=middle_mod, max_create_revision=middle_create)
    check(names(got) == [p.key for p in every if p.mod_revision >= middle_mod and p.create_revision <= middle_create], got)
    # As the waiters of package concurrency ask for the key right before theirs.
    got = kv.range(b"t07/", after(b"t07/"), sort_order=2, sort_target=2, limit=1, max_create_revision=middle_create - 1)
    check([p.create_revision for p in got.kvs] == [sorted(p.create_revision for p in every)[1]], got)


def t08_keys_only():
    """T08: keys alone, counts alone"""
    kv = client()
    six(kv, b"t08/")
    whole, keys = kv.range(b"t08/", after(b"t08/")), kv.range(b"t08/", after(b"t08/"), keys_only=True)
    for one, other in zip(whole.kvs, keys.kvs):
        one.value = b""
        check(one == other, f"{one} {other}")
    got = kv.range(b"t08/", after(b"t08/"), count_only=True, limit=2)
    check(not got.kvs and got.count == 6 and not got.more, got)
    got = kv.range(b"t08/", after(b"t08/"), keys_only=True, sort_order=2, sort_target=4, limit=1)
    check(names(got) == [b"t08/a"] and not got.kvs[0].value, f"sorted by what is not sent: {got}")


def t09_past():
    """T09: the past as it was, under the present header"""
    kv = client()
    first = kv.put(b"t09/a", b"1").header.revision
    kv.put(b"t09/b", b"1")
    kv.put(b"t09/a", b"2")
    kv.delete(b"t09/b")
    last = kv.put(b"t09/c", b"1").header.revision
    for back, want in ((0, [(b"t09/a", b"1")]), (1, [(b"t09/a", b"1"), (b"t09/b", b"1")]),
                       (2, [(b"t09/a", b"2"), (b"t09/b", b"1")]), (3, [(b"t09/a", b"2")]),
                       (4, [(b"t09/a", b"2"), (b"t09/c", b"1")])):
        got = kv.range(b"t09/", after(b"t09/"), revision=first + back)
        check(pairs(got) == want and got.count == len(want) and got.header.revision == last, f"{back}: {got}")
        got = kv.range(b"t09/", after(b"t09/"), revision=first + back, count_only=True)
        check(got.count == len(want), f"{back}, counted: {got}")
        got = kv.range(b"t09/", after(b"t09/"), revision=first + back, limit=1)
        check(pairs(got) == want[:1] and got.count == len(want) and got.more == (len(want) > 1), f"{back}, cut: {got}")


def t10_bounds_of_time():
    """T10: the future, and below the compacted revision, are refused; at it is fine"""
    kv = client()
    kv.put(b"t10/k", b"old")
    at = kv.put(b"t10/k", b"kept").header.revision
    kv.put(b"t10/k", b"new")
    now = kv.revision()
    check(refused(lambda: kv.range(b"t10/k", revision=now + 1)) == FUTURE, "the future")
    kv.compact(at)
    check(refused(lambda: kv.range(b"t10/k", revision=at - 1)) == COMPACTED, "below")
    check(kv.get(b"t10/k", revision=at) == b"kept" and kv.get(b"t10/k", revision=-5) == b"new", "at it, and now")


def t12_refused_puts():
    """T12: an unknown lease; ignore_value and ignore_lease of what is not there, or beside what is ignored"""
    kv = client()
    first = kv.revision()
    check(refused(lambda: kv.put(b"t12/k", b"v", lease=987654)) == LEASE_NOT_FOUND, "the lease")
    check(refused(lambda: kv.put(b"t12/k", ignore_lease=True)) == KEY_NOT_FOUND, "no key to keep the lease of")
    check(refused(lambda: kv.put(b"t12/k", ignore_value=True)) == KEY_NOT_FOUND, "no key to keep the value of")
    check(refused(lambda: kv.put(b"t12/k", b"v", ignore_value=True)) == VALUE_PROVIDED, "a value")
    check(refused(lambda: kv.put(b"t12/k", b"v", lease=7, ignore_lease=True)) == LEASE_PROVIDED, "a lease")
    check(kv.revision() == first, "nothing of it was a revision")
    kv.put(b"t12/k", b"v")
    again = kv.put(b"t12/k", ignore_value=True, prev_kv=True)
    check(again.prev_kv.value == b"v" and kv.get(b"t12/k") == b"v" and kv.range(b"t12/k").kvs[0].version == 2, again)


def t13_previous():
    """T13: the version before, of puts and deletes"""
    kv = client()
    first = kv.put(b"t13/a", b"1", prev_kv=True)
    check(not first.HasField("prev_kv"), first)
    second = kv.put(b"t13/a", b"2", prev_kv=True)
    was = second.prev_kv
    check((was.key, was.value, was.version, was.mod_revision) == (b"t13/a", b"1", 1, first.header.revision), second)
    check(not kv.put(b"t13/a", b"3").HasField("prev_kv"), "only when it is asked for")
    kv.put(b"t13/b", b"9")
    gone = kv.delete(b"t13/", after(b"t13/"), prev_kv=True)
    check(gone.deleted == 2 and [(p.key, p.value) for p in gone.prev_kvs] == [(b"t13/a", b"3"), (b"t13/b", b"9")], gone)


def t14_create_race():
    """T14: fifty create one key: one of them"""
    won, threads = [], []

    def create(number):
        answer = client().txn([compare(b"t14/k", VERSION, EQUAL)], [op_put(b"t14/k", b"%d" % number)],
                              [op_range(b"t14/k")])
        won.append((answer.succeeded, number if answer.succeeded else int(answer.responses[0].response_range.kvs[0].value)))
    for number in range(50):
        threads.append(threading.Thread(target=create, args=(number,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    check(len(won) == 50 and sum(succeeded for succeeded, _ in won) == 1, f"{won}")
    check(len({number for _, number in won}) == 1, f"all saw the same: {won}")


def t15_compares():
    """T15, T16, T17: each target with each operator, of a key that is there and one that is not, with numbers and without"""
    kv = client()
    kv.put(b"t15/k", b"m")
    kv.put(b"t15/k", b"m")
    there = kv.range(b"t15/k").kvs[0]
    real = {VERSION: there.version, CREATE: there.create_revision, MOD: there.mod_revision, VALUE: b"m", LEASE_ID: 0}
    holds = {EQUAL: lambda a, b: a == b, GREATER: lambda a, b: a > b, LESS: lambda a, b: a < b,
             NOT_EQUAL: lambda a, b: a != b}
    for target, result in itertools.product(range(5), range(4)):
        values = [None, b"", b"a", b"m", b"z"] if target == VALUE else [None, 0, 1, real[target], real[target] + 1, -1]
        for value in values:
            given = value if value is not None else (b"" if target == VALUE else 0)
            got = kv.txn([compare(b"t15/k", target, result, value)]).succeeded
            check(got == holds[result](real[target], given), f"there: {target} {result} {value}: {got}")
            got = kv.txn([compare(b"t15/none", target, result, value)]).succeeded
            want = target != VALUE and holds[result](0, given)
            check(got == want, f"missing: {target} {result} {value}: {got}")
    # Ranges: each key of it must hold; an empty one is as a missing key.
    kv.put(b"t15/l", b"m")
    for end, target, result, value, want in ((b"t15/z", VERSION, GREATER, 0, True), (b"t15/z", VERSION, EQUAL, 2, False),
                                             (b"t15/z", VALUE, EQUAL, b"m", True), (b"t15/z", VERSION, LESS, 3, True),
                                             (b"t15/k\0", VERSION, EQUAL, 2, True), (ALL, VERSION, EQUAL, 0, False)):
        got = kv.txn([compare(b"t15/k", target, result, value, end)]).succeeded
        check(got == want, f"[t15/k, {end}) {target} {result} {value}: {got}")
    check(kv.txn([compare(b"t15/x", VERSION, EQUAL, 0, b"t15/y")]).succeeded, "an empty range")
    check(not kv.txn([compare(b"t15/x", VALUE, NOT_EQUAL, b"m", b"t15/y")]).succeeded, "has no value")
    check(not kv.txn([compare(b"t15/k", VERSION, EQUAL, 2), compare(b"t15/l", VERSION, EQUAL, 2)]).succeeded, "all of them")
    check(kv.txn().succeeded, "none at all")


def t18_duplicates():
    """T18: a key put twice, or put and deleted, in one path; in both branches of one inside is fine"""
    kv = client()
    put, delete = op_put(b"t18/k"), op_delete
    first = kv.revision()
    for why, success in (("twice", [put, put]), ("and deleted", [put, delete(b"t18/k")]), ("deleted first", [delete(b"t18/k"), put]),
                         ("in a range", [delete(b"t18/", after(b"t18/")), put]), ("from a key on", [put, delete(b"t18/", ALL)]),
                         ("before one inside", [put, op_txn([], [put])]), ("inside another", [op_txn([], [put]), op_txn([], [], [put])]),
                         ("deleted outside", [op_txn([], [put]), delete(b"t18/", b"t18/l")]),
                         ("far away", [op_txn([], [op_txn([], [], [put])]), op_put(b"t18/l"), put])):
        if REAL and why == "from a key on":  # it takes the end for a key; C3 names no exception
            continue
        for branches in ((success, []), ([], success)):
            check(refused(lambda: kv.txn([], *branches)) == DUPLICATE_KEY, f"{why}: {refused(lambda: kv.txn([], *branches))}")
    check(kv.revision() == first, "nothing of it was done")
    for why, success in (("other keys", [put, op_put(b"t18/l")]), ("deletes meet", [delete(b"t18/k"), delete(b"t18/", ALL)]),
                         ("a range beside it", [delete(b"t18/l", b"t18/m"), put, delete(b"t18/a", b"t18/k")]),
                         ("both branches inside", [op_txn([], [put], [put])]),
                         ("put or deleted inside", [op_txn([compare(b"t18/k", VERSION, EQUAL, 0)], [put], [delete(b"t18/k")])])):
        check(kv.txn([], success).succeeded, why)
    check(kv.txn([], [put], [put]).succeeded, "the two branches")


def t19_nested():
    """T19: compares inside see the state before; a Range inside sees the put outside"""
    kv = client()
    kv.delete(b"t19/", after(b"t19/"))
    answer = kv.txn([], [op_put(b"t19/k", b"v"),
                         op_txn([compare(b"t19/k", VERSION, EQUAL, 0)], [op_range(b"t19/k"), op_put(b"t19/l", b"w")],
                                [op_range(b"t19/none")]),
                         op_range(b"t19/", after(b"t19/"))])
    inner = answer.responses[1].response_txn
    check(inner.succeeded, f"before it there was no key: {answer}")
    check([p.value for p in inner.responses[0].response_range.kvs] == [b"v"], f"but the range sees it: {answer}")
    check(pairs(answer.responses[2].response_range) == [(b"t19/k", b"v"), (b"t19/l", b"w")], f"{answer}")
    check(answer.responses[0].response_put.header.revision == answer.header.revision, f"{answer}")
    mods = {p.mod_revision for p in kv.range(b"t19/", after(b"t19/")).kvs}
    check(mods == {answer.header.revision}, f"one revision: {mods}")
    # As Dynamo creates or validates.
    answer = kv.txn([compare(b"t19/k", VERSION, EQUAL, 0)], [op_put(b"t19/k", b"v")],
                    [op_txn([compare(b"t19/k", VALUE, EQUAL, b"v")])])
    check(not answer.succeeded and answer.responses[0].response_txn.succeeded, f"{answer}")


def t20_too_many():
    """T20: 128 operations are fine and 129 are not; one inside has what is left; an operation that is none"""
    kv = client()
    ranges = [op_range(b"t20/%d" % number) for number in range(129)]
    checks = [compare(b"t20/none", VERSION, EQUAL, 0)] * 129
    check(len(kv.txn(checks[:128], ranges[:128], ranges[:128]).responses) == 128, "128")
    for args in ((checks, [], []), ([], ranges, []), ([], [], ranges)):
        check(refused(lambda: kv.txn(*args)) == TOO_MANY_OPS, f"129: {len(args[0])} {len(args[1])} {len(args[2])}")
    check(kv.txn([], [op_txn([], ranges[:127])]).succeeded, "127 are left")
    check(refused(lambda: kv.txn([], [op_txn([], ranges[:128])])) == TOO_MANY_OPS, "and not 128")
    check(refused(lambda: kv.txn(checks[:100], [op_txn(checks[:29])])) == TOO_MANY_OPS, "compares count")
    check(refused(lambda: kv.txn([], [{}])) == KEY_NOT_FOUND, "none")


def t21_whole_or_not():
    """T21: a transaction of which one operation is refused does nothing"""
    kv = client()
    first = kv.revision()
    for why, bad, want in (("a lease", op_put(b"t21/c", b"v", lease=424242), LEASE_NOT_FOUND),
                           ("a key to keep", op_put(b"t21/c", ignore_value=True), KEY_NOT_FOUND),
                           ("the future", op_range(b"t21/a", revision=first + 99), FUTURE),
                           ("inside", op_txn([], [op_put(b"t21/c", b"v", lease=424242)]), LEASE_NOT_FOUND)):
        ask = lambda: kv.txn([], [op_put(b"t21/a", b"1"), op_put(b"t21/b", b"1"), bad])  # noqa: E731
        check(refused(ask) == want, f"{why}: {refused(ask)}")
        check(kv.range(b"t21/", after(b"t21/")).count == 0 and kv.revision() == first, f"{why}: something was done")
    answer = kv.txn([compare(b"t21/a", VERSION, EQUAL, 1)], [op_put(b"t21/c", lease=424242)], [op_put(b"t21/a", b"else")])
    check(not answer.succeeded and kv.get(b"t21/a") == b"else", "what is not taken is not looked at")


def t22_compacted_inside():
    """T22: a Range at a compacted revision inside a transaction: nothing of it is done"""
    kv = client()
    kv.put(b"t22/k", b"1")
    at = kv.put(b"t22/k", b"2").header.revision
    kv.compact(at)
    for ops in ([op_put(b"t22/l"), op_range(b"t22/k", revision=at - 1)], [op_range(b"t22/k", revision=at - 1)]):
        check(refused(lambda: kv.txn([], ops)) == COMPACTED, f"{ops}")
    check(kv.revision() == at and kv.range(b"t22/l").count == 0, "nothing")


def t23_one_revision():
    """T23: two keys of a transaction have one revision"""
    kv = client()
    answer = kv.txn([], [op_put(b"t23/a"), op_put(b"t23/b"), op_delete(b"t23/none")])
    got = kv.range(b"t23/", after(b"t23/"))
    check([p.mod_revision for p in got.kvs] == [answer.header.revision] * 2, got)
    first = kv.revision()
    answer = kv.txn([], [op_range(b"t23/a"), op_delete(b"t23/none")])
    check(answer.header.revision == first and kv.revision() == first, "without a change there is none")


def t24_compact():
    """T24: compacting to the same revision again, or to one that is to come"""
    kv = client()
    kv.put(b"t24/k", b"1")
    at = kv.put(b"t24/k", b"2").header.revision
    check(kv.compact(at).header.revision == at, "done")
    for revision, want in ((at, COMPACTED), (at - 1, COMPACTED), (1, COMPACTED), (at + 1, FUTURE), (2 ** 62, FUTURE)):
        check(refused(lambda: kv.compact(revision)) == want, f"{revision}: {refused(lambda: kv.compact(revision))}")
    kv.put(b"t24/k", b"3")
    check(kv.compact(at + 1, physical=True).header.revision == at + 1 and kv.get(b"t24/k") == b"3", "waited for")


def compact_physical():
    """A compaction that is asked to be physical is answered when what it cut off is freed"""
    kv, native = client(), CLUSTER.nodes[0]
    for number in range(40):
        kv.txn([], [op_put(b"physical/%d" % (number * 100 + each), b"v" * 500) for each in range(100)])
    kv.delete(b"physical/", after(b"physical/"))
    kv.put(b"physical", b"")
    before = native.call("muster.v1.Coordination/Status").bytes
    check(before > 4000 * 500, f"there was much: {before}")
    kv.compact(kv.revision(), physical=True)
    after_it = native.call("muster.v1.Coordination/Status").bytes
    check(after_it < before - 4000 * 500, f"{before} bytes before, {after_it} after")


def t25_again():
    """T25: created again after a delete: version 1, another creation"""
    kv = client()
    kv.put(b"t25/k")
    kv.put(b"t25/k")
    kv.delete(b"t25/k")
    new = kv.put(b"t25/k").header.revision
    pair = kv.range(b"t25/k").kvs[0]
    check((pair.version, pair.create_revision, pair.mod_revision) == (1, new, new), pair)


def t26_large():
    """T26: requests up to 1.5 MiB; more is too large, and far more is refused by the transport"""
    kv = client()
    limit = 3 << 19
    kv.put(b"t26/k", b"v" * (limit - 200))
    check(len(kv.get(b"t26/k")) == limit - 200, "all of it is there")
    check(refused(lambda: kv.put(b"t26/k", b"v" * limit)) == TOO_LARGE, "the limit itself, and the rest of the request")
    check(refused(lambda: kv.put(b"t26/k", b"v" * (3 << 20)))[0] == 8, "by the transport")
    if not REAL:
        room = limit - len(b"t26/k") - 2 - 4
        check(refused(lambda: kv.put(b"t26/k", b"w" * room)) == (0, ""), "to the byte")
        check(refused(lambda: kv.put(b"t26/k", b"w" * (room + 1))) == TOO_LARGE, "one more")
        check(refused(lambda: kv.put(b"k" * 1025)) == TOO_LARGE and refused(lambda: kv.put(b"k" * 1024)) == (0, ""), "keys")
    check(len(kv.txn([], [op_put(b"t26/%d" % n, b"v" * 400000) for n in range(3)]).responses) == 3, "in pieces")


def t27_paging():
    """T27: pages at one revision while others write: the list as it was"""
    kv = client()
    for number in range(100):
        kv.put(b"t27/%03d" % number, b"old")
    stop = threading.Event()

    def write():
        other, number = client(), 0
        while not stop.is_set():
            other.put(b"t27/%03d" % (number % 100), b"new")
            other.delete(b"t27/%03d" % ((number + 37) % 100))
            other.put(b"t27/%03dx" % (number % 100), b"more")
            number += 1
    writer = threading.Thread(target=write)
    first = kv.range(b"t27/", after(b"t27/"), limit=7)
    writer.start()
    try:
        found, page, at = pairs(first), first, first.header.revision
        while page.more:
            page = kv.range(found[-1][0] + b"\0", after(b"t27/"), limit=7, revision=at)
            check(page.count == 100 - len(found), f"how many are left: {page.count} after {len(found)}")
            found += pairs(page)
    finally:
        stop.set()
        writer.join()
    check(found == [(b"t27/%03d" % number, b"old") for number in range(100)], f"{found}")


def large_answers():
    """A list of a big prefix is one message, by itself and in a transaction"""
    kv = client()
    for number in range(12):
        kv.put(b"large/%02d" % number, b"%02d" % number * 300000)
    for got in (kv.range(b"large/", after(b"large/")),
                kv.txn([], [op_range(b"large/", after(b"large/"))]).responses[0].response_range):
        check(got.count == 12 and all(p.value == b"%02d" % n * 300000 for n, p in enumerate(got.kvs)), f"{got.count}")
    gone = kv.delete(b"large/", after(b"large/"), prev_kv=True)
    check(gone.deleted == 12 and len(gone.prev_kvs) == 12, "what was deleted")


def many_keys():
    """Ranges of more keys than one turn sends: each as of its header's revision, though others write"""
    kv, stop = client(), threading.Event()
    for number in range(60):
        kv.txn([], [op_put(b"list/%05d" % (number * 100 + each), b"%d" % number * 300) for each in range(100)])

    def write():
        other, number = client(), 0
        while not stop.is_set():
            other.put(b"list/%05d" % (number * 37 % 6000), b"new")
            other.delete(b"list/%05d" % (number * 53 % 6000))
            number += 1
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for fields in ({}, {"keys_only": True}, {"limit": 3000}, {"limit": 2048}, {"limit": 100000},
                       {"min_mod_revision": kv.revision() - 20}, {"max_create_revision": kv.revision() - 30, "limit": 2500},
                       {"serializable": True}, {"sort_order": 1}, {"revision": kv.revision()}):
            whole = kv.range(b"list/", after(b"list/"), **fields)
            at = fields.get("revision") or whole.header.revision
            page = kv.range(b"list/", after(b"list/"), limit=1000, revision=at)
            count, want = page.count, list(page.kvs)
            while page.more:
                page = kv.range(want[-1].key + b"\0", after(b"list/"), limit=1000, revision=at)
                want += page.kvs
            want = [pair for pair in want if pair.mod_revision >= fields.get("min_mod_revision", 0)
                    and pair.create_revision <= fields.get("max_create_revision", 1 << 60)]
            for pair in want if fields.get("keys_only") else ():
                pair.value = b""
            limit = fields.get("limit", len(want))
            check(list(whole.kvs) == want[:limit], f"{fields}: {len(whole.kvs)} of {len(want)}")
            check(whole.count == count and whole.more == (len(want) > limit), f"{fields}: {whole.count} {whole.more}")
    finally:
        stop.set()
        writer.join()
    # On a channel of their own: grpcio may reset a call whose headers it has not sent, which ends a connection (RFC 9113,
    # 5.1: a frame on an idle stream).
    address = f"127.0.0.1:{CLUSTER.ports[0]}" if REAL else CLUSTER.nodes[0].etcd
    leaving = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    calls = [(leaving if n % 2 == 0 else kv.channel).unary_unary("/etcdserverpb.KV/Range").future(
        b"\x0a\x05list/\x12\x05list0") for n in range(20)]
    for call in calls[::2]:
        call.cancel()
    check(len({call.result() for call in calls[1::2]}) == 1, "who goes away disturbs nobody")
    leaving.close()
    kv.delete(b"list/", after(b"list/"))


def many_deletes():
    """A range of more keys than one turn deletes: one revision, and no read sees a part of it"""
    kv, other, stop, seen = client(), client(), threading.Event(), set()
    for number in range(60):
        kv.txn([], [op_put(b"many/%05d" % (number * 100 + each)) for each in range(100)])

    def look():
        while not stop.is_set():
            seen.add(other.range(b"many/", after(b"many/"), count_only=True).count)
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        first = kv.revision()
        gone = kv.delete(b"many/", after(b"many/"))
        check(gone.deleted == 6000 and gone.header.revision == first + 1, f"{gone}")
    finally:
        stop.set()
        watcher.join()
    check(seen <= {6000, 0}, f"{seen}")
    check(kv.range(b"many/", after(b"many/")).count == 0, "and gone")


def claims():
    """Claims are read here, and not written"""
    kv, native = client(), CLUSTER.nodes[0]
    native.call("muster.v1.Coordination/Create", key=b"job/a", value=b"v", owner=b"w", ttl_ms=60000,
                lease_id=os.urandom(16), request={"client_id": os.urandom(16), "sequence": 1})
    check(kv.get(b"muster/job/a") == b"v", "read")
    for why, ask in (("put", lambda: kv.put(b"muster/job/b")), ("delete", lambda: kv.delete(b"muster/job/a")),
                     ("a range", lambda: kv.delete(b"\0", ALL)), ("its end", lambda: kv.delete(b"muster/job/", b"n")),
                     ("inside", lambda: kv.txn([], [op_put(b"x"), op_txn([], [op_put(b"muster/x")])]))):
        check(refused(ask) == DENIED, f"{why}: {refused(ask)}")
    check(kv.delete(b"muster/k", b"muster/l").deleted == 0 and kv.delete(b"muster0", ALL).deleted >= 0, "beside them")
    check(kv.get(b"muster/job/a") == b"v", "still there")


def unknown_methods():
    """W02, W03: a method that is not there is 12, also RangeStream; bytes that are no message leave the connection good"""
    kv = client()
    raw = kv.channel.unary_unary("/etcdserverpb.KV/Nothing")
    check(refused(lambda: raw(b"", timeout=coordinators.PATIENCE))[0] == 12, "unknown")
    stream = kv.channel.unary_stream("/etcdserverpb.KV/RangeStream")
    check(refused(lambda: list(stream(b"", timeout=coordinators.PATIENCE)))[0] == 12, "RangeStream")
    for method in ("Range", "Put", "DeleteRange", "Txn", "Compact"):
        raw = kv.channel.unary_unary("/etcdserverpb.KV/" + method)
        for junk in (b"\xff\xff\xff", b"\x0a\x7fx", b"\x0a", os.urandom(30)):
            code, text = refused(lambda: raw(junk, timeout=coordinators.PATIENCE))
            check(code in (0, 3, 13, 11), f"{method} of {junk}: {code} {text}")
    check(kv.range(b"k").header.revision, "and goes on")


CASES = [t01_round_trip, t02_delete_missing, t03_empty_key, t04_ranges, t05_limit, t06_sort, t06_many, too_much, t07_filters,
         t08_keys_only, t09_past, t10_bounds_of_time, t12_refused_puts, t13_previous, t14_create_race, t15_compares, t18_duplicates,
         t19_nested, t20_too_many, t21_whole_or_not, t22_compacted_inside, t23_one_revision, t24_compact, t25_again,
         t26_large, t27_paging, large_answers, many_keys, many_deletes, unknown_methods]

if __name__ == "__main__":
    if REAL:
        if not shutil.which("etcd"):
            print("1..0 # SKIP no etcd on the PATH")
            sys.exit(0)
        import etcd_cluster
        CLUSTER = etcd_cluster.Cluster()
        with CLUSTER:
            run_cases(CASES[:-1])
    else:
        CLUSTER = Etcds(1, PATIENT, join=False)
        with CLUSTER:
            CLUSTER.ready()
            run_cases([*CASES, claims, compact_physical])
