# SPDX-License-Identifier: Apache-2.0
"""The files of the tree, for the proofs."""
import os
import re

C = (".c", ".h")
PRODUCT = ("src", "cmd")


def files(root, folders, endings):
    """(path below root, text) of each."""
    for folder in folders:
        for top, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                if name.endswith(endings):
                    path = os.path.join(top, name)
                    with open(path, encoding="utf-8", errors="replace") as file:
                        yield os.path.relpath(path, root), file.read()


def without_comments(text):
    """Each comment is spaces; lines stay lines."""
    return re.sub(r"/\*.*?\*/", lambda found: re.sub(r"[^\n]", " ", found.group()), text, flags=re.S)
