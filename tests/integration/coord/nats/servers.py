#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Starts nats-servers with JetStream, runs a command against them and ends both.

  servers.py PROGRAM COUNT COMMAND...     "%h" in the command becomes "host:port,host:port"
"""
import ctypes
import os
import signal
import subprocess
import sys
import tempfile

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../lib"))
from ports import free_ports  # noqa: E402


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start(program, name, port, route, routes, directory, more=()):
    arguments = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", os.path.join(directory, name), *more]
    if len(routes) > 1:
        arguments += ["--name", name, "--cluster_name", "test", "--cluster", f"nats://127.0.0.1:{route}",
                      "--routes", ",".join(f"nats://127.0.0.1:{each}" for each in routes)]
    server = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent)
    for line in server.stderr:
        if "Server is ready" in line:
            break
    else:
        sys.exit(f"servers.py: {program} did not start")
    # What it says from now on goes nowhere, and it must not wait for a reader.
    subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL, preexec_fn=die_with_parent)
    return server


def main():
    program, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    ports = free_ports(2 * count)
    clients, routes = ports[:count], ports[count:]
    with tempfile.TemporaryDirectory(prefix="muster-nats-") as directory:
        servers = []
        try:
            for i in range(count):
                servers.append(start(program, f"n{i}", clients[i], routes[i], routes, directory))
            hosts = ",".join(f"127.0.0.1:{port}" for port in clients)
            return subprocess.run([word.replace("%h", hosts) for word in command]).returncode
        finally:
            for server in servers:
                server.kill()
                server.wait()


if __name__ == "__main__":
    sys.exit(main())
