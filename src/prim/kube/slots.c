/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: one object each, so that each is exclusive and the bound of the group holds whatever the
 * race; the group record only says how many there are. */
#include <stdlib.h>

#include "prim/group.h"
#include "prim/kube/entries.h"

/* A group as one list showed it. */
struct group {
    struct docs docs;
    struct doc *record; /* NULL: there is no group */
    uint32_t slot_count;
    struct doc *slots[PRIM_SLOTS_MAX]; /* NULL: no object yet */
    int64_t left_ms[PRIM_SLOTS_MAX];   /* of live ones; 0: free; -1: live without a lease */
    uint32_t live;
};

static void group_deinit(struct group *group)
{
    kube_docs_deinit(&group->docs);
}

static bool read_count(const struct doc *record, uint32_t *ret_count)
{
    const struct envelope *envelope = &record->view.envelope;

    return !record->view.foreign &&
           envelope_group_read(envelope->flags, envelope->value, ret_count) == ERR_OK;
}

static coord_result foreign_record(void)
{
    return prim_answer(COORD_UNAVAILABLE, COORD_R_CORRUPT, "the group's record is not ours");
}

static coord_result group_read(struct ask *ask, struct str key, struct group *group)
{
    char record_key[PRIM_SLOT_KEY_CAP];
    coord_result result;

    *group = (struct group){.slot_count = 0};
    result = kube_docs_list(ask, key, &group->docs);
    if (result.code != COORD_OK) return result;
    prim_group_key(key, record_key);
    for (size_t i = 0; i < group->docs.count; i++) {
        struct doc *doc = &group->docs.at[i];
        struct str leaf = prim_leaf_of(doc->view.key);
        uint32_t slot;
        /* Another bucket with the same hash is not ours to judge. */
        if (!str_equal(prim_bucket_of(doc->view.key), key)) continue;
        if (str_equal(doc->view.key, str_from(record_key)))
            group->record = doc;
        else if (prim_slot_number(leaf, &slot) && slot < PRIM_SLOTS_MAX)
            group->slots[slot] = doc;
    }
    if (!group->record) return result;
    if (!read_count(group->record, &group->slot_count)) {
        group_deinit(group);
        return foreign_record();
    }
    for (uint32_t i = 0; i < group->slot_count; i++) {
        const struct doc *doc = group->slots[i];
        int64_t left_ms = 0;
        if (!doc) continue;
        /* What another controller took is not free, and not a holder of ours. */
        if (doc->view.foreign) {
            group->left_ms[i] = -1;
            continue;
        }
        if (kube_doc_life(ask->store, doc->view.key, doc, &left_ms) == LIFE_ABSENT) continue;
        group->left_ms[i] = left_ms;
        group->live++;
    }
    return result;
}

static bool is_live(const struct group *group, uint32_t slot)
{
    const struct doc *doc = group->slots[slot];

    return doc && !doc->view.foreign && group->left_ms[slot] != 0;
}

/* -- the group record -- */

static struct lease_write group_write(const struct ask *ask, struct str key, const struct doc *over,
                                      char value[ENVELOPE_GROUP_VALUE], uint32_t slot_count)
{
    struct lease_write write = kube_doc_write_like(ask, key, over);

    envelope_group_value(slot_count, value);
    write.envelope.flags = ENVELOPE_GROUP;
    write.envelope.value = str_of(value, ENVELOPE_GROUP_VALUE);
    if (write.over) {
        write.n = write.over->n + 1;
        write.create_n = write.over->create_n;
    }
    return write;
}

static enum wrote group_make(struct ask *ask, const struct prim_acquire *in, coord_result *ret_why)
{
    char key[PRIM_SLOT_KEY_CAP], value[ENVELOPE_GROUP_VALUE];
    struct lease_write write;
    struct doc doc = {0};
    enum wrote wrote;

    prim_group_key(in->group, key);
    write = group_write(ask, str_from(key), NULL, value, in->slot_count);
    wrote = kube_doc_write(ask, &write, &doc, ret_why);
    kube_doc_deinit(&doc);
    return wrote;
}

/* -- acquire -- */

static coord_result full(const struct group *group, int64_t next_ms)
{
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_FULL, "all %u slots are held",
                                      (unsigned)group->slot_count);

    result.live = group->live;
    result.slot_count = group->slot_count;
    result.hint_ms = next_ms;
    return result;
}

static coord_result already(const struct group *group, uint32_t slot)
{
    coord_result result = prim_answer(COORD_EXISTS, COORD_R_ALREADY_HOLDER,
                                      "this owner holds slot %u already", (unsigned)slot);

    kube_entry_tell(&result, group->slots[slot], group->left_ms[slot]);
    result.slot = slot;
    result.slot_count = group->slot_count;
    return result;
}

static coord_result wrong_count(const struct group *group, uint32_t asked)
{
    coord_result result =
        prim_answer(COORD_CONFLICT, COORD_R_SLOT_COUNT, "the group has %u slots, not %u",
                    (unsigned)group->slot_count, (unsigned)asked);

    result.slot_count = group->slot_count;
    result.revision = kube_lease_revision(&group->record->view);
    return result;
}

static void describe(const struct group *group, const struct ask *ask,
                     const struct prim_acquire *in, struct prim_group *ret_rules)
{
    prim_group_begin(ret_rules, ask->call, in, group->slot_count);
    for (uint32_t i = 0; i < group->slot_count; i++) {
        if (is_live(group, i)) {
            const struct envelope *envelope = &group->slots[i]->view.envelope;
            prim_group_held(ret_rules, i, &envelope->request_id, envelope->owner,
                            group->left_ms[i]);
        } else if (group->left_ms[i] != 0) {
            prim_group_taken(ret_rules, i, -1);
        }
    }
}

/* Writes into one slot; *ret_done false: it is somebody's by now. */
static coord_result enter(struct ask *ask, const struct prim_acquire *in, struct group *group,
                          uint32_t slot, struct prim_grant *ret_grant, bool *ret_done)
{
    char key[PRIM_SLOT_KEY_CAP];
    struct entry_new entry = {.value = in->value,
                              .owner = in->owner,
                              .ttl_ms = in->ttl_ms,
                              .lease_id = in->lease_id,
                              .flags = ENVELOPE_SLOT};
    coord_result result;

    prim_slot_key(in->group, slot, key);
    entry.key = str_from(key);
    result = kube_entry_put(ask, &entry, group->slots[slot], COORD_R_ACQUIRED, slot, ret_grant,
                            ret_done);
    result.slot_count = group->slot_count;
    return result;
}

/* "on 409 pick the next": those who list at once do not all wait for one another. With an open
 * outcome it must not go on, or one call could hold two slots. */
static coord_result enter_any(struct ask *ask, const struct prim_acquire *in, struct group *group,
                              struct prim_group *rules, struct prim_grant *ret_grant,
                              bool *ret_done)
{
    coord_result result = prim_ok(COORD_R_NONE);
    uint32_t slot;

    while (prim_group_choose(rules, 0, &slot) == PRIM_GROUP_TAKE) {
        result = enter(ask, in, group, slot, ret_grant, ret_done);
        if (*ret_done || ask->doubt) return result;
        prim_group_taken(rules, slot, -1);
    }
    return result; /* every race was lost: look again */
}

/* A slot that a read showed, as a doc of its own: renewals keep it beyond the list. */
static coord_result replay_slot(struct ask *ask, const struct group *group, uint32_t slot,
                                struct prim_grant *ret_grant, bool *ret_done)
{
    struct doc doc = {0};
    struct str key = group->slots[slot]->view.key;
    coord_result result = kube_doc_read(ask, key, &doc);

    *ret_done = true;
    if (result.code != COORD_OK) return result;
    if (!kube_entry_is_replay(ask, &doc)) { /* gone since the list */
        kube_doc_deinit(&doc);
        *ret_done = false;
        return result;
    }
    result = kube_entry_replay(ask, key, &doc, slot, ret_grant, ret_done);
    result.slot_count = group->slot_count;
    return result;
}

/* One look at the group and what follows from it. */
static coord_result acquire_once(struct ask *ask, const struct prim_acquire *in,
                                 struct group *group, struct prim_grant *ret_grant, bool *ret_done)
{
    coord_result result = prim_ok(COORD_R_NONE);
    struct prim_group rules;
    uint32_t slot;

    *ret_done = true;
    describe(group, ask, in, &rules);
    switch (prim_group_choose(&rules, 0, &slot)) {
    case PRIM_GROUP_REPLAY: return replay_slot(ask, group, slot, ret_grant, ret_done);
    case PRIM_GROUP_ABSENT: return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    case PRIM_GROUP_CREATE:
        /* Made by us or by somebody else at the same moment: either way it is read again. */
        *ret_done = group_make(ask, in, &result) == WROTE_NOT;
        return result;
    case PRIM_GROUP_CONFLICT: return wrong_count(group, in->slot_count);
    case PRIM_GROUP_ALREADY: return already(group, slot);
    case PRIM_GROUP_TAKEOVER: return enter(ask, in, group, slot, ret_grant, ret_done);
    case PRIM_GROUP_FULL: return full(group, rules.next_ms);
    case PRIM_GROUP_TAKE: break;
    }
    return enter_any(ask, in, group, &rules, ret_grant, ret_done);
}

coord_result kube_op_acquire(struct prim_backend *backend, const struct prim_call *call,
                             const struct prim_acquire *in, struct prim_grant *ret_grant)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct group *group = calloc(1, sizeof *group); /* larger than a thread's stack likes */
    bool done = false;
    coord_result result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");

    while (group && !done && (result = kube_ask_turn(&ask)).code == COORD_OK) {
        result = group_read(&ask, in->group, group);
        if (result.code != COORD_OK) break;
        /* What an earlier attempt may have done shows in this list; what is in doubt from here on
         * is this turn's. */
        bool doubt = ask.doubt;
        ask.doubt = false;
        result = acquire_once(&ask, in, group, ret_grant, &done);
        ask.doubt |= doubt;
        group_deinit(group);
    }
    free(group);
    return kube_ask_end(&ask, result);
}

/* -- resize, holders -- */

static coord_result resized(int reason, const struct doc *record, uint32_t slot_count)
{
    coord_result result = prim_ok(reason);

    result.revision = kube_lease_revision(&record->view);
    result.slot_count = slot_count;
    return result;
}

coord_result kube_op_resize(struct prim_backend *backend, const struct prim_call *call,
                            struct str group, uint64_t expected, uint32_t slot_count)
{
    struct ask ask = kube_ask_begin(backend, call);
    char key[PRIM_SLOT_KEY_CAP], value[ENVELOPE_GROUP_VALUE];
    struct doc doc = {0}, now = {0};
    uint32_t present = 0;
    coord_result result;

    prim_group_key(group, key);
    while ((result = kube_ask_turn(&ask)).code == COORD_OK) {
        kube_doc_deinit(&doc);
        result = kube_doc_read(&ask, str_from(key), &doc);
        if (result.code != COORD_OK) break;
        if (!doc.present) {
            result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
            break;
        }
        if (!read_count(&doc, &present)) {
            result = foreign_record();
            break;
        }
        if (kube_entry_is_replay(&ask, &doc) && present == slot_count) {
            result = resized(COORD_R_REPLAYED, &doc, present);
            break;
        }
        if (kube_lease_revision(&doc.view) != expected) {
            result =
                prim_answer(COORD_CONFLICT, COORD_R_REVISION, "the group has another revision");
            result.revision = kube_lease_revision(&doc.view);
            result.slot_count = present;
            break;
        }
        if (slot_count < present) {
            result = prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                                 "a group can only grow here: record and slots are not one step");
            break;
        }
        struct lease_write write = group_write(&ask, str_from(key), &doc, value, slot_count);
        enum wrote wrote = kube_doc_write(&ask, &write, &now, &result);
        if (wrote == WROTE_RACE) continue;
        if (wrote == WROTE) result = resized(COORD_R_RESIZED, &now, slot_count);
        break;
    }
    kube_doc_deinit(&now);
    kube_doc_deinit(&doc);
    return kube_ask_end(&ask, result);
}

static coord_result list_rows(const struct group *group, coord_holders *holders)
{
    for (uint32_t i = 0; i < group->slot_count; i++) {
        const struct doc *doc = group->slots[i];
        if (!is_live(group, i) || !kube_lease_is_leased(&doc->view)) continue;
        coord_holder row = {.slot = i,
                            .token = kube_lease_token(&doc->view),
                            .revision = kube_lease_revision(&doc->view),
                            .remaining_ms = group->left_ms[i]};
        memcpy(row.lease_id_prefix, doc->view.envelope.lease_id.b, sizeof row.lease_id_prefix);
        if (!prim_holders_add(holders, &row, doc->view.envelope.owner, doc->view.envelope.value))
            return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");
    }
    return prim_ok(COORD_R_NONE);
}

coord_result kube_op_holders(struct prim_backend *backend, const struct prim_call *call,
                             struct str key, coord_holders **ret_holders)
{
    struct ask ask = kube_ask_begin(backend, call);
    struct group *group = calloc(1, sizeof *group);
    coord_holders *holders = NULL;
    coord_result result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");

    ask.doubt = false;
    if (!group) return result;
    result = group_read(&ask, key, group);
    if (result.code == COORD_OK && !group->record)
        result = prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such group");
    if (result.code == COORD_OK) {
        holders = prim_holders_make(group->live);
        if (!holders) result = prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "out of memory");
    }
    if (holders) {
        result = list_rows(group, holders);
        holders->slot_count = group->slot_count;
        holders->revision = kube_lease_revision(&group->record->view);
        holders->atomic = 1;
        holders->certainty = COORD_BY_OBSERVATION;
    }
    if (result.code == COORD_OK)
        *ret_holders = holders;
    else
        coord_holders_free(holders);
    group_deinit(group);
    free(group);
    return result;
}
