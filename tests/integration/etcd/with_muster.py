#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program beside three coordinators, with their etcd endpoints as its last arguments; with --kills each
coordinator in turn is killed and started again while it runs (X07).

usage: with_muster.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [--kills] -- PROGRAM [ARGUMENT...]
"""
import subprocess
import sys

WORDS = sys.argv[sys.argv.index("--") + 1:]
KILLS = "--kills" in sys.argv[:sys.argv.index("--")]
del sys.argv[5:]
from etcds import Etcds, wait_for  # noqa: E402

with Etcds(3) as cluster:
    cluster.ready()
    process = subprocess.Popen([*WORDS, *(node.etcd for node in cluster.nodes)])
    for node in cluster.nodes if KILLS else ():
        if process.poll() is not None:
            break
        node.hang_up()
        node.process.kill()
        node.process.wait()
        node.start()
        cluster.formed()
        wait_for(f"{node.name} is back", lambda node=node: node.try_state() is not None)
    status = process.wait()
sys.exit(status)
