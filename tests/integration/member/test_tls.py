#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The workers' listener: mTLS always, with the run's development CA (workers.md 24.1: 20, 26-28; 24.13: 189-191, 196)."""
import os
import resource
import socket
import ssl
import subprocess
import tempfile

from workers import (ACTIVE, CHANNEL, LONG, MEMBER, PATIENT, RUN, SLOW, SUBSCRIBE, T5, T6, Beating, Workers, beat, beat_until,
                     check, code_of, grpc, message, run_cases, stub, wait_for)

DENIED, UNAVAILABLE = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE


def foreign_worker_20():
    """24.1: a worker of rollout's protocol over mTLS: INIT, then READY, registered once (20)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        worker = Beating(cluster.dial_worker(node, "worker-" + T6), T6, interval=0.05)
        wait_for("twenty beats", lambda: worker.good >= 20)
        worker.stop()
        check(all(code == UNAVAILABLE for code, _ in worker.bad), f"20: {worker.bad}")
        check(cluster.reported(T6).count("worker_registered") == 1, f"20: {cluster.reported(T6)}")
        check(cluster.listed()[T6].standing == ACTIVE and cluster.listed()[T6].phase == 2, f"20: {cluster.listed()}")
        # Our own interface is on the same connection; the one for people is not.
        channel = cluster.dial_worker(node, "worker-" + T6)
        request = message("muster.v1.RegisterRequest")(worker_id=T6, run_id=RUN, instance="ab" * 16, fences_itself=True)
        check(stub(channel, MEMBER + "Register")(request, timeout=60).incarnation == 1, "the same connection")
        request = message("muster.v1.ListWorkersRequest")()
        code = code_of(lambda: stub(channel, MEMBER + "ListWorkers")(request, timeout=60))[0]
        check(code == grpc.StatusCode.UNIMPLEMENTED, f"lists are not for workers: {code}")


def strangers_26_27():
    """24.1: without a certificate, or with another CA's, no handler runs (26, 27)."""
    with Workers(1) as cluster, tempfile.TemporaryDirectory() as other:
        cluster.start().formed()
        node = cluster.nodes[0]
        beat_until(cluster.dial_worker(node, "worker-" + T6), T6)
        with open(node.tls_dir + "/ca.pem", "rb") as ca:
            root = ca.read()
        naked = grpc.secure_channel(node.workers, grpc.ssl_channel_credentials(root), options=[
            *CHANNEL, ("grpc.ssl_target_name_override", "localhost")])
        code = code_of(lambda: beat(naked, T5))[0]
        check(code == UNAVAILABLE, f"26: {code}")
        leaf = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3",
                "-subj", f"/CN=worker-{T5}", "-addext", f"subjectAltName=DNS:worker-{T5}"]
        subprocess.run([*leaf, "-keyout", other + "/key", "-out", other + "/pem"], check=True, capture_output=True)
        with open(other + "/key", "rb") as key, open(other + "/pem", "rb") as pem:
            stranger = cluster.dial_worker(node, "worker-" + T5, (key.read(), pem.read()))
        code = code_of(lambda: beat(stranger, T5))[0]
        check(code == UNAVAILABLE, f"27: {code}")
        check(T5 not in cluster.listed(), "26, 27: nothing was heard of it")
        nobody = cluster.dial_worker(node, "somebody-else")
        code = code_of(lambda: beat(nobody, T5))[0]
        check(code == DENIED, f"a certificate that is no worker's: {code}")


def names_of_the_fleet():
    """A certificate of the workers' CA proves no name of the fleet: neither a replica's nor an administrator's."""
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        beat_until(cluster.dial_worker(node, "worker-" + T6), T6)
        for name, uri in (("worker-" + T5, "muster://replica/node-0"), ("worker-" + T5, "bigfleet://admin"), ("bigfleet://admin", None)):
            forged = cluster.dial_worker(node, name, cluster.certificate(name, uri))
            for said in ((), (("x-muster-caller-bin", b"\x0a\x06worker"),)):
                code, says, _ = code_of(lambda: beat(forged, T5, metadata=said))
                check(code == DENIED and "not for this listener's authority" in says, f"{name}, {uri}: {code} {says}")
        check(list(cluster.listed()) == [T6], f"nothing was heard of it: {cluster.listed()}")


def silent_246():
    """24.17: silent connections, and connections without TLS, disturb no worker (246)."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        before = cluster.dial_worker(node, "worker-" + T6)
        beat_until(before, T6)
        host, port = node.workers.rsplit(":", 1)
        said = (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"\0" * 100, b"\x16")
        crowd = []
        for number in range(10_000 if LONG else 400):
            crowd.append(socket.create_connection((host, int(port)), timeout=60))
            if said[number % len(said)]:
                crowd[-1].sendall(said[number % len(said)])
            if number % 1000 == 999:
                beat_until(before, T6, state=2)
        beat_until(before, T6, state=2)
        beat_until(cluster.dial_worker(node, "worker-" + T5), T5)
        for one in crowd:
            one.close()
        beat_until(before, T6, state=2)
        check(set(cluster.listed(ACTIVE)) == {T5, T6}, f"246: {cluster.listed()}")


def identity_28():
    """24.1: with bind_identity a certificate speaks for its own worker only (28)."""
    with Workers(1, {**SLOW, "transport": {**SLOW["transport"], "bind_identity": True}}) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        channel = cluster.dial_worker(node, "worker-" + T6)
        beat_until(channel, T6)
        code, says, _ = code_of(lambda: beat(channel, T5, timeout=60))
        check(code == DENIED and T5 in says, f"28: {code} {says}")
        request = message("muster.v1.RegisterRequest")(worker_id=T5, run_id=RUN)
        code = code_of(lambda: stub(channel, MEMBER + "Register")(request, timeout=60))[0]
        check(code == DENIED, f"28: {code}")
        check(list(cluster.listed()) == [T6], f"28: {cluster.listed()}")


def passed_on_23():
    """24.1: replicas that know each other by certificates pass on beats and calls, and whose they are (23, 28)."""
    with Workers(3, {**SLOW, "transport": {**SLOW["transport"], "bind_identity": True}}, options=PATIENT) as cluster:
        cluster.over_tls().start().formed()
        follower = cluster.others(cluster.leader())[0]
        channel = cluster.dial_worker(follower, "worker-" + T6)
        _, trailers = beat_until(channel, T6)
        check(trailers["x-worker-incarnation"] == "1", f"23: {trailers}")
        request = message("muster.v1.RegisterRequest")(worker_id=T6, run_id=RUN, instance="ab" * 16, fences_itself=True)
        check(stub(channel, MEMBER + "Register")(request, timeout=60).incarnation == 1, "23: a call, too")
        request.worker_id = T5
        code = code_of(lambda: stub(channel, MEMBER + "Register")(request, timeout=60))[0]
        check(code == DENIED, f"28: the leader knows whose certificate it was: {code}")
        request = message("rollout.transport.v1.ControlSubscribeRequest")(worker_id=T6, run_id=RUN)
        stream = stub(channel, SUBSCRIBE, "unary_stream")(request, timeout=60)
        wait_for("a stream, too", lambda: cluster.member("Drain", worker_id=T6, deadline_ms=5000).delivered)
        check(next(stream).drain.deadline.seconds == 5, "23")
        code = code_of(lambda: follower.call(MEMBER + "PassBeats"))[0]
        check(code == DENIED, f"only replicas pass beats on: {code}")


def authority_189_190():
    """24.13: the CA is made once, only its owner can read its key, and a later start finds it (189, 190, 196)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        paths = [os.path.join(node.tls_dir, name) for name in ("ca.pem", "ca.key.pem")]
        check(os.stat(paths[1]).st_mode & 0o777 == 0o600, "189: mode of the key")
        line = f"Generated dev CA at {paths[0]}"
        check(node.text().count(line) == 1, "189: said once")
        before = [open(path, "rb").read() for path in paths]
        node.stop()
        node.start()
        beat_until(cluster.dial_worker(node, "worker-" + T6), T6)
        check([open(path, "rb").read() for path in paths] == before, "190: byte for byte")
        check(node.text().count(line) == 1, "190: and nothing is said")
        host, port = node.workers.rsplit(":", 1)
        context = ssl.create_default_context(cafile=paths[0])
        cluster.certificate("worker-" + T6)
        leaf = os.path.join(cluster.dir, "leaf-worker-" + T6)
        context.load_cert_chain(leaf + ".pem", leaf + ".key")
        try:                                                                                        # 196
            with context.wrap_socket(socket.create_connection((host, int(port)), 60), server_hostname="localhost") as s:
                s.settimeout(60)
                check(s.recv(1) == b"", "196: no ALPN h2, no connection")
        except OSError:
            pass


run_cases([silent_246] if LONG else
          [foreign_worker_20, strangers_26_27, names_of_the_fleet, silent_246, identity_28, passed_on_23, authority_189_190])
