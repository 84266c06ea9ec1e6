#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input for coordinators: too large, cut off or invalid input on each port, and data directories that are
damaged, too new or another cluster's. Each is refused with a reason, nothing is lost, and other clients are served."""
import glob
import os
import shutil
import socket
import struct

import grpc

from coordinators import (COORDINATOR, FLEET, METHODS, PATIENT, Cluster, check, code_of, contents, message, run_cases,
                          wait_for)

CODE = grpc.StatusCode
MIB = 1 << 20
NONSENSE = {
    "a field that ends too soon": b"\x0a\x7fshort", "a length over all": b"\x0a\xff\xff\xff\xff\x0f",
    "half a number": b"\x08\x80",
    "field number 0": b"\x02\x01x", "group without end": b"\x0b", "not UTF-8": b"\x0a\x02\xff\xfe", "zeros": bytes(64),
}
TEXT_FIRST = {COORDINATOR + "AssignDomain", COORDINATOR + "UnassignDomain", COORDINATOR + "RemoveShard",
              FLEET + "AddShard", FLEET + "BindCluster", FLEET + "SetQuota", COORDINATOR + "ReportShard",
              COORDINATOR + "JoinRaftCluster"}


def raw(node, path, body):
    kind = node.dialed().unary_stream if METHODS[path].server_streaming else node.dialed().unary_unary

    def ask():
        answer = kind("/" + path)(body, timeout=60)
        return list(answer) if METHODS[path].server_streaming else answer
    return code_of(ask)


def one():
    return Cluster(1, join=False)


# -- the gRPC port --

def nonsense_is_refused():
    """Bytes that are no message, to each method: INVALID_ARGUMENT with the reason, and the tables are as before."""
    with one().start() as cluster:
        leader = cluster.leader()
        leader.call(FLEET + "AddShard", shard_id="a", address="h:1")
        before = cluster.agree()
        for path in sorted(path for path in METHODS if path.startswith((COORDINATOR, FLEET))):
            for why, body in NONSENSE.items():
                if why == "not UTF-8" and path not in TEXT_FIRST:
                    continue  # an unknown field or no text there
                code, text, _ = raw(leader, path, body)
                check(code == CODE.INVALID_ARGUMENT and text, f"{path}: {why}: {code} '{text}'")
        check(cluster.agree()["fleet"] == before["fleet"], "nothing changed")


def too_large_is_refused():
    """Messages past their method's limit are RESOURCE_EXHAUSTED, long names INVALID_ARGUMENT; it serves on."""
    with one().start() as cluster:
        leader = cluster.leader()
        report = message("bigfleet.v1alpha1.ShardReport")(shard_id="a", shard_address="x" * (17 * MIB))
        for path, body in ((COORDINATOR + "ReportShard", report.SerializeToString()),
                           (COORDINATOR + "AssignDomain", bytes(5 * MIB)), (COORDINATOR + "ListShards", bytes(5 * MIB)),
                           (FLEET + "SetQuota", bytes(300 * MIB))):
            code, text, _ = raw(leader, path, body)
            check(code == CODE.RESOURCE_EXHAUSTED, f"{path} of {len(body)} bytes: {code} '{text}'")
        leader.hang_up()
        check(not leader.call(COORDINATOR + "ListShards").shards, "it serves on, and nobody was registered")
        for name, limit in (("long id", {"shard_id": "x" * 100000}),
                            ("long address", {"shard_id": "b", "address": "x" * 10**6})):
            code, text, _ = code_of(lambda limit=limit: leader.call(FLEET + "AddShard", **limit))
            check(code == CODE.INVALID_ARGUMENT, f"{name}: {code} {text}")


def hang_up_after(address, data):
    """Sends, reads until the other side ends, and returns the bytes."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 60) as peer:
        peer.settimeout(60)
        got = b""
        try:
            peer.sendall(data)
            while True:
                more = peer.recv(65536)
                if not more:
                    return got
                got += more
        except ConnectionError:
            return got


def frames_out_of_bounds():
    """HTTP/2 and Raft frames that are longer than allowed, or none at all: hung up on, and the cluster goes on."""
    with Cluster(3, PATIENT).start() as cluster:
        cluster.formed()
        leader = cluster.leader()
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
        huge = struct.pack(">I", (1 << 24) - 1)[1:] + b"\0\0\0\0\0\1"
        for why, data in (("a frame of 16 MiB", preface + huge + bytes(100000)),
                          ("no HTTP/2", b"\x16\x03\x01" + bytes(500)),
                          ("a frame of nobody's stream", preface + b"\0\0\1\0\0\0\0\0\5x")):
            hang_up_after(leader.grpc, data)
            check(leader.call(COORDINATOR + "ListShards") is not None, why)
        term = leader.state().term
        for why, data in (("all ones", b"\xff" * 4096), ("zeros", bytes(4096)),
                          ("text", b"GET / HTTP/1.0\r\n\r\n" * 100),
                          ("4 GiB to come", struct.pack("<I", 0xfffffff0) + bytes(1000))):
            hang_up_after(leader.raft, data)
            check(leader.running(), why)
        leader.call(FLEET + "AddShard", shard_id="on")
        cluster.agree()
        check(leader.state().term == term, "it leads on")


# -- data directories --

def crc32c(data, crc=0):
    crc ^= 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def records(path):
    """(offset, size, kind, index) of each record of a segment (docs/formats/log.md), and its salt."""
    with open(path, "rb") as file:
        data = file.read()
    salt, at, found = data[24:32], 4096, []
    while at + 48 <= len(data):
        length, kind = struct.unpack_from("<II", data, at + 8)
        size = 48 + (length + 7) // 8 * 8
        if crc32c(salt[:4] + data[at + 8:at + 48]) != struct.unpack_from("<I", data, at + 4)[0]:
            break
        found.append((at, size, kind, struct.unpack_from("<Q", data, at + 32)[0]))
        at += size
    return found, salt


def rewrite(path, offset, size, salt, change):
    """The bytes of a record as `change` makes them, with its checksum."""
    with open(path, "r+b") as file:
        file.seek(offset)
        record = bytearray(file.read(size))
        change(record)
        record[:4] = struct.pack("<I", crc32c(salt[4:8] + bytes(record[4:])))
        file.seek(offset)
        file.write(record)


def ends_badly(node, *words):
    """Starts the program, which must fail with these words; returns its output."""
    at = len(node.text())
    node.start()
    code = node.wait_end()
    said = node.text()[at:]
    check(code > 0, f"it ended with {code}")
    for word in words:
        check(str(word) in said, f"it does not say '{word}': {said[-600:]}")
    return said


def with_rows(cluster, *options):
    """A replica with rows, stopped."""
    node = cluster.nodes[0].start(*options)
    cluster.leader()
    node.call(FLEET + "AddShard", shard_id="a", address="h:1")
    for number in range(40):
        node.call(COORDINATOR + "AssignDomain", topology_key="rack", topology_value=f"r-{number}", shard_id="a")
    return node


def whole_again(cluster, node):
    node.start()
    cluster.leader()
    rows = node.call(COORDINATOR + "ListDomainAssignments").assignments
    check(len(rows) == 40, f"all rows are there: {len(rows)}")
    node.stop()


def commands_of_tomorrow():
    """A command in the log that this release does not know: it does not run, names the entry, and loses nothing."""
    def version(record):
        struct.pack_into("<I", record, 48 + 8, 99)

    def machine(record):
        struct.pack_into("<I", record, 48 + 4, 9)

    def kind(record):
        at = record.index(b'"kind":4')
        record[at:at + 8] = b'"kind":9'
    with one() as cluster:
        node = with_rows(cluster)
        node.kill()
        segment = sorted(glob.glob(node.dir + "/log/*.seg"))[0]
        found, salt = records(segment)
        offset, size, _, index = [record for record in found if record[2] == 1][-1]
        with open(segment, "rb") as file:
            kept = file.read()
        for change in (version, machine, kind):
            rewrite(segment, offset, size, salt, change)
            before = contents(node.dir + "/snap")
            ends_badly(node, f"entry {index}")
            check(contents(node.dir + "/snap") == before, "no snapshot was made of it")
            with open(segment, "wb") as file:
                file.write(kept)
        whole_again(cluster, node)


def damaged_snapshots():
    """A flipped byte anywhere in a snapshot: it does not start, names file and offset, and changes nothing."""
    with one() as cluster:
        node = with_rows(cluster, "--snapshot-entries", "1", "--snapshot-every", "50ms", "--trailing-entries", "1")
        wait_for("a snapshot", lambda: glob.glob(node.dir + "/snap/*.snap"))
        node.stop()
        path = sorted(glob.glob(node.dir + "/snap/*.snap"))[-1]
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            kept = file.read()
        for offset in (3, 20, size // 2, size - 5):
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(bytes([kept[offset] ^ 0x10]))
            before = contents(node.dir)
            said = ends_badly(node, os.path.basename(path))
            check("offset" in said, f"at {offset}: the offset is not named: {said[-400:]}")
            check(contents(node.dir) == before, "nothing was changed")
            with open(path, "wb") as file:
                file.write(kept)
        with open(path, "r+b") as file:
            file.truncate(size - 9)
        ends_badly(node, os.path.basename(path))
        with open(path, "wb") as file:
            file.write(kept)
        whole_again(cluster, node)


def damaged_log():
    """A flipped bit in an acknowledged entry: it does not start, names file and offset, and cuts nothing off."""
    with one() as cluster:
        node = with_rows(cluster)
        node.stop()
        segment = sorted(glob.glob(node.dir + "/log/*.seg"))[0]
        found, _ = records(segment)
        offset = [record for record in found if record[2] == 1][5][0]
        with open(segment, "r+b") as file:
            file.seek(offset + 60)
            byte = file.read(1)
            file.seek(offset + 60)
            file.write(bytes([byte[0] ^ 1]))
        before = contents(node.dir)
        ends_badly(node, os.path.basename(segment), offset)
        check(contents(node.dir) == before, "nothing was changed")
        with open(segment, "r+b") as file:
            file.seek(offset + 60)
            file.write(byte)
        whole_again(cluster, node)


def another_clusters_directory():
    """A replica with the data of another cluster is refused, naming both; both clusters keep what they have."""
    with Cluster(1, join=False, first=5) as home, Cluster(2) as away:
        node = with_rows(home)
        away.start()
        away.formed()
        away.asked(FLEET + "AddShard", shard_id="b")  # asked twice it is there already
        away.agree()
        for one_of_them in away.nodes:
            one_of_them.kill()
        stranger = away.nodes[1].start("--join-addr", node.grpc)  # its own cluster is not there, so it asks
        wait_for("the reason is reported", lambda: "belongs to cluster" in stranger.text())
        check(len(wait_for("the list", node.replicas)) == 1, "nobody was taken in")
        stranger.kill()
        check([row.shard_id for row in node.call(COORDINATOR + "ListShards").shards] == ["a"], "home is as it was")
        away.start()
        rows = away.ask(COORDINATOR + "ListShards").shards
        check([row.shard_id for row in rows] == ["b"], "so is the other")
        away.agree()
        stranger.stop()
        node.stop()
        shutil.copy(stranger.dir + "/FORMAT", node.dir + "/FORMAT")  # an identity that is not the log's
        before = contents(node.dir + "/log")
        ends_badly(node, "replica")
        check(contents(node.dir + "/log") == before, "nothing was changed")


if __name__ == "__main__":
    run_cases([nonsense_is_refused, too_large_is_refused, frames_out_of_bounds, commands_of_tomorrow, damaged_snapshots,
               damaged_log, another_clusters_directory])
