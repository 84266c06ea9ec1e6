#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""muster:// through the Python binding: promises of this store alone, with leaders killed and stopped.

usage: test_native.py MUSTER MUSTERCTL PROTOC PROTO_ROOT LIBMUSTER DISTURBED BINDING_DIR    (prints TAP)
"""
import os
import shutil
import signal
import subprocess
import sys
import threading

os.environ["LIBMUSTER"], DISTURBED, BINDING = (os.path.abspath(path) for path in sys.argv[5:8])
del sys.argv[5:]
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), BINDING]
import stores  # noqa: E402
from stores import Client, Cluster, check, grpc, run_cases, wait_for  # noqa: E402
import muster_coord as m  # noqa: E402

os.environ["LIBMUSTER"] = DISTURBED
del sys.modules["muster_coord"]
import muster_coord as disturbed  # noqa: E402


class Fleet(Cluster):
    def __init__(self, tls=False):
        super().__init__(3)
        self.query = ""
        if tls:
            self.over_tls()
            pair = os.path.join(self.dir, "tls")
            self.query = f"?tls=1&ca={pair}/ca.pem&cert={pair}/admin.pem&key={pair}/admin.key.pem"
        self.start()
        self.formed()

    def url(self):
        return "muster://" + ",".join(node.grpc for node in self.nodes) + self.query

    def store(self):
        return m.Store(self.url())

    def waiters(self, group):
        try:
            return Client(self.leader([node for node in self.nodes if node.running()])).ask("Holders", group=group).waiters
        except grpc.RpcError:
            return None


class Waiter(threading.Thread):
    """Waits for the group's only slot; .lease or .error when it is over."""

    def __init__(self, store, group, owner):
        super().__init__(daemon=True)
        self.store, self.group, self.owner, self.lease, self.error = store, group, owner, None, None
        self.start()

    def run(self):
        try:
            self.lease = self.store.acquire(self.group, 1, owner=self.owner, ttl=30, wait=120)
        except m.CoordError as error:
            self.error = error

    def over(self):
        self.join(60)
        check(not self.is_alive(), f"{self.owner} still waits")
        check(self.lease, f"{self.owner} got no slot: {self.error}")
        return self.lease


def queue(fleet, act):
    """Two wait behind a holder; act() on the leader; each gets the slot in its turn."""
    with fleet.store() as one, fleet.store() as two, fleet.store() as three:
        held = one.acquire("g", 1, owner="first", ttl=30)
        second = Waiter(two, b"g", "second")
        wait_for("the second waits", lambda: fleet.waiters(b"g") == 1)
        third = Waiter(three, b"g", "third")
        wait_for("the third waits", lambda: fleet.waiters(b"g") == 2)
        undo = act(fleet.leader())
        held.release(timeout=30)
        lease = second.over()
        check(third.lease is None and third.is_alive(), "the third got it out of turn")
        lease.check()
        lease.release(timeout=30)
        third.over().release(timeout=30)
        undo()


def killed():
    """waiters keep their order while the leader is killed"""
    with Fleet() as fleet:
        def act(leader):
            leader.process.kill()
            leader.process.wait()
            return lambda: None
        queue(fleet, act)


def stopped():
    """waiters keep their order while the leader is stopped"""
    with Fleet() as fleet:
        def act(leader):
            leader.process.send_signal(signal.SIGSTOP)
            fleet.nodes.remove(leader)
            fleet.nodes.append(leader)  # asked last while it is stopped

            def undo():
                leader.process.send_signal(signal.SIGCONT)
            return undo
        queue(fleet, act)


def closed():
    """close ends a call that waits at the server"""
    with Fleet() as fleet, fleet.store() as one:
        held, two = one.acquire("g", 1, owner="first", ttl=30), fleet.store()
        waiter = Waiter(two, b"g", "second")
        wait_for("it waits", lambda: fleet.waiters(b"g") == 1)
        two.close()
        waiter.join(60)
        check(not waiter.is_alive(), "close left a caller waiting")
        check(waiter.error and waiter.error.reason == "closed", f"ended with {waiter.error}")
        wait_for("it has left the queue", lambda: fleet.waiters(b"g") == 0)
        held.release()


def watched():
    """a watch goes on without a gap after the leader is killed"""
    with Fleet() as fleet, fleet.store() as store, store.watch("b") as watch:
        seen = []
        store.create("b/one", b"1")
        leader = fleet.leader()
        leader.process.kill()
        leader.process.wait()
        store.create("b/two", b"2", timeout=30)
        while not any(event.key == "b/two" for event in seen):
            event = watch.next(30)
            check(event, f"the watch fell silent after {seen}")
            seen.append(event)
        kinds = [event.type for event in seen]
        check("resync" not in kinds and kinds.count("snapshot_begin") == 1, f"it did not resume: {kinds}")
        check("entry" not in kinds, f"it was sent as a snapshot: {seen}")
        check([event.key for event in seen if event.key] == ["b/one", "b/two"], f"{seen}")


def nothing():
    """a delete of nothing that had to be repeated is NOT_FOUND, not done already"""
    with Fleet() as fleet:
        def lost(what):
            return disturbed.Store(f"fault+{fleet.url()}?fault_ops=delete&fault_first=1&fault_lose_{what}=1000")
        with lost("request") as store:
            try:
                check(False, f"deleted at {store.delete('nothing')}")
            except disturbed.NotFound:
                pass
        with lost("reply") as store:
            store.create("something")
            store.delete("something")  # it was this very call, and is answered so


def restore(fleet, archive):
    """All of them end; the copy comes back under the first one's address, and the others join it with nothing."""
    for node in fleet.nodes:
        node.process.kill()
        node.wait_end()
        shutil.rmtree(node.dir)
    first = fleet.nodes[0]
    subprocess.run([stores.coordinators.MUSTER, "coordinator", "restore", archive, "--data-dir", first.dir,
                    "--raft-advertise", first.raft], check=True, capture_output=True)
    fleet.start()
    fleet.formed()


def refused(why, function):
    """The error of the library with which the call must end."""
    try:
        function()
    except m.CoordError as error:
        return error
    raise stores.coordinators.Failed(f"{why}: taken")


def restored():
    """R5: restored from a copy under open handles, everyone is answered by name, and nothing goes on as if it were the same"""
    with Fleet() as fleet, fleet.store() as busy, fleet.store() as idle, fleet.store() as other:
        kept = busy.create("r/kept", ttl=60, owner="busy").keep()
        bare = idle.create("r/bare", ttl=600, owner="idle")
        once = other.create("r/once", ttl=600, owner="other")
        held, watch = busy.acquire("g", 1, owner="first", ttl=600), busy.watch("r")
        while watch.next(30).type != "snapshot_end":
            pass
        waiter = Waiter(other, b"g", "second")
        wait_for("it waits", lambda: fleet.waiters(b"g") == 1)
        archive, blob = os.path.join(fleet.dir, "copy.muster"), bare.export()
        subprocess.run([stores.coordinators.MUSTERCTL, "backup", archive, "--coordinator", fleet.leader().grpc],
                       check=True, capture_output=True)
        late = idle.create("r/late", ttl=600, owner="idle")
        restore(fleet, archive)
        # Nobody asked for anything yet: those that keep, watch and wait hear of it.
        check(kept.lost.wait(60), "a kept claim is believed in")
        check(not kept.alive and not held.alive, "what one handle has is over")
        waiter.join(60)
        check(waiter.error and waiter.error.reason == "other_store", f"who waited: {waiter.lease} {waiter.error}")
        event = watch.next(60)
        while event and (event.type == "progress" or event.key == "r/late"):
            event = watch.next(60)
        check(event and (event.type, event.reason) == ("closed", "other_store"), f"the watch: {event}")
        # A handle with nothing open learns it by whatever it asks first, though its lease is in the copy.
        for lease, name in ((bare, "bare"), (late, "late")):
            error = refused(name, lambda lease=lease: lease.renew(timeout=30))
            check((type(error), error.reason) in ((m.Invalid, "other_store"), (m.Expired, "revoked")), f"{name}: {error}")
            check(not lease.alive, f"{name} is believed in")
        error = refused("a write", lambda: other.compare_and_set("r/once", once.revision, b"x", lease=once))
        check(isinstance(error, (m.Invalid, m.Expired)), f"{error}")
        for store in (busy, idle, other):
            check(refused("a read", lambda store=store: store.get("r/kept")).reason == "other_store", "a read")
            check(isinstance(refused("a grant", lambda store=store: store.create("r/new", ttl=5, owner="x")),
                             m.Unsupported), "a grant")
        with fleet.store() as anew:
            check(anew.get("r/late") is None and anew.get("r/bare").token == bare.token, "it is the copy")
            check(refused("a blob of before", lambda: anew.adopt(blob)).reason == "other_store", "an import")
            check(anew.create("r/now", ttl=5, owner="x").token > late.token + (1 << 39), "tokens grow")


def over_tls():
    """over TLS"""
    with Fleet(tls=True) as fleet, fleet.store() as store:
        store.create("k", b"v")
        check(store.get("k").value == b"v", "not what was put")


if __name__ == "__main__":
    run_cases([killed, stopped, closed, watched, nothing, restored, over_tls])
