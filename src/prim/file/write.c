/* SPDX-License-Identifier: Apache-2.0 */
#include "prim/file/write.h"

#include <errno.h>
#include <time.h>

#include "prim/file/hooks.h"
#include "prim/file/lease_file.h"
#include "prim/file/netfs.h"

/* One call on one key, between S2 and S12. */
struct op {
    struct file_store *store;
    const struct prim_call *call;
    struct str key;
    char name[LAYOUT_NAME_CAP];
    struct bucket *bucket; /* NULL: not there, and so is the key */
    struct locked locked;
    struct head_file file;
    struct verdict verdict;
    bool live;    /* there is an entry */
    bool expired; /* there was one; its lease is over */
};

uint64_t file_wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void file_settle(struct file_store *store)
{
    if (!atomic_exchange(&store->sync_failed, false)) return;
    file_degrade(store, "a sync failed: what was written may be lost");
}

static coord_result op_look(struct op *op)
{
    int error = file_at(STEP_S3);
    if (error == 0) error = head_read(op->bucket->heads, op->name, op->key, &op->file);
    if (error != 0) return file_trouble(error, "read a head");
    if (op->file.found == HEAD_IS_DAMAGED) return head_damaged(op->key);
    op->live = head_is_live(&op->file);
    if (!op->live || (op->file.head.flags & HEAD_LEASED) == 0) return prim_ok(COORD_R_NONE);
    error = file_at(STEP_S4);
    if (error != 0) return file_trouble(error, "judge a lease");
    coord_result result = judge(op->store, &op->file.head, op->call->deadline_ns, &op->verdict);
    if (result.code != COORD_OK) return result;
    op->expired = op->verdict.over;
    op->live = !op->verdict.over;
    return result;
}

/* S1 to S4. Without `create` a bucket that is not there means an absent key. op_end is due. */
static coord_result op_begin(struct op *op, struct prim_backend *backend,
                             const struct prim_call *call, struct str key, enum file_op kind,
                             bool create)
{
    char bucket_name[LAYOUT_NAME_CAP];
    struct file_store *store = file_store_of(backend);
    op->store = store;
    op->call = call;
    op->key = key;
    op->bucket = NULL;
    op->locked = LOCKED_NONE;
    op->verdict = (struct verdict){0};
    op->live = op->expired = false;
    head_file_init(&op->file);
    (void)file_at(STEP_S1);
    coord_result result = file_usable(store);
    if (result.code != COORD_OK) return result;
    layout_name(prim_bucket_of(key), bucket_name);
    layout_name(prim_leaf_of(key), op->name);
    result = bucket_get(store, bucket_name, create, &op->bucket);
    if (result.code == COORD_NOT_FOUND) return prim_ok(COORD_R_NONE);
    if (result.code != COORD_OK) return result;
    (void)file_at(STEP_S2);
    result = lock_bucket(store, op->bucket, false, call->deadline_ns, &op->locked);
    if (result.code == COORD_OK) result = lock_key(&op->locked, op->name, kind, call->deadline_ns);
    return result.code == COORD_OK ? op_look(op) : result;
}

static void op_end(struct op *op)
{
    (void)file_at(STEP_S12);
    unlock(&op->locked);
    bucket_put(op->store, op->bucket);
    head_file_deinit(&op->file);
    file_settle(op->store);
}

static bool op_is_replay(const struct op *op)
{
    (void)file_at(STEP_S5);
    return op->file.found == HEAD_IS_THERE &&
           prim_id_equal(&op->file.head.request_id, &op->call->request_id);
}

static coord_result op_next(struct op *op, int reason, struct head *ret_head)
{
    uint64_t revision = 0;
    int error = file_at(STEP_S6);
    if (error == 0) error = head_next_revision(op->store, &op->file, op->expired, &revision);
    if (error != 0) return file_trouble(error, "number a change");
    head_begin(op->store, op->call, op->key, revision, reason, ret_head);
    return prim_ok(COORD_R_NONE);
}

static coord_result op_publish(struct op *op, const struct head *head)
{
    return head_publish(op->store, op->bucket, op->name, head, op->file.found == HEAD_IS_THERE);
}

/* -- heads -- */

void head_begin(const struct file_store *store, const struct prim_call *call, struct str key,
                uint64_t revision, int reason, struct head *ret_head)
{
    uint32_t slot;
    struct str leaf = prim_leaf_of(key);
    *ret_head = (struct head){.flags = HEAD_LIVE | HEAD_DURABLE,
                              .revision = revision,
                              .create_revision = revision,
                              .wall_ms = file_wall_ms(),
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

void head_lease(const struct file_store *store, const coord_id *id, struct str owner,
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

/* Keeps the id of the lease that ended, so that its holder can be told what became of it. */
void head_tombstone(const struct file_store *store, const struct prim_call *call,
                    const struct head *old, uint64_t revision, int reason, struct head *ret_head)
{
    head_begin(store, call, old->key, revision, reason, ret_head);
    ret_head->flags = (ret_head->flags & ~(uint32_t)HEAD_LIVE) | HEAD_TOMBSTONE;
    if ((old->flags & HEAD_LEASED) != 0 && !store->settings.sync_always)
        ret_head->flags &= ~(uint32_t)HEAD_DURABLE;
    ret_head->create_revision = old->create_revision;
    ret_head->changes = old->changes + 1;
    ret_head->lease_id = old->lease_id;
    ret_head->deadline_ns = file_now(store);
}

void answer_holder(const struct file_store *store, coord_result *result, const struct head *head,
                   const struct verdict *verdict)
{
    result->revision = head->revision;
    if ((head->flags & HEAD_LEASED) == 0) return;
    int64_t left = verdict->deadline_ns - file_now(store);
    prim_answer_owner(result, head->owner);
    result->token = head->token;
    result->hint_ms = left > 0 ? left / NS_IN_MS : 0;
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

coord_result replay_grant(struct file_store *store, const struct prim_call *call,
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

/* -- create -- */

/* S7 to S11 for a new lease of its own. */
static coord_result publish_leased(struct op *op, struct head *head, const coord_id *id,
                                   struct str owner, int64_t ttl_ms)
{
    int64_t deadline_ns = 0;
    coord_result result = lease_make(op->store, id, ttl_ms, &deadline_ns);
    if (result.code != COORD_OK) return result;
    head_lease(op->store, id, owner, ttl_ms, deadline_ns, head);
    result = op_publish(op, head);
    if (result.code != COORD_OK) {
        bool open = (result.flags & COORD_F_MAYBE_APPLIED) != 0;
        lease_abandon(op->store, id, open && head_may_have_lease(op->bucket, op->name, id));
    }
    return result;
}

static coord_result publish_under(struct op *op, struct head *head, const struct prim_claim *under)
{
    struct lease_record record;
    coord_result result = lease_alive(op->store, &under->lease_id, op->call->deadline_ns, &record);
    if (result.code != COORD_OK) return result;
    head_lease(op->store, &under->lease_id, str_from(under->owner), record.ttl_ms,
               record.deadline_ns, head);
    return op_publish(op, head);
}

static coord_result make_entry(struct op *op, const struct prim_create *in,
                               struct prim_grant *ret_grant)
{
    struct head head = {0};
    coord_result result = op_next(op, COORD_R_CREATED, &head);
    if (result.code != COORD_OK) return result;
    head.value = in->value;
    if (in->under != NULL)
        result = publish_under(op, &head, in->under);
    else if (in->ttl_ms > 0)
        result = publish_leased(op, &head, &in->lease_id, in->owner, in->ttl_ms);
    else
        result = op_publish(op, &head);
    if (result.code != COORD_OK) return result;
    result = prim_ok(COORD_R_CREATED);
    answer_grant(&head, &result, ret_grant);
    return result;
}

static coord_result held_by(const struct op *op, int code, int reason)
{
    const struct head *head = &op->file.head;
    coord_result result = (head->flags & HEAD_LEASED) != 0
                              ? prim_answer(code, reason, "held by %.*s", STR_ARG(head->owner))
                              : prim_answer(code, reason, "there is an entry already");
    answer_holder(op->store, &result, head, &op->verdict);
    return result;
}

coord_result file_create(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_create *in, struct prim_grant *ret_grant)
{
    struct file_store *store = file_store_of(backend);
    struct op op;
    coord_result result;
    if (store->settings.create_only) return netfs_create(store, call, in, ret_grant);
    for (int round = 0;; round++) {
        struct head found = {0};
        bool replay = false;
        result = op_begin(&op, backend, call, in->key, OP_CREATE, true);
        if (result.code == COORD_OK && op.live) {
            replay = op_is_replay(&op);
            found = op.file.head;
            if (!replay) result = held_by(&op, COORD_EXISTS, COORD_R_HELD);
        } else if (result.code == COORD_OK) {
            result = make_entry(&op, in, ret_grant);
        }
        op_end(&op);
        if (!replay) return result;
        result = replay_grant(store, call, &found, ret_grant);
        /* It ended between two of our looks: then this is a new call. */
        if (result.code != COORD_EXPIRED || round > 0) return result;
    }
}

/* -- compare and set -- */

static bool is_holder(const struct prim_claim *claim, const struct head *head)
{
    if (claim == NULL || !prim_id_equal(&claim->lease_id, &head->lease_id)) return false;
    for (size_t i = 0; i < claim->count; i++)
        if (str_equal(str_from(claim->held[i].key), head->key))
            return claim->held[i].token == head->token;
    return false;
}

static coord_result cas_compare(const struct op *op, const struct prim_cas *in)
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

static void keep_lease(const struct file_store *store, const struct head *old, struct head *head)
{
    if ((old->flags & HEAD_LEASED) == 0) return;
    head_lease(store, &old->lease_id, old->owner, old->ttl_ms, old->deadline_ns, head);
    head->token = old->token;
    head->who = old->who;
    memcpy(head->boot_id, old->boot_id, 16);
}

/* *ret_left: the claim has no other key, and this one has left it. */
static coord_result cas_write(struct op *op, const struct prim_cas *in,
                              struct prim_grant *ret_grant, bool *ret_left)
{
    struct head head = {0};
    const struct head *old = &op->file.head;
    bool update = in->expected != 0;
    coord_result result = op_next(op, update ? COORD_R_UPDATED : COORD_R_CREATED, &head);
    if (result.code != COORD_OK) return result;
    head.value = in->value;
    if (update) {
        head.create_revision = old->create_revision;
        head.changes = old->changes + 1;
    }
    if (in->ttl_ms > 0) {
        struct str owner = update ? old->owner : in->owner;
        result = publish_leased(op, &head, &in->lease_id, owner, in->ttl_ms);
    } else {
        if (update && in->ttl_ms == COORD_TTL_KEEP) keep_lease(op->store, old, &head);
        result = op_publish(op, &head);
    }
    if (result.code != COORD_OK) return result;
    *ret_left = update && (old->flags & HEAD_LEASED) != 0 && in->ttl_ms != COORD_TTL_KEEP &&
                in->claim->count <= 1;
    result = prim_ok(update ? COORD_R_UPDATED : COORD_R_CREATED);
    answer_grant(&head, &result, ret_grant);
    if (in->ttl_ms <= 0) ret_grant->granted_ttl_ms = 0;
    return result;
}

coord_result file_cas(struct prim_backend *backend, const struct prim_call *call,
                      const struct prim_cas *in, struct prim_grant *ret_grant)
{
    struct file_store *store = file_store_of(backend);
    struct op op;
    struct head found = {0};
    bool replay = false, left = false;
    coord_result result = op_begin(&op, backend, call, in->key, OP_CAS, in->expected == 0);
    if (result.code == COORD_OK && op.live && op_is_replay(&op)) {
        replay = true;
        found = op.file.head;
    } else if (result.code == COORD_OK) {
        result = cas_compare(&op, in);
        if (result.code == COORD_OK) result = cas_write(&op, in, ret_grant, &left);
    }
    op_end(&op);
    if (left) lease_finish(store, &in->claim->lease_id, call->deadline_ns);
    if (!replay) return result;
    result = replay_grant(store, call, &found, ret_grant);
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

static coord_result bury(struct op *op, int reason)
{
    struct head head = {0}, *old = &op->file.head;
    coord_result result = op_next(op, reason, &head);
    if (result.code != COORD_OK) return result;
    head_tombstone(op->store, op->call, old, head.revision, reason, &head);
    result = op_publish(op, &head);
    if (result.code != COORD_OK) return result;
    result = prim_ok(reason);
    result.revision = head.revision;
    return result;
}

static coord_result remove_entry(struct op *op, const struct prim_delete *in)
{
    const struct head *head = &op->file.head;
    if (!op->live) {
        if (op->file.found == HEAD_IS_THERE && (head->flags & HEAD_TOMBSTONE) != 0 &&
            op_is_replay(op)) {
            coord_result result = prim_ok(COORD_R_ALREADY);
            result.revision = head->revision;
            return result;
        }
        return not_found();
    }
    bool force = in->expected == COORD_FORCE;
    if (!force && in->expected != COORD_ANY && in->expected != head->revision)
        return held_by(op, COORD_CONFLICT, COORD_R_REVISION);
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
    struct file_store *store = file_store_of(backend);
    struct op op;
    if (store->settings.create_only) return netfs_remove(store, call, in);
    coord_result result = op_begin(&op, backend, call, in->key, OP_REMOVE, false);
    if (result.code == COORD_OK) result = remove_entry(&op, in);
    op_end(&op);
    return result;
}

static coord_result gone_as(int reason, uint64_t token)
{
    coord_result result = prim_answer(COORD_EXPIRED, reason, "the entry is no longer this lease's");
    result.token = token;
    return result;
}

static coord_result release_entry(struct op *op, const coord_id *id, const struct prim_held *held)
{
    const struct head *head = &op->file.head;
    if (op->bucket == NULL || op->file.found != HEAD_IS_THERE) return gone_as(COORD_R_REVOKED, 0);
    bool same = prim_id_equal(&head->lease_id, id);
    if ((head->flags & HEAD_TOMBSTONE) != 0) {
        if (same && head->reason == COORD_R_RELEASED) return prim_ok(COORD_R_ALREADY);
        return gone_as(COORD_R_REVOKED, 0);
    }
    if (!same) {
        bool leased = (head->flags & HEAD_LEASED) != 0;
        return gone_as(leased ? COORD_R_SUPERSEDED : COORD_R_REVOKED, head->token);
    }
    if (head->token != held->token) return gone_as(COORD_R_REVOKED, 0);
    if (op->expired) return gone_as(COORD_R_DEADLINE, 0);
    (void)file_at(STEP_RELEASE_HEADS);
    return bury(op, COORD_R_RELEASED);
}

static coord_result release_key(struct prim_backend *backend, const struct prim_call *call,
                                const coord_id *id, const struct prim_held *held)
{
    struct op op;
    coord_result result = op_begin(&op, backend, call, str_from(held->key), OP_RELEASE, false);
    if (result.code == COORD_OK) result = release_entry(&op, id, held);
    op_end(&op);
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
    if (clear && (key == NULL || claim->count <= 1)) {
        (void)file_at(STEP_RELEASE_RECORD);
        lease_finish(store, &claim->lease_id, call->deadline_ns);
        (void)file_at(STEP_RELEASE_DONE);
    }
    return worst;
}

/* -- get -- */

static coord_result read_entry(struct file_store *store, const struct prim_call *call,
                               struct str key, struct bucket *bucket, struct head_file *file,
                               coord_entry **ret_entry)
{
    char name[LAYOUT_NAME_CAP];
    struct verdict verdict = {0};
    coord_entry like = {.remaining_ms = -1};
    layout_name(prim_leaf_of(key), name);
    int error = head_read(bucket->heads, name, key, file);
    if (error != 0) return file_trouble(error, "read a head");
    if (file->found == HEAD_IS_DAMAGED) return head_damaged(key);
    if (!head_is_live(file)) return not_found();
    const struct head *head = &file->head;
    if ((head->flags & HEAD_LEASED) != 0) {
        coord_result result = judge(store, head, call->deadline_ns, &verdict);
        if (result.code != COORD_OK) return result;
        if (verdict.over) return not_found();
        int64_t left = verdict.deadline_ns - file_now(store);
        like.remaining_ms = left > 0 ? left / NS_IN_MS : 0;
        like.lease_id = head->lease_id;
        like.ttl_ms = head->ttl_ms;
    }
    like.revision = head->revision;
    like.create_revision = head->create_revision;
    like.token = head->token;
    coord_entry *entry = prim_entry_make(&like, head->key, head->value, head->owner);
    if (entry == NULL) return prim_answer(COORD_UNAVAILABLE, COORD_R_MEMORY, "no memory");
    *ret_entry = entry;
    coord_result result = prim_ok(COORD_R_NONE);
    result.revision = head->revision;
    result.token = head->token;
    return result;
}

coord_result file_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                      int consistency, coord_entry **ret_entry)
{
    char bucket_name[LAYOUT_NAME_CAP];
    struct file_store *store = file_store_of(backend);
    struct bucket *bucket = NULL;
    struct head_file file;
    (void)consistency; /* the file system has one: the latest */
    coord_result result = file_usable(store);
    if (result.code != COORD_OK) return result;
    layout_name(prim_bucket_of(key), bucket_name);
    result = bucket_get(store, bucket_name, false, &bucket);
    if (result.code == COORD_NOT_FOUND) return not_found();
    if (result.code != COORD_OK) return result;
    head_file_init(&file);
    result = read_entry(store, call, key, bucket, &file, ret_entry);
    head_file_deinit(&file);
    bucket_put(store, bucket);
    return result;
}
