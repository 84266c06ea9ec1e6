#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All three replicas lose power at once, at any moment: acknowledged writes are there afterwards.

A life of the cluster is recorded call by call (disk_journal.h). For chosen steps the test makes disks that a
power cut at that step could have left (power.py), starts the replicas on them, and checks everything that a
client had received before that moment.

usage: test_log_power.py MUSTER_LOG DISK_SHIM [PART OF A CASE'S NAME] [--long]    (prints TAP)
"""
import copy
import os
import random
import shutil
import subprocess
import threading
import time

import power
from cluster import (LONG, PATIENCE, PROGRAM, SEED, SHIM, Client, Cluster, Gone, check, fields, run_cases,
                     wait_for)

SMALL = ["--segment-size", "1MiB", "--snapshot-entries", "40", "--snapshot-every", "50ms",
         "--trailing-entries", "10"]
TIMING = ("--election", "100ms", "--heartbeat", "20ms")
ABSENT = None
SHOWN = 1024  # bytes of a value that `get` shows; the rest is in the hash of the state


class Heard:
    """What clients received, and when: (ns, key, value or ABSENT), (ns, index), (ns, term of a leader)."""

    def __init__(self, before=None):
        self.facts = [(0, key, value) for key, value in before.keys.items()] if before else []
        self.indexes = [(0, before.index)] if before else []
        self.terms = [(0, before.term)] if before else []
        self.tried = dict(before.tried) if before else {}

    def leads(self, status):
        self.terms.append((time.monotonic_ns(), int(status["term"])))

    def acknowledged(self, answer, key, value):
        now = time.monotonic_ns()
        self.facts.append((now, key, value))
        self.indexes.append((now, int(fields(answer)["index"])))

    def until(self, ns):
        return Known({key: value for at, key, value in self.facts if at < ns},
                     max((index for at, index in self.indexes if at < ns), default=0),
                     max((term for at, term in self.terms if at < ns), default=0), self.tried)


class Known:
    def __init__(self, keys, index, term, tried):
        self.keys, self.index, self.term, self.tried = keys, index, term, tried


class Writers:
    """Keys that are written once, by several clients, until stopped."""

    def __init__(self, cluster, heard, name, count=3):
        self.cluster, self.heard, self.name, self.halt, self.wrong = cluster, heard, name, False, []
        self.threads = [threading.Thread(target=self.guard, args=(n,), daemon=True) for n in range(count)]
        for thread in self.threads:
            thread.start()

    def guard(self, number):
        try:
            self.write(number, random.Random(f"{SEED} {self.name} {number}"))
        except Exception as error:  # reported by progress
            self.wrong.append(repr(error))

    def write(self, number, rng):
        clients = [Client(node.text, 2.0) for node in self.cluster.nodes.values()]
        client, count = rng.choice(clients), 0
        while not self.halt:
            key, value = f"{self.name}-{number}-{count}", f"{rng.getrandbits(40):x}" + "x" * rng.choice((9, 99, 999, 9999, 29999))
            try:
                client.connect()
                count += 1
                self.heard.tried[key] = value[:SHOWN]
                answer = client.ask(f"set {key} {value}")
                if answer.startswith("ok"):
                    self.heard.acknowledged(answer, key, value[:SHOWN])
                    continue
            except (Gone, OSError):
                pass
            client = rng.choice(clients)
            time.sleep(0.005)

    def progress(self, more):
        mark = len(self.heard.indexes)
        wait_for("progress", lambda: self.wrong or len(self.heard.indexes) >= mark + more)
        check(not self.wrong, self.wrong)

    def stop(self):
        self.halt = True
        for thread in self.threads:
            thread.join(PATIENCE)


class Life:
    """The replicas of `cluster` from start to the end of everybody; afterwards `steps` is what their disks
    went through."""

    def __init__(self, cluster, before=None):
        self.cluster, self.heard = cluster, Heard(before)
        self.disks, self.journals, self.steps = {}, {}, []
        for number, node in cluster.nodes.items():
            self.disks[number] = power.Disk(node.dir)
            self.journals[number] = node.dir + ".journal"
            node.flag = node.dir + ".kill"
            node.environment = {"LD_PRELOAD": SHIM, "MUSTER_TEST_DISK_JOURNAL": self.journals[number],
                                "MUSTER_TEST_DISK_KILL": node.flag, "ASAN_OPTIONS":
                                os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
            if os.path.exists(self.journals[number]):
                os.remove(self.journals[number])

    def start(self):
        for node in self.cluster.nodes.values():
            node.start(wait=False)
        for node in self.cluster.nodes.values():
            line = node.process.stdout.readline().decode()
            check(line.startswith("node "), f"replica {node.number} did not start: {node.tail()}")

    def leader(self):
        """Records only the term of a replica that reports itself as leader: other terms may never have reached a disk."""
        def look():
            leader = self.cluster.leader()
            status = leader.status()
            if status["role"] != "leader":
                return None
            self.heard.leads(status)
            return leader
        return wait_for("a leader that stays for a moment", look)

    def end(self):
        for node in self.cluster.nodes.values():
            node.signal(9)
        for node in self.cluster.nodes.values():
            node.wait_end()
        self.steps = power.merged(self.journals)

    def cuts(self, chosen):
        """For each chosen number of steps: the facts known then, with the disks as after so many steps."""
        done = 0
        for at in sorted(chosen):
            for _, whose, record in self.steps[done:at]:
                self.disks[whose].apply(record)
            done = at
            yield at, self.heard.until(self.steps[at][0] if at < len(self.steps) else 1 << 63)


def busy_life(life, writes):
    """From nothing: founding, load, snapshots, one that dies and is sent a snapshot, another leader."""
    life.start()
    life.leader()
    writers = Writers(life.cluster, life.heard, "a")
    try:
        writers.progress(writes)
        victim = next(node for node in life.cluster.nodes.values() if node is not life.cluster.leader())
        open(victim.flag, "w", encoding="ascii").close()
        check(victim.wait_end() == -9, victim.tail())
        os.remove(victim.flag)
        journal_is_whole(life, victim)
        writers.progress(writes)
        victim.start()
        reached = int(life.leader().status()["applied"])
        wait_for("it caught up", lambda: int((victim.try_status() or {"applied": 0})["applied"]) >= reached)
        life.leader().ask("transfer")
        life.leader()
        writers.progress(writes // 2)
    finally:
        writers.stop()
    life.end()


def journal_is_whole(life, node):
    """Done again from the journal, everything is as the process left it: no change went past the shim."""
    disk, copy_dir = copy.deepcopy(life.disks[node.number]), node.dir + ".copy"
    for record in power.journal(life.journals[node.number]):
        disk.apply(record)
    disk.image(copy_dir, "all", random.Random(SEED))
    was, rebuilt = power.tree(node.dir), power.tree(copy_dir)
    wrong = [path for path in was.keys() | rebuilt.keys() if was.get(path) != rebuilt.get(path)]
    check(was and not wrong, f"not as the journal of {node.number} says: {sorted(wrong)}")


def revive(cluster, known, place):
    """Starts the replicas on the disks that are there and demands what was known; the life of that."""
    life = Life(cluster, known)
    for node in cluster.nodes.values():
        if os.path.exists(os.path.join(node.dir, "FORMAT")):
            done = subprocess.run([PROGRAM, "check", node.dir], capture_output=True, text=True, check=False)
            check(done.returncode == 0, f"{place}: replica {node.number}: {done.stdout}{done.stderr}")
    life.start()
    life.leader()
    term = life.heard.terms[-1][1]
    check(term > known.term, f"{place}: leads in term {term}, there was a leader of term {known.term}")
    keys = list(known.tried)
    for start in range(0, len(keys), 200):
        part = keys[start:start + 200]
        answers = ask_all(life, [f"get {key}" for key in part])
        for key, answer in zip(part, answers):
            found = answer.split(" value ", 1)[1] if answer.startswith("ok") else ABSENT
            if key in known.keys:
                check(found == known.keys[key], f"{place}: {key} was {short(known.keys[key])}, is '{short(answer)}'")
            else:
                check(found in (ABSENT, known.tried[key]), f"{place}: {key} is '{short(answer)}'")
            life.heard.facts.append((time.monotonic_ns(), key, found))
    for _ in range(3):
        key = f"r{time.monotonic_ns()}"
        life.heard.tried[key] = "new"
        answer = ask_all(life, [f"set {key} new"])[0]
        index = int(fields(answer)["index"])
        check(index > known.index, f"{place}: index {index} is given again, {known.index} was acknowledged")
        life.heard.acknowledged(answer, key, "new")
    cluster.agree()
    return life


def ask_all(life, lines):
    """The leader's answers; all lines are asked again when it cannot answer."""
    def once():
        try:
            client = life.leader().client
            client.send("\n".join(f"#{n} {line}" for n, line in enumerate(lines)))
            got = dict(client.receive(10).split(" ", 1) for _ in lines)
        except (Gone, OSError):
            return None
        answers = [got[f"#{n}"] for n in range(len(lines))]
        return None if any(answer.startswith("err") for answer in answers) else answers
    return wait_for(lines[0][:40], once)


def short(text):
    return str(text)[:80]


def cut(life, form, rng):
    """All disks become what a cut now leaves; `mixed` is another form for each."""
    for number, node in life.cluster.nodes.items():
        life.disks[number].image(node.dir, rng.choice(power.FORMS) if form == "mixed" else form, rng)


def try_cuts(life, chosen, forms, again=0):
    """Cuts the life at the chosen steps, in each form that `forms(at)` names; `again`: so many of each revival
    are cut once more."""
    cluster, made = life.cluster, 0
    for at, known in life.cuts(chosen):
        for form in forms(at):
            place = f"cut at step {at} of {len(life.steps)}, {form}"
            rng = random.Random(f"{SEED} {place}")
            cut(life, form, rng)
            second = revive(cluster, known, place)
            second.end()
            made += 1
            for later, known_later in second.cuts(rng.sample(range(len(second.steps)), again)):
                deeper = f"{place}, again at {later} of {len(second.steps)}"
                cut(second, rng.choice(("none", "order", "any", "mixed")), rng)
                revive(cluster, known_later, deeper).end()
                made += 1
    return made


def spread(rng, count, parts):
    """One of each of so many equal parts."""
    return sorted({min(count, int((n + rng.random()) * (count + 1) / parts)) for n in range(parts)})


def with_cluster(body):
    """On failure the disks and journals are kept, for a look."""
    cluster = Cluster(PROGRAM, 3, SMALL, name="power", timing=TIMING)
    try:
        body(cluster)
    except BaseException as error:
        if "MUSTER_TEST_MUTANT" not in os.environ:
            shutil.copytree(cluster.dir, f"{cluster.dir}-failed")
            print(f"# kept in {cluster.dir}-failed")
        cluster.__exit__(type(error), error, None)
        raise
    cluster.__exit__(None, None, None)


def over_a_life():
    """Cuts spread over a whole life of three replicas, each in another form."""
    def body(cluster):
        rng = random.Random(SEED)
        life = Life(cluster)
        busy_life(life, 120 if LONG else 60)
        forms = ["none", "order", "any", "mixed"]
        rng.shuffle(forms)
        chosen = spread(rng, len(life.steps), 60 if LONG else 6)
        made = try_cuts(life, chosen, lambda at: forms if LONG else [forms[chosen.index(at) % 4]])
        print(f"# {len(life.steps)} steps, {len(life.heard.indexes)} writes acknowledged, {made} cuts")
    with_cluster(body)


def again():
    """The power goes again while the replicas come back from the first cut."""
    def body(cluster):
        rng = random.Random(SEED + 1)
        life = Life(cluster)
        busy_life(life, 120 if LONG else 40)
        made = try_cuts(life, spread(rng, len(life.steps), 20 if LONG else 2),
                        lambda at: [rng.choice(("none", "order", "any"))], 3 if LONG else 1)
        print(f"# {len(life.steps)} steps, {made} cuts")
    with_cluster(body)


def at_every_step():
    """Cuts at every step of a short life, from the founding on."""
    def body(cluster):
        life = Life(cluster)
        life.start()
        life.leader()
        writers = Writers(cluster, life.heard, "s")
        try:
            writers.progress(30 if LONG else 5)
        finally:
            writers.stop()
        life.end()
        steps = [at for at, step in enumerate(life.steps) if step[2][1] != "b"]  # a sync begins: nothing changes
        steps = steps + [len(life.steps)] if LONG else random.Random(SEED).sample(steps, 5)
        made = try_cuts(life, steps, lambda at: ["none", "any"] if LONG else [("none", "any")[at % 2]])
        print(f"# {len(life.steps)} steps, {made} cuts")
    with_cluster(body)


if __name__ == "__main__":
    run_cases([over_a_life, again, at_every_step])
