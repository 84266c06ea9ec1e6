/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes a key of the store as the message Entry. */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H
#include "store/core/store.h"
#include "wire/pack.h"

enum store_entry_part { STORE_ENTRY_WHOLE, STORE_ENTRY_KEYS };

/* Leaves out the first `cut` bytes of the key. `claim` may be NULL. */
static inline void store_entry_pack(struct pack *pack, const struct key_value *value, size_t cut,
                                    const struct store_claim *claim, enum store_entry_part part)
{
    pack_text(pack, 1, str_tail(value->key, cut));
    if (part == STORE_ENTRY_WHOLE) pack_text(pack, 2, value->value);
    pack_u64(pack, 3, value->mod);
    pack_u64(pack, 4, value->create);
    if (!claim) return;
    pack_u64(pack, 5, claim->token);
    pack_text(pack, 6, claim->owner);
    pack_bytes(pack, 7, str_of(claim->lease.b, sizeof claim->lease.b));
    pack_i64(pack, 8, claim->ttl_ms);
    pack_i64(pack, 9, claim->remaining_ms);
}
#endif
