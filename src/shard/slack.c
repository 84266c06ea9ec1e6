/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/slack.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

void slack_return(mono_time *last, mono_time now)
{
    if (mono_elapsed_ms(*last, now) < SLACK_EVERY_MS) return;
    *last = now;
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}
