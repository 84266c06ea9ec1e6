#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""musterctl doctor: every finding is driven, by real coordinators where they can be made unwell, else by canned answers.

usage: test_ctl_doctor.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
import datetime
import email.utils
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fleet"))
from dead import dead_address  # noqa: E402
from coordinators import MUSTERCTL, PATIENCE, PROTOC, PROTO_ROOT, Cluster, Skipped, check, run_cases, wait_for  # noqa: E402
from fleet_contracts import Canned, contracts  # noqa: E402

CTL = os.path.abspath(MUSTERCTL)
FILES, MESSAGE = contracts.load(PROTOC, PROTO_ROOT, "bigfleet/v1alpha1/coordinator.proto", "muster/v1/fleet.proto", "muster/v1/member.proto",
                                "muster/v1/coordination.proto", "muster/v1/shard.proto")
METHODS = {"/" + path: (MESSAGE(method.input_type), MESSAGE(method.output_type))
           for path, method in contracts.methods_of(FILES).items()}
REPLICAS, SHARDS = "/muster.v1.Fleet/ListReplicas", "/bigfleet.v1alpha1.Coordinator/ListShards"
MEMBERS, STORE, SHARD = "/muster.v1.Membership/ClusterStatus", "/muster.v1.Coordination/Status", "/muster.v1.ShardView/Status"
DAY = 86400


def doctor(*words, wrapper=()):
    return subprocess.run([*wrapper, CTL, "doctor", "--timeout", "20s", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, check=False)


def found(done):
    """[(result, what, advice)], with the count line held against them."""
    *lines, last = done.stdout.splitlines()
    rows = []
    for line in lines:
        what, _, advice = line[6:].partition("  -- ")
        rows.append((line[:4].strip(), what, advice))
    check(all(row[0] in ("ok", "warn", "fail") and row[1] for row in rows), done.stdout)
    check(all((row[0] == "ok") == (row[2] == "") for row in rows), f"what is not well has an advice: {done.stdout}")
    counts = [sum(1 for row in rows if row[0] == word) for word in ("ok", "warn", "fail")]
    check(last == "{} ok, {} warn, {} fail".format(*counts), done.stdout)
    check(done.returncode == (1 if counts[1] or counts[2] else 0), f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    check(done.stderr == "", done.stderr)
    return rows


def finding(rows, result, part):
    check(any(row[0] == result and part in row[1] for row in rows), f"no {result}: ...{part}... in\n" + "\n".join(map(str, rows)))


def with_finding(rows, result, part):
    return rows if any(row[0] == result and part in row[1] for row in rows) else None


def no_finding(rows, part):
    check(not any(part in row[1] for row in rows), f"{part} in {rows}")


# -- canned: a coordinator and what its HTTP says --

class Pages:
    """The HTTP of a replica: /metrics, /readyz, and a clock of its own."""

    def __init__(self, ahead=0, ready="", **metrics):
        values = {"muster_log_disk_free_bytes": 50 << 30, "muster_log_disk_full": 0, "process_open_fds": 40, "process_max_fds": 65536,
                  "muster_tls_not_after_seconds": 0, **metrics}
        build = values.pop("build", "0.1.0")
        text = "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in values.items())
        text += f'muster_build_info{{version="{build}",commit="x",compiler="y"}} 1\n'

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                body = (text if self.path == "/metrics" else ready or "ok\n").encode()
                self.send_response(200 if self.path == "/metrics" or not ready else 503)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def date_time_string(self, timestamp=None):
                return email.utils.formatdate((timestamp or time.time()) + ahead, usegmt=True)

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def three(pages, **changes):
    return [{"name": f"node-{number}", "voter": True, "leader": number == 0, "match": 5000, "silent_ms": 10, "level": 3,
             "grpc_address": f"127.0.0.1:{number + 1}", "http_address": page.address, **changes.get(f"node{number}", {})}
            for number, page in enumerate(pages)]


def coordinator(replicas, **more):
    answers = {REPLICAS: {"term": 4, "replicas": replicas}, SHARDS: {}, MEMBERS: {"active": 2, "known": 2, "status": "ok"}, STORE: {"keys": 3},
               **more}
    return Canned(METHODS, {path: METHODS[path][1](**answer) for path, answer in answers.items()})


def diagnose(replicas, **more):
    with coordinator(replicas, **more) as server:
        return found(doctor("--coordinator", server.address))


def all_is_well():
    """A healthy fleet: every line is ok, for people and for programs."""
    with Pages() as one, Pages() as two, Pages() as three_:
        rows = diagnose(three([one, two, three_]))
        check(all(row[0] == "ok" for row in rows), f"nothing is wrong: {rows}")
        for part in ["quorum: 3 voters answer, node-0 leads in term 4", "no replica is behind", "node-1: ready", "node-2: its clock agrees",
                     "node-0: the disk of its log: 50GiB are free", "node-1: 40 of 65536 file descriptors", "run the same build", "store: 3 keys",
                     "workers: 2 of 2 are active"]:
            finding(rows, "ok", part)
        with coordinator(three([one, two, three_])) as server:
            said = json.loads(doctor("--coordinator", server.address, "-o", "json").stdout)
        check((said["ok"], said["warn"], said["fail"]) == (len(rows), 0, 0) and said["findings"][0]["advice"] is None, said)


def clocks_disks_descriptors_certificates_versions():
    """The pages of a replica: clock, disk, descriptors, certificate, build, readiness, lag."""
    now = int(time.time())
    with Pages(ahead=3600, process_open_fds=9800, process_max_fds=10000, muster_tls_not_after_seconds=now - DAY) as one, \
            Pages(ahead=-9, muster_log_disk_full=1, process_open_fds=850, process_max_fds=1000, muster_tls_not_after_seconds=now + 3 * DAY,
                  build="0.2.0") as two, \
            Pages(muster_log_disk_free_bytes=300 << 20, process_max_fds=1024, muster_tls_not_after_seconds=now + 90 * DAY,
                  ready="log: no leader\nstore: behind\n") as last:
        # A machine that was paused while it measured gives no result: then again.
        rows = wait_for("a clock that is behind", lambda: with_finding(
            diagnose(three([one, two, last], node2={"match": 10, "level": 2})), "warn", "node-1: its clock is at least "))
    for result, part in [("fail", "node-0: its clock is at least 59m"), ("warn", "node-1: its clock is at least "),
                         ("ok", "node-2: its clock agrees"), ("fail", "node-0: 9800 of 10000 file descriptors"),
                         ("warn", "node-1: 850 of 1000 file descriptors"), ("warn", "node-2: it may open only 1024 files"),
                         ("ok", "node-0: the disk"), ("fail", "node-1: the disk of its log is below the reserve"),
                         ("warn", "node-2: the disk of its log: only 300MiB are free"), ("fail", "node-0: the certificate ended"),
                         ("warn", "node-1: the certificate ends"), ("ok", "node-2: the certificate is good until"),
                         ("warn", "node-1 runs another build than node-0"), ("fail", "node-2: not ready: log: no leader;store: behind"),
                         ("warn", "node-2: 4990 entries behind"), ("warn", "node-0 and node-2 announce different levels (3, 2)")]:
        finding(rows, result, part)
    no_finding(rows, "this machine's own clock")
    no_finding(rows, "same build")
    with Pages(ahead=3600) as one, Pages(ahead=3600) as two:
        finding(diagnose(three([one, two])), "warn", "this machine's own clock differs from that of every replica")


def quorum_and_addresses():
    """Silent voters, learners, replicas that cannot be queried, no server at all."""
    with Pages() as one:
        alone = three([one])
        finding(diagnose(alone), "warn", "quorum: 1 voter; none of them may fail")
        trio = three([one, one, one], node1={"silent_ms": 60000}, node2={"silent_ms": -1, "voter": False, "match": 0})
        rows = diagnose(trio)
        finding(rows, "fail", "quorum: 1 of 2 voters do not answer (node-1)")
        finding(rows, "warn", "node-2: a learner, 5000 entries behind")
        rows = diagnose(three([one, one, one], node1={"http_address": ""}, node2={"http_address": dead_address(), "grpc_address": "10.0.0.1:7790"},
                              node0={"grpc_address": "10.0.0.2:7790"}))
    finding(rows, "warn", "node-1: it has no HTTP address")
    finding(rows, "fail", "does not answer over HTTP")
    finding(rows, "warn", "node-0: speaks plaintext at 10.0.0.2:7790")
    rows = found(doctor("--coordinator", dead_address()))
    finding(rows, "fail", "quorum: no coordinator answers at")


def store_workers_and_shards():
    """A full store, workers that fail, shards that are away, late, held or short."""
    now = time.time_ns()
    soon = now + 3600 * 10**9  # "late" is ten seconds, and we may take longer to ask
    well = {"shard_id": "a", "cycle": 9, "computed_at_unix_ns": soon, "machines": 12, "cycle_interval_ms": 1000}
    shards = {"a": well, "b": {**well, "computed_at_unix_ns": now - 3600 * 10**9, "paused": True, "in_doubt": 4, "shortfalls": 7},
              "c": {"shard_id": "c", "cycle": 0}, "d": {**well, "dry_run": True},
              "f": {**well, "epoch": 1, "fenced": True, "newest_epoch": 41}, "g": {**well, "epoch": 2, "fenced": True},
              "h": {**well, "paused": True, "dry_run": True}}
    servers = {name: Canned(METHODS, {SHARD: METHODS[SHARD][1](**said)}) for name, said in shards.items()}
    listed = [{"shard_id": name, "address": server.address} for name, server in servers.items()] + [{"shard_id": "e", "address": dead_address()}]
    try:
        with Pages() as one:
            rows = diagnose(three([one, one, one]), **{SHARDS: {"shards": listed}, STORE: {"no_space": True},
                                                       MEMBERS: {"known": 9, "active": 1, "dead": 8, "hold": True}})
            again = diagnose(three([one, one, one]), **{MEMBERS: {"known": 9, "active": 6, "dead": 2, "suspected": 1}})
    finally:
        for server in servers.values():
            server.server.stop(0)
    for result, part in [("fail", "store: its quota is used up"), ("fail", "workers: so many failed at once"),
                         ("ok", "shard a: cycle 9, 12 machines"), ("fail", "shard b: the last cycle was 1h"),
                         ("warn", "shard b: the kill switch is on"), ("warn", "shard b: of 4 machines nobody knows"),
                         ("warn", "shard b: 7 Needs are not met"), ("fail", "shard c: it has decided nothing yet"),
                         ("warn", "shard d: it only logs what it would do"), ("fail", "shard e: no shard answers at"),
                         ("fail", "shard f: fenced: its epoch 1 is not newer than 41"),
                         ("fail", "shard g: fenced: its epoch 2 is not newer than what the provider has seen"),
                         ("warn", "shard h: the kill switch and dry-run are on")]:
        finding(rows, result, part)
    check(any("set-epoch --data-dir DIR 41" in row[2] and "newer process" in row[2] for row in rows), f"what to do: {rows}")
    finding(again, "warn", "workers: 1 suspected, 2 dead of 9")


# -- this machine --

def own_disk_and_certificate():
    """This machine: a real small file system, a certificate that has ended."""
    with tempfile.TemporaryDirectory() as folder, Pages() as one, coordinator(three([one, one, one])) as server:
        small = os.path.join(folder, "small")
        os.mkdir(small)
        mount = ["unshare", "--mount", "--map-root-user", "sh", "-c", f"mount -t tmpfs -o size=32m tmpfs {small} && exec \"$@\"", "sh"]
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode == 0:
            finding(found(doctor("--coordinator", server.address, "--data-dir", small, wrapper=mount)), "fail", f"{small}: only 32MiB are free")
        else:
            print("# no small file system: unshare is not allowed here")
        finding(found(doctor("--coordinator", server.address, "--data-dir", folder + "/no")), "fail", folder + "/no: ")
        expired = make_expired(folder)
        rows = found(doctor("--coordinator", dead_address(), *expired))
        finding(rows, "fail", "old.pem: the certificate ended 2020-01-02")


def make_expired(folder):
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as missing:
        raise Skipped(str(missing)) from None
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "old")])
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(7)
            .not_valid_before(datetime.datetime(2020, 1, 1)).not_valid_after(datetime.datetime(2020, 1, 2)).sign(key, hashes.SHA256()))
    pem, secret = os.path.join(folder, "old.pem"), os.path.join(folder, "old.key.pem")
    with open(pem, "wb") as out:
        out.write(made.public_bytes(serialization.Encoding.PEM))
    with open(secret, "wb") as out:
        out.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    os.chmod(secret, 0o600)
    return ["--tls-cert", pem, "--tls-key", secret, "--tls-ca", pem]


# -- real replicas --

def real_replicas():
    """Three over TLS: one with few descriptors, one whose certificate ends soon; then one dies."""
    with Cluster(3).over_tls() as cluster:
        tls = os.path.join(cluster.dir, "tls")
        short = cluster.nodes[1]
        subprocess.run([CTL, "cert", "issue", "--dir", tls, "--names", cluster.address(0, 0).split(":")[0], "--days", "3", "--force", "replica",
                        "--id", short.name], check=True, capture_output=True)
        for node in cluster.nodes:
            node.wrapper = ["prlimit", f"--nofile={256 if node is cluster.nodes[2] else 8192}"]
        cluster.start().formed()
        words = ["--coordinator", ",".join(node.grpc for node in cluster.nodes), "--tls-cert", tls + "/admin.pem", "--tls-key",
                 tls + "/admin.key.pem", "--tls-ca", tls + "/ca.pem"]
        rows = wait_for("three that are well", lambda: with_finding(found(doctor(*words)), "ok", "quorum: 3 voters answer, "))
        for node in cluster.nodes:
            finding(rows, "ok", f"{node.name}: its clock agrees")
            check(any(row[1].startswith(f"{node.name}: the disk of its log: ") for row in rows), rows)
        finding(rows, "warn", "node-2: it may open only 256 files")
        finding(rows, "ok", "of 8192 file descriptors are open")
        finding(rows, "warn", f"{short.name}: the certificate ends ")
        finding(rows, "ok", "node-0: the certificate is good until")
        finding(rows, "ok", "admin.pem: the certificate is good until")
        finding(rows, "ok", "run the same build")
        dies = cluster.others(cluster.leader())[0]
        dies.process.kill()
        dies.wait_end()
        rows = wait_for("the dead one is missed", lambda: with_finding(found(doctor(*words)), "warn", f"quorum: 1 of 3 voters do not answer ({dies.name})"))
        finding(rows, "fail", f"{dies.name}: {dies.http} does not answer over HTTP")


run_cases([all_is_well, clocks_disks_descriptors_certificates_versions, quorum_and_addresses, store_workers_and_shards,
           own_disk_and_certificate, real_replicas])
