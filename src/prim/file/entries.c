/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, slots and group records for prim/change.h: steps S1 to S12 of coordination.md B2.
 * Caller's thread.
 *
 * A change holds the lock of its key from its first read to its last write; a call on a group
 * holds the bucket lock exclusively. Without locks (netfs=create-only), the client that links
 * the new name first wins.
 *
 * Invariants: a lease record is written before the head that names it. Before another holder
 * gets an entry, the old lease is marked dead or its lost count is raised. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "prim/change.h"
#include "prim/file/lease_file.h"
#include "prim/file/locks.h"

/* A change of a slot uses the bucket and locks of the group's change. */
struct key_change {
    struct file_store *store;
    struct bucket *bucket; /* NULL: no bucket, so its keys are absent */
    struct locked locked;
    struct head_file file;
    char name[LAYOUT_NAME_CAP], group[GROUP_VALUE];
};

static void *key_begin(struct prim_change *c)
{
    struct key_change *own = calloc(1, sizeof *own);
    if (own == NULL) return NULL;
    own->store = file_store_of(c->backend);
    own->locked = LOCKED_NONE;
    layout_name(prim_leaf_of(c->key), own->name);
    if (c->record != NULL) own->bucket = ((const struct key_change *)c->record->own)->bucket;
    return own;
}

static void key_end(struct prim_change *c, const coord_result *)
{
    struct key_change *own = c->own;
    struct file_store *store = own->store;
    if (c->record == NULL) {
        unlock(&own->locked);
        bucket_put(store, own->bucket);
        if (atomic_exchange(&store->sync_failed, false))
            prim_degrade(&store->backend, "a sync failed: what was written may be lost");
    }
    head_file_deinit(&own->file);
    free(own);
}

static enum file_op key_op(const struct prim_change *c)
{
    return c->op == COORD_OP_CAS       ? OP_CAS
           : c->op == COORD_OP_DELETE  ? OP_REMOVE
           : c->op == COORD_OP_RELEASE ? OP_RELEASE
                                       : OP_CREATE;
}

/* Steps S1 to S3. A read of one key takes no lock. */
static coord_result key_lock(struct prim_change *c, bool alone)
{
    struct key_change *own = c->own;
    int64_t until_ns = c->call->deadline_ns;
    if (own->bucket != NULL) return prim_ok(COORD_R_NONE); /* the locks are held already */
    coord_result result = file_usable(own->store);
    if (result.code != COORD_OK) return result;
    result = bucket_of_key(own->store, c->key, c->makes, &own->bucket, own->name);
    if (result.code == COORD_NOT_FOUND) return prim_ok(COORD_R_NONE);
    if (result.code != COORD_OK || (c->reads && !alone)) return result;
    result = lock_bucket(own->store, own->bucket, alone, until_ns, &own->locked);
    if (result.code != COORD_OK || alone) return result;
    return lock_key(&own->locked, own->name, key_op(c), until_ns);
}

/* -- reading ---------------------------------------------------------------------------------- */

/* `sequence` of an expired entry: the end of its lease; 0: released or unknown. */
static void head_see(const struct file_store *store, const struct head *head,
                     const struct lease_verdict *verdict, struct prim_seen *seen)
{
    *seen = (struct prim_seen){.kind = PRIM_SEEN_LIVE,
                               .envelope = {.lease_id = head->lease_id,
                                            .request_id = head->request_id,
                                            .ttl_ms = head->ttl_ms,
                                            .owner = head->owner,
                                            .value = head->value},
                               .revision = head->revision,
                               .create_revision = head->create_revision,
                               .left_ms = -1};
    if ((head->flags & HEAD_LIVE) == 0) {
        seen->kind = PRIM_SEEN_TOMBSTONE;
        /* A tombstone names its lease even if the entry was taken away with COORD_FORCE. */
        if (head->reason != COORD_R_RELEASED) seen->envelope.lease_id = (coord_id){{0}};
    } else if (verdict->over) {
        seen->kind = PRIM_SEEN_EXPIRED;
        seen->sequence = verdict->released ? 0 : (uint64_t)verdict->deadline_ns;
    } else if ((head->flags & HEAD_LEASED) != 0) {
        seen->token = head->token;
        seen->ttl_ms = head->ttl_ms;
        seen->left_ms = prim_left_ms(&store->backend.clock, verdict->deadline_ns);
    } else if ((head->flags & HEAD_GROUP) != 0) { /* the value begins like the envelope's value */
        seen->envelope.flags = ENVELOPE_GROUP;
        seen->envelope.value.len = ENVELOPE_GROUP_VALUE;
    }
}

/* Step S4: reads a head and judges its lease. */
static coord_result head_look(struct prim_change *c, struct str key, const char *name,
                              struct head_file *file, struct prim_seen *ret_seen)
{
    const struct key_change *own = c->own;
    struct lease_verdict verdict = {0};
    struct group_value group;
    coord_result result = prim_ok(COORD_R_NONE);
    *ret_seen = (struct prim_seen){.left_ms = -1, .record = file};
    if (own->bucket == NULL) return result;
    int error = head_read(own->bucket->heads, name, key, file);
    if (error != 0) return file_trouble(error, "read a head");
    const struct head *head = &file->head;
    if (file->found == HEAD_IS_DAMAGED || (head_is_live(file) && (head->flags & HEAD_GROUP) != 0 &&
                                           group_value_decode(head->value, &group) != ERR_OK))
        return prim_answer(
            COORD_UNAVAILABLE, COORD_R_CORRUPT,
            "the file of %.*s is damaged or belongs to another key; it was left as it is",
            (int)min_size(key.len, 80), key.at);
    if (file->found == HEAD_IS_ABSENT) return result;
    if (head_is_live(file) && (head->flags & HEAD_LEASED) != 0)
        result = judge(own->store, head, c->call->deadline_ns, &verdict);
    if (result.code != COORD_OK) return result;
    head_see(own->store, head, &verdict, ret_seen);
    ret_seen->record = file;
    return result;
}

static coord_result key_read(struct prim_change *c)
{
    struct key_change *own = c->own;
    coord_result result = key_lock(c, str_equal(prim_leaf_of(c->key), STR(".group")));
    if (result.code != COORD_OK) return result;
    return head_look(c, c->key, own->name, &own->file, &c->seen);
}

static coord_result slot_look(struct prim_change *c, struct str group, uint32_t slot,
                              struct prim_slots *slots)
{
    char key[PRIM_SLOT_KEY_CAP], name[LAYOUT_NAME_CAP];
    struct head_file *files = slots->own;
    struct prim_seen *seen = &slots->at[slot];
    prim_slot_key(group, slot, key);
    layout_name(prim_leaf_of(str_from(key)), name);
    coord_result result = head_look(c, str_from(key), name, &files[slot], seen);
    if (seen->kind == PRIM_SEEN_EXPIRED && seen->sequence != 0)
        seen->left_ms = prim_left_ms(&c->backend->clock, (int64_t)seen->sequence +
                                                             slots->cooldown_ms * NS_IN_MS +
                                                             NS_IN_MS - 1); /* rounded up */
    return result;
}

static coord_result group_list(struct prim_change *c, struct str group, uint32_t wanted,
                               struct prim_slots *slots)
{
    struct key_change *own = c->own;
    struct prim_seen record;
    struct group_value value;
    coord_result result = key_lock(c, true);
    if (result.code == COORD_OK) result = head_look(c, c->key, own->name, &own->file, &record);
    if (result.code != COORD_OK) return result;
    if (record.kind == PRIM_SEEN_LIVE && !group_value_decode(own->file.head.value, &value))
        slots->room = value.slots_high; /* slots above the count may be held after a resize */
    result = prim_slots_begin(slots, &record);
    if (result.code != COORD_OK || slots->count == 0 || (wanted > 0 && wanted != slots->count))
        return result;
    slots->own = calloc(slots->room, sizeof(struct head_file));
    if (slots->own == NULL) return prim_no_memory();
    for (uint32_t slot = 0; slot < slots->room && result.code == COORD_OK; slot++)
        result = slot_look(c, group, slot, slots);
    return result;
}

static void group_list_end(struct prim_slots *slots)
{
    struct head_file *files = slots->own;
    for (uint32_t slot = 0; files != NULL && slot < slots->room; slot++)
        head_file_deinit(&files[slot]);
    free(files);
}

/* -- writing ---------------------------------------------------------------------------------- */

/* Completes an earlier grant. The lease counts from its grant or its last renewal. */
static enum prim_wrote grant_take_up(struct prim_change *c, coord_result *ret_why)
{
    int64_t deadline_ns = 0;
    *ret_why = lease_take_up(file_store_of(c->backend), &c->seen.envelope.lease_id,
                             c->call->deadline_ns, &deadline_ns);
    c->sent_ns = deadline_ns - c->seen.ttl_ms * NS_IN_MS;
    if (ret_why->code == COORD_OK) return PRIM_WROTE;
    /* The lease has ended meanwhile: judge again. */
    return ret_why->code == COORD_EXPIRED ? PRIM_WROTE_RACE : PRIM_WROTE_NOT;
}

/* Raises the lost count of the old lease, so that its holder checks its heads at the next
 * renewal. */
static coord_result loss_raise(const struct prim_change *c)
{
    const struct prim_seen *seen = &c->seen;
    const struct prim_claim *mine = c->held != NULL ? c->held : c->claim;
    if (seen->token == 0 || prim_seen_is_claims(seen, mine, c->key)) return prim_ok(COORD_R_NONE);
    return lease_raise_lost(file_store_of(c->backend), &seen->envelope.lease_id,
                            c->call->deadline_ns);
}

/* A group record also has the highest slot ever used. */
static struct str group_bytes(struct key_change *own, const struct prim_plan *plan,
                              const struct head_file *file)
{
    struct envelope_group to;
    struct group_value value = {0};
    enum err err = envelope_group_read(&plan->envelope, &to);
    assert(!err);
    if (head_is_live(file)) (void)group_value_decode(file->head.value, &value);
    value.slot_count = to.slot_count;
    value.cooldown_ms = to.cooldown_ms;
    if (value.slots_high < to.slot_count) value.slots_high = to.slot_count;
    group_value_encode(&value, own->group);
    return str_of(own->group, sizeof own->group);
}

/* Step S6: the head that replaces the old head, without lease. */
static coord_result head_plan(const struct prim_change *c, const struct prim_plan *plan,
                              struct head *ret_head)
{
    struct key_change *own = c->own;
    const struct file_store *store = own->store;
    const struct head_file *file = c->seen.record;
    uint64_t revision = 0;
    uint32_t slot;
    int error = head_next_revision(own->store, file, c->seen.kind == PRIM_SEEN_EXPIRED, &revision);
    if (error != 0) return file_trouble(error, "number a change");
    struct head head = {.flags = HEAD_DURABLE | HEAD_LIVE,
                        .revision = revision,
                        .create_revision = revision,
                        .wall_ms = plan->envelope.wall_ms,
                        .boot_id = store->facts.boot_id,
                        .who = store->holder,
                        .request_id = plan->envelope.request_id,
                        .reason = (uint32_t)plan->result.reason,
                        .key = c->key,
                        .owner = STR_EMPTY,
                        .value = plan->envelope.value};
    if (store->settings.create_only) head.lease_id = store->creator;
    if (claim_slot_number(prim_leaf_of(c->key), &slot)) head.flags |= HEAD_SLOT;
    if ((plan->envelope.flags & ENVELOPE_GROUP) != 0) {
        head.flags |= HEAD_GROUP;
        head.value = group_bytes(own, plan, file);
    }
    if (plan->act != PRIM_ACT_MAKE) {
        head.create_revision = file->head.create_revision;
        head.changes = file->head.changes + 1;
    }
    if (plan->act == PRIM_ACT_BURY) { /* shows the holder how its lease ended */
        head.flags ^= HEAD_LIVE | HEAD_TOMBSTONE;
        if (c->seen.token != 0 && !store->settings.sync_always) head.flags ^= HEAD_DURABLE;
        head.lease_id = file->head.lease_id;
        head.deadline_ns = file_now(store);
    }
    *ret_head = head;
    return prim_ok(COORD_R_NONE);
}

static void head_lease(const struct file_store *store, const struct claim_envelope *lease,
                       int64_t deadline_ns, struct head *head)
{
    head->flags |= HEAD_LEASED;
    if (!store->settings.sync_always) head->flags &= ~(uint32_t)HEAD_DURABLE;
    head->token = head->revision;
    head->ttl_ms = lease->ttl_ms;
    head->deadline_ns = deadline_ns;
    head->lease_id = lease->lease_id;
    head->owner = lease->owner;
}

/* Steps S8 to S11. */
static coord_result entries_publish(const struct prim_change *c, const struct head *head)
{
    const struct key_change *own = c->own;
    const struct head_file *file = c->seen.record;
    return head_publish(own->store, own->bucket, own->name, head, file->found == HEAD_IS_THERE);
}

/* Step S7: publishes the head with a new lease. */
static coord_result publish_leased(const struct prim_change *c, const struct claim_envelope *lease,
                                   struct head *head)
{
    const struct key_change *own = c->own;
    int64_t deadline_ns = 0;
    coord_result result = lease_make(own->store, &lease->lease_id, lease->ttl_ms, &deadline_ns);
    if (result.code != COORD_OK) return result;
    head_lease(own->store, lease, deadline_ns, head);
    result = entries_publish(c, head);
    if (result.code != COORD_OK) {
        bool open = (result.flags & COORD_F_MAYBE_APPLIED) != 0;
        lease_abandon(own->store, &lease->lease_id,
                      open && head_may_have_lease(own->bucket, own->name, &lease->lease_id));
    }
    return result;
}

static coord_result publish_under(const struct prim_change *c, const struct claim_envelope *lease,
                                  struct head *head)
{
    struct file_store *store = file_store_of(c->backend);
    struct lease_record record;
    coord_result result = lease_alive(store, &lease->lease_id, c->call->deadline_ns, &record);
    if (result.code != COORD_OK) return result;
    head_lease(store, lease, record.deadline_ns, head);
    return entries_publish(c, head);
}

/* Publishes without changing the grant. */
static coord_result publish_kept(const struct prim_change *c, const struct claim_envelope *lease,
                                 struct head *head)
{
    const struct head *old = &((const struct head_file *)c->seen.record)->head;
    head_lease(file_store_of(c->backend), lease, old->deadline_ns, head);
    head->token = old->token;
    head->who = old->who;
    head->boot_id = old->boot_id;
    return entries_publish(c, head);
}

/* With netfs=create-only, only an entry's creator removes the entry, one thread at a time. So
 * the removed entry is the entry that was read. */
static coord_result remove_created(const struct prim_change *c, struct head *head)
{
    const struct key_change *own = c->own;
    head->revision = c->seen.revision; /* the removed head keeps its revision */
    int error = unlinkat(own->bucket->heads, own->name, 0) < 0 ? errno : 0;
    if (error == 0 && fsync(own->bucket->heads) < 0) error = errno;
    if (error == ENOENT) return prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "removed meanwhile");
    coord_result result = error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "remove");
    if (error != 0) result.flags |= COORD_F_MAYBE_APPLIED;
    return result;
}

static coord_result head_write(const struct prim_change *c, const struct prim_plan *plan,
                               struct head *head)
{
    const struct file_store *store = file_store_of(c->backend);
    const struct claim_envelope *to = &plan->envelope;
    bool leased = (to->flags & ENVELOPE_LEASED) != 0, bury = plan->act == PRIM_ACT_BURY;
    if (store->settings.create_only && (leased || bury)) {
        if (bury && prim_id_equal(&head->lease_id, &store->creator)) return remove_created(c, head);
        return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                           "netfs=create-only: only create without a lease, get, and delete of "
                           "what this store object created");
    }
    coord_result result = loss_raise(c);
    if (result.code != COORD_OK) return result;
    if (!leased) return entries_publish(c, head);
    if (plan->act == PRIM_ACT_UPDATE) return publish_kept(c, to, head);
    return c->under != NULL ? publish_under(c, to, head) : publish_leased(c, to, head);
}

static enum prim_wrote key_write(struct prim_change *c, const struct prim_plan *plan,
                                 coord_result *ret_why)
{
    const struct file_store *store = file_store_of(c->backend);
    const void *file = c->seen.record;
    struct head head = {0};
    if (plan->act == PRIM_ACT_RENEW) return grant_take_up(c, ret_why);
    c->sent_ns = file_now(store); /* a new lease's TTL starts here */
    *ret_why = head_plan(c, plan, &head);
    if (ret_why->code == COORD_OK) *ret_why = head_write(c, plan, &head);
    if (ret_why->code == COORD_CONFLICT) return PRIM_WROTE_RACE;
    if (ret_why->code != COORD_OK) return PRIM_WROTE_NOT;
    head_see(store, &head, &(struct lease_verdict){.deadline_ns = head.deadline_ns}, &c->seen);
    c->seen.record = file;
    return PRIM_WROTE;
}

const struct prim_ways file_ways = {.begin = key_begin,
                                    .end = key_end,
                                    .read = key_read,
                                    .write = key_write,
                                    .list = group_list,
                                    .list_end = group_list_end};

/* -- calls that may leave a lease without keys -- */

coord_result file_cas(struct prim_backend *backend, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant)
{
    bool leaves = in->expected != 0 && in->ttl_ms != COORD_TTL_KEEP && in->claim != NULL &&
                  in->claim->count <= 1 && prim_held_of(in->claim, in->key) != NULL;
    coord_result result = prim_change_cas(backend, call, in, ret_grant);
    if (leaves && result.code == COORD_OK)
        lease_finish(file_store_of(backend), &in->claim->lease_id, call->deadline_ns);
    return result;
}

coord_result file_release(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_claim *claim, const char *key)
{
    coord_result result = prim_change_release(backend, call, claim, key);
    if (result.code != COORD_UNAVAILABLE && (key == NULL || claim->count <= 1))
        lease_finish(file_store_of(backend), &claim->lease_id, call->deadline_ns);
    return result;
}
