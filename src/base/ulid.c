/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ulid.h"

#include <string.h>

#include "base/note.h"

static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
static_assert(sizeof alphabet == 32 + 1, "five bits a character");

enum { TIME_BYTES = 6, RANDOM_BYTES = 10 };
static const uint64_t time_most_ms = (1ull << 48) - 1;
static_assert(TIME_BYTES + RANDOM_BYTES == sizeof((struct ulid *)0)->bytes, "time then randomness");

/* The character's five bits, or -1. */
static int digit(char c)
{
    const char *at;

    if (c >= 'a' && c <= 'z') c = (char)(c - ('a' - 'A'));
    at = c != '\0' ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

enum err ulid_parse(struct str text, struct ulid *ret_ulid, struct note *note)
{
    struct ulid ulid = {{0}};
    unsigned pending = 0, bits = 0; /* read, but not yet a whole byte */
    size_t out = 0;

    if (text.len != ULID_LEN) return note_fail(note, ERR_PARSE, "not a valid ulid: invalid length");
    for (size_t i = 0; i < ULID_LEN; i++) {
        int value = digit(text.at[i]);
        if (value < 0) return note_fail(note, ERR_PARSE, "not a valid ulid: invalid character");
        if (i == 0) { /* 26 * 5 is 130: the first one carries three bits */
            pending = (unsigned)value;
            bits = 3;
            continue;
        }
        pending = pending << 5 | (unsigned)value;
        bits += 5;
        if (bits < 8) continue;
        bits -= 8;
        ulid.bytes[out++] = (uint8_t)(pending >> bits);
        pending &= (1u << bits) - 1;
    }
    assert(out == sizeof ulid.bytes && bits == 0);
    if (digit(text.at[0]) > 7) return note_fail(note, ERR_PARSE, "not a valid ulid: out of range");
    *ret_ulid = ulid;
    return ERR_OK;
}

void ulid_text(const struct ulid *ulid, char text[ULID_TEXT_CAP])
{
    unsigned pending = 0, bits = 2; /* two zero bits in front make 130 */
    size_t out = 0;

    for (size_t i = 0; i < sizeof ulid->bytes; i++) {
        pending = pending << 8 | ulid->bytes[i];
        for (bits += 8; bits >= 5; bits -= 5) text[out++] = alphabet[pending >> (bits - 5) & 31];
        pending &= (1u << bits) - 1;
    }
    assert(out == ULID_LEN && bits == 0);
    text[out] = '\0';
}

int ulid_compare(const struct ulid *a, const struct ulid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

wall_time ulid_time(const struct ulid *ulid)
{
    wall_time time = {0};

    for (size_t i = 0; i < TIME_BYTES; i++) time.ms = time.ms << 8 | ulid->bytes[i];
    return time;
}

/* Adds one to the random part. False, and nothing changed, when it is at its top. */
static bool random_add_one(struct ulid *ulid)
{
    size_t i = sizeof ulid->bytes;

    while (i > TIME_BYTES && ulid->bytes[i - 1] == UINT8_MAX) i--;
    if (i == TIME_BYTES) return false;
    ulid->bytes[i - 1]++;
    memset(ulid->bytes + i, 0, sizeof ulid->bytes - i);
    return true;
}

enum err ulid_next(struct ulid_maker *maker, wall_time now, const uint8_t random[10],
                   struct ulid *ret_ulid)
{
    uint64_t ms = min_u64(now.ms, time_most_ms);

    if (maker->used && ms <= ulid_time(&maker->last).ms) {
        if (!random_add_one(&maker->last)) return ERR_FULL;
    } else {
        for (size_t i = 0; i < TIME_BYTES; i++)
            maker->last.bytes[i] = (uint8_t)(ms >> (8 * (TIME_BYTES - 1 - i)));
        memcpy(maker->last.bytes + TIME_BYTES, random, RANDOM_BYTES);
        maker->used = true;
    }
    *ret_ulid = maker->last;
    return ERR_OK;
}
