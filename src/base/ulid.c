/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs as numbers of 128 bits: 48 bits of time above 80 random bits. */
#include "base/ulid.h"

#include <string.h>

#include "base/note.h"

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static_assert(sizeof alphabet == 32 + 1, "five bits a character");

enum { RANDOM_BYTES = 10, RANDOM_BITS = 8 * RANDOM_BYTES };
static const uint64_t time_most_ms = (1ull << 48) - 1;

/* -1 if not in the alphabet. */
static int ulid_digit(char c)
{
    const char *at;

    if (c >= 'a' && c <= 'z') c = (char)(c - ('a' - 'A'));
    at = c != '\0' ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

/* Conversions between bytes (big-endian) and a number. */
static uint128 ulid_number(const struct ulid *ulid)
{
    uint128 number = 0;

    for (size_t i = 0; i < sizeof ulid->bytes; i++) number = number << 8 | ulid->bytes[i];
    return number;
}

static struct ulid ulid_of(uint128 number)
{
    struct ulid ulid;

    for (size_t i = sizeof ulid.bytes; i-- > 0; number >>= 8) ulid.bytes[i] = (uint8_t)number;
    return ulid;
}

enum err ulid_parse(struct str text, struct ulid *ret_ulid, struct note *note)
{
    uint128 number = 0;

    if (text.len != ULID_LEN) return note_fail(note, ERR_PARSE, "not a valid ulid: invalid length");
    for (size_t i = 0; i < ULID_LEN; i++) {
        int value = ulid_digit(text.at[i]);
        if (value < 0) return note_fail(note, ERR_PARSE, "not a valid ulid: invalid character");
        number = number << 5 | (unsigned)value; /* 130 bits; the first character may use 3 */
    }
    if (ulid_digit(text.at[0]) > 7)
        return note_fail(note, ERR_PARSE, "not a valid ulid: out of range");
    *ret_ulid = ulid_of(number);
    return ERR_OK;
}

void ulid_text(const struct ulid *ulid, char text[ULID_TEXT_CAP])
{
    uint128 number = ulid_number(ulid);

    text[ULID_LEN] = '\0';
    for (size_t i = ULID_LEN; i-- > 0; number >>= 5) text[i] = alphabet[number & 31];
}

int ulid_compare(const struct ulid *a, const struct ulid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

enum err ulid_next(struct ulid_maker *maker, wall_time now, const uint8_t random[10],
                   struct ulid *ret_ulid)
{
    const uint128 random_most = ((uint128)1 << RANDOM_BITS) - 1;
    uint128 ms = min_u64(now.ms, time_most_ms), number = ulid_number(&maker->last);

    if (maker->used && ms <= number >> RANDOM_BITS) {
        if ((number & random_most) == random_most) return ERR_FULL;
        maker->last = ulid_of(number + 1);
    } else {
        maker->last = ulid_of(ms << RANDOM_BITS);
        memcpy(maker->last.bytes + sizeof maker->last.bytes - RANDOM_BYTES, random, RANDOM_BYTES);
        maker->used = true;
    }
    *ret_ulid = maker->last;
    return ERR_OK;
}
