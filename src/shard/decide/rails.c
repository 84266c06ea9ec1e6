/* SPDX-License-Identifier: Apache-2.0 */
/* Safety limits between a decision and its execution, and the quarantine of roll-ups. Pure. */
#include "shard/decide/rails.h"

uint64_t rails_reclaim_cap(double fraction, uint64_t configured)
{
    double cap = fraction * (double)configured;

    return cap >= 1 ? (uint64_t)cap : 1;
}

enum err rails_pass(const struct decision *decision, const struct inventory *inventory,
                    const struct rails_options *options, struct arena *arena,
                    struct rails_passed *ret_passed)
{
    struct rails_passed out = {0};
    struct str cluster = STR_EMPTY;
    uint64_t left = 0;

    assert(options->reclaim_fraction >= 0);
    out.actions = arena_calloc(arena, decision->action_count, sizeof(struct action *));
    if (!out.actions) return ERR_NOMEM;
    for (size_t i = 0; i < decision->action_count; i++) {
        const struct action *action = &decision->actions[i];

        if (options->withheld && options->withheld[i]) {
            out.reclaims_withheld++;
            continue;
        }
        if (action->kind == ACTION_RECLAIM && options->reclaim_fraction > 0) {
            if (!str_equal(action->cluster, cluster)) { /* decision.md groups actions by cluster */
                assert(str_compare(cluster, action->cluster) < 0);
                cluster = action->cluster;
                left = rails_reclaim_cap(
                    options->reclaim_fraction,
                    inventory_cluster_count(inventory, cluster, MACHINE_CONFIGURED));
            }
            if (left == 0) {
                out.reclaims_held++;
                continue;
            }
            left--;
        }
        if (options->actions_max > 0 && out.action_count == options->actions_max) {
            out.actions_held++;
            continue;
        }
        out.actions[out.action_count++] = action;
    }
    *ret_passed = out;
    return ERR_OK;
}

enum quarantine_verdict quarantine_admit(struct quarantine *q, uint32_t rows)
{
    enum quarantine_verdict verdict = QUARANTINE_ACCEPTED;
    bool suspicious = q->accepted_rows >= QUARANTINE_ROWS_MIN &&
                      (uint64_t)rows * QUARANTINE_KEPT_PART < q->accepted_rows;

    if (suspicious && ++q->holds < QUARANTINE_CONFIRMATIONS) return QUARANTINE_HELD;
    if (suspicious) verdict = QUARANTINE_CONFIRMED;
    *q = (struct quarantine){.accepted_rows = rows};
    return verdict;
}
