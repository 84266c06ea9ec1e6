/* SPDX-License-Identifier: Apache-2.0 */
/* Who held a claim when a change was made. The state does not contain it once the claim has ended, so
 * a replica that received the change within a snapshot of the log does not know it. */
#ifndef STORE_FACTS_H
#define STORE_FACTS_H
#include "store/machine.h"

/* During apply. *claims: of the newest changes, by number; NULL before the first. Freed by free().
 * Without memory a claim is not noted. */
struct claim_fact;
void facts_note_claim(struct claim_fact **claims, const struct store *store, uint64_t number,
                      const struct key_value *change);

/* The claim on the key, if this change is of it: a holder that released a claim may have it again
 * under the same lease, with a token that this change is older than. */
bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim);
/* The same, or as it was when the change was made. */
bool facts_claim(const struct claim_fact *claims, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim);
#endif
