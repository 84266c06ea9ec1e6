/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a store as text, one row a line. The shipped store and the model use the same form,
 * so the first line that differs shows a person the difference. */
#ifndef TESTS_SIM_STORE_STATE_TEXT_H
#define TESTS_SIM_STORE_STATE_TEXT_H
#include "base/buf.h"
#include "base/str.h"

struct state_marks {
    uint64_t revision, compacted, clock_ns, next_due_ns, clients;
    const uint8_t *identity;
};
struct state_key {
    struct str name, value;
    uint64_t create, mod, version;
    const uint8_t *lease; /* NULL: none */
    uint64_t token;
};
struct state_lease {
    const uint8_t *id;
    struct str owner;
    uint64_t ttl_ns, deadline_ns;
    int lost_reason;
    uint64_t lost_token;
    bool waits;
};
struct state_waiter {
    const uint8_t *lease, *client;
    uint64_t sequence, prefer_slot;
    struct str value;
};
void write_marks(struct buf *into, const struct state_marks *marks);
void write_key(struct buf *into, const struct state_key *key);       /* in key order */
void write_lease(struct buf *into, const struct state_lease *lease); /* in the order of ids */
void write_group(struct buf *into, struct str name, uint64_t slot_count, uint64_t revision,
                 uint64_t cooldown_ns); /* in the order of names; its slots and waiters follow */
void write_slot(struct buf *into, uint64_t slot, const uint8_t *lease, uint64_t rest_until_ns);
void write_waiter(struct buf *into, const struct state_waiter *waiter);
#endif
