/* SPDX-License-Identifier: Apache-2.0 */
/* A state of the store, line by line, in one form for the shipped one and for the model: two that
 * differ differ in a line that a person can read. */
#ifndef TESTS_SIM_STORE_TELL_H
#define TESTS_SIM_STORE_TELL_H
#include "base/buf.h"
#include "base/str.h"

struct told_marks {
    uint64_t revision, compacted, clock_ns, next_due_ns, clients;
    const uint8_t *identity;
};
struct told_key {
    struct str name, value;
    uint64_t create, mod, version;
    const uint8_t *lease; /* NULL: none */
    uint64_t token;
};
struct told_lease {
    const uint8_t *id;
    struct str owner;
    uint64_t ttl_ns, deadline_ns;
    int lost_reason;
    uint64_t lost_token;
    bool waits;
};
struct told_waiter {
    const uint8_t *lease, *client;
    uint64_t sequence, prefer_slot;
    struct str value;
};
void tell_marks(struct buf *into, const struct told_marks *marks);
void tell_key(struct buf *into, const struct told_key *key);       /* in key order */
void tell_lease(struct buf *into, const struct told_lease *lease); /* in the order of ids */
void tell_group(struct buf *into, struct str name, uint64_t slot_count, uint64_t revision,
                uint64_t cooldown_ns); /* in the order of names; its slots and waiters follow */
void tell_slot(struct buf *into, uint64_t slot, const uint8_t *lease, uint64_t rest_until_ns);
void tell_waiter(struct buf *into, const struct told_waiter *waiter);
#endif
