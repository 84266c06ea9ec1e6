/* SPDX-License-Identifier: Apache-2.0 */
/* The table of reclaim orders, by id and by machine. A new order of a machine replaces the earlier
 * order. An order is freed when it is over and needs no report. No I/O. */
#include "operator/core/reclaims.h"

#include <stdlib.h>

#include "base/map.h"

struct reclaims_record {
    struct reclaim reclaim;
    uint64_t change; /* number of the newest change; see reclaims_saved() */
    bool replaced;
    wall_time report_at;
    /* in the present session: */
    bool ordered; /* the shard knows the order */
    /* states that the shard reported for the machine; `seen`: any state */
    bool seen_draining;
    bool seen_configured;
    bool seen;
    bool departed; /* the machine left or serves the cluster again, so no report is needed */
    char texts[];  /* id and machine */
};
struct reclaims {
    struct map by_id;
    struct map by_machine; /* by machine: its newest order */
    uint64_t change, saved;
    bool reporting;
};

enum err reclaims_open(uint64_t seed, struct reclaims **ret_reclaims)
{
    struct reclaims *r = calloc(1, sizeof *r);

    if (!r) return ERR_NOMEM;
    map_init(&r->by_id, RECLAIMS_MAX, seed);
    map_init(&r->by_machine, RECLAIMS_MAX, ~seed);
    *ret_reclaims = r;
    return ERR_OK;
}

void reclaims_close(struct reclaims *r)
{
    struct map_entry *each;
    size_t cursor = 0;

    if (!r) return;
    while ((each = map_next(&r->by_id, &cursor))) free(each->value);
    map_deinit(&r->by_id);
    map_deinit(&r->by_machine);
    free(r);
}

static struct reclaims_record *record_make(const struct reclaim *order)
{
    struct reclaims_record *record = calloc(1, sizeof *record + order->id.len + order->machine.len);
    char *at;

    if (!record) return NULL;
    at = record->texts;
    record->reclaim = *order;
    record->reclaim.id = str_put(&at, order->id);
    record->reclaim.machine = str_put(&at, order->machine);
    return record;
}

/* Enters the order into both tables or into none. */
static enum err record_enter(struct reclaims *r, struct reclaims_record *record)
{
    struct reclaims_record *older = map_remove(&r->by_machine, record->reclaim.machine);
    enum err err = map_put(&r->by_id, record->reclaim.id, record);

    if (!err) {
        err = map_put(&r->by_machine, record->reclaim.machine, record);
        if (err) map_remove(&r->by_id, record->reclaim.id);
    }
    /* If the older order cannot be put back, nobody can find it, so it ends. */
    if (older)
        older->replaced = !err || map_put(&r->by_machine, older->reclaim.machine, older) != ERR_OK;
    return err;
}

enum err reclaims_put(struct reclaims *r, const struct reclaim *order, struct note *note)
{
    struct reclaims_record *record;
    enum err err = id_check("instruction_id", order->id, ID_MAX, note);

    if (!err) err = id_check("nodes[0]", order->machine, ID_MAX, note);
    if (err) return err;
    record = map_get(&r->by_id, order->id);
    if (record) {
        record->reclaim.acknowledged = false;
        record->ordered = true;
        record->report_at = (wall_time){0};
        return ERR_EXISTS;
    }
    record = record_make(order);
    if (!record) return ERR_NOMEM;
    record->ordered = !order->resumed;
    err = record_enter(r, record);
    if (err == ERR_FULL) note_set(note, "more than %d orders are under way", RECLAIMS_MAX);
    if (err)
        free(record);
    else if (!order->resumed)
        record->change = ++r->change;
    return err;
}

enum err reclaims_order(struct reclaims *r, struct str id, struct str machine,
                        int64_t grace_seconds, int32_t preemptor_priority, wall_time now,
                        struct note *note)
{
    int64_t most = RECLAIM_GRACE_MAX_MS / (int64_t)MS_PER_SECOND;
    uint64_t grace_ms = RECLAIM_GRACE_DEFAULT_MS;
    struct reclaim order = {.id = id, .machine = machine, .preemptor_priority = preemptor_priority};

    if (grace_seconds > 0)
        grace_ms = (uint64_t)(grace_seconds < most ? grace_seconds : most) * MS_PER_SECOND;
    order.deadline.ms = add_sat_u64(now.ms, grace_ms);
    return reclaims_put(r, &order, note);
}

uint64_t reclaims_change(const struct reclaims *r)
{
    return r->change;
}

void reclaims_saved(struct reclaims *r, uint64_t change)
{
    assert(change <= r->change);
    if (change > r->saved) r->saved = change;
}

void reclaims_session(struct reclaims *r)
{
    struct map_entry *each;
    size_t cursor = 0;

    while ((each = map_next(&r->by_id, &cursor))) {
        struct reclaims_record *record = each->value;
        record->reclaim.acknowledged = false;
        record->ordered = record->seen = record->seen_draining = record->seen_configured = false;
        record->report_at = (wall_time){0};
    }
}

static void record_forget(struct reclaims *r, struct reclaims_record *record)
{
    if (map_get(&r->by_machine, record->reclaim.machine) == record)
        map_remove(&r->by_machine, record->reclaim.machine);
    map_remove(&r->by_id, record->reclaim.id);
    free(record);
    r->change++;
}

static struct reclaims_record *record_under_way(struct reclaims *r, struct str id)
{
    struct reclaims_record *record = map_get(&r->by_id, id);

    return record && !record->replaced && record->reclaim.phase != RECLAIM_ORDERED &&
                   !reclaim_is_over(record->reclaim.phase)
               ? record
               : NULL;
}

bool reclaims_started(struct reclaims *r, struct str id)
{
    struct reclaims_record *record = record_under_way(r, id);

    if (record) record->reclaim.phase = RECLAIM_STARTED;
    return record != NULL;
}

/* Ends an order. True: the order is kept for its report. */
static bool record_end(struct reclaims *r, struct reclaims_record *record, bool drained)
{
    if (!r->reporting || record->departed) {
        record_forget(r, record);
        return false;
    }
    record->reclaim.phase = drained ? RECLAIM_DRAINED : RECLAIM_GAVE_UP;
    record->report_at = (wall_time){0};
    r->change++;
    return true;
}

bool reclaims_ended(struct reclaims *r, struct str id, bool drained)
{
    struct reclaims_record *record = record_under_way(r, id);

    if (record) (void)record_end(r, record, drained);
    return record != NULL;
}

/* -- drain reports -- */

/* `unnamed_only`: only orders for machines that the shard did not report. */
static void reclaims_forget_over(struct reclaims *r, bool unnamed_only)
{
    struct map_entry *each;
    size_t cursor = 0;

    while ((each = map_next(&r->by_id, &cursor))) {
        struct reclaims_record *record = each->value;
        if (!reclaim_is_over(record->reclaim.phase)) continue;
        if (unnamed_only && (record->seen || record->ordered)) continue;
        record_forget(r, record);
    }
}

void reclaims_reporting(struct reclaims *r, bool takes)
{
    r->reporting = takes;
    if (!takes) reclaims_forget_over(r, false);
}

void reclaims_sweep(struct reclaims *r)
{
    reclaims_forget_over(r, true);
}

/* Configured after Draining: the machine serves the cluster again. Only Configured: the shard does
 * not know the order. */
void reclaims_reported(struct reclaims *r, struct str machine, enum machine_state state)
{
    struct reclaims_record *record = map_get(&r->by_machine, machine);

    if (!record || state == MACHINE_UNSPECIFIED) return;
    if (state == MACHINE_DRAINING)
        record->seen_draining = true;
    else if (state != MACHINE_CONFIGURED || record->seen_draining)
        record->departed = true;
    else if (!record->seen_configured)
        record->report_at = (wall_time){0};
    record->seen = true;
    record->seen_configured = state == MACHINE_CONFIGURED;
    if (record->departed && reclaim_is_over(record->reclaim.phase)) record_forget(r, record);
}

void reclaims_unsent(struct reclaims *r, struct str id, wall_time now)
{
    struct reclaims_record *record = map_get(&r->by_id, id);

    if (record) record->report_at.ms = now.ms + MS_PER_SECOND;
}

static void record_check(const struct reclaims *r, const struct reclaims_record *record)
{
    enum reclaim_phase phase = record->reclaim.phase;
    bool begun = phase == RECLAIM_BEGUN || phase == RECLAIM_STARTED;

    /* invariant I5 */
    assert(record->replaced || map_get(&r->by_machine, record->reclaim.machine) == record);
    assert(!begun || record->reclaim.resumed || record->change <= r->saved); /* invariant I6 */
    assert(!record->reclaim.acknowledged || phase >= RECLAIM_STARTED);       /* invariant I7 */
}

static bool record_report_is_due(const struct reclaims *r, const struct reclaims_record *record,
                                 wall_time now)
{
    if (!r->reporting || now.ms < record->report_at.ms) return false;
    if (reclaim_is_over(record->reclaim.phase)) return true;
    return record->seen_configured && !record->ordered && !record->departed &&
           record->reclaim.phase != RECLAIM_ORDERED;
}

static void record_step(struct reclaims *r, struct reclaims_record *record, wall_time now,
                        bool connected, reclaim_due_fn *each, void *context)
{
    struct reclaim *reclaim = &record->reclaim;

    record_check(r, record);
    if (record->replaced) {
        each(context, RECLAIM_REPLACED, reclaim);
        record_forget(r, record);
        return;
    }
    if (!reclaim_is_over(reclaim->phase) && now.ms >= reclaim->deadline.ms) {
        each(context, RECLAIM_EXPIRED, reclaim);
        if (!record_end(r, record, false)) return;
    }
    if (reclaim_is_over(reclaim->phase) &&
        now.ms >= add_sat_u64(reclaim->deadline.ms, RECLAIM_KEPT_MS)) {
        record_forget(r, record);
        return;
    }
    if (connected && record_report_is_due(r, record, now)) {
        record->report_at.ms = now.ms + RECLAIM_REPORT_MS;
        each(context, RECLAIM_REPORT, reclaim);
    }
    if (reclaim->phase == RECLAIM_ORDERED && record->change <= r->saved) {
        reclaim->phase = RECLAIM_BEGUN;
        each(context, RECLAIM_BEGIN, reclaim);
    }
    if (reclaim->phase == RECLAIM_STARTED && connected && !record->reclaim.acknowledged) {
        record->reclaim.acknowledged = true;
        each(context, RECLAIM_ACKNOWLEDGE, reclaim);
    }
    record_check(r, record);
}

void reclaims_step(struct reclaims *r, wall_time now, bool connected, reclaim_due_fn *each,
                   void *context)
{
    struct map_entry *entry;
    size_t cursor = 0;

    while ((entry = map_next(&r->by_id, &cursor)))
        record_step(r, entry->value, now, connected, each, context);
}

size_t reclaims_running(const struct reclaims *r)
{
    size_t cursor = 0, count = 0;
    const struct reclaim *each;

    while ((each = reclaims_next(r, &cursor))) count += !reclaim_is_over(each->phase);
    return count;
}

const struct reclaim *reclaims_next(const struct reclaims *r, size_t *cursor)
{
    struct map_entry *entry = map_next(&r->by_id, cursor);

    return entry ? &((struct reclaims_record *)entry->value)->reclaim : NULL;
}

const struct reclaim *reclaims_find(const struct reclaims *r, struct str id)
{
    const struct reclaims_record *record = map_get(&r->by_id, id);

    return record ? &record->reclaim : NULL;
}
