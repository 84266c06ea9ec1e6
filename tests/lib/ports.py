"""Ports of 127.0.0.1 for servers that cannot be told to take any."""
import os
import socket

# Below what the kernel gives to connections: one of those could take the port of a server that is down for a while.
FIRST, LAST, EACH = 10000, 32000, 16
TAKEN = 0


def free_ports(count):
    """Two tests at once look at different ones first: by their process."""
    global TAKEN
    found = []
    while len(found) < count:
        port = FIRST + (os.getpid() * EACH + TAKEN) % (LAST - FIRST)
        TAKEN += 1
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # who hung up there a minute ago is no harm
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found
