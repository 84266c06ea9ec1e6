# SPDX-License-Identifier: Apache-2.0
"""A coordinator with canned answers that records its requests: on grpcio, from the contracts.

    with FakeCoordinator(authority) as coordinator:
        coordinator.grant({3: 1, 7: 1})               # partition: token
        coordinator.checkpoint()                      # asks for a round, and waits for its acknowledgement

`authority` is a directory with ca.pem and ca.key.pem, as a coordinator and workers share it. One thread per call; what is
received is appended to lists and never removed.
"""
import datetime
import ipaddress
import os
import threading
from concurrent import futures

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runs import FILES, message, wait_for

INIT, READY, RUNNING, DRAINING = 1, 2, 3, 4
FROM, TO = datetime.datetime(1975, 1, 1), datetime.datetime(4096, 1, 1)


def pem(key):
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def make_authority(directory):
    """As rollout makes it; the code that reads it is another's."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rollout-dev-ca")])
    usage = x509.KeyUsage(digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
                          key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False,
                          decipher_only=False)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(FROM).not_valid_after(TO)
                   .add_extension(x509.SubjectAlternativeName([x509.DNSName("rollout-dev-ca")]), False)
                   .add_extension(x509.BasicConstraints(True, None), True).add_extension(usage, True)
                   .sign(key, hashes.SHA256()))
    for path, content in (("ca.key.pem", pem(key)), ("ca.pem", certificate.public_bytes(serialization.Encoding.PEM))):
        with open(os.open(os.path.join(directory, path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)


def server_pair(directory):
    with open(os.path.join(directory, "ca.pem"), "rb") as file:
        root = file.read()
    with open(os.path.join(directory, "ca.key.pem"), "rb") as file:
        authority = serialization.load_pem_private_key(file.read(), None)
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (x509.CertificateBuilder().subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]))
                   .issuer_name(x509.load_pem_x509_certificate(root).subject).public_key(key.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(FROM).not_valid_after(TO)
                   .add_extension(names, False)
                   .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
                   .sign(authority, hashes.SHA256()))
    return grpc.ssl_server_credentials([(pem(key), certificate.public_bytes(serialization.Encoding.PEM))], root, True)


class FakeCoordinator:
    def __init__(self, authority, port=0):
        self.lock = threading.Condition()
        self.beats, self.registrations, self.leaves, self.revoked, self.checkpoints = [], [], [], [], []
        self.epoch, self.assignment_epoch, self.incarnation = 1, 0, 0
        self.granted, self.revoking, self.round, self.version = {}, {}, 0, 0
        self.instance, self.control, self.refuse_beats, self.reset = None, None, None, False
        self.acknowledged = threading.Event()  # while it is not set, AckCheckpoint is not answered
        self.acknowledged.set()
        self.server = grpc.server(futures.ThreadPoolExecutor(32))
        for name in ("rollout.transport.v1.Heartbeat", "muster.v1.Membership"):
            self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, self.handlers(name)),))
        self.port = self.server.add_secure_port(f"127.0.0.1:{port}", server_pair(authority))
        self.address = f"https://127.0.0.1:{self.port}"
        self.server.start()

    def handlers(self, service):
        handlers = {}
        for file in FILES:
            for one in file.service:
                if f"{file.package}.{one.name}" != service:
                    continue
                for method in one.method:
                    function = getattr(self, "on_" + method.name, None)
                    if not function:
                        continue
                    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else \
                        grpc.unary_unary_rpc_method_handler
                    handlers[method.name] = make(function, message(method.input_type).FromString,
                                                 lambda answer: answer.SerializeToString())
        return handlers

    # -- calls of a worker --

    def on_Beat(self, request, context):
        metadata = dict(context.invocation_metadata())
        identity = context.auth_context().get("x509_common_name", [b""])[0].decode()
        with self.lock:
            self.beats.append((request, metadata, identity))
            if self.refuse_beats:
                context.abort(self.refuse_beats, "by order of the test")
            trailers = [("x-coord-epoch", str(self.epoch)), ("x-assignment-epoch", str(self.assignment_epoch))]
            if self.incarnation:
                trailers.append(("x-worker-incarnation", str(self.incarnation)))
            if self.reset:
                trailers.append(("x-directive", "reset"))
                self.reset = False
            context.set_trailing_metadata(trailers)
            answer = message("rollout.transport.v1.BeatResponse")()
            if self.control:
                answer.pending_control.CopyFrom(message("rollout.transport.v1.ControlPush")(**self.control))
                self.control = None
            return answer

    def on_Register(self, request, context):
        with self.lock:
            self.registrations.append(request)
            if request.instance != self.instance:
                self.instance, self.incarnation = request.instance, self.incarnation + 1
            return message("muster.v1.RegisterResponse")(
                incarnation=self.incarnation, assignment_epoch=self.assignment_epoch, coord_epoch=self.epoch,
                lease_ms=request.lease_ms)

    def on_Leave(self, request, context):
        with self.lock:
            self.leaves.append(request)
        return message("muster.v1.LeaveResponse")()

    def on_AckRevoke(self, request, context):
        with self.lock:
            self.revoked.extend(request.revoked)
            for one in request.revoked:
                self.revoking.pop(one.partition, None)
            self.changed()
        return message("muster.v1.AckRevokeResponse")()

    def on_AckCheckpoint(self, request, context):
        with self.lock:
            self.checkpoints.append(request)
            if request.round == self.round:
                self.round = 0
        self.acknowledged.wait(30)
        return message("muster.v1.AckCheckpointResponse")()

    def on_WatchAssignment(self, request, context):
        context.add_callback(self.wake)
        seen = -1
        while context.is_active():
            with self.lock:
                while self.version == seen and context.is_active():
                    self.lock.wait(1)
                seen = self.version
                answer = message("muster.v1.AssignmentResponse")(
                    assignment_epoch=self.assignment_epoch, coord_epoch=self.epoch, incarnation=self.incarnation,
                    checkpoint_round=self.round,
                    granted=[{"partition": p, "grant_epoch": token} for p, token in sorted(self.granted.items())],
                    revoking=[{"partition": p, "grant_epoch": token} for p, token in sorted(self.revoking.items())])
            yield answer

    # -- calls of a test --

    def wake(self):
        with self.lock:
            self.lock.notify_all()

    def changed(self):
        self.version += 1
        self.lock.notify_all()

    def grant(self, partitions, revoking=None):
        with self.lock:
            self.granted, self.revoking = dict(partitions), dict(revoking or {})
            self.assignment_epoch += 1
            self.changed()

    def checkpoint(self):
        """One round; what the worker acknowledged of it, reference by partition."""
        with self.lock:
            self.round = number = 1 + max([self.round] + [one.round for one in self.checkpoints])
            self.changed()
        answer = wait_for("an acknowledgement of the round",
                          lambda: next((one for one in list(self.checkpoints) if one.round == number), None))
        return {one.partition: one.checkpoint for one in answer.checkpoints}, answer.error

    def states(self):
        return [beat.state for beat, _, _ in list(self.beats)]

    def wait_state(self, state, after=0):
        return wait_for(f"a beat of state {state}", lambda: state in self.states()[after:])

    def wait_beats(self, more=3):
        goal = len(self.beats) + more
        wait_for("more beats", lambda: len(self.beats) >= goal)

    def stop(self):
        if self.server:
            self.server.stop(None).wait()
        self.server = None

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()
