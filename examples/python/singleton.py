# SPDX-License-Identifier: Apache-2.0
"""Exactly one of any number of these does the work; when it dies, another takes over.

    LIBMUSTER=build/release/src/libmuster/libmuster.so.1 python3 singleton.py file:///tmp/claims
"""
import sys
import time

from muster_coord import Exists, Store


def main(url):
    with Store(url) as store:
        while True:
            try:
                lease = store.acquire("demo/singleton", slots=1, ttl=5, wait=60)
            except Exists as taken:
                print("still held by", taken.owner)
                continue
            with lease:
                lease.keep()
                print("mine, with token", lease.token, flush=True)
                for step in range(3):
                    lease.check()           # before every side effect
                    print("step", step, "fenced by", lease.token, flush=True)
                    time.sleep(1)
            return


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mem:")
