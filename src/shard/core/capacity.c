/* SPDX-License-Identifier: Apache-2.0 */
/* Sends capacity hints to operators. Hints are coarse: other Needs may want the same machines.
 *
 *   HIGH     machines of the profile's types are Idle
 *   MEDIUM   none is Idle, but some could be created
 *   NONE     none is Idle or could be created
 *
 * A hint is repeated only if it changed. The number of hints per cycle is limited, so that urgent
 * messages are not delayed. A cluster's Needs are walked when its demand is new, and every
 * HINTS_ANEW_EVERY cycles if it has gangs, because folding depends on the machines. */
#include <stdlib.h>

#include "shard/core/core_internal.h"

enum {
    HINTS_NEW_MOST = 20 * 1000, /* first hints in one cycle; the next cycle sends further ones */
    HINTS_ANEW_EVERY = 16,
};

/* --- stored hints --- */

void hints_forget(struct cluster_client *client)
{
    uint64_t seed = client->hints.by_kind.seed;

    map_free(&client->hints.by_kind);
    client->hints = (struct hints){0};
    map_init(&client->hints.by_kind, MAP_MOST, seed);
}

static enum err hint_make(struct hints *hints, const struct kind *kind,
                          struct capacity_hint **ret_hint)
{
    struct str key = str_of((const char *)&kind->slot, sizeof kind->slot);
    struct capacity_hint *hint = map_make(&hints->by_kind, key, sizeof *hint);

    if (!hint) return ERR_NOMEM;
    if (!hint->made || hint->kind_birth != kind->birth) {
        hints->unsaid += !hint->made || hint->said.confidence;
        *hint = (struct capacity_hint){
            .made = true, .kind_slot = kind->slot, .kind_birth = kind->birth};
    }
    *ret_hint = hint;
    return ERR_OK;
}

/* --- current capacity --- */

static struct capacity_offer offer_find(struct core *core, const struct profile *profile)
{
    uint32_t idle = 0, speculative = 0;
    struct capacity_offer a = {.count = 0};
    size_t type_count;
    const struct str *types = profile_pinned_types(profile, &type_count);

    if (!types) {
        struct inventory_counts counts = inventory_counts(core->inventory);
        for (int type = 0; type < CAPACITY_TYPE_COUNT; type++) {
            idle += counts.by_state[MACHINE_IDLE][type];
            speculative += counts.by_state[MACHINE_SPECULATIVE][type];
        }
    }
    for (size_t i = 0; types && i < type_count; i++) {
        const struct tally_entry *entry = tally_type(&core->tally, types[i]);
        double cost;
        if (!entry) continue;
        speculative += entry->speculative;
        if (!entry->idle) continue;
        cost = tally_cheapest(&core->tally, core->inventory, types[i]);
        if (!idle || cost < a.cost_per_hour) a.cost_per_hour = cost;
        idle += entry->idle;
    }
    a.count = idle + speculative;
    a.confidence = idle ? CONFIDENCE_HIGH : speculative ? CONFIDENCE_MEDIUM : CONFIDENCE_NONE;
    return a;
}

/* --- sending hints --- */

struct hints_round {
    struct core *core;
    struct capacity_offer *offers; /* by slot of the requirement set; confidence 0: unknown */
    const struct profile **copies; /* indexed by kind slot: copy in the effects, or NULL */
    /* Clients with new demand, indexed by cluster slot; NULL: no new demand. */
    struct cluster_client **anew;
    uint32_t round;
    size_t first, again; /* number of first and of repeated hints in this round */
};

static enum err hint_send(struct hints_round *s, struct cluster_client *client,
                          const struct kind *kind, const struct capacity_offer *a)
{
    struct effect *effect;
    struct str cluster;
    enum err err = text_copy(&s->core->out->arena, client->name, &cluster);

    if (err) return err;
    if (!s->copies[kind->slot])
        s->copies[kind->slot] = effects_profile(s->core->out, &kind->profile);
    if (!s->copies[kind->slot]) return ERR_NOMEM;
    effect = effects_add(s->core->out, EFFECT_CAPACITY);
    if (!effect) return ERR_NOMEM;
    effect->cluster = cluster;
    effect->capacity = *a;
    effect->capacity.profile = s->copies[kind->slot];
    return ERR_OK;
}

static bool hint_due(const struct hints_round *s, const struct capacity_hint *hint,
                     const struct capacity_offer *a)
{
    if (!hint->said.confidence) return true;
    if (hint->said.count == a->count && hint->said.confidence == a->confidence &&
        hint->said.cost_per_hour == a->cost_per_hour)
        return false;
    return mono_elapsed_ms(hint->sent, s->core->now) >= s->core->options.capacity_interval_ms;
}

static bool is_full(const struct hints_round *s)
{
    return s->again >= s->core->options.hints_most;
}

static enum err hint_update(struct hints_round *s, struct cluster_client *client,
                            struct capacity_hint *hint)
{
    size_t *said = hint->said.confidence ? &s->again : &s->first;
    struct capacity_offer *a = &s->offers[hint->set_slot];
    const struct kind *kind;
    enum err err;

    if (a->confidence && !hint_due(s, hint, a)) return ERR_OK;
    kind = slot_map_get(&s->core->needs->kind_slots, hint->kind_slot);
    /* the profile is no longer in any demand */
    if (!kind || kind->birth != hint->kind_birth) return ERR_OK;
    if (!a->confidence) *a = offer_find(s->core, &kind->profile);
    if (!hint_due(s, hint, a)) return ERR_OK;
    if (hint->said.confidence ? is_full(s) : s->first >= HINTS_NEW_MOST) return ERR_OK;
    err = hint_send(s, client, kind, a);
    if (err) return err;
    ++*said;
    client->hints.unsaid -= !hint->said.confidence;
    hint->said = *a;
    hint->sent = s->core->now;
    return ERR_OK;
}

static enum err client_update(struct hints_round *s, struct cluster_client *client)
{
    struct hints *hints = &client->hints;
    size_t cursor = hints->from;
    bool open = !is_full(s);
    enum err err = ERR_OK;

    if (!open && !hints->unsaid) return ERR_OK; /* a later cycle sends the first hints */
    for (size_t left = map_count(&hints->by_kind); left && !err; left--) {
        struct map_entry *entry = map_next(&hints->by_kind, &cursor);
        if (!entry) { /* continue at the first hint */
            cursor = 0;
            entry = map_next(&hints->by_kind, &cursor);
        }
        err = hint_update(s, client, entry->value);
        if (!open || !is_full(s)) continue;
        hints->from = cursor;
        open = false;
    }
    return err;
}

static enum err need_update(struct hints_round *s, const struct demand *need)
{
    struct cluster_client *client = s->anew[need->cluster->slot];
    struct capacity_hint *hint;
    enum err err;

    if (!client) return ERR_OK;
    err = hint_make(&client->hints, need->kind, &hint);
    if (err) return err;
    if (hint->round == s->round) return ERR_OK; /* another row has the same profile */
    hint->round = s->round;
    hint->set_slot = need->kind->set->slot;
    client->hints.met++;
    return hint_update(s, client, hint);
}

/* Collects clients with new demand in `anew`, and updates the hints of all other clients. */
static enum err clients_update(struct hints_round *s, bool *ret_any_anew)
{
    const struct map *clients = &s->core->clients.by_name;
    bool open = true;
    size_t cursor = s->core->capacity_from;
    enum err err = ERR_OK;

    *ret_any_anew = false;
    for (size_t left = map_count(clients); left && !err; left--) {
        struct map_entry *entry = map_next(clients, &cursor);
        const struct demand_cluster *demand;
        struct cluster_client *client;
        if (!entry) { /* continue at the first client */
            cursor = 0;
            entry = map_next(clients, &cursor);
        }
        client = entry->value;
        demand = client->session ? needs_cluster(s->core->needs, client->name) : NULL;
        if (!demand) continue;
        if (client->hints.version != demand->set.version ||
            (demand->set.gangs_count && (cursor + s->round) % HINTS_ANEW_EVERY == 0)) {
            client->hints.met = 0;
            s->anew[demand->slot] = client;
            *ret_any_anew = true;
        } else {
            err = client_update(s, client);
        }
        if (!open || !is_full(s)) continue;
        s->core->capacity_from = cursor;
        open = false;
    }
    return err;
}

static void clients_trim(struct hints_round *s)
{
    struct needs *needs = s->core->needs;

    for (uint32_t i = 0; i < needs->cluster_slots.used; i++) {
        const struct demand_cluster *demand = slot_map_get(&needs->cluster_slots, i);
        struct hints *hints = s->anew[i] ? &s->anew[i]->hints : NULL;
        struct map_entry *entry;
        size_t cursor = 0;
        if (!hints) continue;
        while (hints->met < map_count(&hints->by_kind) &&
               (entry = map_next(&hints->by_kind, &cursor))) {
            const struct capacity_hint *hint = entry->value;
            if (hint->round == s->round) continue;
            hints->unsaid -= !hint->said.confidence;
            free(map_remove(&hints->by_kind, entry->key));
        }
        hints->version = demand->set.version;
    }
}

void capacity_note(struct core *core, const struct decision *decision)
{
    const struct needs *needs = core->needs;
    struct hints_round s = {.core = core, .round = ++core->capacity_round};
    bool any_anew;
    enum err err;

    s.anew =
        arena_calloc(&core->scratch, needs->cluster_slots.used, sizeof(struct cluster_client *));
    s.offers = arena_calloc(&core->scratch, needs->set_slots.used, sizeof *s.offers);
    s.copies = arena_calloc(&core->scratch, needs->kind_slots.used, sizeof(struct profile *));
    if (!s.anew || !s.offers || !s.copies) return; /* the next cycle sends the hints */
    err = clients_update(&s, &any_anew);
    if (err || !any_anew) return;
    for (size_t i = 0; i < decision->verdict_count && !err; i++)
        err = need_update(&s, decision->verdicts[i].need);
    if (!err) clients_trim(&s);
}
