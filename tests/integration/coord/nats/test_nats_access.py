#!/usr/bin/python3
"""Who may connect to a NATS server, and which server we trust: TLS, users, tokens, permissions.

  test_nats_access.py ACTOR MUSTERCTL NATS_SERVER

Debian's server is enough: that we call it too old for claims shows that we were let in. One of 2.11
opens, and then a claim is made over that connection.
"""
import contextlib
import os
import subprocess
import sys
import tempfile

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


def what_a_user_may_not_do_is_said():
    with open(path("permissions.conf"), "w", encoding="ascii") as out:
        out.write('authorization { users = [{ user: me, password: secret,\n'
                  '  permissions: { publish: { deny: "$JS.API.>" } } }] }\n')
    with server("-c", path("permissions.conf")) as port:
        kept_out(f"nats://me:secret@127.0.0.1:{port}/b?create=1", "forbidden")


make_certificates()
run([a_server_is_known_by_its_authority_and_name, a_client_shows_its_certificate,
     a_plain_server_is_not_talked_to_when_tls_is_wanted, users_and_passwords, tokens,
     what_a_user_may_not_do_is_said])
