# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that can be cut, slowed down and reset."""
import random
import socket
import threading
import time


def shut(one):
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class Link:
    """A TCP proxy before one address. `requests` and `replies` False: bytes that way are swallowed up, silently.

    `delay`: seconds each way, for all that comes; one arrival in ten is `stall` later still, as after a lost packet.

    No socket is closed while a thread may be in a call on it: a frozen process repeats that call by number, and the number
    may be another socket's by then.
    """

    def __init__(self, target_port, target_host="127.0.0.1"):
        self.target = target_host, int(target_port)
        self.requests = self.replies = True
        self.accepted = 0
        self.delay = self.stall = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        self.pairs = []
        self.acceptor = self._start(self._accept)

    @staticmethod
    def _start(function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        return thread

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            try:
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            self.pairs.append((client, server))
            self._start(self._pair, client, server)

    def _pair(self, client, server):
        back = self._start(self._carry, server, client, "replies")
        self._carry(client, server, "requests")
        back.join()
        client.close()
        server.close()

    def _carry(self, source, target, way):
        held = False
        try:
            while data := source.recv(65536):
                if not getattr(self, way):
                    held = True
                if held:
                    continue    # a stream with a hole can only be thrown away
                if self.delay:
                    time.sleep(self.delay + (self.stall if random.random() < 0.1 else 0))
                target.sendall(data)
        except OSError:
            pass
        if not held:
            shut(source)
            shut(target)

    def cut(self, requests=False, replies=False):
        self.requests, self.replies = requests, replies

    def heal(self):
        """Those that lost bytes are reset, and what they still had to deliver is lost; new connections work."""
        self.drop()
        self.requests = self.replies = True
        self.drop()     # those that were made meanwhile

    def drop(self):
        pairs, self.pairs = self.pairs, []
        for pair in pairs:
            for each in pair:
                shut(each)

    def close(self):
        shut(self.listener)     # a close alone would leave accept() waiting, and the port open
        self.acceptor.join()
        self.listener.close()
        self.drop()
