#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a live `muster dev` in a real Chromium: every view, wide and narrow, live numbers, filters, links, the
keyboard, one action without the token and with it. Nothing on the console, no request to anybody else.

usage: TEST MUSTER MUSTERCTL [SCREENSHOT_DIR]    (prints TAP)
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../log"))
from browser import Browser, find  # noqa: E402
from cluster import check, run_cases, wait_for  # noqa: E402

MUSTER, MUSTERCTL = (os.path.abspath(path) for path in sys.argv[1:3])
SHOTS = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else ""


def rows(caption):
    """A script: how many rows the table of this name has."""
    return f"[...document.querySelectorAll('table')].filter(t => t.caption.textContent === '{caption}').reduce((n, t) => n + t.tBodies[0].rows.length, 0)"


# A view, and what it shows once its data is there.
VIEWS = {
    "fleet": f"{rows('Machines by zone')} > 0 && {rows('Cost by type')} > 0 && {rows('Machines to be had')} > 5",
    "shards": "document.querySelectorAll('section.panel').length === 2 && document.querySelectorAll('.split').length === 2",
    "needs": f"{rows('Needs')} >= 5",
    "topology": "document.querySelectorAll('.panel').length === 2 && document.body.innerText.includes('eu-1c')",
    "workers": "document.querySelector('h1').textContent === 'Workers' && document.querySelectorAll('#view p').length > 0",
    "store": "document.body.innerText.includes('app/config') || document.querySelector('[data-form=browse]')",
    "raft": f"{rows('Replicas')} === 3",
}
# What a screen reader or a keyboard would stumble over.
STUMBLES = """(() => {
  const found = [], named = node => (node.getAttribute('aria-label') || node.textContent || '').trim();
  if (document.documentElement.lang !== 'en') found.push('no language');
  if (document.querySelectorAll('h1').length !== 1) found.push('not one h1');
  for (const n of document.querySelectorAll('button, a[href], summary')) if (!named(n)) found.push('no name: ' + n.outerHTML);
  for (const n of document.querySelectorAll('img')) if (!n.hasAttribute('alt')) found.push('no alt: ' + n.outerHTML);
  for (const n of document.querySelectorAll('input, select')) if (!n.closest('label')) found.push('no label: ' + n.outerHTML);
  for (const n of document.querySelectorAll('table')) if (!n.caption || !n.caption.textContent) found.push('no caption');
  for (const n of document.querySelectorAll('th')) if (!n.scope) found.push('no scope: ' + n.outerHTML);
  for (const n of document.querySelectorAll('svg')) if (!n.getAttribute('aria-label') && n.getAttribute('aria-hidden') !== 'true')
    found.push('a picture without words');
  for (const n of document.querySelectorAll('figure.chart')) if (n.querySelector('svg') && !n.querySelector('details table'))
    found.push('a chart without its table: ' + n.querySelector('figcaption').textContent);
  const ids = [...document.querySelectorAll('[id]')].map(n => n.id);
  if (new Set(ids).size !== ids.length) found.push('an id twice');
  for (const n of document.querySelectorAll('[style]')) found.push('inline style');
  return found;
})()"""


class Dev:
    """`muster dev` in a directory of its own."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="muster-dash-")
        os.mkdir(os.path.join(self.dir, "chromium"))
        self.out = os.path.join(self.dir, "out")
        self.began = time.monotonic()
        environment = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        with open(self.out, "wb") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", MUSTER, "dev", "--free-ports", "--http-listen", "127.0.0.1:0",
                 "--data-dir", os.path.join(self.dir, "data"), "--demand-every", "3s"], stdout=out, stderr=subprocess.STDOUT, env=environment)

    def text(self):
        with open(self.out, encoding="utf-8", errors="replace") as out:
            return out.read()

    def ready(self):
        wait_for("ready", lambda: "\nready\n" in self.text())
        found = re.search(r"dashboard +(http://\S+)/ +admin token: (\w+)", self.text())
        self.base, self.token = found.groups()
        self.grpc = re.search(r"node-0 +\w+ +(\S+)", self.text())[1]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            print("# " + self.text().replace("\n", "\n# "))
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(90)
        shutil.rmtree(self.dir, ignore_errors=True)

    def ctl(self, *words):
        """Repeats an idempotent command while there is an election."""
        wait_for(" ".join(words), lambda: subprocess.run([MUSTERCTL, *words], capture_output=True, timeout=90).returncode == 0)


class Holder:
    """Holds a slot of a group, or waits for one, until release."""

    def __init__(self, dev, owner):
        self.process = subprocess.Popen([MUSTERCTL, "coord", "exec", "--group", "jobs", "--slots", "2", "--wait", "1h", "--owner", owner,
                                         "--store", "muster://" + dev.grpc, "--", "sleep", "3600"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(90)


def card(name):
    """A script: the number on the card of this name."""
    return ("(() => { const c = [...document.querySelectorAll('.card')].find(c => c.querySelector('dt').textContent === '" + name
            + "'); return c && c.querySelector('dd').firstChild.textContent; })()")


def press(page, text, within="document"):
    page.wait_for(f"(() => {{ const b = [...{within}.querySelectorAll('button')].find(b => b.textContent === '{text}');"
                  " if (b) b.click(); return !!b; })()", f"a button '{text}'")


def every_view(dev, browser):
    for shape, width, height, dark in (("desktop", 1280, 900, False), ("phone", 390, 844, True)):
        page = browser.page(width, height, dark)
        for view, there in VIEWS.items():
            page.open(f"{dev.base}/{view}" + ("/" if view == "workers" else ""))
            page.wait_for(there, f"/{view} with its data")
            page.wait_for("document.getElementById('live').textContent === 'live'", "the stream")
            check(page.run("document.title").lower().startswith(view), page.run("document.title"))
            wide = page.run("document.documentElement.scrollWidth") - width  # innerWidth of a phone would grow with it
            check(wide <= 0, f"/{view} is {wide} pixels too wide for a {shape}")
            check(page.run(STUMBLES) == [], f"/{view}: {page.run(STUMBLES)}")
            if SHOTS:
                page.screenshot(os.path.join(SHOTS, f"{view}-{shape}.png"))
            if shape == "phone":
                fits_a_small_phone(page, view)
        quiet(dev, page)
        page.close()


def fits_a_small_phone(page, view):
    """320 pixels: the narrowest phone there is, or a page that was made four times as large."""
    page.resize(320, 568)
    page.wait_for("document.documentElement.clientWidth === 320", "a screen of 320 pixels")
    wide = page.run("document.documentElement.scrollWidth") - 320
    check(wide <= 0, f"/{view} is {wide} pixels too wide for a small phone")
    page.resize(390, 844)


def first_page(dev, browser):
    """A full page as a newcomer meets it; how long it took is printed, never judged."""
    page = browser.page(1280, 900)
    page.open(dev.base + "/")
    page.wait_for(VIEWS["fleet"], "the first page with its data")
    print(f"# first full page {time.monotonic() - dev.began:.1f} s after `muster dev` was started, browser included", flush=True)
    page.close()


def claimed(dev, browser):
    """Two hold, one waits: the group says so; a link filters; every event is shown on every view, and opens by the keyboard."""
    with Holder(dev, "ann"), Holder(dev, "bob"), Holder(dev, "eve"):
        page = browser.page(390, 844)
        page.open(dev.base + "/store")
        page.wait_for("[...document.querySelectorAll('table')].some(t => t.caption.textContent === 'Groups' && [...t.tBodies[0].rows].some("
                      "r => [...r.cells].slice(0, 5).map(c => c.textContent).join() === 'jobs,2,2,0,1'))", "two of two slots held, one waits")
        page.run("[...document.querySelectorAll('#view a')].find(a => a.textContent === 'jobs').click()")
        page.wait_for("location.search === '?text=jobs'", "a link to the group")
        if SHOTS:
            page.screenshot(os.path.join(SHOTS, "store-claims-phone.png"))
        page.wait_for("document.querySelector('.notes summary')", "what happened")
        page.run("document.querySelector('.notes summary').focus()")
        page.key("Enter", text="\r")
        page.wait_for("document.querySelector('.notes[open] tbody tr')", "and before")
        check(page.run(STUMBLES) == [], f"{page.run(STUMBLES)}")
        quiet(dev, page)
        page.close()


def by_keyboard(dev, browser):
    """From view to view, a filter typed, a dialog opened and left: without a mouse."""
    page = browser.page(1280, 900)
    page.open(dev.base + "/topology")
    page.wait_for(VIEWS["topology"])
    page.run("[...document.querySelectorAll('nav a')].find(a => a.textContent === 'Needs').focus()")
    page.key("Enter", text="\r")
    page.wait_for("location.pathname === '/needs' && document.activeElement.id === 'view'", "the view has the focus")
    page.wait_for(VIEWS["needs"])
    page.run("document.querySelector('input[data-ask=text]').focus()")
    page.write("cluster-b")
    page.wait_for("location.search === '?text=cluster-b' && document.activeElement.value === 'cluster-b'", "typed, and it stays while numbers move")
    page.wait_for("[...document.querySelectorAll('#view > .scroll tbody th')].every(n => n.textContent.startsWith('cluster-b'))")
    page.run("document.getElementById('admin').focus()")
    page.key("Enter", text="\r")
    page.wait_for("document.querySelector('dialog[open]') && document.activeElement.type === 'password'", "the dialog has the focus")
    page.key("Escape")
    page.wait_for("!document.querySelector('dialog[open]') && document.activeElement.id === 'admin'", "and gives it back")
    quiet(dev, page)
    page.close()


def quiet(dev, page, allowed=()):
    """No error on the console, and no request to another server."""
    said = [text for text in page.complaints() if not any(word in text for word in allowed)]
    check(said == [], f"{said}")
    host = urllib.parse.urlsplit(dev.base).netloc
    foreign = [url for url in page.requests() if urllib.parse.urlsplit(url).netloc not in ("", host)
               and not url.startswith(("about:", "data:"))]
    check(foreign == [], f"{foreign}")


def live_and_linked(dev, browser):
    page = browser.page(1280, 900)
    page.open(dev.base + "/raft")
    page.run("window.sameDocument = true")
    before = int(page.wait_for(f"(v => v && v !== '–' && v.replaceAll(',', ''))({card('Committed')})"))
    dev.ctl("store", "put", "app/config", "hello", "--coordinator", dev.grpc)
    page.wait_for(f"Number(({card('Committed')} || '0').replaceAll(',', '')) > {before}", "a larger number")
    page.run("[...document.querySelectorAll('nav a')].find(a => a.textContent === 'Topology').click()")
    page.wait_for("location.pathname === '/topology' && [...document.querySelectorAll('a.chip')].length === 3")
    page.run("[...document.querySelectorAll('a.chip')].find(a => a.textContent === 'cluster-c').click()")
    page.wait_for("location.pathname === '/needs' && location.search === '?text=cluster-c'"
                  " && document.querySelectorAll('tbody th').length > 0")
    check(page.run("[...document.querySelectorAll('#view > .scroll tbody th')].every(n => n.textContent.startsWith('cluster-c'))"),
          page.run("document.body.innerText"))
    page.run("(() => { const i = document.querySelector('input[data-ask=text]'); i.value = 'no such thing';"
             " i.dispatchEvent(new Event('input', {bubbles: true})); })()")
    page.wait_for("document.body.innerText.includes('No Need matches') && location.search.includes('no+such+thing')")
    page.run("history.back()")
    page.wait_for("location.pathname === '/topology'")
    page.run("[...document.querySelectorAll('nav a')].find(a => a.textContent === 'Store').click()")
    page.wait_for("document.querySelector('[data-form=browse] input')")
    page.run("(() => { const f = document.querySelector('[data-form=browse]'); f.prefix.value = 'app/'; f.requestSubmit(); })()")
    page.wait_for("[...document.querySelectorAll('code')].some(c => c.textContent === 'app/config')", "the key")
    check(page.run("location.search") == "?prefix=app%2F", page.run("location.href"))  # a view is an address, keys too
    check(page.run("window.sameDocument") is True, "one page, one stream")
    asked = [url for url in page.requests() if url.endswith("/api/raft")]  # all topics again after a stream that was lost
    check(len(asked) < 10, f"it is sent, it does not ask again and again: {asked}")
    page.open(dev.base + "/store?prefix=app%2F")
    page.wait_for("[...document.querySelectorAll('code')].some(c => c.textContent === 'app/config')", "the same keys by their address")
    page.open(dev.base + "/raft")  # the first stop of the keyboard, then the next
    page.wait_for(card("Committed"))
    page.key("Tab")
    check(page.run("document.activeElement.className") == "skip", page.run("document.activeElement.outerHTML"))
    page.key("Enter", text="\r")
    page.wait_for("document.activeElement.id === 'view'", "the content has the focus")
    quiet(dev, page)
    page.close()


def acts(dev, browser):
    page = browser.page(1280, 900)
    page.open(dev.base + "/raft")
    leader = page.wait_for(f"(v => v !== 'none' && v)({card('Leader')})")
    press(page, "Make leader")
    page.wait_for("document.getElementById('toasts').textContent.includes('admin token')", "a word that it is locked")
    status = page.run("fetch('/api/actions', {method: 'POST', headers: {'Content-Type': 'application/json'}, body:"
                      " JSON.stringify({action: 'transfer-leadership', replica: 'node-1', confirm: true})}).then(a => a.status)")
    check(status == 401, f"{status}")
    for token, good in (("wrong-token-0123456789", False), (dev.token, True)):
        press(page, "Read-only")
        page.wait_for("document.querySelector('dialog[open] input[type=password]')")
        page.run(f"document.querySelector('dialog input').value = '{token}'")
        press(page, "Unlock", "document.querySelector('dialog')")
        page.wait_for("document.getElementById('admin').textContent === 'Admin'" if good
                      else "document.getElementById('toasts').textContent.includes('not right')")

    # To one of the others by name: a leader that loses its term meanwhile, or an answer that is lost, is no verdict.
    target = "node-2" if leader == "node-1" else "node-1"
    button = f"document.querySelector('[data-do=transfer][data-name={target}]')"

    def leads():
        if page.run(card("Leader")) == target:
            return True
        if page.run(f"!document.querySelector('dialog[open]') && {button} && ({button}.click(), true)"):
            press(page, "Hand over", "document.querySelector('dialog')")
            page.wait_for("document.getElementById('toasts').textContent.includes('transfer-leadership')", "how it ended")
        return False
    wait_for(target + " leads", leads)
    page.wait_for("document.querySelectorAll('[data-do=transfer]').length > 0")
    if SHOTS:
        page.screenshot(os.path.join(SHOTS, "raft-admin.png"))
    quiet(dev, page, allowed=("401",))


def in_a_browser():
    """Every view against a live fleet, wide and narrow; numbers move, filters filter, one action with and without the token."""
    if SHOTS:
        os.makedirs(SHOTS, exist_ok=True)
    with Dev() as dev, Browser(os.path.join(dev.dir, "chromium")) as browser:
        dev.ready()
        first_page(dev, browser)
        every_view(dev, browser)
        live_and_linked(dev, browser)
        claimed(dev, browser)
        by_keyboard(dev, browser)
        acts(dev, browser)
        dev.process.send_signal(signal.SIGINT)
        check(dev.process.wait(90) == 0, "a clean end")


if not find():
    print("1..0 # SKIP no chromium here; scripts/setup installs it")
    sys.exit(0)
run_cases([in_a_browser], "")
