#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients (drives.py) on the coordinators' etcd API, or on real etcd.

usage: test_drives.py MUSTER MUSTERCTL PROTOC PROTO_ROOT [NAME] [--real]    (prints TAP)
"""
import os
import shutil
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, each) for each in ("../../lib", "../log", "../fleet")]
for program in ("etcd", "etcdctl") if "--real" in sys.argv else ("etcdctl",):
    if not shutil.which(program):
        print(f"1..0 # SKIP no {program} on the PATH")
        sys.exit(0)
import coordinators  # noqa: E402
import drives  # noqa: E402
import etcd_cluster  # noqa: E402
import etcds  # noqa: E402


def cases_of(target):
    """The drives as cases of the runner, each with the target's name."""
    def case(drive):
        def run():
            drive(target)
        run.__doc__, run.__name__ = f"{drive.__doc__}, {target.name}", drive.__name__
        return run
    return [case(drive) for drive in drives.ALL]


def main():
    if "--real" in sys.argv:
        with etcd_cluster.Cluster() as etcd:
            coordinators.run_cases(cases_of(drives.Target("etcd", [f"127.0.0.1:{etcd.ports[0]}"])))
    with etcds.Etcds(3, etcds.PATIENT) as ours:     # clients that hear of an election are right to fail
        ours.ready()
        coordinators.run_cases(cases_of(drives.Target("three coordinators", [node.etcd for node in ours.nodes])))


if __name__ == "__main__":
    main()
