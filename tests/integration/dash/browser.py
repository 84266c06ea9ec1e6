# SPDX-License-Identifier: Apache-2.0
"""A real Chromium without a driver: the DevTools protocol over two pipes, with nothing but Python.

    with Browser(directory) as browser:
        page = browser.page(1280, 900)
        page.open("http://127.0.0.1:8790/raft")
        page.run("document.title")

It keeps the console messages of a page and every address that the page requested.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import time

PATIENCE = 90  # seconds: a starved machine is not a failure
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage",
         "--no-default-browser-check", "--hide-scrollbars", "--remote-debugging-pipe"]


def find():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    def __init__(self, directory):
        to_child, ours_out = os.pipe()
        ours_in, from_child = os.pipe()
        # The protocol's own numbers, and none of ours above them in the way.
        def child():
            a, b = os.dup(to_child), os.dup(from_child)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.log = open(os.path.join(directory, "chromium.log"), "wb")
        self.process = subprocess.Popen(
            [find(), *FLAGS, "--user-data-dir=" + os.path.join(directory, "profile"), "about:blank"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, close_fds=False,
            preexec_fn=child, start_new_session=True)
        os.close(to_child)
        os.close(from_child)
        self.out, self.into = ours_out, ours_in
        self.buffer, self.number, self.events = b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            pass
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.into)
        self.log.close()

    def receive(self, until):
        """One message, or None when `until` has passed."""
        while b"\0" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.into], [], [], left)[0]:
                return None
            piece = os.read(self.into, 1 << 20)
            if not piece:
                raise RuntimeError("chromium has ended")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        until = time.monotonic() + PATIENCE
        while True:
            answer = self.receive(until)
            if answer is None:
                raise TimeoutError(method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, width, height, dark=False):
        return Page(self, width, height, dark)


class Page:
    def __init__(self, browser, width, height, dark):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def close(self):
        """Each open page has a stream, and a browser six connections to a host."""
        self.browser.call("Target.closeTarget", targetId=self.target)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(script + ": " + json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def wait_for(self, script, what=None):
        """The first value of `script` that is true."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                value = self.run(f"(value => value instanceof Node || value)({script})")
            except RuntimeError:  # the document changes under it
                value = None
            if value:
                return value
            time.sleep(0.1)
        raise AssertionError(f"never came: {what or script}; page: "
                             + str(self.run("document.body.innerText"))[:2000])

    def key(self, name, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=code or name,
                      **({"text": text} if text and kind == "keyDown" else {}),
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "Escape": 27}.get(name, 0))

    def write(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))

    def mine(self):
        self.run("0")  # takes in what is on the way
        return [e for e in self.browser.events if e.get("sessionId") == self.session]

    def complaints(self):
        """The faults that the page reported: exceptions, errors of the console, refusals of the policy."""
        found = []
        for event in self.mine():
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(params["exceptionDetails"])[:500])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                found.append(json.dumps(params["args"])[:500])
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] == "error":
                found.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
        return found

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.mine()
                if e["method"] == "Network.requestWillBeSent"]
