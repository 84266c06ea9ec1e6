/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this backend share: the open store, and the two steps every operation is made of
 * (prim/change.h): read an object, write it if it is still the one that was read. */
#ifndef PRIM_KUBE_STORE_H
#define PRIM_KUBE_STORE_H
#include "kube/kube.h"
#include "prim/answer.h"
#include "prim/change.h"
#include "prim/kube/lease.h"
#include "prim/kube/sights.h"
#include "prim/thread.h"

enum {
    STORE_PAGE = 100, /* objects per page of a list: 100 of the largest fit 16 MiB */
};

struct kube_store {
    struct prim_backend base;
    struct kube *kube;
    char *namespace_;
    char prefix[LEASE_PREFIX_MAX + 1];
    char id_text[PRIM_ID_TEXT_CAP];
    char boot[PRIM_ID_TEXT_CAP]; /* of that clock; "": not known */
    bool can_watch;

    pthread_mutex_t lock; /* of all below */
    struct sights sights;
    int64_t pause_until_ns; /* the server asked for it */
};
static inline struct kube_store *store_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct kube_store, base);
}
static inline int64_t store_now(const struct kube_store *store)
{
    return prim_clock_now(&store->base.clock);
}

/* A call of ours that asks the server, and until when. */
struct ask {
    struct kube_store *store;
    const struct prim_call *call;
    struct prim_change *change; /* of a write; else NULL */
};

coord_result kube_doc_read(struct ask *ask, struct str key, struct doc *ret_doc);

/* POST when there is nothing to write over, else PUT with its version and uid. */
enum prim_wrote kube_doc_write(struct ask *ask, const struct lease_write *write,
                               struct doc *ret_doc, coord_result *ret_why);

/* False: no object, a tombstone, or a holder judged gone. *ret_left_ms: until the holder may count
 * as gone; -1: not leased. */
bool kube_doc_is_live(struct kube_store *store, const struct doc *doc, int64_t *ret_left_ms);

/* Every entry of a bucket, as of one instant; the caller closes each doc and frees the array. */
struct docs {
    struct doc *at;
    size_t count;
    char version[KUBE_VERSION_CAP]; /* of the list */
    struct json **pages;            /* own the objects of `at` */
    size_t page_count;
};
coord_result kube_docs_list(struct ask *ask, struct str bucket, struct docs *ret_docs);
void kube_docs_deinit(struct docs *docs);

/* Own leases, by sights.h. */
bool kube_held_take(struct kube_store *store, struct str key, const coord_id *lease_id,
                    struct doc *ret_doc);
void kube_held_put(struct kube_store *store, struct str key, struct doc *own_doc);

/* What an error of kube.h means where nothing else is known. */
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
