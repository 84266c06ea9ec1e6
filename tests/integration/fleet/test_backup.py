#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Backups of real coordinators: the facts D1 to D3 of coordinator.md 20.6, the drill, and kill -9 at every step."""
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile

import grpc

from coordinators import (COORDINATOR, FLEET, METHODS, MUSTER, MUSTERCTL, PATIENT, Cluster, Failed, Skipped, check,
                          code_of, contents, message, run_cases, shimmed, wait_for)

CODE = grpc.StatusCode
ORIGINAL_META = {"Version": 1, "ID": "2-12-1749700000000", "Index": 12, "Term": 2, "Peers": "ka8xMjcuMC4wLjE6MTc3OTE=",
                 "Configuration": {"Servers": [{"Suffrage": 0, "ID": "node-1", "Address": "127.0.0.1:17791"}]},
                 "ConfigurationIndex": 1}


def original_state(domains=3000):
    """As the original writes it, newer and older generation in one."""
    return {"shards": [{"ID": f"shard-{n}", "Address": f"h:{n}", "RegisteredAt": "2026-06-01T12:00:00Z",
                        "LastHeartbeat": "0001-01-01T00:00:00Z"} for n in range(20)],
            "cluster_to_shard": {f"cluster-{n}": f"shard-{n % 20}" for n in range(100)},
            "domain_to_shard": [{"domain": {"Key": "rack", "Value": f"r-{n}"}, "shard": f"shard-{n % 20}"}
                                for n in range(domains)],
            "quotas": [{"key": {"Provider": "aws", "Region": "eu"}, "per_shard": {"shard-1": 5}}],
            "providers": [{"Name": "aws", "Address": "a:1", "Region": "eu"}]}


def write_tar(path, meta, state):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in (("meta.json", meta), ("state", state)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))


def original_archive(path, domains=3000):
    state = json.dumps(original_state(domains)).encode()
    write_tar(path, json.dumps({**ORIGINAL_META, "Size": len(state)}).encode(), state)


def run(*words, code=0, environment=None):
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    done = subprocess.run(words, capture_output=True, text=True, env={**clean, **(environment or {})}, check=False)
    check(code is None or done.returncode == code, f"{words} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done


def ctl(*words, code=0, environment=None):
    return run(MUSTERCTL, *words, code=code, environment=environment)


def restore(archive, node, *more, code=0, environment=None):
    return run(MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise", node.raft, *more,
               code=code, environment=environment)


def plain(state):
    """The rows of a state, without order and without our seal."""
    rows = json.loads(state)
    seal = rows.pop("muster", None)
    for shard in rows["shards"]:
        shard.pop("LastHeartbeat", None)
    return {name: sorted(map(json.dumps, value)) if isinstance(value, list) else value
            for name, value in rows.items()}, seal


def restored(cluster, domains=3000):
    """The first node leads a cluster that holds the original's archive."""
    archive = os.path.join(cluster.dir, "original.tar")
    original_archive(archive, domains)
    node = cluster.nodes[0]
    restore(archive, node)
    node.start()
    cluster.leader([node])
    shards = node.call(COORDINATOR + "ListShards").shards
    check(len(shards) == 20, f"{len(shards)} shards")  # else everything would be equal, and empty
    return node


def hash_of(node):
    return {machine.name: machine.hash for machine in node.state().machines}["fleet"]


# -- formats --

def archive_of_the_original():
    """D3: an archive of the original is restored; what is saved of it holds the same rows, meta first."""
    with Cluster(1, join=False) as cluster:
        node = restored(cluster, 60000)
        frames = node.stream(COORDINATOR + "SnapshotSave")
        check(frames[0].WhichOneof("payload") == "meta_json", "meta first")
        check(all(frame.WhichOneof("payload") == "data" and len(frame.data) <= 1 << 20 for frame in frames[1:]),
              "then data, at most 1 MiB each")
        meta = json.loads(frames[0].meta_json)
        state = b"".join(frame.data for frame in frames[1:])
        check(len(frames) > 3 and meta["Size"] == len(state), f"{len(frames)} frames, {meta}")
        check(meta["Index"] > 12 and meta["Term"] > 2, f"later than the archive: {meta}")
        check(meta["Configuration"]["Servers"] == [{"Suffrage": 0, "ID": "node-0", "Address": node.raft}], f"{meta}")
        rows, seal = plain(state)
        want, _ = plain(json.dumps(original_state(60000)))
        check(rows == want, "the same rows")
        check(seal["index"] == meta["Index"], f"one index: {seal} {meta}")
        saved = os.path.join(cluster.dir, "saved.tar")
        done = ctl("snapshot", "save", saved, "--coordinator", node.grpc)
        check(done.stdout == f"saved snapshot index={meta['Index']} term={meta['Term']} to {saved}\n", done.stdout)
        with tarfile.open(saved) as tar:
            check([entry.name for entry in tar] == ["meta.json", "state"], "two entries")
            check(tar.extractfile("state").read() == state, "the same bytes")
        check(os.path.getsize(saved) % 512 == 0, "blocks")
        # the original's command lines: options first, by its name
        bigfleetctl = os.path.join(cluster.dir, "bigfleetctl")
        os.symlink(MUSTERCTL, bigfleetctl)

        def save_within_1ms():
            done = run(bigfleetctl, "--coordinator", node.grpc, "--timeout", "1ms", "snapshot", "save", saved, code=None)
            return None if "did not speak within" in done.stderr else done  # the connection itself has 250 ms
        done = wait_for("a connection", save_within_1ms)
        check(done.stdout.startswith("saved snapshot index="), f"not subject to --timeout: {done.stdout}")
        node.stop()
        done = run(bigfleetctl, "-coordinator", "127.0.0.1:1", "snapshot", "restore", saved, "-data-dir", node.dir,
                   "-node-id", "node-0", "-raft-advertise", node.raft)
        check(done.stdout.startswith(f"restored snapshot index={meta['Index']} term={meta['Term']} into {node.dir} "
                                     "as single-voter node-0\n"), done.stdout)
        done = run(bigfleetctl, "snapshot", "restore", os.path.join(cluster.dir, "none"), "--data-dir", node.dir,
                   "--node-id", "node-0", "--raft-advertise", node.raft, code=1)
        check(done.stderr.startswith("bigfleetctl: "), done.stderr)


def nothing_to_save():
    """Empty tables are not saved; followers name the leader; a backup still works."""
    with Cluster(3, PATIENT).start() as cluster:
        cluster.formed()
        leader = cluster.leader()
        code, text, _ = code_of(lambda: leader.stream(COORDINATOR + "SnapshotSave"))
        check(code == CODE.NOT_FOUND, f"{code} {text}")
        follower = next(node for node in cluster.nodes if node is not leader)
        follower.state()
        for path in (COORDINATOR + "SnapshotSave", FLEET + "Backup"):
            code, text, trailers = code_of(lambda path=path: follower.stream(path))
            check(code == CODE.FAILED_PRECONDITION and trailers.get("x-muster-leader") == leader.grpc, f"{code} {text}")
        target = os.path.join(cluster.dir, "b.muster")
        ctl("snapshot", "save", target, "--coordinator", follower.grpc, code=5)
        check(not os.path.exists(target), "no file")
        ctl("backup", target, "--coordinator", follower.grpc)
        check("section fleet" in ctl("backup", "verify", target).stdout, "whole")


def one_at_a_time():
    """A stream without a reader holds one place; the next caller is refused with that reason, and gets the place later."""
    with Cluster(1, join=False) as cluster:
        node = restored(cluster, 200000)
        method = METHODS[FLEET + "Backup"]
        stub = node.channel.unary_stream("/" + FLEET + "Backup", message(method.input_type).SerializeToString,
                                         message(method.output_type).FromString)
        slow = stub(message(method.input_type)(), timeout=60)
        next(slow)
        with cluster.dial(node.grpc) as other:
            second = other.unary_stream("/" + FLEET + "Backup", message(method.input_type).SerializeToString,
                                        message(method.output_type).FromString)
            code, text, _ = code_of(lambda: list(second(message(method.input_type)(), timeout=60)))
            check(code == CODE.RESOURCE_EXHAUSTED, f"{code} {text}")
            slow.cancel()
            wait_for("its turn", lambda: code_of(lambda: list(second(message(method.input_type)(), timeout=60)))[0]
                     == CODE.OK)
            slow = stub(message(method.input_type)(), timeout=60)
            next(slow)
            node.stop()  # in order, though a stream is under way


# -- exports --

def exports_of(directory):
    if not os.path.isdir(directory):
        return []
    return sorted(name for name in os.listdir(directory) if not name.startswith(("latest", ".")))


def latest_of(directory):
    return os.readlink(os.path.join(directory, "latest"))


def export_and_restore():
    """D1, D2: an export at each interval; restored from latest elsewhere it leads by itself and holds the rows."""
    with Cluster(2, join=False) as cluster:
        node, other = cluster.nodes
        exports = os.path.join(cluster.dir, "exports")
        node.options = ["--snapshot-export-dir", exports, "--snapshot-export-interval", "100ms"]
        node.start()
        cluster.leader([node])
        wait_for("ticks over empty tables", lambda: metric(node, 'exports_total{outcome="empty"}') >= 2)
        check(not os.path.exists(os.path.join(exports, "latest")), "nothing to export yet")
        node.call(FLEET + "AddShard", shard_id="shard-a", address="h:1")
        wait_for("an export", lambda: os.path.exists(os.path.join(exports, "latest")))
        names = exports_of(exports)
        check(sorted(os.listdir(os.path.join(exports, names[0]))) == ["meta.json", "state"], "two files")
        first = latest_of(exports)
        wait_for("latest is refreshed though nothing changed", lambda: latest_of(exports) != first)
        check(latest_of(exports) in exports_of(exports), "latest leads to an export")
        with open(os.path.join(exports, names[0], "meta.json"), encoding="utf-8") as file:
            meta = json.load(file)
        check(names[0].endswith("-" + meta["ID"]), f"{names} {meta}")
        wait_for("its index is shown", lambda: metric(node, "export_last_index") >= meta["Index"])
        node.call(FLEET + "BindCluster", cluster_id="cluster-x", shard_id="shard-a")
        done = metric(node, 'exports_total{outcome="done"}')
        wait_for("an export of another state", lambda: metric(node, 'exports_total{outcome="done"}') > done + 1)
        before = hash_of(node)
        node.kill()
        with open(os.path.join(exports, "latest", "meta.json"), encoding="utf-8") as file:
            meta = json.load(file)
        shutil.rmtree(node.dir)
        done = ctl("snapshot", "restore", os.path.join(exports, "latest"), "--data-dir", other.dir, "--node-id",
                   other.name, "--raft-advertise", other.raft)
        check(done.stdout.startswith(f"restored snapshot index={meta['Index']} term={meta['Term']} into {other.dir} "
                                     f"as single-voter {other.name}\n"), done.stdout)
        other.start("--bootstrap=false")
        cluster.leader([other])
        check(hash_of(other) == before, "the same state")
        clusters = other.call(FLEET + "ListClusters").clusters
        check([(c.cluster_id, c.shard_id) for c in clusters] == [("cluster-x", "shard-a")], f"{clusters}")
        check([s.shard_id for s in other.call(COORDINATOR + "ListShards").shards] == ["shard-a"], "shard-a")
        other.call(FLEET + "AddShard", shard_id="new", address="h:1")


def owned_by_the_service():
    """What the offline commands write as root into a directory of the service's user, that user can open."""
    if os.geteuid() != 0:
        raise Skipped("only root can give files away")
    user = 65534
    with Cluster(1) as cluster:
        archive = os.path.join(cluster.dir, "original.tar")
        original_archive(archive, 10)
        for way in ("muster", "musterctl"):
            node = cluster.nodes[0]
            shutil.rmtree(node.dir, ignore_errors=True)
            os.mkdir(node.dir)
            os.chown(node.dir, user, user)

            def all_given(what, directory=node.dir):
                found = [os.path.join(at, name) for at, dirs, files in os.walk(directory) for name in dirs + files]
                wrong = [path for path in found if os.lstat(path).st_uid != user]
                check(found and not wrong, f"{what}: of root: {wrong}")
            if way == "muster":
                restore(archive, node)
            else:
                ctl("snapshot", "restore", archive, "--data-dir", node.dir, "--node-id", node.name, "--raft-advertise", node.raft)
            all_given(way)
            run(MUSTER, "coordinator", "force-config", "--yes", node.dir)
            all_given("force-config")
            run(MUSTER, "coordinator", "rejoin", "--yes", node.dir, code=None)
            all_given("rejoin")


def metric(node, name):
    for line in node.page("/metrics")[1].splitlines():
        if line.startswith("muster_coordinator_" + name):
            return float(line.split()[-1])
    return 0


# -- the drill --

def drill():
    """Back up a running cluster, restore it into a scratch cluster, let others join: the hashes are equal."""
    with Cluster(1, join=False) as cluster, Cluster(3) as scratch:
        node = restored(cluster)
        backup = os.path.join(cluster.dir, "b.muster")
        done = ctl("backup", backup, "--coordinator", node.grpc, "-o", "json")
        index = json.loads(done.stdout)["index"]
        verified = json.loads(ctl("backup", "verify", backup, "-o", "json").stdout)
        check(verified["index"] == index and verified["lacks"] == [], f"{verified}")
        hashes = {section["name"]: section["hash"] for section in verified["sections"]}
        check(int(hashes["fleet"], 16) == hash_of(node), "what was written is what it has")
        node.kill()
        first = scratch.nodes[0]
        said = json.loads(restore(backup, first, "-o", "json").stdout)
        check(said["replica"] != said["cluster"] and said["index"] == index, f"{said}")
        first.start()
        scratch.leader([first])
        for number in (1, 2):
            scratch.nodes[number].start()
        scratch.formed()
        check(scratch.agree()["fleet"] == int(hashes["fleet"], 16), "the same state on all three")
        restore(backup, first, "--yes", code=4)  # running: the directory is in use
        restore(backup, first, code=4)           # and it holds a replica's data
        check(scratch.agree()["fleet"] == int(hashes["fleet"], 16), "nothing was touched")


def damaged():
    """A damaged archive is refused with its name and the offset, and nothing is changed."""
    with Cluster(1, join=False) as cluster:
        node = restored(cluster)
        backup, good = (os.path.join(cluster.dir, name) for name in ("bad.muster", "good.muster"))
        ctl("backup", good, "--coordinator", node.grpc)
        node.stop()
        before = contents(node.dir)
        with open(good, "rb") as file:
            content = bytearray(file.read())

        def refused(*words):
            for done in (ctl("backup", "verify", backup, code=1), restore(backup, node, "--yes", code=1)):
                check(all(word in done.stderr for word in (backup, *words)), f"{words}: {done.stderr}")
            check(contents(node.dir) == before, "nothing was changed")
        for offset in (3, len(content) // 2, len(content) - 3):
            changed = bytearray(content)
            changed[offset] ^= 1
            with open(backup, "wb") as file:
                file.write(changed)
            refused(*["offset "] * (offset > 8))  # before that it is not known for a backup
        with open(backup, "wb") as file:
            file.write(content[:len(content) // 3])
        refused("offset ")
        write_tar(backup, b'{"Index":0,"Term":2}', b"{}")
        refused("not a valid coordinator snapshot")
        run(MUSTER, "check", node.dir)
        restore(good, node, "--yes")
        check(contents(node.dir) != before, "the good one is taken")


# -- kill -9 --

def holds(node):
    """The report of `muster check` about the snapshot in the directory, which must be sound."""
    said = run(MUSTER, "check", node.dir).stdout
    line = next(line for line in said.splitlines() if line.startswith("snapshot: "))
    return re.sub(r"term \d+", "term", line)  # another one in each restore: it is above all earlier ones


def restored_step_by_step(node, archive, begin, *words):
    """Kills a restore at its first step, its second, and so on; yields the state of the directory each time: "old", "half"
    (refused until it is restored), "none" or "new". `begin` makes the directory. The last restore is not killed."""
    left, step, done = set(), 0, None
    begin()
    old = holds(node) if os.path.exists(node.dir) else None
    restore(archive, node, *words)
    new = holds(node)
    check(new != old, "they differ")
    while done is None or done.returncode != 0:
        step += 1
        shutil.rmtree(node.dir)
        begin()
        done = restore(archive, node, *words, code=None, environment=shimmed(KILL_AT=step))
        check(done.returncode in (0, -signal.SIGKILL), f"step {step}: {done.returncode} {done.stderr}")
        found = [os.path.exists(os.path.join(node.dir, name)) for name in ("RESTORE", "FORMAT")]
        if found[0]:
            left.add("half")
            refused = run(MUSTER, "coordinator", "run", "--data-dir", node.dir, "--listen", node.grpc, "--raft-bind",
                          node.raft, "--http-listen", node.http, code=3)
            check("a restore was interrupted" in refused.stderr, f"step {step}: {refused.stderr}")
        elif not found[1]:
            check(old is None, f"step {step}: the old data is gone")
            left.add("none")
        if found[0] or not found[1]:
            restore(archive, node)  # nothing is asked: there is nothing to lose
        held = holds(node)
        if found[0] or not found[1]:
            check(held == new, f"step {step}: restored again, {held}")
        else:
            check(held in (old, new), f"step {step}: {held}")
            left.add("old" if held == old else "new")
    print(f"# {step - 1} steps: {', '.join(sorted(left))}")
    return left


def killed_restore():
    """Killed at every step of a restore: the old data, or a directory that refuses to start until it is restored."""
    with Cluster(1, join=False) as cluster:
        node = cluster.nodes[0]
        first, second = (os.path.join(cluster.dir, name) for name in ("first.tar", "second.tar"))
        original_archive(first, 10)
        original_archive(second, 20)
        restore(first, node)
        kept = os.path.join(cluster.dir, "kept")
        shutil.copytree(node.dir, kept)
        shutil.rmtree(node.dir)
        left = restored_step_by_step(node, second, lambda: shutil.copytree(kept, node.dir), "--yes")
        check(left == {"old", "half", "new"}, f"over data: {left}")
        shutil.rmtree(node.dir)
        left = restored_step_by_step(node, second, lambda: None)
        check(left == {"none", "half", "new"}, f"into nothing: {left}")
        node.start()
        cluster.leader([node])
        rows = node.call(COORDINATOR + "ListDomainAssignments").assignments
        check(len(rows) == 20, f"{len(rows)} rows")


def killed_save():
    """Killed at every step of save and backup: the file is the old one or the new one, whole."""
    with Cluster(1, join=False) as cluster:
        node = restored(cluster, 5)
        for words in (["snapshot", "save"], ["backup"]):
            target = os.path.join(cluster.dir, "saved")
            original_archive(target, 5)
            for step in range(1, 1000):
                done = ctl(*words, target, "--coordinator", node.grpc, code=None, environment=shimmed(KILL_AT=step))
                ctl("backup", "verify", target)
                if done.returncode == 0:
                    break
                check(done.returncode == -signal.SIGKILL, f"step {step}: {done.returncode} {done.stderr}")
            else:
                raise Failed("it never ended")
            check(step > 5, f"only {step} steps")
            print(f"# {words[-1]}: {step - 1} steps")


def copy(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


def killed_export():
    """Killed at every step of an export that prunes: what has an export's name is whole, and so is latest."""
    with Cluster(1, join=False) as cluster:
        node = restored(cluster, 50)
        exports, kept = (os.path.join(cluster.dir, name) for name in ("exports", "kept"))
        node.kill()
        node.options = ["--snapshot-export-dir", exports, "--snapshot-export-interval", "300ms",
                        "--snapshot-export-keep", "2"]

        def done():
            return metric(node, 'exports_total{outcome="done"}')

        def exported_or_dead():
            return not node.running() or done() > 0
        node.start()
        cluster.leader([node])
        for number in range(2):  # so that one goes with the next
            node.call(FLEET + "AddShard", shard_id=f"more-{number}")
            before = done()
            wait_for("an export of it, and its end", lambda before=before: done() > before + 1)
        node.kill()
        check(len(exports_of(exports)) == 2, f"{exports_of(exports)}")
        copy(exports, kept)
        ways = set()
        for step in range(1, 1000):
            copy(kept, exports)
            node.environment = shimmed(KILL_AT=step, ONLY=exports)
            node.start()
            wait_for("its death, or an export", exported_or_dead)
            if node.running():
                break
            check(node.wait_end() == -signal.SIGKILL, node.text()[-500:])
            names = exports_of(exports)
            latest = os.readlink(os.path.join(exports, "latest"))
            for name in [*names, "latest"]:
                ctl("backup", "verify", os.path.join(exports, name))
            ways.add((len(names), "new" if latest not in os.listdir(kept) else "old"))
        else:
            raise Failed("it never ended")
        check(len(exports_of(exports)) == 2, f"pruned: {exports_of(exports)}")
        node.kill()
        # with the old ones; a third beside them; that one as the latest; and without the oldest
        check(ways == {(2, "old"), (3, "old"), (3, "new"), (2, "new")}, f"{step} steps met {ways}")
        print(f"# {step - 1} steps")
        # the next run removes the leftovers of a killed one, wherever it was killed
        for step in (2, step // 2, step - 1):
            copy(kept, exports)
            node.environment = shimmed(KILL_AT=step, ONLY=exports)
            node.start()
            node.wait_end()
            left = {name for name in os.listdir(exports) if name.startswith(".")}
            node.environment = {}
            node.start()
            wait_for("an export", exported_or_dead)
            check(len(exports_of(exports)) == 2, f"pruned: {exports_of(exports)}")
            # The next export may be in progress, with temporary files of its own.
            wait_for(f"the end of what the killed process left: {left}",
                     lambda left=left: not left & set(os.listdir(exports)))
            node.stop()  # in order, between two ticks or in the middle of an export


if __name__ == "__main__":
    run_cases([archive_of_the_original, nothing_to_save, one_at_a_time, export_and_restore, owned_by_the_service, drill, damaged,
               killed_restore, killed_save, killed_export])
