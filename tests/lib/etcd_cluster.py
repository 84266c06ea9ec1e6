# SPDX-License-Identifier: Apache-2.0
"""Real etcd members on free loopback ports: one or three, with or without TLS, behind links that can be cut.

with Cluster(3) as cluster: cluster.url() is what coord_open takes; cluster.post() speaks the JSON gateway, as a person
with a command line would, without our client.
"""
import base64
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from link import Link
from ports import free_ports

PATIENCE = 90  # so that what is broken fails instead of hanging


def b64(text):
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def after(prefix):
    """The end of the range of all keys that begin with prefix."""
    raw = prefix.encode()
    return raw[:-1] + bytes([raw[-1] + 1])


class Cluster:
    def __init__(self, members=1, tls=False, args=(), base=None):
        self.count, self.tls, self.args = members, tls, list(args)
        base = base or ("/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.root = tempfile.mkdtemp(prefix="etcd-test-", dir=base)
        ports = free_ports(2 * members)
        self.ports, self.peers = ports[:members], ports[members:]
        self.processes = [None] * members
        self.links = []
        if tls:
            self._certificates()

    def __enter__(self):
        for index in range(self.count):
            self.start(index)
        self.wait_ready()
        return self

    def __exit__(self, *_):
        for link in self.links:
            link.close()
        for process in self.processes:
            if process and process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
        shutil.rmtree(self.root, ignore_errors=True)

    # -- members --

    def _certificates(self):
        def run(*words, **rest):
            subprocess.run(["openssl", *words], check=True, cwd=self.root, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, **rest)
        run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key",
            "-out", "ca.pem", "-days", "2", "-subj", "/CN=test ca")
        for name in ("server", "client"):
            run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", name + ".key",
                "-out", name + ".csr", "-subj", "/CN=" + name)
            with open(os.path.join(self.root, "ext"), "w", encoding="utf-8") as file:
                file.write("subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n")
            run("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out",
                name + ".pem", "-days", "2", "-extfile", "ext")

    def path(self, name):
        return os.path.join(self.root, name)

    def start(self, index):
        scheme = "https" if self.tls else "http"
        peer = [f"http://127.0.0.1:{port}" for port in self.peers]
        command = ["etcd", "--name", f"m{index}", "--data-dir", self.path(f"m{index}"), "--log-level", "error",
                   "--listen-client-urls", f"{scheme}://127.0.0.1:{self.ports[index]}",
                   "--advertise-client-urls", f"{scheme}://127.0.0.1:{self.ports[index]}",
                   "--listen-peer-urls", peer[index], "--initial-advertise-peer-urls", peer[index],
                   "--initial-cluster", ",".join(f"m{i}={url}" for i, url in enumerate(peer)),
                   "--initial-cluster-state", "new", *self.args]
        if self.tls:
            command += ["--cert-file", self.path("server.pem"), "--key-file", self.path("server.key"),
                        "--trusted-ca-file", self.path("ca.pem"), "--client-cert-auth"]
        log = open(self.path(f"m{index}.log"), "ab")
        self.processes[index] = subprocess.Popen(command, stdout=log, stderr=log,
                                                 env={**os.environ, "ETCD_UNSUPPORTED_ARCH": os.uname().machine})
        log.close()

    def wait_ready(self):
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.post("kv/range", key=b64("muster/nothing"))
                return
            except (OSError, urllib.error.URLError):
                for process in self.processes:
                    if process and process.poll() is not None:
                        raise RuntimeError("etcd did not start: " + self.logs())
                if time.monotonic() > deadline:
                    raise RuntimeError("etcd is not ready: " + self.logs())
                time.sleep(0.05)

    def logs(self):
        text = ""
        for index in range(self.count):
            with open(self.path(f"m{index}.log"), encoding="utf-8", errors="replace") as file:
                text += file.read()[-2000:]
        return text

    def kill(self, index):
        self.processes[index].kill()
        self.processes[index].wait()

    def pause(self, index):
        self.processes[index].send_signal(signal.SIGSTOP)

    def resume(self, index):
        self.processes[index].send_signal(signal.SIGCONT)

    def leader(self):
        """Index of the leader, asked of any member that answers."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for index in range(self.count):
                try:
                    status = self.post("maintenance/status", member=index)
                except (OSError, urllib.error.URLError):
                    continue
                if int(status.get("leader", 0)) and status["leader"] == status["header"]["member_id"]:
                    return index
            time.sleep(0.05)
        raise RuntimeError("no leader")

    # -- ways in --

    def link(self):
        """A proxy before each member; url() leads through them from now on."""
        self.links = [Link(port) for port in self.ports]
        return self.links

    def url(self, tail="", user="", members=None):
        ports = [link.port for link in self.links] or self.ports
        hosts = ",".join(f"127.0.0.1:{port}" for i, port in enumerate(ports) if members is None or i in members)
        if not self.tls:
            return f"etcd://{user}{hosts}{tail}"
        tail += ("&" if "?" in tail else "?") + \
            f"ca={self.path('ca.pem')}&cert={self.path('client.pem')}&key={self.path('client.key')}"
        return f"etcds://{user}{hosts}{tail}"

    def post(self, path, member=None, token=None, **body):
        context = None
        if self.tls:
            context = ssl.create_default_context(cafile=self.path("ca.pem"))
            context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        failure, patience = None, 5 if self.count > 1 else PATIENCE  # of several another one may answer
        for index in range(self.count) if member is None else [member]:
            url = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.ports[index]}/v3/{path}"
            headers = {"Authorization": token} if token else {}
            request = urllib.request.Request(url, json.dumps(body).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=patience, context=context) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as refused:
                if refused.code not in (503, 504):
                    raise RuntimeError(refused.read().decode()) from None
                failure = refused
            except OSError as gone:
                failure = gone
        raise failure

    # -- as a person with a command line --

    def keys(self, prefix="muster/"):
        answer = self.post("kv/range", key=b64(prefix), range_end=b64(after(prefix)))
        return {base64.b64decode(kv["key"]).decode(): kv for kv in answer.get("kvs", [])}

    def delete(self, key):
        return int(self.post("kv/deleterange", key=b64(key)).get("deleted", 0))

    def put(self, key, value):
        self.post("kv/put", key=b64(key), value=b64(value))

    def leases(self):
        return [lease["ID"] for lease in self.post("lease/leases").get("leases", [])]

    def compact(self):
        revision = self.post("kv/range", key=b64("x"))["header"]["revision"]
        self.post("kv/compaction", revision=revision, physical=True)

