/* SPDX-License-Identifier: Apache-2.0 */
/* A running shard that stops acting, for good: the kill switch by reload, or a provider that
 * refuses its token because a newer process of this shard acts. Loop's thread.
 *
 * The provider's client is held first, in the same turn of the loop, so that no call leaves after
 * this; then the core hears of it, behind the thoughts that wait already. Effects of those that
 * come out meanwhile end as unsent. Sessions, Lists, Gets, decisions and reads go on. */
#include "shard/shard_internal.h"

static void think_hold(struct thought *thought, struct mind *mind, struct effects *out)
{
    struct hold *hold = CONTAINER_OF(thought, struct hold, thought);

    core_hold(mind->core, hold->why, mind->now, mind->wall, out);
}

static void hold_done(struct thought *thought, enum err err)
{
    (void)thought, (void)err; /* it is the shard's */
}

static bool hold_begin(struct shard *shard, enum core_hold why, const char *text)
{
    struct hold *hold = &shard->holds[why];

    if (hold->begun || shard->stopping) return false;
    *hold = (struct hold){
        .thought = {.think = think_hold, .done = hold_done}, .why = why, .begun = true};
    provider_hold(shard->options.provider, text);
    thinker_submit(shard->thinker, &hold->thought);
    return true;
}

bool shard_holds(const struct shard *shard)
{
    return shard->holds[CORE_PAUSED].begun || shard->holds[CORE_FENCED].begun;
}

void shard_pause(struct shard *shard)
{
    if (shard->options.core.paused) return; /* from the start, or by an earlier reload */
    if (!hold_begin(shard, CORE_PAUSED, "actuation is paused")) return;
    shard->options.core.paused = true;
    shard_metrics_paused(shard->metrics, true);
}

/* A mark of our own epoch is no newer process: something between us and the provider sent a call
 * twice, or another process has the same number. Get tells what the machine is. A provider that
 * names no epoch is believed: the client sent the call twice, each time with a newer token. */
void hold_fenced(struct shard *shard, struct str text)
{
    struct shard_fence fence = {.text = text};

    if (provider_fence_epoch(text, &fence.newest) && fence.newest <= (int64_t)shard->options.epoch)
        return;
    if (!hold_begin(shard, CORE_FENCED, "fenced by a newer process of this shard")) return;
    shard->newest_epoch = fence.newest;
    shard_metrics_fenced(shard->metrics);
    if (shard->options.on_fenced) shard->options.on_fenced(shard->options.owner, &fence);
}
