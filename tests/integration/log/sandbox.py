# SPDX-License-Identifier: Apache-2.0
"""Mounts and networks of the test's own: the script starts itself again inside new namespaces, so that
it leaves nothing behind. Host n is 10.77.0.n, the test itself OUTSIDE. Cutting is one-way: packets from one host to
another are dropped without an error."""
import os
import subprocess
import sys

from cluster import Failed, Skipped

REASON = None  # why there is no sandbox
HOSTS = 0
OUTSIDE = 254


def run(line, refusal=Failed):
    done = subprocess.run(line.split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise refusal(f"{line}: {done.stderr.strip()}")


def enter():
    """Comes back inside, or outside with REASON set."""
    global REASON
    if os.environ.get("MUSTER_TEST_SANDBOX"):
        try:
            run("mount -t tmpfs tmpfs /run", Skipped)
            run("ip link set lo up", Skipped)
        except Skipped as reason:
            REASON = str(reason)
        return
    command = ["unshare", "--mount", "--net", "--propagation", "private"]
    if os.getuid() != 0:
        command += ["--user", "--map-root-user"]
    tried = subprocess.run(command + ["true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        REASON = tried.stderr.strip()
        return
    os.environ["MUSTER_TEST_SANDBOX"] = "yes"
    os.execvp(command[0], command + [sys.executable] + sys.argv)


def need():
    if REASON:
        raise Skipped(REASON)


def hosts(count):
    """A bridge and so many hosts on it; made once."""
    global HOSTS
    need()
    if HOSTS:
        return
    run("ip link add br0 type bridge", Skipped)
    HOSTS = count
    run(f"ip addr add 10.77.0.{OUTSIDE}/24 dev br0")
    run("ip link set br0 up")
    for n in range(1, count + 1):
        run(f"ip netns add h{n}")
        run(f"ip link add v{n} type veth peer name eth0 netns h{n}")
        run(f"ip link set v{n} master br0 up")
        run(f"ip -n h{n} addr add 10.77.0.{n}/24 dev eth0")
        run(f"ip -n h{n} link set eth0 up")
        run(f"ip -n h{n} link set lo up")


def neighbour(verb, source, target, more=""):
    at, device = ("ip", "br0") if source == OUTSIDE else (f"ip -n h{source}", "eth0")
    run(f"{at} neigh {verb} 10.77.0.{target} dev {device} {more}")


def cut(source, target):
    """Sends its packets to an unused address of the wire."""
    neighbour("replace", source, target, "lladdr 02:00:00:00:00:01 nud permanent")


def heal(source, target):
    neighbour("del", source, target)


def disk(path, mib):
    """A small file system: ext4 on a loop device where that is allowed, else tmpfs."""
    need()
    os.makedirs(path)
    image = path + ".img"
    with open(image, "wb") as file:
        file.truncate(mib << 20)
    try:
        run(f"mkfs.ext4 -q -F -m 0 {image}")
        run(f"mount -o loop {image} {path}")
    except Failed:
        run(f"mount -t tmpfs -o size={mib}m tmpfs {path}", Skipped)
