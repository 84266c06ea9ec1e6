#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ctypes binding of examples/python over real stores: every call of it, and what it raises.

usage: test_coord_python.py LIBMUSTER BINDING_DIR [URL... [-- NAME]]    (prints TAP)
"""
import gc
import os
import subprocess
import sys
import tempfile
import threading
import weakref

os.environ["LIBMUSTER"] = os.path.abspath(sys.argv[1])
BINDING = os.path.abspath(sys.argv[2])
sys.dont_write_bytecode = True
sys.path.insert(0, BINDING)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "log"))
from cluster import check, run_cases  # noqa: E402
import muster_coord as m  # noqa: E402

DIR = tempfile.TemporaryDirectory(prefix="muster-python-")
URLS = sys.argv[3:] or ["mem:", f"file://{DIR.name}/store"]
TTL = 3


def raises(kind, reason, action, *words, **named):
    try:
        action(*words, **named)
    except kind as error:
        check(error.reason == reason, f"{kind.__name__}: wanted {reason}, got {error}")
        return error
    raise AssertionError(f"{kind.__name__}/{reason} was not raised")


def on_each(name, action):
    for url in URLS:
        with m.Store(url) as store:
            action(store, f"py/{os.getpid()}/{name}")


def entries():
    """entries: create, get, compare_and_set, delete"""
    def act(store, name):
        revision = store.create(name, b"\0one")
        check(raises(m.Exists, "held", store.create, name).revision == revision, "its revision")
        entry = store.get(name)
        check((entry.value, entry.revision, entry.key) == (b"\0one", revision, name), "as written")
        raises(m.Conflict, "revision", store.compare_and_set, name, revision + 1, b"x")
        later = store.compare_and_set(name, revision, "two")
        check(later > revision and store.get(name).value == b"two", "set")
        store.delete(name, later)
        check(store.get(name) is None, "gone")
        raises(m.NotFound, "none", store.delete, name)
        check("512" in str(raises(m.Invalid, "key", store.create, "k" * 513)), "names the limit")
    on_each("entries", act)


def claims():
    """claims: lease, check, renew, export and adopt, fence, release"""
    def act(store, name):
        fence = m.Fence()
        with store.create(name, b"v", ttl=TTL, owner="py") as lease:
            lease.check()
            lease.renew()
            check(lease.alive and 0 < lease.safe_for < lease.ttl, "safe for a while")
            check(raises(m.Exists, "held", store.create, name, ttl=TTL, owner="other").owner == "py", "the holder")
            check(store.adopt(lease.export()).token == lease.token, "the same claim")
            check(fence.admit(lease.token), "first")
            old = lease.token
        check(not lease.alive, "released")
        raises(m.Expired, "local", lease.check)
        raises(m.Expired, "released", lease.renew)
        with store.create(name, ttl=TTL, owner="py") as lease:
            check(lease.token > old and fence.admit(lease.token) and not fence.admit(old), "fenced")
    on_each("claims", act)


def slots():
    """slots: acquire, holders, resize, keep and its loss"""
    def act(store, name):
        reasons, lost = [], threading.Event()
        first = store.acquire(name, slots=2, owner="a", ttl=TTL, value="va")
        second = store.acquire(name, slots=2, owner="b", ttl=TTL)
        check((first.slot, second.slot) == (0, 1), "lowest first")
        raises(m.Exists, "full", store.acquire, name, slots=2, owner="c", ttl=TTL)
        count, revision, rows = store.holders(name)
        check((count, [(h.slot, h.owner, h.value) for h in rows]) == (2, [(0, "a", b"va"), (1, "b", b"")]), "listed")
        store.resize(name, revision, 3)
        check(store.acquire(name, slots=3, owner="c", ttl=TTL).slot == 2, "one more")
        second.keep(on_lost=lambda reason: (reasons.append(reason), lost.set()))
        store.delete(f"{name}/slot-0001", expected=m.FORCE)
        check(lost.wait(30) and second.lost.is_set() and len(reasons) == 1, f"reported once: {reasons}")
        check(not second.alive, "and check() knows")
    on_each("slots", act)


def let_go():
    """a kept lease without a reference is kept no longer, also before the garbage collector runs"""
    def act(store, name):
        gc.disable()
        lease = store.create(name, ttl=TTL, owner="py").keep()
        seen = weakref.ref(lease)
        del lease
        check(seen() is None, "it went at once")
        gc.enable()
    on_each("let_go", act)


def watching():
    """watch: a snapshot, then changes"""
    def act(store, name):
        store.create(f"{name}/a", b"1")
        with store.watch(name) as watch:
            events = [watch.next(30) for _ in range(3)]
            check([e.type for e in events] == ["snapshot_begin", "entry", "snapshot_end"], f"{events}")
            check(watch.fileno() >= 0, "for a poll")
            store.create(f"{name}/b", b"2")
            event = watch.next(30)
            check((event.type, event.key, event.value) == ("put", f"{name}/b", b"2"), f"{event}")
            check(watch.next(0) is None, "nothing more")
    on_each("watching", act)


def the_example():
    """the example runs"""
    out = subprocess.run([sys.executable, "-B", os.path.join(BINDING, "singleton.py"), URLS[-1]], timeout=60,
                         capture_output=True, text=True)
    check(out.returncode == 0 and "step 2" in out.stdout, out.stdout + out.stderr)


if __name__ == "__main__":
    run_cases([entries, claims, slots, let_go, watching, the_example], "")
