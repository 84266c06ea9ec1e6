# SPDX-License-Identifier: Apache-2.0
"""A real kube-apiserver over a real etcd on loopback, for tests: `with ApiServer(directory) as server:`.

Everything is made anew in `directory`: certificates, tokens, data. Two users besides the administrator:
`limited` has no rights until a test gives it some. server.kubeconfig(user) writes a file for one.
"""
import ctypes
import json
import os
import shutil
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request

from ports import free_ports

READY_SECONDS = 180  # on a busy machine of two cores
USERS = {"admin": "system:masters", "limited": "nobody"}


def missing():
    """Why it cannot be started here, or None."""
    for program in ("kube-apiserver", "etcd", "openssl"):
        if not shutil.which(program):
            hint = {"kube-apiserver": "scripts/peers/kube-apiserver builds one",
                    "etcd": "scripts/setup bench installs it"}.get(program, "scripts/setup test installs it")
            return f"no {program} on the PATH; {hint}"
    return None


def die_with_parent():
    """A test that is killed leaves no server behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class ApiServer:
    def __init__(self, directory, etcd=None):
        """`etcd`: URLs of what it keeps its objects in; None: an etcd of its own."""
        self.directory, self.etcd = directory, etcd
        self.processes = []
        self.tokens = {user: f"token-of-{user}" for user in USERS}

    def path(self, name):
        return os.path.join(self.directory, name)

    def __enter__(self):
        try:
            self._certificates()
            peer, client, self.port = free_ports(3)
            self.url = f"https://127.0.0.1:{self.port}"
            if not self.etcd:
                self._start("etcd", ["etcd", "--data-dir", self.path("etcd-data"), "--name", "one",
                                     "--listen-client-urls", f"http://127.0.0.1:{client}",
                                     "--advertise-client-urls", f"http://127.0.0.1:{client}",
                                     "--listen-peer-urls", f"http://127.0.0.1:{peer}",
                                     "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
                                     "--initial-cluster", f"one=http://127.0.0.1:{peer}",
                                     "--unsafe-no-fsync"])
            self._start("kube-apiserver", [
                "kube-apiserver", "--etcd-servers", ",".join(self.etcd or [f"http://127.0.0.1:{client}"]),
                "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1",
                "--secure-port", str(self.port),
                "--tls-cert-file", self.path("server.crt"), "--tls-private-key-file", self.path("server.key"),
                "--client-ca-file", self.path("ca.crt"), "--token-auth-file", self.path("tokens.csv"),
                "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
                "--service-account-issuer", "https://muster.test",
                "--service-account-key-file", self.path("account.key"),
                "--service-account-signing-key-file", self.path("account.key"),
                "--disable-admission-plugins", "ServiceAccount", "--profiling=false",
                "--endpoint-reconciler-type", "none",
                # So that strategy and preferredHolder are stored, as newer servers do.
                "--feature-gates", "CoordinatedLeaderElection=true",
                "--runtime-config", "coordination.k8s.io/v1alpha1=true"])
            self._await_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # Killed: asked politely it would wait for streams to end, and there is nothing to keep.
        for _, process in self.processes:
            process.kill()
        for _, process in self.processes:
            process.wait()
        self.processes = []

    def _start(self, name, command):
        with open(self.path(name + ".log"), "wb") as log:
            self.processes.append((name, subprocess.Popen(command, stdout=log, stderr=log,
                                                          stdin=subprocess.DEVNULL,
                                                          preexec_fn=die_with_parent)))

    def _certificates(self):
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], check=True, cwd=self.directory,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        for ca in ("ca", "other-ca"):
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", f"/CN=muster test {ca}", "-keyout", ca + ".key", "-out", ca + ".crt")
        with open(self.path("san"), "w", encoding="utf-8") as san:
            san.write("subjectAltName=IP:127.0.0.1,DNS:api.muster.test\n")
        for name, subject, extra in (("server", "/CN=kube-apiserver", ["-extfile", "san"]),
                                     ("client", "/O=system:masters/CN=by-certificate", [])):
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
                    "-keyout", name + ".key", "-out", name + ".csr")
            openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                    "-CAcreateserial", "-days", "2", "-out", name + ".crt", *extra)
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "account.key")
        with open(self.path("tokens.csv"), "w", encoding="utf-8") as tokens:
            for user, group in USERS.items():
                tokens.write(f'{self.tokens[user]},{user},{user},"{group}"\n')

    def ask(self, method, path, body=None, user="admin"):
        """(status, object); for setting a scene, not for judging."""
        request = urllib.request.Request(self.url + path, method=method,
                                         data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", "Bearer " + self.tokens[user])
        request.add_header("Content-Type", "application/json")
        context = ssl.create_default_context(cafile=self.path("ca.crt"))
        try:
            with urllib.request.urlopen(request, context=context, timeout=READY_SECONDS) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text[:1] == b"{" else text
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read()

    def _await_ready(self):
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            for name, process in self.processes:
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended: {self._tail(name)}")
            try:
                # The namespace is made by the server itself, after it says that it is ready.
                if self.ask("GET", "/readyz")[0] == 200 and self.ask("GET", "/api/v1/namespaces/default")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise RuntimeError(f"not ready after {READY_SECONDS} s: {self._tail('kube-apiserver')}")

    def _tail(self, name):
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-15:])

    def kubeconfig(self, user="admin", name=None, server=None, **cluster):
        """Writes one and returns its path. user None: by certificate."""
        body = {"certificate-authority": "ca.crt", "server": server or self.url}
        if server and server.startswith("http://"):
            del body["certificate-authority"]
        body.update(cluster)
        who = {"token": self.tokens[user]} if user else {"client-certificate": "client.crt", "client-key": "client.key"}
        config = {"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                  "clusters": [{"name": "c", "cluster": body}], "users": [{"name": "u", "user": who}]}
        path = self.path(name or f"kubeconfig-{user}")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        return path
