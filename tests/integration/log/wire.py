# SPDX-License-Identifier: Apache-2.0
"""A proxy before a replica's Raft port that records the traffic and can hold it: then nothing arrives until it is
released, and nothing is lost. The replica's own messages do not pass the proxy, because the replica dials the others."""
import socket
import threading


class Wire:
    def __init__(self, listen, target):
        self.target, self.records = target, []  # of what went to the replica, by connection
        self.open = threading.Event()
        self.open.set()
        host, port = listen.rsplit(":", 1)
        self.listener = socket.create_server((host, int(port)))
        threading.Thread(target=self.accept, daemon=True).start()

    def hold(self):
        self.open.clear()

    def let_go(self):
        self.open.set()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.open.set()
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which would keep the address
        self.listener.close()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return  # closed
            host, port = self.target.rsplit(":", 1)
            try:
                two = socket.create_connection((host, int(port)))
            except OSError:
                one.close()  # nobody there yet
                continue
            record = bytearray()
            self.records.append(record)
            threading.Thread(target=self.pump, args=(one, two, record), daemon=True).start()
            threading.Thread(target=self.pump, args=(two, one, None), daemon=True).start()

    def pump(self, source, sink, record):
        try:
            while data := source.recv(65536):
                if record is not None:
                    self.open.wait()
                    record += data if len(record) < 1 << 20 else b""
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
