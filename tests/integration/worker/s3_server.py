# SPDX-License-Identifier: Apache-2.0
"""A small object store that speaks S3, for tests: GET and PUT of objects with ETags and conditions.

It shares no code with the tested program: it computes signatures (AWS Signature Version 4) from the received bytes, and
answers 403 to a request whose signature, payload hash or date is wrong.
"""
import datetime
import hashlib
import hmac
import http.server
import threading
import urllib.parse

SKEW = datetime.timedelta(minutes=15)


def signature_of(secret, date, region, service, text):
    key = ("AWS4" + secret).encode()
    for part in (date[:8], region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):  # noqa: A002
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def why_refused(self, body):
        """None, or what is wrong with the signature."""
        store, words = self.server.store, self.headers.get("Authorization", "")
        if not words.startswith("AWS4-HMAC-SHA256 "):
            return "not signed"
        fields = dict(part.strip().split("=", 1) for part in words.split(" ", 1)[1].split(","))
        access, day, region, service, end = fields["Credential"].split("/")
        date = self.headers.get("x-amz-date", "")
        if access != store.access_key or end != "aws4_request" or service != "s3" or region != store.region:
            return "another credential"
        if date[:8] != day:
            return "two dates"
        when = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ")
        if abs(datetime.datetime.utcnow() - when) > SKEW:
            return "too old"
        digest = hashlib.sha256(body).hexdigest()
        if self.headers.get("x-amz-content-sha256") != digest:
            return "another payload"
        names = fields["SignedHeaders"].split(";")
        must = {"host", "x-amz-date", "x-amz-content-sha256"} | {
            name.lower() for name in self.headers if name.lower().startswith("if-") or name.lower().startswith("x-amz-")}
        if names != sorted(names) or not must <= set(names):
            return "a header that is not signed"
        path, _, query = self.path.partition("?")
        lines = "".join(f"{name}:{' '.join(self.headers[name].split())}\n" for name in names)
        canonical = "\n".join([self.command, path, query, lines, ";".join(names), digest])
        text = "\n".join(["AWS4-HMAC-SHA256", date, f"{day}/{region}/s3/aws4_request",
                          hashlib.sha256(canonical.encode()).hexdigest()])
        wanted = signature_of(store.secret_key, date, region, "s3", text)
        return None if hmac.compare_digest(wanted, fields["Signature"]) else "another signature"

    def handle_one(self):
        store = self.server.store
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        why = self.why_refused(body)
        with store.lock:
            store.requests.append((self.command, self.path, why))
            if why:
                return self.answer(403, why.encode())
            name = urllib.parse.unquote(self.path.lstrip("/"))
            return self.get(store, name) if self.command == "GET" else self.put(store, name, body)

    do_GET = do_PUT = handle_one

    def get(self, store, name):
        if name not in store.objects:
            return self.answer(404)
        body = store.objects[name]
        return self.answer(200, body, ETag=store.etag(body))

    def put(self, store, name, body):
        there = store.objects.get(name)
        if store.conditional:
            if self.headers.get("If-None-Match") == "*" and there is not None:
                return self.answer(412)
            wanted = self.headers.get("If-Match")
            if wanted is not None and (there is None or store.etag(there) != wanted):
                return self.answer(412)
        fault = store.faults.pop(0) if store.faults and name.endswith(".ckpt") else None
        if fault == "refuse":
            return self.answer(503)
        store.objects[name] = body
        if fault == "drop":  # done, and nobody hears of it
            self.close_connection = True
            self.connection.close()
            return None
        return self.answer(200, ETag=store.etag(body))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a connection that was dropped on purpose


class Store:
    """A server in a thread of its own; `objects` by "bucket/key"."""

    def __init__(self, access_key="test-key", secret_key="test/secret+key", region="eu-test-1"):
        self.access_key, self.secret_key, self.region = access_key, secret_key, region
        self.objects, self.requests, self.faults, self.conditional = {}, [], [], True
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.store = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def etag(body):
        return '"' + hashlib.md5(body).hexdigest() + '"'

    @property
    def environment(self):
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key,
                "AWS_REGION": self.region, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self.server.server_address[1]}"}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
