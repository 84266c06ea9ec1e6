# SPDX-License-Identifier: Apache-2.0
"""Minimal Debian systems to install into, from the machine's own package source (no address is written down here).

The base is made once with debootstrap and kept as build/packaging/base.tar; each test gets a copy. Needs root."""
import os
import shutil
import subprocess
import sys

MOUNTS = ("proc", "sys", "dev")
BARE = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"]


def needed_or_skip(*programs):
    why = "a chroot needs root" if os.getuid() else next((f"no {one}" for one in programs if not shutil.which(one)), "")
    if why:
        print(f"1..0 # SKIP {why}")
        sys.exit(0)


def codename():
    with open("/etc/os-release", encoding="utf-8") as file:
        return dict(line.rstrip().replace('"', "").split("=", 1) for line in file if "=" in line)["VERSION_CODENAME"]


def mirror(suite):
    """The address this machine has its packages of `suite` from, of either format of sources."""
    folder = "/etc/apt/sources.list.d"
    files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))] + ["/etc/apt/sources.list"]
    for path in (path for path in files if os.path.exists(path)):
        uri = None
        for words in (line.split() for line in open(path, encoding="utf-8")):
            if words[:1] == ["URIs:"]:
                uri = words[1]
            if words[:1] == ["Suites:"] and suite in words[1:]:
                return uri
            if words[:1] == ["deb"] and suite in words:
                return words[words.index(suite) - 1]
    print(f"1..0 # SKIP no Debian source for {suite} on this machine")
    return sys.exit(0)


class Chroot:
    """with Chroot(SOURCE, "name") as system: system.run("apt-get ...")"""

    def __init__(self, source, name):
        self.home = os.path.join(source, "build/packaging")
        self.root, self.log_path = os.path.join(self.home, name), os.path.join(self.home, name + ".log")
        self.base = os.path.join(self.home, "base.tar")
        os.makedirs(self.home, exist_ok=True)
        self.log = open(self.log_path, "wb")

    def make_base(self):
        suite, fresh = codename(), self.base + ".dir"
        remove(fresh)
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates", suite, fresh, mirror(suite)],
                       check=True,
                       stdout=self.log, stderr=self.log)
        os.remove(os.path.join(fresh, "etc/apt/sources.list"))
        shutil.copytree("/etc/apt/sources.list.d", os.path.join(fresh, "etc/apt/sources.list.d"), dirs_exist_ok=True,
                        ignore=lambda folder, names: [name for name in names if name.startswith("muster")])
        if os.path.exists("/etc/apt/sources.list"):
            shutil.copy("/etc/apt/sources.list", os.path.join(fresh, "etc/apt/"))
        subprocess.run(["tar", "-C", fresh, "-cf", self.base + ".new", "."], check=True)
        os.rename(self.base + ".new", self.base)
        remove(fresh)

    def __enter__(self):
        if not os.path.exists(self.base):
            self.make_base()
        self.leave()
        os.makedirs(self.root)
        subprocess.run(["tar", "-C", self.root, "-xf", self.base], check=True)
        for name in ("resolv.conf", "hosts"):
            shutil.copy("/etc/" + name, os.path.join(self.root, "etc", name))
        # No daemon is started by an installation here, as in an image that is being built.
        with open(os.path.join(self.root, "usr/sbin/policy-rc.d"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nexit 101\n")
            os.chmod(file.name, 0o755)
        subprocess.run(["mount", "-t", "proc", "proc", self.path("proc")], check=True)
        subprocess.run(["mount", "-t", "sysfs", "sysfs", self.path("sys")], check=True)
        subprocess.run(["mount", "--rbind", "/dev", self.path("dev")], check=True)
        subprocess.run(["mount", "--make-rslave", self.path("dev")], check=True)
        return self

    def __exit__(self, kind, error, trace):
        self.leave()
        self.log.close()

    def path(self, inside):
        return os.path.join(self.root, inside.lstrip("/"))

    def leave(self):
        for place in MOUNTS:
            if os.path.ismount(self.path(place)):
                subprocess.run(["umount", "-R", self.path(place)], check=True)
        remove(self.root)

    def command(self, script, before=()):
        return [*before, "chroot", self.root, *BARE, "sh", "-c", script]

    def run(self, script, before=(), timeout=3600):
        """The command's exit code and output; the log has both, too."""
        done = subprocess.run(self.command(script, before), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=timeout)
        self.log.write(f"$ {script}\n{done.stdout}\n= {done.returncode}\n".encode())
        self.log.flush()
        return done.returncode, done.stdout

    def processes(self):
        """The processes in the chroot: pid -> command line."""
        found = {}
        for pid in (name for name in os.listdir("/proc") if name.isdigit()):
            try:
                if os.readlink(f"/proc/{pid}/root") == self.root:
                    with open(f"/proc/{pid}/cmdline", "rb") as file:
                        found[int(pid)] = file.read().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it ended, or is a thread of the kernel
        return found


def remove(folder):
    if os.path.exists(folder):
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=True)
