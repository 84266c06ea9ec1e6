/* SPDX-License-Identifier: Apache-2.0 */
/* The store's state machine: keys, leases, groups with waiters, and the answers of recent requests.
 *
 * Every change is an entry of the log. Time is the log's clock T, which moves only while there is a
 * leader. Random numbers come from the caller.
 *
 * Before each command, leases whose deadline T has reached end in the order (deadline, id), at most
 * STORE_EXPIRE_MAX per command. Each end deletes the lease's keys in key order at one revision. A
 * lease of more than STORE_SWEEP_KEYS keys ends in parts, by a command of its own.
 *
 * A refused command is an answer, never an error. The quota refuses writes that add data
 * (STORE_NO_SPACE). Deletes, releases, renewals and compactions always work. A retry has the same
 * (client, sequence) and gets the stored answer. Refusals of a full store, and UNAVAILABLE, are not
 * stored.
 *
 * Any client can name the number of a plain lease (STORE_LEASE_GRANT), so claims never belong to a
 * plain lease.
 *
 * Invariants, asserted before and after every part of a command, except I3 and I4 (store.c):
 * I1 The clock and the revision never decrease.
 * I2 Every lease is in `leases` by number, a part of its id, and in `due` by (deadline, id).
 * I3 A key under "muster/" names a lease exactly while that lease has a claim on the key.
 * I4 A plain lease has no claims: its keys are the keys that name it.
 * I5 A waiter has a lease of its own, and that lease has no claim.
 * I6 Between commands no range deletion and no end of a lease is in progress.
 * I7 No answer names a revision that the store has not reached.
 * I8 No request waits in a group that has a slot to give away.
 *
 * Claims are keys: Coordination's "a/b" is the key "muster/a/b", attached to a lease. A slot is
 * "muster/<group>/slot-0007". */
#ifndef STORE_CORE_STORE_H
#define STORE_CORE_STORE_H
#include <string.h>

#include "base/buf.h"
#include "base/note.h"
#include "store/core/keys.h"
#include "store/core/txn.h"

enum {
    STORE_KEY_MAX = 1024,
    STORE_VALUE_MAX = 1048576,
    STORE_OWNER_MAX = 128,
    STORE_SLOTS_MAX = 1024,
    STORE_KEYS_PER_LEASE_MAX = 1024,
    STORE_WAITERS_MAX = 10000, /* for each group */
    STORE_EXPIRE_MAX = 1024,   /* leases, and keys of leases, that may end before one command */
    STORE_RESULTS_MAX = 256,   /* kept for each client */
    STORE_PRUNE_CHANGES = 1024,
    STORE_SWEEP_KEYS = 1024, /* keys deleted by one part of a DELETE_RANGE */
};
/* From this cluster level on, tokens are checked, and dropping a stored answer also refuses the
 * client's smaller sequences. Entries of a lower level apply as in older releases. */
#define STORE_TOKENS_LEVEL 4u
#define STORE_CLAIMS       "muster/" /* prefix of Coordination's keys */
/* The answers of a client that sent no request for this time are dropped. */
#define STORE_CLIENT_SILENT_NS (600ull * 1000 * 1000 * 1000)

struct store_id {
    uint8_t b[16];
};
static inline struct str store_id_text(const struct store_id *id)
{
    return str_of(id->b, sizeof id->b);
}
static inline bool store_id_equal(const struct store_id *a, const struct store_id *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}
static inline bool store_id_none(const struct store_id *id)
{
    static const struct store_id zero;

    return store_id_equal(id, &zero);
}
struct store;

struct store_options {
    uint64_t quota_bytes; /* the same on every replica; 0: 2 GiB */
};

/* -- commands -- */
enum store_kind {
    STORE_TICK = 1,
    STORE_CREATE,
    STORE_CAS,
    STORE_DELETE,
    STORE_ACQUIRE,
    /* A waiter gave up or disconnected. Client and sequence are those of its ACQUIRE. A slot
     * granted meanwhile is freed. */
    STORE_CANCEL_WAIT,
    STORE_RELEASE,
    STORE_RENEW, /* a batch of leases */
    STORE_RESIZE,
    STORE_COMPACT,
    STORE_PUT, /* a plain key, not a claim; `held`: its plain lease, or none */
    STORE_DELETE_RANGE,
    /* A lease of plain keys: any client that knows its number may use it. Its id is
     * store_plain_lease(number). */
    STORE_LEASE_GRANT,
    STORE_LEASE_REVOKE, /* deletes the lease's keys at one revision, in key order */
    STORE_TXN,
};
#define STORE_ANY       UINT64_MAX
#define STORE_FORCE     (UINT64_MAX - 1)
#define STORE_TTL_KEEP  (-1)
#define STORE_TAKEOVER  1u
#define STORE_NO_CREATE 2u
/* Flag of COMPACT: first creates an empty revision, so that versions which the newest change
 * replaced are compacted, too. A full store may have nothing else to compact. */
#define STORE_COMPACT_ALL 1u
/* Flag of TXN: only the response of its one operation is returned. */
#define STORE_TXN_BARE 1u
#define STORE_NO_SLOT  UINT32_MAX

struct store_command { /* points to the caller's data; `kind` decides which fields are used */
    enum store_kind kind;
    /* A retry with the same client and sequence gets the first answer. Answers to a zero client are
     * not stored. The client will not retry sequences below `acked`: later arrivals are INVALID. */
    struct store_id client;
    uint64_t sequence, acked;
    struct str key, value, owner; /* `key`: an entry or a group, with the prefix */
    struct str range_end;
    uint64_t expected; /* the revision that CAS, DELETE, RESIZE expect; the revision of COMPACT */
    int64_t ttl_ms;
    struct store_id lease; /* the new lease of CREATE, CAS, ACQUIRE; the lease to RELEASE */
    struct store_id held;  /* CAS, DELETE, CREATE: the lease that the caller claims to hold */
    /* CAS, DELETE, RELEASE: a token of a claim of the lease. 0: the caller is of an older release
     * and proves only the lease. */
    uint64_t token;
    uint32_t slot_count, flags, prefer_slot;
    uint64_t cooldown_ms;
    bool wait; /* ACQUIRE: wait in the queue if no slot is free */
    const struct store_id *renew;
    const uint64_t *renew_tokens; /* one per lease in `renew`; NULL: no tokens */
    size_t renew_count;
    struct txn *txn;       /* TXN: must have passed txn_check */
    struct txn_sink *sink; /* TXN: receives the results; may be NULL */
};

/* codes and reasons of muster/coord.h */
struct store_result {
    int code, reason;
    uint64_t revision, token, create_revision;
    int64_t granted_ttl_ms, hint_ms;
    uint32_t slot, live, slot_count;
    bool waiting;             /* ACQUIRE waits: the answer follows as an event STORE_GRANTED */
    enum txn_refusal refusal; /* for TXN */
    struct store_id lease;
    char owner[STORE_OWNER_MAX + 1];
};
struct store_renewal {
    int code, reason;
    int64_t granted_ttl_ms;
    uint64_t token; /* the token of the new holder, if another holder superseded the lease */
};

/* Effects of a command besides its answer, in order. The driver passes them to waiting calls. */
enum store_event_kind { STORE_GRANTED, STORE_WAIT_ENDED, STORE_LEASE_ENDED };
struct store_event {
    enum store_event_kind kind;
    struct store_id lease;
    struct store_result result; /* set for GRANTED and WAIT_ENDED */
    int reason;                 /* set for LEASE_ENDED */
};

enum { STORE_OK_SPACE = 0, STORE_NO_SPACE = 1 };

struct store *store_open(const struct store_options *options); /* NULL: no memory */
void store_close(struct store *store);                         /* NULL is fine */
/* The cluster level of the entries that follow; the default is the newest. Not part of the
 * state. */
void store_set_level(struct store *store, uint32_t level);
/* Executes a command at `clock_ns`, which never decreases. `renewals` has room for renew_count
 * results. Returns true if the command takes more turns: call store_apply_more() until it returns
 * false. Meanwhile only reads are allowed, and they show the old state. */
bool store_apply_begin(struct store *store, uint64_t clock_ns, const struct store_command *command,
                       struct store_result *ret_result, struct store_renewal *renewals);
bool store_apply_more(struct store *store, const struct store_command *command,
                      struct store_result *ret_result);
bool store_event_next(struct store *store, struct store_event *ret_event);
/* When the next lease or cool-down ends, on the store's clock; UINT64_MAX: never. A past time means
 * that expired leases or compacted history still have to be removed. */
uint64_t store_next_due(const struct store *store);
/* counts the work of commands: records created, changed and freed */
uint64_t store_work(const struct store *store);

/* -- reading -- */
const struct keys *store_keys(const struct store *store);
uint64_t store_clock_ns(const struct store *store);        /* lease clock T at the last command */
struct store_id store_identity(const struct store *store); /* zero until a STORE_TICK has set it */
struct store_claim {
    struct store_id lease;
    struct str owner;
    uint64_t token;
    int64_t ttl_ms, remaining_ms; /* remaining at `clock_ns` */
};
/* false: the key is not a claim, or its lease has expired at `clock_ns` */
bool store_claim_of(const struct store *store, struct str key, uint64_t clock_ns,
                    struct store_claim *ret_claim);
/* -- plain leases, by number -- */
/* The lease number that keys name: 64 bits for a plain lease, 63 bits for others. */
uint64_t store_lease_number(const struct store_id *id);
struct store_id store_plain_lease(int64_t number);
bool store_lease_is_plain(const struct store_id *id); /* false for number 0, which means no lease */
struct store_lease {
    int64_t number, ttl_ms, remaining_ms; /* remaining at `clock_ns`; 0: the lease has expired */
};
/* false: the lease does not exist or is not plain */
bool store_lease_of(const struct store *store, int64_t number, uint64_t clock_ns,
                    struct store_lease *ret_lease);
size_t store_lease_key_count(const struct store *store, int64_t number);
/* Each call returns up to `cap` further keys in key order, and 0 after the last key. Begin with a
 * zeroed walk. Keys are valid until the store changes. */
struct store_lease_walk {
    struct str last;
    size_t count;
};
size_t store_lease_keys_next(const struct store *store, int64_t number,
                             struct store_lease_walk *walk, struct str *out, size_t cap);
/* All plain leases by deadline. Begin with *place = store_leases(). *place is valid until the store
 * changes. */
struct order_place store_leases(const struct store *store);
bool store_lease_next(const struct store *store, struct order_place *place, uint64_t clock_ns,
                      struct store_lease *ret_lease);
struct store_group {
    uint32_t slot_count, live, waiters;
    uint64_t revision, cooldown_ms;
};
bool store_group_of(const struct store *store, struct str group, struct store_group *ret_group);
struct store_sizes {
    uint64_t bytes, quota, leases, groups, waiters, clients;
    bool no_space;
};
struct store_sizes store_sizes(const struct store *store);
uint64_t store_hash(const struct store *store); /* hash of the replicated state */

/* -- snapshot: a view of the state (section/section.h), and restore -- */
/* Returns a struct section_view for section_view_next() and section_view_close(). ERR_FULL: another
 * view is open. */
enum err store_view_open(struct store *store, void **ret_view);
/* Restores a store from bytes in portions of any size; no bytes at all give an empty store. Notes
 * of ERR_CORRUPT and ERR_VERSION have the offset of the wrong byte. */
struct store_restore;
struct store_restore *store_restore_open(const struct store_options *options);
enum err store_restore_feed(struct store_restore *restore, struct str bytes, struct note *note);
enum err store_restore_done(struct store_restore *restore, struct store **ret_store,
                            struct note *note);
void store_restore_close(struct store_restore *restore);
/* After a restore from an old copy, or force-config (B6.4, R5). Revisions continue at
 * recovery_above(), and earlier revisions are compacted, so that no earlier watch resumes. Leases
 * get their whole TTL again, because holders may have renewed them in the lost history. */
void store_replace_identity(struct store *store, uint64_t clock_ns, const struct store_id *identity,
                            uint64_t floor);
#endif
