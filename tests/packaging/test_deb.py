#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make deb` and the package's own scripts, apart from packing; long_deb.py tests the whole package.

usage: test_deb.py SOURCE BUILD     (prints TAP)

Shows: scripts/deb leaves alone what lies where it puts the packages; a removal stops every unit that the package brings,
an upgrade none; systemd reads the units again when they came. The programs that they call are replaced by ones that record
their arguments."""
import glob
import os
import re
import sys
import tempfile

from tap import judge, ok, run, skip

SOURCE, BUILD = (os.path.abspath(path) for path in sys.argv[1:3])
ASKED = '#!/bin/sh\necho "${0##*/} $*" >>"$ASKED_FILE"\n'
PACKER = """#!/bin/sh
set -e
version=$(sed -n '1s/.*(\\(.*\\)).*/\\1/p' debian/changelog)
for name in muster libmuster1; do echo new >../${name}_${version}_amd64.deb; done
echo new >../muster_${version}_amd64.changes; echo new >../muster_${version}_amd64.buildinfo
"""


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def content(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def keeps_what_is_not_its_own():
    if run(["git", "-C", SOURCE, "rev-parse", "HEAD"]).returncode != 0:
        return skip("scripts/deb", "not a git tree")
    version = re.search(r"^ *version: '(.*)',$", content(os.path.join(SOURCE, "meson.build")), re.M).group(1)
    with tempfile.TemporaryDirectory(prefix="muster-deb-") as folder:
        programs, output = os.path.join(folder, "bin"), os.path.join(folder, "packages")
        os.makedirs(os.path.join(output, f"muster-{version}"))
        os.makedirs(programs)
        program(programs, "dpkg-buildpackage", PACKER)
        mine = ("other_1_amd64.deb", "other_1_amd64.changes", "other_1.buildinfo", "build.log", f"muster-{version}/notes")
        for name in mine:
            with open(os.path.join(output, name), "w", encoding="utf-8") as file:
                file.write("mine")
        done = run([os.path.join(SOURCE, "scripts/deb"), output], env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        packages = [os.path.join(output, f"{name}_{version}_amd64.deb") for name in ("libmuster1", "muster")]
        ok(done.returncode == 0 and done.stdout.split()[-2:] == packages, "it names the packages that it made, and no other",
           done.stdout)
        ok(all(content(path) == "new\n" for path in packages), "they are there")
        for name in mine:
            path = os.path.join(output, name)
            ok(os.path.exists(path) and content(path) == "mine", f"{name}, which it did not make, is as it was")
        left = set(os.listdir(output)) - {os.path.basename(path) for path in packages} - {name.split("/")[0] for name in mine}
        ok(left == {f"muster_{version}_amd64.changes", f"muster_{version}_amd64.buildinfo"}, "nothing else is left", left)
    return None


def asked_by(script, *words, systemd=True):
    """The calls of a script of the package to systemd, on a host that runs systemd or does not."""
    with tempfile.TemporaryDirectory(prefix="muster-deb-") as folder:
        running = os.path.join(folder, "run")
        if systemd:
            os.mkdir(running)
        for name in ("deb-systemd-invoke", "systemctl"):
            program(folder, name, ASKED)
        text = content(os.path.join(SOURCE, "deploy/debian", script))
        ok("#DEBHELPER#" in text.splitlines(), f"{script}: Debian's helpers have their place in it", text)
        program(folder, script, text.replace("/run/systemd/system", running))
        asked = os.path.join(folder, "asked")
        done = run([os.path.join(folder, script), *words],
                   env={"PATH": f"{folder}:{os.environ['PATH']}", "ASKED_FILE": asked})
        ok(done.returncode == 0 and not done.stdout, f"{script} {' '.join(words)}", done.stdout)
        return content(asked).split("\n")[:-1] if os.path.exists(asked) else []


def stopped_when_removed():
    units = {os.path.basename(path).replace("@.", "@*.") for path in glob.glob(os.path.join(BUILD, "deploy/*.service"))}
    said = asked_by("muster.prerm", "remove")
    ok(len(said) == 1 and said[0].startswith("deb-systemd-invoke stop ") and set(said[0].split()[2:]) == units and units,
       "a removal stops every unit, each instance of the templates", said)
    ok(asked_by("muster.prerm", "upgrade", "9.9") == [], "an upgrade stops none")
    ok(asked_by("muster.prerm", "remove", systemd=False) == [], "without systemd there is nothing to stop")


def known_when_installed():
    ok(asked_by("muster.postinst", "configure", "") == ["systemctl --system daemon-reload"],
       "systemd reads the units that came, and starts none")
    ok(asked_by("muster.postinst", "configure", "0.0.1") == ["systemctl --system daemon-reload"],
       "nor is one started again by an upgrade")
    ok(asked_by("muster.postinst", "configure", "", systemd=False) == [], "without systemd nobody reads them")


judge(keeps_what_is_not_its_own, stopped_when_removed, known_when_installed)
