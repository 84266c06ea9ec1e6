#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard over plain HTTP: every route, the permission to act, and the answers to hostile clients."""
import concurrent.futures
import http.client
import json
import os
import re
import socket
import ssl
import subprocess
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fleet"))
from coordinators import COORDINATOR, FLEET, MUSTERCTL, PATIENCE, PATIENT, Cluster, check, run_cases, wait_for  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../member"))
from workers import IDS, READY, RUN, Workers, beat_until  # noqa: E402

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../store"))
from stores import STORE, Client, grpc, new_id  # noqa: E402

VIEWS = ("/", "/fleet", "/shards", "/needs", "/topology", "/workers", "/workers/", "/store", "/raft")
ASSETS = {"dash.css": "text/css", "icon.svg": "image/svg+xml", **{name + ".js": "text/javascript" for name in (
    "app", "kit", "chart", "raft", "topology", "fleet", "shards", "needs", "store", "workers")}}
TOPICS = ("raft", "topology", "fleet", "shards", "needs", "store", "workers", "notes")
TOKEN = "a-token-of-this-test-0123456789"


class One(Cluster):
    """One coordinator with a token of ours, and its HTTP."""

    def __init__(self, *options):
        super().__init__(1, [*PATIENT, *options], join=False, dashboard=True)
        path = os.path.join(self.dir, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write(TOKEN + "\n")
        self.nodes[0].options = ["--dashboard-token-file", path]
        self.context = None  # of a caller under TLS

    def __enter__(self):
        self.node = self.nodes[0]
        self.leader()
        return self

    def ask(self, path, method="GET", body=None, **headers):
        """Status, headers, body."""
        line = (http.client.HTTPSConnection(*split(self.node.http), timeout=PATIENCE, context=self.context) if self.context
                else http.client.HTTPConnection(*split(self.node.http), timeout=PATIENCE))
        try:
            line.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            line.close()

    def json(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        check(status == 200, f"{path}: {status} {body[:200]}")
        return json.loads(body)

    def act(self, body, **headers):
        shown = {"Content_Type": "application/json", "Authorization": "Bearer " + TOKEN, **headers}
        text = body if isinstance(body, str) else json.dumps(body)
        status, _, answer = self.ask("/api/actions", "POST", text, **{k: v for k, v in shown.items() if v is not None})
        return status, json.loads(answer) if answer.startswith(b"{") else {}

    def outcome(self, number):
        def look():
            return next((a for a in self.json("/api/actions")["actions"] if a["number"] == number and a["done"]), None)
        return wait_for(f"the end of action {number}", look)

    def keys(self, prefix, **headers):
        def look():
            status, _, body = self.ask("/api/keys?prefix=" + prefix, **headers)
            check(status in (200, 202), f"{status} {body}")
            return json.loads(body) if status == 200 else None
        return wait_for("keys", look)


def split(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def raw(node, data, patience=PATIENCE):
    """The answer to these bytes; the server may close before all of them are sent."""
    answer = b""
    with socket.create_connection(split(node.http), patience) as line:
        line.settimeout(patience)
        try:
            line.sendall(data)
            line.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        try:
            while piece := line.recv(65536):
                answer += piece
        except ConnectionError:
            pass
    return answer


def pages():
    """Every view and asset is there, with a policy that forbids inline script and style, and keeps to it."""
    with One().start() as one:
        for path in VIEWS:
            status, headers, body = one.ask(path)
            text = body.decode()
            check(status == 200 and headers["Content-Type"].startswith("text/html"), f"{path}: {status} {headers}")
            check("default-src 'self'" in headers["Content-Security-Policy"], headers["Content-Security-Policy"])
            check("unsafe" not in headers["Content-Security-Policy"], headers["Content-Security-Policy"])
            check(headers["X-Content-Type-Options"] == "nosniff", f"{headers}")
            check(not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text), f"{path} has inline parts")
            check(not re.search(r"(?:src|href)=\"(?:https?:)?//", text), f"{path} points elsewhere")
        for name, kind in ASSETS.items():
            status, headers, body = one.ask("/assets/" + name)
            check(status == 200 and headers["Content-Type"].startswith(kind), f"{name}: {status} {headers}")
            check(b"https://" not in body.replace(b"http://www.w3.org/2000/svg", b""), f"{name} points elsewhere")
            check(one.ask("/assets/" + name, If_None_Match=headers["ETag"])[0] == 304, f"{name} is sent again")
        check(one.ask("/metrics")[0] == 200 and one.ask("/healthz")[0] == 200, "the probes stay")


def data():
    """Every topic is JSON, with what the coordinator knows; a topic that changed comes as an event."""
    with One().start() as one:
        one.node.call(FLEET + "AddShard", shard_id="far", address="127.0.0.1:1")
        one.node.call(COORDINATOR + "AssignDomain", topology_key="zone", topology_value="z<1>", shard_id="far")
        for topic in TOPICS:
            wait_for(topic, lambda topic=topic: "errors" in one.json("/api/" + topic)
                     or "shards" in one.json("/api/" + topic))
        self = wait_for("the leader", lambda: (lambda shown: shown if shown["role"] == "leader" and shown["commit"] > 0 else None)(
            one.json("/api/raft")["self"]))
        wait_for("the replica", lambda: [r["name"] for r in one.json("/api/raft").get("replicas", {}).get(
            "replicas", ())] == ["node-0"])
        disk = wait_for("its disk, as it says itself", lambda: next((d for d in one.json("/api/raft")["disks"] if "first" in d), None))
        check(disk["replica_id"] == self["replica_id"] and disk["log_bytes"] > 0 and disk["disk_free"] > 0, f"{disk}")
        wait_for("the domain", lambda: one.json("/api/topology").get("domains", {}).get("assignments") == [
            {"topology_key": "zone", "topology_value": "z<1>", "shard_id": "far"}])
        # an unreachable shard is shown as such, and delays nothing
        wait_for("why", lambda: any(s["shard_id"] == "far" and s["why"] for s in one.json("/api/needs").get("shards", ())))
        check("not served here" in json.dumps(one.json("/api/workers")) or one.json("/api/workers").get("status"),
              f"{one.json('/api/workers')}")
        history = wait_for("samples", lambda: (lambda h: h if len(h["rows"]) > 1 else None)(one.json("/api/history")))
        check(all(len(row) == len(history["names"]) + 1 for row in history["rows"]), f"{history}")
        with socket.create_connection(split(one.node.http), PATIENCE) as line:
            line.sendall(b"GET /api/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
            line.settimeout(PATIENCE)
            seen = b""
            while b"event: raft" not in seen or b"event: sample" not in seen:
                piece = line.recv(65536)
                check(piece, f"the stream ended: {seen[-500:]}")
                seen += piece
        check(b"text/event-stream" in seen, f"{seen[:300]}")


def actions():
    """Without the token, from another site, of the wrong type or unconfirmed: refused; else done, and reported."""
    with One().start() as one:
        one.node.call(FLEET + "AddShard", shard_id="s", address="127.0.0.1:1")
        good = {"action": "assign-domain", "topology_key": "zone", "topology_value": "a", "shard_id": "s", "confirm": True}
        host = one.node.http
        for why, status, body, headers in (
                ("no token", 401, good, {"Authorization": None}),
                ("a wrong one", 401, good, {"Authorization": "Bearer " + TOKEN[:-1] + "x"}),
                ("a shorter one", 401, good, {"Authorization": "Bearer " + TOKEN[:-1]}),
                ("another scheme", 401, good, {"Authorization": "Basic " + TOKEN}),
                ("another site", 403, good, {"Origin": "http://evil.example"}),
                ("a site that looks like ours", 403, good, {"Origin": "http://" + host + ".evil.example"}),
                ("a form", 415, good, {"Content_Type": "application/x-www-form-urlencoded"}),
                ("no JSON", 400, "{", {}), ("no object", 400, "[]", {}), ("twice", 400, '{"action":"a","action":"b"}', {}),
                ("not confirmed", 400, {**good, "confirm": False}, {}),
                ("no such action", 400, {**good, "action": "format-disk"}, {}),
                ("a field less", 400, {k: v for k, v in good.items() if k != "shard_id"}, {}),
                ("an empty field", 400, {**good, "shard_id": ""}, {}),
                ("too long a field", 400, {**good, "shard_id": "x" * 5000}, {}),
                ("too long a body", 413, {**good, "shard_id": "x" * 100000}, {})):
            got, answer = one.act(body, **headers)
            check(got == status, f"{why}: {got} {answer}")
        check(not one.node.call(COORDINATOR + "ListDomainAssignments").assignments, "nothing was done")
        status, answer = one.act(good, Origin="http://" + host)
        check(status == 202, f"{status} {answer}")
        check(one.outcome(answer["number"])["ok"], f"{one.json('/api/actions')}")
        rows = one.node.call(COORDINATOR + "ListDomainAssignments").assignments
        check([row.topology_value for row in rows] == ["a"], f"{rows}")
        number = one.act({"action": "retire-replica", "replica": "nobody", "confirm": True})[1]["number"]
        said = one.outcome(number)
        check(not said["ok"] and said["said"], f"{said}")
        check(one.json("/api/session")["admin"] is False, "without the token")
        check(one.json("/api/session", Authorization="Bearer " + TOKEN)["admin"] is True, "with it")


def claims():
    """A claim is shown with its holder and released by force; values of keys need the token."""
    with One().start() as one:
        one.node.call(STORE + "Create", key=b"job", value=b"v", ttl_ms=600000, owner="ann", lease_id=bytes(range(16)))
        one.node.call(STORE + "Put", key=b"conf/a", value=b"secret")
        claim = wait_for("the claim", lambda: next(iter(one.json("/api/store").get("claims", {}).get("claims", ())), None))
        check((claim["key"], claim["owner"]) == ("job", "ann") and claim["token"] > 0, f"{claim}")
        check(0 < claim["remaining_ms"] <= 600000, f"{claim}")
        check("lease_id" not in claim, "who knows it could end it")
        open_keys = one.keys("conf/")
        check([k["key"] for k in open_keys["keys"]] == ["conf/a"] and "value" not in open_keys["keys"][0], f"{open_keys}")
        shown = one.keys("conf/", Authorization="Bearer " + TOKEN)
        check(shown["keys"][0]["value"] == "secret" and shown["keys"][0]["bytes"] == 6, f"{shown}")
        check({k["key"] for k in one.keys("")["keys"]} >= {"conf/a", "muster/job"}, "all of them")
        check(one.ask("/api/keys?prefix=%zz")[0] == 400, "a bad prefix")
        check(one.ask("/api/keys?prefix=" + "a" * 2000)[0] == 400, "too long a prefix")
        number = one.act({"action": "release-claim", "key": "job", "confirm": True})[1]["number"]
        check(one.outcome(number)["ok"], f"{one.json('/api/actions')}")
        check(not one.node.call(STORE + "Get", key=b"job").found, "it is gone")
        wait_for("it is not shown any more", lambda: not one.json("/api/store")["claims"]["claims"])


def groups():
    """A group is shown with its slots and its waiters while a slot is held."""
    with One().start() as one:
        client = Client(one.node)
        held = [new_id(), new_id()]
        for number, lease in enumerate(held):
            check(client.acquire(b"jobs/a", f"w{number}", slots=2, ttl_ms=600000, lease_id=lease).code == 0, "a slot")
        check(client.lease(b"no/slot-x", ttl_ms=600000).code == 0, "a claim that looks like a slot")
        shown = lambda: one.json("/api/store").get("groups", ())  # noqa: E731
        wait_for("the group", lambda: shown() == [{"group": "jobs/a", "slots": 2, "waiters": 0, "cooldown_ms": 0}])
        waiting = [Client(one.node).later("Acquire", group=b"jobs/a", slot_count=2, prefer_slot=-1, owner=f"x{number}",
                                          ttl_ms=600000, lease_id=new_id(), wait_ms=600000) for number in range(3)]
        wait_for("who waits", lambda: shown()[0]["waiters"] == 3)
        for call in waiting:
            call.cancel()
        for lease in held:
            check(client.release(lease).code == 0, "given back")
        wait_for("nobody holds", lambda: shown() == [])


def over_tls():
    """Under TLS the dashboard queries the coordinators with its own certificate, as a known reader, and may act."""
    cluster = One()
    cluster.over_tls()
    with cluster.start() as one:
        def page(path):
            status, body = one.node.page(path)
            return json.loads(body) if status == 200 else {}
        wait_for("the replica", lambda: page("/api/raft").get("replicas", {}).get("replicas"))
        wait_for("the tables", lambda: "assignments" in page("/api/topology").get("domains", {}))
        wait_for("the store", lambda: "keys" in page("/api/store").get("status", {}))
        check(page("/api/raft")["errors"] == {} == page("/api/topology")["errors"], f"{page('/api/topology')}")
        check(page("/api/session")["actions"] and not page("/api/session")["warning"], "the token may travel")


def forge_admin(tls, name, common_name, serial):
    """An administrator's certificate of the authority in `tls`, under a name that musterctl would not give."""
    base = os.path.join(tls, name)
    with open(base + ".ext", "w", encoding="ascii") as file:
        file.write("extendedKeyUsage=clientAuth\nsubjectAltName=URI:bigfleet://admin\n")
    for words in (["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-utf8", "-subj",
                   "/CN=" + common_name, "-keyout", base + ".key.pem", "-out", base + ".csr"],
                  ["x509", "-req", "-in", base + ".csr", "-CA", tls + "/ca.pem", "-CAkey", tls + "/ca.key.pem", "-set_serial",
                   serial, "-days", "1", "-extfile", base + ".ext", "-out", base + ".pem"]):
        subprocess.run(["openssl", *words], check=True, capture_output=True)


def by_certificate():
    """Under TLS an administrator's certificate may act without the token; no other may, and no other site with it."""
    cluster = One()
    cluster.over_tls()
    tls, strange = os.path.join(cluster.dir, "tls"), os.path.join(cluster.dir, "strange")
    for words in (("issue", "readonly", "--dir", tls), ("ca", "--dir", strange), ("issue", "admin", "--dir", strange)):
        subprocess.run([MUSTERCTL, "cert", *words], check=True, capture_output=True)
    forge_admin(tls, "ada", 'Ada "<b>' + "\u20ac" * 50, serial="77")

    def caller(directory=None, name=None):
        context = ssl.create_default_context(cafile=tls + "/ca.pem")
        if name:
            context.load_cert_chain(f"{directory}/{name}.pem", f"{directory}/{name}.key.pem")
        return context
    move = {"action": "assign-domain", "topology_key": "zone", "topology_value": "a", "shard_id": "s", "confirm": True}
    with cluster.start() as one:
        one.node.call(FLEET + "AddShard", shard_id="s", address="127.0.0.1:1")
        one.node.call(STORE + "Put", key=b"conf/a", value=b"secret")
        for who, context in (("nobody", caller()), ("a reader", caller(tls, "readonly")),
                             ("an administrator of another authority", caller(strange, "admin"))):
            one.context = context
            check(one.json("/api/session")["admin"] is False, who)
            status, answer = one.act(move, Authorization=None)
            check(status == 401 and "certificate" in answer["error"], f"{who}: {status} {answer}")
            check("value" not in one.keys("conf/")["keys"][0], f"{who} sees values")
        check(not one.node.call(COORDINATOR + "ListDomainAssignments").assignments, "nothing was done")
        one.context = caller(tls, "admin")
        session = one.json("/api/session")
        check(session["admin"] is True and session["admin_by"] == "certificate", f"{session}")
        check(one.keys("conf/")["keys"][0]["value"] == "secret", "values are for administrators")
        # The browser shows it to every reader: requests of another site are refused.
        for why, expected, headers in (("a form", 415, {"Content_Type": "text/plain"}), ("no type", 415, {"Content_Type": None}),
                                       ("another site", 403, {"Origin": "https://evil.example"})):
            status, answer = one.act(move, Authorization=None, **headers)
            check(status == expected, f"{why}: {status} {answer}")
        status, answer = one.act(move, Authorization=None)
        check(status == 202, f"{status} {answer}")
        said = one.outcome(answer["number"])
        check(said["ok"] and said["by"] == "certificate", f"{said}")
        check(re.fullmatch(r"admin \(serial [0-9A-F]+\)", said["certificate"]), f"whose? every administrator has the same URI: {said}")
        wait_for("the log names it", lambda: said["certificate"] in one.node.text())
        check([row.topology_value for row in one.node.call(COORDINATOR + "ListDomainAssignments").assignments] == ["a"], "done")
        one.context = caller(tls, "ada")  # a name that is long and looks like markup: cut between characters, and only text
        status, answer = one.act(move)
        said = one.outcome(answer["number"])
        check(said["by"] == "token" and said["certificate"] == 'Ada "<b>' + "\u20ac" * 40 + "... (serial 4D)", f"{said}")
        wait_for("the log has it on one line", lambda: re.search('by=token certificate="Ada .*serial 4D.* ok=', one.node.text()))
        one.context = caller()
        check(one.json("/api/session", Authorization="Bearer " + TOKEN)["admin_by"] == "token", "the token still does")
        status, answer = one.act(move)
        check(status == 202 and "certificate" not in one.outcome(answer["number"]), "who shows none is not named")


def as_reader():
    """Under TLS shards are dialled with the configured reader's certificate only."""
    cluster = One()
    cluster.over_tls()
    tls, seen = os.path.join(cluster.dir, "tls"), set()
    for words in (("readonly",), ("shard", "--id", "far", "--names", "127.0.0.1")):
        subprocess.run([MUSTERCTL, "cert", "issue", *words, "--dir", tls], check=True, capture_output=True)
    cluster.nodes[0].options += ["--dashboard-cert-file", tls + "/readonly.pem", "--dashboard-key-file", tls + "/readonly.key.pem"]

    class Shard(grpc.GenericRpcHandler):
        """A server without data that records its callers."""

        def service(self, details):
            def refuse(_, context):
                seen.update(context.auth_context().get("x509_subject_alternative_name", ()))
                context.abort(grpc.StatusCode.UNAVAILABLE, "remembered")
            return grpc.unary_unary_rpc_method_handler(refuse)

    def read(name):
        with open(f"{tls}/{name}.pem", "rb") as file:
            return file.read()
    with concurrent.futures.ThreadPoolExecutor(2) as pool, cluster.start() as one:
        server = grpc.server(pool, handlers=[Shard()])
        port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials(
            [(read("shard-far.key"), read("shard-far"))], read("ca"), require_client_auth=True))
        server.start()
        try:
            one.node.call(FLEET + "AddShard", shard_id="far", address=f"127.0.0.1:{port}")
            wait_for("it asks", lambda: seen)
            check(b"bigfleet://readonly" in seen and not any(b"admin" in name or b"replica" in name for name in seen), f"{seen}")
        finally:
            server.stop(None).wait()


def notes():
    """Lines of a file that readers are to know: the newest first, what is no note left out, every change seen."""
    one = One()
    path = os.path.join(one.dir, "notes.ndjson")
    one.nodes[0].options += ["--dashboard-notes-file", path]

    def write(*lines):
        with open(path + ".new", "wb") as file:
            file.write(b"".join(line + b"\n" for line in lines))
        os.rename(path + ".new", path)
    with one.start() as one:
        shown = lambda: [note["text"] for note in one.json("/api/notes").get("notes", ())]  # noqa: E731
        check(shown() == [], "no file, no notes")
        write(b'{"at_ms": 5, "from": "deploy", "text": "release <7>"}', b"no JSON", b'{"text": 3}', b'{"text": ""}', b"\xff\xfe",
              b'[1]', b'{"text": "last", "more": [1]}', b"")
        wait_for("two notes", lambda: shown() == ["last", "release <7>"])
        check(one.json("/api/notes")["notes"][1] == {"at_ms": 5, "from": "deploy", "text": "release <7>"}, "whole")
        write(b'{"text": "' + b"x" * 70000 + b'"}', *(b'{"text": "%d"}' % number for number in range(60)), b'{"text": "' + b"y" * 3000 + b'"}')
        wait_for("the last fifty", lambda: len(shown()) == 50 and shown()[1] == "59")
        check(shown()[0] == "y" * 500 and shown()[-1] == "11", f"{shown()}")
        os.unlink(path)
        wait_for("taken away", lambda: shown() == [])


def workers():
    """Where workers are served: each with its standing, every partition with its owner; the tools' list stays at /workers."""
    with Workers(1, dashboard=True).start() as cluster:
        node = cluster.nodes[0]
        cluster.leader()
        for number in range(3):
            cluster.member("Register", worker_id=IDS[number], run_id=RUN, instance="%032x" % (number + 1), fences_itself=True)
            beat_until(node.dialed(), IDS[number], state=READY, metadata=[("x-worker-instance", "%032x" % (number + 1))])

        def look():
            status, body = node.page("/api/workers")
            shown = json.loads(body) if status == 200 else {}
            owned = [p for p in shown.get("partitions", {}).get("partitions", ()) if p["owner"]]
            return shown if shown.get("status", {}).get("known") == 3 and owned else None
        shown = wait_for("three workers with partitions", look)
        wait_for("all of them", lambda: (found := look()) and [w["worker_id"] for w in found.get("workers", {}).get("workers", ())] == IDS[:3])
        check(shown["errors"] == {}, f"{shown['errors']}")
        check("<!doctype html>" in node.page("/workers/")[1], "the view")
        wait_for("the list for tools", lambda: "<!doctype" not in node.page("/workers")[1])


def token_of_its_own():
    """Without --dashboard-token-file the token is in a file that only the owner reads, and never in the output."""
    cluster = One()
    cluster.nodes[0].options = []
    with cluster.start() as one:
        path = os.path.join(one.node.dir, "dashboard-token")
        said = wait_for("the line about the token", lambda: re.search("admin token  (.*)", one.node.text()))
        check(said[1] == f"in {path}", said[0])
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
        check(len(token) >= 16 and token not in one.node.text(), "the output does not contain the token")
        check(os.stat(path).st_mode & 0o777 == 0o600, oct(os.stat(path).st_mode))
        check(one.json("/api/session", Authorization="Bearer " + token)["admin"] is True, "the token in the file is accepted")
        one.node.stop()
        one.node.start()
        one.leader()
        check(one.json("/api/session", Authorization="Bearer " + token)["admin"] is True, "it is the same after a restart")
        check(token not in one.node.text(), "nor does the output of the second start contain it")


def token_that_cannot_be_written():
    """A token file that cannot be made, as on a full disk: the replica starts, the log warns, and every action is refused."""
    cluster = One()
    path = "/proc/self/dashboard-token"  # nobody can make a file there, root neither
    cluster.nodes[0].options = ["--dashboard-token-file", path]
    with cluster.start() as one:
        one.leader()
        text = one.node.text()
        check("level=warn" in text and f"file={path}" in text and "dashboard actions are disabled" in text, text)
        session = one.json("/api/session")
        check(session["actions"] is False and "could not be written" in session["read_only"], str(session))
        check("dashboard    read-only" in text, text)


def open_to_the_network():
    """An open listener without TLS shows the warning and refuses every action, with or without the token."""
    everywhere = One("--insecure")
    # its own port, which no other process of this machine uses on this process's address
    everywhere.nodes[0].options += ["--http-listen", "[::]:0"]
    with everywhere.start() as one:
        address = re.search(r"http=\S*:(\d+)", one.node.text())
        one.node.http = "127.0.0.1:" + address[1]
        session = one.json("/api/session", Authorization="Bearer " + TOKEN)
        check(session["warning"] and not session["actions"] and not session["admin"], f"{session}")
        status, answer = one.act({"action": "retire-replica", "replica": "node-0", "confirm": True})
        check(status == 403 and "TLS" in answer["error"], f"{status} {answer}")


def switched_off():
    """Without the dashboard the plain status page is there, and none of the rest."""
    with One("--no-dashboard-enabled").start() as one:
        check(b"Look closer" in one.ask("/")[2], "the status page")
        for path in ("/raft", "/api/raft", "/api/actions", "/api/events"):
            check(one.ask(path)[0] == 404, path)


def hostile():
    """Traversal, wrong methods, huge headers, half requests: each gets a refusal, and everybody else their answer."""
    with One().start() as one:
        for path in ("/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/assets/../../etc/passwd", "/assets/%2e%2e%2fapp.js",
                     "/assets/..%5c..%5cetc", "/api/raft/../../x", "/raft%00.html", "/assets/", "/assets/app.js/x",
                     "/api/", "/api/nothing", "//raft", "/Raft"):
            status, _, body = one.ask(path)
            check(status in (400, 404) and b"root:" not in body, f"{path}: {status}")
        for method, path in (("POST", "/"), ("PUT", "/raft"), ("DELETE", "/api/actions"), ("POST", "/api/raft"),
                             ("PATCH", "/api/keys"), ("POST", "/api/events"), ("POST", "/api/session"), ("FETCH", "/fleet")):
            check(one.ask(path, method)[0] in (405, 501), f"{method} {path}: {one.ask(path, method)[0]}")
        check(one.ask("/raft", "HEAD")[0] == 200 and one.ask("/raft", "HEAD")[2] == b"", "HEAD")
        host = one.node.http.encode()
        for what, data, good in (
                ("a huge header", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 200000 + b"\r\n\r\n", (b" 431", b" 413", b" 414")),
                ("a huge line", b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (b" 414", b" 431")),
                ("no HTTP", b"\x16\x03\x01\x00\x05hello\r\n\r\n", (b" 400", b" 505")),
                ("a bad length", b"POST /api/actions HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: -1\r\n\r\n", (b" 400", b" 413")),
                ("two hosts' worth of lies", b"GET http://evil.example/raft HTTP/1.1\r\nHost: x\r\n\r\n", (b" 400", b" 404", b" 200"))):
            answer = raw(one.node, data)
            check(answer == b"" or any(code in answer[:20] for code in good), f"{what}: {answer[:80]}")
        # slow readers and writers block only their own connection
        slow = []
        try:
            for number in range(40):
                line = socket.create_connection(split(one.node.http), PATIENCE)
                line.sendall(b"GET /raft HTTP/1.1\r\nHost: x\r\nX-Slow: " if number % 2 else b"GET /api/events HTTP/1.1\r\nHost: x\r\n\r\n")
                slow.append(line)
            for _ in range(20):
                for line in slow[1::2]:
                    line.sendall(b"a")
                check(one.ask("/raft")[0] == 200, "others are served")
            check(one.json("/api/raft")["self"], "and their data")
        finally:
            for line in slow:
                line.close()
        one.node.stop()


run_cases([pages, data, actions, claims, groups, over_tls, by_certificate, as_reader, notes, workers, token_of_its_own,
           token_that_cannot_be_written, open_to_the_network, switched_off, hostile])
