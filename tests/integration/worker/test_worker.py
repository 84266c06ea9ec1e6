# SPDX-License-Identifier: Apache-2.0
"""A worker process before a coordinator that says what the test wants: cases of workers.md 24.5, 24.14 and 24.15."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

import grpc
from fake_coordinator import DRAINING, INIT, READY, RUNNING, FakeCoordinator, make_authority
from runs import DRIVER, EXAMPLES, PLUGINS, RUN, World, check, run_cases, totals_of, wait_for
from s3_server import Store

LINES = [f"key{number % 7} {number}" for number in range(3000)]
FENCE = {"transport__worker_self_fence_timeout": "1s", "transport__coordinator_failure_timeout": "2s"}


class Scene(World):
    """A world with one coordinator."""

    def __init__(self):
        super().__init__()
        make_authority(self.tls)
        self.coordinator = FakeCoordinator(self.tls)

    def worker(self, *arguments, **settings):
        return super().worker([self.coordinator.address], *arguments, **settings)

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.coordinator.stop()


def processes(*words):
    """Numbers of processes whose command line holds all of them."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                line = file.read().decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            found.append(int(path.split("/")[2]))
    return found


def pause_unless_fenced(scene, worker):
    """Pauses a worker, unless a slow machine has fenced it already."""
    worker.pause()
    while worker.text().rfind("fenced:") > worker.text().rfind("worker registered"):
        worker.resume()
        scene.coordinator.wait_beats()
        worker.pause()


def beats_registers_and_drains():
    """Init at once, Ready when it has registered, and SIGTERM is a drain: 217, 20, 21"""
    with Scene() as scene:
        coordinator = scene.coordinator
        for partition in (2, 5, 9):
            scene.feed(partition, LINES)
        worker = scene.worker().start()
        coordinator.wait_state(READY)
        states = coordinator.states()
        check(states[0] == INIT and READY not in states[:states.index(READY)], f"states {states}")
        beat, metadata, identity = coordinator.beats[-1]
        check(beat.worker_id == worker.id and beat.run_id == RUN, str(beat))
        check(len(metadata["x-worker-instance"]) == 32 and metadata["x-worker-incarnation"] == "1", str(metadata))
        check(identity == "worker-" + worker.id, f"certificate of '{identity}'")
        register = coordinator.registrations[0]
        check(register.fences_itself and register.instance == metadata["x-worker-instance"], str(register))
        coordinator.grant({2: 1, 5: 1, 9: 1})
        worker.wait_says("a partition is claimed", 3)
        coordinator.wait_state(RUNNING)
        worker.stop()
        check(DRAINING in coordinator.states(), "no beat said so")
        check(sorted(one.partition for one in coordinator.revoked) == [2, 5, 9], str(coordinator.revoked))
        check(len(coordinator.leaves) == 1 and coordinator.leaves[0].incarnation == 1, str(coordinator.leaves))
        for one in coordinator.revoked:
            # What was read by then is in the checkpoint that was named.
            record = scene.record(one.partition)
            check(one.checkpoint.endswith("#" + record["checkpoint_id"]) or not one.checkpoint, one.checkpoint)
            read = sum(count for count, _ in scene.totals(one.partition).values())
            check(scene.totals(one.partition) == totals_of(LINES[:read]), f"totals of {read} lines")


def totals_over_kills():
    """Killed at any time, the successor goes on at the checkpoint: totals as of a run that never ended"""
    with Scene() as scene:
        coordinator, want = scene.coordinator, totals_of(LINES)
        scene.feed(4, LINES)
        first = scene.worker(process__rate=2000).start()
        coordinator.wait_state(READY)
        coordinator.grant({4: 1})
        wait_for("a checkpoint in the middle", lambda: coordinator.checkpoint()[0].get(4))
        middle = scene.record(4)
        first.kill()
        coordinator.grant({4: 2})
        second = scene.worker().start()
        second.wait_says("a partition is claimed")
        count = sum(count for count, _ in middle["node_snapshots"]["totals"].values())
        check(second.says(f"checkpoint={middle['checkpoint_id']} records={count}"), second.text())
        wait_for("the end", lambda: coordinator.checkpoint() and scene.totals(4) == want)
        check(scene.record(4)["worker_id"] == second.id and scene.record(4)["epoch"] == 2, str(scene.record(4)))
        scene.feed(4, LINES)
        wait_for("what was added", lambda: coordinator.checkpoint() and scene.totals(4) == totals_of(LINES + LINES))
        second.stop()


def a_paused_worker_fences_itself_first():
    """Stopped past its time and woken: fenced before it writes, and it registers anew: 89, 91, 94"""
    with Scene() as scene:
        coordinator = scene.coordinator
        scene.feed(1, LINES)
        worker = scene.worker(process__rate=500, **FENCE).start()
        coordinator.wait_state(READY)
        coordinator.grant({1: 1})
        wait_for("a checkpoint", lambda: coordinator.checkpoint()[0].get(1))
        pause_unless_fenced(scene, worker)
        before, instance = scene.record(1), coordinator.instance
        fences = worker.text().count("fenced:")
        time.sleep(1.5)  # past the fence, by its clock and ours
        coordinator.grant({})  # somebody else has it
        taken = subprocess.run([DRIVER, "file://" + scene.store, "1", "9", "other"], stdin=subprocess.DEVNULL, timeout=90,
                               capture_output=True, text=True, check=True).stdout
        check(taken.startswith("claimed"), taken)
        worker.resume()
        wait_for("the fence", lambda: worker.text().count("fenced:") > fences)
        wait_for("another registration", lambda: coordinator.instance != instance)
        text = worker.text()
        check("partition cannot start yet: retrying" not in text[text.rindex("fenced:"):], text)
        record = scene.record(1)
        check(record["epoch"] == 9 and record["checkpoint_id"] == before["checkpoint_id"], f"{before} then {record}")
        worker.stop()


def fenced_in_the_middle_of_a_job():
    """Stopped past its time while jobs end and begin all the time: nothing of them is kept: 89, 91"""
    with Scene() as scene:
        coordinator = scene.coordinator
        for partition in range(8):
            scene.feed(partition, 50 * LINES)
        worker = scene.worker(**FENCE).start()
        coordinator.wait_state(READY)
        for token in range(1, 5):
            coordinator.grant({partition: token for partition in range(8)})
            worker.wait_says("a partition is claimed", 8 * token)
            pause_unless_fenced(scene, worker)
            time.sleep(1.2)
            fences, instance = worker.text().count("fenced:"), coordinator.instance
            worker.resume()
            worker.wait_says("fenced:", fences + 1)
            wait_for("another registration", lambda: coordinator.instance != instance)
        worker.stop()


def nobody_answers():
    """No coordinator answers: fenced, and ready again when one does: 89, 94"""
    with Scene() as scene:
        coordinator = scene.coordinator
        worker = scene.worker(**FENCE).start()
        coordinator.wait_state(READY)
        coordinator.refuse_beats = grpc.StatusCode.UNAVAILABLE
        worker.wait_says("fenced:")
        coordinator.wait_state(INIT, after=len(coordinator.beats))
        coordinator.refuse_beats = None
        coordinator.wait_state(READY, after=len(coordinator.beats))
        worker.stop()


def a_beat_is_sent_once():
    """A beat that is refused is not repeated: the next one is, so a busy coordinator gets no more of them than a quiet one"""
    with Scene() as scene:
        coordinator = scene.coordinator
        worker = scene.worker().start()
        coordinator.wait_state(READY)
        before = len(coordinator.beats)
        coordinator.refuse_beats = grpc.StatusCode.UNAVAILABLE
        coordinator.wait_beats(12)
        coordinator.refuse_beats = None
        dues = [(beat.due_at.seconds, beat.due_at.nanos) for beat, _, _ in coordinator.beats[before:]]
        check(len(set(dues)) == len(dues), f"{len(dues)} beats came, and {len(set(dues))} were due")
        worker.stop()


def a_lower_epoch_is_no_answer():
    """Answers of a coordinator that is no longer the leader do not count: 93"""
    with Scene() as scene:
        coordinator = scene.coordinator
        coordinator.epoch = 5
        worker = scene.worker(**FENCE).start()
        coordinator.wait_state(READY)
        coordinator.epoch = 4
        worker.wait_says("fenced:")
        coordinator.epoch = 6
        coordinator.wait_state(READY, after=len(coordinator.beats))
        worker.stop()


def fence_action_exit():
    """fence_action = exit ends with 75: 97"""
    with Scene() as scene:
        worker = scene.worker(worker__fence_action="exit", transport__worker_self_fence_timeout="3s",
                              transport__coordinator_failure_timeout="6s").start()
        scene.coordinator.wait_state(READY)
        scene.coordinator.stop()
        check(worker.wait_end() == 75, worker.text())
        check(worker.says("fenced:"), worker.text())


def sigterm_without_a_coordinator():
    """SIGTERM without a coordinator ends with 0: 218"""
    with Scene() as scene:
        worker = scene.worker().start()
        scene.coordinator.wait_state(READY)
        scene.coordinator.stop()
        worker.stop()


def orders():
    """A drain that the service orders, a reset, and a mock preemption: 41, 216"""
    with Scene() as scene:
        coordinator = scene.coordinator
        worker = scene.worker().start()
        coordinator.wait_state(READY)
        first = coordinator.instance
        coordinator.reset = True
        wait_for("another registration", lambda: coordinator.instance != first)
        coordinator.wait_state(READY, after=len(coordinator.beats))
        coordinator.control = {"drain": {"deadline": {"seconds": 30}}}
        check(worker.wait_end() == 0, worker.text())
        check(DRAINING in coordinator.states(), "no beat said so")
        seen = len(coordinator.beats)
        preempted = scene.worker(environment={"ROLLOUT_MOCK_PREEMPT_MS": "300"}).start()
        check(preempted.wait_end() == 0, preempted.text())
        check(DRAINING in coordinator.states()[seen:], "no beat said so")


def a_round_during_the_answer_to_another():
    """A round that is asked for while the acknowledgement of the one before is under way is acknowledged, too"""
    with Scene() as scene:
        coordinator = scene.coordinator
        scene.worker().start()
        coordinator.wait_state(READY)
        coordinator.grant({1: 1})
        coordinator.wait_state(RUNNING)
        coordinator.acknowledged.clear()
        coordinator.checkpoint()
        with coordinator.lock:
            coordinator.round = 2
            coordinator.changed()
        coordinator.wait_beats()
        coordinator.acknowledged.set()
        wait_for("the second round", lambda: coordinator.checkpoints[-1].round == 2)


def a_second_signal_ends_it():
    """SIGTERM twice ends with 143, though the store takes nothing"""
    with Scene() as scene:
        coordinator = scene.coordinator
        scene.feed(1, LINES)
        worker = scene.worker(process__rate=100).start()
        coordinator.wait_state(READY)
        coordinator.grant({1: 1})
        wait_for("a checkpoint", lambda: coordinator.checkpoint()[0].get(1))
        shutil.rmtree(scene.store)
        with open(scene.store, "w", encoding="utf-8"):
            pass  # a file is in the way
        wait_for("a round that says why not", lambda: coordinator.checkpoint()[1])
        failures = worker.text().count("partition cannot start yet: retrying")
        worker.signal(signal.SIGTERM)
        worker.wait_says("partition cannot start yet: retrying", failures + 1)
        worker.signal(signal.SIGTERM)
        check(worker.wait_end() == 143, worker.text())
        os.remove(scene.store)


def checkpoints_in_s3():
    """Checkpoints in an object store: a killed worker's successor goes on there, with exact totals: 148"""
    store = Store()
    try:
        with Scene() as scene:
            coordinator, want = scene.coordinator, totals_of(LINES)
            there = {"environment": store.environment, "checkpoint__store": "s3://bucket/run"}
            scene.feed(6, LINES)

            def totals():
                content = store.objects.get("bucket/run/00000006.ckpt")
                record = json.loads(content.split(b"\n")[0]) if content else None
                return {key: tuple(pair) for key, pair in record["node_snapshots"]["totals"].items()} if record else {}

            first = scene.worker(process__rate=2000, **there).start()
            coordinator.wait_state(READY)
            coordinator.grant({6: 1})
            wait_for("a checkpoint", lambda: coordinator.checkpoint()[0].get(6))
            first.kill()
            coordinator.grant({6: 2})
            second = scene.worker(**there).start()
            wait_for("the end", lambda: coordinator.checkpoint() and totals() == want)
            check(all(why is None for _, _, why in store.requests), str(store.requests))
            second.stop()
    finally:
        store.close()


def two_coordinators():
    """One of two coordinators stops: its worker is served by the other and is never fenced"""
    with Scene() as scene, FakeCoordinator(scene.tls) as other:
        worker = scene.worker()
        worker.write([scene.coordinator.address, other.address])
        worker.start()
        scene.coordinator.wait_state(READY)
        scene.coordinator.stop()
        other.wait_beats()
        check(not worker.says("fenced:"), worker.text())
        worker.stop()


# -- plugins --

def manifest(scene, name, text=None, **values):
    """A copy of an example with other values, in the scene's directory."""
    if text is None:
        with open(os.path.join(EXAMPLES, name + ".toml"), encoding="utf-8") as file:
            text = file.read()
    text = text.replace("examples/plugins/", scene.dir + "/").replace("./data/sidecars/", scene.dir + "/")
    for key, value in values.items():
        text = "\n".join(f"{key} = {value}" if line.startswith(key + " =") else line for line in text.split("\n"))
    path = os.path.join(scene.dir, name + ".toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    shutil.copy(os.path.join(EXAMPLES, "lengths.py"), scene.dir)
    shutil.copy(os.path.join(PLUGINS, "libupper.so"), scene.dir)
    return path


def refused(scene, says, *manifests):
    flags = [word for path in manifests for word in ("--plugin", path)]
    worker = scene.worker(flags=flags).start()
    check(worker.wait_end() == 2, f"ended with {worker.process.returncode}: {worker.text()}")
    check(worker.says(says), worker.text())
    check(not scene.coordinator.beats, "it beat")


def bad_plugins():
    """Manifests that cannot be loaded: exit 2, the reason, and no beat: 201, 207, 208"""
    with Scene() as scene:
        good = manifest(scene, "upper")
        refused(scene, "it is a directory", scene.dir)
        refused(scene, "not found", scene.dir + "/none.toml")
        pyo3 = 'name = "p"\nversion = "1"\nkind = "storage"\ntrait_id = "t"\nmode = "pyo3"\nnetwork_allowlist = []\n' \
               '[runtime]\ngpu = false\nmemory_mib = 1\npython_min = "3.11"\n[entry.pyo3]\nmodule = "m"\nfactory = "f"\n'
        refused(scene, "this worker has none", manifest(scene, "pyo3", pyo3))
        refused(scene, "sidecar", manifest(scene, "upper", mode='"sidecar"'))
        quits = manifest(scene, "lengths", command='["sh", "-c", "exit 3"]')
        refused(scene, "before it took a connection", manifest(scene, "upper"), quits)
        check(os.path.exists(good), good)
        refused(scene, "no symbol 'nothing'", manifest(scene, "upper", symbol='"nothing"'))


def a_plugin_for_each_record():
    """Records go through the plugin, a shared object and a process alike: 202, 203"""
    for name, mapped in (("upper", str.upper), ("lengths", lambda line: str(len(line.split()[0])))):
        with Scene() as scene:
            scene.feed(3, LINES[:400])
            worker = scene.worker(flags=["--plugin", manifest(scene, name)], process__kind="plugin").start()
            scene.coordinator.wait_state(READY)
            scene.coordinator.grant({3: 1})
            want = totals_of(mapped(line) for line in LINES[:400])
            wait_for("the totals", lambda: scene.coordinator.checkpoint() and scene.totals(3) == want)
            worker.stop()
            check(not processes("lengths.py", scene.dir), "a sidecar is left")


def sidecars_come_back_and_never_stay():
    """A sidecar that dies is started again, one whose file changes is reloaded, none outlives kill -9: 204, 209, 210"""
    with Scene() as scene:
        path = manifest(scene, "lengths")
        worker = scene.worker(flags=["--plugin", path, "--hot-reload"], process__kind="plugin").start()
        scene.coordinator.wait_state(READY)

        def sidecar(but=()):
            return wait_for("a sidecar", lambda: [pid for pid in processes("lengths.py", scene.dir) if pid not in but])[0]

        one = sidecar()
        os.kill(one, signal.SIGKILL)
        two = sidecar(but=[one])
        worker.wait_says("ready=true", 2)
        os.utime(scene.dir + "/lengths.py")
        three = sidecar(but=[one, two])
        worker.wait_says("plugin reloaded")
        worker.wait_says("ready=true", 3)
        scene.feed(3, LINES[:50])
        scene.coordinator.grant({3: 1})
        want = totals_of(str(len(line.split()[0])) for line in LINES[:50])
        wait_for("the totals", lambda: scene.coordinator.checkpoint() and scene.totals(3) == want)
        worker.kill()
        wait_for("no sidecar", lambda: not processes("lengths.py", scene.dir))
        check(three != two, "the same process")


def cdylib_is_not_reloaded():
    """A shared object that changes is not reloaded, and it is said: 205"""
    with Scene() as scene:
        path = manifest(scene, "upper")
        worker = scene.worker(flags=["--plugin", path, "--hot-reload"]).start()
        scene.coordinator.wait_state(READY)
        os.utime(path)
        worker.wait_says("a loaded cdylib cannot be replaced")
        check(worker.says("plugin=upper"), worker.text())
        worker.stop()


run_cases([beats_registers_and_drains, totals_over_kills, a_paused_worker_fences_itself_first,
           fenced_in_the_middle_of_a_job, nobody_answers, a_beat_is_sent_once,
           a_lower_epoch_is_no_answer, fence_action_exit, sigterm_without_a_coordinator, orders,
           a_round_during_the_answer_to_another, a_second_signal_ends_it,
           checkpoints_in_s3, two_coordinators, bad_plugins, a_plugin_for_each_record, sidecars_come_back_and_never_stay,
           cdylib_is_not_reloaded])
