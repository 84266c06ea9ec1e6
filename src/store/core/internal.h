/* SPDX-License-Identifier: Apache-2.0 */
/* The records beside the keys. Inside store/core only. */
#ifndef STORE_CORE_INTERNAL_H
#define STORE_CORE_INTERNAL_H
#include <muster/coord.h> /* codes and reasons only */

#include "base/bytes.h"
#include "base/list.h"
#include "base/map.h"
#include "section/section.h"
#include "store/core/must.h"
#include "store/core/store.h"

struct lease;
struct group;

/* Kinds of rows in a snapshot beside the keys. */
enum store_row { ROW_LEASE, ROW_GROUP, ROW_WAITER, ROW_CLIENT };
/* Records of a snapshot, by the byte in front of each; view.c has their order. */
enum store_record {
    RECORD_HEAD = 'H',    /* version, clock, identity, marks, uses */
    RECORD_VERSION = 'V', /* of a key: in key order, old to new */
    RECORD_LEASE = 'L',   /* with its claims */
    RECORD_GROUP = 'G',   /* with its slots */
    RECORD_WAITER = 'W',  /* with its place in the queue */
    RECORD_CLIENT = 'C',  /* with its answers */
    RECORD_HASH = 'E',    /* of the whole: a restore must reach it again */
};
enum slot_state {
    SLOT_LEASED = 'l',
    SLOT_RESTING = 'r',
    SLOT_FREE = 'f'
}; /* in a group's record */
/* What goes into the state's hash, by the seed of each. */
enum store_hashed {
    HASHED_LEASE = 'L',
    HASHED_CLAIM = 'C',
    HASHED_GROUP = 'G',
    HASHED_REST = 'R',
    HASHED_ANSWER = 'A',
    HASHED_FLOOR = 'F',
};

/* One key of a lease. */
struct claim {
    char *key; /* with its length; NUL-terminated for nobody */
    uint32_t key_len;
    uint64_t token;
    struct group *group; /* NULL: a plain key */
    uint32_t slot;
};
struct lease {
    uint8_t due[8];     /* the deadline, big endian: rows of `due` are ordered by it, then by id */
    struct store_id id; /* proof of ownership */
    uint64_t number;    /* what keys name it by */
    uint64_t deadline_ns, ttl_ns;
    struct claim *claims;
    uint32_t claim_count, claim_cap;
    struct slot_waiter *waiter; /* its place in a queue, or NULL */
    struct section_row row;
    int lost_reason; /* superseded or revoked: renewals are over */
    uint64_t lost_token;
    uint32_t owner_len;
    char owner[];
};
/* Who waits for a slot: a lease of its own that keeps it in the queue, and whom to answer. */
struct slot_waiter {
    struct list in_group;
    struct group *group;
    struct lease *lease;
    struct store_id client;
    uint64_t sequence, place; /* place: grows with who comes later */
    struct section_row row;
    uint32_t prefer_slot, value_len;
    char value[];
};
struct group_slot {
    struct lease *lease; /* NULL: free, or at rest */
    uint64_t rest_until_ns;
};
struct group {
    uint64_t cooldown_ns, revision;
    uint32_t slot_count, slot_cap, live; /* slot_cap: with those left over by a shrink */
    uint32_t waiter_count;
    struct group_slot *slots;
    struct list waiters; /* first come, first served */
    uint32_t rests;      /* slots with rest_until_ns set */
    struct section_row row;
    uint8_t due[8]; /* of the first rest that ends, while rests > 0 */
    uint32_t key_len;
    char key[]; /* "muster/jobs/indexer" */
};
struct answer {
    uint64_t sequence;
    uint32_t fingerprint; /* of the request: the same id with other arguments is a mistake */
    struct store_result result;
};
struct store_client {
    struct list by_use;
    struct store_id id;
    uint64_t seen_ns, use; /* use: in the order of by_use, also in a snapshot */
    uint64_t floor;        /* smaller sequences are over: what comes of them came late */
    uint32_t count;
    struct section_row row;
    struct answer *answers; /* STORE_RESULTS_MAX at most, in the order they were decided */
};
struct store {
    struct store_options options;
    struct keys *keys;
    struct store_id identity;
    uint32_t level; /* of the cluster, at this entry */
    uint64_t clock_ns;
    uint64_t bytes;                     /* of the records here; keys count their own */
    struct map leases, groups, clients; /* leases: by number */
    struct order due, rests;
    struct order_kind due_kind, rest_kind;
    struct list clients_by_use; /* the one silent for longest first */
    struct store_event *events;
    size_t event_count, event_cap, event_next;
    uint64_t waiters, hash, uses, work;
    struct section section; /* of a snapshot */
    struct {                /* a DELETE_RANGE on its way */
        bool on;
        uint32_t found;
    } sweep;
    struct {                 /* a plain lease of many keys that ends in parts */
        struct lease *lease; /* NULL: none does */
        int reason;
        size_t deleted; /* keys */
    } ending;
    struct {               /* a command on its way */
        bool on, expired;  /* expired: all that ends before it has ended */
        uint64_t revision; /* when it began */
        struct store_renewal *renewals;
    } part;
};

struct store_result store_answer(int code, int reason);
/* Room for `bytes` more under the quota. */
bool store_has_room(const struct store *store, uint64_t bytes);
void store_event(struct store *store, const struct store_event *event);
/* A step that puts one key: its revision. */
uint64_t store_put(struct store *store, struct str key, struct str value, uint64_t lease);
/* Records go into and out of the state's hash as they change: an id, if they have one, and numbers,
 * of which STORE_TOGGLE takes up to six. */
void store_toggle(struct store *store, enum store_hashed kind, const struct store_id *id,
                  const uint64_t *numbers, size_t count);
#define STORE_TOGGLE(store, kind, id, ...)                                                         \
    store_toggle(store, kind, id, (const uint64_t[]){__VA_ARGS__},                                 \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* -- view.c: rows as records of a snapshot -- */
enum { STORE_FORMAT = 2 };
extern const char store_records[], store_kinds[]; /* of all records in order; by kind of row */
void store_row_write(const struct section_row *row, struct encoder *out);

/* -- leases.c -- */
struct lease *lease_find(const struct store *store, const struct store_id *id);
struct lease *lease_by_number(const struct store *store, uint64_t number);
bool lease_is_over(const struct store *store, const struct lease *lease);
/* A plain one that lives, or NULL. */
struct lease *lease_plain(const struct store *store, uint64_t number);
bool lease_is_plain(const struct lease *lease);
/* NULL: its number is taken. */
struct lease *lease_grant(struct store *store, const struct store_id *id, struct str owner,
                          int64_t ttl_ms);
void lease_extend(struct store *store, struct lease *lease);
struct claim *lease_claim_of(const struct lease *lease, struct str key);
struct claim *lease_claim_add(struct store *store, struct lease *lease, struct str key,
                              uint64_t token, struct group *group, uint32_t slot);
void lease_claim_drop(struct store *store, struct lease *lease, struct claim *claim);
/* Is `token` that of the claim (NULL: of none), or of any claim of the lease? */
bool claim_has_token(const struct store *store, const struct claim *claim, uint64_t token);
bool lease_has_token(const struct store *store, const struct lease *lease, uint64_t token);
/* Something took a key from it while it lived. */
void lease_lose(struct store *store, struct lease *lease, int reason, uint64_t token);
/* Deletes its keys at one revision, frees its slots, leaves its queue. */
void lease_end(struct store *store, struct lease *lease, int reason);
/* The same, or the beginning of it: a plain lease with many keys ends in parts, and store->ending is
 * set. */
void lease_end_begin(struct store *store, struct lease *lease, int reason);
/* The next part. False: the lease has ended. Until then reads find all of it as it was. */
bool lease_end_more(struct store *store);
/* False: the end of a lease takes more turns: store->ending is set. */
bool leases_expire(struct store *store, size_t max);

/* The deadline as a row of `due` has it: big endian. */
static inline void due_set(uint8_t due[8], uint64_t at_ns)
{
    store_le64(due, __builtin_bswap64(at_ns));
}
static inline uint64_t due_get(const uint8_t due[8])
{
    return __builtin_bswap64(load_le64(due));
}
/* Restore: a lease as it was. NULL: its id or number is taken. */
struct lease *lease_restore(struct store *store, const struct store_id *id, struct str owner,
                            uint64_t ttl_ns, uint64_t deadline_ns, int lost_reason,
                            uint64_t lost_token);

/* -- groups.c -- */
/* Each of a command, or of a snapshot. */
struct group *group_make(struct store *store, struct str key, uint32_t slot_count,
                         uint32_t slot_cap, uint64_t cooldown_ns, uint64_t revision);
void group_rest_begin(struct store *store, struct group *group, uint32_t slot, uint64_t until_ns);
void group_waiter_add(struct store *store, struct group *group, struct lease *lease,
                      const struct store_command *as, uint64_t place);
struct group *group_find(const struct store *store, struct str key);
struct store_result group_acquire(struct store *store, const struct store_command *command);
struct store_result group_resize(struct store *store, const struct store_command *command);
/* The key of the slot is gone already. `expired_ns`: when its lease was over, and the slot may rest
 * from then on; 0: it was given back. */
void group_slot_freed(struct store *store, struct group *group, uint32_t slot, uint64_t expired_ns);
void group_serve(struct store *store, struct group *group); /* waiters, while slots are free */
void group_waiter_drop(struct store *store, struct slot_waiter *waiter);
void groups_end_rests(struct store *store, size_t max);
bool group_keeps_back(const struct group *group); /* against I8 of store.h */

/* -- requests.c -- */
/* The answer given before, or NULL. *ret_other: it may not be done at all: that number was another
 * request's, or the client has said that it is done with it. */
const struct store_result *request_known(struct store *store, const struct store_command *command,
                                         bool *ret_other);
uint64_t request_cost(void); /* of an answer to somebody new */
void request_remember(struct store *store, const struct store_command *command,
                      const struct store_result *result);
/* A waiter's answer came later. */
void request_update(struct store *store, const struct store_id *client, uint64_t sequence,
                    const struct store_result *result);
/* Its grant ended before it was answered: a repeat is a new request. */
void request_forget(struct store *store, const struct store_id *client, uint64_t sequence);
/* Each of a command, or of a snapshot. NULL: no client, or one that exists. */
struct store_client *request_client_make(struct store *store, const struct store_id *id,
                                         uint64_t seen_ns, uint64_t use, uint64_t floor);
void request_answer_add(struct store *store, struct store_client *client, uint64_t sequence,
                        uint32_t fingerprint, const struct store_result *result);
void requests_forget_silent(struct store *store, size_t max);
#endif
