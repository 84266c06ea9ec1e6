#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`muster operator run` before a shard that a test plays: graces that end, orders given twice, frames nobody should send."""
import os
import re
import shutil
import tempfile

from fake_shard import FakeShard
from operators import PROTO_ROOT, Operator, check, request, run_cases, wait_for
from test_operator import TEMPLATE, alive, script


class World:
    """A played shard and one operator."""

    def __init__(self, demand=(), **how):
        self.dir, self.tls, self.shard = tempfile.mkdtemp(prefix="strange-"), None, FakeShard()
        self.operator = Operator(self, "cluster-a", 1, demand, **how)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.operator.running():
            self.operator.kill()
        self.shard.__exit__()
        if kind is None:
            shutil.rmtree(self.dir, ignore_errors=True)
        else:
            print("# " + self.operator.text()[-4000:].replace("\n", "\n# "), flush=True)


def order(instruction, machine, grace=600):
    return {"instruction_id": instruction, "nodes": [machine], "grace_period_seconds": grace, "preemptor_priority": 5}


def acked(instruction):
    return lambda frame: frame.HasField("reclaim_ack") and frame.reclaim_ack.instruction_id == instruction


def lines_of(path):
    """Whole ones; none before there is a file."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [line for line in file if line.endswith("\n")]


def begun(session, operator, late, ran):
    """An order with a short grace: acknowledged, and its command came so far as to write, or was it over before that?"""
    session.say(reclaim_instruction=order(f"aa{late}", f"m-a{late}", 2))
    wait_for("begun or over", lambda: (session.heard(acked(f"aa{late}")) and lines_of(ran)) or
             operator.metric("muster_operator_reclaims_expired_total") > late)
    return session.heard(acked(f"aa{late}")) and lines_of(ran)


def a_command_that_hangs_is_killed_with_all_it_started():
    """The grace ends it, whatever it does; it was acknowledged when it began, and again in the next session."""
    with World() as world:
        ran = os.path.join(world.dir, "ran")
        hangs = script(world, "hangs", f"trap '' TERM\nsleep 1000 &\necho $! $DRAIN_PREEMPTOR_PRIORITY >> {ran}\nsleep 1000\n")
        operator = world.operator.start("--drain-command", hangs)
        session = world.shard.wait_session()
        late = 0  # a machine that stops for two seconds lets an order expire before it is begun
        while not begun(session, operator, late, ran):
            late += 1
        operator.wait_metric("muster_operator_reclaims_expired_total", late + 1)
        before = lines_of(ran)
        pid, priority = before[-1].split()
        wait_for("nothing of it runs", lambda: not alive(int(pid)))
        check(priority == "5", priority)
        session.say(reclaim_instruction=order("bb", "m-2"))
        session.wait(acked("bb"))
        session.say(reclaim_instruction=order("bb", "m-2"))
        session.wait(acked("bb"), 2)  # ordered twice, begun once, acknowledged twice
        wait_for("it runs", lambda: len(lines_of(ran)) > len(before))
        session.end()
        session = world.shard.wait_session()
        session.wait(acked("bb"))
        session.say(reclaim_instruction=order("cc", "m-2"))  # a newer one for the same machine
        session.wait(acked("cc"))
        wait_for("the older ended", lambda: operator.metric("muster_operator_reclaims") == 1)
        wait_for("the newer runs", lambda: len(lines_of(ran)) >= len(before) + 2)
        check(len(lines_of(ran)) == len(before) + 2, f"each was run once: {lines_of(ran)}")
        check(operator.stop() == 0, "and it stops though a command hangs")


def frames_nobody_should_send():
    """Each is refused alone or ignored; the stream goes on, and what comes after is done."""
    with World([request("web", 3)]) as world:
        template = os.path.join(world.dir, "template")
        with open(template, "w", encoding="utf-8") as file:
            file.write(TEMPLATE)
        operator = world.operator.start("--bootstrap-template", template)
        session = world.shard.wait_session()
        for data in (b"\xff\xff", b"", b"\x0a\x02\x0a\xff", b"\xfa\x07\x01x"):
            session.say_bytes(data)
        session.say(bootstrap_request={"request_id": ""})
        session.say(reclaim_instruction=order("", "m"))
        session.say(reclaim_instruction={"instruction_id": "x", "nodes": []})
        session.say(reclaim_instruction=order("y", "m" * 300))
        session.say(node_state_update={"machine_id": "m-1", "state": 99, "labels": {"a": "b"}})
        session.say(node_state_update={"machine_id": ""})
        session.say(node_state_update={"machine_id": "m-2", "state": 5, "labels": {"k" * 400: "v"}})
        session.say(available_capacity={"supersedes_key": "available:x", "available_count": -3, "confidence": 77})
        session.say(bootstrap_request={"request_id": "no-type"})
        answer = session.wait(lambda frame: frame.bootstrap_response.request_id == "no-type")[0].bootstrap_response
        check("instance-type" in answer.error and not answer.user_data, f"{answer}")
        session.say(bootstrap_request={"request_id": "id", "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": 1, "values": ["m5.large"]}]})
        answer = session.wait(lambda frame: frame.bootstrap_response.request_id == "id")[0].bootstrap_response
        check(answer.user_data == b"#!/bin/sh\njoin cluster-a id m5.large any\n" and answer.ttl_seconds == 600, f"{answer}")
        wait_for("what could be used is shown", lambda: operator.nodes() == {"m-1": "Provisioning"})
        check(operator.metric("muster_operator_frames_refused_total") >= 6, "what could not is counted")
        session.say(reclaim_instruction=order("zz", "m-1"))  # nobody empties machines here: begun and ended at once
        session.wait(acked("zz"))
        rollup = session.wait(lambda frame: frame.HasField("rollup"))[0].rollup
        check(rollup.cluster_id == "cluster-a" and rollup.needs[0].aggregate_resources["cpu"] == "48", f"{rollup}")
        check(not session.over, "the same stream all along")


def what_cannot_begin_is_not_acknowledged():
    """An acknowledgement says that no new work goes there; a command that cannot be run has seen to nothing."""
    with World() as world:
        command = script(world, "broken", "exit 0\n")
        operator = world.operator.start("--drain-command", command)
        session = world.shard.wait_session()
        os.chmod(command, 0o600)
        session.say(reclaim_instruction=order("aa", "m-1"))
        operator.wait_metric("muster_operator_reclaims_failed_total")
        os.chmod(command, 0o700)
        session.say(reclaim_instruction=order("bb", "m-2"))
        session.wait(acked("bb"))
        check(not session.heard(acked("aa")), "acknowledged what never began")


def many_blobs_at_once():
    """A thousand requests in one breath are answered; none is answered twice."""
    with World() as world:
        world.operator.start()
        session = world.shard.wait_session()
        for number in range(1000):
            session.say(bootstrap_request={"request_id": f"r{number}"})
        dropped = "muster_operator_outbox_dropped_total"

        def all_told():
            answers = [f.bootstrap_response.request_id for f in session.heard(lambda f: f.HasField("bootstrap_response"))]
            check(len(answers) == len(set(answers)), "once each")
            return len(answers) + world.operator.metric(dropped) == 1000
        wait_for("answered, or dropped and counted", all_told)


def what_the_page_says_can_be_used():
    """Every demand file of docs/operators.md is taken, and becomes rows."""
    with open(os.path.join(PROTO_ROOT, "../docs/operators.md"), encoding="utf-8") as file:
        page = file.read()
    shown = re.findall(r"```toml\n(.*?)```", page, re.S) + re.findall(r"<<'END'\n(.*?)END\n", page, re.S)
    shown = [text for text in shown if "[[requests]]" in text]  # a catalogue is shown, too
    check(len(shown) >= 2, f"{len(shown)} are shown")
    with World() as world:
        world.operator.write("requests = []")
        world.operator.start()
        session = world.shard.wait_session()
        for number, text in enumerate(shown, 1):
            world.operator.write(text)
            names = text.count("[[requests]]")
            world.operator.wait_text(f"requests={names}", number)
            session.wait(lambda frame, names=names: len(frame.rollup.needs) == names)
        check(world.operator.metric("muster_operator_demand_file_errors_total") == 0, world.operator.text())


def a_shard_that_does_not_read():
    """What finds no room is not counted as sent, and goes when there is some; nothing is lost and nothing is in the way."""
    many = [request(f"r{n}", 1, types=[f"type-{n}"]) for n in range(20000)]
    with World(many) as world:
        world.shard.reading.clear()  # from the Hello on
        operator = world.operator.start()
        session = world.shard.wait_session()
        operator.wait_metric("muster_operator_rollups_unanswered_total", 3)
        world.operator.say(request("few", 1))
        operator.wait_text("requests=1")
        world.shard.reading.set()
        session.wait(lambda frame: len(frame.rollup.needs) == 1)
        heard = session.heard(lambda frame: frame.HasField("rollup"))
        check({len(frame.rollup.needs) for frame in heard} <= {1, 20000}, "each is whole")
        wait_for("as many heard as were sent", lambda: operator.metric("muster_operator_rollups_total") ==
                 len(session.heard(lambda frame: frame.HasField("rollup"))))


if __name__ == "__main__":
    run_cases([what_the_page_says_can_be_used, a_shard_that_does_not_read, a_command_that_hangs_is_killed_with_all_it_started,
               frames_nobody_should_send, what_cannot_begin_is_not_acknowledged, many_blobs_at_once])
