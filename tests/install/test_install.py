#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libmuster as a stranger meets it: installed into a directory, found by pkg-config, compiled with plain cc.

Shows: the header compiles alone as C11 and as C++, nothing but the header's functions can be seen in either
library, every example builds against each of them and runs over mem: and file:. libmuster.so loads six libraries at
most; the library of another store is loaded on first use, and one that is absent or of another version is named."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE, BUILD = sys.argv[1], sys.argv[2]
STORES = {"grpc": {"prim_etcd_open", "prim_native_open"}, "kube": {"prim_kube_open"}, "nats": {"prim_nats_open"}}
# A URL for each library, and what its store says where no server and no configuration is.
URLS = {"grpc": ("muster://127.0.0.1:1", "UNAVAILABLE/connection"), "kube": ("k8s://x?kubeconfig=/nowhere", "INVALID/url"),
        "nats": ("nats://127.0.0.1:1/x", "UNAVAILABLE/connection")}
LIBRARIES_MAX = 6  # lines of ldd
EXAMPLES = ["singleton", "slots", "lock_with_fence", "event_loop"]
results = []


def check(name, good, why=""):
    results.append(good)
    print(f"{'ok' if good else 'not ok'} {len(results)} - {name}")
    if not good:
        print("\n".join("# " + line for line in str(why).splitlines()[:20]))


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **kwargs)


def defined(command):
    names = set()
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        parts = line.split()
        if len(parts) >= 2 and not line.endswith(":") and parts[-2] != "A":  # A: the name of the version itself
            names.add(parts[-1].split("@")[0])
    return names


def main():
    home = tempfile.mkdtemp(prefix="muster-install-")
    try:
        judge(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(f"1..{len(results)}")
    sys.exit(0 if all(results) else 1)


def judge(home):
    done = run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", home, "--tags", "devel,man"])
    check("installs into a directory", done.returncode == 0, done.stdout)
    found = {}
    for folder, _, names in os.walk(home):
        for name in names:
            found[name] = os.path.join(folder, name)
    for name in ["coord.h", *(name.format(store) for store in STORES for name in ("{}.so", "libmuster-{}.a", "muster-{}.pc")),
                 "libmuster.so.1", "libmuster.so.1.0.0", "libmuster.so", "libmuster.a", "muster.pc",
                 "libmuster.3", "musterctl-need-list.1", "muster.toml.5", "_musterctl", "singleton.c", "muster_coord.py", "singleton.py"]:
        check(f"{name} is there", name in found, sorted(found))
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(found["coord.h"])))
    libraries = os.path.dirname(found["libmuster.so"])

    with open(found["coord.h"], encoding="ascii") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    public = set(re.findall(r"\b(coord_[a-z_]+)\s*\([^;{]*\)\s*;", text))
    check("the header has functions", len(public) >= 40, public)
    shared = defined(["nm", "-D", "--defined-only", found["libmuster.so"]])
    check("libmuster.so shows them and nothing else", shared == public, shared ^ public)
    static = defined(["nm", "-g", "--defined-only", found["libmuster.a"]])
    check("libmuster.a shows them and nothing else", static == public, static ^ public)
    versions = run(["readelf", "-dV", found["libmuster.so"]]).stdout
    check("its name is libmuster.so.1", "[libmuster.so.1]" in versions, versions)
    check("its symbols have the version MUSTER_1", "MUSTER_1" in versions, versions)
    needed = run(["ldd", found["libmuster.so.1"]]).stdout.splitlines()
    check(f"libmuster.so loads at most {LIBRARIES_MAX} libraries", len(needed) <= LIBRARIES_MAX, "\n".join(needed))
    for store, openers in STORES.items():
        check(f"{store}.so shows its openers and nothing else",
              defined(["nm", "-D", "--defined-only", found[f"{store}.so"]]) == openers)
        check(f"libmuster-{store}.a shows its openers and nothing else",
              defined(["nm", "-g", "--defined-only", found[f"libmuster-{store}.a"]]) == openers)

    env = dict(os.environ, PKG_CONFIG_PATH=os.path.join(libraries, "pkgconfig"), PKG_CONFIG_SYSROOT_DIR=home,
               LD_LIBRARY_PATH=libraries)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "muster"], env=env, capture_output=True, text=True)
    check("pkg-config knows muster", flags.returncode == 0, flags.stderr)
    shared_flags = flags.stdout.split()

    def static_flags(*modules):
        said = subprocess.run(["pkg-config", "--cflags", "--libs", "--static", *modules], env=env,
                              capture_output=True, text=True, check=True).stdout.split()
        return ["-l:libmuster.a" if flag == "-lmuster" else flag for flag in said]

    alone = os.path.join(home, "alone")
    with open(alone + ".c", "w", encoding="ascii") as out:
        out.write("#include <muster/coord.h>\n#include <muster/coord.h>\n"
                  "int main(void) { coord_slot_request r = COORD_SLOT_REQUEST_INIT; return (int)r.ttl_ms; }\n")
    for compiler, language in [(["cc", "-std=c11"], "C11"), (["g++", "-std=c++11", "-x", "c++"], "C++11")]:
        if shutil.which(compiler[0]) is None:
            print(f"ok {len(results) + 1} - the header as {language} # SKIP no {compiler[0]}")
            results.append(True)
            continue
        done = run(compiler + ["-Wall", "-Wextra", "-pedantic", "-Werror", "-I", os.path.join(prefix, "include"),
                               alone + ".c", "-o", alone])
        check(f"the header alone as {language}", done.returncode == 0, done.stdout)

    for kind, link in [("shared", shared_flags), ("static", static_flags("muster"))]:
        for name in EXAMPLES:
            program = os.path.join(home, f"{name}-{kind}")
            done = run(["cc", "-Wall", "-Wextra", "-Werror", found[name + ".c"], "-o", program] + link + ["-pthread"])
            check(f"{name} compiles, {kind}", done.returncode == 0, done.stdout)
            if done.returncode != 0:
                continue
            store = os.path.join(home, f"store-{name}-{kind}")
            for url in ["mem:", "file://" + store]:
                done = run([program, url], env=env)
                check(f"{name} runs, {kind}, {url.split(':')[0]}", done.returncode == 0, done.stdout)
            done = run([program, "nowhere://x"], env=env)
            check(f"{name} says what is wrong with a URL, {kind}",
                  done.returncode == 1 and "known: mem, file" in done.stdout, done.stdout)

    stores_are_loaded(home, found, env)
    stores_are_linked(home, found, static_flags)

    if "singleton.py" in found:
        check("the Python example is beside the C ones",
              os.path.dirname(os.path.dirname(found["singleton.py"])) == os.path.dirname(found["singleton.c"]), found)
        done = run(["/usr/bin/python3", found["singleton.py"], "mem:"],
                   env=dict(env, LIBMUSTER=found["libmuster.so.1"]))
        check("singleton.py runs", done.returncode == 0, done.stdout)


def stores_are_loaded(home, found, env):
    """libmuster.so: on first use, of the same version, or refused by a name that helps."""
    program = os.path.join(home, "singleton-shared")
    for store, (url, answer) in URLS.items():
        done = run([program, url], env=env)
        check(f"{store}.so is loaded and answers", answer in done.stdout, done.stdout)
        path = found[f"{store}.so"]
        os.rename(path, path + ".away")
        done = run([program, url], env=env)
        check(f"without {store}.so the answer names its package",
              f"UNSUPPORTED/backend: this store needs the package libmuster1-{store}: " in done.stdout and
              f"{store}.so: cannot open shared object file" in done.stdout, done.stdout)
        for version, seen in [("MUSTER_0.0.9", "are of different versions"), (None, answer)]:
            if version is None:
                os.replace(path + ".away", path)
            else:
                planted_library(path, version, sorted(STORES[store]))
            done = run([program, url], env=env)
            check(f"{store}.so of {version or 'its own version'} again: {seen}", seen in done.stdout, done.stdout)


def planted_library(path, version, openers):
    with open(path + ".c", "w", encoding="ascii") as out:
        out.write("".join(f"int {name}(void);\nint {name}(void) {{ return 0; }}\n" for name in openers))
    with open(path + ".map", "w", encoding="ascii") as out:
        out.write(version + " { global: " + "; ".join(openers) + "; local: *; };\n")
    subprocess.run(["cc", "-shared", "-fPIC", path + ".c", "-o", path, f"-Wl,--version-script={path}.map"], check=True)


def stores_are_linked(home, found, static_flags):
    """libmuster.a: a program has the stores that its flags name."""
    for store, (_, answer) in URLS.items():
        program = os.path.join(home, f"singleton-static-{store}")
        done = run(["cc", found["singleton.c"], "-o", program] + static_flags(f"muster-{store}") + ["-pthread"])
        check(f"singleton compiles, static with {store}", done.returncode == 0, done.stdout)
        for other, (other_url, _) in URLS.items():
            done = run([program, other_url])
            seen = answer if other == store else f"UNSUPPORTED/backend: this program is linked without libmuster-{other}.a"
            check(f"static with {store}: {other_url.split(':')[0]}: {seen}", seen in done.stdout, done.stdout)


main()
