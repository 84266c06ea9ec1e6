/* SPDX-License-Identifier: Apache-2.0 */
/* Stores reports of occupancy, and seeks room for the pods of machines that a decision reclaims.
 *
 * The search never promises more room than there is. Either one machine takes all pods of the
 * reclaimed machine, or each pod counts as the largest one in every resource. Room that was found is
 * used up: by other reclaims of the cycle, and by machines that are still being drained. */
#include "shard/core/occupancy.h"

#include <stdlib.h>

#include "model/penalty.h"
#include "shard/core/core_internal.h"
#include "shard/state/cohort.h"

#define OCCUPANCY_BYTES_MAX ((size_t)1 << 30)

struct packed { /* the named dimensions of a struct resources */
    uint64_t mask;
    const int64_t *milli;
};
struct occupied {
    struct str machine;
    uint32_t evictable, held;
    uint8_t disruption; /* penalty bucket */
    bool cramped;       /* its pods have no room elsewhere */
    bool tried;         /* in this cycle, without success */
    uint64_t leaving;   /* the last cycle that reclaimed or preempted the machine */
    struct packed free, requested, largest;
};
struct occupancy_table {
    struct arena arena;
    struct occupied *rows; /* sorted by machine */
    size_t count;
    bool tried; /* some row was tried */
};

void occupancy_free(struct occupancy_table *table)
{
    if (!table) return;
    arena_deinit(&table->arena);
    free(table);
}

/* --- reports --- */

static enum err packed_keep(struct arena *arena, const struct resources *from,
                            struct packed *ret_packed)
{
    size_t size = resource_bits(from->mask) * sizeof from->milli[0];
    int64_t *milli = arena_alloc(arena, size);

    if (!milli) return ERR_NOMEM;
    memcpy(milli, from->milli, size);
    *ret_packed = (struct packed){from->mask, milli};
    return ERR_OK;
}

static struct resources packed_open(const struct packed *p)
{
    struct resources out = {.mask = p->mask};

    memcpy(out.milli, p->milli, resource_bits(p->mask) * sizeof out.milli[0]);
    return out;
}

static bool packed_same(const struct packed *a, const struct packed *b)
{
    return a->mask == b->mask &&
           memcmp(a->milli, b->milli, resource_bits(a->mask) * sizeof a->milli[0]) == 0;
}

/* Of two rows of one machine, the one with more pods comes first. */
static int occupied_compare(const void *left, const void *right)
{
    const struct occupied *a = left, *b = right;
    int order = str_compare(a->machine, b->machine);

    if (order) return order;
    if (a->held != b->held) return a->held > b->held ? -1 : 1;
    return (a->evictable < b->evictable) - (a->evictable > b->evictable);
}

static struct occupied *occupied_find(const struct occupancy_table *table, struct str machine)
{
    size_t low = 0, high = table ? table->count : 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_compare(table->rows[middle].machine, machine);
        if (order == 0) return &table->rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static enum err occupied_keep(struct arena *arena, const struct machine_occupancy *from,
                              struct occupied *row)
{
    enum err err = text_copy(arena, from->machine, &row->machine);

    row->evictable = from->evictable;
    row->held = from->held;
    if (!err) err = penalty_from_dollars(from->disruption, &row->disruption);
    if (!err) err = packed_keep(arena, &from->free, &row->free);
    if (!err) err = packed_keep(arena, &from->requested, &row->requested);
    if (!err) err = packed_keep(arena, &from->largest, &row->largest);
    return err;
}

static enum err table_make(const struct machine_occupancy *rows, size_t count,
                           struct occupancy_table **ret_table)
{
    struct occupancy_table *table = calloc(1, sizeof *table);
    enum err err = ERR_OK;

    *ret_table = table;
    if (!table) return ERR_NOMEM;
    arena_init(&table->arena, OCCUPANCY_BYTES_MAX);
    table->rows = arena_calloc(&table->arena, count, sizeof *table->rows);
    if (!table->rows) return ERR_NOMEM;
    for (size_t i = 0; i < count && !err; i++)
        err = occupied_keep(&table->arena, &rows[i], &table->rows[i]);
    if (err) return err;
    qsort(table->rows, count, sizeof *table->rows, occupied_compare);
    for (size_t i = 0; i < count; i++)
        if (!table->count ||
            !str_equal(table->rows[table->count - 1].machine, table->rows[i].machine))
            table->rows[table->count++] = table->rows[i];
    return ERR_OK;
}

static bool tables_same(const struct occupancy_table *a, const struct occupancy_table *b)
{
    if (!a || !b || a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct occupied *x = &a->rows[i], *y = &b->rows[i];
        if (!str_equal(x->machine, y->machine) || x->evictable != y->evictable ||
            x->held != y->held || x->disruption != y->disruption ||
            !packed_same(&x->free, &y->free) || !packed_same(&x->requested, &y->requested) ||
            !packed_same(&x->largest, &y->largest))
            return false;
    }
    return true;
}

static enum occupancy occupied_class(const struct occupied *row)
{
    if (row->held || row->cramped) return OCCUPANCY_HELD;
    return row->evictable ? OCCUPANCY_EVICTABLE : OCCUPANCY_EMPTY;
}

/* NULL: unknown, or bound to another cluster. */
static const struct machine_row *row_of_cluster(const struct core *core, struct str machine,
                                                struct str cluster)
{
    const struct machine_row *row = inventory_row(core->inventory, machine);
    const struct cohort *c = row ? row_actual(core->inventory, row) : NULL;

    return c && str_equal(cluster_text(traits_bound(&c->traits)), cluster) ? row : NULL;
}

/* Without memory the machine keeps its old occupancy until the next roll-up. */
static void occupied_apply(struct core *core, struct str cluster, const struct occupied *row,
                           enum occupancy occupancy)
{
    if (row_of_cluster(core, row->machine, cluster))
        (void)inventory_occupy(core->inventory, row->machine, occupancy, row->disruption);
}

enum err core_occupancy(struct core *core, struct str cluster, const struct machine_occupancy *rows,
                        size_t count, bool pending, mono_time now, struct effects *out)
{
    struct cluster_client *client = client_find(&core->clients, cluster);
    struct occupancy_table *table = NULL, *old = client ? client->occupancy : NULL;
    enum err err = ERR_OK;
    bool same;

    core_begin(core, now, out);
    if (client)
        client->occupancy_due =
            pending ? mono_after(core->now, core->options.operator_return_ms) : (mono_time){0};
    if (!client || pending || (!old && !count)) return ERR_OK;
    if (count) err = table_make(rows, count, &table);
    if (err) {
        occupancy_free(table);
        return err;
    }
    same = tables_same(old, table);
    for (size_t i = 0; old && i < old->count; i++) {
        struct occupied *kept = occupied_find(table, old->rows[i].machine);
        if (kept)
            kept->cramped = same && old->rows[i].cramped;
        else
            occupied_apply(core, cluster, &old->rows[i], OCCUPANCY_UNKNOWN);
    }
    for (size_t i = 0; table && i < table->count; i++)
        occupied_apply(core, cluster, &table->rows[i], occupied_class(&table->rows[i]));
    client->occupancy = table;
    occupancy_free(old);
    return ERR_OK;
}

void occupancy_facts(const struct core *core, struct machine_facts *facts)
{
    const struct cluster_client *client = client_find(&core->clients, facts->machine.cluster);
    const struct occupied *row =
        client ? occupied_find(client->occupancy, facts->machine.id) : NULL;

    if (!row) return;
    facts->occupancy_known = true;
    facts->evictable_pods = row->evictable;
    facts->held_pods = row->held;
    facts->no_room = row->cramped;
}

/* --- room --- */

struct room { /* free amounts of the machines that stay */
    struct resources *free;
    size_t count;
    uint32_t tries;
    bool overbooked; /* pods that are being evicted already have no room */
};

/* How many pods of the size `unit` the machine has room for, at most `most`. */
static uint32_t room_units(const struct resources *free, const struct resources *unit,
                           uint32_t most)
{
    for (uint64_t left = unit->mask; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        int64_t wanted = resources_get(unit, dimension);
        int64_t fit = wanted ? resources_get(free, dimension) / wanted : most;
        if (fit < most) most = (uint32_t)fit;
    }
    return most;
}

static void room_subtract(struct resources *free, const struct resources *unit, uint32_t count)
{
    for (uint64_t left = unit->mask & free->mask; left; left &= left - 1) {
        uint32_t dimension = (uint32_t)__builtin_ctzll(left);
        uint64_t below = ((uint64_t)1 << dimension) - 1;
        free->milli[resource_bits(free->mask & below)] -= resources_get(unit, dimension) * count;
    }
}

/* Uses up room for all pods of the machine. False: there is not enough, and nothing is used. */
static bool room_take(struct room *room, const struct occupied *row)
{
    struct resources all = packed_open(&row->requested), unit = packed_open(&row->largest);
    uint32_t left = row->evictable;

    for (size_t i = 0; i < room->count; i++) {
        if (!room_units(&room->free[i], &all, 1)) continue;
        room_subtract(&room->free[i], &all, 1);
        return true;
    }
    for (size_t i = 0; i < room->count && left; i++)
        left -= room_units(&room->free[i], &unit, left);
    if (left) return false;
    left = row->evictable;
    for (size_t i = 0; i < room->count && left; i++) {
        uint32_t count = room_units(&room->free[i], &unit, left);
        room_subtract(&room->free[i], &unit, count);
        left -= count;
    }
    return true;
}

static enum err room_open(struct core *core, const struct cluster_client *client, struct room *room)
{
    const struct occupancy_table *table = client->occupancy;

    *room = (struct room){.free = arena_calloc(&core->scratch, table->count, sizeof *room->free)};
    if (!room->free) return ERR_NOMEM;
    for (size_t i = 0; i < table->count; i++) {
        const struct occupied *o = &table->rows[i];
        const struct machine_row *row = row_of_cluster(core, o->machine, client->name);
        if (!row || row_cohort(core->inventory, row)->traits.state != MACHINE_CONFIGURED) continue;
        if (o->leaving != core->counts.cycles) room->free[room->count++] = packed_open(&o->free);
    }
    for (size_t i = 0; i < table->count; i++) {
        const struct occupied *o = &table->rows[i];
        const struct machine_row *row =
            o->evictable ? row_of_cluster(core, o->machine, client->name) : NULL;
        if (!row || row_cohort(core->inventory, row)->traits.state != MACHINE_DRAINING) continue;
        if (!room_take(room, o)) room->overbooked = true;
    }
    return ERR_OK;
}

static bool client_is_pending(const struct core *core, const struct cluster_client *client)
{
    return client->occupancy_due.ms && !mono_due(client->occupancy_due, core->now);
}

/* Decides about the reclaims [from, to) of one cluster. */
static enum err room_admit(struct core *core, const struct cluster_client *client,
                           const struct decision *decision, size_t from, size_t to, bool *withheld)
{
    struct room room = {0};
    uint32_t roomless = 0;

    if (client_is_pending(core, client)) {
        for (size_t i = from; i < to; i++) withheld[i] = true;
        return ERR_OK;
    }
    for (size_t i = from; i < to; i++) {
        struct occupied *o = occupied_find(client->occupancy, decision->actions[i].machine);
        enum err err;
        if (!o || occupied_class(o) != OCCUPANCY_EVICTABLE) continue;
        err = room.free ? ERR_OK : room_open(core, client, &room);
        if (err) return err;
        if (room.overbooked || room.tries++ >= OCCUPANCY_TRIES_MAX) {
            withheld[i] = true;
        } else if (!room_take(&room, o)) {
            withheld[i] = o->tried = client->occupancy->tried = true;
            roomless++;
        }
    }
    core->counts.roomless += roomless;
    if (roomless)
        core_log(core, CORE_INFO, "busy machines stay: their pods have no room elsewhere",
                 "cluster=%.*s machines=%u", STR_ARG(client->name), (unsigned)roomless);
    return ERR_OK;
}

/* Machines that this decision drains are no room for anybody. False: the cluster has no reports. */
static bool occupancy_mark(struct core *core, const struct action *action)
{
    const struct cluster_client *client = client_find(&core->clients, action->cluster);
    struct occupied *o = client ? occupied_find(client->occupancy, action->machine) : NULL;

    if (o) o->leaving = core->counts.cycles;
    return o || (client && client_is_pending(core, client));
}

enum err occupancy_admit(struct core *core, const struct decision *decision,
                         const bool **ret_withheld)
{
    bool *withheld = NULL, reported = false;
    size_t to;
    enum err err = ERR_OK;

    *ret_withheld = NULL;
    for (size_t i = 0; i < decision->action_count; i++) {
        const struct action *action = &decision->actions[i];
        if (action->kind == ACTION_PREEMPT || action->kind == ACTION_RECLAIM)
            if (occupancy_mark(core, action)) reported = true;
    }
    if (!reported) return ERR_OK;
    withheld = arena_calloc(&core->scratch, decision->action_count, sizeof *withheld);
    if (!withheld) return ERR_NOMEM;
    for (size_t from = 0; from < decision->action_count && !err; from = to) {
        const struct action *action = &decision->actions[from];
        const struct cluster_client *client;
        to = from + 1;
        if (action->kind != ACTION_RECLAIM) continue;
        while (to < decision->action_count && decision->actions[to].kind == ACTION_RECLAIM &&
               str_equal(decision->actions[to].cluster, action->cluster))
            to++;
        client = client_find(&core->clients, action->cluster);
        if (client) err = room_admit(core, client, decision, from, to, withheld);
    }
    *ret_withheld = withheld;
    return err;
}

void occupancy_settle(struct core *core)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&core->clients.by_name, &cursor))) {
        const struct cluster_client *client = entry->value;
        struct occupancy_table *table = client->occupancy;
        if (!table || !table->tried) continue;
        table->tried = false;
        for (size_t i = 0; i < table->count; i++) {
            struct occupied *o = &table->rows[i];
            if (!o->tried) continue;
            o->tried = false;
            o->cramped = true;
            occupied_apply(core, client->name, o, OCCUPANCY_HELD);
        }
    }
}
