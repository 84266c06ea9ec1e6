# SPDX-License-Identifier: Apache-2.0
"""Addresses at which nobody listens, nor will: their ports stay taken as long as the test runs."""
import socket

HELD = []


def dead_address():
    HELD.append(socket.socket())
    HELD[-1].bind(("127.0.0.1", 0))
    return f"127.0.0.1:{HELD[-1].getsockname()[1]}"
