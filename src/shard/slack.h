/* SPDX-License-Identifier: Apache-2.0 */
/* What the allocator keeps though nobody uses it.
 *
 * All demand at once, or ten thousand calls, leave holes of whole pages between the blocks that
 * stay, and the C library gives back only what lies at the end: a shard would hold the memory of
 * its worst moment for ever. */
#ifndef SHARD_SLACK_H
#define SHARD_SLACK_H
#include "base/time.h"

enum { SLACK_EVERY_MS = 30 * 1000 };

/* Gives it back, a few milliseconds every SLACK_EVERY_MS; `last` is the caller's, 0 at first. */
void slack_return(mono_time *last, mono_time now);
#endif
