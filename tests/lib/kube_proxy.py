# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a real API server that does what a test asks: drop an answer, hold a request, refuse.

POST /_control/rule   {"method": "PUT", "watch": false, "count": 1, "action": ...}
    "hang"     the request is passed on, its answer never comes
    "hold"     the request waits until POST /_control/go, then is passed on
    "status"   with "status" and "headers": answered here, passed to nobody
GET  /_control/count  requests seen so far, but for these
GET  /_control/held   how many requests wait
POST /_control/cut    ends every stream of a watch
"""
import http.client
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

HOLD_SECONDS = 60


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def control(self, state, body):
        word = self.path.split("/")[2]
        with state.lock:
            if word == "rule":
                state.rules.append(json.loads(body))
            elif word == "go":
                state.go.set()
            elif word == "cut":
                for connection in state.streams:
                    connection.sock.shutdown(2)
            text = {"count": state.count, "held": state.held}.get(word, "")
        self.answer(200, str(text).encode())

    def rule(self, state):
        watch = "watch=1" in self.path
        with state.lock:
            state.count += 1
            for rule in state.rules:
                if rule["method"] == self.command and rule.get("watch", False) == watch and rule["count"] > 0:
                    rule["count"] -= 1
                    return rule
        return {"action": None}

    def pass_on(self, state, body):
        connection = http.client.HTTPSConnection(state.host, state.port, context=state.context, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection")}
        connection.request(self.command, self.path, body=body, headers=headers)
        return connection, connection.getresponse()

    def serve(self):
        state = self.server.state
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/_control/"):
            self.control(state, body)
            return
        rule = self.rule(state)
        if rule["action"] == "status":
            self.answer(rule["status"], json.dumps(rule.get("body", {})).encode(), rule.get("headers"))
            return
        if rule["action"] == "hold":
            with state.lock:
                state.held += 1
            state.go.wait(HOLD_SECONDS)
        connection, response = self.pass_on(state, body or None)
        if rule["action"] == "hang":
            response.read()
            state.ended.wait(HOLD_SECONDS)
            self.close_connection = True
        elif "watch=1" in self.path and response.status == 200:
            self.stream(state, connection, response)
        else:
            self.answer(response.status, response.read(), {"Content-Type": "application/json"})
        connection.close()

    def stream(self, state, connection, response):
        with state.lock:
            state.streams.append(connection)
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            while True:
                some = response.read1(65536)
                if not some:
                    break
                self.wfile.write(some)
                self.wfile.flush()
        except (OSError, http.client.HTTPException, ValueError):
            pass
        with state.lock:
            state.streams.remove(connection)

    do_GET = do_POST = do_PUT = do_DELETE = serve


class Proxy:
    def __init__(self, url, ca_file):
        where = urlparse(url)
        self.host, self.port = where.hostname, where.port
        self.context = ssl.create_default_context(cafile=ca_file)
        self.lock = threading.Lock()
        self.rules, self.streams = [], []
        self.count = self.held = 0
        self.go, self.ended = threading.Event(), threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.state = self
        self.address = f"127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.go.set()
        self.server.shutdown()
        self.server.server_close()
