/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of one open file store share. Internal to prim/file. */
#ifndef PRIM_FILE_STORE_H
#define PRIM_FILE_STORE_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/map.h"
#include "prim/answer.h"
#include "prim/backend.h"
#include "prim/file/door.h"
#include "prim/file/layout.h"
#include "prim/file/record.h"
#include "prim/file/who.h"

enum {
    FILE_TTL_MIN_MS = 100,
    BUCKETS_KEPT_MAX = 64, /* with their three descriptors each; the rest is opened anew */
    KEY_DOORS = 64,
    STUCK_MAX = 64,
    SIGHTS_MAX = 1024,
    CREATED_MAX = 4096, /* netfs=create-only: keys this store object may delete */
};
#define NS_IN_MS INT64_C(1000000)

enum file_op { /* what a lock record says; in docs/formats/filestore.md */
               OP_CREATE = 1,
               OP_CAS,
               OP_REMOVE,
               OP_RELEASE,
               OP_CHECK,
               OP_ACQUIRE,
               OP_RESIZE,
               OP_HOLDERS,
               OP_COLLECT,
};

/* The directories of one bucket. Counted: who uses it keeps its descriptors open. */
struct bucket {
    struct list node; /* in store->buckets, most recently used last */
    char name[LAYOUT_NAME_CAP];
    unsigned refs;
    bool stale; /* its directory is gone; nobody gets it any more */
    int heads, locks, temps;
    atomic_bool durable; /* the directories themselves have been synced */
    struct door door;    /* the bucket lock among our own threads */
};

/* The first time this store object saw that a lease record was damaged or gone. */
struct sight {
    coord_id lease_id;
    int64_t since_ns;
};
/* A key lock that has been refused again and again. */
struct stuck {
    uint64_t hash;
    int64_t since_ns, last_ns;
};

struct lease_table;
struct hub;
struct collector;
struct created;

struct file_settings {
    bool sync_always, early_death, create_only;
    int64_t lock_timeout_ms, tombstone_keep_ms;
    mode_t mode; /* of directories; files get it without the execute bits */
};

struct file_store {
    struct prim_backend backend; /* first */
    struct prim_host *host;
    struct prim_clock clock;
    struct file_settings settings;
    struct host_facts facts;
    struct who holder; /* what our leases say: nobody (pid 0) when they are to outlive us */
    coord_id id;
    uint64_t epoch;
    char root_path[4096];
    int root, meta, leases, buckets_dir, lost;
    dev_t device;
    int64_t file_system; /* statfs magic at open */
    char type[32];       /* "ext4" */
    bool durable_medium; /* what is synced survives power loss */
    int scope;
    atomic_bool degraded, poll;
    atomic_bool sync_failed; /* said to the host once the locks are given back */
    atomic_uint_least64_t temp_number, lock_violations;
    unsigned damaged; /* heads moved to lost/ when this object opened the store */

    pthread_mutex_t mutex; /* of what follows, for moments */
    struct list buckets;
    size_t bucket_count;
    struct sight sights[SIGHTS_MAX];
    size_t sight_count;
    struct stuck stuck[STUCK_MAX];
    struct door key_doors[KEY_DOORS];
    struct created *created;

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
    return prim_clock_now(&store->clock);
}
static inline mode_t file_mode(const struct file_store *store)
{
    return store->settings.mode & 0666;
}
/* UNAVAILABLE for an errno: storage, forbidden, overloaded, memory. `what` reads as a path. */
coord_result file_trouble(int error, const char *what);
/* An fsync failed: nothing this object writes can be believed any more. Call without locks held. */
void file_degrade(struct file_store *store, const char *why);
/* S1. OK, UNAVAILABLE/degraded, UNAVAILABLE/storage when the root is gone. */
coord_result file_usable(struct file_store *store);
/* A thread with all signals blocked: handlers run on the host program's own threads. */
bool file_thread(pthread_t *ret_thread, void *(*run)(void *), void *arg);
void file_temp_name(struct file_store *store, char name[LAYOUT_TEMP_CAP]);

/* UNAVAILABLE; or NOT_FOUND when it is not there and `create` is false. */
coord_result bucket_get(struct file_store *store, const char *name, bool create,
                        struct bucket **ret_bucket);
void bucket_put(struct file_store *store, struct bucket *bucket);
void buckets_close(struct file_store *store);
#endif
