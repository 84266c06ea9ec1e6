#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Access rules: every kind of certificate against every method of both contracts (wire.md 2 and facts T2, T4
to T12 of its 9.5, design.md 5), and certificates that change under a running coordinator.

The table below repeats the specification: src/rpc/access_table.c must agree with it.
"""
import hashlib
import os
import shutil
import socket
import ssl
import subprocess

import grpc

from coordinators import (ANY_REPLICA, CHANNEL, COORDINATOR, FLEET, HEALTH, METHODS, MUSTER, MUSTERCTL, OURS, PATIENCE,
                          PATIENT, READS, Cluster, call, check, code_of, run_cases, stream, wait_for)

CODE = grpc.StatusCode
CLUSTER = Cluster(3, PATIENT)
TLS = os.path.join(CLUSTER.dir, "tls")
REPORT = {COORDINATOR + "ReportShard"}
WRITES = set(OURS) - READS - REPORT
HARMLESS = {COORDINATOR + "ReportShard": {"shard_id": "s1"}, FLEET + "TransferLeadership": {"replica": "nobody"}}


# -- certificates --

def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


def forge(name, names="", days="1", ca=TLS):
    """A certificate that musterctl does not issue; `names` as openssl's subjectAltName."""
    base = os.path.join(TLS, name)
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
            base + ".key.pem", "-subj", "/CN=forged", "-out", base + ".csr")
    with open(base + ".ext", "w", encoding="ascii") as file:
        file.write("extendedKeyUsage=clientAuth,serverAuth\n" + (f"subjectAltName={names}\n" if names else ""))
    openssl("x509", "-req", "-in", base + ".csr", "-CA", ca + "/ca.pem", "-CAkey", ca + "/ca.key.pem",
            "-CAcreateserial", "-days", days, "-extfile", base + ".ext", "-out", base + ".pem")


def issue(*words, ca=TLS):
    subprocess.run([MUSTERCTL, "cert", "issue", "--dir", ca, *words], check=True, capture_output=True)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def dial(node, name):
    """A channel with the certificate of that name; None: without any."""
    pair = () if name is None else (read(f"{TLS}/{name}.key.pem"), read(f"{TLS}/{name}.pem"))
    options = [*CHANNEL, ("grpc.use_local_subchannel_pool", 1)]
    return grpc.secure_channel(node.grpc, grpc.ssl_channel_credentials(read(TLS + "/ca.pem"), *pair), options=options)


def make_all():
    other = os.path.join(CLUSTER.dir, "other-ca")
    subprocess.run([MUSTERCTL, "cert", "ca", "--dir", other], check=True, capture_output=True)
    for words in (("readonly",), ("shard", "--id", "s1"), ("shard", "--id", "s2"), ("cluster", "--id", "c1"),
                  ("provider", "--id", "p1")):
        issue(*words)
    forge("nameless")
    forge("foreign-names", "DNS:admin,URI:https://admin,URI:muster://replica/node-0")
    forge("wrong-name", "URI:bigfleet://root")
    forge("longer-name", "URI:bigfleet://admin/")
    forge("two-names", "URI:bigfleet://admin,URI:bigfleet://readonly")
    forge("same-twice", "URI:bigfleet://admin,URI:bigfleet://admin")
    forge("beside-others", "URI:bigfleet://admin,DNS:localhost,URI:https://example")
    forge("expired", "URI:bigfleet://admin", days="-1")
    forge("other-authority", "URI:bigfleet://admin", ca=other)


NOBODY = set()
MATRIX = {  # certificate: what it opens; None: not even the handshake
    None: None, "expired": None, "other-authority": None,
    "nameless": NOBODY, "foreign-names": NOBODY, "wrong-name": NOBODY, "longer-name": NOBODY, "two-names": NOBODY,
    "same-twice": NOBODY, "cluster-c1": NOBODY, "provider-p1": NOBODY,
    "shard-s1": REPORT, "shard-s2": NOBODY,  # the report is of s1
    "readonly": READS, "admin": READS | WRITES, "beside-others": READS | WRITES, "replica-node-1": READS | WRITES,
}


def status(channel, path):
    fields = HARMLESS.get(path, {})
    ask = stream if METHODS[path].server_streaming else call
    return code_of(lambda: ask(channel, path, timeout=PATIENCE, **fields))


# -- cases --

def the_matrix():
    """Each certificate against each method, at the leader: accepted, refused, or no connection."""
    leader = CLUSTER.leader()
    for name, opens in MATRIX.items():
        with dial(leader, name) as channel:
            for path in OURS:
                got, text, trailers = status(channel, path)
                if opens is None:
                    check(got == CODE.UNAVAILABLE, f"{name}: {path}: {got} '{text}'")
                elif path in opens:
                    let_in = (CODE.OK, CODE.INVALID_ARGUMENT, CODE.NOT_FOUND)
                    if path == FLEET + "BootstrapReplica":  # of a replica that has a cluster
                        let_in = (CODE.FAILED_PRECONDITION,)
                    check(got in let_in, f"{name}: {path}: {got} '{text}'")
                else:
                    check(got == CODE.PERMISSION_DENIED, f"{name}: {path}: {got} '{text}'; a method that only reads is in "
                          "READS (coordinators.py)")
                    check("x-muster-leader" not in trailers, f"{name}: a stranger learns nothing: {trailers}")
    refusals = [line for line in leader.text().splitlines() if 'msg="certificate identity rejected"' in line]
    check(any("level=error" in line and "rpc=/" in line and "needed" in line for line in refusals),
          f"a refusal is logged, with the method and what was shown: {refusals[:3]}")  # of many, some


def at_a_follower():
    """A follower refuses the callers that the leader would refuse, and names the leader to no refused caller."""
    leader = CLUSTER.leader()
    follower = CLUSTER.others(leader)[0]
    for name in ("readonly", "shard-s1", "nameless"):
        with dial(follower, name) as channel:
            for path in sorted(set(OURS) - ANY_REPLICA):
                got, text, trailers = status(channel, path)
                if path in MATRIX[name]:
                    check(got == CODE.FAILED_PRECONDITION and trailers.get("x-muster-leader") == leader.grpc,
                          f"{name}: {path}: {got} '{text}' {trailers}")
                else:
                    check(got == CODE.PERMISSION_DENIED and "x-muster-leader" not in trailers,
                          f"{name}: {path}: {got} '{text}' {trailers}")


def shards_report_for_themselves():
    """T9: a shard's certificate may report for that shard and no other; an administrator for none."""
    leader = CLUSTER.leader()
    for name, shard, want in (("shard-s1", "s1", CODE.OK), ("shard-s1", "s2", CODE.PERMISSION_DENIED),
                              ("shard-s1", "s1x", CODE.PERMISSION_DENIED), ("shard-s1", "", CODE.INVALID_ARGUMENT),
                              ("admin", "s1", CODE.PERMISSION_DENIED), ("readonly", "s1", CODE.PERMISSION_DENIED)):
        with dial(leader, name) as channel:
            got, text, _ = code_of(lambda: call(channel, COORDINATOR + "ReportShard", shard_id=shard))
            check(got == want, f"{name} reports '{shard}': {got} '{text}'")


def anybody_known_may_ask_for_health():
    """The health service needs the handshake and nothing else; other protocols get nothing."""
    leader = CLUSTER.leader()
    for name in ("nameless", "two-names", "shard-s2", "admin"):
        with dial(leader, name) as channel:
            check(call(channel, HEALTH + "Check").status == 1, f"{name}: alive")
    with dial(leader, None) as channel:
        check(code_of(lambda: call(channel, HEALTH + "Check"))[0] == CODE.UNAVAILABLE, "without a certificate")
    with grpc.insecure_channel(leader.grpc, options=CHANNEL) as channel:
        check(code_of(lambda: call(channel, HEALTH + "Check"))[0] == CODE.UNAVAILABLE, "plaintext")
    served(leader, administrator())
    old = administrator()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        served(leader, old)
        check(False, "TLS 1.2 is spoken")
    except OSError:
        pass


def half_of_it():
    """T2: each of the six partial sets of TLS options is refused at the start."""
    files = {"--tls-cert": TLS + "/admin.pem", "--tls-key": TLS + "/admin.key.pem", "--tls-ca": TLS + "/ca.pem"}
    names = list(files)
    for bits in range(1, 7):
        words = [word for n, name in enumerate(names) if bits >> n & 1 for word in (name, files[name])]
        done = subprocess.run([MUSTER, "coordinator", "run", "--data-dir", CLUSTER.dir + "/half", *words],
                              capture_output=True, text=True, timeout=90)
        check(done.returncode == 2 and "tls" in done.stderr, f"{words}: {done.returncode} {done.stderr}")
        check(not os.path.exists(CLUSTER.dir + "/half/FORMAT"), "nothing was made")


def administrator():
    context = ssl.create_default_context(cafile=TLS + "/ca.pem")
    context.load_cert_chain(TLS + "/admin.pem", TLS + "/admin.key.pem")
    context.set_alpn_protocols(["h2"])
    return context


def served(node, context):
    """The fingerprint of the certificate that it shows now."""
    host, port = node.grpc.rsplit(":", 1)
    with (socket.create_connection((host, int(port)), PATIENCE) as plain,
          context.wrap_socket(plain, server_hostname=host) as one):
        return hashlib.sha256(one.getpeercert(binary_form=True)).hexdigest()


def certificates_change():
    """T8: a new pair is served without a restart; a broken one is not, the last good one stays; replicas go on."""
    context = administrator()
    for node in CLUSTER.nodes:
        base = f"{TLS}/replica-{node.name}"
        before = served(node, context)
        issue("replica", "--id", node.name, "--names", node.grpc.split(":")[0], "--force", "--new-key")
        wait_for("the new one is served", lambda node=node, before=before: served(node, context) != before)
        good = served(node, context)
        shutil.copy(base + ".key.pem", base + ".kept")
        with open(base + ".key.pem", "w", encoding="ascii") as key:
            key.write("-----BEGIN PRIVATE KEY-----\nhalf written")
        for _ in range(5):
            check(served(node, context) == good, "the last good pair stays")
        os.replace(base + ".kept", base + ".key.pem")
        wait_for("all is well", lambda node=node, good=good: served(node, context) == good)
    victim = CLUSTER.leader()
    victim.call(FLEET + "TransferLeadership")  # who is left would wait long for its end
    victim.kill()  # new connections use the present files
    CLUSTER.leader(CLUSTER.others(victim)).call(FLEET + "AddShard", shard_id="after")
    victim.start()
    CLUSTER.formed()
    CLUSTER.agree()


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # handshakes fail here by the dozen
    with CLUSTER:
        CLUSTER.over_tls().start()
        make_all()
        CLUSTER.formed()
        run_cases([the_matrix, at_a_follower, shards_report_for_themselves, anybody_known_may_ask_for_health,
                   half_of_it, certificates_change])
