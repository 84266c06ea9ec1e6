/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets and the locks of a file store (locks.h). Any thread; the store's mutex guards the list
 * of buckets. A lock counts only if its file still has its name when the lock is granted. */
#include "prim/file/locks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* -- buckets -- */

static void bucket_close(struct bucket *bucket)
{
    sys_close(bucket->heads);
    sys_close(bucket->locks);
    sys_close(bucket->temps);
    rwlock_deinit(&bucket->rwlock);
    free(bucket);
}

int file_open_dir(const struct file_store *store, int parent, const char *name, bool create,
                  int *ret_fd)
{
    struct stat info;
    *ret_fd = sys_open_dir(parent, name);
    if (*ret_fd < 0 && errno == ENOENT && create) {
        int error = sys_make_dir(parent, name, store->settings.mode);
        if (error != 0) return error;
        *ret_fd = sys_open_dir(parent, name);
    }
    if (*ret_fd < 0 || fstat(*ret_fd, &info) < 0) return errno;
    return info.st_dev == store->device ? 0 : EXDEV; /* a rename must never cross file systems */
}

static coord_result bucket_open(struct file_store *store, const char *name, bool create,
                                struct bucket **ret_bucket)
{
    int dir = -1;
    struct bucket *bucket = calloc(1, sizeof *bucket);
    if (bucket == NULL) return prim_no_memory();
    list_init(&bucket->node);
    bucket->heads = bucket->locks = bucket->temps = -1;
    rwlock_init(&bucket->rwlock);
    (void)snprintf(bucket->name, sizeof bucket->name, "%s", name);
    int error = file_open_dir(store, store->buckets_dir, name, create, &dir);
    if (error == 0) error = file_open_dir(store, dir, "h", create, &bucket->heads);
    if (error == 0) error = file_open_dir(store, dir, "l", create, &bucket->locks);
    if (error == 0) error = file_open_dir(store, dir, "t", create, &bucket->temps);
    sys_close(dir);
    if (error == 0) {
        *ret_bucket = bucket;
        return prim_ok(COORD_R_NONE);
    }
    bucket_close(bucket);
    if (error == ENOENT && !create)
        return prim_answer(COORD_NOT_FOUND, COORD_R_NONE, "no such bucket");
    return file_trouble(error, "open the directories of a bucket");
}

static void bucket_forget(struct file_store *store, struct bucket *bucket)
{
    list_remove(&bucket->node);
    store->bucket_count--;
    bucket->stale = true;
    if (bucket->refs == 0) bucket_close(bucket);
}

static struct bucket *bucket_find(struct file_store *store, const char *name)
{
    LIST_EACH(&store->buckets, node)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        if (strcmp(bucket->name, name) != 0) continue;
        list_remove(&bucket->node);
        list_append(&store->buckets, &bucket->node);
        return bucket;
    }
    return NULL;
}

static void buckets_trim(struct file_store *store)
{
    LIST_EACH_SAFE(&store->buckets, node, following)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        if (store->bucket_count <= BUCKETS_KEPT_MAX) return;
        if (bucket->refs == 0) bucket_forget(store, bucket);
    }
}

coord_result bucket_get(struct file_store *store, const char *name, bool create,
                        struct bucket **ret_bucket)
{
    coord_result result = prim_ok(COORD_R_NONE);
    struct stat info;
    (void)pthread_mutex_lock(&store->mutex);
    struct bucket *bucket = bucket_find(store, name);
    if (bucket != NULL && (fstat(bucket->heads, &info) < 0 || info.st_nlink == 0)) {
        bucket_forget(store, bucket);
        bucket = NULL;
    }
    if (bucket == NULL && (result = bucket_open(store, name, create, &bucket)).code == COORD_OK) {
        list_append(&store->buckets, &bucket->node);
        store->bucket_count++;
    }
    if (result.code == COORD_OK) {
        bucket->refs++;
        buckets_trim(store);
        *ret_bucket = bucket;
    }
    (void)pthread_mutex_unlock(&store->mutex);
    return result;
}

coord_result bucket_of_key(struct file_store *store, struct str key, bool create,
                           struct bucket **ret_bucket, char name[LAYOUT_NAME_CAP])
{
    char bucket_name[LAYOUT_NAME_CAP];
    layout_name(prim_bucket_of(key), bucket_name);
    layout_name(prim_leaf_of(key), name);
    return bucket_get(store, bucket_name, create, ret_bucket);
}

void bucket_put(struct file_store *store, struct bucket *bucket)
{
    if (bucket == NULL) return;
    (void)pthread_mutex_lock(&store->mutex);
    assert(bucket->refs > 0);
    if (--bucket->refs == 0 && bucket->stale) bucket_close(bucket);
    (void)pthread_mutex_unlock(&store->mutex);
}

void buckets_close(struct file_store *store)
{
    LIST_EACH_SAFE(&store->buckets, node, following)
    {
        struct bucket *bucket = CONTAINER_OF(node, struct bucket, node);
        assert(bucket->refs == 0);
        bucket_forget(store, bucket);
    }
}

/* -- locks -- */

enum { BYTE_BUCKET = 0, BYTE_TURNSTILE = 1, BYTE_GATE = 2, BYTE_KEY = 0 };
enum { PAUSE_FIRST_NS = 200000, PAUSE_LONGEST_NS = 10000000, ROW_GAP_MS = 2000 };

bool pause_until(struct file_store *store, struct pause *pause, int64_t until_ns)
{
    int64_t left = until_ns - file_now(store);
    if (left <= 0) return false;
    pause->longest_ns = pause->longest_ns == 0 ? PAUSE_FIRST_NS : pause->longest_ns * 2;
    if (pause->longest_ns > PAUSE_LONGEST_NS) pause->longest_ns = PAUSE_LONGEST_NS;
    int64_t span = pause->longest_ns - PAUSE_FIRST_NS + 1;
    int64_t ns = PAUSE_FIRST_NS + (int64_t)(prim_random() % (uint64_t)span);
    /* A signal only shortens the pause. */
    (void)nanosleep(&(struct timespec){0, ns < left ? ns : left}, NULL);
    return true;
}

int lock_byte(struct file_store *store, int fd, uint64_t byte, enum lock_kind kind,
              int64_t until_ns)
{
    struct pause pause = {0};
    for (;;) {
        int error = sys_lock(fd, byte, kind);
        if (error != EAGAIN) return error;
        if (!pause_until(store, &pause, until_ns)) return ETIMEDOUT;
    }
}

int lock_open(const struct file_store *store, int dir, const char *name)
{
    for (;;) {
        int fd = sys_open(dir, name, O_RDWR | O_NOFOLLOW, 0);
        if (fd >= 0 || errno != ENOENT) return fd;
        fd = sys_open(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, file_mode(store));
        if (fd < 0 && errno == EEXIST) { continue; } /* made by another process meanwhile */
        if (fd >= 0 && (store->settings.mode & 077) != 0) (void)fchmod(fd, file_mode(store));
        return fd;
    }
}

/* -- the bucket lock -- */

/* Locks, then checks the name, because a lock on an unlinked file excludes nobody. */
static int lock_bucket_file(struct file_store *store, struct bucket *bucket, bool alone,
                            int64_t until_ns, int *ret_fd)
{
    for (;;) {
        struct stat info;
        int fd = lock_open(store, bucket->locks, ".bucket");
        if (fd < 0) return errno;
        int error = lock_byte(store, fd, BYTE_TURNSTILE, LOCK_EXCLUSIVE, until_ns);
        /* A shared caller only passes the turnstile; an exclusive caller waits in it. */
        if (error == 0 && !alone) error = sys_lock(fd, BYTE_TURNSTILE, LOCK_NONE);
        if (error == 0) {
            enum lock_kind kind = alone ? LOCK_EXCLUSIVE : LOCK_SHARED;
            error = lock_byte(store, fd, BYTE_BUCKET, kind, until_ns);
        }
        if (error == 0 && alone) error = sys_lock(fd, BYTE_TURNSTILE, LOCK_NONE);
        if (error == 0 && fstat(fd, &info) < 0) error = errno;
        if (error == 0 && info.st_nlink > 0) {
            *ret_fd = fd;
            return 0;
        }
        sys_close(fd);
        if (error != 0) return error;
        if (file_now(store) >= until_ns) return ETIMEDOUT;
    }
}

coord_result lock_bucket(struct file_store *store, struct bucket *bucket, bool alone,
                         int64_t until_ns, struct locked *locked)
{
    *locked = LOCKED_NONE;
    if (!rwlock_take(&bucket->rwlock, alone, until_ns - file_now(store))) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "the bucket lock is held by another thread");
    }
    locked->store = store;
    locked->bucket = bucket;
    locked->alone = alone;
    int error = 0; /* a create-only store takes no lock: network locks exclude no other host */
    if (!store->settings.create_only)
        error = lock_bucket_file(store, bucket, alone, until_ns, &locked->bucket_fd);
    if (error == 0) return prim_ok(COORD_R_NONE);
    unlock(locked);
    return file_trouble(error, "lock a bucket");
}

/* -- key locks -- */

static uint64_t key_hash(const struct bucket *bucket, const char *name)
{
    return str_hash(str_from(name), str_hash(str_from(bucket->name), 1));
}

/* Returns how long this lock was refused. Locks with equal hashes only wait longer. */
static int64_t refused_for(struct file_store *store, uint64_t hash)
{
    int64_t now = file_now(store);
    (void)pthread_mutex_lock(&store->mutex);
    struct stuck *stuck = &store->stuck[hash % STUCK_MAX];
    /* The gap is long, so that waiting for the CPU does not end a series of refusals. */
    int64_t gap_ms =
        store->settings.lock_timeout_ms > ROW_GAP_MS ? store->settings.lock_timeout_ms : ROW_GAP_MS;
    if (stuck->hash != hash || stuck->since_ns == 0 || now - stuck->last_ns > gap_ms * NS_IN_MS)
        *stuck = (struct stuck){.hash = hash, .since_ns = now};
    stuck->last_ns = now;
    int64_t refused = now - stuck->since_ns;
    (void)pthread_mutex_unlock(&store->mutex);
    return refused;
}

static int write_lock_record(const struct file_store *store, int fd, enum file_op op)
{
    struct lock_record record = {.who = store->facts.self,
                                 .boot_id = store->facts.boot_id,
                                 .locked_ns = file_now(store),
                                 .op = (uint32_t)op};
    return file_record_put(fd, &lock_shape, &record);
}

static bool is_at(int fd, int dir, const char *name)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && mine.st_nlink > 0 &&
           fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* Tries once, under the shared gate: 0 (held), EAGAIN (refused) or ESTALE (file replaced). */
static int try_key(struct locked *locked, const char *name, enum file_op op)
{
    struct file_store *store = locked->store;
    int dir = locked->bucket->locks;
    int fd = lock_open(store, dir, name);
    if (fd < 0) return errno;
    int error = sys_lock(fd, BYTE_KEY, LOCK_EXCLUSIVE);
    if (error == 0) {
        error = write_lock_record(store, fd, op);
        if (error == 0 && !is_at(fd, dir, name)) error = ESTALE;
    }
    if (error == 0) {
        locked->key_fd = fd;
        return 0;
    }
    sys_close(fd);
    return error;
}

/* Replaces a lock file whose holder is dead. The exclusive gate ensures that no process is
 * between getting a lock and writing its record. The record names the holder, or the parent of
 * the child that keeps its descriptor. True: replaced. */
static bool replace_dead_lock(struct locked *locked, const char *name)
{
    struct file_store *store = locked->store;
    struct lock_record record;
    char temp[LAYOUT_TEMP_CAP];
    int fd = sys_open(locked->bucket->locks, name, O_RDWR | O_NOFOLLOW, 0);
    if (fd < 0) return false;
    bool dead = sys_lock(fd, BYTE_KEY, LOCK_EXCLUSIVE) == EAGAIN &&
                file_record_get(fd, &lock_shape, &record) == 0 &&
                who_is_dead(&store->facts, &record.who, &record.boot_id);
    sys_close(fd);
    if (!dead) return false;
    fd = file_temp_make(store, locked->bucket->temps, temp);
    if (fd < 0) return false;
    (void)fchmod(fd, file_mode(store));
    sys_close(fd);
    if (renameat(locked->bucket->temps, temp, locked->bucket->locks, name) < 0) {
        (void)unlinkat(locked->bucket->temps, temp, 0);
        return false;
    }
    return true;
}

static bool recover_key(struct locked *locked, const char *name, int64_t until_ns)
{
    if (lock_byte(locked->store, locked->bucket_fd, BYTE_GATE, LOCK_EXCLUSIVE, until_ns) != 0)
        return false;
    bool replaced = replace_dead_lock(locked, name);
    (void)sys_lock(locked->bucket_fd, BYTE_GATE, LOCK_NONE);
    return replaced;
}

static coord_result key_timed_out(struct locked *locked, const char *name)
{
    struct lock_record record = {0};
    int fd = sys_open(locked->bucket->locks, name, O_RDONLY | O_NOFOLLOW, 0);
    bool known = fd >= 0 && file_record_get(fd, &lock_shape, &record) == 0;
    sys_close(fd);
    if (!known) return file_trouble(ETIMEDOUT, "lock a key");
    return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                       "the key lock is held by pid %" PRIu32 " for %" PRId64 " ms", record.who.pid,
                       (file_now(locked->store) - record.locked_ns) / NS_IN_MS);
}

static int take_key(struct locked *locked, const char *name, enum file_op op, int64_t until_ns)
{
    struct file_store *store = locked->store;
    uint64_t hash = key_hash(locked->bucket, name);
    struct pause pause = {0};
    for (;;) {
        int error = sys_lock(locked->bucket_fd, BYTE_GATE, LOCK_SHARED);
        if (error == 0) {
            error = try_key(locked, name, op);
            (void)sys_lock(locked->bucket_fd, BYTE_GATE, LOCK_NONE);
            if (error == 0) {
                (void)pthread_mutex_lock(&store->mutex);
                struct stuck *stuck = &store->stuck[hash % STUCK_MAX];
                if (stuck->hash == hash) *stuck = (struct stuck){0};
                (void)pthread_mutex_unlock(&store->mutex);
                return 0;
            }
            if (error == EAGAIN &&
                refused_for(store, hash) >= store->settings.lock_timeout_ms * NS_IN_MS &&
                recover_key(locked, name, until_ns))
                continue;
        }
        if (error != EAGAIN && error != ESTALE) return error;
        if (!pause_until(store, &pause, until_ns)) return ETIMEDOUT;
    }
}

coord_result lock_key(struct locked *locked, const char *name, enum file_op op, int64_t until_ns)
{
    struct file_store *store = locked->store;
    assert(locked->bucket != NULL && locked->key_fd < 0);
    struct rwlock *lock = &store->key_rwlocks[key_hash(locked->bucket, name) % KEY_RWLOCKS];
    if (!rwlock_take(lock, true, until_ns - file_now(store))) {
        return prim_answer(COORD_UNAVAILABLE, COORD_R_TIMEOUT,
                           "the key lock is held by another thread");
    }
    locked->key_rwlock = lock;
    int error = store->settings.create_only ? 0 : take_key(locked, name, op, until_ns);
    if (error == 0) return prim_ok(COORD_R_NONE);
    coord_result result =
        error == ETIMEDOUT ? key_timed_out(locked, name) : file_trouble(error, "lock a key");
    unlock_key(locked);
    return result;
}

void unlock_key(struct locked *locked)
{
    /* Unlocks explicitly, because a forked child before its exec shares the open file. */
    if (locked->key_fd >= 0) (void)sys_lock(locked->key_fd, BYTE_KEY, LOCK_NONE);
    sys_close(locked->key_fd);
    locked->key_fd = -1;
    if (locked->key_rwlock != NULL) rwlock_give(locked->key_rwlock, true);
    locked->key_rwlock = NULL;
}

void unlock(struct locked *locked)
{
    if (locked->bucket == NULL) return;
    unlock_key(locked);
    if (locked->bucket_fd >= 0) (void)sys_lock(locked->bucket_fd, BYTE_BUCKET, LOCK_NONE);
    sys_close(locked->bucket_fd);
    rwlock_give(&locked->bucket->rwlock, locked->alone);
    *locked = LOCKED_NONE;
}
