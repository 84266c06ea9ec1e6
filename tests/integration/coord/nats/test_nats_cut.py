#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A connection that is cut, or swallows what comes back (H08, H09, R09), before a nats-server of 2.11.

  test_nats_cut.py ACTOR NATS_SERVER
"""
import contextlib
import os
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE), os.path.join(HERE, "../../../lib")]
from actors import Actor, check, run, same  # noqa: E402
from link import Link  # noqa: E402
from servers import free_ports, start  # noqa: E402

ACTOR, SERVER = sys.argv[1:3]
DIRECTORY = tempfile.TemporaryDirectory(prefix="muster-nats-cut-")
PORT, = free_ports(1)


def through(link, bucket):
    return f"nats://127.0.0.1:{link.port}/{bucket}?create=1"


def direct(bucket):
    return f"nats://127.0.0.1:{PORT}/{bucket}?create=1"


def keys_of(events):
    return sorted(event[1] for event in events if event[1])


def a_watch_that_was_cut_says_so_and_shows_what_is_left():
    link = Link(PORT)
    with Actor(ACTOR, direct("h08")) as near, Actor(ACTOR, through(link, "h08")) as far:
        for key in ("w/stays", "w/goes"):
            near.says("OK/created", "create", "-", key, "v", 0, "-")
        far.says("OK", "watch", 1, "w", 1)
        first = far.events(1, lambda seen: any(event[0] == "end" for event in seen))
        same("both are there", keys_of(first), ["w/goes", "w/stays"])
        link.cut()
        link.drop()
        near.says("OK/deleted", "delete", "w/goes", "any", "-")
        near.says("OK/created", "create", "-", "w/comes", "v", 0, "-")
        link.heal()
        after = far.events(1, lambda seen: any(event[0] == "end" for event in seen))
        same("first of all it says so", after[0][0], "resync")
        same("what is left", keys_of(after), ["w/comes", "w/stays"])
        near.says("OK/created", "create", "-", "w/later", "v", 0, "-")
        later = far.events(1, lambda seen: seen)
        same("and it goes on", later[0][:2], ["put", "w/later"])


def a_claim_whose_answer_is_lost_is_recognised():
    link = Link(PORT)
    with Actor(ACTOR, through(link, "lost"), timeout_ms=20000) as far, Actor(ACTOR, direct("lost")) as near:
        for number in range(5):
            key = f"k{number}"
            link.cut(requests=True)
            far.send("create", number, key, "v", 60000, "me")
            deadline = time.monotonic() + 10
            while near("get", key)["code"] != "OK":     # the request has arrived, its answer has not
                check(time.monotonic() < deadline, "the request arrives")
                time.sleep(0.01)
            link.heal()
            got = far.take()
            same("done, once", got["code"], "OK")
            check(got["reason"] in ("created", "replayed"), f"{got}")
            same("it is the stored one", near("get", key)["revision"], got["revision"])
            far.says("OK/renewed", "renew", number)


def a_cut_off_holder_loses_its_claim_before_another_gets_it():
    link = Link(PORT)
    with Actor(ACTOR, through(link, "deaf")) as far, Actor(ACTOR, direct("deaf"), timeout_ms=1000) as near:
        far.says("OK/created", "create", 1, "a", "v", 2000, "me")
        far.says("OK", "keep", 1)
        link.cut(requests=True)
        deadline = time.monotonic() + 30
        while True:
            got = near("create", 1, "a", "w", 60000, "other")
            if got["code"] == "OK":
                break
            check(time.monotonic() < deadline, "the claim ends")
            time.sleep(0.01)
        lost = far.wait_lost(1, 30)
        check(lost["at"] <= got["at"], f"lost at {lost['at']}, granted to another at {got['at']}")
        link.heal()


with contextlib.ExitStack() as stack:
    server = start(SERVER, "one", PORT, 0, [], DIRECTORY.name)
    stack.callback(lambda: (server.kill(), server.wait()))
    run([a_watch_that_was_cut_says_so_and_shows_what_is_left, a_claim_whose_answer_is_lost_is_recognised,
         a_cut_off_holder_loses_its_claim_before_another_gets_it])
