/* SPDX-License-Identifier: Apache-2.0 */
/* Why nothing is begun: the kill switch, shadow mode, or a newer process of this shard. The first
 * and the last may come while actions wait and run; neither ends before the process does.
 *
 * And for a while after a restart, because of the calls of the earlier process: a provider shows
 * the state before a call until the call is done, so a machine that looks untouched in the first
 * List may be under way. A call ends at the latest execute_timeout_ms after its caller has gone. */
#include "shard/core/running_actions.h"

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

void running_settle(struct core *core)
{
    struct running_actions *h = core->running;
    mono_time due = mono_after(h->opened_at, core->options.execute_timeout_ms);

    if (h->settled) return;
    if (!h->settle_said)
        core_log(core, CORE_INFO,
                 "no action starts yet: calls of the previous process may still run",
                 "most_ms=%llu", (unsigned long long)core->options.execute_timeout_ms);
    h->settle_said = true;
    h->settle_due = h->settle_due || mono_due(due, core->now);
}

void core_hold(struct core *core, enum core_hold why, mono_time now, wall_time wall,
               struct effects *out)
{
    uint32_t waiting = core->counts.queued;

    core_begin_at(core, now, wall, out);
    if (why == CORE_FENCED)
        core->fenced = true;
    else
        core->options.paused = true;
    running_start(core);
    core_log(core, CORE_WARN, "no action starts any more", "why=%s dropped=%u under_way=%u",
             core_hold_text(core), (unsigned)waiting, (unsigned)core->counts.inflight);
}
