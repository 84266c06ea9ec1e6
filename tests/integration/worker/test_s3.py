# SPDX-License-Identifier: Apache-2.0
"""The checkpoint store of workers over S3, before a server that checks every signature itself (s3_server.py).

usage: test_s3.py STORE_DRIVER    (prints TAP)
"""
import json
import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from s3_server import Store  # noqa: E402

DRIVER = os.path.abspath(sys.argv[1])
URL = "s3://bucket/some prefix/of+ours"
KEY = "bucket/some prefix/of+ours/00000003.ckpt"


class Owner:
    """A process that claimed partition 3."""

    def __init__(self, store, token, worker="w1", environment=None, url=URL):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        self.process = subprocess.Popen([DRIVER, url, "3", str(token), worker], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env={**clean, **store.environment, **(environment or {})})
        self.claimed = self.process.stdout.readline().strip()

    def commit(self, records):
        self.process.stdin.write(f"commit {records}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(60) == 0


def expect(got, want):
    assert got.startswith(want), f"got '{got}', want '{want}...'"


def a_successor_shuts_the_old_owner_out(store):
    """148"""
    old = Owner(store, 5)
    expect(old.claimed, "claimed 0")
    expect(old.commit(7), f"committed {URL}/00000003#ckpt-w1-1")
    new = Owner(store, 6, "w2")
    expect(new.claimed, "claimed 7")
    expect(old.commit(8), "FENCED partition 3 was claimed under epoch 6, ours is 5")
    expect(new.commit(9), "committed")
    expect(Owner(store, 5).claimed, "FENCED")
    assert json.loads(store.objects[KEY].split(b"\n")[0])["node_snapshots"]["totals"] == {"k": [9, 9]}
    assert all(why is None for _, _, why in store.requests), store.requests
    old.end(), new.end()


def a_write_whose_answer_is_lost_is_looked_up(store):
    owner = Owner(store, 1)
    store.faults = ["drop"]
    expect(owner.commit(4), "committed")
    store.faults = ["drop", "drop"]
    expect(owner.commit(5), "committed")
    expect(Owner(store, 2).claimed, "claimed 5")
    owner.end()


def a_store_that_is_busy_is_no_failure_of_the_partition(store):
    owner = Owner(store, 1)
    store.faults = ["refuse"]
    expect(owner.commit(4), "UNAVAILABLE")
    expect(owner.commit(4), "committed")
    owner.end()


def a_store_without_conditions_is_not_used(store):
    store.conditional = False
    expect(Owner(store, 1).claimed, "UNSUPPORTED")
    assert KEY not in store.objects


def a_wrong_key_is_refused_and_said(store):
    expect(Owner(store, 1, environment={"AWS_SECRET_ACCESS_KEY": "another"}).claimed, "DENIED")
    assert store.requests[-1][2] == "another signature", store.requests


def a_session_token_is_signed_too(store):
    owner = Owner(store, 1, environment={"AWS_SESSION_TOKEN": "a token/with+signs=="})
    expect(owner.claimed, "claimed 0")
    owner.end()


def nobody_there(store):
    gone = dict(store.environment)
    store.close()
    expect(Owner(store, 1, environment=gone).claimed, "UNAVAILABLE")


CASES = [a_successor_shuts_the_old_owner_out, a_write_whose_answer_is_lost_is_looked_up,
         a_store_that_is_busy_is_no_failure_of_the_partition, a_store_without_conditions_is_not_used,
         a_wrong_key_is_refused_and_said, a_session_token_is_signed_too, nobody_there]


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for number, case in enumerate(CASES, 1):
        store = Store()
        try:
            case(store)
            print(f"ok {number} - {case.__name__}")
        except Exception as error:  # noqa: BLE001
            failed += 1
            print(f"not ok {number} - {case.__name__}\n# {type(error).__name__}: {error}")
        if case is not nobody_there:
            store.close()
    sys.exit(1 if failed else 0)


main()
