/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about changes that only the entry which made them knows: whether a deletion was the expiry
 * of a lease, and who held a claim when it was written. The state does not contain them, so a
 * replica that received changes within a snapshot of the log lacks them. */
#ifndef STORE_FACTS_H
#define STORE_FACTS_H
#include "store/machine.h"

struct applied_facts {
    uint64_t *expired; /* revisions in which a lease expired, ascending, from `first` on */
    size_t first, count, cap;
    struct claim_fact *claims; /* of the newest changes, by number; NULL: none was noted yet */
};

void facts_deinit(struct applied_facts *facts); /* fine on a zeroed one */
/* During apply. Without memory a fact is not noted. */
void facts_note_expiry(struct applied_facts *facts, uint64_t revision);
void facts_note_claim(struct applied_facts *facts, const struct store *store, uint64_t number,
                      const struct key_value *change);
void facts_compact(struct applied_facts *facts, uint64_t revision);

bool facts_expired(const struct applied_facts *facts, uint64_t revision);
/* The claim on the key, if this change is of it: a holder that released a claim may have it again
 * under the same lease, with a token that this change is older than. */
bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim);
/* The same, or as it was when the change was made. */
bool facts_claim(const struct applied_facts *facts, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim);
#endif
