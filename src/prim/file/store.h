/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of one open file store share. */
#ifndef PRIM_FILE_STORE_H
#define PRIM_FILE_STORE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/map.h"
#include "prim/answer.h"
#include "prim/backend.h"
#include "prim/file/record.h"
#include "prim/file/sys.h"

enum {
    FILE_TTL_MIN_MS = 100,
    BUCKETS_KEPT_MAX = 64, /* with their three descriptors each; the rest is opened anew */
    KEY_RWLOCKS = 64,
    STUCK_MAX = 64,
    SIGHTS_MAX = 1024,
};
#define NS_IN_MS INT64_C(1000000)

/* what a lock record says; in docs/formats/filestore.md */
enum file_op {
    OP_CREATE = 1,
    OP_CAS,
    OP_REMOVE,
    OP_RELEASE,
    OP_CHECK,
    OP_COLLECT = 9,
};

/* -- process.c -- */
/* This host's boot, this process, and whether another process is provably dead. */
struct host_facts {
    coord_id boot_id;
    struct who self;
    bool proc_is_ours; /* /proc shows the pids of our own namespace */
};
/* ERR_UNSUPPORTED: the kernel does not show it (no /proc). */
enum err who_am_i(struct host_facts *ret_facts);
/* True only with proof: the same boot, the same pid namespace, and no process has that pid, or one
 * that started at another time, or one that has ended and waits for its parent. */
bool who_is_dead(const struct host_facts *facts, const struct who *who, const coord_id *boot_id);

/* A descriptor that becomes readable when that process ends; -1: it is ourselves, of another pid
 * namespace, or cannot be watched. */
int who_watch(const struct host_facts *facts, const struct who *who);

/* The directories of one bucket. Counted: who uses it keeps its descriptors open. */
struct bucket {
    struct list node; /* in store->buckets, most recently used last */
    char name[LAYOUT_NAME_CAP];
    unsigned refs;
    bool stale; /* its directory is gone; nobody gets it any more */
    int heads, locks, temps;
    atomic_bool durable;  /* the directories themselves have been synced */
    struct rwlock rwlock; /* the bucket lock among our own threads */
};

/* A key lock that has been refused again and again. */
struct stuck {
    uint64_t hash;
    int64_t since_ns, last_ns;
};

struct lease_table;
struct hub;
struct collector;

struct file_settings {
    bool sync_always, early_death, create_only;
    int64_t lock_timeout_ms, tombstone_keep_ms;
    mode_t mode; /* of directories; files get it without the execute bits */
};

struct file_store {
    struct prim_backend backend; /* first */
    struct file_settings settings;
    struct host_facts facts;
    struct who holder; /* what our leases say: nobody (pid 0) when they are to outlive us */
    coord_id creator;  /* create-only: of this object, in the heads it made and may remove */
    uint64_t epoch;
    char root_path[4096];
    int root, meta, leases, buckets_dir, lost;
    dev_t device;
    int64_t file_system; /* statfs magic at open */
    char type[32];       /* "ext4" */
    bool durable_medium; /* what is synced survives power loss */
    int scope;
    atomic_bool poll;
    atomic_bool sync_failed; /* an fsync did: reported once the locks are given back */
    atomic_uint_least64_t temp_number;
    unsigned damaged; /* heads moved to lost/ when this object opened the store */

    pthread_mutex_t mutex; /* of what follows, for moments */
    struct list buckets;
    size_t bucket_count;
    struct map sights; /* lease id -> int64_t, when its record was first seen damaged or gone */
    struct stuck stuck[STUCK_MAX];
    struct rwlock key_rwlocks[KEY_RWLOCKS];

    struct lease_table *table;
    struct hub *hub;
    struct collector *collector;
};

static inline struct file_store *file_store_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct file_store, backend);
}
static inline int64_t file_now(const struct file_store *store)
{
    return prim_clock_now(&store->backend.clock);
}
static inline mode_t file_mode(const struct file_store *store)
{
    return store->settings.mode & 0666;
}
/* -- file.c -- */

/* UNAVAILABLE for an errno: storage, forbidden, overloaded, memory. `what` reads as a path. */
coord_result file_trouble(int error, const char *what);
/* S1. OK, UNAVAILABLE/degraded, UNAVAILABLE/storage when the root is gone. */
coord_result file_usable(struct file_store *store);
void file_temp_name(struct file_store *store, char name[LAYOUT_TEMP_CAP]);
/* A new temporary file in `dir`: its descriptor, or -1 with errno. */
int file_temp_make(struct file_store *store, int dir, char name[LAYOUT_TEMP_CAP]);
/* A small record that a file begins with. 0, EBADMSG (damaged), or an errno. */
int file_record_get(int fd, const struct shape *shape, void *ret_record);
int file_record_put(int fd, const struct shape *shape, const void *record);

/* -- entries.c: entries and groups by prim/change.h -- */
extern const struct prim_ways file_ways;
prim_cas_fn file_cas;
prim_release_fn file_release;

/* -- head_file.c -- */
/* Head files: the one object that says what a key is. Replaced whole, so that a reader without any
 * lock sees the old content or the new. */
enum head_found { HEAD_IS_ABSENT, HEAD_IS_THERE, HEAD_IS_DAMAGED };
struct head_file {
    enum head_found found;
    struct head head; /* when there; its strings point below */
    char *large;
    char small[1024];
};
/* 0 or errno. `key` empty: whatever key it says. Reading a second time frees the first. */
int head_read(int heads, const char *name, struct str key, struct head_file *file);
void head_file_init(struct head_file *file);
void head_file_deinit(struct head_file *file);
static inline bool head_is_live(const struct head_file *file)
{
    return file->found == HEAD_IS_THERE && (file->head.flags & HEAD_LIVE) != 0;
}

/* S8 to S11: the new head in place of the old one (`replace`) or where there was none. Durable when
 * the head's flag says so. UNAVAILABLE/storage (MAYBE_APPLIED from S10 on) or /lock_violation. */
coord_result head_publish(struct file_store *store, struct bucket *bucket, const char *name,
                          const struct head *head, bool replace);
/* After a publication that failed, with the key still locked: does the head name this lease, or
 * can that not be read? */
bool head_may_have_lease(const struct bucket *bucket, const char *name, const coord_id *id);
/* The revision of the next change: larger than any this key ever had. `file`: what is there now;
 * `expired`: it is a leased entry that ran out, whose end may have been shown as its revision + 1.
 * 0 or errno. */
int head_next_revision(struct file_store *store, const struct head_file *file, bool expired,
                       uint64_t *ret_revision);

/* -- locks.c: directories of buckets are made and opened once, and kept for the next call -- */

/* A directory on the device of the store, made where it is not there and `create` is set. 0, EXDEV,
 * or another errno; *ret_fd is to be closed in any case. */
int file_open_dir(const struct file_store *store, int parent, const char *name, bool create,
                  int *ret_fd);
/* UNAVAILABLE; or NOT_FOUND when it is not there and `create` is false. */
coord_result bucket_get(struct file_store *store, const char *name, bool create,
                        struct bucket **ret_bucket);
/* The bucket of a key, and the name of the key's files in it. */
coord_result bucket_of_key(struct file_store *store, struct str key, bool create,
                           struct bucket **ret_bucket, char name[LAYOUT_NAME_CAP]);
void bucket_put(struct file_store *store, struct bucket *bucket);
void buckets_close(struct file_store *store);

/* -- admission.c: which file systems may carry a store, and whether this one does what it should --
 *
 * A store is only as safe as the locks and renames below it. What is not known to be good is
 * refused; nothing a caller says turns a network file system into a safe one. */
struct medium {
    int64_t magic;
    char type[32];     /* as the mount table says, "ext4" */
    bool durable;      /* what is synced survives power loss */
    bool overlay;      /* one container's own */
    bool network;      /* refused, but a store that only creates may try (netfs=create-only) */
    const char *known; /* "NFS", or NULL */
};
/* By statfs and, where it shows the mount, the mount table: both must agree. OK, or
 * UNSUPPORTED/file_system. */
coord_result admission_look(int dir, struct medium *ret_medium);
/* Live, in store->meta: the calls that the promises rely on; for create-only, a link() that does not
 * replace.
 * UNSUPPORTED/file_system naming the probe. Sets store->poll when no inotify can be had. */
coord_result admission_probe(struct file_store *store);
/* A clock shifted by a time namespace would put our deadlines elsewhere than everybody's. */
coord_result admission_clock(void);

/* -- epoch.c: FORMAT, the epoch of this boot, the floor of revisions --
 *
 * A revision is never smaller than epoch << 40, and the epoch grows with each boot of the host:
 * that is why leased entries need no sync. What a power cut takes back was written in an epoch
 * whose numbers are never given out again. */

/* Makes or opens the store below store->root, under meta/recover.lk. Sets id, epoch, the
 * directories and `damaged`. Create-only has neither that lock nor epochs. UNAVAILABLE, INVALID/url, UNSUPPORTED. */
coord_result epoch_open(struct file_store *store, bool overlay, int64_t until_ns);
/* The highest revision ever collected; 0 when none was. 0 or errno (EBADMSG: damaged). */
int floor_read(struct file_store *store, uint64_t *ret_floor);
/* Raises it, durably; never lowers it. Among processes one at a time, by meta/recover.lk. */
int floor_raise(struct file_store *store, uint64_t floor);

/* -- gc.c: what nobody needs any more --
 *
 * Temporary files of dead processes, lease records that are over and unreferenced, old tombstones
 * and expired entries, and their lock files. A revision that goes with its head is remembered by
 * meta/floor first, durably: a key created anew gets a larger one. */
struct gc_report {
    unsigned temps, heads, locks, leases, buckets_busy;
};
/* One round over the whole store. It looks without any lock, and locks a bucket for moments only
 * where there is something to remove; one that is in use is left for the next round. */
struct gc_report gc_run(struct file_store *store, atomic_bool *stop); /* NULL: to its end */
/* A thread that does it at once and then every 60 s, give or take half, unless another process did
 * within the last half minute. NULL: none could start. */
struct collector *collector_open(struct file_store *store);
void collector_close(struct collector *collector);

/* -- watch.c: one thread, one inotify descriptor, the directories of heads it looks at -- */

/* The thread starts with the first watch. NULL: no memory. */
struct hub *file_hub_open(struct file_store *store);
void file_hub_close(struct hub *hub);
prim_watch_fn file_watch;
void file_unwatch(struct prim_backend *backend, void *watch);
#endif
