/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/write.h"

#include <errno.h>
#include <unistd.h>

#include "prim/lease.h"

/* -- one key -- */

void key_op_init(struct key_op *op, struct file_store *store, const struct prim_call *call)
{
    op->store = store;
    op->call = call;
    op->bucket = NULL;
    op->locked = LOCKED_NONE;
    op->live = op->expired = false;
    head_file_init(&op->file);
}

coord_result key_op_look(struct key_op *op)
{
    op->live = op->expired = false;
    op->verdict = (struct lease_verdict){0};
    int error = head_read(op->bucket->heads, op->name, op->key, &op->file);
    if (error != 0) return file_trouble(error, "read a head");
    if (op->file.found == HEAD_IS_DAMAGED) return head_damaged(op->key);
    op->live = head_is_live(&op->file);
    if (!op->live || (op->file.head.flags & HEAD_LEASED) == 0) return prim_ok(COORD_R_NONE);
    coord_result result = judge(op->store, &op->file.head, op->call->deadline_ns, &op->verdict);
    op->expired = result.code == COORD_OK && op->verdict.over;
    op->live = !op->expired;
    return result;
}

coord_result key_op_begin(struct key_op *op, struct prim_backend *backend,
                          const struct prim_call *call, struct str key, enum file_op kind,
                          bool create)
{
    struct file_store *store = file_store_of(backend);
    bool alone = kind >= OP_ACQUIRE;
    key_op_init(op, store, call);
    op->key = key;
    coord_result result = file_usable(store);
    if (result.code != COORD_OK) return result;
    result = bucket_of_key(store, key, create, &op->bucket, op->name);
    if (result.code == COORD_NOT_FOUND) return prim_ok(COORD_R_NONE);
    if (result.code != COORD_OK) return result;
    result = lock_bucket(store, op->bucket, alone, call->deadline_ns, &op->locked);
    if (result.code == COORD_OK && !alone)
        result = lock_key(&op->locked, op->name, kind, call->deadline_ns);
    return result.code == COORD_OK ? key_op_look(op) : result;
}

void key_op_end(struct key_op *op)
{
    unlock(&op->locked);
    bucket_put(op->store, op->bucket);
    head_file_deinit(&op->file);
    if (atomic_exchange(&op->store->sync_failed, false))
        file_degrade(op->store, "a sync failed: what was written may be lost");
}

static bool key_op_is_replay(const struct key_op *op)
{
    return op->file.found == HEAD_IS_THERE &&
           prim_id_equal(&op->file.head.request_id, &op->call->request_id);
}

/* A head for `key` as this process writes it now; the caller sets what differs. */
static void head_begin(const struct file_store *store, const struct prim_call *call, struct str key,
                       uint64_t revision, int reason, struct head *ret_head)
{
    uint32_t slot;
    struct str leaf = prim_leaf_of(key);
    *ret_head = (struct head){.flags = HEAD_LIVE | HEAD_DURABLE,
                              .revision = revision,
                              .create_revision = revision,
                              .wall_ms = prim_wall_ms(),
                              .who = store->holder,
                              .request_id = call->request_id,
                              .reason = (uint32_t)reason,
                              .key = key,
                              .owner = STR_EMPTY,
                              .value = STR_EMPTY};
    memcpy(ret_head->boot_id, store->facts.boot_id, 16);
    if (prim_slot_number(leaf, &slot)) ret_head->flags |= HEAD_SLOT;
    if (str_equal(leaf, STR(".group"))) ret_head->flags |= HEAD_GROUP;
}

static void answer_grant(const struct head *head, coord_result *result, struct prim_grant *grant)
{
    bool leased = (head->flags & HEAD_LEASED) != 0;
    result->revision = head->revision;
    result->token = head->token;
    result->granted_ttl_ms = head->ttl_ms;
    grant->token = head->token;
    grant->create_revision = head->create_revision;
    grant->granted_ttl_ms = head->ttl_ms;
    if (leased) grant->lease_id = head->lease_id;
}

/* S6 */
static coord_result key_op_next(const struct key_op *op, int reason, struct head *ret_head)
{
    uint64_t revision = 0;
    int error = head_next_revision(op->store, &op->file, op->expired, &revision);
    if (error != 0) return file_trouble(error, "number a change");
    head_begin(op->store, op->call, op->key, revision, reason, ret_head);
    return prim_ok(COORD_R_NONE);
}

/* S8 on */
static coord_result key_op_publish(const struct key_op *op, const struct head *head)
{
    return head_publish(op->store, op->bucket, op->name, head, op->file.found == HEAD_IS_THERE);
}

static void head_lease(const struct file_store *store, const coord_id *id, struct str owner,
                       int64_t ttl_ms, int64_t deadline_ns, struct head *head)
{
    head->flags |= HEAD_LEASED;
    if (!store->settings.sync_always) head->flags &= ~(uint32_t)HEAD_DURABLE;
    head->token = head->revision;
    head->ttl_ms = ttl_ms;
    head->deadline_ns = deadline_ns;
    head->lease_id = *id;
    head->owner = owner;
}

static coord_result publish_leased(const struct key_op *op, const struct key_write *in,
                                   struct head *head)
{
    int64_t deadline_ns = 0;
    coord_result result = lease_make(op->store, &in->lease_id, in->ttl_ms, &deadline_ns);
    if (result.code != COORD_OK) return result;
    head_lease(op->store, &in->lease_id, in->owner, in->ttl_ms, deadline_ns, head);
    result = key_op_publish(op, head);
    if (result.code != COORD_OK) {
        bool open = (result.flags & COORD_F_MAYBE_APPLIED) != 0;
        lease_abandon(op->store, &in->lease_id,
                      open && head_may_have_lease(op->bucket, op->name, &in->lease_id));
    }
    return result;
}

static coord_result publish_under(const struct key_op *op, const struct prim_claim *under,
                                  struct head *head)
{
    struct lease_record record;
    coord_result result = lease_alive(op->store, &under->lease_id, op->call->deadline_ns, &record);
    if (result.code != COORD_OK) return result;
    head_lease(op->store, &under->lease_id, str_from(under->owner), record.ttl_ms,
               record.deadline_ns, head);
    return key_op_publish(op, head);
}

static void keep_lease(const struct file_store *store, const struct head *old, struct head *head)
{
    if ((old->flags & HEAD_LEASED) == 0) return;
    head_lease(store, &old->lease_id, old->owner, old->ttl_ms, old->deadline_ns, head);
    head->token = old->token;
    head->who = old->who;
    memcpy(head->boot_id, old->boot_id, 16);
}

coord_result key_op_write(const struct key_op *op, const struct key_write *in, int reason,
                          struct prim_grant *ret_grant)
{
    struct head head = {0};
    const struct head *old = &op->file.head;
    coord_result result = key_op_next(op, reason, &head);
    if (result.code != COORD_OK) return result;
    head.value = in->value;
    if (op->store->settings.create_only) head.lease_id = op->store->creator;
    if (in->update) {
        head.create_revision = old->create_revision;
        head.changes = old->changes + 1;
        if (in->ttl_ms == COORD_TTL_KEEP) keep_lease(op->store, old, &head);
    }
    result = in->under != NULL ? publish_under(op, in->under, &head)
             : in->ttl_ms > 0  ? publish_leased(op, in, &head)
                               : key_op_publish(op, &head);
    if (result.code != COORD_OK) return result;
    result = prim_ok(reason);
    answer_grant(&head, &result, ret_grant);
    return result;
}

int64_t key_op_left_ms(const struct key_op *op)
{
    int64_t left = op->verdict.deadline_ns - file_now(op->store);
    return left > 0 ? left / NS_IN_MS : 0;
}

void answer_holder(const struct key_op *op, coord_result *result)
{
    const struct head *head = &op->file.head;
    result->revision = head->revision;
    if ((head->flags & HEAD_LEASED) == 0) return;
    prim_answer_owner(result, head->owner);
    result->token = head->token;
    result->hint_ms = key_op_left_ms(op);
}

/* The rest of a grant that was made before. EXPIRED: it is over by now. */
static coord_result replay_grant(struct file_store *store, const struct prim_call *call,
                                 const struct head *head, struct prim_grant *ret_grant)
{
    coord_result result = prim_ok(COORD_R_REPLAYED);
    int64_t deadline_ns = 0;
    answer_grant(head, &result, ret_grant);
    if ((head->flags & HEAD_LEASED) == 0) return result;
    coord_result taken = lease_take_up(store, &head->lease_id, call->deadline_ns, &deadline_ns);
    if (taken.code != COORD_OK) return taken;
    /* It runs from when it was granted or last renewed, not from this call. */
    ret_grant->sent_ns = deadline_ns - head->ttl_ms * NS_IN_MS;
    return result;
}

coord_result key_op_finish(struct key_op *op, coord_result result, const struct head *replayed,
                           struct prim_grant *ret_grant)
{
    bool replay = result.code == COORD_OK && result.reason == COORD_R_REPLAYED;
    struct head head = {0};
    if (replay) head = *replayed;
    key_op_end(op);
    return replay ? replay_grant(op->store, op->call, &head, ret_grant) : result;
}

/* -- create -- */

/* netfs=create-only: what can still be promised on a network file system. */
static coord_result refused(void)
{
    return prim_answer(COORD_UNSUPPORTED, COORD_R_CAPABILITY,
                       "netfs=create-only: only create without a lease, get, and delete of what "
                       "this store object created");
}

static coord_result held_by(const struct key_op *op, int code, int reason)
{
    const struct head *head = &op->file.head;
    coord_result result = (head->flags & HEAD_LEASED) != 0
                              ? prim_answer(code, reason, "held by %.*s", STR_ARG(head->owner))
                              : prim_answer(code, reason, "there is an entry already");
    answer_holder(op, &result);
    return result;
}

coord_result file_create(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_create *in, struct prim_grant *ret_grant)
{
    struct file_store *store = file_store_of(backend);
    struct key_op op;
    coord_result result;
    if (store->settings.create_only && (in->ttl_ms != 0 || in->under != NULL)) return refused();
    const struct key_write write = {.value = in->value,
                                    .owner = in->owner,
                                    .ttl_ms = in->ttl_ms,
                                    .lease_id = in->lease_id,
                                    .under = in->under};
    for (int round = 0;; round++) {
        result = key_op_begin(&op, backend, call, in->key, OP_CREATE, true);
        if (result.code == COORD_OK && op.live)
            result = key_op_is_replay(&op) ? prim_ok(COORD_R_REPLAYED)
                                           : held_by(&op, COORD_EXISTS, COORD_R_HELD);
        else if (result.code == COORD_OK)
            result = key_op_write(&op, &write, COORD_R_CREATED, ret_grant);
        result = key_op_finish(&op, result, &op.file.head, ret_grant);
        /* It ended between two of our looks, or another host made one: then this is a new call. */
        bool again = result.code == COORD_EXPIRED || result.code == COORD_CONFLICT;
        if (!again || round > 0) return result;
    }
}

/* -- compare and set -- */

static bool is_holder(const struct prim_claim *claim, const struct head *head)
{
    const struct prim_held *held = prim_held_of(claim, head->key);
    return held != NULL && held->token == head->token &&
           prim_id_equal(&claim->lease_id, &head->lease_id);
}

static coord_result cas_compare(const struct key_op *op, const struct prim_cas *in)
{
    const struct head *head = &op->file.head;
    if (in->expected == 0)
        return op->live ? held_by(op, COORD_CONFLICT, COORD_R_PRESENT) : prim_ok(COORD_R_NONE);
    if (!op->live) return prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "there is no such entry");
    if (head->revision != in->expected) return held_by(op, COORD_CONFLICT, COORD_R_REVISION);
    /* A new lease replaces the one that is shown; without one there is nothing to replace. */
    bool leased = (head->flags & HEAD_LEASED) != 0;
    if ((leased || in->ttl_ms > 0) && !(leased && is_holder(in->claim, head)))
        return held_by(op, COORD_CONFLICT, COORD_R_NOT_OWNER);
    return prim_ok(COORD_R_NONE);
}

coord_result file_cas(struct prim_backend *backend, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct key_op op;
    bool left = false, update = in->expected != 0;
    coord_result result = key_op_begin(&op, backend, call, in->key, OP_CAS, !update);
    if (result.code == COORD_OK && op.live && key_op_is_replay(&op)) {
        result = prim_ok(COORD_R_REPLAYED);
    } else if (result.code == COORD_OK && (result = cas_compare(&op, in)).code == COORD_OK) {
        const struct head *old = &op.file.head;
        const struct key_write write = {.value = in->value,
                                        .owner = update ? old->owner : in->owner,
                                        .ttl_ms = in->ttl_ms,
                                        .lease_id = in->lease_id,
                                        .update = update};
        int reason = update ? COORD_R_UPDATED : COORD_R_CREATED;
        /* The claim has no other key, and this one leaves it. */
        left = update && (old->flags & HEAD_LEASED) != 0 && in->ttl_ms != COORD_TTL_KEEP &&
               in->claim->count <= 1;
        result = key_op_write(&op, &write, reason, ret_grant);
    }
    left = left && result.code == COORD_OK;
    result = key_op_finish(&op, result, &op.file.head, ret_grant);
    if (left) lease_finish(op.store, &in->claim->lease_id, call->deadline_ns);
    if (result.code == COORD_EXPIRED)
        return prim_answer(COORD_CONFLICT, COORD_R_ABSENT, "it was made, and has ended since");
    if (in->ttl_ms <= 0) ret_grant->granted_ttl_ms = 0;
    return result;
}

/* -- delete and release -- */

static coord_result not_found(void)
{
    return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "there is no such entry");
}

/* A tombstone in place of the entry. It keeps the id of the lease that ended, so that its holder
 * can be told what became of it. */
static coord_result bury(struct key_op *op, int reason)
{
    struct head head = {0};
    const struct head *old = &op->file.head;
    coord_result result = key_op_next(op, reason, &head);
    if (result.code != COORD_OK) return result;
    head.flags = (head.flags & ~(uint32_t)HEAD_LIVE) | HEAD_TOMBSTONE;
    if ((old->flags & HEAD_LEASED) != 0 && !op->store->settings.sync_always)
        head.flags &= ~(uint32_t)HEAD_DURABLE;
    head.create_revision = old->create_revision;
    head.changes = old->changes + 1;
    head.lease_id = old->lease_id;
    head.deadline_ns = file_now(op->store);
    result = key_op_publish(op, &head);
    if (result.code != COORD_OK) return result;
    result = prim_ok(reason);
    result.revision = head.revision;
    return result;
}

/* Nobody but its creator removes an entry of a network file system, and its creator's threads one
 * at a time: what was read is what goes. */
static coord_result remove_created(const struct key_op *op, bool force)
{
    const struct head *head = &op->file.head;
    if (force || !prim_id_equal(&head->lease_id, &op->store->creator)) return refused();
    int error = unlinkat(op->bucket->heads, op->name, 0) < 0 ? errno : 0;
    if (error == 0 && fsync(op->bucket->heads) < 0) error = errno;
    if (error == ENOENT) return not_found();
    coord_result result = error == 0 ? prim_ok(COORD_R_DELETED) : file_trouble(error, "remove");
    if (error != 0) result.flags |= COORD_F_MAYBE_APPLIED;
    result.revision = head->revision;
    return result;
}

static coord_result remove_entry(struct key_op *op, const struct prim_delete *in)
{
    const struct head *head = &op->file.head;
    if (!op->live) {
        if (op->file.found == HEAD_IS_THERE && (head->flags & HEAD_TOMBSTONE) != 0 &&
            key_op_is_replay(op)) {
            coord_result result = prim_ok(COORD_R_ALREADY);
            result.revision = head->revision;
            return result;
        }
        return not_found();
    }
    bool force = in->expected == COORD_FORCE;
    if (!force && in->expected != COORD_ANY && in->expected != head->revision)
        return held_by(op, COORD_CONFLICT, COORD_R_REVISION);
    if (op->store->settings.create_only) return remove_created(op, force);
    bool foreign = (head->flags & HEAD_LEASED) != 0 && !is_holder(in->claim, head);
    if (foreign && !force) return held_by(op, COORD_CONFLICT, COORD_R_NOT_OWNER);
    if (foreign) {
        coord_result result = lease_raise_lost(op->store, &head->lease_id, op->call->deadline_ns);
        if (result.code != COORD_OK) return result;
    }
    return bury(op, COORD_R_DELETED);
}

coord_result file_remove(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_delete *in)
{
    struct key_op op;
    coord_result result = key_op_begin(&op, backend, call, in->key, OP_REMOVE, false);
    if (result.code == COORD_OK) result = remove_entry(&op, in);
    key_op_end(&op);
    return result;
}

static coord_result release_entry(struct key_op *op, const coord_id *id,
                                  const struct prim_held *held)
{
    int reason = op->bucket != NULL ? lease_key_fate(id, held, &op->file) : COORD_R_REVOKED;
    if (reason == COORD_R_RELEASED) return prim_ok(COORD_R_ALREADY);
    if (reason == COORD_R_NONE && op->expired) reason = COORD_R_DEADLINE;
    if (reason != COORD_R_NONE)
        return prim_lease_expired(reason, reason == COORD_R_SUPERSEDED ? op->file.head.token : 0);
    return bury(op, COORD_R_RELEASED);
}

static coord_result release_key(struct prim_backend *backend, const struct prim_call *call,
                                const coord_id *id, const struct prim_held *held)
{
    struct key_op op;
    coord_result result = key_op_begin(&op, backend, call, str_from(held->key), OP_RELEASE, false);
    if (result.code == COORD_OK) result = release_entry(&op, id, held);
    key_op_end(&op);
    /* A retry that finds nothing of its own did it the first time. */
    if (result.code == COORD_EXPIRED && call->attempt > 0 && result.reason == COORD_R_REVOKED)
        return prim_ok(COORD_R_ALREADY);
    return result;
}

coord_result file_release(struct prim_backend *backend, const struct prim_call *call,
                          const struct prim_claim *claim, const char *key)
{
    struct file_store *store = file_store_of(backend);
    coord_result worst = prim_ok(COORD_R_RELEASED);
    bool clear = true, found = key == NULL;
    for (size_t i = 0; i < claim->count; i++) {
        if (key != NULL && strcmp(claim->held[i].key, key) != 0) continue;
        found = true;
        coord_result result = release_key(backend, call, &claim->lease_id, &claim->held[i]);
        if (result.code == COORD_UNAVAILABLE) clear = false;
        if (worst.code == COORD_OK && (result.code != COORD_OK || i == 0 || key != NULL))
            worst = result;
    }
    if (!found) return prim_answer(COORD_INVALID, COORD_R_KEY, "the lease does not hold this key");
    if (clear && (key == NULL || claim->count <= 1))
        lease_finish(store, &claim->lease_id, call->deadline_ns);
    return worst;
}

/* -- get -- */

static coord_result answer_entry(const struct key_op *op, coord_entry **ret_entry)
{
    const struct head *head = &op->file.head;
    coord_entry like = {.revision = head->revision,
                        .create_revision = head->create_revision,
                        .token = head->token,
                        .remaining_ms = -1};
    coord_result result = prim_ok(COORD_R_NONE);
    if ((head->flags & HEAD_LEASED) != 0) {
        like.remaining_ms = key_op_left_ms(op);
        like.lease_id = head->lease_id;
        like.ttl_ms = head->ttl_ms;
    }
    *ret_entry = prim_entry_make(&like, head->key, head->value, head->owner);
    if (*ret_entry == NULL) return prim_no_memory();
    result.revision = head->revision;
    result.token = head->token;
    return result;
}

coord_result file_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                      int consistency, coord_entry **ret_entry)
{
    struct file_store *store = file_store_of(backend);
    struct key_op op;
    (void)consistency; /* the file system has one: the latest */
    coord_result result = file_usable(store);
    if (result.code != COORD_OK) return result;
    key_op_init(&op, store, call);
    op.key = key;
    result = bucket_of_key(store, key, false, &op.bucket, op.name);
    if (result.code == COORD_OK) result = key_op_look(&op);
    if (result.code == COORD_NOT_FOUND || (result.code == COORD_OK && !op.live))
        result = not_found();
    else if (result.code == COORD_OK)
        result = answer_entry(&op, ret_entry);
    bucket_put(store, op.bucket);
    head_file_deinit(&op.file);
    return result;
}
