#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The systemd units and the configuration they read.

usage: test_units.py SOURCE BUILD MUSTER MUSTERCTL     (prints TAP)

Shows: systemd takes each unit without a word, and finds little that it could do; the files in deploy/config are good for
the role whose unit reads them, with the variables that the unit sets."""
import glob
import os
import re
import shlex
import shutil
import sys
import tempfile

from tap import judge, ok, run, skip

SOURCE, BUILD, MUSTER, MUSTERCTL = (os.path.abspath(path) for path in sys.argv[1:5])
ROLES = ("coordinator", "operator", "provider", "shard", "worker")
EXPOSED_MOST = 2.0  # of ten; systemd calls 2 to 4 "OK" and a unit without any setting 9.6
ANALYZE = shutil.which("systemd-analyze")


def unit_of(role):
    return os.path.join(BUILD, "deploy", f"muster-{role}.service" if role ==
                        "coordinator" else f"muster-{role}@.service")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def values(unit, key):
    return re.findall(rf"^{key}=(.*)$", read(unit), re.M)


def complete():
    made = sorted(os.path.basename(path) for path in glob.glob(os.path.join(BUILD, "deploy", "*.service")))
    ok(made == sorted(os.path.basename(unit_of(role)) for role in ROLES), "a unit for each role", made)
    for role in ROLES:
        text = read(unit_of(role))
        ok("@" not in re.sub(r"@system-service|@privileged|@resources|muster-\w+@\S*", "", text),
           f"{role}: nothing is left to fill in", text)
        start = values(unit_of(role), "ExecStart")
        ok(len(start) == 1 and shlex.split(start[0])[1:] == [role, "run", "--config", f"/etc/muster/{role}.toml"],
           f"{role}: starts its role with its file", start)


def verified():
    if ANALYZE is None:
        return skip("units verified", "no systemd-analyze")
    with tempfile.TemporaryDirectory(prefix="muster-units-") as folder:
        for role in ROLES:
            path = os.path.join(folder, os.path.basename(unit_of(role)))
            with open(path, "w", encoding="utf-8") as file:  # the program that was built, not one that is installed
                file.write(re.sub(r"^ExecStart=\S+", "ExecStart=" + MUSTER, read(unit_of(role)), flags=re.M))
            done = run([ANALYZE, "verify", "--man=no", "--recursive-errors=no", path])
            ok(done.returncode == 0 and not done.stdout.strip(), f"{role}: systemd-analyze verify", done.stdout)
            done = run([ANALYZE, "security", "--offline=yes", path])
            found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
            level = float(found.group(1)) if found else 10.0
            ok(level <= EXPOSED_MOST, f"{role}: exposure {level} of 10", done.stdout[-2000:])


def configured():
    for role in ROLES:
        unit = unit_of(role)
        with tempfile.TemporaryDirectory(prefix="muster-units-") as state:
            set_by_unit = {}
            for line in values(unit, "Environment"):
                for word in shlex.split(line):
                    name, value = word.split("=", 1)
                    set_by_unit[name] = value.replace("%S", state).replace("%i", "name-0")
            environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
            environment.update(set_by_unit)
            file = os.path.join(SOURCE, "deploy/config", role + ".toml")
            if role != "operator":  # whose cluster only the unit says; a file is checked without the environment
                done = run([MUSTERCTL, "config", "check", "--role", role, file], env=environment)
                ok(done.returncode == 0, f"{role}.toml is good for its role", done.stdout)
            done = run([MUSTER, role, "run", "--config", file, "--print-config"], env=environment, cwd=state)
            ok(done.returncode == 0, f"{role} starts with it and with what the unit sets", done.stdout)
            for name, value in set_by_unit.items():
                ok(f"environment {name}" in done.stdout and value in done.stdout, f"{role}: {name} is an option of it",
                   done.stdout[:1500])


def account():
    # It hides /proc/stat, from which process_start_time_seconds is made.
    ok(not any(values(unit_of(role), "ProcSubset") for role in ROLES), "none is without /proc/stat")
    for role in ROLES:
        unit = unit_of(role)
        ok(values(unit, "User") == values(unit, "Group") == [f"muster-{role}"] and
           values(unit, "SupplementaryGroups") == ["muster"] and values(unit, "NoNewPrivileges") == ["yes"],
           f"{role} has an account of its own, and the group that reads /etc/muster")
        # systemd hands whole state directories to the unit's account: one that holds others' would take them away.
        own = values(unit, "WorkingDirectory")[0].replace("%S/", "")
        given = values(unit, "StateDirectory")[0].split()
        ok(own.split("/")[1].split("-")[0] == role and f"MUSTER_DATA_DIR=%S/{own}" in values(unit, "Environment")[0] and
           given == [own, *["muster/checkpoints"] * (role == "worker")] and values(unit, "StateDirectoryMode") == ["0700"],
           f"{role}: its directory is its own, and closed to others", given)
    if shutil.which("systemd-sysusers") is None:
        return skip("sysusers and tmpfiles", "no systemd-sysusers")
    with tempfile.TemporaryDirectory(prefix="muster-root-") as root:
        for folder, name in (("sysusers.d", "sysusers.conf"), ("tmpfiles.d", "tmpfiles.conf")):
            os.makedirs(os.path.join(root, "usr/lib", folder))
            shutil.copy(os.path.join(SOURCE, "deploy/systemd", name),
                        os.path.join(root, "usr/lib", folder, "muster.conf"))
        os.makedirs(os.path.join(root, "etc"))
        done = run(["systemd-sysusers", "--root=" + root])
        made = read(os.path.join(root, "etc/passwd")) if os.path.exists(os.path.join(root, "etc/passwd")) else ""
        numbers = {line.split(":")[0]: int(line.split(":")[3]) for line in made.splitlines()}
        wanted = {"muster", *(f"muster-{role}" for role in ROLES)}
        if not ok(done.returncode == 0 and wanted <= set(numbers), "systemd-sysusers makes the accounts", done.stdout + made):
            return None
        if os.getuid() != 0:
            return skip("tmpfiles", "ownership needs root")
        # An upgraded host: one account had everything, and that account's group every key.
        keys, data = os.path.join(root, "etc/muster/tls"), os.path.join(root, "var/lib/muster")
        os.makedirs(os.path.join(data, "shard-a"))
        os.makedirs(keys)
        for path in (data, os.path.join(data, "shard-a")):
            os.chown(path, numbers["muster"], numbers["muster"])
        readers = {"replica-node-0.key.pem": "muster-coordinator", "cluster-a.key.pem": "muster-operator",
                   "provider-east.key.pem": "muster-provider", "shard-a.key.pem": "muster-shard",
                   "worker.key.pem": "muster-worker", "worker-1.key.pem": "muster-worker",
                   "replica-node-0.pem": "muster", "ca.pem": "muster", "workers-ca.pem": "muster", "my.key.pem": "muster"}
        for name in readers:
            with open(os.path.join(keys, name), "w", encoding="ascii"):
                pass
        done = run(["systemd-tmpfiles", "--root=" + root, "--create"])
        ok(done.returncode == 0 and os.stat(keys).st_mode & 0o777 == 0o750, "systemd-tmpfiles closes /etc/muster/tls to others",
           done.stdout)
        for name, group in readers.items():
            found = os.stat(os.path.join(keys, name))
            ok((found.st_mode & 0o777, found.st_uid, found.st_gid) == (0o640, 0, numbers[group]), f"{name}: read by {group}",
               found)
        found = os.stat(data)
        ok((found.st_mode & 0o777, found.st_uid) == (0o755, 0), "every account finds its directory in /var/lib/muster", found)
        found = os.stat(os.path.join(data, "shard-a"))
        ok(found.st_uid == numbers["muster"], "what a unit kept is left to systemd, which hands it over at its start", found)
    return None


judge(complete, verified, configured, account)
