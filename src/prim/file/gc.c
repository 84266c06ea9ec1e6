/* SPDX-License-Identifier: Apache-2.0 */
/* Removes unneeded files (store.h). Each store has a thread; only one process at a time runs a
 * round.
 *
 * Invariants: a file is removed only under the lock of its bucket, after a second check. The
 * floor is raised before a head is removed. A lease record is removed only after every head was
 * read. */
#include "prim/file/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "prim/file/lease_file.h"
#include "prim/file/locks.h"
#include "prim/thread.h"

enum {
    ROUND_MS = 60000,
    TEMP_OLD_S = 3600,
    FLOOR_STEP = 4096, /* step of the floor, because each raise costs a sync */
    REFERENCES_MAX = 1 << 20,
};

struct round {
    struct file_store *store;
    atomic_bool *stop;
    struct gc_report report;
    struct bucket *bucket;
    struct locked locked;
    int dir;
    struct map references;
    bool all_seen;  /* every bucket was read: `references` is complete */
    bool busy;      /* the bucket is in use: next round */
    uint64_t floor; /* set by the last raise */
};

static bool stopping(const struct round *round)
{
    return round->stop != NULL && atomic_load(round->stop);
}

/* -- temporary files -- */

/* True: a temporary file in round->dir without an owner. In meta/, no lock excludes the makers
 * of temporary files, and a pid of another namespace looks dead. So in meta/ only boot id and
 * age decide. */
static bool is_stray(const struct round *round, const char *name)
{
    const struct host_facts *facts = &round->store->facts;
    bool meta = round->dir == round->store->meta;
    struct layout_temp temp;
    struct timespec now;
    struct stat info;
    if (fstatat(round->dir, name, &info, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(info.st_mode))
        return false;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    bool named = layout_temp_parse(name, &temp);
    bool old = now.tv_sec - info.st_mtim.tv_sec > TEMP_OLD_S;
    if (!named || old) return old && (named || !meta); /* an unknown name: the age alone decides */
    if (memcmp(temp.boot, facts->boot_id.b, sizeof temp.boot) != 0) return true;
    struct who who = {.pid = temp.pid,
                      .start_ticks = temp.start_ticks,
                      .pid_namespace = facts->self.pid_namespace};
    return !meta && who_is_dead(facts, &who, &facts->boot_id);
}

/* Never waits, because users of the bucket have precedence. */
static bool lock_for_a_moment(struct round *round)
{
    if (round->busy) return false;
    coord_result result =
        lock_bucket(round->store, round->bucket, true, file_now(round->store) - 1, &round->locked);
    round->busy = result.code != COORD_OK;
    return !round->busy;
}

static bool collect_temp(void *context, const char *name)
{
    struct round *round = context;
    bool meta = round->dir == round->store->meta;
    if (is_stray(round, name) && (meta || lock_for_a_moment(round))) {
        if (is_stray(round, name) && unlinkat(round->dir, name, 0) == 0) round->report.temps++;
        if (!meta) unlock(&round->locked);
    }
    return !stopping(round);
}

/* -- heads -- */

/* True: the entry ended or was deleted long ago, or in an earlier boot. */
static bool is_past(struct round *round, const struct head *head)
{
    struct file_store *store = round->store;
    struct lease_verdict verdict;
    int64_t now = file_now(store), keep = store->settings.tombstone_keep_ms * NS_IN_MS;
    bool this_boot = prim_id_equal(&head->boot_id, &store->facts.boot_id);
    if ((head->flags & HEAD_TOMBSTONE) != 0) return !this_boot || now - head->deadline_ns >= keep;
    if ((head->flags & HEAD_LEASED) == 0) return false;
    if (!this_boot) return true;
    /* A slot's head stores the end of the slot's cool-down, so the head is kept as long. */
    if ((head->flags & HEAD_SLOT) != 0 && keep < PRIM_COOLDOWN_MAX_MS * NS_IN_MS)
        keep = PRIM_COOLDOWN_MAX_MS * NS_IN_MS;
    coord_result result = judge(store, head, now + 100 * NS_IN_MS, &verdict);
    if (result.code != COORD_OK) {
        round->all_seen = false;
        return false;
    }
    return verdict.over && now - verdict.deadline_ns >= keep;
}

/* The bucket is locked exclusively, but a child made by clone() may still lock the file. */
static void remove_lock_file(struct round *round, const char *name)
{
    coord_result result = lock_key(&round->locked, name, OP_COLLECT, file_now(round->store) - 1);
    if (result.code != COORD_OK) return;
    if (unlinkat(round->bucket->locks, name, 0) == 0) round->report.locks++;
    unlock_key(&round->locked);
}

/* Removes a key's files if unchanged. `revision` 0: a lock file without a head. */
static void remove_key(struct round *round, const char *name, uint64_t revision)
{
    struct head_file file;
    if (!lock_for_a_moment(round)) return;
    head_file_init(&file);
    int error = head_read(round->bucket->heads, name, STR_EMPTY, &file);
    bool gone = error == 0 &&
                (revision == 0 ? file.found == HEAD_IS_ABSENT
                               : file.found == HEAD_IS_THERE && file.head.revision == revision);
    head_file_deinit(&file);
    if (gone && revision > 0) gone = unlinkat(round->bucket->heads, name, 0) == 0;
    if (gone && revision > 0) round->report.heads++;
    if (gone) remove_lock_file(round, name);
    unlock(&round->locked);
}

/* Raises the floor above a head's revision, because an expiry may have used revision + 1. */
static bool is_below_floor(struct round *round, uint64_t revision)
{
    uint64_t floor = min_u64(revision + FLOOR_STEP, REVISION_MAX);
    if (revision < round->floor) return true;
    if (floor_raise(round->store, floor) != 0) return false;
    round->floor = floor;
    return true;
}

static bool consider_head(void *context, const char *name)
{
    struct round *round = context;
    struct head_file file;
    if (strlen(name) >= LAYOUT_NAME_CAP) return true;
    head_file_init(&file);
    int error = head_read(round->bucket->heads, name, STR_EMPTY, &file);
    if (error != 0 || file.found == HEAD_IS_DAMAGED) round->all_seen = false;
    if (error == 0 && file.found == HEAD_IS_THERE) {
        const struct head *head = &file.head;
        if (is_past(round, head) && is_below_floor(round, head->revision))
            remove_key(round, name, head->revision);
        /* A lease record stays while a live head may name the lease. */
        if (head_is_live(&file) && (head->flags & HEAD_LEASED) != 0 &&
            map_make(&round->references, str_of(head->lease_id.b, 16), 1) == NULL)
            round->all_seen = false;
    }
    head_file_deinit(&file);
    return !stopping(round);
}

/* A call that finds no entry leaves a lock file without a head. */
static bool consider_lock(void *context, const char *name)
{
    struct round *round = context;
    struct stat info;
    if (name[0] != '.' && strlen(name) < LAYOUT_NAME_CAP &&
        fstatat(round->bucket->heads, name, &info, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
        remove_key(round, name, 0);
    return !stopping(round);
}

static bool collect_bucket(void *context, const char *name)
{
    struct round *round = context;
    struct file_store *store = round->store;
    if (bucket_get(store, name, false, &round->bucket).code != COORD_OK) return true;
    round->busy = false;
    if (sys_walk(round->bucket->heads, consider_head, round) != 0) round->all_seen = false;
    (void)sys_walk(round->bucket->locks, consider_lock, round);
    round->dir = round->bucket->temps;
    (void)sys_walk(round->dir, collect_temp, round);
    bucket_put(store, round->bucket);
    return !stopping(round);
}

/* -- lease records -- */

static bool collect_lease(void *context, const char *name)
{
    struct round *round = context;
    struct file_store *store = round->store;
    struct lease_record record;
    coord_id id;
    int fd = -1;
    if (!layout_lease_id(name, &id) || map_get(&round->references, str_of(id.b, 16)) != NULL)
        return !stopping(round);
    int64_t now = file_now(store);
    if (record_open(store, &id, true, now + 10 * NS_IN_MS, &fd, &record) == 0) {
        bool old_boot = !prim_id_equal(&record.boot_id, &store->facts.boot_id);
        if (old_boot || (record_is_over(store, &record) &&
                         now - record.deadline_ns > COLLECT_AFTER_MS * NS_IN_MS)) {
            if (unlinkat(store->leases, name, 0) == 0) round->report.leases++;
        }
    }
    record_close(fd);
    return !stopping(round);
}

struct gc_report gc_run(struct file_store *store, atomic_bool *stop)
{
    struct round round = {.store = store, .stop = stop, .all_seen = true};
    if (atomic_load(&store->backend.degraded)) return round.report;
    round.locked = LOCKED_NONE;
    map_init(&round.references, REFERENCES_MAX, prim_random());
    round.dir = store->meta;
    (void)sys_walk(store->meta, collect_temp, &round);
    if (sys_walk(store->buckets_dir, collect_bucket, &round) != 0) round.all_seen = false;
    if (round.all_seen && !stopping(&round)) (void)sys_walk(store->leases, collect_lease, &round);
    lease_table_sweep(store);
    map_free(&round.references);
    return round.report;
}

/* -- the thread -- */

/* Limits the rounds of all processes. Byte 1 of meta/recover.lk is locked during a round; the
 * file has the start time of the last round. An unreadable time means that a round is due. */
enum { BYTE_ROUND = 1, STAMP = 24, ROUND_REST_MS = ROUND_MS / 2 };

static bool round_is_due(const struct file_store *store, int fd)
{
    char stamp[STAMP];
    if (pread(fd, stamp, sizeof stamp, 0) != (ssize_t)sizeof stamp) return true;
    int64_t age = file_now(store) - (int64_t)load_le64(stamp + 16);
    return memcmp(stamp, store->facts.boot_id.b, 16) != 0 || age < 0 ||
           age >= ROUND_REST_MS * NS_IN_MS;
}

static void run_for_all(struct file_store *store, atomic_bool *stop)
{
    char stamp[STAMP];
    int fd = lock_open(store, store->meta, "recover.lk");
    if (fd < 0) return;
    if (sys_lock(fd, BYTE_ROUND, LOCK_EXCLUSIVE) == 0 && round_is_due(store, fd)) {
        memcpy(stamp, store->facts.boot_id.b, 16);
        store_le64(stamp + 16, (uint64_t)file_now(store));
        (void)sys_write(fd, stamp, sizeof stamp);
        (void)gc_run(store, stop);
    } else {
        lease_table_sweep(store);
    }
    sys_close(fd);
}

struct collector {
    struct file_store *store;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_bool stop;
};

static void *collect(void *arg)
{
    struct collector *collector = arg;
    (void)pthread_mutex_lock(&collector->mutex);
    while (!atomic_load(&collector->stop)) {
        (void)pthread_mutex_unlock(&collector->mutex);
        run_for_all(collector->store, &collector->stop);
        (void)pthread_mutex_lock(&collector->mutex);
        struct timespec until = prim_until_ms((int64_t)(ROUND_MS / 2 + prim_random() % ROUND_MS));
        int waited = 0;
        while (!atomic_load(&collector->stop) && waited != ETIMEDOUT)
            waited = pthread_cond_timedwait(&collector->wake, &collector->mutex, &until);
    }
    (void)pthread_mutex_unlock(&collector->mutex);
    return NULL;
}

struct collector *collector_open(struct file_store *store)
{
    struct collector *collector = calloc(1, sizeof *collector);
    if (collector == NULL) return NULL;
    collector->store = store;
    (void)pthread_mutex_init(&collector->mutex, NULL);
    prim_cond_init(&collector->wake);
    if (prim_thread_start(&collector->thread, collect, collector)) return collector;
    (void)pthread_cond_destroy(&collector->wake);
    (void)pthread_mutex_destroy(&collector->mutex);
    free(collector);
    return NULL;
}

void collector_close(struct collector *collector)
{
    if (collector == NULL) return;
    (void)pthread_mutex_lock(&collector->mutex);
    atomic_store(&collector->stop, true);
    (void)pthread_cond_signal(&collector->wake);
    (void)pthread_mutex_unlock(&collector->mutex);
    (void)pthread_join(collector->thread, NULL);
    (void)pthread_cond_destroy(&collector->wake);
    (void)pthread_mutex_destroy(&collector->mutex);
    free(collector);
}
