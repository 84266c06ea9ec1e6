/* SPDX-License-Identifier: Apache-2.0 */
/* An open store: checks before any I/O, calls under way, retries, closing, fork detection.
 *
 * One mutex guards all state that a store and its leases share. No backend call is made under
 * this mutex. coord_check reads only atomic fields and needs no lock. */
#ifndef PRIM_STORE_H
#define PRIM_STORE_H
#include <stdatomic.h>

#include "base/list.h"
#include "prim/backend.h"
#include "prim/thread.h"
#include "prim/url.h"

enum {
    PRIM_TIMEOUT_DEFAULT_MS = 5000,
    PRIM_TIMEOUT_MAX_MS = 600000,
    PRIM_OPEN_TIMEOUT_MS = 10000,
    PRIM_WAIT_MAX_MS = PRIM_TIMEOUT_MAX_MS * 144, /* one day, like the longest TTL */
    PRIM_RETRY_FIRST_MS = 50,
    PRIM_RETRY_MAX_MS = 1000,
    PRIM_CLOSE_RELEASE_MS = 5000, /* for all releases of a coord_close() together */
    PRIM_ASYNC_THREADS_MAX = 64,
    PRIM_ASYNC_MAX = 1000000,
};

struct prim_keeper;
struct prim_async;
struct prim_guards;

struct coord_store {
    struct prim_host host;
    struct prim_backend *backend;
    struct prim_clock clock;
    coord_options options; /* a copy without the strings */
    coord_id id;
    unsigned generation;       /* fork generation of the process that opened the store */
    atomic_uint refs;          /* of the caller, each lease and each watch */
    atomic_size_t lease_count; /* including leases being granted */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* closing began, the last call left, an on_lost returned */
    bool closing;
    size_t inside;
    struct list leases;
    struct list watches;
    size_t ending;
    char degraded[160]; /* why the store is degraded; "": not degraded */
    struct prim_keeper *keeper;
    struct prim_async *async;
    struct prim_guards *guards; /* NULL: no watches, or no guards */
};

/* -- opening, for libmuster -- */
/* The backend must recognise all parameters of the URL. */
coord_result prim_store_open(prim_open_fn *open, struct prim_url *url, const coord_options *options,
                             coord_store **ret_store);

/* -- one call -- */
struct prim_frame {
    struct prim_call call;
    int64_t began_ns;         /* time of the store's clock */
    int64_t real_deadline_ns; /* on CLOCK_BOOTTIME, because a store's clock may stop in a test */
    bool own_id;              /* the library generated the request id, so the id is new */
};
/* INVALID/handle: `store` is NULL or was copied by a fork. */
coord_result prim_usable(const coord_store *store);
/* Begins a call, with `extra_ms` added to its deadline. After OK call prim_leave(). */
coord_result prim_enter(coord_store *store, const coord_call *call, int64_t extra_ms,
                        struct prim_frame *ret_frame);
void prim_leave(coord_store *store);
enum { PRIM_OP_ADOPT = COORD_OP_RELEASE_KEY + 1, PRIM_OP_WATCH }; /* continues enum coord_op */
struct prim_try {
    int op;
    union {
        struct prim_create create;
        struct prim_cas cas;
        struct prim_delete remove;
        struct prim_acquire acquire;
        struct {
            struct str key;
            int consistency;
        } get;
        struct {
            struct str key;
            uint64_t expected;
            uint32_t slot_count;
        } group;
        struct {
            const struct prim_claim *claim;
            const char *key; /* for a release; NULL: all keys of the lease */
        } lease;
        struct prim_feed *feed;
    } in;
    struct prim_grant grant;
    coord_entry *entry;
    coord_holders *holders;
    int64_t sent_ns, left_ms; /* results of renew and adopt; left_ms -1: unknown */
    void *watch;
};
/* Repeats a backend call with the same request id until the deadline, while the outcome is
 * unclear or the connection fails. */
coord_result prim_attempts(coord_store *store, struct prim_frame *frame, struct prim_try *try);
/* False: the store is closing. */
bool prim_pause_ms(coord_store *store, int64_t ms);
int64_t prim_random_below(int64_t bound);

/* UNSUPPORTED/capability names the first of `bits` that this store lacks. */
coord_result prim_need(coord_store *store, uint32_t bits);
/* Like prim_need, for calls that grant a claim. A degraded store refuses such calls. */
coord_result prim_need_grant(coord_store *store, uint32_t bits);

coord_store *prim_store_ref(coord_store *store);
void prim_store_unref(coord_store *store);

/* -- async.c: asynchronous calls (coord_fd, coord_dispatch) -- */
coord_result prim_async_open(coord_store *store);
/* Accepts no more calls, ends waiting calls with UNAVAILABLE/closed, and joins the threads. */
void prim_async_stop(coord_store *store);
/* Runs done() of all finished calls, and frees them. */
void prim_async_close(coord_store *store);

/* -- watch.c -- */
void prim_watch_end_all(coord_store *store);

/* Incremented in every forked child. A store of another generation was copied by fork(). */
extern atomic_uint prim_fork_generation;

static inline struct str prim_str(coord_str s)
{
    return s.at == NULL ? STR_EMPTY : str_of(s.at, s.len);
}
#endif
