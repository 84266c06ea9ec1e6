/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of names (claim_name.h). Pure, any thread. */
#include "base/claim_name.h"

bool claim_is_reserved(struct str segment)
{
    return str_equal(segment, STR(".group"));
}

const char *claim_name_fault(struct str name, size_t max)
{
    struct str rest = name, segment = STR_EMPTY;
    size_t segments = 0;

    if (name.len == 0) return "is empty";
    if (name.len > max) return "is too long";
    while (str_split(&rest, '/', &segment)) {
        if (++segments > CLAIM_DEPTH_MAX) return "has more than 16 segments";
        if (segment.len == 0) return "has an empty segment (a leading, trailing or double '/')";
        if (segment.at[0] == '.' && !claim_is_reserved(segment))
            return "has a segment that starts with '.'";
        for (size_t i = 0; i < segment.len; i++)
            if (segment.at[i] < 0x21 || segment.at[i] > 0x7e)
                return "has a byte outside 0x21-0x7e (percent-encode it)";
    }
    return claim_is_reserved(segment) ? "ends in the reserved name .group" : NULL;
}

bool claim_owner_is_valid(struct str owner, size_t max)
{
    const struct str alphabet = STR("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789._:@/-");
    bool valid = owner.len >= 1 && owner.len <= max;

    for (size_t i = 0; valid && i < owner.len; i++) valid = str_has(alphabet, owner.at[i]);
    return valid;
}

bool claim_slot_number(struct str leaf, uint32_t *ret_slot)
{
    uint64_t number;

    if (leaf.len != 9 || !str_starts(leaf, STR("slot-")) ||
        str_to_u64(str_tail(leaf, 5), &number) != ERR_OK)
        return false;
    *ret_slot = (uint32_t)number;
    return true;
}
