/* SPDX-License-Identifier: Apache-2.0 */
/* The page /rests: which machines are left alone for now, and why, as JSON. Bounded: of very many
 * some are shown, and their number is told.
 *
 *   {"cycle":7,"resting":1,"all":true,"machines":[{"machine":"m-1","state":"Failed","cluster":"",
 *    "why":"refused","error":"create: ...","refusals":2,"asked":0,"left_seconds":41.5}]}
 *
 *   why        refused   the provider, or an operator, said no; tried again when the rest is over
 *              doubt     a call was not answered; the provider is being asked what became of it
 *              failed    the provider calls it Failed; it is given back by Delete
 *   resting    how many there are, of those that were looked at; `all`: those were all */
#ifndef SHARD_RESTS_H
#define SHARD_RESTS_H
#include "shard/core/core.h"

enum { RESTS_SHOWN = 1000, RESTS_BYTES_MAX = 4 << 20 };
/* On the thread of the core. ERR_NOMEM, ERR_FULL: nothing is appended. */
enum err rests_write(struct core *core, mono_time now, struct arena *arena, struct buf *into);
#endif
