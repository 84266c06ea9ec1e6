#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver that keeps its objects in three coordinators (tier T4): create, list with paging, watch,
conflict, delete; replicas restarted under it, one after another; no event missed.

usage: kube_on_muster.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--objects=10000]    (prints TAP)
"""
import http.client
import json
import os
import ssl
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../lib")]
import etcds  # noqa: E402
from cluster import Failed  # noqa: E402
from etcds import Etcds, check, run_cases, wait_for  # noqa: E402
import kube_apiserver  # noqa: E402

OBJECTS = int(next((word[10:] for word in sys.argv if word.startswith("--objects=")), "10000"))
WORKERS, PAGE = 8, 500
MAPS = "/api/v1/namespaces/default/configmaps"
PATIENCE = int(os.environ.get("MUSTER_TEST_PATIENCE", "180"))


class Api:
    """One kept connection; a call is repeated while its status is temporary."""

    def __init__(self, server):
        self.server, self.connection = server, None

    def once(self, method, path, body):
        if self.connection is None:
            context = ssl.create_default_context(cafile=self.server.path("ca.crt"))
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=PATIENCE)
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body),
                                    {"Authorization": "Bearer " + self.server.tokens["admin"],
                                     "Content-Type": "application/json"})
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")
        except (OSError, http.client.HTTPException):
            self.connection = None
            return 0, {}

    def ask(self, method, path, body=None, repeats=()):
        """Status and object. `repeats`: statuses that a repeat of what was done already may answer."""
        tries = []

        def look():
            tries.append(self.once(method, path, body))
            return tries[-1][0] not in (0, 429, 500, 503, 504)
        try:
            wait_for(f"{method} {path}", look, PATIENCE)
        except Failed as failed:
            raise Failed(f"{failed}: {tries[-1]}\n{self.server._tail('kube-apiserver')}") from None
        status, answer = tries[-1]
        if len(tries) > 1 and status in repeats:
            status = 200
        return status, answer


def body_of(number, value="0"):
    return {"metadata": {"name": f"map-{number:05}", "labels": {"judged": "yes"}}, "data": {"value": value}}


class Watcher:
    """All events of our objects from a list on, resumed where it was whenever it breaks off."""

    def __init__(self, server, revision):
        self.server, self.revision = server, revision
        self.added, self.modified, self.deleted, self.wrong = {}, {}, {}, []
        self.stopping = False
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.stopping and not self.wrong:
            try:
                self.follow()
            except (OSError, http.client.HTTPException):
                pass

    def follow(self):
        context = ssl.create_default_context(cafile=self.server.path("ca.crt"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.server.port, context=context, timeout=20)
        connection.request("GET", f"{MAPS}?watch=1&labelSelector=judged%3Dyes&allowWatchBookmarks=true"
                                  f"&resourceVersion={self.revision}",
                           headers={"Authorization": "Bearer " + self.server.tokens["admin"]})
        answer = connection.getresponse()
        if answer.status in (429, 500, 503):
            return
        if answer.status != 200:
            self.wrong.append(f"the watch is answered {answer.status}: {answer.read()}")
            return
        for line in answer:
            if self.stopping:
                return
            self.take(json.loads(line))

    def take(self, event):
        kind, of = event["type"], event["object"]
        if kind == "ERROR":
            self.wrong.append(f"the watch got {of}")
            return
        revision = int(of["metadata"]["resourceVersion"])
        if kind != "BOOKMARK":
            if revision <= int(self.revision):
                self.wrong.append(f"{kind} of revision {revision} after {self.revision}")
            seen = {"ADDED": self.added, "MODIFIED": self.modified, "DELETED": self.deleted}[kind]
            name = of["metadata"]["name"]
            seen[name] = seen.get(name, 0) + 1
        self.revision = str(max(revision, int(self.revision)))


class Shared:
    cluster = server = watcher = None


def in_parallel(numbers, act, meanwhile=None):
    """act(api, number) for each, by WORKERS threads; their first mistake is the caller's. `meanwhile` runs on this
    thread: a process that another one starts would end with it."""
    rest, lock, mistakes = list(numbers), threading.Lock(), []

    def work():
        api = Api(Shared.server)
        while not mistakes:
            with lock:
                if not rest:
                    return
                number = rest.pop()
            try:
                act(api, number)
            except Exception as error:
                mistakes.append(error)
    threads = [threading.Thread(target=work, daemon=True) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    if meanwhile:
        meanwhile()
    for thread in threads:
        thread.join()
    if mistakes:
        raise mistakes[0]


def restart_each():
    """Every replica once: killed and started again, and back among the others before the next."""
    for node in Shared.cluster.nodes:
        node.hang_up()
        node.process.kill()
        node.process.wait()
        node.start()
        Shared.cluster.formed()
        wait_for(f"{node.name} has caught up", lambda node=node: node.try_state() is not None)


def create():
    """X13 so many objects are created while each replica is killed and started again"""
    api = Api(Shared.server)
    _, found = api.ask("GET", MAPS + "?limit=1")
    Shared.watcher = Watcher(Shared.server, found["metadata"]["resourceVersion"])
    def one(worker, number):
        status, answer = worker.ask("POST", MAPS, body_of(number), repeats=(409,))
        check(status in (200, 201), f"create {number}: {status} {answer}")
    in_parallel(range(OBJECTS), one, restart_each)


def paging():
    """X14 a list in pages is of one moment, though objects change meanwhile"""
    api, writer, names, pages = Api(Shared.server), Api(Shared.server), [], 0
    path = MAPS + f"?limit={PAGE}&labelSelector=judged%3Dyes"
    first = None
    while path:
        status, page = api.ask("GET", path)
        check(status == 200, f"page {pages}: {status} {page}")
        first = first or page["metadata"]["resourceVersion"]
        check(page["metadata"]["resourceVersion"] == first, "every page is of one revision")
        check(all(each["data"]["value"] == "0" for each in page["items"]), "of before the changes")
        names += [each["metadata"]["name"] for each in page["items"]]
        more = page["metadata"].get("continue")
        path = more and f"{MAPS}?limit={PAGE}&labelSelector=judged%3Dyes&continue={more}"
        status, answer = writer.ask("PUT", f"{MAPS}/map-{OBJECTS - 1 - pages:05}", body_of(OBJECTS - 1 - pages, "1"))
        check(status == 200, f"a change in between: {status} {answer}")
        pages += 1
    check(names == [f"map-{number:05}" for number in range(OBJECTS)], f"{len(names)} names in {pages} pages")


def conflict():
    """A change from an old version is refused, and changes nothing"""
    api = Api(Shared.server)
    _, old = api.ask("GET", MAPS + "/map-00000")
    newer = {**old, "data": {"value": "2"}}
    status, _ = api.ask("PUT", MAPS + "/map-00000", newer)
    check(status == 200, f"the first: {status}")
    status, answer = api.ask("PUT", MAPS + "/map-00000", {**old, "data": {"value": "3"}})
    check(status == 409 and answer["reason"] == "Conflict", f"the second: {status} {answer}")
    status, answer = api.ask("POST", MAPS, body_of(0))
    check(status == 409 and answer["reason"] == "AlreadyExists", f"a second of one name: {status} {answer}")
    check(api.ask("GET", MAPS + "/map-00000")[1]["data"]["value"] == "2", "it is as the first left it")


def delete():
    """Every object is deleted; nothing is left"""
    def one(worker, number):
        status, answer = worker.ask("DELETE", f"{MAPS}/map-{number:05}", repeats=(404,))
        check(status == 200, f"delete {number}: {status} {answer}")
    in_parallel(range(OBJECTS), one)
    status, left = Api(Shared.server).ask("GET", MAPS + "?labelSelector=judged%3Dyes")
    check(status == 200 and not left["items"], f"{len(left['items'])} are left")


def no_event_missed():
    """X14 the watch, open all the while, got each creation and each deletion once, and of no error"""
    watcher, names = Shared.watcher, {f"map-{number:05}" for number in range(OBJECTS)}
    wait_for("the last deletion", lambda: watcher.wrong or len(watcher.deleted) == OBJECTS, PATIENCE)
    watcher.stopping = True
    check(not watcher.wrong, f"{watcher.wrong[:3]}")
    check(set(watcher.added) == names and set(watcher.deleted) == names, f"{len(watcher.added)}, {len(watcher.deleted)}")
    twice = [name for seen in (watcher.added, watcher.deleted) for name, count in seen.items() if count != 1]
    check(not twice, f"sent twice: {twice[:5]}")
    check(watcher.modified.get("map-00000"), "changes too")


if __name__ == "__main__":
    why = kube_apiserver.missing()
    if why:
        print(f"1..0 # SKIP {why}")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="muster-kube-") as directory, Etcds(3) as Shared.cluster:
        Shared.cluster.ready()
        urls = ["http://" + node.etcd for node in Shared.cluster.nodes]
        with kube_apiserver.ApiServer(directory, urls) as Shared.server:
            run_cases([create, paging, conflict, delete, no_event_missed])
