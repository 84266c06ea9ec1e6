#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three hosts with TLS, as docs/install.md says: deploy/tls/bootstrap, the shipped coordinator.toml with the names in,
three coordinators on three addresses of loopback and their default ports.

usage: test_tls_bootstrap.py SOURCE MUSTER MUSTERCTL     (prints TAP)"""
import json
import os
import re
import subprocess
import sys
import tempfile

from tap import judge, ok, run

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration/log"))
from cluster import PATIENCE, wait_for  # noqa: E402

SOURCE, MUSTER, MUSTERCTL = (os.path.abspath(path) for path in sys.argv[1:4])
# Hosts of this process' own, so the default ports are free on them.
HOSTS = [f"127.{228 + n}.{os.getpid() >> 8 & 255}.{os.getpid() & 255}" for n in range(3)]
CLEAN = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER")}
BOOTSTRAP = [os.path.join(SOURCE, "deploy/tls/bootstrap")]


def bootstrap(*words):
    return run([*BOOTSTRAP, *words], env={**CLEAN, "MUSTERCTL": MUSTERCTL})


def configuration(number, tls):
    """deploy/config/coordinator.toml for this host, as in the page: '#' removed, names filled in."""
    with open(os.path.join(SOURCE, "deploy/config/coordinator.toml"), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"^#(?=[a-z\[])", "", text, flags=re.M)
    text = text.replace("node-0", f"node-{number}").replace("/etc/muster/tls", tls)
    text = re.sub(r'^raft-advertise = "coord-0', f'raft-advertise = "coord-{number}', text, flags=re.M)
    for n, host in enumerate(HOSTS):
        text = text.replace(f"coord-{n}.example", host)
    # Here all three are one machine: each listens on its own address, and keeps its files in the test's directory.
    text = text.replace('":7790"', f'"{HOSTS[number]}:7790"').replace('":7791"', f'"{HOSTS[number]}:7791"')
    text = text.replace("127.0.0.1:8790", f"{HOSTS[number]}:8790")
    return text.replace("/var/lib/muster/coordinator/export", os.path.join(tls, "export"))


def ask(home, *words, identity="admin"):
    people = os.path.join(home, "ca/people")
    shown = [] if identity is None else ["--tls-cert", f"{people}/{identity}.pem", "--tls-key",
                                         f"{people}/{identity}.key.pem",
                                         "--tls-ca", f"{people}/ca.pem"]
    return subprocess.run([MUSTERCTL, *words, "--coordinator", ",".join(host + ":7790" for host in HOSTS), *shown],
                          capture_output=True, text=True, env=CLEAN, timeout=PATIENCE)


def voters(home):
    done = ask(home, "replica", "list", "-o", "json")
    try:
        return [one["name"] for one in json.loads(done.stdout)["replicas"]
                if one.get("voter")] if done.returncode == 0 else []
    except (ValueError, KeyError) as error:
        raise RuntimeError(f"{error!r} in {done.stdout}") from error


def three_hosts():
    with tempfile.TemporaryDirectory(prefix="muster-three-") as home:
        done = bootstrap("--shard", f"shard-0={HOSTS[0]}", "--provider", f"east={HOSTS[0]}", "--cluster", "a",
                         home + "/ca", *HOSTS)
        ok(done.returncode == 0, "bootstrap makes the certificates", done.stdout)
        given = sorted(os.listdir(f"{home}/ca/hosts/{HOSTS[1]}"))
        ok(given == ["ca.pem", "replica-node-1.key.pem", "replica-node-1.pem"], "a host gets its own and no other",
           given)
        ok(sorted(name for name in os.listdir(f"{home}/ca/hosts/{HOSTS[0]}") if name.endswith(".key.pem")) ==
           ["provider-east.key.pem", "replica-node-0.key.pem", "shard-shard-0.key.pem"],
           "the shard's and the provider's are there")
        open_keys = [path for folder, _,
                     names in os.walk(home) for path in (os.path.join(folder, name) for name in names)
                     if path.endswith(".key.pem") and os.stat(path).st_mode & 0o077]
        ok(not open_keys, "no key can be read by others", open_keys)
        running = []
        try:
            for number, host in enumerate(HOSTS):
                file = f"{home}/coordinator-{number}.toml"
                with open(file, "w", encoding="utf-8") as out:
                    out.write(configuration(number, f"{home}/ca/hosts/{host}"))
                with open(f"{home}/log-{number}", "wb") as log:
                    running.append(subprocess.Popen(
                        ["setpriv", "--pdeathsig", "KILL", MUSTER, "coordinator", "run", "--config", file], stdout=log,
                        stderr=log, env={**CLEAN, "MUSTER_DATA_DIR": f"{home}/data-{number}"}))
            def formed():
                dead = [n for n, process in enumerate(running) if process.poll() is not None]
                if dead:
                    raise RuntimeError(open(f"{home}/log-{dead[0]}", encoding="utf-8").read()[-3000:])
                found = voters(home)
                return found if len(found) == 3 else None
            ok(sorted(wait_for("three voters", formed)) == ["node-0", "node-1", "node-2"],
               "three coordinators with them are one cluster")
            wait_for("a read", lambda: ask(home, "list-shards", identity="readonly").returncode == 0)
            ok(True, "the readonly identity reads")
            done = ask(home, "assign-domain", "--key", "zone", "--value", "z", "--shard", "s", identity="readonly")
            ok(done.returncode != 0, "and changes nothing", done.stdout)
            done = ask(home, "list-shards", identity=None)
            ok(done.returncode != 0, "without a certificate nobody is answered", done.stdout)
        finally:
            for process in running:
                process.kill()
                process.wait()
        before = {name: open(f"{home}/ca/{name}", "rb").read() for name in os.listdir(home + "/ca")
                  if name.endswith(".pem")}
        done = bootstrap("--shard", f"shard-0={HOSTS[0]}", "--provider", f"east={HOSTS[0]}", "--cluster", "a",
                         home + "/ca", *HOSTS)
        after = {name: open(f"{home}/ca/{name}", "rb").read() for name in os.listdir(home + "/ca")
                 if name.endswith(".pem")}
        ok(done.returncode == 0 and before == after and "created" not in done.stdout,
           "run again, it keeps what is good", done.stdout)


def kubernetes():
    with tempfile.TemporaryDirectory(prefix="muster-three-") as home:
        done = bootstrap("--kubernetes", "muster/fleet", "--shards", "2", "--cluster", "a", home)
        ok(done.returncode == 0 and done.stdout.count("kubectl -n fleet create secret generic muster-") == 4,
           "secrets for the chart", done.stdout)
        given = {kind: sorted(n for n in os.listdir(f"{home}/secrets/{kind}") if n.endswith(".key.pem"))
                 for kind in os.listdir(home + "/secrets")}
        ok(given == {"coordinator": [f"muster-coordinator-{n}.key.pem" for n in range(3)],
                     "shard": ["muster-shard-0.key.pem", "muster-shard-1.key.pem"],
                     "provider": ["muster-provider.key.pem"],
                     "operator": ["cluster-a.key.pem"]}, "each kind of pod sees its own keys only", given)
        shown = run([MUSTERCTL, "cert", "show", f"{home}/secrets/coordinator/muster-coordinator-2.pem"]).stdout
        ok("DNS:muster-coordinator-2.muster-coordinator.fleet.svc" in shown and "DNS:muster.fleet.svc" in shown
           and "URI:muster://replica/muster-coordinator-2" in shown, "for the names that pods are reached by", shown)


def wrong_words():
    with tempfile.TemporaryDirectory(prefix="muster-three-") as home:
        for words in ([], ["--what", home, "h"], [home], ["--kubernetes", "a/b", home, "host"]):
            done = bootstrap(*words)
            ok(done.returncode == 2 and "bootstrap [--shard" in done.stdout,
               f"refused with the usage: {len(words)} words", done.stdout)


judge(three_hosts, kubernetes, wrong_words)
