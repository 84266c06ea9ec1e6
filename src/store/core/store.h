/* SPDX-License-Identifier: Apache-2.0 */
/* The store's state machine: keys, leases on the replicated clock, groups with waiters in order of
 * arrival, the answers of recent requests.
 *
 * Every call that changes it is an entry of the log: the time is the log's own clock (T, which only
 * moves while there is a leader), numbers come from the caller, nothing is drawn here. Before each
 * command, leases whose deadline T has reached end, in order (deadline, id), at most
 * STORE_EXPIRE_MAX of them and of their keys, each at one revision that deletes its keys in key
 * order. What is left over is due at once: store_next_due says when the leader must propose a tick.
 * One of more keys than STORE_SWEEP_KEYS ends in parts, before a command to itself.
 * So is every other work that comes in bulk: rests that end, clients forgotten, history pruned.
 *
 * Done, refused, repeated: a command that is refused is an answer, never an error. The quota
 * refuses writes that add (STORE_NO_SPACE); deletes, releases, renewals and compaction always work.
 * A request that was answered before, by (client, sequence), is answered the same again; what was
 * UNAVAILABLE is decided anew, and so is what a full store refused for another reason. Once answers
 * of a client were forgotten to make room, its requests up to the last of them are refused.
 *
 * A plain lease (STORE_LEASE_GRANT) has any number of plain keys: those that name it, kept by
 * keys.h. No claim is ever under one, so nothing of A7 depends on a number that anybody may say.
 *
 * Invariants, asserted before and after every part of a command, but for I3 and I4 (store.c):
 *   I1 The clock never goes back, and neither does the revision.
 *   I2 Every lease is in `leases` by its number, a part of its id, and in `due` by (deadline, id).
 *   I3 A key under "muster/" names a lease exactly while that lease has a claim on it.
 *   I4 A plain lease has no claims: its keys are those that name it.
 *   I5 A waiter has a lease of its own, and that lease has no claim.
 *   I6 Between commands no range deletion and no end of a lease is half done.
 *   I7 No answer names a revision that the store has not reached.
 *   I8 Nobody waits in a group while a slot of it could be given away.
 *
 * Claims are ordinary keys: what Coordination calls "a/b" is the key "muster/a/b" here, attached to
 * a lease, and a slot is "muster/<group>/slot-0007". The group itself, its waiters and the tokens
 * of claims are records beside the keys. */
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
    STORE_WAITERS_MAX = 10000, /* of one group */
    STORE_EXPIRE_MAX = 1024,   /* leases, and keys of them, that end before one command */
    STORE_RESULTS_MAX = 256,   /* kept for each client */
    STORE_PRUNE_CHANGES = 1024,
    STORE_SWEEP_KEYS = 1024, /* deleted by one part of a DELETE_RANGE */
};
/* The cluster level from which on tokens are checked, and a forgotten answer raises its client's
 * floor. Entries of a lower level are applied as releases of that level do. */
#define STORE_TOKENS_LEVEL     4u
#define STORE_CLAIMS           "muster/"                     /* in front of Coordination's keys */
#define STORE_CLIENT_SILENT_NS (600ull * 1000 * 1000 * 1000) /* of T: then its answers go */

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
    /* Who waited gave up or is gone; client and sequence are those of its ACQUIRE. A slot that it
     * was given meanwhile is freed, and its answer forgotten. */
    STORE_CANCEL_WAIT,
    STORE_RELEASE,
    STORE_RENEW, /* a batch */
    STORE_RESIZE,
    STORE_COMPACT,
    STORE_PUT, /* plain keys, without the rules of claims; `held`: a plain lease, or none */
    STORE_DELETE_RANGE,
    /* Leases of plain keys, which any client that knows the number may use: no owner, no proof. The
     * id is store_plain_lease(number). */
    STORE_LEASE_GRANT,
    STORE_LEASE_REVOKE, /* its keys go at one revision, in key order */
    STORE_TXN,
};
#define STORE_ANY       UINT64_MAX
#define STORE_FORCE     (UINT64_MAX - 1)
#define STORE_TTL_KEEP  (-1)
#define STORE_TAKEOVER  1u
#define STORE_NO_CREATE 2u
/* COMPACT: a revision without a change comes first, so that what the newest change replaced goes,
 * too. Of a full store that would be all there is, and nothing could be written to make another. */
#define STORE_COMPACT_ALL 1u
/* TXN: of one operation, and only that one's response is asked for. */
#define STORE_TXN_BARE 1u
#define STORE_NO_SLOT  UINT32_MAX

struct store_command { /* which fields count: see each; views */
    enum store_kind kind;
    /* Who asks, for the answers of repeats; a zero client is not remembered. `acked`: results of
     * smaller sequences are not asked for again; one that comes nevertheless came late, and is
     * refused as INVALID: nobody waits for it, and doing it again would be a second effect. */
    struct store_id client;
    uint64_t sequence, acked;
    struct str key, value, owner; /* key: of the group, too, with its prefix; end of a range: */
    struct str range_end;
    uint64_t expected; /* CAS, DELETE, RESIZE; COMPACT: the revision */
    int64_t ttl_ms;
    struct store_id lease; /* new one for CREATE, CAS, ACQUIRE; RELEASE's */
    struct store_id held;  /* CAS, DELETE, CREATE under: the lease the caller says it has */
    /* CAS, DELETE, RELEASE: of the claim, or for a whole lease of any claim under it; 0: a caller
     * of an earlier release, known by its lease alone. */
    uint64_t token;
    uint32_t slot_count, flags, prefer_slot;
    uint64_t cooldown_ms;
    bool wait; /* ACQUIRE: queue when full */
    const struct store_id *renew;
    const uint64_t *renew_tokens; /* one for each; NULL: none. Each as `token` */
    size_t renew_count;
    struct txn *txn;       /* TXN: checked by txn_check */
    struct txn_sink *sink; /* TXN: receives what it finds, or NULL */
};

/* Codes and reasons are those of muster/coord.h, as numbers. */
struct store_result {
    int code, reason;
    uint64_t revision, token, create_revision;
    int64_t granted_ttl_ms, hint_ms;
    uint32_t slot, live, slot_count;
    bool waiting;             /* ACQUIRE: queued; the answer comes as an event STORE_GRANTED */
    enum txn_refusal refusal; /* TXN */
    struct store_id lease;
    char owner[STORE_OWNER_MAX + 1];
};
/* RENEW answers each id by itself. */
struct store_renewal {
    int code, reason;
    int64_t granted_ttl_ms;
    uint64_t token; /* of who superseded it */
};

/* What happened beside the answer, in order; drained by the driver after each apply. Watches read
 * changes from keys.h; these are for who waits. */
enum store_event_kind { STORE_GRANTED, STORE_WAIT_ENDED, STORE_LEASE_ENDED };
struct store_event {
    enum store_event_kind kind;
    struct store_id lease;
    struct store_result result; /* GRANTED, WAIT_ENDED */
    int reason;                 /* LEASE_ENDED */
};

enum { STORE_OK_SPACE = 0, STORE_NO_SPACE = 1 };

struct store *store_open(const struct store_options *options); /* NULL: memory */
void store_close(struct store *store);                         /* NULL is fine */
/* Of the cluster, at the entries that follow; the newest until it is said. Not part of the
 * state. */
void store_set_level(struct store *store, uint32_t level);
/* `clock_ns` never goes back. `renewals` has room for renew_count. True: the command is not done, and
 * nothing else may be asked of the store but to read, which finds it as it was before, until
 * store_apply_more with the same command has returned false. */
bool store_apply_begin(struct store *store, uint64_t clock_ns, const struct store_command *command,
                       struct store_result *ret_result, struct store_renewal *renewals);
bool store_apply_more(struct store *store, const struct store_command *command,
                      struct store_result *ret_result);
bool store_event_next(struct store *store, struct store_event *ret_event);
/* T of what is due next (a deadline, the end of a rest); UINT64_MAX: nothing. At most
 * the present T when some are left over, or history that is compacted but not yet freed. */
uint64_t store_next_due(const struct store *store);
/* Grows with what commands cost: records made, changed and freed. */
uint64_t store_work(const struct store *store);

/* -- reading -- */
const struct keys *store_keys(const struct store *store);
uint64_t store_clock_ns(const struct store *store);        /* T of the last command */
struct store_id store_identity(const struct store *store); /* zero until STORE_TICK made one */
struct store_claim {                                       /* of a leased key */
    struct store_id lease;
    struct str owner;
    uint64_t token;
    int64_t ttl_ms, remaining_ms; /* remaining at `clock_ns` */
};
/* False: not a claim, or its lease is past its deadline at `clock_ns`. */
bool store_claim_of(const struct store *store, struct str key, uint64_t clock_ns,
                    struct store_claim *ret_claim);
/* -- plain leases, by what keys name them with -- */
/* Of a plain one all 64 bits, as etcd's clients say it; of the others 63. */
uint64_t store_lease_number(const struct store_id *id);
struct store_id store_plain_lease(int64_t number);
bool store_lease_is_plain(const struct store_id *id); /* and not number 0, which is none */
struct store_lease {
    int64_t number, ttl_ms, remaining_ms; /* remaining at `clock_ns`; 0: its end is due */
};
/* False: none such, or not a plain one. */
bool store_lease_of(const struct store *store, int64_t number, uint64_t clock_ns,
                    struct store_lease *ret_lease);
size_t store_lease_key_count(const struct store *store, int64_t number);
/* The next of its keys, up to `cap`, in key order, behind those that `walk` has had ({0}: none). 0:
 * there are no more. Valid until the store changes. */
struct store_lease_walk {
    struct str last;
    size_t count;
};
size_t store_lease_keys_next(const struct store *store, int64_t number,
                             struct store_lease_walk *walk, struct str *out, size_t cap);
/* All of them, the one that ends first coming first; begin with *place = store_leases(). Valid
 * until the store changes. */
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
uint64_t store_hash(const struct store *store); /* of everything replicated */

/* -- snapshot: the view of one moment (section/section.h); restore -- */
/* A struct section_view, for section_view_next() and section_view_close(). ERR_FULL: one is open.
 * ERR_NOMEM. */
enum err store_view_open(struct store *store, void **ret_view);
/* Bytes in any portions, or none at all: an empty store. ERR_CORRUPT, ERR_VERSION with a note that
 * says at which byte of the section. */
struct store_restore;
struct store_restore *store_restore_open(const struct store_options *options);
enum err store_restore_feed(struct store_restore *restore, struct str bytes, struct note *note);
enum err store_restore_done(struct store_restore *restore, struct store **ret_store,
                            struct note *note);
void store_restore_close(struct store_restore *restore);
/* History was lost (a restore from an old copy, force-config; B6.4, R5): a new identity, and
 * revisions, which are the tokens too, go on at recovery_above(). What was compacted before that
 * stays so, and so is the rest: a watch from before must not go on. Leases that live have their
 * whole TTL again: their holders may have renewed them in the history that is lost. */
void store_replace_identity(struct store *store, uint64_t clock_ns, const struct store_id *identity,
                            uint64_t floor);
#endif
