/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs: 48 bits of wall time and 80 random bits, written as 26 Crockford base-32 characters that
 * sort by time.
 *
 * Lower case is accepted; output is upper case. I, L, O and U are not in the alphabet and are
 * rejected in both cases, because reading I as 1, as Crockford does, would give one id two
 * spellings. The first character is at most '7', because 26 characters could carry 130 bits. */
#ifndef BASE_ULID_H
#define BASE_ULID_H
#include "base/str.h"
#include "base/time.h"

#define ULID_LEN      26
#define ULID_TEXT_CAP 27
struct ulid {
    uint8_t bytes[16]; /* big-endian, so memcmp() gives the same order as the text */
};

struct note;
/* Parses a ULID. ERR_PARSE has one of three notes: "not a valid ulid: invalid length", "...:
 * invalid character" or, if the first character is above '7', "...: out of range". */
enum err ulid_parse(struct str text, struct ulid *ret_ulid, struct note *note);
void ulid_text(const struct ulid *ulid, char text[ULID_TEXT_CAP]);
int ulid_compare(const struct ulid *a, const struct ulid *b);

/* Makes ULIDs that grow. If two ULIDs are made in one millisecond, or the clock goes back, the
 * second keeps the last time and increments the random part. The caller supplies the time and ten
 * random bytes. A time above 48 bits is capped. ERR_FULL means that the random part would overflow;
 * a call in the next millisecond succeeds. A zeroed maker is ready for use. */
struct ulid_maker {
    struct ulid last;
    bool used;
};
enum err ulid_next(struct ulid_maker *maker, wall_time now, const uint8_t random[10],
                   struct ulid *ret_ulid);
#endif
