/* SPDX-License-Identifier: Apache-2.0 */
/* Which machines nobody acts on for now, and why: for whoever wonders why one is not used. */
#include <stdlib.h>

#include "shard/core/hands.h"

enum { LOOKED_MOST = 65536 }; /* concerns; in a fleet where so many rest the first tell enough */

static int by_machine(const void *a, const void *b)
{
    const struct resting *x = a, *y = b;

    return str_compare(x->machine, y->machine);
}

/* What the provider works on is not left alone: it is waited for. */
static bool rests(const struct concern *c, mono_time now, enum resting_why *ret_why)
{
    switch (c->kind) {
    case CONCERN_PASSING: return false;
    case CONCERN_QUIET:
    case CONCERN_DRAINED:
    case CONCERN_REFUSED: *ret_why = RESTING_REFUSED; return !mono_due(c->until, now);
    case CONCERN_DOUBT: *ret_why = RESTING_DOUBT; return true;
    case CONCERN_FAILED: *ret_why = RESTING_FAILED; return true;
    }
    return false;
}

static mono_time rest_end(const struct concern *c, enum resting_why why)
{
    return why == RESTING_REFUSED ? c->until : (mono_time){c->due.due};
}

static enum err show(struct core *core, const struct concern *c, mono_time now, struct arena *arena,
                     struct resting *r)
{
    mono_time due = rest_end(c, r->why);
    struct inventory_entry entry;
    enum err err = core_get(core, str_of(c->id, c->id_len), &entry);
    const char *machine, *cluster, *error;

    if (err) return err;
    machine = arena_dup(arena, entry.machine.id);
    cluster = arena_dup(arena, entry.machine.cluster);
    error = arena_dup(arena, entry.machine.last_error);
    if (!machine || !cluster || !error) return ERR_NOMEM;
    r->machine = str_of(machine, entry.machine.id.len);
    r->cluster = str_of(cluster, entry.machine.cluster.len);
    r->error = str_of(error, entry.machine.last_error.len);
    r->state = entry.machine.state;
    r->refusals = c->refusals;
    r->asked = c->tries;
    r->left_ms = mono_elapsed_ms(now, due);
    return ERR_OK;
}

enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view)
{
    const struct table *concerns = &core->hands->concerns;
    struct resting *machines = arena_calloc(arena, most, sizeof *machines);
    struct resting_view view = {.machines = machines};
    size_t looked = 0;

    if (!machines) return ERR_NOMEM;
    for (uint32_t i = 0; i < concerns->bucket_count && looked < LOOKED_MOST; i++)
        for (const struct table_link *link = concerns->buckets[i]; link; link = link->next) {
            const struct concern *c = CONTAINER_OF(link, struct concern, link);
            struct resting *r = &machines[view.count];
            enum resting_why why;

            looked++;
            if (!rests(c, now, &why)) continue;
            view.total++;
            if (view.count == most) continue;
            core_begin(core); /* a thousand records at most, each of its own */
            r->why = why;
            if (show(core, c, now, arena, r) == ERR_OK) view.count++;
        }
    view.all = looked == concerns->count;
    qsort(machines, view.count, sizeof *machines, by_machine);
    *ret_view = view;
    return ERR_OK;
}

enum err core_machine(struct core *core, struct str id, mono_time now,
                      struct machine_facts *ret_facts)
{
    struct machine_facts facts = {0};
    struct inventory_entry entry;
    const struct concern *c;
    enum err err;

    core_begin(core);
    err = core_get(core, id, &entry);
    if (err) return err;
    facts.machine = entry.machine;
    facts.idle_since = entry.idle_since;
    facts.planned_state = entry.planned_state;
    facts.pending = core_is_pending(core, id);
    facts.outside = !scope_has(core, &facts.machine.attributes);
    drain_facts(core, id, now, &facts);
    c = concern_find(core, id);
    facts.rests = c && rests(c, now, &facts.why);
    if (facts.rests) {
        facts.refusals = c->refusals;
        facts.asked = c->tries;
        facts.left_ms = mono_elapsed_ms(now, rest_end(c, facts.why));
    }
    *ret_facts = facts;
    return ERR_OK;
}
