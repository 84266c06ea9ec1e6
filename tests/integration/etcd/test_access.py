#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Permissions in etcd's API: certificates of an authority of the store's own, mapped to prefixes; on every replica,
so also for calls that are forwarded."""
import os
import subprocess

from etcds import (ALL, CHANNEL, DENIED, ELECTION, EQUAL, LEASE, LOCK, METHODS, PATIENCE, VALUE, VERSION, Client, Etcds,
                   after, check, compare, coordinators, grpc, message, op_delete, op_put, op_range, op_txn, patiently,
                   refused, run_cases, wait_for)
import drives
from streams import KeepAlive, Watch

ACCESS = "app-a=/a/:write,app-b=/a/:read,app-b=/b/:write,ops=:read,root=:write"


class Doors(Etcds):
    """Replicas over TLS whose listener for etcd's clients trusts an authority of its own."""

    def __init__(self, count):
        super().__init__(count, ["--etcd-access", ACCESS])
        self.over_tls()
        self.host = self.address(0, 0).split(":")[0]
        self.store = os.path.join(self.dir, "store-tls")
        subprocess.run([coordinators.MUSTERCTL, "cert", "ca", "--dir", self.store], check=True, capture_output=True)
        for node in self.nodes:
            node.options += ["--etcd-ca-file", self.store + "/ca.pem"]

    def certificate(self, name, kind="store", authority=None):
        authority = authority or self.store
        path = os.path.join(self.dir, f"client-{kind}-{name}-{os.path.basename(authority)}")
        if not os.path.exists(path + ".pem"):
            identity = [kind, "--id", name] if name else [kind]
            subprocess.run([coordinators.MUSTERCTL, "cert", "issue", "--dir", authority, "--out", path, *identity],
                           check=True, capture_output=True)
        return [open(part, "rb").read() for part in (self.dir + "/tls/ca.pem", path + ".key.pem", path + ".pem")]

    def forged(self, node, name, common_name, uris=(), authority=None, port="etcd"):
        """A client with a certificate that musterctl refuses to issue."""
        base, authority = os.path.join(self.dir, "forged-" + name), authority or self.store
        run = ("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
               base + ".key.pem", "-subj", "/CN=" + common_name.replace("/", "\\/"), "-out", base + ".csr")
        subprocess.run(run, check=True, capture_output=True)
        with open(base + ".ext", "w", encoding="ascii") as file:
            file.write("extendedKeyUsage=clientAuth\n" + "".join(
                "subjectAltName=" + ",".join("URI:" + uri for uri in uris) + "\n" for _ in uris[:1]))
        subprocess.run(["openssl", "x509", "-req", "-in", base + ".csr", "-CA", authority + "/ca.pem", "-CAkey",
                        authority + "/ca.key.pem", "-CAcreateserial", "-days", "1", "-extfile", base + ".ext", "-out",
                        base + ".pem"], check=True, capture_output=True)
        files = [open(part, "rb").read() for part in (self.dir + "/tls/ca.pem", base + ".key.pem", base + ".pem")]
        return Client(channel=grpc.secure_channel(getattr(node, port), grpc.ssl_channel_credentials(*files), options=CHANNEL))

    def client(self, node, name, kind="store", authority=None, port="etcd"):
        """A client with the certificate of this name, at that replica."""
        credentials = grpc.ssl_channel_credentials(*self.certificate(name, kind, authority))
        return Client(channel=grpc.secure_channel(getattr(node, port), credentials, options=CHANNEL))


def outcome(function):
    """The permanent refusal of a call; (0, "") when it succeeds."""
    def once():
        answer = refused(function)
        return answer if answer[0] != 14 else None
    return wait_for("an answer", once)


def prefixes():
    """A common name reads and writes what it was given, on every replica, and nothing else"""
    fine = (0, "")
    with Doors(3) as cluster:
        cluster.ready()
        for node in cluster.nodes:
            a, b, ops, root, nobody = (cluster.client(node, name) for name in ("app-a", "app-b", "ops", "root", "nobody"))
            for why, ask, want in (
                    ("a writes its own", lambda: a.put(b"/a/k", b"v"), fine),
                    ("b does not", lambda: b.put(b"/a/k", b"w"), DENIED),
                    ("b reads it", lambda: b.range(b"/a/", after(b"/a/")), fine),
                    ("one key too far", lambda: b.range(b"/a/", b"/a1"), DENIED),
                    ("everything from there on", lambda: b.range(b"/a/", ALL), DENIED),
                    ("the prefix without its end", lambda: a.put(b"/a", b"v"), DENIED),
                    ("beside it", lambda: a.put(b"/b/k", b"v"), DENIED),
                    ("a reads nothing else", lambda: a.range(b"/b/k"), DENIED),
                    ("serializable neither", lambda: a.range(b"/b/k", serializable=True), DENIED),
                    ("nor counts", lambda: a.range(b"\0", ALL, count_only=True), DENIED),
                    ("an empty range", lambda: a.range(b"/a/z", b"/a/a"), fine),
                    ("a deletes its own", lambda: a.delete(b"/a/", after(b"/a/")), fine),
                    ("and not all", lambda: a.delete(b"/a/", ALL), DENIED),
                    ("a compare reads", lambda: a.txn([compare(b"/b/k", VALUE, EQUAL, b"v")]), DENIED),
                    ("a branch that is not taken", lambda: a.txn([compare(b"/a/k", VERSION, EQUAL, 99)],
                                                                  [op_put(b"/b/k")]), DENIED),
                    ("inside", lambda: a.txn([], [op_txn([], [], [op_delete(b"/b/k")])]), DENIED),
                    ("b has two", lambda: b.txn([compare(b"/a/k", VERSION, EQUAL, 0)], [op_put(b"/b/k", b"v")],
                                                [op_range(b"/a/k")]), fine),
                    ("ops reads all", lambda: ops.range(b"\0", ALL), fine),
                    ("ops writes nothing", lambda: ops.put(b"/a/k"), DENIED),
                    ("ops does not compact", lambda: ops.compact(2), DENIED),
                    ("root may", lambda: root.put(b"/c/k", b"v"), fine),
                    ("but claims are claims", lambda: root.put(b"muster/k", b"v"), DENIED),
                    ("nobody reads", lambda: nobody.range(b"/a/k"), DENIED),
                    ("nobody writes", lambda: nobody.put(b"/a/k"), DENIED)):
                check(outcome(ask) == want, f"{node.name}, {why}: {outcome(ask)}")
        revision = patiently(root.revision)
        check(outcome(lambda: root.compact(revision)) == fine, "root compacts")


def watch_and_lease():
    """A watch needs the right to read its keys, else it is created and canceled as denied; a caller may revoke a lease, or
    list its keys, with the right for every key under it"""
    fine = (0, "")
    with Doors(1) as cluster:
        cluster.ready()
        a, b, ops, nobody = (cluster.client(cluster.nodes[0], name) for name in ("app-a", "app-b", "ops", "nobody"))
        patiently(lambda: a.put(b"/a/k"))
        with Watch(b) as watch:
            check(not watch.create(b"/a/", after(b"/a/")).canceled, "b reads there")
            for key, end in ((b"/a/", b"/a1"), (b"/c/k", b""), (b"", ALL)):
                answer = watch.create(key, end)
                check(answer.created and answer.canceled and answer.watch_id == -1, answer)
                check(answer.cancel_reason == DENIED[1], answer)
            a.put(b"/a/k", b"shown")
            check(watch.events(0, 1)[0].kv.value == b"shown", "what may be read is sent")
        lease = a.call(LEASE + "LeaseGrant", TTL=600).ID
        a.put(b"/a/leased", lease=lease)
        for why, ask, want in (
                ("nobody grants", lambda: nobody.call(LEASE + "LeaseGrant", TTL=600), DENIED),
                ("nobody lists", lambda: nobody.call(LEASE + "LeaseLeases"), DENIED),
                ("b may not write what is under it", lambda: b.call(LEASE + "LeaseRevoke", ID=lease), DENIED),
                ("but read", lambda: b.call(LEASE + "LeaseTimeToLive", ID=lease, keys=True), fine),
                ("nobody not", lambda: nobody.call(LEASE + "LeaseTimeToLive", ID=lease), DENIED),
                ("ops reads", lambda: ops.call(LEASE + "LeaseTimeToLive", ID=lease, keys=True), fine),
                ("ops revokes nothing", lambda: ops.call(LEASE + "LeaseRevoke", ID=lease), DENIED),
                ("a does", lambda: a.call(LEASE + "LeaseRevoke", ID=lease), fine)):
            check(outcome(ask) == want, f"{why}: {outcome(ask)}")
        lease = a.call(LEASE + "LeaseGrant", TTL=600).ID    # of more keys than are looked at at a time
        for at in range(0, 600, 100):
            b.txn(success=[op_put(b"/b/%03d" % n, lease=lease) for n in range(at, at + 100)])
        a.put(b"/a/last", lease=lease)
        check(outcome(lambda: b.call(LEASE + "LeaseRevoke", ID=lease)) == DENIED, "the last is not b's")
        check(len(b.call(LEASE + "LeaseTimeToLive", ID=lease, keys=True).keys) == 601, "b reads them all")
        a.delete(b"/a/last")
        check(outcome(lambda: b.call(LEASE + "LeaseRevoke", ID=lease)) == fine, "all are b's")
        with KeepAlive(nobody) as keep:
            check(keep.ended() == DENIED, keep.failure)


def locks_and_elections():
    """A lock and an election are their keys: a caller with write access below the name can acquire, at the leader and at a
    follower, and one with read access can query"""
    fine, denied = (0, ""), DENIED
    with Doors(2) as cluster:
        cluster.ready()
        for node in cluster.nodes:
            a, b, nobody = (cluster.client(node, name) for name in ("app-a", "app-b", "nobody"))
            lease = patiently(lambda: a.call(LEASE + "LeaseGrant", TTL=600)).ID
            mine = {"name": b"/a/e", "key": b"/a/e/%x" % lease, "rev": 1, "lease": lease}
            for why, ask, want in (
                    ("a locks its own", lambda: a.call(LOCK + "Lock", name=b"/a/l", lease=lease), fine),
                    ("b does not", lambda: b.call(LOCK + "Lock", name=b"/a/l", lease=lease), denied),
                    ("beside it", lambda: a.call(LOCK + "Lock", name=b"/b/l", lease=lease), denied),
                    ("nobody unlocks", lambda: nobody.call(LOCK + "Unlock", key=b"/a/l/%x" % lease), denied),
                    ("a claim is a claim", lambda: a.call(LOCK + "Lock", name=b"muster/l", lease=lease), denied),
                    ("a unlocks", lambda: a.call(LOCK + "Unlock", key=b"/a/l/%x" % lease), fine),
                    ("a is elected", lambda: a.call(ELECTION + "Campaign", name=b"/a/e", lease=lease), fine),
                    ("b is not", lambda: b.call(ELECTION + "Campaign", name=b"/a/e", lease=lease), denied),
                    ("b is answered", lambda: b.call(ELECTION + "Leader", name=b"/a/e"), fine),
                    ("nobody is", lambda: nobody.call(ELECTION + "Leader", name=b"/a/e"), denied),
                    ("b says nothing", lambda: b.call(ELECTION + "Proclaim", leader=mine, value=b"b"), denied),
                    ("b does not resign for it", lambda: b.call(ELECTION + "Resign", leader=mine), denied),
                    ("nobody observes", lambda: observe(nobody, b"/a/e"), denied),
                    ("b observes", lambda: observe(b, b"/a/e"), fine)):
                check(outcome(ask) == want, f"{node.name}, {why}: {outcome(ask)}")
            patiently(lambda: a.call(LEASE + "LeaseRevoke", ID=lease))


def observe(client, name):
    """The first answer of Observe."""
    method = METHODS[ELECTION + "Observe"]
    stub = client.channel.unary_stream("/" + ELECTION + "Observe", message(method.input_type).SerializeToString,
                                       message(method.output_type).FromString)
    stream = stub(message(method.input_type)(name=name), timeout=PATIENCE)
    try:
        return next(stream)
    finally:
        stream.cancel()


def authorities():
    """X16: the other authority is refused at either port; the store's cannot name an administrator; the fleet's may all"""
    with Doors(1) as cluster:
        cluster.ready()
        node, fleet = cluster.nodes[0], os.path.join(cluster.dir, "tls")
        admin = cluster.client(node, "", "admin", fleet, "grpc")
        patiently(lambda: admin.put(b"/a/k", b"v"))
        check(outcome(lambda: cluster.client(node, "", "readonly", fleet, "grpc").put(b"/a/k", b"w")) == DENIED, "readers read")
        check(outcome(lambda: cluster.client(node, "", "readonly", fleet, "grpc").range(b"\0", ALL)) == (0, ""), "all of it")
        check(outcome(lambda: cluster.client(node, "app-a", port="etcd").range(b"/a/k")) == (0, ""), "its own listener")
        for why, wrong in (("the store's, at the gRPC port", cluster.client(node, "root", port="grpc")),
                           ("the fleet's, at the store's", cluster.client(node, "", "admin", fleet, "etcd")),
                           ("none at all", Client(channel=grpc.secure_channel(node.etcd, grpc.ssl_channel_credentials(
                               cluster.certificate("root")[0]), options=CHANNEL)))):
            code, text = refused(lambda: wrong.call("etcdserverpb.KV/Range", key=b"/a/k"))
            check(code == 14, f"{why}: {code} {text}")
        forged = cluster.client(node, "", "admin", cluster.store, "etcd")
        check(refused(lambda: forged.range(b"/a/k"))[0] == 7, "an administrator of the wrong authority")


def names_of_the_fleet():
    """An administrator or a reader is one URI from the fleet's authority: neither a common name nor one of two URIs"""
    admin, readonly, shard = "bigfleet://admin", "bigfleet://readonly", "bigfleet://shard/s1"
    with Doors(2) as cluster:
        cluster.ready()
        fleet = os.path.join(cluster.dir, "tls")
        patiently(lambda: cluster.client(cluster.nodes[0], "root").put(b"/a/k", b"v"))
        for number, node in enumerate(cluster.nodes):
            for why, who in (
                    ("an administrator's name by the store's authority", cluster.forged(node, f"{number}-admin", admin)),
                    ("a reader's name by the store's authority", cluster.forged(node, f"{number}-readonly", readonly)),
                    ("a replica's name by the store's authority",
                     cluster.forged(node, f"{number}-replica", "muster://replica/node-0")),
                    ("an administrator's name by the fleet's authority",
                     cluster.forged(node, f"{number}-fleet", admin, authority=fleet, port="grpc")),
                    ("two URIs by the fleet's authority",
                     cluster.forged(node, f"{number}-two", "two", (shard, admin), fleet, "grpc"))):
                for what, ask in (("reads", lambda: who.range(b"\0", ALL)), ("writes", lambda: who.put(b"/other", b"x")),
                                  ("compacts", lambda: who.compact(2)),
                                  ("grants", lambda: who.call(LEASE + "LeaseGrant", TTL=600))):
                    check(outcome(ask)[0] == 7, f"{node.name}, {why}: {what}: {outcome(ask)}")
                if "store's" in why:
                    check("not for this listener's authority" in outcome(ask)[1], f"{why}: {outcome(ask)}")


def etcdctl():
    """X16: etcdctl with a certificate, by the members' own list, too; another server's authority, another client's, none"""
    with Doors(1) as cluster:
        cluster.ready()
        node, fleet = cluster.nodes[0], os.path.join(cluster.dir, "tls")

        def ctl(name="root", authority=None, kind="store", server=fleet):
            cluster.certificate(name, kind, authority)
            path = os.path.join(cluster.dir, f"client-{kind}-{name}-{os.path.basename(authority or cluster.store)}")
            return drives.Target("over TLS", [node.etcd], ("--cacert", server + "/ca.pem", "--cert", path + ".pem",
                                                           "--key", path + ".key.pem", "--dial-timeout=60s"))
        root, a = ctl(), ctl("app-a")
        check(root.ctl("put", "/a/k", "v") == "OK\n" and a.ctl("get", "/a/k") == "/a/k\nv\n", "put and get")
        lease = a.ctl("lease", "grant", "600").split()[1]
        with a.background("watch", "/a/", "--prefix") as watch:
            def received(lines):    # the watch says nothing when it begins: one of these is after that
                a.ctl("put", "/a/shown", "x", f"--lease={lease}")
                return "/a/shown" in lines
            watch.until("an event", received)
        check("txn" not in a.ctl("txn", text='ver("/a/k") > "0"\n\nput /a/k w\n\n\n'), "txn")
        check(a.ctl("lease", "revoke", lease) == f"lease {lease} revoked\n", "revoke")
        check("permission denied" in a.fails("put", "/b/k", "v"), "a has its prefix only")
        check("permission denied" in ctl("nobody").fails("get", "/a/k"), "nobody has none")
        wait_for("its listener is listed", lambda: [member["clientURLs"] for member in root.json("member", "list")["members"]]
                 == [["https://" + node.etcd]])
        through = root.run("endpoint", "health", "--cluster")   # the store's certificate is nothing at the gRPC port
        check(through.returncode == 0 and "is healthy" in through.stdout + through.stderr, f"{through}")
        check("permission denied" in root.fails("member", "add", "new", "--peer-urls=https://127.0.0.1:7"), "no administrator")
        bare = drives.Target("without", [node.etcd], ("--cacert", fleet + "/ca.pem"))
        for why, wrong in (("another authority of the server", ctl(server=cluster.store)), ("no certificate", bare),
                           ("the fleet's certificate", ctl("", fleet, "admin"))):
            wrong.command += ["--command-timeout=2s", "--dial-timeout=2s"]
            wrong.fails("get", "/a/k")
            check(root.ctl("get", "/a/k") == "/a/k\nw\n", f"and nobody else minds: {why}")


if __name__ == "__main__":
    run_cases([prefixes, watch_and_lease, locks_and_elections, authorities, names_of_the_fleet, etcdctl])
