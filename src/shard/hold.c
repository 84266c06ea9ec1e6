/* SPDX-License-Identifier: Apache-2.0 */
/* Stops all actions of a running shard until the process restarts: by the kill switch, or because a
 * newer process of the shard is active. Sessions, Lists, Gets, decisions and reads continue. Loop's
 * thread.
 *
 * The provider's client is stopped first, in the same turn of the loop, so that no further call is
 * sent. Then a job notifies the core. Calls of earlier jobs end as unsent. */
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
    if (shard->options.core.paused) return; /* paused at the start or by an earlier reload */
    if (!hold_begin(shard, CORE_PAUSED, "actuation is paused")) return;
    shard->options.core.paused = true;
    shard_metrics_hold(shard->metrics, true, shard->holds[CORE_FENCED].begun);
}

/* Handles a provider's refusal of the shard's token. A refusal that names our own epoch does not
 * show a newer process, so only the machine's state is read by Get. A refusal without an epoch is
 * believed, because the client has already sent the call twice. */
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
