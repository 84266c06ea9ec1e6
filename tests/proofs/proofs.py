#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The four cheap proofs that the layers of layers.txt hold, each with planted offences that it must find.

text     every include edge is granted; no cycle; no `never` pair at any distance; who includes a header of the
         operating system is src/io, src/sim or listed with a reason (scripts/check-layers)
link     each module's library links whole with the libraries it may see, and nothing else of ours
symbols  no library names a symbol that a library outside its grants defines
purity   the pure libraries ask the system only for what pure-symbols.txt lists

usage: proofs.py SOURCE_ROOT BUILD_ROOT        (prints TAP)
"""
import functools
import os
import shutil
import subprocess
import sys
import tempfile

PURE = ["base", "model", "section", "shard/state", "shard/decide", "shard/core", "operator/core", "fleet/core", "member/core",
        "worker/core", "store/core"]
# Pure files of modules that are not. Each is proven pure by itself.
PURE_FILES = ["prim/answer.c", "prim/group.c", "prim/names.c"]
# What the system libraries under a module need at link time.
EXTERNAL = ["libuv", "openssl", "jansson", "libnghttp2", "libprotobuf-c",
            "zlib", "libcurl", "yaml-0.1", "libnats"]


def run(command, **kwargs):
    return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **kwargs)


def pure_files(build):
    return {path: os.path.join(library(build, os.path.dirname(path)) + ".p", os.path.basename(path) + ".o")
            for path in PURE_FILES}


class Layers:
    def __init__(self, path):
        self.may, self.never = {}, []
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(("#", "os :")) or ":" not in line:
                    continue
                left, right = (side.split() for side in line.split(":"))
                if left == ["never"]:
                    self.never.append(tuple(right))
                    continue
                for module in left:
                    self.may.setdefault(module, set()).update(right)

    def reach(self, module):
        seen, todo = set(), [module]
        while todo:
            for granted in self.may.get(todo.pop(), ()):
                if granted not in seen:
                    seen.add(granted)
                    todo.append(granted)
        return seen


def library(build, module):
    """src/shard/state/libshard_state.a for shard/state."""
    return os.path.join(build, "src", module, "lib" + module.replace("/", "_") + ".a")


@functools.cache  # each module is compared with all others
def symbols(archive):
    """(defined, undefined) global symbols of an archive, with what it resolves itself removed."""
    listing = run(["nm", "-g", archive])
    defined, undefined = set(), set()
    for line in listing.stdout.splitlines():
        parts = line.split()
        if len(parts) == 3 and parts[1] in "TDBRVWC":
            defined.add(parts[2])
        elif len(parts) == 2 and parts[0] in "Uvw":
            undefined.add(parts[1])
    return defined, undefined - defined


def proof_text(tree):
    check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "check-layers")
    ran = run([check, tree])
    return ran.stdout.splitlines() if ran.returncode else []


def proof_link(layers, archives, module):
    flags = run(["pkg-config", "--libs"] + EXTERNAL).stdout.split()
    seen = [archives[name] for name in layers.reach(module) if name in archives]
    with tempfile.TemporaryDirectory() as scratch:
        main = os.path.join(scratch, "main.c")
        with open(main, "w", encoding="utf-8") as source:
            source.write("int main(void) { return 0; }\n")
        ran = run(["gcc", main, "-o", os.path.join(scratch, "main"), "-Wl,--whole-archive",
                   archives[module], "-Wl,--no-whole-archive", "-Wl,--start-group"] + seen +
                  ["-Wl,--end-group", "-l:libraft.a"] + flags + ["-lpthread", "-lm"])
    return ran.stdout.splitlines() if ran.returncode else []


def proof_symbols(layers, archives, module):
    _, wanted = symbols(archives[module])
    offences = []
    for other, archive in archives.items():
        if other == module or other in layers.may.get(module, ()):
            continue
        foreign = wanted & symbols(archive)[0]
        offences += [f"{module} uses {name} of {other}, which it may not see" for name in sorted(foreign)]
    return offences


def proof_purity(archives, module, allowed):
    ours = set()
    for name in PURE + PURE_FILES:
        if name in archives:
            ours |= symbols(archives[name])[0]
    _, wanted = symbols(archives[module])
    return [f"{module} asks the system for {name}" for name in sorted(wanted - ours - allowed)]


# -- planted offences: each proof must find what it is for --

def plant_tree(files, rules):
    tree = tempfile.mkdtemp()
    with open(os.path.join(tree, "layers.txt"), "w", encoding="utf-8") as out:
        out.write(rules)
    for name, text in files.items():
        path = os.path.join(tree, "src", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    return tree


def plant_archive(scratch, name, source):
    path = os.path.join(scratch, name)
    with open(path + ".c", "w", encoding="utf-8") as out:
        out.write(source)
    for command in (["gcc", "-c", path + ".c", "-o", path + ".o"], ["ar", "rcs", path + ".a", path + ".o"]):
        if run(command).returncode:
            raise SystemExit("cannot build a planted library")
    return path + ".a"


def planted_text(files, rules):
    tree = plant_tree(files, rules)
    found = proof_text(tree)
    shutil.rmtree(tree)
    return found


def planted(layers_text):
    """Yields (rule, finding): an empty finding is a failure of the proof."""
    good = "low :\nmid : low\nhigh : mid\nother : low\n"
    yield ("the text proof finds an include that points up",
           planted_text({"low/a.c": '#include "mid/b.h"\n'}, good))
    yield ("the text proof finds an include of a module nobody lists",
           planted_text({"low/a.c": '#include "elsewhere/b.h"\n'}, good))
    yield ("the text proof finds an indented include",
           planted_text({"low/a.c": '  #  include "mid/b.h"\n'}, good))
    yield ("the text proof finds a cycle of grants",
           planted_text({"low/a.c": '#include "low/a.h"\n'}, "low : mid\nmid : low\n"))
    yield ("the text proof finds a forbidden pair two steps away",
           planted_text({"low/a.c": '#include "low/a.h"\n'}, good + "never : high low\n"))
    mine = {"low/a.c": '#include "low/a.h"\n#include <stdio.h>\n', "io/b.c": "#include <unistd.h>\n"}
    yield ("the text proof finds a header of the system that nobody lists",
           planted_text({**mine, "low/b.c": "# include <sys/new.h>\n"}, good))
    yield ("the text proof finds a listed file without such a header",
           planted_text(mine, good + "os : low/a.c : it once waited\n"))
    yield ("the text proof finds a listed file without a reason",
           planted_text({**mine, "low/b.c": "#include <time.h>\n"}, good + "os : low/b.c :\n"))
    if planted_text({**mine, "low/b.c": "#include <time.h>\n"}, good + "os : low/b.c : it waits\n"):
        raise SystemExit("the text proof finds fault with a file that is listed")
    yield ("the text proof refuses an empty layers.txt", planted_text({"low/a.c": '#include "low/a.h"\n'}, "\n"))
    with tempfile.TemporaryDirectory() as scratch:
        archives = {
            "low": plant_archive(scratch, "low", "int other_secret(void); int low_f(void); int low_f(void) { return other_secret(); }\n"),
            "other": plant_archive(scratch, "other", "int other_secret(void); int other_secret(void) { return 1; }\n"),
        }
        rules = os.path.join(scratch, "layers.txt")
        with open(rules, "w", encoding="utf-8") as out:
            out.write(good)
        layers = Layers(rules)
        yield "the link proof finds a library that needs one it may not see", proof_link(layers, archives, "low")
        yield "the symbol proof names the foreign symbol", proof_symbols(layers, archives, "low")
        for call, source in (
                ("a clock", "#include <time.h>\nlong f(void); long f(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec; }\n"),
                ("randomness", "#include <stdlib.h>\nlong f(void); long f(void) { return random(); }\n"),
                ("a file", "#include <fcntl.h>\nint f(void); int f(void) { return open(\"x\", 0); }\n"),
                ("a thread", "#include <pthread.h>\nint f(pthread_mutex_t *m); int f(pthread_mutex_t *m) { return pthread_mutex_lock(m); }\n"),
                ("the environment", "#include <stdlib.h>\nchar *f(void); char *f(void) { return getenv(\"x\"); }\n")):
            one = {"base": plant_archive(scratch, call.replace(" ", "-"), source)}
            yield f"the purity proof finds {call}", proof_purity(one, "base", allowed_symbols())


def allowed_symbols():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pure-symbols.txt")
    with open(path, encoding="utf-8") as lines:
        return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def main():
    source, build = sys.argv[1], sys.argv[2]
    layers = Layers(os.path.join(source, "layers.txt"))
    archives = {m: library(build, m) for m in layers.may if os.path.exists(library(build, m))}
    pure = archives | pure_files(build)
    results = [("every include edge is granted", proof_text(source))]
    # A module with code and no library would slip past three proofs.
    results.append(("every module with sources has its library",
                    [m for m in layers.may if m not in archives and os.path.isdir(os.path.join(source, "src", m))
                     and any(f.endswith(".c") for f in os.listdir(os.path.join(source, "src", m)))]))
    for module in sorted(archives):
        results.append((f"{module} links with what it may see", proof_link(layers, archives, module)))
        results.append((f"{module} names no symbol it may not see", proof_symbols(layers, archives, module)))
    for name in sorted(set(PURE + PURE_FILES) & set(pure)):
        results.append((f"{name} is pure", proof_purity(pure, name, allowed_symbols())))
    results += [(rule, [] if found else ["nothing was found"]) for rule, found in planted(layers)]
    for number, (rule, offences) in enumerate(results, 1):
        print(f"{'not ok' if offences else 'ok'} {number} - {rule}")
        for offence in offences[:20]:
            print(f"# {offence}")
    print(f"1..{len(results)}")
    sys.exit(any(offences for _, offences in results))


main()
