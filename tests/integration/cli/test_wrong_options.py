#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong options end a role before it makes a data directory or binds a port.

usage: test_wrong_options.py MUSTER    (prints TAP)

Every address given is taken already: a role that binds before it looks at its options ends with 4 instead of 2."""
import os
import socket
import subprocess
import sys
import tempfile

MUSTER = os.path.abspath(sys.argv[1])
ULID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
COORDINATOR = ("coordinator", "run", "--raft-bind", "TAKEN", "--listen", "TAKEN")
SHARD = ("shard", "run", "--listen", "TAKEN", "--provider-addr", "TAKEN")
OPERATOR = ("operator", "run", "--shard-addr", "TAKEN", "--cluster-id", "c")
PROVIDER = ("provider", "run", "--listen", "TAKEN")
WORKER = ("worker", "run", "--run-id", ULID, "--worker-id", ULID, "--coordinator-addr", "https://TAKEN")
TLS = ("--tls-cert-file", "none.pem", "--tls-key-file", "none.key.pem")
CA = ("--tls-ca-file", "none.ca.pem")
CASES = (
    (COORDINATOR, ("--id", ""), "id '': a name needs 1 to 63 visible ASCII characters"),
    (COORDINATOR, ("--id", "a b"), "id 'a b': a name needs"),
    (COORDINATOR, ("--id", "x" * 64), "a name needs 1 to 63"),
    (COORDINATOR, ("--heartbeat", "500ms", "--election", "100ms"), "election (100ms) must be longer than heartbeat (500ms)"),
    (COORDINATOR, ("--heartbeat", "250ms"), "election (250ms) must be longer than heartbeat (250ms)"),
    (COORDINATOR, ("--bootstrap-state", "none.json"), "bootstrap state none.json: not found"),
    (COORDINATOR, ("--bootstrap-state", "bad"), "bootstrap state bad: line 1"),
    (COORDINATOR, ("--bootstrap-state", ""), "bootstrap-state must not be empty"),
    (COORDINATOR, ("--bootstrap-expect", "0"), "bootstrap-expect"),
    (COORDINATOR, ("--bootstrap-expect", "8"), "bootstrap-expect"),
    (COORDINATOR, ("--id", "x", "--join-addr", "TAKEN"), "ordinal"),
    (COORDINATOR, ("--dashboard-token-file", ""), "dashboard.token-file must not be empty"),
    (COORDINATOR, ("--dashboard-token-file", "bad"), "dashboard.token-file bad"),
    (COORDINATOR, ("--dashboard-token-file", "."), "dashboard.token-file ."),
    (COORDINATOR, ("--dashboard-token-file", "none/token"), "dashboard.token-file none/token: not found"),
    (COORDINATOR, (*TLS, *CA), "not found"),
    (SHARD, ("--id", ""), "id: empty"),
    (SHARD, ("--domains", "x"), "domains: x: expected KEY=VALUE"),
    (SHARD, ("--domains", "a="), "domains: a="),
    (SHARD, (*TLS, *CA), "not found"),
    (OPERATOR, ("--demand", "none.toml"), "none.toml: not found"),
    (OPERATOR, ("--demand", "bad"), "bad: line 1"),
    (OPERATOR, ("--demand", "empty", "--bootstrap-template", "none"), "bootstrap-template: none: not found"),
    (OPERATOR, ("--kubeconfig", "none"), "none: not found"),
    (OPERATOR, ("--demand", "empty", *TLS, *CA), "not found"),
    (PROVIDER, ("--name", ""), "name: empty"),
    (PROVIDER, ("--catalogue", "none.toml"), "catalogue none.toml: not found"),
    (PROVIDER, ("--catalogue", "bad"), "catalogue bad: line 1"),
    (PROVIDER, (*TLS, *CA), "not found"),
    (WORKER, ("--process-kind", "plugin"), "there is no --plugin"),
    (WORKER, ("--plugin", "none.toml"), "none.toml: not found"),
    (WORKER, TLS, "not found"),
)


def run(base, options, words, taken):
    with tempfile.TemporaryDirectory() as directory:
        for name, text in (("bad", "nonsense [\n"), ("empty", "requests = []\n")):
            with open(os.path.join(directory, name), "w", encoding="ascii") as file:
                file.write(text)
        command = [word.replace("TAKEN", taken) for word in (MUSTER, *base, "--data-dir", "data", "--http-listen", taken, *options)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        try:
            done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=90)
        except subprocess.TimeoutExpired:
            return "it runs"
        left = sorted(set(os.listdir(directory)) - {"bad", "empty"})
        if done.returncode != 2 or words not in done.stderr:
            return f"exit code {done.returncode}: {done.stderr.strip()}"
        return f"it left {left}" if left else ""


def main():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        print(f"TAP version 13\n1..{len(CASES)}")
        bad = 0
        for number, (base, options, words) in enumerate(CASES, 1):
            wrong = run(base, options, words, taken)
            bad += bool(wrong)
            print(("not ok" if wrong else "ok") + f" {number} - {base[0]} {' '.join(options)[:60]}")
            if wrong:
                print("# " + wrong.replace("\n", "\n# "))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
