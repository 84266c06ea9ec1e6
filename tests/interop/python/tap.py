# SPDX-License-Identifier: Apache-2.0
"""Cases of an asyncio client, as TAP; each is a coroutine whose first line of text is its name."""
import asyncio
import sys
import traceback

PATIENCE = 90  # only so that a hang becomes a failure


async def gathered(iterator, count):
    """The first so many of what comes."""
    found = []
    async for item in iterator:
        found.append(item)
        if len(found) == count:
            return found


def run(*cases):
    failed = 0
    print(f"1..{len(cases)}")
    for number, case in enumerate(cases, 1):
        try:
            asyncio.run(asyncio.wait_for(case(), PATIENCE))
            print(f"ok {number} - {case.__doc__}", flush=True)
        except Exception:
            failed += 1
            print("".join("# " + line + "\n" for line in traceback.format_exc().splitlines()), end="")
            print(f"not ok {number} - {case.__doc__}", flush=True)
    sys.exit(failed > 0)
