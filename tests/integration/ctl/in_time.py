# SPDX-License-Identifier: Apache-2.0
"""For commands with short time-outs, which may expire rightly when the machine stalls."""


def in_time(ask, fits):
    """The result of `ask(timeout)`, repeated with longer time-outs until one is long enough."""
    for seconds in (3, 6, 12, 24):
        done = ask(f"{seconds}s")
        if fits(done):
            break
    return done
