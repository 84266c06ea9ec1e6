#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks proto/ and src/wire/message.h against Python's protobuf.

usage: test_proto.py SOURCE_ROOT JUDGE_PROGRAM PROTOSET...      (prints TAP)

The test reads the descriptor sets that the build embeds, encodes random messages of many types, and
expects muster's reader to return them unchanged. Then it damages the bytes: muster must refuse all
that Python refuses, and messages that both accept must be equal. Muster may refuse more, but only
for the reasons in STRICTER.
"""
import os
import random
import re
import subprocess
import sys
import tempfile
import warnings

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError:
    print("1..0 # SKIP python3-protobuf is not installed for", sys.executable)
    sys.exit(0)

# Reasons for which muster is stricter on purpose.
STRICTER = ("groups are not supported", "wrong wire type", "given twice", "holds a NUL byte",
            "length past 2 GiB", "bad tag", "bad field number", "nested too deeply",
            "number longer than ten bytes")


class Judge:
    def __init__(self, program, sets):
        pool = descriptor_pool.DescriptorPool()
        seen = set()
        for path in sets:
            with open(path, "rb") as source:
                for file in descriptor_pb2.FileDescriptorSet.FromString(source.read()).file:
                    if file.name not in seen:
                        seen.add(file.name)
                        pool.Add(file)
        factory = message_factory.MessageFactory(pool)
        names = subprocess.run([program, "--types"], check=True, capture_output=True, text=True).stdout.split()
        self.types = {name: factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in names}
        self.files = seen
        self.ours = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, name, data):
        self.ours.stdin.write(f"{name} {data.hex()}\n")
        self.ours.stdin.flush()
        line = self.ours.stdout.readline()
        if not line:
            raise SystemExit("the judge program died")
        word, _, rest = line.rstrip("\n").partition(" ")
        return (bytes.fromhex(rest), None) if word == "ok" else (None, rest)


def every_contract(judge):
    """The checked messages include, or contain, one message of each file of proto/."""
    reached = set()

    def reach(message):
        if message.full_name in reached:
            return
        reached.add(message.full_name)
        judged.add(message.file.name)
        for field in message.fields:
            if field.message_type:
                reach(field.message_type)
    judged = set()
    for kind in judge.types.values():
        reach(kind.DESCRIPTOR)
    missing = judge.files - judged
    return f"no message is judged of {', '.join(sorted(missing))}" if missing else None


def random_text(rng, nul):
    pieces = ["a", "zone", "é", "€", "😀", " ", "\x7f"] + (["\0"] if nul else [])
    return "".join(rng.choice(pieces) for _ in range(rng.choice([0, 1, 3, 9, 200])))


def random_value(rng, field, nul, depth):
    kind = field.type
    if kind == field.TYPE_STRING:
        return random_text(rng, nul)
    if kind == field.TYPE_BYTES:
        return rng.randbytes(rng.choice([0, 1, 5, 300]))
    if kind == field.TYPE_BOOL:
        return rng.random() < 0.5
    if kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return rng.choice([0.0, 1.5, -2.5, 1e30, float("inf")])
    if kind == field.TYPE_ENUM:
        return rng.choice([0, 1, 2, 99, -1, 2**31 - 1])     # open enums: any number is valid
    bits = 64 if kind in (field.TYPE_INT64, field.TYPE_UINT64, field.TYPE_SINT64, field.TYPE_FIXED64,
                          field.TYPE_SFIXED64) else 32
    signed = kind in (field.TYPE_INT32, field.TYPE_INT64, field.TYPE_SINT32, field.TYPE_SINT64,
                      field.TYPE_SFIXED32, field.TYPE_SFIXED64)
    low, high = (-(2**(bits - 1)), 2**(bits - 1) - 1) if signed else (0, 2**bits - 1)
    return rng.choice([low, high, 0, 1, rng.randint(low, high)])


def fill(rng, message, nul_fields, depth):
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.4:
            continue
        nul = field.full_name in nul_fields
        is_map = field.message_type and field.message_type.GetOptions().map_entry
        if is_map:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            for _ in range(rng.randint(0, 4)):
                at = random_value(rng, key, nul, depth)
                if value.message_type:
                    if depth:
                        fill(rng, getattr(message, field.name)[at], nul_fields, depth - 1)
                else:
                    getattr(message, field.name)[at] = random_value(rng, value, nul, depth)
        elif field.label == field.LABEL_REPEATED:
            for _ in range(rng.randint(0, 4)):
                if field.message_type:
                    if depth:
                        fill(rng, getattr(message, field.name).add(), nul_fields, depth - 1)
                else:
                    getattr(message, field.name).append(random_value(rng, field, nul, depth))
        elif field.message_type:
            if depth:
                getattr(message, field.name).SetInParent()
                fill(rng, getattr(message, field.name), nul_fields, depth - 1)
        else:
            setattr(message, field.name, random_value(rng, field, nul, depth))


def nul_fields(root):
    with open(os.path.join(root, "proto", "text-as-bytes.txt"), encoding="utf-8") as lines:
        return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def same_messages(judge, rng, allowed):
    for name, kind in judge.types.items():
        for _ in range(60):
            message = kind()
            fill(rng, message, allowed, 3)
            data = message.SerializeToString()
            back, note = judge.ask(name, data)
            if note is not None:
                return f"{name}: refused: {note}: {data.hex()}"
            if kind.FromString(back) != message:
                return f"{name}: changed on the way: {data.hex()}"
    return None


def damage(rng, data):
    data = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(4)
        if what == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at:]
        elif what == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 4))
        else:
            data[at:at] = data[rng.randrange(len(data) + 1):][:rng.randint(1, 40)]
    return bytes(data)


class Quiet:
    """Hides stderr: Python's decoder writes a line for each bad string, about a thousand."""

    def __enter__(self):
        self.stderr = os.dup(2)
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 2)
        os.close(silence)

    def __exit__(self, *_):
        os.dup2(self.stderr, 2)
        os.close(self.stderr)


def damaged_messages(judge, rng, allowed):
    both, neither, stricter = 0, 0, 0
    warnings.simplefilter("ignore")
    for name, kind in judge.types.items():
        for _ in range(250):
            message = kind()
            fill(rng, message, allowed, 2)
            data = damage(rng, message.SerializeToString())
            try:
                theirs = kind.FromString(data)
            except DecodeError:
                theirs = None
            back, note = judge.ask(name, data)
            if theirs is None and note is None:
                return f"{name}: Python refuses it, muster does not: {data.hex()}"
            if theirs is None:
                neither += 1
            elif note is not None:
                stricter += 1
                if not note.endswith(STRICTER):
                    return f"{name}: only muster refuses it: {note}: {data.hex()}"
            else:
                both += 1
                # NaN is not equal to itself, so the encodings are compared.
                again = kind.FromString(back)
                if again.SerializeToString(deterministic=True) != theirs.SerializeToString(deterministic=True):
                    return f"{name}: is read differently by muster: {data.hex()}"
    print(f"# {both} accepted by both, {neither} refused by both, {stricter} refused by muster only")
    if min(both, neither) < 200:
        return "too few of a kind to prove anything"
    return None


def quietly(check, *args):
    with Quiet():
        return check(*args)


# -- the private copy --

def descriptor_set(protoc_root, files, out):
    subprocess.run(["protoc", f"--proto_path={protoc_root}", "--include_imports",
                    f"--descriptor_set_out={out}"] + files, check=True)
    with open(out, "rb") as source:
        return descriptor_pb2.FileDescriptorSet.FromString(source.read())


def fields_of(file):
    """({full name: properties that must be equal}, {full name: is text}) of every message of a file."""
    same, text = {}, {}

    def walk(prefix, messages, enums):
        for message in messages:
            name = f"{prefix}.{message.name}"
            same[name] = [oneof.name for oneof in message.oneof_decl if not oneof.name.startswith("_")]
            for field in message.field:
                bytes_or_string = field.type in (field.TYPE_STRING, field.TYPE_BYTES)
                oneof = field.oneof_index if field.HasField("oneof_index") and not field.proto3_optional else None
                same[f"{name}.{field.name}"] = (field.number, field.label, field.type_name, oneof,
                                                "length" if bytes_or_string else field.type)
                text[f"{name}.{field.name}"] = field.type == field.TYPE_STRING
            walk(name, message.nested_type, message.enum_type)
        for enum in enums:
            same[f"{prefix}.{enum.name}"] = [(value.name, value.number) for value in enum.value]
    walk(file.package, file.message_type, file.enum_type)
    return same, text


def private_copy(root, allowed):
    proto = os.path.join(root, "proto")
    paths = sorted(os.path.relpath(os.path.join(where, name), proto)
                   for where, _, names in os.walk(proto) for name in names if name.endswith(".proto"))
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, os.path.join(proto, "private.py"), "--root", proto, "--list",
                        os.path.join(proto, "text-as-bytes.txt"), "--out", scratch,
                        "--table", os.path.join(scratch, "table.c")] + paths, check=True)
        public = descriptor_set(proto, paths, os.path.join(scratch, "public"))
        private = descriptor_set(scratch, [path.replace("/", "_") for path in paths],
                                 os.path.join(scratch, "private"))
        with open(os.path.join(scratch, "table.c"), encoding="utf-8") as table:
            rows = re.findall(r'\{"([\w.]+)", (\d+)\}', table.read())
    same, text, same_private, text_private = {}, {}, {}, {}
    for file in public.file:
        found = fields_of(file)
        same.update(found[0])
        text.update(found[1])
    for file in private.file:
        found = fields_of(file)
        same_private.update(found[0])
        text_private.update(found[1])
    if same != same_private:
        return "differ: " + ", ".join(sorted(k for k in same.keys() | same_private.keys()
                                             if same.get(k) != same_private.get(k)))
    changed = {name for name in text if text[name] != text_private[name]}
    entry = {}
    for name in allowed:
        message, field = name.rsplit(".", 1)
        camel = "".join(word.capitalize() for word in field.split("_")) + "Entry"
        parts = [f"{message}.{camel}.{part}" for part in ("key", "value")]
        entry.update(dict.fromkeys(parts if parts[0] in text else [name], name))
    if changed != set(entry):
        return f"text that became bytes: {sorted(changed)}, listed: {sorted(allowed)}"
    numbers = {(name.rsplit(".", 1)[0], str(same[name][0])) for name in changed}
    if numbers != set(rows):
        return f"the guard's table says {rows}"
    print(f"# {len(paths)} files, {len(text)} fields compared, {len(changed)} of them bytes in the copy")
    return None


def main():
    root, program, sets = sys.argv[1], sys.argv[2], sys.argv[3:]
    seed = int(os.environ.get("MUSTER_TEST_SEED", random.randrange(2**32)))
    print(f"# MUSTER_TEST_SEED={seed}")
    rng = random.Random(seed)
    judge = Judge(program, sets)
    allowed = nul_fields(root)
    checks = [
        ("the private copy differs from the contracts in the listed fields only",
         lambda: private_copy(root, allowed)),
        ("every contract is judged", lambda: every_contract(judge)),
        ("what Python encodes we read and write back the same", lambda: same_messages(judge, rng, allowed)),
        ("what Python refuses we refuse, and what both accept means the same",
         lambda: quietly(damaged_messages, judge, rng, allowed)),
    ]
    print(f"1..{len(checks)}")
    failed = False
    for number, (rule, check) in enumerate(checks, 1):
        problem = check()
        failed = failed or problem is not None
        if problem:
            print(f"# {problem}")
        print(f"{'not ok' if problem else 'ok'} {number} - {rule}")
    judge.ours.stdin.close()
    judge.ours.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
