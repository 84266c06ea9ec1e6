#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules for Prometheus and the dashboard for Grafana name existing metrics and labels.

usage: test_alerts.py SOURCE MUSTER            (prints TAP)
       test_alerts.py SOURCE MUSTER --write    makes docs/metrics.md anew

A fleet is started by `muster dev` and its metrics are read as Prometheus would. Shows: every metric, label and label value
of an expression is exposed by some process; docs/metrics.md lists every metric; each alert has its section in docs/alerts.md, and both of its tests."""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request

from tap import judge, ok

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration/log"))
from cluster import PATIENCE, Failed, wait_for  # noqa: E402

try:
    import yaml
except ImportError as missing:
    print(f"1..0 # SKIP {missing}")
    sys.exit(0)

SOURCE, MUSTER = (os.path.abspath(path) for path in sys.argv[1:3])
ALONE = f"127.231.{os.getpid() >> 8 & 255}.{os.getpid() & 255}:7791"  # an address of this process' own
FOREIGN = {"up": {"job", "instance"}}  # Prometheus' own
ADDED = {"job", "instance"}            # by Prometheus, to every series
WORDS = set("""sum count max min avg by on without and or unless rate increase histogram_quantile time group_left ignoring
            label_values bool""".split())
# Series that appear when it happens the first time, so a fleet that is well does not show their values.
LATER = {("muster_coordinator_exports_total", "outcome"), ("muster_member_failures_total", "reason")}
FACTS = {}      # family -> (type, help), as the processes say
PLURAL = re.compile(r"_(bucket|sum|count)$")


def load(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


RULES = [rule for group in yaml.safe_load(load("deploy/prometheus/rules.yml"))["groups"] for rule in group["rules"]]
BOARD = json.loads(load("deploy/grafana/muster.json"))


def expressions():
    """The place and the expression of each alert and panel."""
    for rule in RULES:
        yield rule["alert"], rule["expr"]
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']!r}", target["expr"]
    for variable in BOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]


def selectors(expression):
    """Each metric with its matchers, [(label, operator, value)], and the labels that are grouped by."""
    found, grouped = [], set()
    rest = re.sub(r"\[[^]]*\]", "", expression)
    for clause in re.findall(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)", rest):
        grouped |= {word.strip() for word in clause.split(",")}
    rest = re.sub(r"\b(?:by|on|without|ignoring)\s*\([^)]*\)", " ", rest)
    if rest.startswith("label_values("):
        rest, label = rest[len("label_values("):-1].rsplit(",", 1)
        grouped.add(label.strip())
    for name, matchers in re.findall(r"([a-zA-Z_:][\w:]*)\s*(\{[^}]*\})?", re.sub(r'"[^"]*"(?![^{]*\})', "", rest)):
        if name not in WORDS and not re.fullmatch(r"e\d+", name):
            found.append((name, re.findall(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"', matchers or "")))
    return found, grouped - {"le"}


class Running:
    """A muster with its output in a file; it ends with this block."""

    def __init__(self, home, name, *words):
        self.log, environment = os.path.join(home, name + ".log"), {"PATH": os.environ["PATH"]}
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", MUSTER, *words, "--data-dir",
                                             os.path.join(home, name)],
                                            stdout=out, stderr=subprocess.STDOUT, env=environment, cwd=home)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    def says(self, pattern):
        """All that it printed, once a line of it matches."""
        def look():
            with open(self.log, encoding="utf-8", errors="replace") as file:
                text = file.read()
            if self.process.poll() is not None:
                raise RuntimeError("it ended: " + text[-2000:])
            return text if re.search(pattern, text, re.M) else None
        return wait_for(pattern, look)


def exposed():
    """Family -> label -> values: every process of a small fleet, and a coordinator that exports, which those do not."""
    with tempfile.TemporaryDirectory(prefix="muster-alerts-") as home, \
            Running(home, "dev", "dev", "--free-ports", "--replicas", "1", "--shards", "1", "--workers", "1",
                    "--http-listen",
                    "127.0.0.1:0") as fleet, \
            Running(home, "exports", "coordinator", "run", "--listen", "127.0.0.1:0", "--raft-bind", ALONE,
                    "--http-listen",
                    "127.0.0.1:0", "--snapshot-export-dir", home + "/export") as coordinator:
        text = fleet.says(r"^ready$")
        addresses = set(re.findall(r"http://(127\.0\.0\.1:\d+)", text[text.index("  NAME "):]))
        addresses |= set(re.findall(r"\bhttp=(127\.0\.0\.1:\d+)", coordinator.says(r"\bhttp=127")))
        # The last to come: an operator listens later than "ready" is said, some series begin with the first cycle.
        last = []

        def all_there():
            last[:] = [scraped(addresses)]
            return last[0] and not any(wrong(last[0], expression) for _, expression in expressions())
        try:
            wait_for("every metric", all_there)
        except Failed:
            pass  # which one is said below
    return last[0]


def scraped(addresses):
    """None while one of them does not answer."""
    families = {}
    try:
        for address in sorted(addresses):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE) as answer:
                read_metrics(answer.read().decode(), families)
    except (OSError, http.client.HTTPException):
        return None
    return families


def read_metrics(text, families):
    for line in text.splitlines():
        declared = re.match(r"# (TYPE|HELP) (\S+) (.*)", line)
        if declared:
            what, name, text_of = declared.groups()
            families.setdefault(name, {})
            FACTS.setdefault(name, {})[what] = text_of
            continue
        series = re.match(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ", line)
        if series is None or line.startswith("#"):
            continue
        name = series.group(1)
        family = families.get(name, families.get(PLURAL.sub("", name)))
        for label, value in re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', series.group(2) or ""):
            family.setdefault(label, set()).add(value)


def wrong(families, expression):
    """Why an expression could never match; None when it can."""
    found, grouped = selectors(expression)
    if not found:
        return "no metric in it"
    labels_of = []
    for name, matchers in found:
        if name in FOREIGN:
            labels_of.append(FOREIGN[name])
            continue
        family = families.get(name, families.get(PLURAL.sub("", name)))
        if family is None:
            return f"no process exposes {name}"
        labels_of.append(set(family) | ADDED)
        for label, operator, value in matchers:
            if label in ADDED:
                continue
            wanted = re.split(r"\|", value) if "~" in operator else [value]
            if label not in family and (name, label) not in LATER:
                return f"{name} has no label {label}"
            missing = [one for one in wanted if one not in family.get(label, ())]
            if missing and (name, label) not in LATER:
                return f"{name}{{{label}}} is never {missing}; it is {sorted(family[label])}"
    strange = [label for label in grouped if not any(label in labels for labels in labels_of)]
    return f"nothing in it has the label {strange}" if strange else None


def every_metric_exists():
    families = exposed()
    ok(len(families) > 150, f"{len(families)} metrics are exposed")
    for where, expression in expressions():
        why = wrong(families, expression)
        ok(why is None, where, f"{why}\n{expression}")
    # That this test can fail:
    for bad in ("muster_loop_silense_seconds > 5", "rate(muster_log_dropped_total{wy=\"unread\"}[5m])",
                "bigfleet_coordinator_apply_total{outcome=\"eror\"}",
                "sum by (shrad) (bigfleet_coordinator_pending_instructions)",
                "nonsense > 1"):
        ok(wrong(families, bad), f"refused: {bad}")
    page, rows = read_page(), metric_rows(families)
    # Not its labels: a series appears when it is counted the first time.
    stale = [name for name, row in rows.items() if name not in page or page[name][::2] != row[::2]]
    ok(not stale, "docs/metrics.md lists each metric as it is",
       f"make it anew with {os.path.relpath(__file__, SOURCE)} SOURCE MUSTER --write: {stale}")


def metric_rows(families):
    """name -> type, labels, help"""
    return {name: (FACTS[name]["TYPE"], set(families[name]) - {"le"}, FACTS[name].get("HELP", "")) for name in families
            if name.startswith(("muster_", "bigfleet_"))}


def read_page():
    try:
        page = load("docs/metrics.md")
    except FileNotFoundError:
        return {}
    return {name: (kind, set(re.findall(r"`(\w+)`", labels)), text) for name, kind, labels, text in
            re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.*) \|$", page, re.M)}


def write_page():
    """Families that no process of `muster dev` has (a Kubernetes operator's) keep their rows, and labels without a series
    at this moment stay."""
    rows, before = metric_rows(exposed()), read_page()
    for name, (kind, labels, text) in before.items():
        if name in rows:
            kind, text = rows[name][0], rows[name][2]
            labels = labels | rows[name][1]
        rows[name] = (kind, labels, text)
    with open(os.path.join(SOURCE, "docs", "metrics.md"), "w", encoding="utf-8") as file:
        file.write("# Metrics\n\nEvery metric of every process, as `/metrics` describes it; made by a script and checked by a test. "
                   "[Observability](observability.md) says\nwhich of them to watch, [alerts](alerts.md) what to do.\n\n"
                   "| metric | type | labels | meaning |\n|---|---|---|---|\n")
        for name, (kind, labels, text) in sorted(rows.items()):
            file.write(f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in sorted(labels))} | {text} |\n")


def each_alert_has_its_page():
    page = load("docs/alerts.md")
    headings = re.findall(r"^### (\w+)$", page, re.M)
    names = [rule["alert"] for rule in RULES]
    ok(len(names) == len(set(names)), "no alert twice", names)
    ok(headings == names, "docs/alerts.md has a section for each, in their order", set(headings) ^ set(names)
       or headings)
    for rule in RULES:
        notes = rule["annotations"]
        ok(notes["runbook"] == "docs/alerts.md#" + rule["alert"].lower() and notes["summary"]
           and rule["labels"]["severity"] in ("critical", "warning", "info")
           and f"| [{rule['alert']}](#{rule['alert'].lower()}) | {rule['labels']['severity']} |" in page,
           f"{rule['alert']} says how bad it is and where to read on", rule)
    tests = [test["name"] for test in yaml.safe_load(load("deploy/prometheus/rules_test.yml"))["tests"]]
    wanted = [f"{name} {how}" for name in names for how in ("fires", "stays quiet")]
    ok(tests == wanted, "each has a test that it fires and one that it does not", set(tests) ^ set(wanted))


def links_lead_somewhere():
    for target in sorted(set(re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", load("docs/alerts.md")))):
        ok(os.path.exists(os.path.join(SOURCE, "docs", target)), f"docs/alerts.md links to {target}")


def the_board_is_whole():
    ids = [panel["id"] for panel in BOARD["panels"]]
    ok(len(ids) == len(set(ids)), "panels of Grafana's dashboard have ids of their own")
    places = {}
    for panel in BOARD["panels"]:
        at = panel["gridPos"]
        for x in range(at["x"], at["x"] + at["w"]):
            for y in range(at["y"], at["y"] + at["h"]):
                places.setdefault((x, y), []).append(panel["title"])
    over = [titles for titles in places.values() if len(titles) > 1]
    ok(not over and max(x for x, _ in places) < 24, "and no two lie over each other", over[:3])


if "--write" in sys.argv:
    write_page()
    sys.exit()
judge(each_alert_has_its_page, links_lead_somewhere, the_board_is_whole, every_metric_exists)
