#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Access to a NATS server, and trust in the server: TLS, users, tokens, permissions.

  test_nats_access.py ACTOR MUSTERCTL NATS_SERVER

Debian's server is enough: the error that it is too old for claims shows that the connection was accepted. One of 2.11
opens, and then a claim is made over that connection.
"""
import base64
import binascii
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from actors import Actor, check, run, same  # noqa: E402
from servers import free_ports, start  # noqa: E402

ACTOR, MUSTERCTL, SERVER = sys.argv[1:4]
DIRECTORY = tempfile.TemporaryDirectory(prefix="muster-nats-access-")


def path(name):
    return os.path.join(DIRECTORY.name, name)


def make_certificates():
    for authority in ("ours", "another"):
        subprocess.run([MUSTERCTL, "cert", "ca", "--dir", path(authority)], check=True, stdout=subprocess.DEVNULL)
    for kind, out in (["server", "--names", "localhost"], "server"), (["admin"], "client"):
        subprocess.run([MUSTERCTL, "cert", "issue", *kind, "--dir", path("ours"), "--out", path(out)],
                       check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def server(*more):
    port, = free_ports(1)
    process = start(SERVER, f"s{port}", port, 0, [], DIRECTORY.name, more)
    try:
        yield port
    finally:
        process.kill()
        process.wait()


def opened(url):
    with Actor(ACTOR) as actor:
        got = actor("open", url)
        if got["code"] == "OK":
            actor.says("OK/created", "create", 1, "a", "v", 60000, "me")
            actor.says("OK/released", "release", 1)
        check("secret" not in got["text"], f"no secret in {got['text']}")
        return got


def let_in(url):
    got = opened(url)
    old = got["code"] == "UNSUPPORTED" and "older than 2.11" in got["text"]
    check(got["code"] == "OK" or old, f"{url}: {got}")


def kept_out(url, reason):
    got = opened(url)
    same(url, f"{got['code']}/{got['reason']}", f"UNAVAILABLE/{reason}")


def a_server_is_known_by_its_authority_and_name():
    with server("--tls", "--tlscert", path("server.pem"), "--tlskey", path("server.key.pem")) as port:
        let_in(f"nats://localhost:{port}/b?create=1&tls=1&ca={path('ours/ca.pem')}")
        let_in(f"nats://localhost:{port}/b?create=1&ca={path('ours/ca.pem')}")
        kept_out(f"nats://localhost:{port}/b?create=1&ca={path('another/ca.pem')}", "connection")
        kept_out(f"nats://localhost:{port}/b?create=1&tls=1", "connection")
        kept_out(f"nats://127.0.0.1:{port}/b?create=1&ca={path('ours/ca.pem')}", "connection")
        kept_out(f"nats://localhost:{port}/b?create=1", "connection")


def a_client_shows_its_certificate():
    with server("--tlsverify", "--tlscert", path("server.pem"), "--tlskey", path("server.key.pem"),
                "--tlscacert", path("ours/ca.pem")) as port:
        url = f"nats://localhost:{port}/b?create=1&ca={path('ours/ca.pem')}"
        let_in(f"{url}&cert={path('client.pem')}&key={path('client.key.pem')}")
        kept_out(url, "connection")


def a_plain_server_is_not_talked_to_when_tls_is_wanted():
    with server() as port:
        kept_out(f"nats://localhost:{port}/b?create=1&tls=1&ca={path('ours/ca.pem')}", "connection")


def users_and_passwords():
    with server("--user", "me", "--pass", "secret/@:") as port:
        let_in(f"nats://me:secret%2F%40%3A@127.0.0.1:{port}/b?create=1")
        kept_out(f"nats://me:secret2@127.0.0.1:{port}/b?create=1", "forbidden")
        kept_out(f"nats://127.0.0.1:{port}/b?create=1", "forbidden")


def tokens():
    with server("--auth", "secret-token") as port:
        let_in(f"nats://secret-token@127.0.0.1:{port}/b?create=1")
        kept_out(f"nats://secret-other@127.0.0.1:{port}/b?create=1", "forbidden")


def a_missing_permission_is_reported():
    with open(path("permissions.conf"), "w", encoding="ascii") as out:
        out.write('authorization { users = [{ user: me, password: secret,\n'
                  '  permissions: { publish: { deny: "$JS.API.>" } } }] }\n')
    with server("-c", path("permissions.conf")) as port:
        kept_out(f"nats://me:secret@127.0.0.1:{port}/b?create=1", "forbidden")


def nkey(prefix, raw, seed=False):
    """A key as NATS writes it: its kind, 32 bytes, CRC-16, in base32."""
    head = bytes([18 << 3 | prefix >> 5, (prefix & 31) << 3]) if seed else bytes([prefix])
    crc = binascii.crc_hqx(head + raw, 0)
    return base64.b32encode(head + raw + crc.to_bytes(2, "little")).decode().rstrip("=")


class Identity:
    def __init__(self, kind):
        self.kind, self.prefix = kind, {"operator": 14 << 3, "account": 0, "user": 20 << 3}[kind]
        self.key = ed25519.Ed25519PrivateKey.generate()
        raw = serialization.Encoding.Raw
        self.name = nkey(self.prefix, self.key.public_key().public_bytes(raw, serialization.PublicFormat.Raw))
        self.seed = nkey(self.prefix, self.key.private_bytes(
            raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()), seed=True)

    def vouch(self, other, **more):
        """The JWT that identifies `other`."""
        def part(value):
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        claims = {"iat": int(time.time()), "iss": self.name, "sub": other.name, "name": other.kind,
                  "nats": {"type": other.kind, "version": 2, **more}}
        text = part(b'{"typ":"JWT","alg":"ed25519-nkey"}') + "." + part(json.dumps(claims).encode())
        return text + "." + part(self.key.sign(text.encode()))


LIMITS = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": True, "conn": -1,
          "leaf": -1}
DISK = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}


def credentials_of_a_file():
    operator, account, system = Identity("operator"), Identity("account"), Identity("account")
    with open(path("operator.conf"), "w", encoding="ascii") as out:
        out.write(f"operator: {operator.vouch(operator)}\nsystem_account: {system.name}\nresolver: MEMORY\n"
                  f"resolver_preload: {{\n  {account.name}: {operator.vouch(account, limits={**LIMITS, **DISK})}\n"
                  f"  {system.name}: {operator.vouch(system, limits=LIMITS)}\n}}\n")
    for name, voucher in (("good", account), ("other", Identity("account"))):
        user = Identity("user")
        with open(path(name + ".creds"), "w", encoding="ascii") as out:
            out.write(f"-----BEGIN NATS USER JWT-----\n{voucher.vouch(user, subs=-1, data=-1, payload=-1)}\n"
                      "------END NATS USER JWT------\n\n"
                      f"-----BEGIN USER NKEY SEED-----\n{user.seed}\n------END USER NKEY SEED------\n")
    with server("-c", path("operator.conf")) as port:
        let_in(f"nats://127.0.0.1:{port}/b?create=1&creds={path('good.creds')}")
        kept_out(f"nats://127.0.0.1:{port}/b?create=1&creds={path('other.creds')}", "forbidden")
        kept_out(f"nats://127.0.0.1:{port}/b?create=1", "forbidden")


make_certificates()
run([a_server_is_known_by_its_authority_and_name, a_client_shows_its_certificate,
     a_plain_server_is_not_talked_to_when_tls_is_wanted, users_and_passwords, tokens,
     a_missing_permission_is_reported, credentials_of_a_file])
