/* SPDX-License-Identifier: Apache-2.0 */
/* A change of one key: read the key, judge, write it if it is still what was read, else read again.
 *
 * A store needs one atomic step for this: the conditional write of one key. Its backend fills struct
 * prim_ways and puts PRIM_CHANGE_OPS into its table. Every stored value is an envelope.
 * A deleted key stays as a tombstone, so that a repeated request finds its own request id.
 *
 * A write without an answer is in doubt until a read shows its outcome. A lease counts from before
 * the write that granted it left. When that time is unknown, the lease is renewed once first. */
#ifndef PRIM_CHANGE_H
#define PRIM_CHANGE_H
#include "prim/backend.h"
#include "prim/envelope.h"

enum { PRIM_CHANGE_TTL_STEP_MS = 1000 }; /* leases are granted for whole seconds */

/* A key as a read showed it. */
enum prim_seen_kind {
    PRIM_SEEN_NOTHING, /* no record */
    PRIM_SEEN_LIVE,
    PRIM_SEEN_TOMBSTONE, /* deleted or released through this library */
    PRIM_SEEN_EXPIRED,   /* the store ended it: its time was up */
    PRIM_SEEN_DELETED,   /* by somebody else, without a tombstone */
    PRIM_SEEN_FOREIGN,   /* no record of ours, or a damaged one */
};
struct prim_seen {
    enum prim_seen_kind kind;
    bool over;                      /* LIVE, but its holder counts as gone: free to be taken */
    bool barred;                    /* LIVE or a tombstone, but others coordinate by this record */
    struct claim_envelope envelope; /* LIVE and TOMBSTONE, else zero; borrowed from the backend */
    uint64_t revision, create_revision;
    uint64_t token;          /* of the lease; 0: not leased */
    int64_t ttl_ms, left_ms; /* of the lease; left_ms -1: not leased, or not known. EXPIRED: for
                                how long nobody takes the slot */
    uint64_t sequence;       /* a number, or */
    const void *record;      /* what it is made of: the backend's own */
};
static inline bool prim_seen_is_live(const struct prim_seen *seen)
{
    return seen->kind == PRIM_SEEN_LIVE && !seen->over;
}
/* Is it what the claim holds under `key`? */
bool prim_seen_is_claims(const struct prim_seen *seen, const struct prim_claim *claim,
                         struct str key);
/* EXPIRED, and why: it is not what the lease holds any more. */
coord_result prim_seen_lost(const struct prim_seen *seen, const coord_id *lease_id);
/* With revision, token, owner and how long it has left. */
void prim_seen_answer(const struct prim_seen *seen, coord_result *result);

/* What the key shall be. */
enum prim_act {
    PRIM_ACT_NONE,
    PRIM_ACT_MAKE,   /* a new entry, over whatever is there */
    PRIM_ACT_GRANT,  /* the same entry under a new lease */
    PRIM_ACT_UPDATE, /* the same entry and grant with another value, or without a lease */
    PRIM_ACT_RENEW,  /* the same again: only time passes */
    PRIM_ACT_BURY,   /* a tombstone */
};
struct prim_plan {
    enum prim_act act;
    struct claim_envelope envelope; /* revision and token 0: the backend knows them by `act` */
    coord_result result;            /* of the change, once written, or at once */
};

struct prim_change {
    struct prim_backend *backend;
    const struct prim_call *call;
    enum coord_op op;
    struct str key;
    /* Says what is to be done about c->seen. */
    void (*judge)(struct prim_change *c, struct prim_plan *ret_plan);
    const void *in;                 /* the judge's own, to read */
    void *out;                      /* and to write */
    const struct prim_claim *claim; /* of the holder that renews or releases; else NULL */
    const struct prim_claim *held;  /* that the caller says it has; NULL: none */
    const struct prim_claim *under; /* a new entry joins this lease; NULL: a lease of its own */
    const coord_id *lease_id;       /* of the lease that the change may make; NULL: it makes none */
    uint64_t expected;              /* the revision that the caller knows; 0: none */
    struct prim_change *record;     /* of a group's list, for a change inside it; else NULL */
    const struct prim_seen *known;  /* from a list: saves the first read */
    bool reads;                     /* nothing is written: nothing is in doubt */
    bool stale;                     /* and what is read need not be the latest */
    bool guesses;                   /* the backend may guess what is there instead of reading it */
    bool makes;                     /* the key may be new: the backend may prepare its place */
    bool once;                      /* CONFLICT/revision at once when another was faster */

    /* As it goes on; `seen` is written by the backend, too. */
    struct prim_seen seen;
    bool fresh;        /* `seen` is what refused the last write: it need not be read again */
    enum prim_act act; /* of the last write */
    uint32_t turns;
    bool doubt;              /* a write of this request may have been applied */
    int64_t doubt_sent_ns;   /* before the first such write of this very call left; 0: none */
    int64_t sent_ns;         /* before the last write left */
    struct prim_grant grant; /* with OK: the entry as it is now */
    void *own;               /* the backend's */
};
/* For the backend: the write that left at sent_ns may have been applied. */
void prim_change_doubt(struct prim_change *c, int64_t sent_ns);
coord_result prim_change_run(struct prim_change *c);

enum prim_wrote {
    PRIM_WROTE,      /* c->seen is the key as it is now */
    PRIM_WROTE_RACE, /* another was faster, or the outcome is in doubt: read again and judge */
    PRIM_WROTE_NOT,  /* *ret_why says why; final */
};
/* A group as one look at it showed it. */
struct prim_slots {
    struct prim_seen record;
    uint32_t count; /* 0: there is no group */
    int64_t cooldown_ms;
    uint32_t room; /* of `at`; set before prim_slots_begin where slots above `count` are held */
    struct prim_seen *at;
    void *own; /* the backend's */
};
/* Takes the record; makes room for its slots. UNAVAILABLE/corrupt when it is none. */
coord_result prim_slots_begin(struct prim_slots *slots, const struct prim_seen *record);

struct prim_ways {
    bool dense;     /* every change of a key adds one to its revision */
    bool traceless; /* a deleted key leaves no tombstone */
    bool expects;   /* guess() takes c->expected and c->held for what is there, too */

    /* c->own, until end(); NULL: no memory. */
    void *(*begin)(struct prim_change *c);
    void (*end)(struct prim_change *c, const coord_result *result);
    /* Sets c->seen to what the key probably is; false: it must be read. May be NULL. */
    bool (*guess)(struct prim_change *c);
    coord_result (*read)(struct prim_change *c); /* c->seen */
    enum prim_wrote (*write)(struct prim_change *c, const struct prim_plan *plan,
                             coord_result *ret_why);
    /* The answer to a change of such a key (FOREIGN, or barred). NULL: there are none. */
    coord_result (*foreign)(const struct prim_change *c);
    /* The group whose record is c->key, with c->own: by prim_slots_begin, then the slots. Slots may be
     * left out when the group has not the number that is wanted (0: any). list_end() in any case,
     * if it is not NULL. */
    coord_result (*list)(struct prim_change *c, struct str group, uint32_t wanted,
                         struct prim_slots *slots);
    void (*list_end)(struct prim_slots *slots);
};

/* -- operations of a backend's table; renew: a claim has one key at most. CAP_SHRINK promises that a
 * slot is not taken when its group has changed, CAP_LIST_ATOMIC that a list is of one instant -- */
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

/* Of the answers for several keys of a release the caller gets the one with the highest rank. */
int prim_release_rank(const coord_result *result);

/* For the slots: a new entry where none is, or over the same owner's. */
struct prim_make {
    struct str value, owner;
    int64_t ttl_ms; /* 0: no lease */
    coord_id lease_id;
    uint32_t flags;          /* of the envelope */
    int made, code, present; /* reason when made; code and reason when an entry is there */
    bool takeover;
};
void prim_change_judge_make(struct prim_change *c, struct prim_plan *plan);
bool prim_change_is_replay(const struct prim_change *c);
/* Before each turn but the first: a pause. False: turns or time are used up, UNAVAILABLE. */
bool prim_change_next_turn(struct prim_change *c, coord_result *ret_why);
#endif
