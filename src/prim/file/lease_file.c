/* SPDX-License-Identifier: Apache-2.0 */
/* Lease records (lease_file.h): this process's leases, the decision whether a lease is over, and
 * renewals. Any thread; the table has a mutex.
 *
 * Invariants: a record is read and written only under its lock. A lease that is over is marked
 * dead before its entries get another holder. */
#include "prim/file/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "prim/file/locks.h"
#include "prim/lease.h"

enum {
    KEYS_LOOKED_AT = 4, /* checked by each renewal; more would be slow */
    STUCK_AFTER_MS = 50,
};

/* A lease of this process. A renewal takes the lease out of the table and puts it back. */
struct lease {
    coord_id id;
    int fd;            /* -1: not kept open */
    bool alive_locked; /* this process holds the liveness lock */
    bool lost_known;
    uint64_t lost_seen;
    int64_t deadline_ns; /* newest deadline that this process wrote or read */
};
struct lease_table {
    pthread_mutex_t mutex;
    struct map map;
    size_t kept, kept_max;
};

/* -- the table -- */

struct lease_table *lease_table_open(void)
{
    struct rlimit limit = {.rlim_cur = 1024};
    struct lease_table *table = calloc(1, sizeof *table);
    if (table == NULL) return NULL;
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    (void)pthread_mutex_init(&table->mutex, NULL);
    map_init(&table->map, (size_t)PRIM_LEASES_MAX * 2, prim_random());
    table->kept_max = (size_t)min_u64(limit.rlim_cur / 4, PRIM_LEASES_MAX);
    return table;
}

static void lease_free(struct lease *lease)
{
    if (lease == NULL) return;
    sys_close(lease->fd);
    free(lease);
}

void lease_table_close(struct lease_table *table)
{
    struct map_entry *entry;
    if (table == NULL) return;
    for (size_t cursor = 0; (entry = map_next(&table->map, &cursor)) != NULL;)
        lease_free(entry->value);
    map_deinit(&table->map);
    (void)pthread_mutex_destroy(&table->mutex);
    free(table);
}

static struct lease *table_remove(struct lease_table *table, const coord_id *id)
{
    struct lease *lease = map_remove(&table->map, str_of(id->b, sizeof id->b));
    if (lease != NULL && lease->fd >= 0) table->kept--;
    return lease;
}

/* Takes or makes the lease, which the caller owns. NULL: out of memory. */
static struct lease *lease_take(struct lease_table *table, const coord_id *id)
{
    (void)pthread_mutex_lock(&table->mutex);
    struct lease *lease = table_remove(table, id);
    (void)pthread_mutex_unlock(&table->mutex);
    if (lease == NULL && (lease = calloc(1, sizeof *lease)) != NULL)
        *lease = (struct lease){.id = *id, .fd = -1};
    return lease;
}

/* Puts the lease into the table and replaces another thread's copy. Keeps the descriptor if
 * there is room. */
static void lease_give(struct lease_table *table, struct lease *own_lease)
{
    (void)pthread_mutex_lock(&table->mutex);
    struct lease *other = table_remove(table, &own_lease->id);
    if (table->kept >= table->kept_max) {
        sys_close(own_lease->fd);
        own_lease->fd = -1;
        own_lease->alive_locked = false;
    }
    if (map_put(&table->map, str_of(own_lease->id.b, sizeof own_lease->id.b), own_lease) !=
        ERR_OK) {
        lease_free(own_lease); /* the next renewal opens the record again */
    } else if (own_lease->fd >= 0) {
        table->kept++;
    }
    (void)pthread_mutex_unlock(&table->mutex);
    lease_free(other);
}

/* While the descriptor is open, the lock shows that the process lives. */
static void lock_liveness(struct lease *lease)
{
    if (!lease->alive_locked)
        lease->alive_locked = sys_lock(lease->fd, BYTE_LIVENESS, LOCK_EXCLUSIVE) == 0;
}

void lease_table_sweep(struct file_store *store)
{
    struct lease_table *table = store->table;
    int64_t long_ago = file_now(store) - COLLECT_AFTER_MS * NS_IN_MS * 2;
    struct map_entry *entry;
    (void)pthread_mutex_lock(&table->mutex);
    for (size_t cursor = 0; (entry = map_next(&table->map, &cursor)) != NULL;) {
        struct lease *lease = entry->value;
        if (lease->deadline_ns <= long_ago) lease_free(table_remove(table, &lease->id));
    }
    (void)pthread_mutex_unlock(&table->mutex);
}

/* -- records, and whether a lease is over -- */

static int lease_record_get(int fd, const coord_id *id, struct lease_record *ret_record)
{
    int error = file_record_get(fd, &lease_shape, ret_record);
    return error == 0 && !prim_id_equal(&ret_record->lease_id, id) ? EBADMSG : error;
}

static int record_lock(struct file_store *store, int fd, bool exclusive, int64_t until_ns)
{
    struct pause pause = {0};
    struct lease_record record;
    int64_t began = 0;
    for (;;) {
        int error = sys_lock(fd, BYTE_RECORD, exclusive ? LOCK_EXCLUSIVE : LOCK_SHARED);
        if (error != EAGAIN) return error;
        int64_t now = file_now(store);
        if (began == 0) began = now;
        if (now - began > STUCK_AFTER_MS * NS_IN_MS &&
            file_record_get(fd, &lease_shape, &record) == 0 &&
            who_is_dead(&store->facts, &record.who, &record.boot_id))
            return 0;
        if (!pause_until(store, &pause, until_ns)) return ETIMEDOUT;
    }
}

int record_open(struct file_store *store, const coord_id *id, bool exclusive, int64_t until_ns,
                int *ret_fd, struct lease_record *ret_record)
{
    char name[PRIM_ID_TEXT_CAP];
    prim_id_text(id, name);
    int fd = sys_open(store->leases, name, (exclusive ? O_RDWR : O_RDONLY) | O_NOFOLLOW, 0);
    if (fd < 0) return errno;
    int error = record_lock(store, fd, exclusive, until_ns);
    if (error == 0) error = lease_record_get(fd, id, ret_record);
    if (error != 0 && error != EBADMSG) {
        record_close(fd);
        return error;
    }
    *ret_fd = fd;
    return error;
}

void record_close(int fd)
{
    if (fd >= 0) (void)sys_lock(fd, BYTE_RECORD, LOCK_NONE);
    sys_close(fd);
}

bool record_is_over(const struct file_store *store, const struct lease_record *record)
{
    return !prim_id_equal(&record->boot_id, &store->facts.boot_id) || record->state != LEASE_LIVE ||
           file_now(store) >= record->deadline_ns;
}

/* True: the process is dead and the liveness lock is free. One proof is not enough: a live process
 * may have closed its descriptors, and a child may keep the lock. */
static bool died_early(struct file_store *store, int fd, const struct lease_record *record)
{
    return store->settings.early_death &&
           who_is_dead(&store->facts, &record->who, &record->boot_id) &&
           sys_lock_test(fd, BYTE_LIVENESS) == 0;
}

static int judge_record(struct file_store *store, int fd, struct lease_record *record,
                        struct lease_verdict *verdict)
{
    int64_t now = file_now(store);
    bool timely = record->state != LEASE_LIVE || now >= record->deadline_ns;
    *verdict = (struct lease_verdict){.over = true,
                                      .released = record->state == LEASE_RELEASED,
                                      .deadline_ns = record->deadline_ns};
    if (!prim_id_equal(&record->boot_id, &store->facts.boot_id)) {
        verdict->deadline_ns = 0;
        return 0;
    }
    if (!timely && !died_early(store, fd, record)) {
        verdict->over = false;
        return 0;
    }
    if (record->state != LEASE_LIVE) return 0;
    record->state = LEASE_DEAD;
    if (now < record->deadline_ns) record->deadline_ns = now;
    verdict->deadline_ns = record->deadline_ns;
    return file_record_put(fd, &lease_shape, record);
}

/* Returns when the damage was first seen. Without memory, or above SIGHTS_MAX, the wait starts
 * again. */
static int64_t first_sight(struct file_store *store, const coord_id *id)
{
    int64_t now = file_now(store), since = now;
    (void)pthread_mutex_lock(&store->mutex);
    if (map_count(&store->sights) == SIGHTS_MAX) {
        map_free(&store->sights);
        map_init(&store->sights, SIGHTS_MAX, 0);
    }
    int64_t *known = map_make(&store->sights, str_of(id->b, sizeof id->b), sizeof *known);
    if (known != NULL && *known == 0) *known = now;
    if (known != NULL) since = *known;
    (void)pthread_mutex_unlock(&store->mutex);
    return since;
}

static void judge_damaged(struct file_store *store, const struct head *head,
                          struct lease_verdict *verdict)
{
    int64_t end = first_sight(store, &head->lease_id) + head->ttl_ms * NS_IN_MS;
    *verdict = (struct lease_verdict){.over = file_now(store) >= end, .deadline_ns = end};
}

coord_result judge(struct file_store *store, const struct head *head, int64_t until_ns,
                   struct lease_verdict *ret_verdict)
{
    struct lease_record record = {0};
    int fd = -1;
    if (!prim_id_equal(&head->boot_id, &store->facts.boot_id)) {
        *ret_verdict = (struct lease_verdict){.over = true};
        return prim_ok(COORD_R_NONE);
    }
    int error = record_open(store, &head->lease_id, true, until_ns, &fd, &record);
    if (error == ENOENT || error == EBADMSG) {
        judge_damaged(store, head, ret_verdict);
        error = 0;
    } else if (error == 0) {
        error = judge_record(store, fd, &record, ret_verdict);
    }
    record_close(fd);
    if (error == ETIMEDOUT) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "the record of a lease is locked by its holder, pid %u", head->who.pid);
    }
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "judge a lease");
}

/* -- making and ending -- */

static int make_record(struct file_store *store, const coord_id *id, int64_t ttl_ms, int *ret_fd,
                       int64_t *ret_deadline_ns)
{
    char name[PRIM_ID_TEXT_CAP];
    struct lease_record record = {.lease_id = *id,
                                  .boot_id = store->facts.boot_id,
                                  .ttl_ms = ttl_ms,
                                  .state = LEASE_LIVE,
                                  .who = store->holder};
    prim_id_text(id, name);
    int fd =
        sys_open(store->leases, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode(store));
    if (fd < 0) return errno;
    if ((store->settings.mode & 077) != 0) (void)fchmod(fd, file_mode(store));
    record.granted_ns = file_now(store);
    record.deadline_ns = record.granted_ns + ttl_ms * NS_IN_MS;
    int error = file_record_put(fd, &lease_shape, &record);
    if (error != 0) {
        (void)unlinkat(store->leases, name, 0);
        sys_close(fd);
        return error;
    }
    *ret_fd = fd;
    *ret_deadline_ns = record.deadline_ns;
    return 0;
}

/* Removes a dead record of this call's earlier attempt. No other process knows its id. */
static bool discard_dead(struct file_store *store, const coord_id *id)
{
    char name[PRIM_ID_TEXT_CAP];
    struct lease_record record = {0};
    int fd = -1;
    prim_id_text(id, name);
    int error = record_open(store, id, true, file_now(store) + 1000 * NS_IN_MS, &fd, &record);
    bool dead = error == 0 && record.state != LEASE_LIVE;
    if (dead) dead = unlinkat(store->leases, name, 0) == 0;
    record_close(fd);
    return dead;
}

coord_result lease_make(struct file_store *store, const coord_id *id, int64_t ttl_ms,
                        int64_t *ret_deadline_ns)
{
    int fd = -1;
    struct lease *lease = calloc(1, sizeof *lease);
    if (lease == NULL) return prim_no_memory();
    int error = make_record(store, id, ttl_ms, &fd, ret_deadline_ns);
    if (error == EEXIST && discard_dead(store, id))
        error = make_record(store, id, ttl_ms, &fd, ret_deadline_ns);
    if (error == 0) {
        *lease = (struct lease){
            .id = *id, .fd = fd, .lost_known = true, .deadline_ns = *ret_deadline_ns};
        lock_liveness(lease);
        lease_give(store->table, lease);
    } else {
        free(lease);
    }
    if (error == EEXIST) {
        /* An earlier attempt of this call was published and lost its lease. */
        return prim_answer(COORD_UNAVAILABLE, COORD_R_STORAGE,
                           "what an earlier attempt of this call left is in the way");
    }
    return error == 0 ? prim_ok(COORD_R_NONE) : file_trouble(error, "write a lease record");
}

/* `discard`: removes the record, because no head refers to it. */
static void lease_end(struct file_store *store, const coord_id *id, enum lease_state state,
                      bool discard, int64_t until_ns)
{
    char name[PRIM_ID_TEXT_CAP];
    struct lease_record record = {0};
    int fd = -1;
    int error = record_open(store, id, true, until_ns, &fd, &record);
    if (error == 0 && record.state == LEASE_LIVE) {
        record.state = state;
        record.deadline_ns = file_now(store);
        error = file_record_put(fd, &lease_shape, &record);
    }
    prim_id_text(id, name);
    if (error == 0 && discard) (void)unlinkat(store->leases, name, 0);
    record_close(fd);
    (void)pthread_mutex_lock(&store->table->mutex);
    struct lease *lease = table_remove(store->table, id);
    (void)pthread_mutex_unlock(&store->table->mutex);
    lease_free(lease);
}

void lease_abandon(struct file_store *store, const coord_id *id, bool published)
{
    lease_end(store, id, LEASE_DEAD, !published, file_now(store) + 1000 * NS_IN_MS);
}

void lease_finish(struct file_store *store, const coord_id *id, int64_t until_ns)
{
    lease_end(store, id, LEASE_RELEASED, true, until_ns);
}

coord_result lease_raise_lost(struct file_store *store, const coord_id *id, int64_t until_ns)
{
    struct lease_record record = {0};
    int fd = -1;
    int error = record_open(store, id, true, until_ns, &fd, &record);
    if (error == 0) {
        record.lost_count++;
        error = file_record_put(fd, &lease_shape, &record);
    }
    record_close(fd);
    /* Without a readable record the lease cannot be renewed. */
    if (error != 0 && error != ENOENT && error != EBADMSG)
        return file_trouble(error, "raise the lost count of a lease");
    return prim_ok(COORD_R_NONE);
}

coord_result lease_alive(struct file_store *store, const coord_id *id, int64_t until_ns,
                         struct lease_record *ret_record)
{
    int fd = -1;
    int error = record_open(store, id, false, until_ns, &fd, ret_record);
    record_close(fd);
    if (error == ENOENT || error == EBADMSG) return prim_lease_expired(COORD_R_REVOKED, 0);
    if (error != 0) return file_trouble(error, "read a lease record");
    return record_is_over(store, ret_record) ? prim_lease_expired(COORD_R_DEADLINE, 0)
                                             : prim_ok(COORD_R_NONE);
}

/* -- the keys of a lease -- */

/* Reason of the loss; COORD_R_NONE: the lease holds the key. */
static int lease_key_fate(const coord_id *id, const struct prim_held *held,
                          const struct head_file *file)
{
    if (file->found != HEAD_IS_THERE) return COORD_R_REVOKED;
    bool same = prim_id_equal(&file->head.lease_id, id);
    if ((file->head.flags & HEAD_LIVE) != 0) {
        if (!same && (file->head.flags & HEAD_LEASED) != 0) return COORD_R_SUPERSEDED;
        return same && file->head.token == held->token ? COORD_R_NONE : COORD_R_REVOKED;
    }
    return same && file->head.reason == COORD_R_RELEASED ? COORD_R_RELEASED : COORD_R_REVOKED;
}

/* OK: the lease holds the key. EXPIRED: not. UNAVAILABLE: unreadable. `lock`: waits for a change
 * under way. */
static coord_result key_check(struct file_store *store, const coord_id *id,
                              const struct prim_held *held, bool lock, int64_t until_ns)
{
    char name[LAYOUT_NAME_CAP];
    struct str key = str_from(held->key);
    struct bucket *bucket = NULL;
    struct locked locked = LOCKED_NONE;
    struct head_file file;
    head_file_init(&file);
    coord_result result = bucket_of_key(store, key, false, &bucket, name);
    if (result.code == COORD_NOT_FOUND) return prim_lease_expired(COORD_R_REVOKED, 0);
    if (result.code == COORD_OK && lock) {
        result = lock_bucket(store, bucket, false, until_ns, &locked);
        if (result.code == COORD_OK) result = lock_key(&locked, name, OP_CHECK, until_ns);
    }
    if (result.code == COORD_OK) {
        int error = head_read(bucket->heads, name, key, &file);
        if (error != 0) result = file_trouble(error, "read a head");
    }
    int reason = result.code == COORD_OK ? lease_key_fate(id, held, &file) : COORD_R_NONE;
    if (reason != COORD_R_NONE)
        result = prim_lease_expired(reason, reason == COORD_R_SUPERSEDED ? file.head.token : 0);
    head_file_deinit(&file);
    unlock(&locked);
    bucket_put(store, bucket);
    return result;
}

/* OK: the lease holds all keys. Else the result of the first lost key. */
static coord_result claim_check(struct file_store *store, const struct prim_claim *claim, bool lock,
                                int64_t until_ns)
{
    for (size_t i = 0; i < claim->count; i++) {
        coord_result result = key_check(store, &claim->lease_id, &claim->held[i], lock, until_ns);
        if (result.code != COORD_OK) return result;
    }
    return prim_ok(COORD_R_NONE);
}

/* Returns why the lease is over. The lease's heads may show a more exact reason than `reason`. */
static coord_result why_over(struct file_store *store, const struct prim_claim *claim,
                             int64_t until_ns, int reason)
{
    coord_result result = claim_check(store, claim, false, until_ns);
    if (result.code == COORD_EXPIRED &&
        (result.reason == COORD_R_SUPERSEDED || result.reason == COORD_R_RELEASED))
        return result;
    return prim_lease_expired(reason, 0);
}

enum { RENEW_OVER = 1 << 16, RENEW_LOOK }; /* beyond errno values */
struct renewal {
    struct file_store *store;
    const struct prim_claim *claim;
    int64_t until_ns;
    bool extend, mine; /* extend: a renewal; mine: an import, this process becomes holder */
    uint64_t lost_count;
    int64_t deadline_ns;
};

static bool heads_are_there(const struct renewal *renewal)
{
    struct stat info;
    if (renewal->claim->count > KEYS_LOOKED_AT) return true;
    for (size_t i = 0; i < renewal->claim->count; i++) {
        char name[LAYOUT_NAME_CAP];
        struct bucket *bucket;
        coord_result result = bucket_of_key(renewal->store, str_from(renewal->claim->held[i].key),
                                            false, &bucket, name);
        if (result.code == COORD_NOT_FOUND) return false;
        if (result.code != COORD_OK) continue;
        bool gone = fstatat(bucket->heads, name, &info, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
        bucket_put(renewal->store, bucket);
        if (gone) return false;
    }
    return true;
}

/* Under the record lock. Returns 0, an errno, RENEW_OVER, or RENEW_LOOK: check the heads first. */
static int renew_locked(struct renewal *renewal, struct lease *lease)
{
    struct stat info;
    struct lease_record record;
    struct file_store *store = renewal->store;
    if (fstat(lease->fd, &info) < 0 || info.st_nlink == 0) return ENOENT;
    int error = lease_record_get(lease->fd, &lease->id, &record);
    if (error != 0) return error;
    int64_t now = file_now(store);
    if (record_is_over(store, &record)) return RENEW_OVER;
    if (!lease->lost_known || lease->lost_seen != record.lost_count) {
        renewal->lost_count = record.lost_count;
        return RENEW_LOOK;
    }
    if (renewal->extend) {
        record.deadline_ns = now + record.ttl_ms * NS_IN_MS;
        record.renew_count++;
    }
    if (renewal->mine) record.who = store->holder;
    renewal->deadline_ns = lease->deadline_ns = record.deadline_ns;
    return file_record_put(lease->fd, &lease_shape, &record);
}

static int renew_once(struct renewal *renewal, struct lease *lease)
{
    char name[PRIM_ID_TEXT_CAP];
    if (lease->fd < 0) {
        prim_id_text(&lease->id, name);
        lease->fd = sys_open(renewal->store->leases, name, O_RDWR | O_NOFOLLOW, 0);
        if (lease->fd < 0) return errno;
    }
    int error = record_lock(renewal->store, lease->fd, true, renewal->until_ns);
    if (error == 0) error = renew_locked(renewal, lease);
    (void)sys_lock(lease->fd, BYTE_RECORD, LOCK_NONE);
    if (error == 0) lock_liveness(lease);
    return error;
}

/* After this process became the holder, checks the heads. The record lock of a dead holder counts
 * as free, so another process may have granted the keys during this renewal. */
static coord_result still_mine(struct renewal *renewal)
{
    coord_result result = claim_check(renewal->store, renewal->claim, true, renewal->until_ns);
    if (result.code == COORD_EXPIRED)
        lease_abandon(renewal->store, &renewal->claim->lease_id, true);
    return result.code == COORD_OK ? prim_ok(COORD_R_RENEWED) : result;
}

static coord_result renew_until_clear(struct renewal *renewal, struct lease *lease)
{
    struct file_store *store = renewal->store;
    coord_result result;
    for (;;) {
        int error = renew_once(renewal, lease);
        switch (error) {
        case 0: return renewal->mine ? still_mine(renewal) : prim_ok(COORD_R_RENEWED);
        case RENEW_OVER:
            return why_over(store, renewal->claim, renewal->until_ns, COORD_R_DEADLINE);
        case ENOENT:
        case EBADMSG: return why_over(store, renewal->claim, renewal->until_ns, COORD_R_REVOKED);
        case RENEW_LOOK:
            /* The process that raised the lost count may be publishing: wait for its lock. */
            result = claim_check(store, renewal->claim, true, renewal->until_ns);
            if (result.code != COORD_OK) return result;
            lease->lost_known = true;
            lease->lost_seen = renewal->lost_count;
            break;
        default: return file_trouble(error, "renew a lease");
        }
    }
}

static coord_result renew_as(struct renewal *renewal)
{
    struct file_store *store = renewal->store;
    if (atomic_load(&store->backend.degraded)) return file_usable(store);
    if (renewal->extend && !heads_are_there(renewal))
        return why_over(store, renewal->claim, renewal->until_ns, COORD_R_REVOKED);
    struct lease *lease = lease_take(store->table, &renewal->claim->lease_id);
    if (lease == NULL) return prim_no_memory();
    coord_result result = renew_until_clear(renewal, lease);
    if (result.code == COORD_EXPIRED)
        lease_free(lease);
    else
        lease_give(store->table, lease);
    return result;
}

coord_result file_renew(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_sent_ns)
{
    struct file_store *store = file_store_of(backend);
    struct renewal renewal = {
        .store = store, .claim = claim, .until_ns = call->deadline_ns, .extend = true};
    *ret_sent_ns = file_now(store);
    coord_result result = renew_as(&renewal);
    if (result.code == COORD_OK) result.granted_ttl_ms = claim->ttl_ms;
    return result;
}

coord_result file_adopt(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_claim *claim, int64_t *ret_left_ms)
{
    struct file_store *store = file_store_of(backend);
    struct renewal renewal = {
        .store = store, .claim = claim, .until_ns = call->deadline_ns, .mine = true};
    coord_result result = renew_as(&renewal);
    if (result.code == COORD_OK) {
        *ret_left_ms = (renewal.deadline_ns - file_now(store)) / NS_IN_MS;
        result.granted_ttl_ms = claim->ttl_ms;
    }
    return result;
}

coord_result lease_take_up(struct file_store *store, const coord_id *id, int64_t until_ns,
                           int64_t *ret_deadline_ns)
{
    const struct prim_claim claim = {.lease_id = *id};
    struct renewal renewal = {.store = store, .claim = &claim, .until_ns = until_ns, .mine = true};
    coord_result result = renew_as(&renewal);
    *ret_deadline_ns = renewal.deadline_ns;
    return result;
}
