#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong options end a role before it makes a data directory or binds a port.

usage: test_wrong_options.py MUSTER MUSTERCTL    (prints TAP)

Every address given is taken already: a role that binds before it looks at its options ends with 4 instead of 2."""
import os
import socket
import subprocess
import sys
import tempfile

MUSTER, MUSTERCTL = (os.path.abspath(path) for path in sys.argv[1:3])
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
COORDINATOR = ("coordinator", "run", "--raft-bind", "TAKEN", "--listen", "TAKEN")
SHARD = ("shard", "run", "--listen", "TAKEN", "--provider-addr", "TAKEN")
OPERATOR = ("operator", "run", "--shard-addr", "TAKEN", "--cluster-id", "c")
PROVIDER = ("provider", "run", "--listen", "TAKEN")
WORKER = ("worker", "run", "--run-id", ULID, "--worker-id", ULID, "--coordinator-addr", "https://TAKEN")
TLS = ("--tls-cert-file", "none.pem", "--tls-key-file", "none.key.pem")
CA = ("--tls-ca-file", "none.ca.pem")
GOOD_TLS = ("--tls-cert-file", "CERTS/replica-1.pem", "--tls-key-file", "CERTS/replica-1.key.pem", "--tls-ca-file", "CERTS/ca.pem")
ETCD = (*GOOD_TLS, "--etcd-listen", "TAKEN", "--etcd-ca-file")
DASHBOARD = (*GOOD_TLS, "--dashboard-cert-file")
TRANSPORT = ("--transport-ca-file", "CERTS/ca.pem", "--transport-cert-file", "CERTS/replica-1.pem", "--transport-key-file")
WORKERS = ("--run-id", ULID, "--transport-listen-addr", "127.0.0.1:0")
EVENTS = ("--events-sink", "file", "--events-file")
CASES = (
    (COORDINATOR, ("--id", ""), "id '': a name needs 1 to 63 visible ASCII characters"),
    (COORDINATOR, ("--id", "a b"), "id 'a b': a name needs"),
    (COORDINATOR, ("--id", "x" * 64), "a name needs 1 to 63"),
    (COORDINATOR, ("--heartbeat", "500ms", "--election", "100ms"), "election (100ms) must be longer than heartbeat (500ms)"),
    (COORDINATOR, ("--heartbeat", "250ms"), "election (250ms) must be longer than heartbeat (250ms)"),
    (COORDINATOR, ("--bootstrap-state", "none.json"), "bootstrap-state none.json: not found"),
    (COORDINATOR, ("--bootstrap-state", "bad"), "bootstrap state bad: line 1"),
    (COORDINATOR, ("--bootstrap-state", ""), "bootstrap-state must not be empty"),
    (COORDINATOR, ("--bootstrap-expect", "0"), "bootstrap-expect"),
    (COORDINATOR, ("--bootstrap-expect", "8"), "bootstrap-expect"),
    (COORDINATOR, ("--id", "x", "--join-addr", "TAKEN"), "ordinal"),
    (COORDINATOR, ("--dashboard-token-file", ""), "dashboard.token-file must not be empty"),
    (COORDINATOR, ("--dashboard-token-file", "bad"), "dashboard.token-file bad"),
    (COORDINATOR, ("--dashboard-token-file", "."), "dashboard.token-file ."),
    (COORDINATOR, ("--dashboard-token-file", "none/token"), "dashboard.token-file none/token: not found"),
    (COORDINATOR, ("--dashboard-notes-file", ""), "dashboard.notes-file must not be empty"),
    (COORDINATOR, ("--etcd-listen", "TAKEN", "--etcd-access", "app=/app/:read"), "etcd-access needs tls.cert-file"),
    (COORDINATOR, (*TLS, *CA), "not found"),
    (COORDINATOR, (*ETCD, ""), "etcd-ca-file must not be empty"),
    (COORDINATOR, (*ETCD, "none.pem"), "etcd-ca-file none.pem: not found"),
    (COORDINATOR, (*ETCD, "."), "etcd-ca-file .: it is a directory"),
    (COORDINATOR, (*ETCD, "bad"), "etcd-ca-file: bad"),
    (COORDINATOR, (*DASHBOARD, "none.pem", "--dashboard-key-file", "CERTS/replica-1.key.pem"), "dashboard.cert-file none.pem: not found"),
    (COORDINATOR, (*DASHBOARD, "CERTS/replica-1.pem", "--dashboard-key-file", "none.pem"), "dashboard.key-file none.pem: not found"),
    (COORDINATOR, (*DASHBOARD, "CERTS/replica-1.pem", "--dashboard-key-file", "CERTS/ca.key.pem"), "dashboard.cert-file: "),
    (COORDINATOR, (*WORKERS, *TRANSPORT, "none.pem"), "transport.key_file none.pem: not found"),
    (COORDINATOR, (*WORKERS, *TRANSPORT, "CERTS/ca.key.pem"), "transport.cert_file: "),
    (COORDINATOR, (*WORKERS, "--events-worker-sink", "file", "--events-worker-file", "none/x"), "events.worker_file none/x: its directory: not found"),
    (COORDINATOR, ("--log-file", "none/x"), "log.file none/x: its directory: not found"),
    (COORDINATOR, (*EVENTS, "bad/x"), "events.file bad/x: its directory: not found"),
    (COORDINATOR, (*EVENTS, "HERE/replica/FORMAT"), "the file has other content than lines of JSON"),
    (COORDINATOR, (*WORKERS, "--events-worker-sink", "file", "--events-worker-file", "HERE/replica/LOCK"), "events.worker_file HERE/replica/LOCK: "),
    (COORDINATOR, ("--snapshot-export-dir", "replica"), "snapshot-export-dir replica: it belongs to a replica"),
    (COORDINATOR, ("--snapshot-export-dir", "data"), "snapshot-export-dir data: it belongs to a replica"),
    (SHARD, ("--audit-log", "HERE/replica/epoch"), "audit-log HERE/replica/epoch: the file has other content"),
    (SHARD, ("--audit-log", "none/x"), "audit-log none/x: its directory: not found"),
    (SHARD, ("--audit-log", "NOWHERE/x"), "audit-log NOWHERE/x: its directory: not found"),
    (SHARD, EVENTS + ("none/x",), "events.file none/x: its directory: not found"),
    (SHARD, ("--id", ""), "id: empty"),
    (SHARD, ("--shard-id", ""), "id: empty"),
    (SHARD, ("--shard-ib", "x"), "--shard-ib: unknown option"),
    (SHARD, ("--data-dri", "x"), "--data-dri: unknown option (did you mean --data-dir?)"),
    (COORDINATOR, ("--node-id", "a b"), "id 'a b': a name needs"),
    (SHARD, ("--domains", "x"), "domains: x: expected KEY=VALUE"),
    (SHARD, ("--domains", "a="), "domains: a="),
    (SHARD, (*TLS, *CA), "not found"),
    (OPERATOR, ("--demand", "none.toml"), "none.toml: not found"),
    (OPERATOR, ("--demand", "bad"), "bad: line 1"),
    (OPERATOR, ("--demand", "empty", "--bootstrap-template", "none"), "bootstrap-template none: not found"),
    (OPERATOR, ("--kubeconfig", "none"), "none: not found"),
    (OPERATOR, ("--demand", "empty", *TLS, *CA), "not found"),
    (PROVIDER, ("--name", ""), "name: empty"),
    (PROVIDER, ("--catalogue", "none.toml"), "catalogue none.toml: not found"),
    (PROVIDER, ("--catalogue", "bad"), "catalogue bad: line 1"),
    (PROVIDER, (*TLS, *CA), "not found"),
    (WORKER, ("--process-kind", "plugin"), "there is no --plugin"),
    (WORKER, ("--plugin", "none.toml"), "plugin none.toml: not found"),
    (WORKER, TLS, "not found"),
    (WORKER, (*TRANSPORT, "none.pem"), "transport.key_file none.pem: not found"),
    (WORKER, (*TRANSPORT, "CERTS/ca.key.pem"), "transport.cert_file: "),
    (WORKER, (*EVENTS, "none/x"), "events.file none/x: its directory: not found"),
    (PROVIDER, (*EVENTS, "none/x"), "events.file none/x: its directory: not found"),
    (OPERATOR, ("--demand", "empty", *EVENTS, "none/x"), "events.file none/x: its directory: not found"),
    (OPERATOR, ("--demand", "empty", "--log-file", "none/x"), "log.file none/x: its directory: not found"),
)


def run(base, options, words, taken, certs):
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("bad", "nonsense [\n"), ("empty", "requests = []\n")):
            with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                file.write(text)
        os.mkdir(os.path.join(directory, "replica"))
        for name, text in (("FORMAT", "muster-data 1\n"), ("LOCK", ""), ("epoch", "41\n")):
            with open(os.path.join(directory, "replica", name), "w", encoding="ascii") as file:
                file.write(text)
        command = [word.replace("TAKEN", taken).replace("CERTS", certs).replace("NOWHERE", certs + "/none").replace("HERE", directory) for word in (MUSTER, *base, "--data-dir", "data", "--http-listen", taken, *options)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        try:
            done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired:
            return "it runs"
        left = sorted(set(os.listdir(directory)) - {"bad", "empty", "replica"})
        words = words.replace("NOWHERE", certs + "/none").replace("HERE", directory)
        if done.returncode != 2 or words not in done.stderr:
            return f"exit code {done.returncode}: {done.stderr.strip()}"
        return f"it left {left}" if left else ""


def main():
    with socket.create_server(("127.0.0.1", 0)) as listener, tempfile.TemporaryDirectory() as certs:
        for words in (("ca",), ("issue", "replica", "--id", "1")):
            subprocess.run([MUSTERCTL, "cert", *words, "--dir", certs], check=True, stdout=subprocess.DEVNULL)
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        print(f"TAP version 13\n1..{len(CASES)}")
        bad = 0
        for number, (base, options, words) in enumerate(CASES, 1):
            wrong = run(base, options, words, taken, certs)
            bad += bool(wrong)
            print(("not ok" if wrong else "ok") + f" {number} - {base[0]} {' '.join(options)[:60]}")
            if wrong:
                print("# " + wrong.replace("\n", "\n# "))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
