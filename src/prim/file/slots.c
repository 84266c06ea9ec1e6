/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/slots.h"

#include <errno.h>
#include <stdlib.h>

#include "prim/file/hooks.h"
#include "prim/file/lease_file.h"
#include "prim/file/write.h"
#include "prim/group.h"

/* One call on a group, with its bucket to itself. */
struct group_op {
    struct file_store *store;
    const struct prim_call *call;
    struct str group;
    struct bucket *bucket; /* NULL: there is no such group */
    struct locked locked;
    char key[PRIM_SLOT_KEY_CAP]; /* of the group record */
    struct head_file record;
    struct group_value value;
    bool exists;
};

static const char group_name[] = "%2Egroup";

static coord_result group_read(struct group_op *op)
{
    int error = file_at(STEP_S3);
    if (error == 0)
        error = head_read(op->bucket->heads, group_name, str_from(op->key), &op->record);
    if (error != 0) return file_trouble(error, "read a group record");
    if (op->record.found == HEAD_IS_DAMAGED) return head_damaged(str_from(op->key));
    op->exists = head_is_live(&op->record);
    if (op->exists && group_value_decode(op->record.head.value, &op->value) != ERR_OK)
        return head_damaged(str_from(op->key));
    return prim_ok(COORD_R_NONE);
}

static coord_result group_begin(struct group_op *op, struct prim_backend *backend,
                                const struct prim_call *call, struct str group, bool create)
{
    char name[LAYOUT_NAME_CAP];
    struct file_store *store = file_store_of(backend);
    op->store = store;
    op->call = call;
    op->group = group;
    op->bucket = NULL;
    op->locked = LOCKED_NONE;
    op->exists = false;
    op->value = (struct group_value){0};
    head_file_init(&op->record);
    prim_group_key(group, op->key);
    (void)file_at(STEP_S1);
    coord_result result = file_usable(store);
    if (result.code != COORD_OK) return result;
    layout_name(group, name);
    result = bucket_get(store, name, create, &op->bucket);
    if (result.code == COORD_NOT_FOUND) return prim_ok(COORD_R_NONE);
    if (result.code != COORD_OK) return result;
    (void)file_at(STEP_S2);
    result = lock_bucket(store, op->bucket, true, call->deadline_ns, &op->locked);
    return result.code == COORD_OK ? group_read(op) : result;
}

static void group_end(struct group_op *op)
{
    (void)file_at(STEP_S12);
    unlock(&op->locked);
    bucket_put(op->store, op->bucket);
    head_file_deinit(&op->record);
    file_settle(op->store);
}

static coord_result no_group(void)
{
    return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "there is no such group");
}

/* The group record with another value, or the first one. */
static coord_result group_write(struct group_op *op, const struct group_value *value, int reason,
                                uint64_t *ret_revision)
{
    char bytes[GROUP_VALUE];
    struct head head;
    uint64_t revision = 0;
    int error = head_next_revision(op->store, &op->record, false, &revision);
    if (error != 0) return file_trouble(error, "number a change");
    head_begin(op->store, op->call, str_from(op->key), revision, reason, &head);
    if (op->exists) {
        head.create_revision = op->record.head.create_revision;
        head.changes = op->record.head.changes + 1;
    }
    group_value_encode(value, bytes);
    head.value = str_of(bytes, sizeof bytes);
    coord_result result =
        head_publish(op->store, op->bucket, group_name, &head, op->record.found == HEAD_IS_THERE);
    if (result.code == COORD_OK) *ret_revision = revision;
    return result;
}

/* -- looking at the slots -- */

struct slot_look {
    struct head_file file;
    struct verdict verdict;
    char key[PRIM_SLOT_KEY_CAP], name[LAYOUT_NAME_CAP];
    bool live, expired;
};

static coord_result slot_look(struct group_op *op, uint32_t slot, struct slot_look *look)
{
    look->live = look->expired = false;
    look->verdict = (struct verdict){0};
    prim_slot_key(op->group, slot, look->key);
    layout_name(prim_leaf_of(str_from(look->key)), look->name);
    int error = head_read(op->bucket->heads, look->name, str_from(look->key), &look->file);
    if (error != 0) return file_trouble(error, "read a slot");
    if (look->file.found == HEAD_IS_DAMAGED) return head_damaged(str_from(look->key));
    if (!head_is_live(&look->file)) return prim_ok(COORD_R_NONE);
    look->live = true;
    if ((look->file.head.flags & HEAD_LEASED) == 0) return prim_ok(COORD_R_NONE);
    coord_result result = judge(op->store, &look->file.head, op->call->deadline_ns, &look->verdict);
    look->live = !look->verdict.over;
    look->expired = look->verdict.over;
    return result;
}

/* When an expired slot may be taken: after its rest. 0: now. */
static int64_t rests_until(const struct group_op *op, const struct slot_look *look)
{
    if (!look->expired || look->verdict.released || look->verdict.deadline_ns == 0) return 0;
    int64_t until = look->verdict.deadline_ns + op->value.cooldown_ms * NS_IN_MS;
    return until > file_now(op->store) ? until : 0;
}

/* What a walk over all slots found. */
struct survey {
    struct prim_group group;
    struct head replayed; /* of group.replay; no strings */
    coord_result holder;  /* of who is in the way: the first to end */
};

static int64_t left_ms(const struct group_op *op, int64_t until_ns)
{
    int64_t now = file_now(op->store);
    return until_ns > now ? (until_ns - now) / NS_IN_MS : 0;
}

static void survey_live(struct group_op *op, uint32_t slot, const struct slot_look *look,
                        struct survey *survey)
{
    const struct head *head = &look->file.head;
    int64_t next_ms = survey->group.next_ms;
    prim_group_held(&survey->group, slot, &head->request_id, head->owner,
                    left_ms(op, look->verdict.deadline_ns));
    if (survey->group.replay == slot) survey->replayed = *head;
    if (survey->group.next_ms != next_ms)
        answer_holder(op->store, &survey->holder, head, &look->verdict);
}

static coord_result survey_group(struct group_op *op, const struct prim_acquire *in,
                                 struct survey *survey)
{
    struct slot_look look;
    coord_result result = prim_ok(COORD_R_NONE);
    prim_group_begin(&survey->group, op->call, in, op->value.slot_count);
    head_file_init(&look.file);
    for (uint32_t slot = 0; slot < op->value.slots_high; slot++) {
        result = slot_look(op, slot, &look);
        if (result.code != COORD_OK) break;
        int64_t rest = look.live ? 0 : rests_until(op, &look);
        if (look.live)
            survey_live(op, slot, &look, survey);
        else if (rest != 0)
            prim_group_taken(&survey->group, slot, left_ms(op, rest));
    }
    head_file_deinit(&look.file);
    return result;
}

/* -- acquire -- */

static coord_result take_slot(struct group_op *op, const struct prim_acquire *in, uint32_t slot,
                              struct prim_grant *ret_grant)
{
    struct slot_look look;
    struct head head;
    uint64_t revision = 0;
    int64_t deadline_ns = 0;
    head_file_init(&look.file);
    coord_result result = slot_look(op, slot, &look);
    if (result.code == COORD_OK && look.live) /* a takeover: its holder must be told first */
        result = lease_raise_lost(op->store, &look.file.head.lease_id, op->call->deadline_ns);
    if (result.code == COORD_OK) {
        int error = file_at(STEP_S6);
        if (error == 0) error = head_next_revision(op->store, &look.file, look.expired, &revision);
        if (error != 0) result = file_trouble(error, "number a change");
    }
    if (result.code == COORD_OK)
        result = lease_make(op->store, &in->lease_id, in->ttl_ms, &deadline_ns);
    if (result.code == COORD_OK) {
        head_begin(op->store, op->call, str_from(look.key), revision, COORD_R_ACQUIRED, &head);
        head_lease(op->store, &in->lease_id, in->owner, in->ttl_ms, deadline_ns, &head);
        head.value = in->value;
        result =
            head_publish(op->store, op->bucket, look.name, &head, look.file.found == HEAD_IS_THERE);
        if (result.code != COORD_OK) {
            bool open = (result.flags & COORD_F_MAYBE_APPLIED) != 0;
            lease_abandon(op->store, &in->lease_id,
                          open && head_may_have_lease(op->bucket, look.name, &in->lease_id));
        }
    }
    head_file_deinit(&look.file);
    if (result.code != COORD_OK) return result;
    result = prim_ok(COORD_R_ACQUIRED);
    result.revision = result.token = revision;
    result.granted_ttl_ms = in->ttl_ms;
    result.slot = slot;
    *ret_grant = (struct prim_grant){.lease_id = in->lease_id,
                                     .token = revision,
                                     .create_revision = revision,
                                     .slot = slot,
                                     .granted_ttl_ms = in->ttl_ms};
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

static coord_result already_holder(struct group_op *op, uint32_t slot, uint32_t live)
{
    struct slot_look look;
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_ALREADY_HOLDER,
                                      "slot %u is held under this owner name already", slot);
    head_file_init(&look.file);
    coord_result looked = slot_look(op, slot, &look);
    if (looked.code == COORD_OK) answer_holder(op->store, &result, &look.file.head, &look.verdict);
    head_file_deinit(&look.file);
    result.slot = slot;
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
    uint64_t revision = 0;
    uint32_t slot;
    coord_result result;
    if (!op->exists) {
        if ((in->flags & COORD_NO_CREATE) != 0) return no_group();
        op->value = (struct group_value){.slot_count = in->slot_count,
                                         .slots_high = in->slot_count,
                                         .cooldown_ms = in->cooldown_ms};
        result = group_write(op, &op->value, COORD_R_CREATED, &revision);
        if (result.code != COORD_OK) return result;
    } else if (op->value.slot_count != in->slot_count && op->call->attempt == 0) {
        return wrong_count(op); /* a first attempt has no slot: nothing to look for */
    }
    (void)file_at(STEP_S4);
    result = survey_group(op, in, survey);
    if (result.code != COORD_OK) return result;
    (void)file_at(STEP_S5);
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
        coord_result result = group_begin(&op, backend, call, in->group, create);
        if (result.code == COORD_OK && op.bucket == NULL)
            result = no_group();
        else if (result.code == COORD_OK)
            result = acquire_locked(&op, in, &survey, ret_grant);
        uint32_t slot_count = op.value.slot_count;
        group_end(&op);
        result.slot_count = slot_count;
        if (result.code != COORD_OK || result.reason != COORD_R_REPLAYED) return result;
        result = replay_grant(file_store_of(backend), call, &survey.replayed, ret_grant);
        result.slot_count = slot_count;
        result.slot = ret_grant->slot = survey.group.replay;
        if (result.code != COORD_EXPIRED || round > 0) return result;
    }
}

/* -- resize and list -- */

static coord_result resize_locked(struct group_op *op, uint64_t expected, uint32_t slot_count)
{
    uint64_t revision = 0;
    const struct head *head = &op->record.head;
    if (!op->exists) return no_group();
    coord_result result = prim_ok(COORD_R_RESIZED);
    if (prim_id_equal(&head->request_id, &op->call->request_id) &&
        op->value.slot_count == slot_count) {
        result.reason = COORD_R_REPLAYED;
        revision = head->revision;
    } else if (head->revision != expected) {
        result = prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has changed since");
        revision = head->revision;
    } else {
        struct group_value value = op->value;
        value.slot_count = slot_count;
        if (value.slots_high < slot_count) value.slots_high = slot_count;
        coord_result written = group_write(op, &value, COORD_R_RESIZED, &revision);
        if (written.code != COORD_OK) return written;
        op->value = value;
    }
    result.revision = revision;
    result.slot_count = op->value.slot_count;
    return result;
}

coord_result file_resize(struct prim_backend *backend, const struct prim_call *call,
                         struct str group, uint64_t expected, uint32_t slot_count)
{
    struct group_op op;
    coord_result result = group_begin(&op, backend, call, group, false);
    if (result.code == COORD_OK) result = resize_locked(&op, expected, slot_count);
    group_end(&op);
    return result;
}

static coord_result list_locked(struct group_op *op, coord_holders *holders)
{
    struct slot_look look;
    coord_result result = prim_ok(COORD_R_NONE);
    head_file_init(&look.file);
    for (uint32_t slot = 0; slot < op->value.slots_high && result.code == COORD_OK; slot++) {
        result = slot_look(op, slot, &look);
        if (result.code != COORD_OK || !look.live) continue;
        const struct head *head = &look.file.head;
        int64_t left = look.verdict.deadline_ns - file_now(op->store);
        coord_holder row = {.slot = slot,
                            .token = head->token,
                            .revision = head->revision,
                            .remaining_ms = left > 0 ? left / NS_IN_MS : 0};
        memcpy(row.lease_id_prefix, head->lease_id.b, sizeof row.lease_id_prefix);
        if (!prim_holders_add(holders, &row, head->owner, head->value))
            result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory");
    }
    head_file_deinit(&look.file);
    return result;
}

coord_result file_holders(struct prim_backend *backend, const struct prim_call *call,
                          struct str group, coord_holders **ret_holders)
{
    struct group_op op;
    coord_holders *holders = NULL;
    coord_result result = group_begin(&op, backend, call, group, false);
    if (result.code == COORD_OK && !op.exists) result = no_group();
    if (result.code == COORD_OK) {
        holders = prim_holders_make(PRIM_SLOTS_MAX);
        if (holders == NULL) result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory");
    }
    if (result.code == COORD_OK) result = list_locked(&op, holders);
    if (result.code == COORD_OK && holders != NULL) {
        holders->slot_count = result.slot_count = op.value.slot_count;
        holders->revision = result.revision = op.record.head.revision;
        holders->cooldown_ms = op.value.cooldown_ms;
        holders->atomic = 1;
        holders->certainty = COORD_BY_AUTHORITY;
        prim_holders_done(holders);
        result.live = (uint32_t)holders->count;
        *ret_holders = holders;
    } else {
        coord_holders_free(holders);
    }
    group_end(&op);
    return result;
}
