/* SPDX-License-Identifier: Apache-2.0 */
/* Safety limits between a decision and its execution, and the quarantine of roll-ups. Pure. */
#include "shard/decide/rails.h"

#include "base/map.h"

uint64_t rails_reclaim_cap(double fraction, uint64_t configured)
{
    double cap = fraction * (double)configured;

    return cap >= 1 ? (uint64_t)cap : 1;
}

/* Actions of capped kinds that a cluster may still lose in this cycle. */
struct rails_left {
    bool known;
    uint64_t actions;
};

static bool rails_caps(const struct rails_options *options, const struct action *action)
{
    if (options->reclaim_fraction == 0) return false;
    return action->kind == ACTION_RECLAIM ||
           (action->kind == ACTION_PREEMPT && options->unreported &&
            !needs_reported(options->unreported, action->cluster));
}

/* Returns ERR_FULL if the cluster lost as many machines as the cap allows. */
static enum err rails_take(struct map *clusters, const struct action *action,
                           const struct inventory *inventory, const struct rails_options *options)
{
    struct rails_left *left = map_make(clusters, action->cluster, sizeof *left);

    if (!left) return ERR_NOMEM;
    if (!left->known)
        left->actions = rails_reclaim_cap(
            options->reclaim_fraction,
            inventory_cluster_count(inventory, action->cluster, MACHINE_CONFIGURED));
    left->known = true;
    if (!left->actions) return ERR_FULL;
    left->actions--;
    return ERR_OK;
}

enum err rails_pass(const struct decision *decision, const struct inventory *inventory,
                    const struct rails_options *options, struct arena *arena,
                    struct rails_passed *ret_passed)
{
    struct rails_passed out = {0};
    struct map clusters;
    enum err err = ERR_OK;

    assert(options->reclaim_fraction >= 0);
    out.actions = arena_calloc(arena, decision->action_count, sizeof(struct action *));
    if (!out.actions) return ERR_NOMEM;
    map_init(&clusters, MAP_MOST, 0);
    for (size_t i = 0; i < decision->action_count; i++) {
        const struct action *action = &decision->actions[i];

        if (options->withheld && options->withheld[i]) {
            out.reclaims_withheld++;
            continue;
        }
        err = rails_caps(options, action) ? rails_take(&clusters, action, inventory, options)
                                          : ERR_OK;
        if (err == ERR_NOMEM) break;
        if (err)
            (*(action->kind == ACTION_RECLAIM ? &out.reclaims_held : &out.preempts_held))++;
        else if (options->actions_max > 0 && out.action_count == options->actions_max)
            out.actions_held++;
        else
            out.actions[out.action_count++] = action;
    }
    map_free(&clusters);
    if (err == ERR_NOMEM) return err;
    *ret_passed = out;
    return ERR_OK;
}

enum quarantine_verdict quarantine_admit(struct quarantine *q, uint32_t rows, uint32_t serving,
                                         mono_time now)
{
    enum quarantine_verdict verdict = QUARANTINE_ACCEPTED;
    bool suspicious = q->accepted_rows >= QUARANTINE_ROWS_MIN &&
                      (uint64_t)rows * QUARANTINE_KEPT_PART < q->accepted_rows;

    if (!q->accepted && !q->accepted_rows) suspicious = !rows && serving >= QUARANTINE_ROWS_MIN;
    if (suspicious && (!q->holds || mono_elapsed_ms(q->counted, now) >= QUARANTINE_APART_MS)) {
        q->holds++;
        q->counted = now;
    }
    if (suspicious && q->holds < QUARANTINE_CONFIRMATIONS) return QUARANTINE_HELD;
    if (suspicious) verdict = QUARANTINE_CONFIRMED;
    *q = (struct quarantine){.accepted_rows = rows, .accepted = true};
    return verdict;
}
