#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a command beside real etcd members; a word {url} of it becomes their URL.

usage: with_etcd.py MEMBERS COMMAND...
"""
import os
import shutil
import subprocess
import sys

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib")]
if not shutil.which("etcd"):
    print("1..0 # SKIP no etcd on the PATH")
    sys.exit(0)
from etcd_cluster import Cluster  # noqa: E402

with Cluster(int(sys.argv[1])) as cluster:
    status = subprocess.run([word.replace("{url}", cluster.url("/run")) for word in sys.argv[2:]]).returncode
sys.exit(status)
