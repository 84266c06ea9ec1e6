# SPDX-License-Identifier: Apache-2.0
"""The disks that a power cut can leave, from the journal of all calls that changed the disk (disk_journal.h).

Synced content survives. A write that was not synced is lost, kept or torn, each on its own. A name is
durable after a sync of its directory; the form decides about the other names:
  none   all that was not synced is lost
  order  names are kept up to some moment, as a file system with a journal does; writes as they fall
  any    each name goes its own way, but what builds on a lost one is lost, too; writes as they fall
  all    everything is kept, as after kill -9
Syncing a file says nothing about its name; a truncation that is lost takes all later writes to its file with
it. The same rules as the simulator's disk (src/sim/sim_fs.h)."""
import heapq
import os
import shutil
import struct

SECTOR = 512
HEAD = struct.Struct("=5Q")
DIRECTORY = "directory"
FORMS = ("none", "order", "any", "all")


def journal(path):
    """(ns, kind, inode, number, text) of each record; a last one that is not whole never happened."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    while at + HEAD.size <= len(data):
        ns, inode, number, size, kind = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + size > len(data):
            return
        yield ns, chr(kind), inode, number, data[at:at + size]
        at += size


def merged(journals):
    """(ns, whose, record) of several journals {whose: path}, in the order of time."""
    return list(heapq.merge(*([(record[0], whose, record) for record in journal(path)]
                              for whose, path in journals.items()), key=lambda step: step[0]))


class File:
    def __init__(self, content=b""):
        self.durable, self.pending = bytearray(content), []  # of (offset, bytes); None: a truncation


class NameChange:
    """`gone` vanishes, `path` names `what`; either may be None."""

    def __init__(self, gone, path, what):
        self.gone, self.path, self.what, self.durable = gone, path, what, False

    def directory(self):
        return os.path.dirname(self.path or self.gone)


def tree(top):
    """{path below top: content, or DIRECTORY}"""
    found = {}
    for path, _, names in os.walk(top):
        found[path[len(top):]] = DIRECTORY
        for name in names:
            with open(os.path.join(path, name), "rb") as file:
                found[os.path.join(path, name)[len(top):]] = file.read()
    return found


def put(content, offset, data):
    if data is None:
        content[offset:] = bytes(max(0, offset - len(content)))
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset:offset + len(data)] = data


class Disk:
    """The directory `top`, as it is now and all of it durable, and what happens to it from now on."""

    def __init__(self, top):
        self.top, self.base, self.changes, self.syncs = top, {}, [], {}
        self.inodes = {os.stat(os.path.dirname(top)).st_ino: os.path.dirname(top)}
        for path, _, names in os.walk(top):
            self.base[path] = DIRECTORY
            self.inodes[os.stat(path).st_ino] = path
            for name in names:
                file = os.path.join(path, name)
                with open(file, "rb") as content:
                    self.base[file] = File(content.read())
                self.inodes[os.stat(file).st_ino] = self.base[file]
        self.now = dict(self.base)

    def apply(self, record):
        _, kind, inode, number, text = record
        if kind in "CM":
            what, path = (File(), text.decode()) if kind == "C" else (DIRECTORY, text.decode())
            self.inodes[inode] = what if kind == "C" else path
            self.change(None, path, what)
        elif kind == "R":
            old, new = text.decode().split("\0")[:2]
            assert self.now[old] is not DIRECTORY
            self.change(old, new, self.now[old])
        elif kind == "U":
            self.change(text.decode(), None, None)
        elif inode not in self.inodes:
            pass  # not of this disk
        elif kind in "WT":
            self.inodes[inode].pending.append((number, text if kind == "W" else None))
        elif kind == "b":
            what = self.inodes[inode]
            self.syncs[number] = (what, len(what.pending) if isinstance(what, File) else len(self.changes))
        elif kind == "s":
            self.synced(*self.syncs.pop(number))

    def change(self, gone, path, what):
        if gone:
            self.now.pop(gone)
        if path:
            self.now[path] = what
        self.changes.append(NameChange(gone, path, what))

    def synced(self, what, count):
        if isinstance(what, File):
            for offset, data in what.pending[:count]:
                put(what.durable, offset, data)
            del what.pending[:count]
            for number, (other, mark) in self.syncs.items():  # begun on the same file meanwhile
                if other is what:
                    self.syncs[number] = (other, max(0, mark - count))
        else:
            for change in self.changes[:count]:
                change.durable = change.durable or change.directory() == what

    def image(self, into, form, rng):
        """Makes the directory `into` what a cut at this moment leaves."""
        shutil.rmtree(into, ignore_errors=True)
        luck = (rng.random(), rng.random())
        names = self.names(form, rng)
        for path in sorted(names):
            if os.path.dirname(path) not in names and path != self.top:
                del names[path]  # its directory was lost
        for path, what in sorted(names.items()):
            place = into + path[len(self.top):]
            if what is DIRECTORY:
                os.makedirs(place, mode=0o700)
                continue
            with open(place, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(content(what, form, luck, rng))

    def names(self, form, rng):
        names, lost, left = dict(self.base), set(), [c for c in self.changes if not c.durable]
        ends = rng.randint(0, len(left)) if form == "order" else len(left) if form == "all" else 0
        kept = set(map(id, left[:ends]))
        for change in self.changes:
            both = {change.gone, change.path} - {None}
            keep = change.durable or id(change) in kept
            if form == "any" and not keep:
                keep = rng.random() < 0.5 and not both & lost
            if not keep:
                lost |= both
                continue
            if change.gone:
                names.pop(change.gone, None)
            if change.path:
                names[change.path] = change.what
        return names


def content(file, form, luck, rng):
    found = bytearray(file.durable)
    for offset, data in file.pending:
        keep, whole = rng.random() < luck[0], rng.random() < luck[1]
        if form == "none" or (form != "all" and data is None and not keep):
            break  # what follows a lost truncation is lost, too
        if form == "all" or (keep and whole) or data is None:
            put(found, offset, data)
        elif keep:
            torn(found, offset, data, rng)
    return found


def torn(found, offset, data, rng):
    """Some of its sectors, or a beginning of it."""
    if rng.random() < 0.3:
        put(found, offset, data[:rng.randint(0, len(data))])
        return
    at, end = offset, offset + len(data)
    while at < end:
        following = min((at // SECTOR + 1) * SECTOR, end)
        if rng.random() < 0.5:
            put(found, at, data[at - offset:following - offset])
        at = following
