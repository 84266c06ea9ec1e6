# SPDX-License-Identifier: Apache-2.0
"""Ports of 127.0.0.1 for servers that cannot choose a port themselves."""
import fcntl
import os
import socket
import tempfile
import threading

# Below what the kernel gives to connections: one of those could take the port of a server that is down for a while. From
# 24000 on are those that `muster dev` draws.
FIRST, LAST, EACH = 10000, 24000, 16
BLOCKS = (LAST - FIRST) // EACH
LOCKS = os.path.join(tempfile.gettempdir(), f"muster-test-ports-{os.getuid()}")
HELD, LEFT, ONE_AT_A_TIME = [], [], threading.Lock()


def claim_block():
    """A block that no other test has, for as long as this process lives: a port whose server is down, or not up yet, looks
    free to others, too."""
    os.makedirs(LOCKS, exist_ok=True)
    for turn in range(BLOCKS):
        block = (os.getpid() + turn) % BLOCKS
        lock = os.open(os.path.join(LOCKS, str(block)), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        HELD.append(lock)
        return range(FIRST + block * EACH, FIRST + (block + 1) * EACH)
    raise RuntimeError(f"every block of ports is taken: {LOCKS}")


def next_port():
    with ONE_AT_A_TIME:  # tests run in threads, too
        if not LEFT:
            LEFT.extend(claim_block())
        return LEFT.pop(0)


def free_ports(count):
    found = []
    while len(found) < count:
        port = next_port()
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # who hung up there a minute ago is no harm
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
