/* SPDX-License-Identifier: Apache-2.0 */
/* The changes of the inventory. Each change first allocates what it needs, then moves the row, then
 * releases what the row left. So running out of memory changes nothing. */
#include "shard/state/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "shard/state/cohorts.h"

enum err inventory_open(const struct inventory_options *options, struct inventory **ret_inventory)
{
    struct inventory *inv;

    if (options->machines_max == 0 || options->machines_max > INVENTORY_MACHINES_MOST) {
        return ERR_INVALID;
    }
    inv = calloc(1, sizeof *inv);
    if (!inv) return ERR_NOMEM;
    inv->options = *options;
    inv->bytes = 0;
    inv->members_kind = (struct order_kind){row_order_key, &inv->bytes};
    *ret_inventory = inv;
    return ERR_OK;
}

size_t row_size(const struct machine_row *row)
{
    return sizeof *row + row->id_len + row->room;
}

static void row_free(struct inventory *inv, struct machine_row *row)
{
    origin_give(inv, row->origin);
    row_bury(inv, row);
}

static void inventory_count_row(struct inventory *inv, const struct machine_row *row, bool in)
{
    const struct traits *t = &row_actual(inv, row)->traits;
    uint32_t one = in ? 1u : UINT32_MAX;

    inv->counts.machines += one;
    inv->counts.by_state[t->state][t->capacity_type] += one;
    inv->counts.cordoned[t->cordon] += one;
    if (row->planned) inv->counts.planned += one;
}

/* Removes the row from its cohorts and the counts, but does not free it. */
static void row_leave(struct inventory *inv, struct machine_row *row)
{
    struct cohort *cohort = row_cohort(inv, row), *actual = row_actual(inv, row);

    inventory_count_row(inv, row, false);
    cohort_remove(inv, cohort, row);
    if (actual != cohort) cohort_give(inv, actual);
    cohort_give(inv, cohort);
    row->cohort = row->actual = SLOT_NONE;
}

static void row_drop(struct inventory *inv, struct machine_row *row)
{
    row_leave(inv, row);
    if (inv->list && row->link.refs == inv->list) inv->listed--;
    table_remove(&inv->rows, &row->link);
    row_free(inv, row);
}

void inventory_close(struct inventory *inventory)
{
    if (!inventory) return;
    list_orders_free(inventory);
    for (uint32_t i = 0; i < inventory->rows.bucket_count; i++) {
        while (inventory->rows.buckets[i]) {
            row_drop(inventory, CONTAINER_OF(inventory->rows.buckets[i], struct machine_row, link));
        }
    }
    struct table *tables[] = {&inventory->rows,     &inventory->words,    &inventory->origins,
                              &inventory->clusters, &inventory->keys,     &inventory->families,
                              &inventory->stamps,   &inventory->promises, &inventory->shapes,
                              &inventory->postings, &inventory->looks,    &inventory->cohorts,
                              &inventory->outfits};
    struct slot_map *slots[] = {
        &inventory->origin_slots, &inventory->cluster_slots, &inventory->key_slots,
        &inventory->family_slots, &inventory->posting_slots, &inventory->look_slots,
        &inventory->shape_slots,  &inventory->cohort_slots,  &inventory->outfit_slots};
    inventory->bytes += inventory->label_bytes; /* one counter for all tables */
    inventory->label_bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        assert(tables[i]->count == 0); /* every shared object was freed with its last user */
        table_deinit(tables[i], &inventory->bytes);
    }
    for (size_t i = 0; i < ARRAY_LEN(slots); i++) slot_map_deinit(slots[i], &inventory->bytes);
    array_free(inventory->nobodys.at, inventory->nobodys.cap, sizeof *inventory->nobodys.at,
               &inventory->bytes);
    array_free(inventory->look_briefs, inventory->look_briefs_cap, sizeof *inventory->look_briefs,
               &inventory->bytes);
    assert(inventory->bytes == 0);
    free(inventory);
}

struct machine_row *inventory_row(const struct inventory *inventory, struct str id)
{
    uint32_t hash = bytes_hash(inventory, id.at, id.len);

    TABLE_EACH(&inventory->rows, hash, link)
    {
        struct machine_row *row = CONTAINER_OF(link, struct machine_row, link);
        if (str_equal(row_id(row), id)) return row;
    }
    return NULL;
}

/* Adds the row to no table. On success takes over `own_origin`. NULL: out of memory. */
static struct machine_row *row_make(struct inventory *inv, const struct machine *machine,
                                    uint32_t own_origin)
{
    struct machine_row *row =
        memory_take(&inv->bytes, sizeof *row + machine->id.len + machine->host_ref.len);

    if (!row) return NULL;
    *row = (struct machine_row){.cohort = SLOT_NONE,
                                .actual = SLOT_NONE,
                                .origin = own_origin,
                                .id_len = (uint8_t)machine->id.len,
                                .room = (uint8_t)machine->host_ref.len};
    memcpy(row->id, machine->id.at, machine->id.len);
    return row;
}

static void host_ref_put(struct machine_row *row, struct str host_ref)
{
    assert(host_ref.len <= row->room);
    if (host_ref.len) memmove(row->id + row->id_len, host_ref.at, host_ref.len);
    row->host_ref_len = (uint8_t)host_ref.len;
}

/* Replaces `*row` everywhere by an equal row with room for a host_ref of `len` bytes. The caller
 * must bury the old row when no text points into it any more. */
static enum err row_reserve(struct inventory *inv, struct machine_row **row, size_t len,
                            struct machine_row **ret_old)
{
    struct machine_row *old = *row, *larger;

    *ret_old = NULL;
    if (len <= old->room) return ERR_OK;
    larger = memory_take(&inv->bytes, sizeof *old + old->id_len + len);
    if (!larger) return ERR_NOMEM;
    memcpy(larger, old, row_size(old));
    larger->room = (uint8_t)len;
    cohort_replace(row_cohort(inv, old), old, larger);
    table_remove(&inv->rows, &old->link);
    table_add(&inv->rows, &larger->link, old->link.hash);
    *ret_old = old;
    *row = larger;
    return ERR_OK;
}

static enum err record_check(const struct machine *m, struct note *note)
{
    if (machine_invariant(m, note) != MACHINE_SOUND) return ERR_INVALID;
    if (!m->id.len || m->id.len > ID_MAX || m->host_ref.len > ID_MAX)
        return note_fail(note, ERR_INVALID, "id or host_ref: empty or too long");
    if ((unsigned)m->capacity_type >= CAPACITY_TYPE_COUNT)
        return note_fail(note, ERR_INVALID, "capacity_type: unknown");
    return ERR_OK;
}

enum err inventory_insert(struct inventory *inventory, const struct machine *machine, mono_time now,
                          struct note *note)
{
    struct machine_row *row;
    struct cohort *cohort;
    struct traits traits;
    uint32_t origin;
    enum err err = record_check(machine, note);

    if (err) return err;
    if (inventory_row(inventory, machine->id))
        return note_fail(note, ERR_EXISTS, "machine %.*s: exists already", STR_ARG(machine->id));
    if (inventory->rows.count >= inventory->options.machines_max)
        return note_fail(note, ERR_FULL, "more than %u machines", inventory->options.machines_max);
    err = table_reserve(&inventory->rows, &inventory->bytes);
    if (err) return err;
    err = origin_take(inventory, machine->host_provider, machine->last_error, &origin);
    if (err) return err;
    row = row_make(inventory, machine, origin);
    if (!row) {
        origin_give(inventory, origin);
        return ERR_NOMEM;
    }
    host_ref_put(row, machine->host_ref);
    row->idle_since_ms = machine->state == MACHINE_IDLE ? now.ms : 0;
    err = traits_take(inventory, machine, now, &traits);
    if (!err) err = cohort_take(inventory, &traits, &cohort);
    if (err) goto free_row;
    err = cohort_add(inventory, cohort, row);
    if (err) {
        cohort_give(inventory, cohort);
        goto free_row;
    }
    row->cohort = row->actual = cohort->slot;
    table_add(&inventory->rows, &row->link, bytes_hash(inventory, machine->id.at, machine->id.len));
    inventory_count_row(inventory, row, true);
    return ERR_OK;

free_row:
    row_free(inventory, row);
    return err;
}

/* Moves the row to `own_to` and takes over this reference, even on failure. `actual`: `own_to` is
 * also the cohort of the real state. */
static enum err row_move(struct inventory *inv, struct machine_row *row, struct cohort *own_to,
                         bool actual)
{
    struct cohort *from = row_cohort(inv, row), *was = row_actual(inv, row);

    if (own_to != from) {
        enum err err = cohort_add(inv, own_to, row);
        if (err) {
            cohort_give(inv, own_to);
            return err;
        }
        cohort_remove(inv, from, row);
    }
    row->cohort = own_to->slot;
    if (actual) {
        row->actual = own_to->slot;
        if (was != from) cohort_give(inv, was);
        cohort_give(inv, from);
    } else if (was != from) {
        cohort_give(inv, from);
    }
    return ERR_OK;
}

static enum err row_move_check(enum machine_state from, enum machine_state to,
                               enum inventory_source source, enum machine_edge *ret_edge,
                               struct note *note)
{
    enum machine_edge edge = machine_edge(from, to);
    char from_text[MACHINE_NAME_CAP], to_text[MACHINE_NAME_CAP];

    if (edge == EDGE_REFUSED || (source == INVENTORY_DRIVEN && edge != EDGE_DRIVEN))
        return note_fail(note, ERR_PRECONDITION, "no move from %s to %s",
                         machine_state_name(from, from_text), machine_state_name(to, to_text));
    *ret_edge = edge;
    return ERR_OK;
}

static struct machine_stamp stamp_view(const struct stamp *stamp) /* NULL: no stamp */
{
    if (!stamp) return (struct machine_stamp){0};
    return (struct machine_stamp){.priority = stamp->priority,
                                  .interruption_dollars = stamp->interruption_dollars,
                                  .reclamation_dollars = stamp->reclamation_dollars,
                                  .fingerprint = word_text(stamp->fingerprint),
                                  .group = word_text(stamp->group)};
}

static struct machine_promise promise_view(const struct promise *promise) /* NULL: no promise */
{
    if (!promise) return (struct machine_promise){0};
    return (struct machine_promise){.cluster = cluster_text(promise->key->family->cluster),
                                    .fingerprint = word_text(promise->key->family->fingerprint),
                                    .group = word_text(promise->key->group),
                                    .priority = promise->priority,
                                    .at = promise->at};
}

static struct plan plan_of(const struct inventory *inv, const struct machine_row *row)
{
    const struct traits *t = &row_cohort(inv, row)->traits;
    struct plan plan = {.action = (enum planned_action)row->planned};

    plan.cluster = cluster_text(t->cluster);
    plan.stamp = stamp_view(t->stamp);
    plan.promised = promise_view(t->promise);
    return plan;
}

static const struct plan_rule { /* the states in which a planned action starts and ends */
    enum machine_state from, to;
} plan_rules[] = {
    [PLANNED_BOOTSTRAP] = {MACHINE_IDLE, MACHINE_CONFIGURING},
    [PLANNED_PROVISION] = {MACHINE_SPECULATIVE, MACHINE_CREATING},
    [PLANNED_DRAIN] = {MACHINE_CONFIGURED, MACHINE_DRAINING},
    [PLANNED_DELETE] = {MACHINE_IDLE, MACHINE_DELETING},
};

/* Finds or creates the cohort of a planned row with the real traits `actual`. */
static enum err planned_cohort(struct inventory *inv, const struct traits *actual,
                               const struct plan *plan, struct cohort **ret_cohort)
{
    struct traits t = *actual;
    enum err err = ERR_OK;

    traits_share(&t);
    t.state = (uint8_t)plan_rules[plan->action].to;
    t.occupancy = t.disruption = 0;
    shared_give(inv, &promise_kind, t.promise);
    t.promise = NULL;
    if (plan->action == PLANNED_DRAIN) {
        err = promise_take(inv, &plan->promised, 0, &t.promise);
    } else {
        shared_give(inv, &stamp_kind, t.stamp);
        t.stamp = NULL;
    }
    if (plan->action == PLANNED_BOOTSTRAP || plan->action == PLANNED_PROVISION) {
        shared_give(inv, &cluster_kind, t.cluster);
        err = cluster_take(inv, plan->cluster, &t.cluster);
        if (!err) err = stamp_take(inv, &plan->stamp, &t.stamp);
    }
    if (!err) return cohort_take(inv, &t, ret_cohort);
    traits_give(inv, &t);
    return err;
}

/* Updates a row whose state stays the same, and keeps its plan. Takes over `own_to`, even on
 * failure. */
static enum err row_refresh(struct inventory *inv, struct machine_row *row, struct cohort *own_to)
{
    struct plan plan = plan_of(inv, row);
    struct cohort *planned;
    enum err err = planned_cohort(inv, &own_to->traits, &plan, &planned);

    if (!err) err = row_move(inv, row, planned, false);
    if (err) {
        cohort_give(inv, own_to);
        return err;
    }
    cohort_give(inv, row_actual(inv, row));
    row->actual = own_to->slot;
    return ERR_OK;
}

/* A machine that stays Configured for its cluster keeps its occupancy. */
static void occupancy_carry(const struct traits *from, struct traits *to)
{
    if (to->state != MACHINE_CONFIGURED || from->state != MACHINE_CONFIGURED) return;
    if (from->cluster != to->cluster) return;
    to->occupancy = from->occupancy;
    to->disruption = from->disruption;
}

/* Applies all of the record except origin and host_ref. */
static enum err row_change(struct inventory *inv, struct machine_row *row,
                           const struct machine *machine, mono_time idle_since)
{
    bool keep_plan =
        row->planned && machine->state == (enum machine_state)row_actual(inv, row)->traits.state;
    struct cohort *cohort;
    struct traits traits;
    enum err err = traits_take(inv, machine, idle_since, &traits);

    if (!err) {
        occupancy_carry(&row_actual(inv, row)->traits, &traits);
        err = cohort_take(inv, &traits, &cohort);
    }
    if (err) return err;
    inventory_count_row(inv, row, false);
    err = keep_plan ? row_refresh(inv, row, cohort) : row_move(inv, row, cohort, true);
    if (!err && !keep_plan) row->planned = PLANNED_NOTHING;
    inventory_count_row(inv, row, true);
    if (!err) row->idle_since_ms = machine->state == MACHINE_IDLE ? idle_since.ms : 0;
    return err;
}

enum err inventory_apply(struct inventory *inventory, const struct machine *machine,
                         enum inventory_source source, mono_time now, enum machine_edge *ret_edge,
                         struct note *note)
{
    enum machine_edge edge = EDGE_REFUSED;
    mono_time idle_since = now;
    struct machine_row *row, *replaced;
    enum machine_state from;
    uint32_t origin;
    enum err err = record_check(machine, note);

    if (err) return err;
    row = inventory_row(inventory, machine->id);
    if (!row) return ERR_NOT_FOUND;
    from = (enum machine_state)row_actual(inventory, row)->traits.state;
    if (machine->state != from) err = row_move_check(from, machine->state, source, &edge, note);
    if (err) return err;
    /* staying Idle keeps idle_since */
    if (from == MACHINE_IDLE) idle_since.ms = row->idle_since_ms;
    err = origin_take(inventory, machine->host_provider, machine->last_error, &origin);
    if (err) return err;
    err = row_reserve(inventory, &row, machine->host_ref.len, &replaced);
    if (!err) err = row_change(inventory, row, machine, idle_since);
    if (!err) {
        host_ref_put(row, machine->host_ref);
        origin_give(inventory, row->origin);
        row->origin = origin;
        if (ret_edge) *ret_edge = edge;
    } else {
        origin_give(inventory, origin);
    }
    if (replaced) row_bury(inventory, replaced);
    return err;
}

enum err inventory_occupy(struct inventory *inventory, struct str id, enum occupancy occupancy,
                          uint8_t disruption)
{
    struct machine_row *row = inventory_row(inventory, id);
    struct cohort *cohort;
    struct traits traits;
    enum err err;

    if (!row) return ERR_NOT_FOUND;
    traits = row_actual(inventory, row)->traits;
    if (traits.state != MACHINE_CONFIGURED) return ERR_OK;
    if (occupancy != OCCUPANCY_EVICTABLE) disruption = 0;
    if (traits.occupancy == occupancy && traits.disruption == disruption) return ERR_OK;
    traits.occupancy = (uint8_t)occupancy;
    traits.disruption = disruption;
    traits_share(&traits);
    err = cohort_take(inventory, &traits, &cohort);
    if (err) return err;
    return row->planned ? row_refresh(inventory, row, cohort)
                        : row_move(inventory, row, cohort, true);
}

enum err inventory_remove(struct inventory *inventory, struct str id)
{
    struct machine_row *row = inventory_row(inventory, id);

    if (!row) return ERR_NOT_FOUND;
    row_drop(inventory, row);
    return ERR_OK;
}

/* --- plans --- */

static enum err plan_check(const struct inventory *inv, const struct machine_row *row,
                           const struct plan *plan, struct note *note)
{
    enum machine_state state = (enum machine_state)row_actual(inv, row)->traits.state;
    bool buys = plan->action == PLANNED_BOOTSTRAP || plan->action == PLANNED_PROVISION;
    char text[MACHINE_NAME_CAP];

    if (plan->action <= PLANNED_NOTHING || plan->action > PLANNED_DELETE) return ERR_INVALID;
    if (buys && !plan->cluster.len)
        return note_fail(note, ERR_INVALID, "plan: no destination cluster");
    if (row->planned) return note_fail(note, ERR_PRECONDITION, "plan: an action is queued already");
    if (state != plan_rules[plan->action].from)
        return note_fail(note, ERR_PRECONDITION, "plan: the machine is %s",
                         machine_state_name(state, text));
    return ERR_OK;
}

enum err inventory_plan(struct inventory *inventory, struct str id, const struct plan *plan,
                        struct note *note)
{
    struct machine_row *row = inventory_row(inventory, id);
    struct cohort *cohort;
    enum err err;

    if (!row) return ERR_NOT_FOUND;
    err = plan_check(inventory, row, plan, note);
    if (!err) err = planned_cohort(inventory, &row_actual(inventory, row)->traits, plan, &cohort);
    if (!err) err = row_move(inventory, row, cohort, false);
    if (err) return err;
    row->planned = (uint8_t)plan->action;
    inventory->counts.planned++;
    return ERR_OK;
}

enum err inventory_unplan(struct inventory *inventory, struct str id)
{
    struct machine_row *row = inventory_row(inventory, id);
    struct cohort *actual;
    enum err err;

    if (!row) return ERR_NOT_FOUND;
    if (!row->planned) return ERR_OK;
    actual = row_actual(inventory, row);
    actual->link.refs++; /* row_move() takes over one and releases the old one */
    err = row_move(inventory, row, actual, true);
    if (err) return err;
    row->planned = PLANNED_NOTHING;
    inventory->counts.planned--;
    return ERR_OK;
}

/* --- reading --- */

enum err inventory_get(const struct inventory *inventory, struct str id, struct arena *arena,
                       struct inventory_entry *ret_entry)
{
    const struct machine_row *row = inventory_row(inventory, id);
    struct inventory_entry e;
    const struct traits *t;
    enum err err;

    if (!row) return ERR_NOT_FOUND;
    t = &row_actual(inventory, row)->traits;
    memset(&e, 0, sizeof e);
    err = look_attributes(t->look, arena, &e.machine.attributes);
    if (err) return err;
    e.machine.id = row_id(row);
    e.machine.state = (enum machine_state)t->state;
    e.machine.host_provider = word_text(origin_at(inventory, row->origin)->host_provider);
    e.machine.host_ref = row_host_ref(row);
    e.machine.cluster = cluster_text(traits_bound(t));
    e.machine.capacity_type = (enum capacity_type)t->capacity_type;
    e.machine.resources = t->shape->resources;
    e.machine.allocatable = t->shape->allocatable;
    e.machine.price_per_hour = t->price;
    e.machine.interruption_probability = t->probability;
    e.machine.last_error = word_text(origin_at(inventory, row->origin)->last_error);
    if (t->state == MACHINE_CREATING) e.machine.destination = cluster_text(t->cluster);
    e.machine.stamp = stamp_view(t->stamp);
    e.machine.promised = promise_view(t->promise);
    e.machine.cordon = (enum machine_cordon)t->cordon;
    e.idle_since.ms = row->idle_since_ms;
    e.occupancy = (enum occupancy)t->occupancy;
    e.disruption = t->disruption;
    e.planned = (enum planned_action)row->planned;
    e.planned_state = (enum machine_state)row_cohort(inventory, row)->traits.state;
    *ret_entry = e;
    return ERR_OK;
}

struct inventory_counts inventory_counts(const struct inventory *inventory)
{
    return inventory->counts;
}

uint32_t inventory_cluster_count(const struct inventory *inventory, struct str cluster,
                                 enum machine_state state)
{
    const struct cohort_cluster *found = inventory_cluster(inventory, cluster);

    return found && state < MACHINE_STATE_COUNT ? found->machines[state] : 0;
}

struct inventory_stats inventory_stats(const struct inventory *inventory)
{
    return (struct inventory_stats){.machines = inventory->rows.count,
                                    .cohorts = inventory->cohorts.count,
                                    .looks = inventory->looks.count,
                                    .shapes = inventory->shapes.count,
                                    .stamps = inventory->stamps.count,
                                    .keys = inventory->keys.count,
                                    .clusters = inventory->clusters.count,
                                    .words = inventory->words.count,
                                    .bytes = inventory->bytes + inventory->label_bytes +
                                             sizeof *inventory,
                                    .label_bytes = inventory->label_bytes};
}
