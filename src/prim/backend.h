/* SPDX-License-Identifier: Apache-2.0 */
/* The duties of a store, so that prim/ can keep the contract of <muster/coord.h> over it.
 *
 * A backend is a table of blocking functions, called from many threads at once, each with a
 * deadline. Arguments are checked before (limits, capability bits); a backend never sees a key, an
 * owner or a TTL outside its limits, nor a call whose bit it does not set.
 *
 * Who does what:
 *   backend   one atomic step at the authority; recognises its own request id in what is stored
 *             (answer OK/replayed), so that a retry with the same id is safe; resolves what a lost
 *             reply leaves open as far as its deadline allows, else UNAVAILABLE + MAYBE_APPLIED.
 *   prim      retries such an answer with the same request id; handles, safe_until, the keeper,
 *             waiting for a slot (unless CAP_FIFO_WAIT), the bounded event queue of a watch,
 *             asynchronous calls, fork detection.
 * Nothing that belongs to a lease hides in a backend's memory only: a claim is plain data, so that
 * it can be exported and imported. What a backend keeps beside it (a descriptor, a resource
 * version) it finds again by lease id, or does without. */
#ifndef PRIM_BACKEND_H
#define PRIM_BACKEND_H
#include <muster/coord.h>
#include <stdatomic.h>

#include "base/str.h"
#include "prim/feed.h"

struct prim_backend;

/* Elapsed time in ns, CLOCK_BOOTTIME unless a test of mem: brought its own. */
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
int64_t prim_boottime_ns(void *unused);     /* the real one */
uint64_t prim_wall_ms(void);                /* of the wall clock: for people, decides nothing */
bool prim_kernel_boot_id(coord_id *ret_id); /* of this boot of this kernel; false: not known */
/* Whose count of CLOCK_BOOTTIME this process sees: of this boot of this kernel, in this time
 * namespace. Zeros: not known; then no two are the same. */
coord_id prim_boot_id(void);

/* What a backend may report to the store at any time, from any of its threads, and under a lock of
 * its own: the store calls no backend under its lock. Valid until close() has returned. */
struct prim_host {
    /* The authority says that this lease, or one of its keys, is gone: EXPIRED reasons only. */
    void (*lost)(struct prim_host *host, const coord_id *lease_id, int reason, uint64_t token);
    /* C4: a capability is gone while open; every lease is reported lost, grants are refused. */
    void (*degraded)(struct prim_host *host, const char *why);
};

struct prim_call {
    int64_t deadline_ns; /* on the store's clock */
    coord_id request_id; /* never zero */
    uint32_t attempt;    /* > 0: an earlier attempt with this id may have been applied */
};

/* One key of a lease. `create_revision` is that of the entry as it was granted. */
struct prim_held {
    char *key;
    uint64_t token, create_revision;
    uint32_t slot; /* or COORD_NO_SLOT */
};
struct prim_claim {
    coord_id lease_id;
    const char *owner;
    int64_t ttl_ms; /* granted */
    const struct prim_held *held;
    size_t count;
};
/* The key as the claim holds it; NULL: the claim is NULL, or does not hold it. */
const struct prim_held *prim_held_of(const struct prim_claim *claim, struct str key);

/* What a successful create, cas or acquire granted. Zeroed before the call; `revision` and `token`
 * of the result are filled from it by nobody: set both. */
struct prim_grant {
    coord_id lease_id; /* the one given, or on OK/replayed the one that is stored */
    uint64_t token, create_revision;
    uint32_t slot;          /* acquire */
    int64_t granted_ttl_ms; /* 0: no lease was made */
    int64_t sent_ns;        /* before the request that granted left; 0: when the call began */
};

struct prim_create {
    struct str key, value;
    struct str owner;               /* "" without a lease */
    int64_t ttl_ms;                 /* 0: no lease */
    coord_id lease_id;              /* for the new lease; drawn at random */
    const struct prim_claim *under; /* not NULL: no new lease, one more key of this one */
};
struct prim_cas {
    struct str key, value;
    uint64_t expected;              /* 0: absent */
    int64_t ttl_ms;                 /* COORD_TTL_KEEP, 0, or of a new lease */
    struct str owner;               /* of a new lease; with `claim`: that one's */
    coord_id lease_id;              /* for a new lease */
    const struct prim_claim *claim; /* the lease the caller says it has, or NULL */
};
struct prim_delete {
    struct str key;
    uint64_t expected; /* a revision, COORD_ANY, COORD_FORCE */
    const struct prim_claim *claim;
};
struct prim_acquire {
    struct str group, owner, value;
    uint32_t slot_count, flags, prefer_slot;
    int64_t ttl_ms, cooldown_ms;
    int64_t wait_ms; /* CAP_FIFO_WAIT only; else 0: prim waits */
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
    const char *name;      /* "file" */
    uint32_t renewals_max; /* a second, that the authority takes well; more is said in the note of
                              the capabilities. 0: no matter */
    uint32_t guards_max;   /* keys of kept claims that are watched (prim/guard.h); 0: none */
    uint32_t guards_alone; /* keys of a bucket with watches of their own; the next key has the whole
                              bucket watched. 0: no key shares a watch */
    coord_caps (*capabilities)(struct prim_backend *backend); /* cheap; may change while open */

    prim_create_fn *create;
    prim_cas_fn *cas;
    prim_remove_fn *remove;
    /* *ret_entry by prim_entry_make; only with OK. */
    prim_get_fn *get;
    prim_acquire_fn *acquire;
    prim_resize_fn *resize;
    /* *ret_holders by prim_holders_make, with all but the order of its rows; only with OK. */
    prim_holders_fn *holders;
    /* Checks that every key is still the claim's own. */
    prim_renew_fn *renew;
    /* key NULL: all of them and the lease. With attempt > 0, absence is OK/already. */
    prim_release_fn *release;
    /* A lease comes from elsewhere (import): check it as renew does, extend nothing, take up what
     * the backend keeps beside a lease. *ret_left_ms: what is left of it; -1: it is alive, and how
     * long is not known, so prim renews it. EXPIRED/deadline when that it is alive cannot be
     * shown. May be NULL, where a renewal refuses what is over: then prim renews instead. */
    prim_adopt_fn *adopt;

    /* Fills `feed` from threads of its own: first a snapshot, then changes, until unwatch, which
     * returns when the feed will not be touched again. */
    prim_watch_fn *watch;
    void (*unwatch)(struct prim_backend *backend, void *watch);

    /* Optional. The store is about to close: acquire() calls that wait at the authority end now,
     * with UNAVAILABLE/closed, and later ones do not wait. */
    void (*wake)(struct prim_backend *backend);

    /* Ends all threads. No call runs and no watch is open when it is called. */
    void (*close)(struct prim_backend *backend);

    const struct prim_ways *ways; /* change.h; NULL: the functions above are all its own */
};

/* The first member of every backend's own struct. */
struct prim_backend {
    const struct prim_backend_ops *ops;
    /* Set while the store is opened; they stay as they are. */
    struct prim_clock clock; /* of the store */
    struct prim_host *host;
    coord_id id;
    coord_limits limits;
    atomic_bool degraded; /* by prim_degrade */
};

/* The arguments of an opener; libmuster has the table scheme -> opener. */
struct prim_open {
    struct prim_url *url;         /* params are marked as they are asked for */
    const coord_options *options; /* never NULL */
    struct prim_clock clock;
    struct prim_host *host;
    int64_t deadline_ns;
};
/* First of all in an opener; `id` follows. */
static inline void prim_backend_init(struct prim_backend *backend,
                                     const struct prim_backend_ops *ops, const struct prim_open *in,
                                     coord_limits limits)
{
    *backend =
        (struct prim_backend){.ops = ops, .clock = in->clock, .host = in->host, .limits = limits};
}
/* C4, R5: reported once, from any thread. */
static inline void prim_degrade(struct prim_backend *backend, const char *why)
{
    if (!atomic_exchange(&backend->degraded, true)) backend->host->degraded(backend->host, why);
}
typedef coord_result prim_open_fn(const struct prim_open *in, struct prim_backend **ret_backend);
#endif
