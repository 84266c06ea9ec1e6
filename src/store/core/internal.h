/* SPDX-License-Identifier: Apache-2.0 */
/* Records of the store other than keys. Private to store/core. */
#ifndef STORE_CORE_INTERNAL_H
#define STORE_CORE_INTERNAL_H
#include <muster/coord.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/map.h"
#include "section/section.h"
#include "store/core/must.h"
#include "store/core/store.h"

struct lease;
struct group;

enum store_row { ROW_LEASE, ROW_GROUP, ROW_WAITER, ROW_CLIENT };
/* the first byte of each record of a snapshot; view.c defines the order */
enum store_record {
    RECORD_HEAD = 'H',
    RECORD_VERSION = 'V', /* by key, then from old to new */
    RECORD_LEASE = 'L',
    RECORD_GROUP = 'G',
    RECORD_WAITER = 'W',
    RECORD_CLIENT = 'C',
    RECORD_HASH = 'E', /* hash of the state, which a restore checks */
};
enum slot_state { SLOT_LEASED = 'l', SLOT_RESTING = 'r', SLOT_FREE = 'f' };
enum store_hashed {
    HASHED_LEASE = 'L',
    HASHED_CLAIM = 'C',
    HASHED_GROUP = 'G',
    HASHED_REST = 'R',
    HASHED_ANSWER = 'A',
    HASHED_FLOOR = 'F',
};

struct claim {
    char *key; /* not terminated by NUL */
    uint32_t key_len;
    uint64_t token;
    struct group *group; /* NULL: the key is not a slot */
    uint32_t slot;
};
struct lease {
    uint8_t due[8];     /* deadline in big endian: byte order is time order */
    struct store_id id; /* a client that presents the id owns the lease */
    uint64_t number;    /* keys name their lease by this number */
    uint64_t deadline_ns, ttl_ns;
    struct claim *claims;
    uint32_t claim_count, claim_cap;
    struct slot_waiter *waiter; /* NULL: the lease does not wait for a slot */
    struct section_row row;
    int lost_reason; /* not 0: the lease was superseded or revoked, and renewals fail */
    uint64_t lost_token;
    uint32_t owner_len;
    char owner[];
};
/* A request that waits for a slot. Its own lease keeps its place in the queue. Client and sequence
 * identify the request to answer. */
struct slot_waiter {
    struct list in_group;
    struct group *group;
    struct lease *lease;
    struct store_id client;
    uint64_t sequence, place; /* larger for later waiters */
    struct section_row row;
    uint32_t prefer_slot, value_len;
    char value[];
};
struct group_slot {
    struct lease *lease; /* NULL: the slot is free or in cool-down */
    uint64_t rest_until_ns;
};
struct group {
    uint64_t cooldown_ns, revision;
    uint32_t slot_count, slot_cap, live; /* slot_cap: also held slots above slot_count */
    uint32_t waiter_count;
    struct group_slot *slots;
    struct list waiters; /* in order of arrival */
    uint32_t rests;      /* number of slots in cool-down */
    struct section_row row;
    uint8_t due[8]; /* end of the first cool-down, in big endian; valid while rests > 0 */
    uint32_t key_len;
    char key[]; /* "muster/jobs/indexer" */
};
struct answer {
    uint64_t sequence;
    uint32_t fingerprint; /* hash of the arguments: a request id with other arguments is refused */
    struct store_result result;
};
struct store_client {
    struct list by_use;
    struct store_id id;
    uint64_t seen_ns, use;
    uint64_t floor; /* requests with smaller sequences are refused */
    uint32_t count;
    struct section_row row;
    struct answer *answers; /* at most STORE_RESULTS_MAX, in the order of their decisions */
};
struct store {
    struct store_options options;
    struct keys *keys;
    struct store_id identity;
    uint32_t level; /* cluster level at the current log entry */
    uint64_t clock_ns;
    uint64_t bytes;                     /* bytes of all records except keys */
    struct map leases, groups, clients; /* leases by number */
    struct order due, rests;
    struct order_kind due_kind, rest_kind;
    struct list clients_by_use; /* least recently used client first */
    struct store_event *events;
    size_t event_count, event_cap, event_next;
    uint64_t waiters, hash, uses, work;
    struct section section; /* rows of the snapshot */
    struct {                /* a DELETE_RANGE in progress */
        bool on;
        uint32_t found;
    } sweep;
    struct { /* a plain lease with many keys that is being ended in parts */
        struct lease *lease;
        int reason;
        size_t deleted; /* keys deleted so far */
    } ending;
    struct {
        bool on, expired;  /* expired: leases that were due before the command have ended */
        uint64_t revision; /* revision when the command began */
        struct store_renewal *renewals;
    } part;
};

struct store_result store_answer(int code, int reason);
bool store_has_room(const struct store *store, uint64_t bytes);
void store_event(struct store *store, const struct store_event *event);
/* puts one key as a step of its own; returns the new revision */
uint64_t store_put(struct store *store, struct str key, struct str value, uint64_t lease);
/* Adds a record to the state hash. A second call removes the record. `id` may be NULL; at most six
 * numbers. */
void store_toggle(struct store *store, enum store_hashed kind, const struct store_id *id,
                  const uint64_t *numbers, size_t count);
#define STORE_TOGGLE(store, kind, id, ...)                                                         \
    store_toggle(store, kind, id, (const uint64_t[]){__VA_ARGS__},                                 \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

/* -- view.c: encodes rows as records of a snapshot -- */
enum { STORE_FORMAT = 2 };
/* record types in snapshot order; record type of each row kind */
extern const char store_records[], store_kinds[];
void store_row_write(const struct section_row *row, struct encoder *out);

/* -- leases.c -- */
struct lease *lease_find(const struct store *store, const struct store_id *id);
struct lease *lease_by_number(const struct store *store, uint64_t number);
bool lease_is_over(const struct store *store, const struct lease *lease);
/* NULL: the lease does not exist or has expired */
struct lease *lease_plain(const struct store *store, uint64_t number);
bool lease_is_plain(const struct lease *lease);
/* NULL: the number is in use */
struct lease *lease_grant(struct store *store, const struct store_id *id, struct str owner,
                          int64_t ttl_ms);
void lease_extend(struct store *store, struct lease *lease);
struct claim *lease_claim_of(const struct lease *lease, struct str key);
struct claim *lease_claim_add(struct store *store, struct lease *lease, struct str key,
                              uint64_t token, struct group *group, uint32_t slot);
void lease_claim_drop(struct store *store, struct lease *lease, struct claim *claim);
/* True if `token` belongs to `claim` (may be NULL), or to any claim of `lease`. Token 0 always
 * matches. Below STORE_TOKENS_LEVEL every token matches. */
bool claim_has_token(const struct store *store, const struct claim *claim, uint64_t token);
bool lease_has_token(const struct store *store, const struct lease *lease, uint64_t token);
/* Call when another writer took a key of a lease that has not expired. */
void lease_lose(struct store *store, struct lease *lease, int reason, uint64_t token);
/* Deletes the lease's keys at one revision, frees its slots and removes its waiter. */
void lease_end(struct store *store, struct lease *lease, int reason);
/* Like lease_end(), but a plain lease with many keys ends in parts, with store->ending set. */
void lease_end_begin(struct store *store, struct lease *lease, int reason);
/* Deletes more keys; false: the lease has ended. Until then, reads still return all its keys. */
bool lease_end_more(struct store *store);
/* Returns false if a lease ends in parts; store->ending is then set. */
bool leases_expire(struct store *store, size_t max);

/* big endian, so that byte order is time order */
static inline void due_set(uint8_t due[8], uint64_t at_ns)
{
    store_le64(due, __builtin_bswap64(at_ns));
}
static inline uint64_t due_get(const uint8_t due[8])
{
    return __builtin_bswap64(load_le64(due));
}
/* NULL: the id or number is in use */
struct lease *lease_restore(struct store *store, const struct store_id *id, struct str owner,
                            uint64_t ttl_ns, uint64_t deadline_ns, int lost_reason,
                            uint64_t lost_token);

/* -- groups.c -- */
struct group *group_make(struct store *store, struct str key, uint32_t slot_count,
                         uint32_t slot_cap, uint64_t cooldown_ns, uint64_t revision);
void group_rest_begin(struct store *store, struct group *group, uint32_t slot, uint64_t until_ns);
void group_waiter_add(struct store *store, struct group *group, struct lease *lease,
                      const struct store_command *as, uint64_t place);
struct group *group_find(const struct store *store, struct str key);
struct store_result group_acquire(struct store *store, const struct store_command *command);
struct store_result group_resize(struct store *store, const struct store_command *command);
/* Call after the slot's key is deleted. `expired_ns`: start of the cool-down; 0: no cool-down. */
void group_slot_freed(struct store *store, struct group *group, uint32_t slot, uint64_t expired_ns);
void group_serve(struct store *store, struct group *group); /* gives free slots to waiters */
void group_waiter_drop(struct store *store, struct slot_waiter *waiter);
void groups_end_rests(struct store *store, size_t max);
bool group_keeps_back(const struct group *group); /* true: the group violates I8 of store.h */

/* -- requests.c -- */
/* Returns the stored answer, or NULL. *ret_other: the command must be refused, because another
 * request used its sequence, or the client has acknowledged the sequence. */
const struct store_result *request_known(struct store *store, const struct store_command *command,
                                         bool *ret_other);
uint64_t request_cost(void); /* bytes that an answer to a new client needs */
void request_remember(struct store *store, const struct store_command *command,
                      const struct store_result *result);
/* Replaces the stored answer "waiting" by the final answer. */
void request_update(struct store *store, const struct store_id *client, uint64_t sequence,
                    const struct store_result *result);
/* Call if the grant ended before the client got its answer. A retry is then a new request. */
void request_forget(struct store *store, const struct store_id *client, uint64_t sequence);
/* NULL: the id is zero or in use */
struct store_client *request_client_make(struct store *store, const struct store_id *id,
                                         uint64_t seen_ns, uint64_t use, uint64_t floor);
void request_answer_add(struct store *store, struct store_client *client, uint64_t sequence,
                        uint32_t fingerprint, const struct store_result *result);
void requests_forget_silent(struct store *store, size_t max);
#endif
