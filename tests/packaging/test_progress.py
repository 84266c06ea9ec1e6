#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The progress that a person sees while `make run`, `make test` and `make deb` install packages, compile and test.

usage: test_progress.py SOURCE     (prints TAP)

Shows: a line comes at once, every step has a name, a counter moves on a terminal, and a pipe gets plain lines. apt-get, dpkg-query and
ninja are replaced by programs that print what the real ones print; so is meson; no time is measured."""
import os
import pty
import subprocess
import sys
import tempfile

from tap import judge, ok

SOURCE = os.path.abspath(sys.argv[1])
APT = """#!/bin/sh
case " $* " in
*" update "*) exit 0 ;;
esac
echo "Reading package lists..."
echo "0 upgraded, 2 newly installed, 0 to remove and 7 not upgraded."
echo "Get:1 http://deb.example bookworm/main amd64 one amd64 1.0 [1 kB]"
echo "Get:2 http://deb.example bookworm/main amd64 gcovr all 5.2 [1 kB]"
echo "Setting up one (1.0) ..."
echo "Setting up gcovr (5.2) ..."
[ -z "$APT_FAILS" ] || { echo "E: no room" >&2; exit 100; }
touch "$INSTALLED"
"""
QUERY = '#!/bin/sh\n[ -e "$INSTALLED" ] && printf installed\n'
NINJA = """#!/bin/sh
echo "dh_auto_build"
for i in 1 2 3; do echo "[$i/3] Compiling C object $i"; done
exit ${CODE:-0}
"""


def program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def on_pipe(command, env):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False)
    return done.returncode, done.stdout


def on_terminal(command, env):
    """The output of the command on a terminal of its own."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    text = b""
    try:
        while True:
            piece = os.read(ours, 4096)
            if not piece:
                break
            text += piece
    except OSError:  # the last writer has closed it
        pass
    os.close(ours)
    return process.wait(), text.decode()


def setup(look, **more):
    with tempfile.TemporaryDirectory(prefix="muster-progress-") as folder:
        program(folder, "apt-get", APT)
        program(folder, "dpkg-query", QUERY)
        program(folder, "id", "#!/bin/sh\necho 0\n")
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "INSTALLED": os.path.join(folder, "installed"),
               "STEP": "[1/3] ", "APT_FAILS": "", **more}
        return look([os.path.join(SOURCE, "scripts/setup"), "coverage"], env), look([os.path.join(SOURCE, "scripts/setup"), "coverage"], env)


def packages():
    (code, text), (_, again) = setup(on_pipe)
    ok(code == 0 and text.startswith("[1/3] packages ...\n"), "a line comes before anything is looked at", text)
    ok("[1/3] packages: 2 installed, " in text, "the last line counts", text)
    ok("\r" not in text and "\033" not in text, "a pipe gets plain lines", text)
    ok(again == "[1/3] packages ...\n[1/3] packages: all are installed\n", "nothing is missing", again)
    (code, text), _ = setup(on_terminal)
    for counter in ("downloading 1/2", "downloading 2/2", "setting up 1/2", "setting up 2/2"):
        ok(code == 0 and f"[1/3] packages: {counter}, 0:" in text, f"a terminal shows {counter}", text)
    (code, text), _ = setup(on_pipe, APT_FAILS="1")
    ok(code == 1 and "E: no room" in text and "2 installed" not in text, "a failure shows what apt-get printed", text)


def compiling():
    with tempfile.TemporaryDirectory(prefix="muster-progress-") as folder:
        log = os.path.join(folder, "build.log")
        command = [os.path.join(SOURCE, "scripts/logged"), log, "[2/3] compiling", "about 2:00", program(folder, "build", NINJA)]
        code, text = on_pipe(command, dict(os.environ))
        ok(code == 0 and text.startswith("[2/3] compiling ... (about 2:00)\n") and text.count("\n") == 2 and "\r" not in text,
           "a pipe gets a line at the start and one at the end", text)
        with open(log, encoding="utf-8") as file:
            written = file.read()
        ok(written.startswith("dh_auto_build\n[1/3] Compiling") and written.endswith("object 3\n"), "the log has every line", written)
        code, text = on_terminal(command, dict(os.environ))
        ok(code == 0 and "[2/3] compiling 2/3, 0:" in text, "a terminal shows the counter", text)
        code, text = on_pipe(command, {**os.environ, "CODE": "3"})
        ok(code == 3 and "[2/3] compiling: FAILED" in text, "a failure keeps its code", text)


MESON = """#!/bin/sh
echo "ninja: no work to do."
echo " 1/3 muster:unit / one        OK              0.10s"
echo " 2/3 muster:unit / two        ${TWO:-OK}            0.20s"
echo " 3/3 muster:unit / three      SKIP            0.01s"
echo "Ok: 2"
"""
# The step of scripts/test, alone: importing that program would configure a build.
TESTING = """
import sys
sys.path.insert(0, sys.argv[1] + "/scripts")
import progress
step = progress.Step("testing build/x: 3 programs", "11 min on a bare machine")
progress.run(step, [sys.argv[2]], progress.MESON_TEST, keep=progress.is_trouble)
step.end("3 programs")
"""


def testing():
    with tempfile.TemporaryDirectory(prefix="muster-progress-") as folder:
        command = [sys.executable, "-c", TESTING, SOURCE, program(folder, "meson", MESON)]
        _, text = on_pipe(command, dict(os.environ))
        lines = text.splitlines()
        ok(lines[0] == "testing build/x: 3 programs ... (11 min on a bare machine)" and len(lines) == 2 and "\r" not in text,
           "a pipe gets the first and the last line", text)
        _, text = on_terminal(command, dict(os.environ))
        for counter in ("1/3", "2/3", "3/3"):
            ok(f"testing build/x: 3 programs {counter}, 0:" in text, f"a terminal shows {counter}", text)
        _, text = on_pipe(command, {**os.environ, "TWO": "FAIL"})
        ok("2/3 muster:unit / two        FAIL" in text, "a failure is shown when it happens", text)


def steps():
    """`make run` and `make deb` name each step, the first before they look at anything."""
    for target, names in (("run", ("[1/3] ", "[2/3] compiling", "[3/3] starting the demo fleet")), ("deb", ("[1/3] ", "scripts/deb"))):
        _, text = on_pipe(["make", "-n", "-C", SOURCE, target], dict(os.environ))
        at = [text.find(name) for name in names]
        ok(at == sorted(at) and at[0] >= 0 and "STEP=" in text.splitlines()[1 if text.startswith("make") else 0],
           f"make {target} names its steps in order", text)


judge(packages, compiling, testing, steps)
