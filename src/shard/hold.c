/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all actions of a running shard until the process restarts. The cause is the kill switch,
 * turned on by a reload, or a refused token, because a newer process of the shard is active.
 *
 * The provider's client is stopped first, in the same turn of the loop, so that no further call is
 * sent. Then a job behind the queued jobs notifies the core. Effects of those queued jobs end as
 * unsent. Sessions, Lists, Gets, decisions and reads continue. Runs on the loop's thread. */
#include "shard/shard_internal.h"

static void hold_run(struct decide_job *job, struct decide_context *context, struct effects *out)
{
    struct hold *hold = CONTAINER_OF(job, struct hold, job);

    core_hold(context->core, hold->why, context->now, context->wall, out);
}

static bool hold_begin(struct shard *shard, enum core_hold why, const char *text)
{
    struct hold *hold = &shard->holds[why];

    if (hold->begun || shard->stopping) return false;
    *hold = (struct hold){.job = {.run = hold_run}, .why = why, .begun = true};
    provider_stop_mutating(shard->options.provider, text);
    decide_thread_submit(shard->decide_thread, &hold->job);
    return true;
}

bool shard_holds(const struct shard *shard)
{
    return shard->holds[CORE_PAUSED].begun || shard->holds[CORE_FENCED].begun;
}

void shard_pause(struct shard *shard)
{
    if (shard->options.core.paused) return; /* paused at the start, or by an earlier reload */
    if (!hold_begin(shard, CORE_PAUSED, "actuation is paused")) return;
    shard->options.core.paused = true;
    shard_metrics_hold(shard->metrics, true, shard->holds[CORE_FENCED].begun);
}

/* Handles a provider's refusal of the shard's token. If the refusal names our own epoch, no newer
 * process exists: a proxy sent a call twice, or another process has the same number. A Get then
 * shows the machine's state. A refusal without an epoch is believed, because the client sent the
 * call twice, each time with a newer token. */
void hold_fenced(struct shard *shard, struct str text)
{
    struct shard_fence fence = {.text = text};

    if (provider_fence_epoch(text, &fence.newest) && fence.newest <= (int64_t)shard->options.epoch)
        return;
    if (!hold_begin(shard, CORE_FENCED, "fenced by a newer process of this shard")) return;
    shard->newest_epoch = fence.newest;
    shard_metrics_hold(shard->metrics, shard->options.core.paused, true);
    if (shard->options.on_fenced) shard->options.on_fenced(shard->options.owner, &fence);
}
