/* SPDX-License-Identifier: Apache-2.0 */
/* Groups (write.h): acquire, resize, holders. The rules for the slots are in prim/group.c. */
#include "prim/file/write.h"

#include <errno.h>
#include <stdlib.h>

#include "prim/group.h"

/* One call on a group, with its bucket to itself. */
struct group_op {
    struct key_op record; /* "g/.group"; live: the group exists */
    struct str group;
    struct group_value value;
    char key[PRIM_SLOT_KEY_CAP];
};

static coord_result group_begin(struct group_op *op, struct prim_backend *backend,
                                const struct prim_call *call, struct str group, enum file_op kind,
                                bool create)
{
    op->group = group;
    op->value = (struct group_value){0};
    prim_group_key(group, op->key);
    coord_result result = key_op_begin(&op->record, backend, call, str_from(op->key), kind, create);
    if (result.code == COORD_OK && op->record.live &&
        group_value_decode(op->record.file.head.value, &op->value) != ERR_OK)
        return head_damaged(op->record.key);
    return result;
}

static coord_result no_group(void)
{
    return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "there is no such group");
}

/* The group record with another value, or the first one. With its revision. */
static coord_result group_write(const struct group_op *op, const struct group_value *value,
                                int reason)
{
    char bytes[GROUP_VALUE];
    struct prim_grant grant = {.slot = 0};
    group_value_encode(value, bytes);
    const struct key_write write = {.value = str_of(bytes, sizeof bytes),
                                    .update = op->record.live};
    return key_op_write(&op->record, &write, reason, &grant);
}

/* -- looking at the slots -- */

struct slot {
    struct key_op op; /* in the group's bucket, under its lock */
    char key[PRIM_SLOT_KEY_CAP];
};

static void slot_init(const struct group_op *group, struct slot *slot)
{
    key_op_init(&slot->op, group->record.store, group->record.call);
    slot->op.bucket = group->record.bucket;
}

static coord_result slot_look(const struct group_op *group, uint32_t number, struct slot *slot)
{
    prim_slot_key(group->group, number, slot->key);
    slot->op.key = str_from(slot->key);
    layout_name(prim_leaf_of(slot->op.key), slot->op.name);
    return key_op_look(&slot->op);
}

/* How long an expired slot rests before it may be taken; 0: it may be taken now. */
static int64_t slot_rests_ms(const struct group_op *group, const struct slot *slot)
{
    const struct lease_verdict *verdict = &slot->op.verdict;
    if (!slot->op.expired || verdict->released || verdict->deadline_ns == 0) return 0;
    int64_t left =
        verdict->deadline_ns + group->value.cooldown_ms * NS_IN_MS - file_now(slot->op.store);
    return left > 0 ? (left + NS_IN_MS - 1) / NS_IN_MS : 0;
}

/* What a walk over all slots found. */
struct survey {
    struct prim_group group;
    struct head replayed; /* of group.replay; no strings */
    coord_result holder;  /* of who is in the way: the first to end */
};

static void survey_live(uint32_t number, const struct slot *slot, struct survey *survey)
{
    const struct head *head = &slot->op.file.head;
    int64_t next_ms = survey->group.next_ms;
    prim_group_held(&survey->group, number, &head->request_id, head->owner,
                    key_op_left_ms(&slot->op));
    if (survey->group.replay == number) survey->replayed = *head;
    if (survey->group.next_ms != next_ms) answer_holder(&slot->op, &survey->holder);
}

static coord_result survey_group(const struct group_op *op, const struct prim_acquire *in,
                                 struct survey *survey)
{
    struct slot slot;
    coord_result result = prim_ok(COORD_R_NONE);
    prim_group_begin(&survey->group, op->record.call, in, op->value.slot_count);
    slot_init(op, &slot);
    for (uint32_t number = 0; number < op->value.slots_high; number++) {
        result = slot_look(op, number, &slot);
        if (result.code != COORD_OK) break;
        int64_t rest_ms = slot.op.live ? 0 : slot_rests_ms(op, &slot);
        if (slot.op.live)
            survey_live(number, &slot, survey);
        else if (rest_ms > 0)
            prim_group_taken(&survey->group, number, rest_ms);
    }
    head_file_deinit(&slot.op.file);
    return result;
}

/* -- acquire -- */

static coord_result take_slot(struct group_op *op, const struct prim_acquire *in, uint32_t number,
                              struct prim_grant *ret_grant)
{
    struct slot slot;
    const struct key_write write = {
        .value = in->value, .owner = in->owner, .ttl_ms = in->ttl_ms, .lease_id = in->lease_id};
    slot_init(op, &slot);
    coord_result result = slot_look(op, number, &slot);
    if (result.code == COORD_OK && slot.op.live) /* a takeover: its holder must be told first */
        result =
            lease_raise_lost(slot.op.store, &slot.op.file.head.lease_id, slot.op.call->deadline_ns);
    if (result.code == COORD_OK)
        result = key_op_write(&slot.op, &write, COORD_R_ACQUIRED, ret_grant);
    head_file_deinit(&slot.op.file);
    if (result.code == COORD_OK) result.slot = ret_grant->slot = number;
    return result;
}

static coord_result group_is_full(const struct group_op *op, const struct survey *survey)
{
    coord_result result =
        prim_answer(COORD_EXISTS, COORD_R_FULL, "all of %u slots are held or at rest; %u live",
                    op->value.slot_count, survey->group.live);
    result.live = survey->group.live;
    result.token = survey->holder.token;
    memcpy(result.owner, survey->holder.owner, sizeof result.owner);
    result.hint_ms = survey->group.next_ms;
    return result;
}

static coord_result already_holder(struct group_op *op, uint32_t number, uint32_t live)
{
    struct slot slot;
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_ALREADY_HOLDER,
                                      "slot %u is held under this owner name already", number);
    slot_init(op, &slot);
    coord_result looked = slot_look(op, number, &slot);
    if (looked.code == COORD_OK) answer_holder(&slot.op, &result);
    head_file_deinit(&slot.op.file);
    result.slot = number;
    result.live = live;
    return looked.code == COORD_OK ? result : looked;
}

static coord_result wrong_count(const struct group_op *op)
{
    return prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT, "the group has %u slots",
                       op->value.slot_count);
}

/* S4 to S11. OK/replayed: a grant that was made before. */
static coord_result acquire_locked(struct group_op *op, const struct prim_acquire *in,
                                   struct survey *survey, struct prim_grant *ret_grant)
{
    uint32_t slot;
    coord_result result;
    if (!op->record.live) {
        if ((in->flags & COORD_NO_CREATE) != 0) return no_group();
        op->value = (struct group_value){.slot_count = in->slot_count,
                                         .slots_high = in->slot_count,
                                         .cooldown_ms = in->cooldown_ms};
        result = group_write(op, &op->value, COORD_R_CREATED);
        if (result.code != COORD_OK) return result;
    } else if (op->value.slot_count != in->slot_count && op->record.call->attempt == 0) {
        return wrong_count(op); /* a first attempt has no slot: nothing to look for */
    }
    result = survey_group(op, in, survey);
    if (result.code != COORD_OK) return result;
    switch (prim_group_choose(&survey->group, 0, &slot)) {
    case PRIM_GROUP_REPLAY: return prim_ok(COORD_R_REPLAYED);
    case PRIM_GROUP_CONFLICT: return wrong_count(op);
    case PRIM_GROUP_ALREADY: return already_holder(op, slot, survey->group.live);
    case PRIM_GROUP_FULL: return group_is_full(op, survey);
    case PRIM_GROUP_CREATE: /* the record was made above */
    case PRIM_GROUP_ABSENT: abort();
    case PRIM_GROUP_TAKEOVER:
    case PRIM_GROUP_TAKE: break;
    }
    return take_slot(op, in, slot, ret_grant);
}

coord_result file_acquire(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    for (int round = 0;; round++) {
        struct group_op op;
        struct survey survey = {0};
        bool create = (in->flags & COORD_NO_CREATE) == 0;
        coord_result result = group_begin(&op, backend, call, in->group, OP_ACQUIRE, create);
        if (result.code == COORD_OK && op.record.bucket == NULL)
            result = no_group();
        else if (result.code == COORD_OK)
            result = acquire_locked(&op, in, &survey, ret_grant);
        bool replayed = result.code == COORD_OK && result.reason == COORD_R_REPLAYED;
        result = key_op_finish(&op.record, result, &survey.replayed, ret_grant);
        result.slot_count = op.value.slot_count;
        if (replayed) result.slot = ret_grant->slot = survey.group.replay;
        if (!replayed || result.code != COORD_EXPIRED || round > 0) return result;
    }
}

/* -- resize and list -- */

static coord_result resize_locked(struct group_op *op, uint64_t expected, uint32_t slot_count)
{
    const struct head *head = &op->record.file.head;
    struct group_value value = op->value;
    if (!op->record.live) return no_group();
    coord_result result = prim_ok(COORD_R_REPLAYED);
    bool done = prim_id_equal(&head->request_id, &op->record.call->request_id) &&
                value.slot_count == slot_count;
    if (!done && head->revision != expected)
        result = prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has changed since");
    result.revision = head->revision;
    if (!done && head->revision == expected) {
        value.slot_count = slot_count;
        if (value.slots_high < slot_count) value.slots_high = slot_count;
        result = group_write(op, &value, COORD_R_RESIZED);
        if (result.code != COORD_OK) return result;
    }
    result.slot_count = value.slot_count;
    return result;
}

coord_result file_resize(struct prim_backend *backend, const struct prim_call *call,
                         struct str group, uint64_t expected, uint32_t slot_count)
{
    struct group_op op;
    coord_result result = group_begin(&op, backend, call, group, OP_RESIZE, false);
    if (result.code == COORD_OK) result = resize_locked(&op, expected, slot_count);
    key_op_end(&op.record);
    return result;
}

static coord_result list_locked(struct group_op *op, coord_holders *holders)
{
    struct slot slot;
    coord_result result = prim_ok(COORD_R_NONE);
    slot_init(op, &slot);
    for (uint32_t i = 0; i < op->value.slots_high && result.code == COORD_OK; i++) {
        result = slot_look(op, i, &slot);
        if (result.code != COORD_OK || !slot.op.live) continue;
        const struct head *head = &slot.op.file.head;
        coord_holder row = {.slot = i,
                            .token = head->token,
                            .revision = head->revision,
                            .remaining_ms = key_op_left_ms(&slot.op)};
        memcpy(row.lease_id_prefix, head->lease_id.b, sizeof row.lease_id_prefix);
        if (!prim_holders_add(holders, &row, head->owner, head->value)) result = prim_no_memory();
    }
    head_file_deinit(&slot.op.file);
    return result;
}

coord_result file_holders(struct prim_backend *backend, const struct prim_call *call,
                          struct str group, coord_holders **ret_holders)
{
    struct group_op op;
    coord_holders *holders = NULL;
    coord_result result = group_begin(&op, backend, call, group, OP_HOLDERS, false);
    if (result.code == COORD_OK && !op.record.live) result = no_group();
    if (result.code == COORD_OK) {
        holders = prim_holders_make(PRIM_SLOTS_MAX);
        if (holders == NULL) result = prim_no_memory();
    }
    if (result.code == COORD_OK) result = list_locked(&op, holders);
    if (result.code == COORD_OK && holders != NULL) {
        holders->slot_count = op.value.slot_count;
        holders->revision = op.record.file.head.revision;
        holders->cooldown_ms = op.value.cooldown_ms;
        holders->atomic = 1;
        holders->certainty = COORD_BY_AUTHORITY;
        *ret_holders = holders;
    } else {
        coord_holders_free(holders);
    }
    key_op_end(&op.record);
    return result;
}
