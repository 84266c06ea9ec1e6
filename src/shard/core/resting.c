/* SPDX-License-Identifier: Apache-2.0 */
/* The machines that nobody acts on for now, and why: so that people see why one is not used. */
#include <stdlib.h>

#include "shard/core/running_actions.h"

enum { LOOKED_MOST = 65536 }; /* works; in a fleet where so many rest the first show enough */

static int resting_compare(const void *a, const void *b)
{
    const struct resting *x = a, *y = b;

    return str_compare(x->machine, y->machine);
}

/* False: nothing keeps the shard from acting on the machine, or the provider works on it. */
static bool work_rests(const struct machine_work *w, mono_time now, struct rest *ret_rest)
{
    mono_time end = {w->due.due};

    switch (w->kind) {
    case WORK_PASSING: return false;
    case WORK_QUIET:
    case WORK_DRAINED:
    case WORK_REFUSED:
        if (mono_due(w->until, now)) return false;
        ret_rest->why = RESTING_REFUSED;
        end = w->until;
        break;
    case WORK_DOUBT: ret_rest->why = RESTING_DOUBT; break;
    case WORK_FAILED: ret_rest->why = RESTING_FAILED; break;
    }
    ret_rest->refusals = w->refusals;
    ret_rest->asked = w->tries;
    ret_rest->left_ms = mono_elapsed_ms(now, end);
    return true;
}

enum err core_resting(struct core *core, size_t most, mono_time now, struct arena *arena,
                      struct resting_view *ret_view)
{
    const struct table *works = &core->running->works;
    struct resting *machines = arena_calloc(arena, most, sizeof *machines);
    struct resting_view view = {.machines = machines};
    size_t looked = 0;

    if (!machines) return ERR_NOMEM;
    for (uint32_t i = 0; i < works->bucket_count && looked < LOOKED_MOST; i++)
        for (const struct table_link *link = works->buckets[i]; link; link = link->next) {
            const struct machine_work *w = CONTAINER_OF(link, struct machine_work, link);
            struct inventory_entry entry;
            struct rest rest;

            looked++;
            if (!work_rests(w, now, &rest)) continue;
            view.total++;
            if (view.count == most) continue;
            arena_reset(&core->scratch); /* a thousand records at most, each of its own */
            if (core_get(core, str_of(w->id, w->id_len), &entry)) continue;
            machines[view.count++] = (struct resting){.machine = entry.machine.id,
                                                      .cluster = entry.machine.cluster,
                                                      .error = entry.machine.last_error,
                                                      .state = entry.machine.state,
                                                      .rest = rest};
        }
    view.all = looked == works->count;
    qsort(machines, view.count, sizeof *machines, resting_compare);
    *ret_view = view;
    return ERR_OK;
}

enum err core_machine(struct core *core, struct str id, mono_time now,
                      struct machine_facts *ret_facts)
{
    struct machine_facts facts = {0};
    struct inventory_entry entry;
    const struct machine_work *w;
    enum err err;

    arena_reset(&core->scratch);
    err = core_get(core, id, &entry);
    if (err) return err;
    facts.machine = entry.machine;
    facts.idle_since = entry.idle_since;
    facts.planned_state = entry.planned_state;
    facts.pending = core_is_pending(core, id);
    facts.outside = !scope_has(core, &facts.machine.attributes);
    drain_facts(core, id, now, &facts);
    w = work_find(core, id);
    facts.rests = w && work_rests(w, now, &facts.rest);
    *ret_facts = facts;
    return ERR_OK;
}
