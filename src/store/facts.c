/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers which claim held a key when the key changed, in a ring of the newest changes. */
#include "store/watch_engine.h"

#include <stdlib.h>

enum { CLAIMS_NOTED = 4096 };

struct claim_fact {
    uint64_t revision; /* 0: unused */
    uint32_t sub;
    struct store_claim claim;
    char owner[STORE_OWNER_MAX];
};

bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim)
{
    return change->version && change->lease && store_claim_of(store, change->key, 0, ret_claim) &&
           store_lease_number(&ret_claim->lease) == change->lease &&
           ret_claim->token <= change->mod;
}

void facts_note_claim(struct claim_fact **claims, const struct store *store, uint64_t number,
                      const struct key_value *change)
{
    struct claim_fact *fact;
    struct store_claim claim;

    if (!facts_claim_now(store, change, &claim)) return;
    if (!*claims) *claims = calloc(CLAIMS_NOTED, sizeof **claims);
    if (!*claims) return;
    fact = &(*claims)[number % CLAIMS_NOTED];
    fact->revision = change->mod;
    fact->sub = change->sub;
    fact->claim = claim;
    fact->claim.remaining_ms = claim.ttl_ms;
    fact->claim.owner = str_of(fact->owner, claim.owner.len);
    memcpy(fact->owner, claim.owner.at, claim.owner.len);
}

bool facts_claim(const struct claim_fact *claims, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim)
{
    const struct claim_fact *fact = claims ? &claims[number % CLAIMS_NOTED] : NULL;

    if (fact && change->lease && fact->revision == change->mod && fact->sub == change->sub) {
        *ret_claim = fact->claim;
        return true;
    }
    return facts_claim_now(store, change, ret_claim);
}
