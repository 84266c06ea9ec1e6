#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster that lost history: no store id, revision or fencing token of the lost one is handed out again, and replicas of
the old cluster join the new one after `muster coordinator rejoin`."""
import os
import shutil
import signal
import subprocess

import stores
from stores import Client, Cluster, check, new_id, run_cases, wait_for

MUSTER, MUSTERCTL = stores.coordinators.MUSTER, stores.coordinators.MUSTERCTL
CLAIMS = [b"drill/lostclaim%d" % n for n in range(3)]


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"{words}: {done.returncode} {done.stdout}{done.stderr}")
    return done.stdout


def claim(client):
    """Claims each key; the tokens."""
    answers = [client.lease(key) for key in CLAIMS]
    check(all(answer.code == stores.OK for answer in answers), f"{answers}")
    return [answer.token for answer in answers]


def ready_client(node):
    node.cluster.leader([node])
    client = Client(node)
    wait_for("the store answers", lambda: client.ask("Status").store_id != bytes(16))
    return client


def forced():
    """force-config after a lost majority: tokens of the others are not used again; the others rejoin."""
    with Cluster(3).start() as cluster:
        cluster.formed()
        cluster.agree()
        leader = cluster.leader()
        survivor, other = cluster.others(leader)
        survivor.pause()  # it hears of nothing that follows
        client = Client(leader)
        lost, before = claim(client), client.ask("Status")
        for node in (leader, other, survivor):  # never resumed: what waits in its sockets is lost, too
            node.kill()
        run(MUSTER, "coordinator", "force-config", survivor.dir, "--yes")
        survivor.start()
        client = ready_client(survivor)
        after = client.ask("Status")
        check(after.store_id != before.store_id, "a new store id")
        check(after.revision > before.revision, f"revision {after.revision} after {before.revision}")
        again = claim(client)
        check(min(again) > max(lost), f"tokens {again} after {lost}")
        check(survivor.state().term > 1 << 40, f"a term no lost leader had: {survivor.state().term}")

        # What is left of the old cluster is refused with a remedy that works.
        leader.start()
        wait_for("the refusal", lambda: "belongs to cluster" in leader.text() and "muster coordinator rejoin" in leader.text())
        refusal = [line for line in leader.text().splitlines() if "muster coordinator rejoin" in line][-1]
        check("level=warn" in refusal or "level=error" in refusal or '"warn"' in refusal, f"as loud as it is: {refusal}")
        leader.kill()
        received = run(MUSTER, "coordinator", "rejoin", leader.dir, "--yes")
        check("of no cluster" in received, received)
        leader.start()
        shutil.rmtree(other.dir)
        other.start()
        cluster.formed(3)
        cluster.agree()
        check(claim_tokens(cluster) == again, "its claims")
        # A second time: again above all of that.
        for node in cluster.nodes:
            node.kill()
        run(MUSTER, "coordinator", "force-config", leader.dir, "--yes")
        leader.start()
        client = ready_client(leader)
        last = client.lease(b"drill/more")
        check(last.token > max(again) and client.ask("Status").store_id != after.store_id, f"{last}")


def claim_tokens(cluster):
    client = Client(cluster.leader())
    return [client.get(key).entry.token for key in CLAIMS]


def restored_twice():
    """Two restores of one backup, each used: revisions, tokens and terms grow from one to the next."""
    with Cluster(1, join=False).start() as cluster:
        node = cluster.nodes[0]
        client = ready_client(node)
        client.create(b"drill/key", b"value")
        held = client.lease(b"drill/held", lease_id=new_id(), ttl_ms=3600000)
        archive = os.path.join(cluster.dir, "one.muster")
        run(MUSTERCTL, "backup", archive, "--coordinator", node.grpc)
        lost = claim(client)
        seen = [(client.ask("Status"), max(lost), node.state().term)]
        for _ in range(2):
            node.stop()
            run(MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise", node.raft, "--yes")
            node.start()
            client = ready_client(node)
            status = client.ask("Status")
            check(client.get(b"drill/key").entry.value == b"value", "its keys")
            entry = client.get(b"drill/held").entry
            check(entry.token == held.token and entry.remaining_ms > 3500000, f"claims stay, for their whole TTL: {entry}")
            tokens = claim(client)
            before, token, term = seen[-1]
            check(status.store_id not in {one.store_id for one, *_ in seen}, "another store id")
            check(status.revision > before.revision and min(tokens) > token, f"{status.revision} {tokens} after {seen[-1]}")
            check(node.state().term > term, f"term {node.state().term} after {term}")
            seen.append((client.ask("Status"), max(tokens), node.state().term))


def holders_learn_of_the_restore():
    """A holder learns that the store was restored; its claim can be freed before its TTL is over, by force."""
    with Cluster(1, join=False).start() as cluster:
        node = cluster.nodes[0]
        ready_client(node)
        store, archive = f"muster://{node.grpc}", os.path.join(cluster.dir, "one.muster")
        holder = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", MUSTERCTL, "coord", "exec", "--store", store, "--group",
                                   "drill", "--slots", "1", "--ttl", "10m", "--", "sleep", "600"], stderr=subprocess.PIPE,
                                  text=True)
        try:
            client = Client(node)
            wait_for("it holds the slot", lambda: client.ask("Holders", group=b"drill").holders)
            run(MUSTERCTL, "coord", "create", "drill/held", "--store", store, "--ttl", "10m", "--lease", cluster.dir + "/lease")
            run(MUSTERCTL, "backup", archive, "--coordinator", node.grpc)
            node.stop()
            run(MUSTER, "coordinator", "restore", archive, "--data-dir", node.dir, "--raft-advertise", node.raft, "--yes")
            node.start()
            said = holder.communicate(timeout=stores.PATIENCE)[1]
            check(holder.returncode == 4 and "it was restored, or replaced (other_store)" in said, f"{holder.returncode} {said}")
            client = ready_client(node)
            check(client.ask("Holders", group=b"drill").holders and client.get(b"drill/held").found, "both are held still")
            refused = subprocess.run([MUSTERCTL, "coord", "release", "--store", store, "--lease", cluster.dir + "/lease"],
                                     capture_output=True, text=True, check=False)
            check(refused.returncode != 0 and "another store" in refused.stderr, f"{refused}")
            run(MUSTERCTL, "coord", "delete", "drill/held", "--force", "--store", store)
            check(client.lease(b"drill/held").code == stores.OK, "free")
        finally:
            holder.kill()  # its command ends with it
            holder.wait()


def killed_force():
    """force-config killed at every step: the old cluster, or a directory that refuses to start until force-config ran again."""
    with Cluster(1, join=False).start() as cluster:
        node = cluster.nodes[0]
        client = ready_client(node)
        token, before = client.lease(b"drill/held").token, client.ask("Status")
        node.stop()
        kept, found, step, done = os.path.join(cluster.dir, "kept"), set(), 0, None
        shutil.copytree(node.dir, kept)
        force = [MUSTER, "coordinator", "force-config", node.dir, "--yes"]
        while done is None or done.returncode != 0:
            step += 1
            shutil.rmtree(node.dir)
            shutil.copytree(kept, node.dir)
            environment = {**os.environ, **stores.coordinators.shimmed(KILL_AT=step)}
            done = subprocess.run(force, capture_output=True, text=True, check=False, env=environment)
            check(done.returncode in (0, -signal.SIGKILL), f"step {step}: {done}")
            half = os.path.exists(os.path.join(node.dir, "FORMAT.new"))
            if half:
                refused = subprocess.run([MUSTER, "coordinator", "run", "--data-dir", node.dir, "--listen", node.grpc,
                                          "--raft-bind", node.raft, "--http-listen", node.http],
                                         capture_output=True, text=True, check=False)
                check(refused.returncode == 3 and "interrupted" in refused.stderr, f"step {step}: {refused}")
                run(*force)
            node.start()
            client = ready_client(node)
            after = client.ask("Status")
            if not half and after.store_id == before.store_id:
                check(done.returncode != 0 and after.revision == before.revision, f"step {step}: as it was, {after}")
                found.add("old")
            else:
                check(after.store_id != before.store_id and client.lease(b"drill/more").token > token + (1 << 40),
                      f"step {step}: {after}")
                found.add("half" if half else "new")
            node.kill()
        print(f"# {step - 1} steps: {', '.join(sorted(found))}")
        check(found == {"old", "half", "new"}, f"{found}")


run_cases([forced, restored_twice, holders_learn_of_the_restore, killed_force])
