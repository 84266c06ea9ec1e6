#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of Debian's python3-etcd3 (X09), on a running server.

usage: with_etcd3.py HOST PORT MEMBERS
"""
import os
import sys
import threading
import traceback

import etcd3

PATIENCE = 90


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(got, expected, what):
    check(got == expected, f"{what}: {got!r}, not {expected!r}")


def drive(host, port, members):
    client = etcd3.client(host=host, port=int(port), timeout=PATIENCE)
    client.put("p/a", "1")
    equal(client.get("p/a")[0], b"1", "get")
    client.put("p/b", "2")
    equal([value for value, _ in client.get_prefix("p/")], [b"1", b"2"], "get_prefix")
    equal([meta.key for _, meta in client.get_prefix("p/", sort_order="descend")], [b"p/b", b"p/a"], "descend")
    done, answers = client.transaction(compare=[client.transactions.value("p/a") == "1",
                                                client.transactions.version("p/none") == 0],
                                       success=[client.transactions.put("p/a", "3"), client.transactions.get("p/a")],
                                       failure=[client.transactions.delete("p/a")])
    check(done and answers[1][0][0] == b"3", f"transaction: {done} {answers}")
    check(client.replace("p/a", "3", "4") and not client.replace("p/a", "3", "5"), "replace")
    check(client.put_if_not_exists("p/c", "1") and not client.put_if_not_exists("p/c", "2"), "put_if_not_exists")
    seen, received = [], threading.Event()

    def callback(response):
        seen.extend(response.events)
        if len(seen) >= 2:
            received.set()
    watch_id = client.add_watch_callback("p/w", callback)
    client.put("p/w", "1")
    client.delete("p/w")
    check(received.wait(PATIENCE), f"the callback got {seen}")
    equal([type(each).__name__ for each in seen], ["PutEvent", "DeleteEvent"], "events")
    client.cancel_watch(watch_id)
    lease = client.lease(600)
    client.put("p/l", "x", lease)
    check(0 < lease.remaining_ttl <= 600 and lease.granted_ttl == 600 and lease.keys == [b"p/l"], "the lease")
    equal([each.TTL for each in lease.refresh()], [600], "refresh")
    lease.revoke()
    equal(client.get("p/l"), (None, None), "its key is gone")
    with client.lock("p/lock", ttl=60) as lock:
        check(lock.is_acquired(), "the lock")
        # Who waits for a lock fails inside Debian's python3-etcd3 0.12.0, whose tenacity is another one than it expects.
        equal(len(list(client.get_prefix("/locks/p/lock"))), 1, "its key")
    check(client.lock("p/lock", ttl=60).acquire(timeout=PATIENCE), "after it")
    equal(len(list(client.members)), members, "members")
    check(client.status().version, "status")
    client.delete_prefix("p/")
    equal(list(client.get_prefix("p/")), [], "delete_prefix")


if __name__ == "__main__":
    try:
        drive(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)
