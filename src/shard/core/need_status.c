/* SPDX-License-Identifier: Apache-2.0 */
/* Reports to operators what each of their Needs got, from the verdicts of the last decision.
 *
 * A status is sent first for every Need of a session, and again when it changed, at most once per
 * capacity_interval_ms. A cycle looks at STATUS_ROWS_MOST verdicts and continues where the cycle
 * before ended, so that many Needs do not delay it. A Need without a verdict of its own, withdrawn
 * or folded, gets an empty status if its last one was unsatisfied. */
#include <stdlib.h>

#include "shard/core/core_internal.h"

enum { STATUS_ROWS_MOST = 4096 };

struct sent_status { /* map_make() stores the key behind it: fingerprint NUL group */
    bool known, sent, satisfied;
    uint32_t round; /* status_round when the Need was last seen */
    size_t fingerprint_len;
    wall_time since; /* when `satisfied` changed */
    mono_time at;
    struct need_status said; /* without texts */
};

void statuses_forget(struct cluster_client *client)
{
    uint64_t seed = client->statuses.seed;

    map_free(&client->statuses);
    map_init(&client->statuses, MAP_MOST, seed);
}

/* Returns the number of units that no machine covers: at least 1, and at most UINT32_MAX. */
static uint32_t lacking_units(const struct shortage *shortage, const struct amounts *unit)
{
    struct resource_sum rest, one;
    uint64_t most = 1;

    amounts_sum(&shortage->unresolved, &rest);
    amounts_sum(unit, &one);
    for (uint32_t i = 0; i < DIMENSIONS_MAX; i++) {
        int128 of = resource_sum_get(&one, i);
        int128 units = of > 0 ? (resource_sum_get(&rest, i) + of - 1) / of : 0;
        if (units > (int128)most) most = units > UINT32_MAX ? UINT32_MAX : (uint64_t)units;
    }
    return (uint32_t)most;
}

static struct need_status status_of(const struct need_verdict *v)
{
    struct need_status status = {.satisfied = v->satisfied,
                                 .coming = v->bootstraps + v->provisions,
                                 .reason = v->shortage ? v->shortage->reason : REASON_NONE};

    status.ready = v->claimed - status.coming;
    if (v->shortage) status.lacking = lacking_units(v->shortage, v->need->min_unit);
    return status;
}

static bool status_same(const struct need_status *a, const struct need_status *b)
{
    return a->satisfied == b->satisfied && a->ready == b->ready && a->coming == b->coming &&
           a->lacking == b->lacking && a->reason == b->reason;
}

static enum err status_send(struct core *core, const struct cluster_client *client,
                            const struct sent_status *sent, struct str key)
{
    struct arena *arena = &core->out->arena;
    struct str cluster, copy;
    struct effect *effect;
    enum err err = text_copy(arena, client->name, &cluster);

    if (!err) err = text_copy(arena, key, &copy);
    if (err) return err;
    effect = effects_add(core->out, EFFECT_NEED_STATUS);
    if (!effect) return ERR_NOMEM;
    effect->cluster = cluster;
    effect->status = sent->said;
    effect->status.fingerprint = str_of(copy.at, sent->fingerprint_len);
    effect->status.group = str_tail(copy, sent->fingerprint_len + 1);
    effect->status.since = sent->since;
    return ERR_OK;
}

static enum err status_key(struct arena *arena, const struct need_key *need, struct str *ret_key)
{
    char *text = arena_alloc(arena, need->fingerprint.len + 1 + need->group.len), *at = text;

    if (!text) return ERR_NOMEM;
    (void)text_put(&at, need->fingerprint);
    *at++ = '\0';
    (void)text_put(&at, need->group);
    *ret_key = str_of(text, (size_t)(at - text));
    return ERR_OK;
}

static enum err status_note(struct core *core, struct cluster_client *client,
                            const struct need_verdict *v)
{
    struct need_status status = status_of(v);
    struct sent_status *sent;
    struct str key;
    enum err err = status_key(&core->scratch, &v->need->key, &key);

    if (err) return err;
    sent = map_make(&client->statuses, key, sizeof *sent);
    if (!sent) return ERR_NOMEM;
    if (!sent->known || sent->satisfied != status.satisfied) sent->since = core->wall;
    sent->known = true;
    sent->satisfied = status.satisfied;
    sent->round = core->status_round;
    sent->fingerprint_len = v->need->key.fingerprint.len;
    if (sent->sent && (status_same(&sent->said, &status) ||
                       mono_elapsed_ms(sent->at, core->now) < core->options.capacity_interval_ms))
        return ERR_OK;
    sent->said = status;
    err = status_send(core, client, sent, key);
    sent->sent = !err;
    sent->at = core->now;
    return err;
}

/* Forgets the Needs that a whole round has not seen. */
static void statuses_trim(struct core *core)
{
    struct map_entry *entry, *each;
    size_t cursor = 0, at;

    while ((entry = map_next(&core->clients.by_name, &cursor))) {
        struct cluster_client *client = entry->value;
        at = 0;
        while ((each = map_next(&client->statuses, &at))) {
            struct sent_status *sent = each->value;
            if (sent->round == core->status_round) continue;
            if (!sent->said.satisfied) {
                sent->said = (struct need_status){0};
                sent->since = core->wall;
                if (status_send(core, client, sent, each->key)) return;
            }
            free(map_remove(&client->statuses, each->key));
        }
    }
    core->status_round++;
    core->status_from = 0;
}

void need_status_note(struct core *core, const struct decision *decision)
{
    const struct needs *needs = core->needs;
    size_t rows = min_size(decision->verdict_count, STATUS_ROWS_MOST), cursor = 0, takers = 0;
    struct cluster_client **clients =
        arena_calloc(&core->scratch, needs->cluster_slots.used, sizeof(struct cluster_client *));
    struct map_entry *entry;
    enum err err = ERR_OK;

    if (!clients) return; /* the next cycle sends the statuses */
    while ((entry = map_next(&core->clients.by_name, &cursor))) {
        struct cluster_client *client = entry->value;
        const struct demand_cluster *demand = needs_cluster(needs, client->name);
        if (!client->session || !client->takes_status) continue;
        takers++;
        if (demand) clients[demand->slot] = client;
    }
    if (!takers) return;
    if (core->status_from >= decision->verdict_count) statuses_trim(core);
    for (size_t i = 0; i < rows && !err && core->status_from < decision->verdict_count; i++) {
        const struct need_verdict *v = &decision->verdicts[core->status_from++];
        struct cluster_client *client = clients[v->need->cluster->slot];
        if (client) err = status_note(core, client, v);
    }
}
