/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that changes machines. It reports every change to the operator, the counts and the
 * running actions. All or nothing: memory is reserved before the inventory changes. */
#include "shard/core/core_internal.h"

enum err core_get(struct core *core, struct str id, struct inventory_entry *ret_entry)
{
    return inventory_get(core->inventory, id, &core->scratch, ret_entry);
}

enum err core_send_state(struct core *core, struct str cluster, const struct machine *machine)
{
    const struct machine *node;
    struct effect *effect;
    struct str name;
    enum err err;

    /* An operator without a session gets its machines by a later resync. A machine that left the
     * cluster is not in the resync, so its state is sent now and kept by the driver. */
    if (!core_has_session(core, cluster) && str_equal(machine->cluster, cluster)) return ERR_OK;
    err = text_copy(&core->out->arena, cluster, &name);
    if (err) return err;
    node = effects_machine(core->out, machine);
    if (!node) return ERR_NOMEM;
    effect = effects_add(core->out, EFFECT_NODE_STATE);
    if (!effect) return ERR_NOMEM;
    effect->machine = node->id;
    effect->cluster = name;
    effect->node = node;
    return ERR_OK;
}

/* Clears the fields that have no meaning in the machine's state. The inventory does not store
 * them. */
static struct machine meaning(const struct machine *given)
{
    struct machine m = *given;

    if (!machine_state_keeps_stamp(m.state) && m.state != MACHINE_CREATING)
        m.stamp = (struct machine_stamp){0};
    if (m.state != MACHINE_CREATING) m.destination = STR_EMPTY;
    if (m.state != MACHINE_DRAINING && m.state != MACHINE_IDLE)
        m.promised = (struct machine_promise){0};
    return m;
}

/* True if nothing that operators see has changed. Prices change all day and are ignored. */
static bool shows_same(const struct machine *a, const struct machine *b)
{
    return a->state == b->state && str_equal(a->cluster, b->cluster) &&
           str_equal(a->host_ref, b->host_ref) && str_equal(a->last_error, b->last_error) &&
           resources_equal(machine_capacity(a), machine_capacity(b)) &&
           str_equal(a->attributes.instance_type, b->attributes.instance_type) &&
           str_equal(a->attributes.zone, b->attributes.zone) &&
           labels_equal(a->attributes.labels, a->attributes.label_count, b->attributes.labels,
                        b->attributes.label_count);
}

enum err core_move(struct core *core, const struct machine *to, enum inventory_source source,
                   enum machine_edge *ret_edge, struct note *note)
{
    size_t before = core->out->count;
    struct tally_place from_place, to_place;
    struct machine m = meaning(to);
    struct inventory_entry was;
    enum machine_state from;
    /* Before core_get(), because the attributes may be in the old record. */
    bool inside = scope_has(core, &m.attributes);
    enum err err;

    m.cordon = cordon_of(core, m.id, &m.attributes);
    err = core_get(core, m.id, &was);
    if (err) return err;
    from = was.machine.state;
    /* The texts of `to` may be in the old record. */
    err = text_copy(&core->scratch, m.host_ref, &m.host_ref);
    if (!err) err = text_copy(&core->scratch, m.id, &m.id);
    if (err) return err;
    err = tally_find(&core->tally, &was.machine, &from_place);
    if (err) return err;
    err = tally_find(&core->tally, &m, &to_place);
    if (err) return err;
    if (was.machine.cluster.len && !str_equal(was.machine.cluster, m.cluster))
        err = core_send_state(core, was.machine.cluster, &m); /* the machine left this cluster */
    if (!err && m.cluster.len && !shows_same(&was.machine, &m))
        err = core_send_state(core, m.cluster, &m);
    if (!err && source == INVENTORY_OBSERVED && from != m.state) err = running_reserve(core, &m);
    if (!err) err = inventory_apply(core->inventory, &m, source, core->now, ret_edge, note);
    if (err) {
        running_unreserve(core, m.id);
        tally_leave(&core->tally, &to_place);
        core->out->count = before;
        return err;
    }
    tally_move(&core->tally, &from_place, &to_place);
    scope_note(core, m.id, inside);
    if (from == m.state) return ERR_OK;
    if (m.state == MACHINE_CONFIGURED) waits_over(core, &m);
    if (source == INVENTORY_OBSERVED) running_changed(core, &m, from);
    return ERR_OK;
}

enum err core_admit(struct core *core, const struct machine *machine, struct note *note)
{
    size_t before = core->out->count;
    struct machine m = meaning(machine);
    struct tally_place place;
    enum err err = tally_find(&core->tally, &m, &place);

    if (err) return err;
    m.cordon = cordon_of(core, m.id, &m.attributes);
    err = core_send_state(core, m.cluster, &m);
    if (!err) err = running_reserve(core, &m);
    if (!err) err = inventory_insert(core->inventory, &m, core->now, note);
    if (err) {
        running_unreserve(core, m.id);
        tally_leave(&core->tally, &place);
        core->out->count = before;
        return err;
    }
    tally_move(&core->tally, NULL, &place);
    running_changed(core, &m, MACHINE_UNSPECIFIED);
    return ERR_OK;
}

enum err core_drop(struct core *core, struct str id, const char *why)
{
    struct tally_place place;
    struct inventory_entry was;
    struct machine failed;
    enum err err = core_get(core, id, &was);

    if (!err) err = tally_find(&core->tally, &was.machine, &place);
    if (err) return err;
    failed = was.machine; /* else the operator would wait for the machine for ever */
    failed.state = MACHINE_FAILED;
    failed.cluster = STR_EMPTY;
    failed.last_error = str_from(why);
    if (was.machine.cluster.len) err = core_send_state(core, was.machine.cluster, &failed);
    if (err) return err;
    running_gone(core, id);
    tally_move(&core->tally, &place, NULL);
    err = inventory_remove(core->inventory, id);
    assert(!err);
    return ERR_OK;
}
