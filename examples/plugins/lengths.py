#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker's plugin as a process: maps a record to the length of its first word, "4" for "pear 7".

    muster worker run --config ../worker.toml --plugin lengths.toml --hot-reload

It is started with the path of a socket as its last argument, listens there, and answers frames: four bytes of length, highest
first, then JSON {"method": ..., "payload": ...}. "Shutdown" ends it.
"""
import json
import os
import socket
import struct
import sys
import threading


def answer(method, payload):
    if method == "map":
        words = payload.split()
        return {"payload": str(len(words[0])) if words else ""}
    if method == "echo":
        return {"payload": payload}
    if method == "pid":
        return {"payload": str(os.getpid())}
    return {"error": f"no method '{method}'"}


def read(connection, count):
    got = b""
    while len(got) < count:
        more = connection.recv(count - len(got))
        if not more:
            return None
        got += more
    return got


def serve(connection):
    while True:
        prefix = read(connection, 4)
        body = prefix and read(connection, struct.unpack(">I", prefix)[0])
        if body is None:
            return
        request = json.loads(body)
        if request["method"] == "Shutdown":
            os._exit(0)
        reply = json.dumps(answer(request["method"], request["payload"])).encode()
        connection.sendall(struct.pack(">I", len(reply)) + reply)


def main():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[-1])
    listener.listen()
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


main()
