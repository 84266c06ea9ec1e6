#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the private copy of the contracts that C code is generated from.

Four things change, none of them on the wire: fields of text-as-bytes.txt become bytes; the word
`optional` goes (protoc-c knows it for proto2 only); services go (protoc-c makes stubs we do not use,
and two functions of one name for a method called Init); files and imports get flat names, because a
Meson target has no outputs in subdirectories. tests/unit/wire/test_proto.py compares the two.

The files keep one field, and at most one brace, on a line; a line that does not is refused by protoc
or by that test, not misread in silence.
"""
import argparse
import os
import re

FIELD = re.compile(r"^(\s*)(optional\s+)?(map<string, string>|[\w.]+)(\s+)(\w+)(\s*=\s*)(\d+)")
BLOCK = re.compile(r"\s*(message|enum|service|oneof)\s+(\w+).*\{")


def flat(path):
    return path.replace("/", "_")


def entry_of(field):
    """The message protoc makes of a map field: shard_metadata gives ShardMetadataEntry."""
    return "".join(word.capitalize() for word in field.split("_")) + "Entry"


class Copy:
    def __init__(self, wanted):
        self.wanted = wanted
        self.rows = {}  # full field name: [(message, number)] as the generated descriptor has them

    def field(self, line, found, message):
        space, _, kind, gap, name, equals, number = found.groups()
        full = f"{message}.{name}"
        if full in self.wanted:
            if kind == "string":
                kind, self.rows[full] = "bytes", ((message, number),)
            elif kind == "map<string, string>":  # the message that protoc makes of a map: a key of a map cannot be bytes
                entry = entry_of(name)
                self.rows[full] = (f"{message}.{entry}", 1), (f"{message}.{entry}", 2)
                kind = f"message {entry} {{ bytes key = 1; bytes value = 2; }} repeated {entry}"
            else:
                raise SystemExit(f"private.py: {full} is no text field")
        return space + kind + gap + name + equals + number + line[found.end():]

    def text(self, source):
        package, scope, out, in_service = "", [], [], False
        for line in source.splitlines():
            code = line.split("//")[0]
            found = re.match(r"\s*package\s+([\w.]+)\s*;", code)
            if found:
                package = found.group(1)
            found = re.match(r'\s*import\s+"([^"]+)"\s*;', code)
            if found:
                line = f'import "{flat(found.group(1))}";'
            found = FIELD.match(line)
            if found and scope:
                line = self.field(line, found, ".".join([package] + scope))
            found = BLOCK.match(code)
            if found and found.group(1) == "service":
                in_service = True
            elif found and "}" not in code:
                scope.append(found.group(2))
            elif re.match(r"\s*\}", code) and not in_service:
                scope.pop()
            if not in_service:
                out.append(line)
            elif re.match(r"\}", code):
                in_service = False
        return "\n".join(out) + "\n"

    def table(self):
        missing = [name for name in self.wanted if name not in self.rows]
        if missing:
            raise SystemExit(f"private.py: no such field: {', '.join(missing)}")
        rows = "".join(f'    {{"{message}", {number}}},\n' for name in self.wanted for message, number in self.rows[name])
        return ("/* Generated from proto/text-as-bytes.txt by proto/private.py. */\n"
                '#include "wire/message_impl.h"\n\n'
                "const struct text_field text_as_bytes[] = {\n" + rows + "    {0, 0},\n};\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True, help="where the contracts are")
    parser.add_argument("--list", required=True, help="text-as-bytes.txt")
    parser.add_argument("--out", required=True, help="directory for the copies")
    parser.add_argument("--table", help="C file for the guard; every name of the list must be found")
    parser.add_argument("files", nargs="+", help="relative to the root")
    args = parser.parse_args()
    with open(args.list, encoding="utf-8") as lines:
        copy = Copy([line.strip() for line in lines if line.strip() and not line.startswith("#")])
    outputs = {}
    for path in args.files:
        with open(os.path.join(args.root, path), encoding="utf-8") as source:
            outputs[os.path.join(args.out, flat(path))] = copy.text(source.read())
    if args.table:
        outputs[args.table] = copy.table()
    for path, text in outputs.items():
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)


if __name__ == "__main__":
    main()
