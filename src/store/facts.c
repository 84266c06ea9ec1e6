/* SPDX-License-Identifier: Apache-2.0 */
#include "store/facts.h"

#include <stdlib.h>

enum { CLAIMS_NOTED = 4096 };

struct claim_fact {
    uint64_t revision; /* of the change; 0: none is noted here */
    uint32_t sub;
    struct store_claim claim;
    char owner[STORE_OWNER_MAX];
};

void facts_deinit(struct applied_facts *facts)
{
    free(facts->expired);
    free(facts->claims);
}

/* -- expiry -- */

/* The place of the first one at or after the revision. */
static size_t expired_at(const struct applied_facts *facts, uint64_t revision)
{
    size_t low = facts->first, high = facts->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (facts->expired[middle] < revision)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool facts_expired(const struct applied_facts *facts, uint64_t revision)
{
    size_t at = expired_at(facts, revision);

    return at < facts->count && facts->expired[at] == revision;
}

void facts_compact(struct applied_facts *facts, uint64_t revision)
{
    facts->first = expired_at(facts, revision);
}

/* Room for one more. Those of compacted revisions go. */
static bool expired_grow(struct applied_facts *facts)
{
    size_t kept = facts->count - facts->first, cap = kept * 2 > 64 ? kept * 2 : 64;
    uint64_t *expired;

    if (facts->count < facts->cap) return true;
    expired = malloc(cap * sizeof *expired);
    if (!expired) return false;
    if (kept) memcpy(expired, facts->expired + facts->first, kept * sizeof *expired);
    free(facts->expired);
    *facts = (struct applied_facts){expired, 0, kept, cap, facts->claims};
    return true;
}

void facts_note_expiry(struct applied_facts *facts, uint64_t revision)
{
    if (facts->count > facts->first && facts->expired[facts->count - 1] >= revision) return;
    if (expired_grow(facts)) facts->expired[facts->count++] = revision;
}

/* -- claims -- */

bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim)
{
    return change->version && change->lease && store_claim_of(store, change->key, 0, ret_claim) &&
           store_lease_number(&ret_claim->lease) == change->lease &&
           ret_claim->token <= change->mod;
}

void facts_note_claim(struct applied_facts *facts, const struct store *store, uint64_t number,
                      const struct key_value *change)
{
    struct claim_fact *fact;
    struct store_claim claim;

    if (!facts_claim_now(store, change, &claim)) return;
    if (!facts->claims) facts->claims = calloc(CLAIMS_NOTED, sizeof *facts->claims);
    if (!facts->claims) return;
    fact = &facts->claims[number % CLAIMS_NOTED];
    fact->revision = change->mod;
    fact->sub = change->sub;
    fact->claim = claim;
    fact->claim.remaining_ms = claim.ttl_ms;
    fact->claim.owner = str_of(fact->owner, claim.owner.len);
    memcpy(fact->owner, claim.owner.at, claim.owner.len);
}

bool facts_claim(const struct applied_facts *facts, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim)
{
    const struct claim_fact *fact;

    if (facts->claims && change->lease) {
        fact = &facts->claims[number % CLAIMS_NOTED];
        if (fact->revision == change->mod && fact->sub == change->sub) {
            *ret_claim = fact->claim;
            return true;
        }
    }
    return facts_claim_now(store, change, ret_claim);
}
