/* SPDX-License-Identifier: Apache-2.0 */
/* Who held a claim when a change was made. The state does not contain it once the claim has ended, so
 * a replica that received the change within a snapshot of the log does not know it. */
#ifndef STORE_FACTS_H
#define STORE_FACTS_H
#include "store/machine.h"

struct applied_facts {
    struct claim_fact *claims; /* of the newest changes, by number; NULL: none was noted yet */
};

void facts_deinit(struct applied_facts *facts); /* fine on a zeroed one */
/* During apply. Without memory a claim is not noted. */
void facts_note_claim(struct applied_facts *facts, const struct store *store, uint64_t number,
                      const struct key_value *change);

/* The claim on the key, if this change is of it: a holder that released a claim may have it again
 * under the same lease, with a token that this change is older than. */
bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim);
/* The same, or as it was when the change was made. */
bool facts_claim(const struct applied_facts *facts, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim);
#endif
