#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make deb`: lintian finds no error, the packages install into a bare Debian, and what they bring works there.

usage: long_deb.py SOURCE     (prints TAP; needs root)"""
import glob
import os
import sys

from chroots import Chroot, needed_or_skip
from tap import judge, ok, run

SOURCE = os.path.abspath(sys.argv[1])
PACKAGES = {"muster", "muster-sim", "libmuster1", "libmuster1-grpc", "libmuster1-kube", "libmuster1-nats", "libmuster-dev"}
OUTPUT = os.path.join(SOURCE, "build/packaging/deb")
needed_or_skip("debootstrap", "lintian", "dh", "dpkg-buildpackage", "unshare")


def packages():
    return sorted(glob.glob(OUTPUT + "/*.deb"))


def depends(name):
    return run(["dpkg-deb", "--field", next(path for path in packages() if f"/{name}_" in path), "Depends"]).stdout.strip()


def built():
    done = run([os.path.join(SOURCE, "scripts/deb"), OUTPUT], timeout=3600)
    names = {os.path.basename(path).split("_")[0] for path in packages()}
    ok(done.returncode == 0 and PACKAGES <= names, "scripts/deb", done.stdout)
    shared = ("libnghttp2-14", "libprotobuf-c1", "libraft0 (>= 0.22.1)", "libraft0 (<< 0.22.2~)")
    ok(all(one in depends("muster") for one in shared), "muster loads Debian's nghttp2, protobuf-c and raft 0.22.1",
       depends("muster"))
    ok({one.split()[0] for one in depends("libmuster1").split(", ")} == {"libc6", "libssl3"},
       "libmuster1 needs libc and OpenSSL", depends("libmuster1"))
    done = run(["lintian", "--allow-root", "--fail-on", "error", "--no-tag-display-limit", *packages()])
    worse = [line for line in done.stdout.splitlines() if line.startswith("E:")]
    said = [line for line in done.stdout.splitlines() if line.startswith("W:")]
    ok(done.returncode == 0 and not worse, f"lintian: no error, {len(said)} warnings", done.stdout)
    print("\n".join("# " + line for line in said))


def installs():
    with Chroot(SOURCE, "deb-root") as system:
        files = [path for path in packages() if "-dbgsym_" not in path]
        run(["cp", *files, system.path("/tmp")])
        run(["cp", *glob.glob("/etc/apt/sources.list.d/muster-backports.*"), system.path("/etc/apt/sources.list.d")])
        code, said = system.run("apt-get -q update && apt-get -q -y install --no-install-recommends /tmp/*.deb")
        if not ok(code == 0, "apt-get install of the packages on a bare Debian with libraft0's suite", said[-3000:]):
            return
        code, said = system.run("muster --version")
        ok(code == 0 and said.startswith("muster "), "muster --version", said)
        code, said = system.run("muster-sim --scenario log --seed 7")
        ok(code == 0 and "runs passed" in said, "muster-sim --scenario log", said)
        code, said = system.run("musterctl --help")
        ok(code == 0 and "Usage: musterctl" in said, "musterctl --help", said)
        for name in ("bigfleet", "bigfleetctl", "rollout", "rollout-coordinator", "ripple-cli"):
            code, said = system.run(f"{name} --help")
            ok(code == 0, f"{name} --help", said)
        code, said = system.run("id muster-coordinator && stat -c '%U:%G %a' /etc/muster /etc/muster/tls /etc/muster/coordinator.toml")
        ok(code == 0 and said.splitlines()[1:] == ["root:muster 750", "root:muster 750", "root:muster 640"],
           "the accounts are there, and only their group reads /etc/muster", said)
        code, said = system.run("dpkg-query -W -f '${Conffiles}' muster")
        ok(all(f"/etc/muster/{role}.toml" in said for role in ("coordinator", "shard", "provider", "operator",
                                                               "worker")),
           "what one edits is kept over upgrades", said)
        code, said = system.run("systemctl is-enabled muster-coordinator 2>&1")
        ok("enabled" not in said.split(), "no unit was enabled", said)
        starts(system)
        changes(system)
        code, said = system.run("apt-get -q -y purge muster muster-sim libmuster-dev libmuster1* && ! command -v muster && ! test -e "
                                "/etc/muster/coordinator.toml && test -d /var/lib/muster")
        ok(code == 0, "purged: programs and configuration are gone, data are not", said)


def starts(system):
    """As the unit would: its account, its file, its directory; in a network of its own, for the default ports."""
    code, said = system.run("""
        set -e
        install -d -m 0700 -o muster-coordinator -g muster-coordinator /var/lib/muster/coordinator
        export MUSTER_DATA_DIR=/var/lib/muster/coordinator
        setpriv --reuid muster-coordinator --regid muster-coordinator --groups muster --no-new-privs \
            $(sed -n 's/^ExecStart=//p' /lib/systemd/system/muster-coordinator.service) >/tmp/coordinator.log 2>&1 &
        unset MUSTER_DATA_DIR
        code=1
        for try in $(seq 300); do
            if musterctl replica list --timeout 2s; then code=0; break; fi
            kill -0 $! || break
            sleep 0.2
        done
        kill -TERM $!; wait $! || code=$?
        cat /tmp/coordinator.log
        exit $code""", before=["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"])
    ok(code == 0 and "node-0" in said, "the unit's command, as the unit's account, founds a cluster of one", said)


def changes(system):
    """Upgraded and removed on a host that runs systemd, which is replaced by a program that records its arguments."""
    system.run("""
        set -e
        mkdir -p /run/systemd/system /tmp/replaced /var/lib/muster/shard-a
        echo mine >/var/lib/muster/shard-a/data
        for name in systemctl deb-systemd-invoke; do
            printf '#!/bin/sh\\necho "${0##*/} $*" >>/tmp/asked\\n' >/tmp/replaced/$name
            chmod 755 /tmp/replaced/$name
        done""")
    kept = "test \"$(cat /var/lib/muster/shard-a/data)\" = mine && test -d /var/lib/muster/coordinator/log && cat /tmp/asked"
    code, said = system.run(f"PATH=/tmp/replaced:$PATH dpkg --install /tmp/muster_*.deb && {kept}")
    ok(code == 0 and "daemon-reload" in said and " stop " not in said and "restart" not in said,
       "upgraded: nothing is stopped, data directories are as they were", said)
    code, said = system.run(f"rm /tmp/asked; PATH=/tmp/replaced:$PATH dpkg --remove muster && {kept}")
    ok(code == 0 and "deb-systemd-invoke stop muster-worker@*.service" in said and "muster-coordinator.service" in said and
       said.rstrip().endswith("daemon-reload"), "removed: the units are stopped and forgotten, data and configuration kept",
       said)


judge(built, installs)
