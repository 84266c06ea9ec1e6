# SPDX-License-Identifier: Apache-2.0
"""workers.md 24.1 and 24.2 over real coordinators: rollout's Beat as an unmodified worker sends it."""
import time

from workers import (ACTIVE, BEAT, DRAINING, INIT, MEMBER, PATIENT, READY, REMOVED, RUN, T5, T6, T7, Workers, beat,
                     beat_until, check, code_of, grpc, run_cases, wait_for)

INVALID, PRECONDITION = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
HOUR = 3600


def refused(channel, want, text, **fields):
    code, says, _ = code_of(lambda: beat(channel, **{"worker": T6, **fields}))
    check(code == want and text in says, f"{fields}: {code} {says!r}, wanted {want} {text!r}")
    return says


def wire_4_to_13():
    """24.1: the fields of a beat, and their faults (4-13, 30)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        answer, trailers = beat_until(channel, T6, state=READY, due=time.time() + 1)               # 4
        check(trailers["x-worker-incarnation"] == "1", f"30: {trailers}")
        check("x-coord-epoch" in trailers and "x-assignment-epoch" in trailers, f"30: {trailers}")
        check(answer.HasField("acknowledged_at_drift"), "4.2: how far the clocks are apart is reported")
        row = cluster.listed()[T6]
        check((row.phase, row.standing, row.incarnation, row.run_id) == (READY, ACTIVE, 1, RUN), f"4: {row}")
        beat_until(channel, T6, due=1700000000.123456)                                            # 5
        check(cluster.listed()[T6].due_at_ms == 1700000000123, f"5: {cluster.listed()[T6]}")
        says = refused(channel, INVALID, "invalid length", worker="w1")                            # 6
        check(says.startswith("worker_id: "), f"6: {says}")
        for letter in "IU":                                                                       # 7
            refused(channel, INVALID, "invalid character", worker=RUN[:-1] + letter)
        refused(channel, INVALID, "out of range", worker="8" + RUN[1:])
        beat_until(channel, T7.lower())                                                           # 8
        check(T7 in cluster.listed(), "8: reported in upper case")
        check(refused(channel, INVALID, "invalid length", run="").startswith("run_id: "), "9")     # 9
        says = refused(channel, PRECONDITION, T7, run=T7)                                          # 10
        check(RUN in says, f"10: both runs are named: {says}")
        for state in (0, 5, 99):                                                                  # 11
            beat_until(channel, T5, state=state)
            check(cluster.listed()[T5].phase == INIT, f"11: {state}: {cluster.listed()[T5]}")
        beat_until(channel, T5, due=False)                                                        # 12
        row = cluster.listed()[T5]
        check(abs(row.due_at_ms - row.received_at_ms) < 120000, f"12: {row}")
        beat_until(channel, T5, due=-5.0)                                                         # 13
        wait_for("13: clock_skew", lambda: [e for e in cluster.events("clock_skew") if e["worker_id"] == T5])
        check(cluster.listed()[T5].standing == ACTIVE, "13: and it is not failed for it")


def load_29():
    """24.1: an invalid load is ignored, its beat is accepted (29)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        channel = cluster.nodes[0].dialed()
        beat_until(channel, T6, metadata=[("x-worker-load", "0.42")])
        beat_until(channel, T6, metadata=[("x-worker-load", "0.42")])
        check(abs(cluster.listed()[T6].load - 0.42) < 0.001, f"29: {cluster.listed()[T6]}")
        for bad in ("1.5", "nan", "x"):
            beat_until(channel, T6, metadata=[("x-worker-load", bad)])
        check(abs(cluster.listed()[T6].load - 0.42) < 0.001, f"29: {cluster.listed()[T6]}")


def states_31_to_44():
    """24.2: registered, restarted, gone, and there again after a restart of ours (31-37, 44)."""
    with Workers(1) as cluster:
        cluster.start().formed()
        node = cluster.nodes[0]
        channel = node.dialed()
        beat_until(channel, T6, state=INIT)                                                       # 31
        wait_for("31: events", lambda: "worker_heartbeat" in cluster.reported(T6))
        check(cluster.reported(T6)[:2] == ["worker_registered", "worker_heartbeat"], f"31: {cluster.reported(T6)}")
        beat_until(channel, T7, state=DRAINING)                                                   # 37
        check(T7 not in cluster.listed() and not cluster.reported(T7), "37: last words make no worker")
        beat_until(channel, T6, state=READY)
        check(cluster.listed()[T6].incarnation == 1, "35: the same incarnation")
        beat_until(channel, T6, state=INIT)                                                       # 44
        check(cluster.listed()[T6].incarnation == 2, f"44: {cluster.listed()[T6]}")
        wait_for("44: worker_restarted", lambda: "worker_restarted" in cluster.reported(T6))
        answer = cluster.member("Register", worker_id=T5, run_id=RUN, instance="ab" * 16, fences_itself=True)  # 33
        again = cluster.member("Register", worker_id=T5, run_id=RUN, instance="ab" * 16, fences_itself=True)
        check(answer == again and answer.incarnation == 1, f"33: {answer} {again}")
        check(cluster.reported(T5).count("worker_registered") <= 1, f"33: {cluster.reported(T5)}")
        node.stop()                                                                               # 32
        node.start()
        wait_for("32: the registry is intact", lambda: set(cluster.listed()) == {T5, T6})
        check(cluster.listed()[T6].incarnation == 2, "32: and incarnations are")
        cluster.member("Leave", worker_id=T5, incarnation=1)                                       # 34
        check(T5 not in cluster.listed() and T5 in cluster.listed(REMOVED), "34: it has left")
        wait_for("34: worker_deregistered", lambda: "worker_deregistered" in cluster.reported(T5))
        answer, code, text, _ = cluster.asked(MEMBER + "Leave", worker_id=T7, incarnation=1)
        check(code == grpc.StatusCode.NOT_FOUND, f"an unknown worker: {code} {text}")


def followers_23():
    """24.1: any replica that a worker meets answers for the leader (23)."""
    with Workers(3, options=PATIENT) as cluster:
        cluster.start().formed()
        leader = cluster.leader()
        for number, node in enumerate(cluster.others(leader)):
            worker = (T6, T7)[number]
            answer, trailers = beat_until(node.dialed(), worker, state=INIT)
            check(trailers["x-worker-incarnation"] == "1", f"{trailers}")
            beat_until(node.dialed(), worker, state=READY)
            check(cluster.listed()[worker].phase == READY, f"23: {cluster.listed()}")
            answer = node.call(MEMBER + "Register", worker_id=worker, run_id=RUN, instance="cd" * 16, fences_itself=True)
            check(answer.incarnation, "a call is passed on, too")
            check(refused(node.dialed(), grpc.StatusCode.ALREADY_EXISTS, "is in use by another process, heard",
                          worker=worker, metadata=[("x-worker-instance", "ef" * 16)]), "a second process of the id")
            _, code, text, _ = cluster.asked(MEMBER + "Register", worker_id=worker, run_id=RUN, instance="ef" * 16)
            check(code == grpc.StatusCode.ALREADY_EXISTS and "is in use" in text, f"{code} {text}")
            check(cluster.listed()[worker].incarnation == answer.incarnation, "the first stays")
        check(refused(cluster.others(leader)[0].dialed(), INVALID, "invalid length", worker="w1"), "and refused there")
        cluster.agree()


run_cases([wire_4_to_13, load_29, states_31_to_44, followers_23])
