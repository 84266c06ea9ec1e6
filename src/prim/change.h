/* SPDX-License-Identifier: Apache-2.0 */
/* A change of one key as an optimistic loop: read the key, judge it, write conditionally, and
 * start again if the key has changed. The store needs only a conditional write of one key: the
 * backend fills struct prim_ways and uses PRIM_CHANGE_OPS.
 *
 * Every stored value is an envelope. A deleted key stays as a tombstone, so that a repeated
 * request finds its own request id. A write without an answer is in doubt until a read shows its
 * outcome. A lease counts from the time before its granting write was sent, and is renewed first
 * if this time is unknown. */
#ifndef PRIM_CHANGE_H
#define PRIM_CHANGE_H
#include "prim/backend.h"
#include "prim/envelope.h"

enum { PRIM_CHANGE_TTL_STEP_MS = 1000 }; /* leases are granted in whole seconds */

enum prim_seen_kind {
    PRIM_SEEN_NOTHING,
    PRIM_SEEN_LIVE,
    PRIM_SEEN_TOMBSTONE, /* deleted or released through this library */
    PRIM_SEEN_EXPIRED,   /* removed by the store: the lease expired */
    PRIM_SEEN_DELETED,   /* deleted by another program, without a tombstone */
    PRIM_SEEN_FOREIGN,   /* no record of this library, or a damaged record */
};
struct prim_seen {
    enum prim_seen_kind kind;
    bool over;                      /* LIVE, but its holder counts as gone: the key may be taken */
    bool barred;                    /* LIVE or TOMBSTONE, but another program uses the record */
    struct claim_envelope envelope; /* if LIVE or TOMBSTONE; owned by the backend */
    uint64_t revision, create_revision;
    uint64_t token; /* token of the lease; 0: not leased */
    /* left_ms -1: no lease, or unknown; if EXPIRED: the slot's remaining cool-down */
    int64_t ttl_ms, left_ms;
    uint64_t sequence; /* record version, if the backend has versions */
    const void *record;
};
static inline bool prim_seen_is_live(const struct prim_seen *seen)
{
    return seen->kind == PRIM_SEEN_LIVE && !seen->over;
}
bool prim_seen_is_claims(const struct prim_seen *seen, const struct prim_claim *claim,
                         struct str key);
/* EXPIRED with the reason why the lease no longer holds the key. */
coord_result prim_seen_lost(const struct prim_seen *seen, const coord_id *lease_id);
void prim_seen_answer(const struct prim_seen *seen, coord_result *result);

enum prim_act {
    PRIM_ACT_NONE,
    PRIM_ACT_MAKE,   /* a new entry in place of any record */
    PRIM_ACT_GRANT,  /* the same entry with a new lease */
    PRIM_ACT_UPDATE, /* a new value under the same grant, or without the lease */
    PRIM_ACT_RENEW,  /* the same entry again, to extend the lease */
    PRIM_ACT_BURY,
};
struct prim_plan {
    enum prim_act act;
    struct claim_envelope envelope; /* revision and token 0: the backend sets both */
    coord_result result;            /* returned after the write; for NONE, without a write */
};

struct prim_change {
    struct prim_backend *backend;
    const struct prim_call *call;
    enum coord_op op;
    struct str key;
    void (*judge)(struct prim_change *c, struct prim_plan *ret_plan);
    const void *in;
    void *out;
    const struct prim_claim *claim; /* claim of a holder that renews or releases; else NULL */
    const struct prim_claim *held;  /* lease that the caller claims to hold; NULL: none */
    const struct prim_claim *under; /* a new entry joins this lease; NULL: its own lease */
    const coord_id *lease_id;       /* for a lease that the change may make; NULL: none */
    uint64_t expected;              /* the revision that the caller expects; 0: none */
    struct prim_change *record;     /* for a slot: the change of its group's record; else NULL */
    const struct prim_seen *known;  /* the key's record from a list, instead of a first read */
    bool reads;                     /* the change only reads: no write can be in doubt */
    bool stale;                     /* with `reads`: older data is allowed */
    bool guesses;                   /* the backend may guess the record without a read */
    bool makes;                     /* the key may be new: the backend may prepare storage */
    bool once;                      /* no retry: CONFLICT/revision if another writer was faster */

    /* State of the loop. The backend writes `seen`, too. */
    struct prim_seen seen;
    bool fresh; /* the failed write returned `seen`: no read is needed */
    enum prim_act act;
    uint32_t turns;
    bool doubt;              /* a write of this request may have been applied */
    int64_t doubt_sent_ns;   /* time before this call's first write in doubt; 0: none */
    int64_t sent_ns;         /* time before the last write was sent */
    struct prim_grant grant; /* if OK: the entry after the change */
    void *own;               /* the backend's own data */
};
/* The backend calls this if the write sent at sent_ns may have been applied. */
void prim_change_doubt(struct prim_change *c, int64_t sent_ns);
coord_result prim_change_run(struct prim_change *c);

enum prim_wrote {
    PRIM_WROTE,      /* c->seen is the record just written */
    PRIM_WROTE_RACE, /* another write was first, or this write is in doubt: read and judge again */
    PRIM_WROTE_NOT,  /* no retry; *ret_why has the reason */
};
struct prim_slots {
    struct prim_seen record;
    uint32_t count; /* 0: the group does not exist */
    int64_t cooldown_ms;
    uint32_t room; /* elements of `at`; set before prim_slots_begin if higher slots are held */
    struct prim_seen *at;
    void *own; /* the backend's own data */
};
/* Reads the group record and allocates its slots. UNAVAILABLE/corrupt: no group record. */
coord_result prim_slots_begin(struct prim_slots *slots, const struct prim_seen *record);

struct prim_ways {
    bool dense;     /* every change of a key increases its revision by one */
    bool traceless; /* a deleted key leaves no tombstone */
    bool expects;   /* guess() assumes that c->expected and c->held are correct */

    /* Returns c->own, which end() frees. NULL: out of memory. */
    void *(*begin)(struct prim_change *c);
    void (*end)(struct prim_change *c, const coord_result *result);
    /* Guesses c->seen. False: the key must be read. May be NULL. */
    bool (*guess)(struct prim_change *c);
    coord_result (*read)(struct prim_change *c);
    enum prim_wrote (*write)(struct prim_change *c, const struct prim_plan *plan,
                             coord_result *ret_why);
    /* Returns the result for a FOREIGN or barred key. NULL: there are no such keys. */
    coord_result (*foreign)(const struct prim_change *c);
    /* Lists the group of c->key: calls prim_slots_begin, then adds the slots. If the group has
     * another slot count than `wanted` (0: any), the slots may be left out. list_end(), if not
     * NULL, follows every list, also after an error. */
    coord_result (*list)(struct prim_change *c, struct str group, uint32_t wanted,
                         struct prim_slots *slots);
    void (*list_end)(struct prim_slots *slots);
};

/* -- operations for a backend's table --
 *
 * Renewals are for claims with at most one key. CAP_SHRINK: no slot is taken after its group has
 * changed. CAP_LIST_ATOMIC: a list shows one instant. */
prim_create_fn prim_change_create;
prim_cas_fn prim_change_cas;
prim_remove_fn prim_change_remove;
prim_get_fn prim_change_get;
prim_renew_fn prim_change_renew;
prim_release_fn prim_change_release;
prim_acquire_fn prim_change_acquire;
prim_resize_fn prim_change_resize;
prim_holders_fn prim_change_holders;
/* clang-format off */
#define PRIM_CHANGE_OPS                                                                            \
    .remove = prim_change_remove, .get = prim_change_get, .acquire = prim_change_acquire,          \
    .resize = prim_change_resize, .holders = prim_change_holders
/* clang-format on */

/* A release of several keys returns the key's result with the highest rank. */
int prim_release_rank(const coord_result *result);

struct prim_make {
    struct str value, owner;
    int64_t ttl_ms; /* of a new lease; 0: no lease */
    coord_id lease_id;
    uint32_t flags;
    int made, code, present; /* made: reason of success; code, present: result if the key exists */
    bool takeover;
};
void prim_change_judge_make(struct prim_change *c, struct prim_plan *plan);
bool prim_change_is_replay(const struct prim_change *c);
/* Pauses before each turn but the first. False: UNAVAILABLE, because turns or time are used up. */
bool prim_change_next_turn(struct prim_change *c, coord_result *ret_why);
#endif
