#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""promtool's word on the rules: they parse, and each alert fires and stays quiet as rules_test.yml says.

usage: long_rules.py SOURCE     (prints TAP)

promtool is taken out of Debian's package prometheus, which is not installed: it would start a server."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

from tap import judge, ok, run

SOURCE = os.path.abspath(sys.argv[1])
RULES = os.path.join(SOURCE, "deploy/prometheus")
CACHE = os.path.join(SOURCE, "build/packaging/promtool")


def promtool():
    found = shutil.which("promtool") or (CACHE if os.path.exists(CACHE) else None)
    if found:
        return found
    with tempfile.TemporaryDirectory(prefix="muster-promtool-") as home:
        fetched = subprocess.run(["apt-get", "-q", "download", "prometheus"], cwd=home, capture_output=True, text=True)
        package = glob.glob(home + "/*.deb")
        if fetched.returncode or not package:
            print(f"1..0 # SKIP no promtool, and apt-get download prometheus: {fetched.stderr.strip()[-200:]}")
            sys.exit(0)
        subprocess.run(["dpkg-deb", "-x", package[0], home + "/x"], check=True)
        os.makedirs(os.path.dirname(CACHE), exist_ok=True)
        shutil.copy(home + "/x/usr/bin/promtool", CACHE + ".new")
        os.rename(CACHE + ".new", CACHE)
    return CACHE


TOOL = promtool()


def rules():
    done = run([TOOL, "check", "rules", "rules.yml"], cwd=RULES)
    ok(done.returncode == 0, "promtool check rules", done.stdout)
    done = run([TOOL, "test", "rules", "rules_test.yml"], cwd=RULES, timeout=1200)
    ok(done.returncode == 0, "promtool test rules", done.stdout)


def can_fail():
    with tempfile.TemporaryDirectory(prefix="muster-rules-") as home:
        shutil.copytree(RULES, home, dirs_exist_ok=True)
        with open(home + "/rules.yml", encoding="utf-8") as file:
            text = file.read()
        with open(home + "/rules.yml", "w", encoding="utf-8") as file:
            file.write(text.replace("muster_log_disk_full == 1", "muster_log_disk_full == 2"))
        done = run([TOOL, "test", "rules", "rules_test.yml"], cwd=home, timeout=1200)
        ok(done.returncode != 0 and "MusterDiskFull" in done.stdout, "a rule that never fires is found", done.stdout)


judge(rules, can_fail)
