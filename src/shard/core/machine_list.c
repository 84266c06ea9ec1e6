/* SPDX-License-Identifier: Apache-2.0 */
/* Lists machines for people. The filter is tested on cohorts and on the real traits first, so a
 * narrow list of a large fleet builds few records. */
#include "shard/core/running_actions.h"
#include "shard/state/cohort.h"

static bool look_passes(const struct look *look, const struct machine_filter *filter)
{
    for (size_t i = 0; i < filter->label_count; i++) {
        const struct posting *found = look_find(look, filter->labels[i].key);
        if (!found || !str_equal(posting_value(found), filter->labels[i].value)) return false;
    }
    return true;
}

static bool traits_pass(const struct traits *t, const struct machine_filter *filter)
{
    if (filter->state && t->state != filter->state) return false;
    return !filter->cluster.len || str_equal(cluster_text(t->cluster), filter->cluster);
}

static enum err machine_list_one(struct core *core, struct str id, mono_time now,
                                 core_machine_fn *each, void *context)
{
    const struct machine_work *w = work_find(core, id);
    struct listed_machine listed = {0};
    struct inventory_entry entry;
    enum err err;

    arena_reset(&core->scratch);
    err = core_get(core, id, &entry);
    if (err) return err;
    listed.machine = entry.machine;
    listed.planned_state = entry.planned_state;
    listed.pending = core_is_pending(core, id);
    listed.rests = w && !w->task && w->kind != WORK_QUIET && w->kind != WORK_PASSING;
    if (entry.machine.state == MACHINE_IDLE)
        listed.since_ms = mono_elapsed_ms(entry.idle_since, now);
    else if (w && call_rule_passing(entry.machine.state))
        listed.since_ms = mono_elapsed_ms(w->task ? w->task->since : w->since, now);
    return each(context, &listed);
}

enum err core_machines(struct core *core, const struct machine_filter *filter, mono_time now,
                       core_machine_fn *each, void *context)
{
    const struct inventory *inv = core->inventory;
    enum err err = ERR_OK;

    for (uint32_t slot = 0; slot < inv->cohort_slots.used && !err; slot++) {
        const struct cohort *c = slot_map_get(&inv->cohort_slots, slot);
        struct member_place place;
        const struct machine_row *row;

        if (!c || !c->count || (filter->cordoned && !c->traits.cordon)) continue;
        if (!look_passes(c->traits.look, filter)) continue;
        place = cohort_begin(c);
        while (!err && (row = cohort_next(&place)))
            if (traits_pass(&row_actual(inv, row)->traits, filter))
                err = machine_list_one(core, row_id(row), now, each, context);
    }
    return err;
}
