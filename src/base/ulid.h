/* SPDX-License-Identifier: Apache-2.0 */
/* ULIDs: 48 bits of wall time and 80 random bits, as 26 Crockford base-32 characters that sort by
 * time.
 *
 * Input may be in lower case; output is in upper case. I, L, O and U are rejected, so that each id
 * has one spelling. The first character is at most '7': 26 characters could carry 130 bits. */
#ifndef BASE_ULID_H
#define BASE_ULID_H
#include "base/str.h"
#include "base/time.h"

#define ULID_LEN      26
#define ULID_TEXT_CAP 27
struct ulid {
    uint8_t bytes[16]; /* big-endian: memcmp() gives the order of the texts */
};

struct note;
/* ERR_PARSE has one of three notes: "not a valid ulid: invalid length", "...: invalid character",
 * or "...: out of range" if the first character is above '7'. */
enum err ulid_parse(struct str text, struct ulid *ret_ulid, struct note *note);
void ulid_text(const struct ulid *ulid, char text[ULID_TEXT_CAP]);
int ulid_compare(const struct ulid *a, const struct ulid *b);

/* Makes ULIDs that only grow. In the same millisecond, or after the clock went back, the random
 * part of the last ULID is incremented. The caller supplies the time and ten random bytes.
 * ERR_FULL: no ULID is left in this millisecond. A zeroed maker is ready for use. */
struct ulid_maker {
    struct ulid last;
    bool used;
};
enum err ulid_next(struct ulid_maker *maker, wall_time now, const uint8_t random[10],
                   struct ulid *ret_ulid);
#endif
