#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files and places of `make install`.

usage: test_installed.py BUILD     (prints TAP)"""
import os
import re
import sys
import tempfile

from tap import judge, ok, run

BUILD = os.path.abspath(sys.argv[1])
# design.md § 1: under these names the two programs answer to others' command lines.
NAMES = {"bigfleet": "muster", "rollout": "muster", "rollout-coordinator": "muster", "bigfleetctl": "musterctl",
         "ripple-cli": "musterctl"}


def installed():
    with tempfile.TemporaryDirectory(prefix="muster-installed-") as home:
        done = run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", home])
        ok(done.returncode == 0, "meson install", done.stdout)
        files = {}
        for folder, _, names in os.walk(home):
            for name in names:
                files[os.path.relpath(os.path.join(folder, name), home)] = os.path.join(folder, name)
        programs = next(os.path.dirname(path) for path in files.values() if path.endswith("/bin/muster"))
        for name, program in NAMES.items():
            path = os.path.join(programs, name)
            ok(os.path.islink(path) and os.readlink(path) == program, f"{name} is {program}", sorted(files))
            done = run([path, "--help"])
            ok(done.returncode == 0 and done.stdout, f"{name} --help", done.stdout)
        done = run([os.path.join(programs, "muster"), "--version"])
        ok(done.returncode == 0 and done.stdout.startswith("muster "), "muster --version", done.stdout)
        done = run([os.path.join(programs, "musterctl"), "--help"])
        ok(done.returncode == 0 and "Usage: musterctl" in done.stdout, "musterctl --help", done.stdout)
        bigfleet = [os.path.join(programs, "bigfleet")]
        for words, lines in ((["coordinator", "-id=node-7", "-bootstrap", "--listen", "127.0.0.1:1"],
                              ['id = "node-7"', "bootstrap = true", 'listen = "127.0.0.1:1"']),
                             (["coordinator"], ['id = "node-1"', "bootstrap = false"]),
                             (["coordinator", "-bootstrap=false"], ["bootstrap = false"]),
                             (["shard", "-id", "s1", "-provider-addr=h:1"], ['id = "s1"', 'provider-addr = "h:1"'])):
            done = run([*bigfleet, *words, "--print-config"], env={"PATH": os.environ["PATH"]})
            ok(done.returncode == 0 and all(re.search("^" + re.escape(line), done.stdout, re.M) for line in lines),
               f"bigfleet {' '.join(words)}", done.stdout)
        done = run([*bigfleet, "coordinator", *["-id=x"] * 600])
        ok(done.returncode == 2, "bigfleet with more words than there is room for", done.stdout)
        for place in ("lib/systemd/system/muster-coordinator.service", "lib/systemd/system/muster-worker@.service",
                      "lib/sysusers.d/muster.conf", "lib/tmpfiles.d/muster.conf",
                      "share/muster/config/coordinator.toml",
                      "share/muster/tls/bootstrap", "share/muster/prometheus/rules.yml",
                      "share/muster/grafana/muster.json", "share/doc/muster/LICENSE", "share/doc/muster/NOTICE"):
            ok(any(name.endswith(place) for name in files), place, sorted(files))
        unit = next(path for path in files.values() if path.endswith("muster-coordinator.service"))
        with open(unit, encoding="utf-8") as file:
            ok(f"ExecStart={programs[len(home):]}/muster coordinator run" in file.read(),
               "the unit starts what was installed")
        bootstrap = next(path for path in files.values() if path.endswith("tls/bootstrap"))
        ok(os.access(bootstrap, os.X_OK), "the TLS bootstrap can be run")


judge(installed)
