#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cluster, Maintenance, Auth and the pages of three coordinators: C6, by a stock gRPC client.

usage: test_maintenance.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME]    (prints TAP)
"""
import http.client
import json
import os
import subprocess

import etcds
import drives
from coordinators import HEALTH, MUSTERCTL
from etcds import Client, Etcds, check, code_of, grpc, patiently, refused, run_cases, wait_for

CLUSTER, MAINTENANCE, AUTH = "etcdserverpb.Cluster/", "etcdserverpb.Maintenance/", "etcdserverpb.Auth/"
NOT_LEADER = (9, "etcdserver: not leader")
BAD_TRANSFEREE = (9, "etcdserver: bad leader transferee")
BAD_URLS = (3, "etcdserver: given member URLs are invalid")
MEMBER_NOT_FOUND = (5, "etcdserver: member not found")


class Shared:
    cluster = None


def ask(node, path, **fields):
    return patiently(lambda: Client(node).call(path, **fields))


def leader_of(cluster):
    """The node that leads, by its own word."""
    def look():
        for node in cluster.nodes:
            status = ask(node, MAINTENANCE + "Status")
            if status.leader == status.header.member_id:
                return node
        return None
    return wait_for("a leader", look)


def members():
    """C6 MemberList: every replica by name, where it serves etcd's clients; the same from each, with and without a round"""
    cluster = Shared.cluster
    listeners = sorted("http://" + each.etcd for each in cluster.nodes)
    for node in cluster.nodes:
        # their addresses are entered when the cluster's level allows it, which may be after all are voters
        wait_for("listeners are listed", lambda: sorted(url for member in ask(node, CLUSTER + "MemberList").members
                                                      for url in member.clientURLs) == listeners)
        for linearizable in (False, True):
            answer = ask(node, CLUSTER + "MemberList", linearizable=linearizable)
            found = {member.name: member for member in answer.members}
            check(sorted(found) == [each.name for each in cluster.nodes], f"names: {answer}")
            check(answer.header.revision == 0 and answer.header.cluster_id, f"a header without a revision: {answer}")
            for each in cluster.nodes:
                member = found[each.name]
                check(list(member.clientURLs) == ["http://" + each.etcd] and
                      list(member.peerURLs) == ["http://" + each.raft] and not member.isLearner, f"{member}")


def status():
    """C6 Status: a version, sizes, indexes, and the same leader everywhere"""
    seen = [ask(node, MAINTENANCE + "Status") for node in Shared.cluster.nodes]
    check(len({each.leader for each in seen}) == 1 and len({each.header.member_id for each in seen}) == 3, f"{seen}")
    for each in seen:
        check(each.version == "3.6.5" and each.storageVersion and each.dbSize > 0 and each.dbSizeQuota > 0 and
              each.raftTerm and each.raftIndex >= each.raftAppliedIndex > 0 and not each.isLearner and
              not each.errors, f"{each}")


def hashes():
    """C6 HashKV: the same number of every member at one revision, another at another; Hash; refusals"""
    cluster, kv = Shared.cluster, Client(Shared.cluster.nodes[0])
    for n in range(5000):   # more than one turn's worth
        if n % 100 == 0:
            kv.txn(success=[etcds.op_put(b"h/%05d" % each, b"v") for each in range(n, n + 100)])
    then = kv.revision()
    kv.put(b"h/00001", b"another")
    now = kv.revision()

    def hash_of(node, revision):
        def look():     # a follower may not have got so far
            code, text, _ = code_of(lambda: Client(node).call(MAINTENANCE + "HashKV", revision=revision))
            check(code == grpc.StatusCode.OK or "future" in text, f"{code} {text}")
            return code == grpc.StatusCode.OK
        wait_for("its revision", look)
        return Client(node).call(MAINTENANCE + "HashKV", revision=revision)
    first, second = [[hash_of(node, revision) for node in cluster.nodes] for revision in (then, now)]
    check(len({each.hash for each in first}) == 1 and len({each.hash for each in second}) == 1, f"{first} {second}")
    check(first[0].hash != second[0].hash and first[0].hash_revision == then, f"{first} {second}")
    check(refused(lambda: kv.call(MAINTENANCE + "HashKV", revision=now + 100)) == etcds.FUTURE, "the future")
    kv.compact(now)
    check(refused(lambda: kv.call(MAINTENANCE + "HashKV", revision=then)) == etcds.COMPACTED, "the past")
    check(kv.call(MAINTENANCE + "HashKV").compact_revision == now, "what is compacted")
    check(kv.call(MAINTENANCE + "Hash").hash, "Hash")
    kv.delete(b"h/", b"h0")


def ahead():
    """A serializable read at a revision that was just written is no read of the future, whichever replica is asked"""
    cluster = Shared.cluster
    leader = leader_of(cluster)
    for n in range(200):
        revision = Client(leader).put(b"ahead", b"%d" % n).header.revision
        for node in cluster.nodes:
            check(Client(node).range(b"ahead", serializable=True, revision=revision).kvs[0].value == b"%d" % n, f"{n}")
            reads = Client(node).txn(success=[etcds.op_range(b"ahead", serializable=True, revision=revision)])
            check(reads.responses[0].response_range.kvs[0].value == b"%d" % n, f"{n}")


def small_answers():
    """C6 Defragment says that there is nothing to do; no alarm; Auth answers that it is off; the rest is 12"""
    kv = Client(Shared.cluster.nodes[0])
    method = etcds.METHODS[MAINTENANCE + "Defragment"]
    stub = kv.channel.unary_unary("/" + MAINTENANCE + "Defragment", etcds.message(method.input_type).SerializeToString,
                                  etcds.message(method.output_type).FromString)
    _, call = stub.with_call(etcds.message(method.input_type)(), timeout=etcds.PATIENCE)
    check("nothing to defragment" in dict(call.trailing_metadata()).get("x-muster-note", ""), f"{call}")
    check(not kv.call(MAINTENANCE + "Alarm").alarms and not kv.call(MAINTENANCE + "Alarm", action=2).alarms, "no alarm")
    check(refused(lambda: kv.call(MAINTENANCE + "Alarm", action=1, alarm=1))[0] == 12, "an alarm by hand")
    answer = kv.call(AUTH + "AuthStatus")
    check((answer.enabled, answer.authRevision) == (False, 1) and answer.header.revision, f"{answer}")
    check(refused(lambda: kv.call(AUTH + "Authenticate", name="x", password="y")) ==
          (9, "etcdserver: authentication is not enabled"), "Authenticate")
    for path in (AUTH + "UserList", AUTH + "RoleAdd", MAINTENANCE + "Downgrade"):
        check(refused(lambda path=path: kv.call(path))[0] == 12, path)
    check(refused(lambda: kv.call(CLUSTER + "MemberRemove", ID=7)) == MEMBER_NOT_FOUND, "a member that is none")
    for port in ("etcd", "grpc"):
        check(Client(Shared.cluster.nodes[0], port).call(HEALTH + "Check").status == 1, "grpc.health.v1")


def add_and_update():
    """C6 MemberAdd and MemberUpdate by etcdctl: checked as by etcd; a valid call returns how a replica joins"""
    cluster = Shared.cluster
    ctl = drives.Target("three coordinators", [node.etcd for node in cluster.nodes])
    listed = {member["name"]: member for member in ctl.json("member", "list")["members"]}
    first, second = (listed[node.name] for node in cluster.nodes[:2])
    first_id, taken = "%x" % first["ID"], second["peerURLs"][0]
    joins = ",".join(node.grpc for node in cluster.nodes)
    for why, words, says in (
            ("a member's address", ("add", "new", "--peer-urls=" + taken), "etcdserver: Peer URLs already exists"),
            ("a new one", ("add", "new", "--peer-urls=http://127.0.0.1:7"), "started with --join-addr"),
            ("a learner", ("add", "new", "--learner", "--peer-urls=http://127.0.0.1:7"), "started with --join-addr"),
            ("nobody", ("update", "7777", "--peer-urls=http://127.0.0.1:7"), "etcdserver: member not found"),
            ("another's address", ("update", first_id, "--peer-urls=" + taken), "etcdserver: Peer URLs already exists"),
            ("elsewhere", ("update", first_id, "--peer-urls=http://127.0.0.1:7"), "started with --raft-advertise")):
        said = ctl.fails("member", *words)
        check(says in said, f"{why}: {said}")
        check("started" not in says or all(node.grpc in said for node in cluster.nodes), f"where: {said}, not {joins}")
    check("updated" in ctl.ctl("member", "update", first_id, "--peer-urls=" + first["peerURLs"][0]), "as it is")
    kv = Client(cluster.nodes[0])
    for urls in ([], ["127.0.0.1:2380"], ["ftp://h:1"], ["http://h"], ["http://:1"], ["http://h:0"], ["http://h:1/p"],
                 ["http://h:65536"], ["http://h:1", "x"]):
        for path, fields in (("MemberAdd", {}), ("MemberUpdate", {"ID": first["ID"]})):
            check(refused(lambda: kv.call(CLUSTER + path, peerURLs=urls, **fields)) == BAD_URLS, f"{path} {urls}")
    after = {member["name"]: member for member in ctl.json("member", "list")["members"]}
    check(after == listed, f"nothing changed: {after}")


def pages():
    """C1 /health and /version by HTTP/1.1 on both ports; nothing else"""
    for address in (Shared.cluster.nodes[1].etcd, Shared.cluster.nodes[1].grpc):
        for path, expected in (("/health", {"health": "true", "reason": ""}),
                               ("/version", {"etcdserver": "3.6.5", "etcdcluster": "3.6.0"}), ("/keys", None)):
            connection = http.client.HTTPConnection(address, timeout=etcds.PATIENCE)
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            check(answer.status == (200 if expected else 404), f"{path}: {answer.status} {body}")
            check(not expected or json.loads(body) == expected, f"{path}: {body}")
            connection.close()


def snapshot():
    """Snapshot is an archive of ours and says so: musterctl restore takes it, and the keys are there"""
    cluster, path = Shared.cluster, os.path.join(Shared.cluster.dir, "archive")
    leader = leader_of(cluster)
    Client(leader).put(b"kept", b"in the archive")
    chunks = etcds.coordinators.stream(etcds.channel_of(leader), MAINTENANCE + "Snapshot")
    check("muster" in chunks[0].version and not chunks[0].blob and chunks[0].header.member_id, f"{chunks[0]}")
    with open(path, "wb") as file:
        file.write(b"".join(chunk.blob for chunk in chunks))
    with Etcds(1, first=7) as other:
        node = other.nodes[0]
        done = subprocess.run([MUSTERCTL, "restore", path, "--data-dir", node.dir, "--id", node.name, "--raft-advertise",
                               node.raft], capture_output=True, text=True, timeout=etcds.PATIENCE)
        check(done.returncode == 0, f"{done}")
        other.ready()
        check(patiently(lambda: Client(node).get(b"kept")) == b"in the archive", "the key")
    follower = cluster.others(leader)[0]
    check(refused(lambda: etcds.coordinators.stream(etcds.channel_of(follower), MAINTENANCE + "Snapshot")) == NOT_LEADER,
          "of a follower")


def move_leader():
    """C6 MoveLeader: only of the leader, only to a member; then that one leads"""
    cluster = Shared.cluster
    leader = leader_of(cluster)
    other = cluster.others(leader)[0]
    target = ask(other, MAINTENANCE + "Status").header.member_id
    check(refused(lambda: Client(other).call(MAINTENANCE + "MoveLeader", targetID=target)) == NOT_LEADER, "a follower")
    check(refused(lambda: Client(leader).call(MAINTENANCE + "MoveLeader", targetID=77)) == BAD_TRANSFEREE, "nobody")

    def move():     # a transfer may not happen in its time
        now = leader_of(cluster)
        if now is other:
            return True
        code_of(lambda: Client(now).call(MAINTENANCE + "MoveLeader", targetID=target))
        return None
    wait_for("the other leads", move)
    check(Client(other).call(MAINTENANCE + "MoveLeader", targetID=target).header.member_id, "it leads already")


def remove_member():
    """C6 MemberRemove asked of a follower: the member is gone from every list; promoting a voter is refused"""
    cluster = Shared.cluster
    leader = leader_of(cluster)
    gone, asked = cluster.others(leader)
    target = ask(gone, MAINTENANCE + "Status").header.member_id
    promoted = refused(lambda: Client(asked).call(CLUSTER + "MemberPromote", ID=target))
    check(promoted[0] in (9, 14), f"a voter is promoted: {promoted}")

    def remove():   # until the rules for it are met; a member that is gone is not found again
        code, text, _ = code_of(lambda: Client(asked).call(CLUSTER + "MemberRemove", ID=target))
        return code == grpc.StatusCode.OK or "member not found" in text
    wait_for("it is removed", remove)
    wait_for("two members", lambda: len(ask(asked, CLUSTER + "MemberList", linearizable=True).members) == 2)


if __name__ == "__main__":
    with Etcds(3, options=etcds.PATIENT) as Shared.cluster:
        Shared.cluster.ready()
        for one in Shared.cluster.nodes:    # a follower hears of the last voter after the leader
            wait_for("all are voters, by its own word",
                     lambda: not any(m.isLearner for m in ask(one, CLUSTER + "MemberList").members) and
                     not ask(one, MAINTENANCE + "Status").isLearner)
        run_cases([members, status, hashes, ahead, small_answers, add_and_update, pages, snapshot, move_leader, remove_member])
