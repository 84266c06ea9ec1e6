/* SPDX-License-Identifier: Apache-2.0 */
/* Shared declarations of the kube backend: the open store, and the two steps of every operation
 * (prim/change.h): read an object, then write it if it is unchanged. */
#ifndef PRIM_KUBE_STORE_H
#define PRIM_KUBE_STORE_H
#include "kube/kube.h"
#include "prim/answer.h"
#include "prim/change.h"
#include "prim/kube/lease.h"
#include "prim/kube/sights.h"
#include "prim/thread.h"

enum {
    STORE_PAGE = 100, /* objects per list page; 100 of the largest fit into 16 MiB */
};

struct kube_store {
    struct prim_backend base;
    struct kube *kube;
    char *namespace_;
    char prefix[LEASE_PREFIX_MAX + 1];
    char id_text[PRIM_ID_TEXT_CAP];
    char boot[PRIM_ID_TEXT_CAP]; /* boot id of this process's clock; "": unknown */
    bool can_watch;

    pthread_mutex_t lock; /* guards the fields below */
    struct sights sights;
    int64_t pause_until_ns; /* end of the pause that the server asked for */
};
static inline struct kube_store *store_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct kube_store, base);
}
static inline int64_t store_now(const struct kube_store *store)
{
    return prim_clock_now(&store->base.clock);
}

struct ask {
    struct kube_store *store;
    const struct prim_call *call;
    struct prim_change *change; /* set for a write; otherwise NULL */
};

coord_result kube_doc_read(struct ask *ask, struct str key, struct doc *ret_doc);

/* Sends POST if there is no object to replace, else PUT with the object's version and uid. */
enum prim_wrote kube_doc_write(struct ask *ask, const struct lease_write *write,
                               struct doc *ret_doc, coord_result *ret_why);

/* False: no object, only a tombstone, or a holder that is gone. *ret_left_ms: until the holder
 * can count as gone; -1: no lease. */
bool kube_doc_is_live(struct kube_store *store, const struct doc *doc, int64_t *ret_left_ms);

/* Every entry of a bucket at one instant. The caller closes each doc and frees the array. */
struct docs {
    struct doc *at;
    size_t count;
    char version[KUBE_VERSION_CAP]; /* resourceVersion of the list */
    struct json **pages;            /* own the objects of `at` */
    size_t page_count;
};
coord_result kube_docs_list(struct ask *ask, struct str bucket, struct docs *ret_docs);
void kube_docs_deinit(struct docs *docs);

/* Objects of leases of this process, in sights.h. */
bool kube_held_take(struct kube_store *store, struct str key, const coord_id *lease_id,
                    struct doc *ret_doc);
void kube_held_put(struct kube_store *store, struct str key, struct doc *own_doc);

/* Maps errors of kube.h that have no special rule. */
coord_result kube_store_err(struct kube_store *store, enum err err,
                            const struct kube_answer *answer, const struct note *note);
struct kube_path kube_store_path(const struct kube_store *store, const char *name);

/* -- entries.c -- */
extern const struct prim_ways kube_ways;
prim_adopt_fn kube_op_adopt;

/* -- watch.c -- */
prim_watch_fn kube_op_watch;
void kube_op_unwatch(struct prim_backend *, void *);
#endif
