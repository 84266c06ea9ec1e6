/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing is begun: the kill switch, shadow mode, or a newer process of this shard. The first
 * and the last may come while actions wait and run; neither ends before the process does. */
#include "shard/core/hands.h"

bool core_acts(const struct core *core)
{
    return !core->options.paused && !core->options.dry_run && !core->fenced;
}

const char *core_hold_text(const struct core *core)
{
    if (core->fenced) return "fenced by a newer process of this shard";
    if (core->options.paused) return "actuation is paused";
    return core->options.dry_run ? "dry-run" : "";
}

void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out)
{
    uint32_t waiting = core->hands->queued;

    core_begin(core);
    if (why == CORE_FENCED)
        core->fenced = true;
    else
        core->options.paused = true;
    hands_run(core, now, wall, out);
    core_log(out, CORE_WARN, "no action begins any more", "why=%s dropped=%u under_way=%u",
             core_hold_text(core), (unsigned)waiting, (unsigned)core->hands->running);
}
