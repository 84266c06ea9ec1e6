/* SPDX-License-Identifier: Apache-2.0 */
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
    BUCKETS_KEPT_MAX = 64, /* kept open with 3 descriptors each */
    KEY_RWLOCKS = 64,
    STUCK_MAX = 64,
    SIGHTS_MAX = 1024,
};
#define NS_IN_MS INT64_C(1000000)

/* docs/formats/filestore.md */
enum file_op {
    OP_CREATE = 1,
    OP_CAS,
    OP_REMOVE,
    OP_RELEASE,
    OP_CHECK,
    OP_COLLECT = 9,
};

/* -- process.c -- */
/* This host's boot, this process, and whether other processes can be proved dead. */
struct host_facts {
    coord_id boot_id;
    struct who self;
    bool proc_is_ours; /* /proc shows this process's pid namespace */
};
/* ERR_UNSUPPORTED: the kernel does not provide the data (no /proc). */
enum err who_am_i(struct host_facts *ret_facts);
/* True only with proof: same boot and pid namespace, and the pid is unused, belongs to a process
 * with another start time, or to a zombie. */
bool who_is_dead(const struct host_facts *facts, const struct who *who, const coord_id *boot_id);

/* A descriptor that becomes readable when the process ends. -1: this process, another pid
 * namespace, or the process cannot be watched. */
int who_watch(const struct host_facts *facts, const struct who *who);

/* The directories of one bucket. The descriptors stay open while referenced. */
struct bucket {
    struct list node; /* in store->buckets, ordered by last use */
    char name[LAYOUT_NAME_CAP];
    unsigned refs;
    bool stale; /* the directory was removed; bucket_get no longer returns this bucket */
    int heads, locks, temps;
    atomic_bool durable;
    struct rwlock rwlock; /* the bucket lock between threads of this process */
};

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
    mode_t mode; /* of directories; files get no execute bits */
};

struct file_store {
    struct prim_backend backend; /* first */
    struct file_settings settings;
    struct host_facts facts;
    struct who holder; /* process named in new lease records; pid 0: leases outlive the process */
    /* Create-only stores: the creator in new heads. This object removes only such heads. */
    coord_id creator;
    uint64_t epoch;
    char root_path[4096];
    int root, meta, leases, buckets_dir, lost;
    dev_t device;
    int64_t file_system; /* statfs magic at open */
    char type[32];
    bool durable_medium; /* data survives a power loss after fsync() */
    int scope;
    atomic_bool poll;
    atomic_bool sync_failed; /* reported after the locks are released */
    atomic_uint_least64_t temp_number;
    unsigned damaged; /* heads moved to lost/ at open */

    pthread_mutex_t mutex; /* for the fields below; held briefly */
    struct list buckets;
    size_t bucket_count;
    struct map sights; /* by lease id: int64_t, when the record was first seen damaged or missing */
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

/* Maps an errno to UNAVAILABLE: storage, forbidden, overloaded or memory. `what` is the failed
 * step. */
coord_result file_trouble(int error, const char *what);
/* Step S1: OK, UNAVAILABLE/degraded, or UNAVAILABLE/storage if the root is gone. */
coord_result file_usable(struct file_store *store);
void file_temp_name(struct file_store *store, char name[LAYOUT_TEMP_CAP]);
/* Returns the descriptor, or -1 with errno. */
int file_temp_make(struct file_store *store, int dir, char name[LAYOUT_TEMP_CAP]);
/* 0, EBADMSG (damaged), or an errno. */
int file_record_get(int fd, const struct shape *shape, void *ret_record);
int file_record_put(int fd, const struct shape *shape, const void *record);

/* -- entries.c: entries and groups by prim/change.h -- */
extern const struct prim_ways file_ways;
prim_cas_fn file_cas;
prim_release_fn file_release;

/* -- head_file.c -- */
/* Head files: only a key's head decides the key's state. A rename replaces a head, so a reader
 * without a lock reads the old or the new content. */
enum head_found { HEAD_IS_ABSENT, HEAD_IS_THERE, HEAD_IS_DAMAGED };
struct head_file {
    enum head_found found;
    struct head head; /* set if HEAD_IS_THERE; the strings point into the buffer below */
    char *large;
    char small[1024];
};
/* Returns 0 or errno. An empty `key` accepts any key. Frees the previous head. */
int head_read(int heads, const char *name, struct str key, struct head_file *file);
void head_file_init(struct head_file *file);
void head_file_deinit(struct head_file *file);
static inline bool head_is_live(const struct head_file *file)
{
    return file->found == HEAD_IS_THERE && (file->head.flags & HEAD_LIVE) != 0;
}

/* Steps S8 to S11, durably if the head's flag says so. `replace`: replaces the old head.
 * UNAVAILABLE/storage (MAYBE_APPLIED from S10 on) or /lock_violation. */
coord_result head_publish(struct file_store *store, struct bucket *bucket, const char *name,
                          const struct head *head, bool replace);
/* After a failed publication, with the key locked. True: the head names this lease or is
 * unreadable. */
bool head_may_have_lease(const struct bucket *bucket, const char *name, const coord_id *id);
/* Computes a revision above all earlier revisions of the key. `file` is the present head.
 * `expired`: watches may have used the head's revision + 1 for the expiry. Returns 0 or errno. */
int head_next_revision(struct file_store *store, const struct head_file *file, bool expired,
                       uint64_t *ret_revision);

/* -- locks.c: bucket directories are opened once and kept open -- */

/* Opens a directory on the store's device; `create` makes it. 0, EXDEV, or another errno. The
 * caller always closes *ret_fd. */
int file_open_dir(const struct file_store *store, int parent, const char *name, bool create,
                  int *ret_fd);
/* UNAVAILABLE, or NOT_FOUND without `create`. */
coord_result bucket_get(struct file_store *store, const char *name, bool create,
                        struct bucket **ret_bucket);
/* Finds the bucket of a key, and the key's file name in the bucket. */
coord_result bucket_of_key(struct file_store *store, struct str key, bool create,
                           struct bucket **ret_bucket, char name[LAYOUT_NAME_CAP]);
void bucket_put(struct file_store *store, struct bucket *bucket);
void buckets_close(struct file_store *store);

/* -- admission.c: which file systems are allowed, and whether this file system works as required
 * --
 *
 * File systems not known to be safe are refused. No option makes a network file system safe. */
struct medium {
    int64_t magic;
    char type[32];     /* from the mount table: "ext4" */
    bool durable;      /* data survives a power loss after fsync() */
    bool overlay;      /* files are visible in one container only */
    bool network;      /* refused, except with netfs=create-only */
    const char *known; /* "NFS", or NULL */
};
/* Identifies the file system by statfs and the mount table, which must agree: else
 * UNSUPPORTED/file_system. */
coord_result admission_look(int dir, struct medium *ret_medium);
/* Probes system calls in store->meta. For create-only, probes that link() replaces no file.
 * UNSUPPORTED/file_system names the probe. Sets store->poll without inotify. */
coord_result admission_probe(struct file_store *store);
/* Refuses a clock shifted by a time namespace, because deadlines would differ. */
coord_result admission_clock(void);

/* -- epoch.c: FORMAT, the epoch of this boot, the revision floor --
 *
 * A revision is at least epoch << 40, and the epoch grows with each boot. So leased entries need
 * no sync: writes lost in a power cut used an epoch that never returns. */

/* Makes or opens the store below store->root, under meta/recover.lk. Sets id, epoch, the
 * directories and `damaged`. A create-only store has neither lock nor epochs. UNAVAILABLE,
 * INVALID/url, UNSUPPORTED. */
coord_result epoch_open(struct file_store *store, bool overlay, int64_t until_ns);
/* Reads the floor, the highest removed revision, or 0. Returns 0 or errno (EBADMSG: damaged). */
int floor_read(struct file_store *store, uint64_t *ret_floor);
/* Raises the floor durably, and never lowers it. meta/recover.lk admits one process at a time. */
int floor_raise(struct file_store *store, uint64_t floor);

/* -- gc.c: removal of unneeded files --
 *
 * Removes temporary files of dead processes, unreferenced lease records that are over, old
 * tombstones and expired entries, and their lock files. A removed head's revision is first
 * recorded in meta/floor, so that a key created again gets a larger revision. */
struct gc_report {
    unsigned temps, heads, locks, leases;
};
/* Runs one round over the whole store. Searches without locks, and locks a bucket only to remove
 * files. A bucket in use is left for the next round. */
/* NULL `stop`: the round runs to its end. */
struct gc_report gc_run(struct file_store *store, atomic_bool *stop);
/* Starts a thread that runs a round now and then every 30 to 90 s, unless another process ran a
 * round in the last 30 s. NULL: the thread could not start. */
struct collector *collector_open(struct file_store *store);
void collector_close(struct collector *collector);

/* -- watch.c: one thread and one inotify descriptor for all watched head directories -- */

/* The thread starts with the first watch. NULL: out of memory. */
struct hub *file_hub_open(struct file_store *store);
void file_hub_close(struct hub *hub);
prim_watch_fn file_watch;
void file_unwatch(struct prim_backend *backend, void *watch);
#endif
