# SPDX-License-Identifier: Apache-2.0
"""On a machine that is paused a short time-out is up, rightly, while an attempt is still under way."""


def in_time(ask, fits):
    """What `ask(timeout)` says, with more and more time until it fits."""
    for seconds in (3, 6, 12, 24):
        done = ask(f"{seconds}s")
        if fits(done):
            break
    return done
