#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes many small histories of a recorded one: each has the calls on one key or group, and every other one is falsified.

usage: corrupt.py COUNT SEED OUT_DIR FILE...

A falsified history may still be possible (a lost answer, a slower call): two judges must agree on it.
"""
import json
import os
import random
import sys

COUNT, SEED, OUT = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
RNG = random.Random(SEED)
DOUBTS = 3  # slots that were perhaps given: each may be any of them, and porcupine tries them all
PIECE = 80  # calls of one object, one after the other; more is not harder, only slower


def objects(path):
    """(call, answer or None) of each key, by time of call."""
    calls, answers = {}, {}
    with open(path, encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["e"] == "call" and line["op"] != "stale":
                calls[line["id"]] = line
            elif line["e"] == "done":
                answers[line["id"]] = line
    found = {}
    for call in sorted(calls.values(), key=lambda call: call["t"]):
        found.setdefault(call["key"], []).append((call, answers.get(call["id"])))
    return [rows for rows in found.values() if len(rows) > 20]


def piece(rows):
    """From the first call on, so that what came before is known."""
    doubts = 0
    for number, (call, answer) in enumerate(rows[:RNG.randint(20, PIECE)]):
        doubts += call["op"] == "acquire" and (not answer or answer["code"] == "EXISTS" and "wait" in call)
        if doubts > DOUBTS:
            return rows[:number]
    return rows[:number + 1]


def lie(rows):
    """One field of one answer, or a time, is not as it was; or a call is missing."""
    n = RNG.randrange(len(rows))
    call, answer = dict(rows[n][0]), rows[n][1] and dict(rows[n][1])
    other = RNG.choice(rows)[1]
    kind = RNG.choice(("field", "field", "field", "field", "lost", "missing", "late", "early", "code"))
    if kind == "missing":
        return rows[:n] + rows[n + 1:]
    if kind == "lost" or not answer:
        answer = None
    elif kind == "late":
        answer["t"] += RNG.choice((10**6, 10**8, 10**9))
    elif kind == "early":  # it cannot have been made so late
        call["t"] = RNG.randint(call["t"], answer["t"])
    elif kind == "code":
        answer["code"], answer["reason"] = RNG.choice((("OK", "none"), ("NOT_FOUND", "none"), ("CONFLICT", "absent"),
                                                       ("EXISTS", "full"), ("EXPIRED", "deadline")))
    else:
        for field in ("found", "rev", "token", "slot", "holders", "expected"):
            if other and field in answer and field in other and RNG.random() < 0.5:
                answer[field] = other[field]
    return rows[:n] + [(call, answer)] + rows[n + 1:]


def main():
    whole = [rows for path in sys.argv[4:] for rows in objects(path)]
    os.makedirs(OUT, exist_ok=True)
    for number in range(COUNT):
        rows = piece(RNG.choice(whole))
        if number % 2:
            rows = lie(rows)
        with open(os.path.join(OUT, f"{number:04}.ndjson"), "w", encoding="utf-8") as file:
            for call, answer in sorted(rows, key=lambda row: row[0]["t"]):
                file.write(json.dumps(call) + "\n")
                if answer:
                    file.write(json.dumps(answer) + "\n")


main()
