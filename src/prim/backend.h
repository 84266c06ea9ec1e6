/* SPDX-License-Identifier: Apache-2.0 */
/* What a store backend must implement, so that prim/ can keep the contract of <muster/coord.h>.
 * A backend is a table of blocking functions, called by many threads. Each call has a deadline.
 * prim checks all arguments and capabilities first.
 *
 * Division of work:
 *   backend   Does one atomic step at the authority. Finds its own request id in stored data and
 *             answers OK/replayed, so that a retry with the same id is safe. After a lost reply,
 *             finds out the outcome within its deadline, else UNAVAILABLE + MAYBE_APPLIED.
 *   prim      Retries an unclear result with the same request id. Owns handles, safe_until, keeper,
 *             waiting for a slot (unless CAP_FIFO_WAIT), the bounded event queue of a watch,
 *             asynchronous calls, fork detection.
 * No state of a lease exists only in a backend's memory, so that a claim can be exported. */
#ifndef PRIM_BACKEND_H
#define PRIM_BACKEND_H
#include <muster/coord.h>
#include <stdatomic.h>

#include "base/str.h"
#include "prim/feed.h"

struct prim_backend;

/* Elapsed ns: CLOCK_BOOTTIME, or a test's clock for a mem: store. */
struct prim_clock {
    int64_t (*now)(void *arg);
    void *arg;
};
#define PRIM_NS_PER_MS INT64_C(1000000)
static inline int64_t prim_clock_now(const struct prim_clock *clock)
{
    return clock->now(clock->arg);
}
static inline int64_t prim_left_ms(const struct prim_clock *clock, int64_t until_ns)
{
    int64_t left_ns = until_ns - prim_clock_now(clock);
    return left_ns > 0 ? left_ns / PRIM_NS_PER_MS : 0;
}
int64_t prim_boottime_ns(void *unused);
uint64_t prim_wall_ms(void);                /* for people; no decision uses it */
bool prim_kernel_boot_id(coord_id *ret_id); /* false: the boot's id is unknown */
/* Identifies this process's CLOCK_BOOTTIME: one boot of one kernel in one time namespace. Zeros:
 * unknown, never equal to another id. */
coord_id prim_boot_id(void);

/* What a backend may report to the store, from any thread until close() returns, also under a
 * backend lock. The store calls no backend under its own lock. */
struct prim_host {
    /* The authority reports the loss of this lease or of one of its keys. `reason` is a reason
     * of EXPIRED. */
    void (*lost)(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token);
    /* The open store lost a capability (C4). All its leases are lost, and it grants no more. */
    void (*degraded)(struct prim_host *host, const char *why);
};

struct prim_call {
    int64_t deadline_ns; /* time of the store's clock */
    coord_id request_id; /* never zero */
    uint32_t attempt;    /* > 0: an earlier attempt with this request id may have been applied */
};

/* One key of a lease. create_revision is the entry's create revision at the grant. */
struct prim_held {
    char *key;
    uint64_t token, create_revision;
    uint32_t slot; /* slot number, or COORD_NO_SLOT */
};
struct prim_claim {
    coord_id lease_id;
    const char *owner;
    int64_t ttl_ms;
    const struct prim_held *held;
    size_t count;
};
/* NULL: no claim, or the claim does not hold the key. */
const struct prim_held *prim_held_of(const struct prim_claim *claim, struct str key);

/* What a create, cas or acquire granted. Zeroed before the call. The backend must also set
 * `revision` and `token` of the result. */
struct prim_grant {
    coord_id lease_id; /* the id passed in; if OK/replayed, the stored id */
    uint64_t token, create_revision;
    uint32_t slot;
    int64_t granted_ttl_ms; /* 0: no lease was made */
    int64_t sent_ns;        /* time before the granting request was sent; 0: start of the call */
};

struct prim_create {
    struct str key, value;
    struct str owner; /* owner of the lease; "" without a lease */
    int64_t ttl_ms;   /* 0: no lease */
    coord_id lease_id;
    const struct prim_claim *under; /* the key joins this claim's lease; NULL: no lease */
};
struct prim_cas {
    struct str key, value;
    uint64_t expected; /* 0: the entry must be absent */
    int64_t ttl_ms;    /* COORD_TTL_KEEP; 0: no lease; else TTL of a new lease */
    struct str owner;
    coord_id lease_id;
    const struct prim_claim *claim; /* the lease that the caller claims to hold, or NULL */
};
struct prim_delete {
    struct str key;
    uint64_t expected; /* a revision, COORD_ANY or COORD_FORCE */
    const struct prim_claim *claim;
};
struct prim_acquire {
    struct str group, owner, value;
    uint32_t slot_count, flags, prefer_slot;
    int64_t ttl_ms, cooldown_ms;
    int64_t wait_ms; /* time in the store's queue; 0 without CAP_FIFO_WAIT, because prim waits */
    coord_id lease_id;
};

/* -- the functions of a backend -- */
typedef coord_result prim_create_fn(struct prim_backend *backend, const struct prim_call *call,
                                    const struct prim_create *in, struct prim_grant *ret_grant);
typedef coord_result prim_cas_fn(struct prim_backend *backend, const struct prim_call *call,
                                 const struct prim_cas *in, struct prim_grant *ret_grant);
typedef coord_result prim_remove_fn(struct prim_backend *backend, const struct prim_call *call,
                                    const struct prim_delete *in);
typedef coord_result prim_get_fn(struct prim_backend *backend, const struct prim_call *call,
                                 struct str key, int consistency, coord_entry **ret_entry);
typedef coord_result prim_acquire_fn(struct prim_backend *backend, const struct prim_call *call,
                                     const struct prim_acquire *in, struct prim_grant *ret_grant);
typedef coord_result prim_resize_fn(struct prim_backend *backend, const struct prim_call *call,
                                    struct str group, uint64_t expected, uint32_t slot_count);
typedef coord_result prim_holders_fn(struct prim_backend *backend, const struct prim_call *call,
                                     struct str group, coord_holders **ret_holders);
typedef coord_result prim_renew_fn(struct prim_backend *backend, const struct prim_call *call,
                                   const struct prim_claim *claim, int64_t *ret_sent_ns);
typedef coord_result prim_release_fn(struct prim_backend *backend, const struct prim_call *call,
                                     const struct prim_claim *claim, const char *key);
typedef coord_result prim_adopt_fn(struct prim_backend *backend, const struct prim_call *call,
                                   const struct prim_claim *claim, int64_t *ret_left_ms);
typedef coord_result prim_watch_fn(struct prim_backend *backend, const struct prim_call *call,
                                   struct prim_feed *feed, void **ret_watch);

struct prim_backend_ops {
    const char *name;
    uint32_t renewals_max; /* renewals per second that the authority handles well; 0: no limit */
    uint32_t guards_max;   /* limit of watched keys of kept claims (prim/guard.h); 0: no watches */
    /* A bucket with more watched keys gets one watch for all keys. 0: each key has its own
     * watch. */
    uint32_t guards_alone;
    coord_caps (*capabilities)(struct prim_backend *backend); /* cheap; may change while open */

    prim_create_fn *create;
    prim_cas_fn *cas;
    prim_remove_fn *remove;
    /* OK: makes *ret_entry with prim_entry_make. */
    prim_get_fn *get;
    prim_acquire_fn *acquire;
    prim_resize_fn *resize;
    /* OK: makes *ret_holders with prim_holders_make, rows in any order. */
    prim_holders_fn *holders;
    /* Renews only if the claim still holds every key. */
    prim_renew_fn *renew;
    /* Releases a key; NULL: the whole lease. With attempt > 0, absence is OK/already. */
    prim_release_fn *release;
    /* Takes over an imported lease: checks the lease, but does not extend it. *ret_left_ms:
     * remaining time, or -1 if prim must renew the lease. EXPIRED/deadline: the lease may be
     * over. NULL if renew refuses leases that are over: prim then renews. */
    prim_adopt_fn *adopt;

    /* Fills `feed` from the backend's threads with a snapshot, then changes. The feed is not
     * accessed after unwatch returns. */
    prim_watch_fn *watch;
    void (*unwatch)(struct prim_backend *backend, void *watch);

    /* Optional; called before the store closes. acquire() calls that wait at the authority
     * return UNAVAILABLE/closed, and later calls do not wait. */
    void (*wake)(struct prim_backend *backend);

    /* Ends all threads. Called when no call runs and no watch is open. */
    void (*close)(struct prim_backend *backend);

    const struct prim_ways *ways; /* used by change.h; NULL: change.h is not used */
};

/* First member of every backend's struct. */
struct prim_backend {
    const struct prim_backend_ops *ops;
    /* Set at open; then constant. */
    struct prim_clock clock;
    struct prim_host *host;
    coord_id id;
    coord_limits limits;
    atomic_bool degraded;
};

struct prim_open {
    struct prim_url *url;         /* the opener marks each parameter that it reads */
    const coord_options *options; /* never NULL */
    struct prim_clock clock;
    struct prim_host *host;
    int64_t deadline_ns;
};
/* An opener calls this function first, then sets `id`. */
static inline void prim_backend_init(struct prim_backend *backend,
                                     const struct prim_backend_ops *ops, const struct prim_open *in,
                                     coord_limits limits)
{
    *backend =
        (struct prim_backend){.ops = ops, .clock = in->clock, .host = in->host, .limits = limits};
}
/* Reports a lost capability, once, from any thread (C4, R5). */
static inline void prim_degrade(struct prim_backend *backend, const char *why)
{
    if (!atomic_exchange(&backend->degraded, true)) backend->host->degraded(backend->host, why);
}
typedef coord_result prim_open_fn(const struct prim_open *in, struct prim_backend **ret_backend);
#endif
