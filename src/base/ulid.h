/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs: 48 bits of wall time and 80 random bits; 26 Crockford base-32 characters, sorted by time.
 *
 * Lower case is accepted and printed upper case. I, L, O and U are not in the alphabet and are
 * refused in either case: Crockford's reading of I as 1 would give one id two spellings. The first
 * character is at most '7', for 26 characters could carry 130 bits. */
#ifndef BASE_ULID_H
#define BASE_ULID_H
#include "base/str.h"
#include "base/time.h"

#define ULID_LEN      26
#define ULID_TEXT_CAP 27
struct ulid {
    uint8_t bytes[16]; /* big-endian: memcmp orders as the text does */
};

struct note;
/* ERR_PARSE with a note: "not a valid ulid: invalid length", "...: invalid character" or, for a
 * first character above '7', "...: out of range". */
enum err ulid_parse(struct str text, struct ulid *ret_ulid, struct note *note);
void ulid_text(const struct ulid *ulid, char text[ULID_TEXT_CAP]);
int ulid_compare(const struct ulid *a, const struct ulid *b);
wall_time ulid_time(const struct ulid *ulid);

/* Makes ULIDs that grow even within one millisecond and when the clock steps back: then the time of
 * the last one stays and its random part counts up. The caller brings time and ten random bytes. A
 * time past 48 bits counts as the last one that fits. ERR_FULL when the random part would wrap; a
 * later millisecond helps. A zeroed maker is a fresh one. */
struct ulid_maker {
    struct ulid last;
    bool used;
};
enum err ulid_next(struct ulid_maker *maker, wall_time now, const uint8_t random[10],
                   struct ulid *ret_ulid);
#endif
