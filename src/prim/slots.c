/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of slots over change.h: one key per slot, and a record "g/.group" with the slot count. A
 * list shows which slot to try; the conditional write of that slot's key decides, so a slot never
 * has two holders. If a store cannot write the record and a slot in one step, a group can only
 * grow. */
#include <stdlib.h>

#include "prim/answer.h"
#include "prim/change.h"
#include "prim/group.h"

struct group_call {
    struct prim_change record; /* change of "g/.group", for the list and its deadline */
    struct prim_slots slots;
    const struct prim_seen *next; /* the holder whose lease ends first; NULL: unknown */
    coord_id taken_from;          /* lease that the last takeover tried to replace; zero: none */
    bool changed;                 /* a free slot could not be taken: the list is outdated */
    char key[PRIM_SLOT_KEY_CAP];
};

static coord_result group_absent(void)
{
    return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
}

/* -- the record ------------------------------------------------------------------------------- */

/* *ret_group has a slot_count of 0 if there is no group. */
static coord_result group_record_read(const struct prim_seen *record,
                                      struct envelope_group *ret_group)
{
    *ret_group = (struct envelope_group){0};
    if (record->kind != PRIM_SEEN_LIVE && record->kind != PRIM_SEEN_FOREIGN)
        return prim_ok(COORD_R_NONE);
    if (record->kind == PRIM_SEEN_LIVE && !record->barred &&
        envelope_group_read(&record->envelope, ret_group) == ERR_OK)
        return prim_ok(COORD_R_NONE);
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "the group's record is not ours");
}

coord_result prim_slots_begin(struct prim_slots *slots, const struct prim_seen *record)
{
    struct envelope_group group;
    coord_result result = group_record_read(record, &group);
    if (result.code != COORD_OK) return result;
    slots->record = *record;
    slots->count = group.slot_count;
    slots->cooldown_ms = group.cooldown_ms;
    if (slots->room < slots->count) slots->room = slots->count;
    slots->at = calloc(slots->room + 1, sizeof *slots->at);
    return slots->at != NULL ? result : prim_no_memory();
}

struct count_write { /* the record that a judge wants to write; `bytes` must outlive the write */
    uint64_t expected;
    struct envelope_group group;
    char bytes[ENVELOPE_GROUP_VALUE];
};

static void plan_count(const struct prim_change *c, struct prim_plan *plan, enum prim_act act,
                       int reason)
{
    struct count_write *write = c->out;
    envelope_group_value(&write->group, write->bytes);
    plan->act = act;
    plan->envelope = (struct claim_envelope){.flags = ENVELOPE_GROUP,
                                             .request_id = c->call->request_id,
                                             .owner = STR_EMPTY,
                                             .value = str_of(write->bytes, sizeof write->bytes)};
    plan->result = prim_ok(reason);
}

/* If another client made the group meanwhile, the next list shows it. */
static void judge_create(struct prim_change *c, struct prim_plan *plan)
{
    plan->result = prim_ok(COORD_R_NONE);
    if (c->seen.kind != PRIM_SEEN_LIVE) plan_count(c, plan, PRIM_ACT_MAKE, COORD_R_CREATED);
}

static coord_result group_create(struct group_call *g, const struct prim_acquire *in)
{
    struct count_write write = {.group = {in->slot_count, in->cooldown_ms}};
    struct prim_change c = {.backend = g->record.backend,
                            .call = g->record.call,
                            .op = COORD_OP_ACQUIRE,
                            .key = g->record.key,
                            .judge = judge_create,
                            .out = &write,
                            .record = &g->record,
                            .known = &g->slots.record};
    coord_result result = prim_change_run(&c);
    if (result.code == COORD_OK && c.act == PRIM_ACT_MAKE)
        g->record.turns = 0; /* no race was lost */
    return result;
}

static uint32_t group_caps(struct prim_backend *backend)
{
    return backend->ops->capabilities(backend).bits;
}

static void judge_resize(struct prim_change *c, struct prim_plan *plan)
{
    struct count_write *write = c->out;
    uint32_t wanted = write->group.slot_count, count;
    struct envelope_group group;
    plan->result = group_record_read(&c->seen, &group);
    if (plan->result.code != COORD_OK) return;
    count = group.slot_count;
    write->group.cooldown_ms = group.cooldown_ms;
    if (count == 0) {
        plan->result = group_absent();
        return;
    }
    if (prim_change_is_replay(c) && count == wanted)
        plan->result = prim_ok(COORD_R_REPLAYED);
    else if (c->seen.revision != write->expected)
        plan->result =
            prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has another revision");
    else if (wanted < count && !(group_caps(c->backend) & COORD_CAP_SHRINK))
        plan->result = prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                                   "this store lacks COORD_CAP_SHRINK: a group can only grow here "
                                   "(it has %u slots), since record and slots are not one step",
                                   (unsigned)count);
    else
        plan_count(c, plan, PRIM_ACT_UPDATE, COORD_R_RESIZED);
    plan->result.revision = c->seen.revision;
    plan->result.slot_count = plan->act == PRIM_ACT_NONE ? count : wanted;
}

coord_result prim_change_resize(struct prim_backend *backend, const struct prim_call *call,
                                struct str group, uint64_t expected, uint32_t slot_count)
{
    char key[PRIM_SLOT_KEY_CAP];
    struct count_write write = {.expected = expected, .group = {.slot_count = slot_count}};
    prim_group_key(group, key);
    struct prim_change c = {.backend = backend,
                            .call = call,
                            .op = COORD_OP_RESIZE,
                            .key = str_from(key),
                            .judge = judge_resize,
                            .out = &write};
    return prim_change_run(&c);
}

/* -- lists ------------------------------------------------------------------------------------ */

static coord_result group_begin(struct group_call *g, struct prim_backend *backend,
                                const struct prim_call *call, struct str group, bool makes)
{
    *g = (struct group_call){
        .record = {.backend = backend, .call = call, .makes = makes, .reads = true}};
    prim_group_key(group, g->key);
    g->record.key = str_from(g->key);
    g->record.own = backend->ops->ways->begin(&g->record);
    return g->record.own != NULL ? prim_ok(COORD_R_NONE) : prim_no_memory();
}

static void slots_end(struct group_call *g)
{
    const struct prim_ways *ways = g->record.backend->ops->ways;
    if (ways->list_end != NULL) ways->list_end(&g->slots);
    free(g->slots.at);
    g->slots = (struct prim_slots){.count = 0};
}

static void group_end(struct group_call *g, const coord_result *result)
{
    slots_end(g);
    if (g->record.own != NULL) g->record.backend->ops->ways->end(&g->record, result);
}

static bool holders_add_slot(coord_holders *holders, uint32_t slot, const struct prim_seen *seen)
{
    coord_holder row = {.slot = slot,
                        .token = seen->token,
                        .revision = seen->revision,
                        .remaining_ms = seen->left_ms};
    memcpy(row.lease_id_prefix, seen->envelope.lease_id.b, sizeof row.lease_id_prefix);
    return prim_holders_add(holders, &row, seen->envelope.owner, seen->envelope.value);
}

coord_result prim_change_holders(struct prim_backend *backend, const struct prim_call *call,
                                 struct str group, coord_holders **ret_holders)
{
    const struct prim_ways *ways = backend->ops->ways;
    struct group_call g;
    coord_holders *holders = NULL;
    coord_result result = group_begin(&g, backend, call, group, false);
    if (result.code == COORD_OK) result = ways->list(&g.record, group, 0, &g.slots);
    if (result.code == COORD_OK && g.slots.count == 0) result = group_absent();
    if (result.code == COORD_OK) {
        holders = prim_holders_make(g.slots.room);
        bool fits = holders != NULL;
        for (uint32_t i = 0; fits && i < g.slots.room; i++) {
            const struct prim_seen *seen = &g.slots.at[i];
            if (prim_seen_is_live(seen) && !seen->barred && seen->token != 0)
                fits = holders_add_slot(holders, i, seen);
        }
        if (!fits) result = prim_no_memory();
    }
    if (result.code == COORD_OK && holders != NULL) {
        holders->slot_count = g.slots.count;
        holders->revision = g.slots.record.revision;
        holders->cooldown_ms = g.slots.cooldown_ms;
        holders->atomic = (group_caps(backend) & COORD_CAP_LIST_ATOMIC) != 0;
        if (group_caps(backend) & COORD_CAP_OBSERVED_EXPIRY)
            holders->certainty = COORD_BY_OBSERVATION;
        *ret_holders = holders;
    } else {
        coord_holders_free(holders);
    }
    group_end(&g, &result);
    return result;
}

/* -- acquire ---------------------------------------------------------------------------------- */

static void group_describe(struct group_call *g, const struct prim_acquire *in,
                           struct prim_group *ret_rules)
{
    g->next = NULL;
    prim_group_begin(ret_rules, g->record.call, in, g->slots.count);
    for (uint32_t i = 0; i < g->slots.room; i++) {
        const struct prim_seen *seen = &g->slots.at[i];
        int64_t next_ms = ret_rules->next_ms;
        /* A barred or damaged slot is not free, but has no holder in this library. */
        if (seen->barred || seen->kind == PRIM_SEEN_FOREIGN)
            prim_group_taken(ret_rules, i, -1);
        else if (prim_seen_is_live(seen))
            prim_group_held(ret_rules, i, &seen->envelope.request_id, seen->envelope.owner,
                            seen->left_ms);
        else if (seen->kind == PRIM_SEEN_EXPIRED && seen->left_ms > 0)
            prim_group_taken(ret_rules, i, seen->left_ms);
        if (ret_rules->next_ms != next_ms) g->next = seen;
    }
}

/* CONFLICT/revision: another client was faster. */
static coord_result slot_enter(struct group_call *g, const struct prim_acquire *in, uint32_t slot,
                               enum prim_group_choice choice, struct prim_grant *ret_grant)
{
    char key[PRIM_SLOT_KEY_CAP];
    const struct prim_make make = {.value = in->value,
                                   .owner = in->owner,
                                   .ttl_ms = in->ttl_ms,
                                   .lease_id = in->lease_id,
                                   .flags = ENVELOPE_SLOT,
                                   .made = COORD_R_ACQUIRED,
                                   .code = COORD_EXISTS,
                                   .present = COORD_R_HELD,
                                   .takeover = choice == PRIM_GROUP_TAKEOVER};
    prim_slot_key(in->group, slot, key);
    struct prim_change c = {.backend = g->record.backend,
                            .call = g->record.call,
                            .op = COORD_OP_ACQUIRE,
                            .key = str_from(key),
                            .judge = prim_change_judge_make,
                            .in = &make,
                            .lease_id = &make.lease_id,
                            .record = &g->record,
                            .known = &g->slots.at[slot],
                            .once = choice == PRIM_GROUP_TAKE || make.takeover};
    coord_result result = prim_change_run(&c);
    g->changed = c.fresh && !prim_seen_is_live(&c.seen);
    result.slot = slot;
    if (result.code == COORD_OK) {
        *ret_grant = c.grant;
        ret_grant->slot = slot;
    }
    return result;
}

static bool slot_race_lost(const coord_result *result)
{
    return result->code == COORD_CONFLICT ||
           (result->code == COORD_EXISTS && result->reason == COORD_R_HELD);
}

static coord_result group_full(const struct group_call *g, const struct prim_group *rules)
{
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_FULL, "all %u slots are held",
                                      (unsigned)rules->slot_count);
    result.live = rules->live;
    result.hint_ms = rules->next_ms;
    if (g->next != NULL) {
        result.token = g->next->token;
        prim_answer_owner(&result, g->next->envelope.owner);
    }
    return result;
}

/* Lists the group once and acts on the list. *ret_again: another client was faster. */
static coord_result group_acquire(struct group_call *g, const struct prim_acquire *in,
                                  struct prim_grant *ret_grant, bool *ret_again)
{
    struct prim_group rules;
    uint32_t slot;
    coord_result result = prim_ok(COORD_R_NONE);
    g->changed = false;
    group_describe(g, in, &rules);
    enum prim_group_choice choice = prim_group_choose(&rules, 0, &slot);
    *ret_again = false;
    if (choice == PRIM_GROUP_TAKEOVER) {
        const coord_id *holder = &g->slots.at[slot].envelope.lease_id;
        /* Two calls of one owner ran at the same time, and another call took the slot before this
         * call. */
        if (!prim_id_is_zero(&g->taken_from) && !prim_id_equal(&g->taken_from, holder))
            choice = PRIM_GROUP_ALREADY;
        g->taken_from = *holder;
    }
    switch (choice) {
    case PRIM_GROUP_ABSENT: return group_absent();
    case PRIM_GROUP_CREATE:
        result = group_create(g, in);
        *ret_again = result.code == COORD_OK;
        return result;
    case PRIM_GROUP_CONFLICT:
        result = prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT, "the group has %u slots, not %u",
                             (unsigned)g->slots.count, (unsigned)in->slot_count);
        result.revision = g->slots.record.revision;
        return result;
    case PRIM_GROUP_FULL: return group_full(g, &rules);
    case PRIM_GROUP_REPLAY:
    case PRIM_GROUP_ALREADY:
    case PRIM_GROUP_TAKEOVER:
        result = slot_enter(g, in, slot, choice, ret_grant);
        *ret_again = slot_race_lost(&result); /* the slot was taken after the list was read */
        return result;
    case PRIM_GROUP_TAKE: break;
    }
    /* Clients with the same list must not conflict again: the loser tries another random slot. */
    while (choice == PRIM_GROUP_TAKE && !g->changed) {
        result = slot_enter(g, in, slot, choice, ret_grant);
        if (!slot_race_lost(&result)) return result;
        prim_group_taken(&rules, slot, -1);
        choice = prim_group_choose(&rules, (uint32_t)prim_random(), &slot);
    }
    *ret_again = true; /* another caller won every race, or another list is needed */
    return result;
}

coord_result prim_change_acquire(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    const struct prim_ways *ways = backend->ops->ways;
    /* A first attempt fails if the group has a different slot count. A later attempt may already
     * have a slot. */
    uint32_t wanted = call->attempt == 0 ? in->slot_count : 0;
    struct group_call g;
    coord_result result =
        group_begin(&g, backend, call, in->group, (in->flags & COORD_NO_CREATE) == 0);
    bool again = result.code == COORD_OK;
    while (again) {
        slots_end(&g);
        if (!prim_change_next_turn(&g.record, &result)) break;
        result = ways->list(&g.record, in->group, wanted, &g.slots);
        if (result.code != COORD_OK) break;
        g.record.seen = g.slots.record;
        result = group_acquire(&g, in, ret_grant, &again);
        result.slot_count = g.slots.count;
    }
    if (result.code == COORD_UNAVAILABLE && call->attempt > 0)
        result.flags |= COORD_F_MAYBE_APPLIED;
    group_end(&g, &result);
    return result;
}
