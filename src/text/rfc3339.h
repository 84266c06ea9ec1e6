/* SPDX-License-Identifier: Apache-2.0 */
/* The timestamps of RFC 3339, both ways: "2026-11-15T10:54:18.123Z".
 *
 * The calendar is the proleptic Gregorian one. Nothing here reads a clock. */
#ifndef TEXT_RFC3339_H
#define TEXT_RFC3339_H
#include "base/str.h"
#include "base/time.h"

#define RFC3339_CAP     32               /* the longest text that is written, and its NUL */
#define RFC3339_FIRST_S (-62135596800LL) /* 0001-01-01T00:00:00Z, in seconds since 1970 */
#define RFC3339_LAST_S  253402300799LL   /* 9999-12-31T23:59:59Z */

/* The fields as written; those a text does not have are 0. */
struct rfc3339_fields {
    uint16_t year;
    uint8_t month, day, hour, minute, second; /* second 60 is a leap second */
    uint32_t nanosecond;                      /* digits past the ninth are dropped */
    int16_t offset_minutes;                   /* local time minus UTC */
};
/* True when `s` begins with `shape`, where '0' means any digit: "0000-00-00". */
bool rfc3339_has_shape(struct str s, const char *shape);
/* Each reads its part from the front of *rest into *fields, or returns what is wrong with it. The
 * time is that of a day, with its fraction if it has one; the offset may be a Z of either case. */
const char *rfc3339_read_date(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_time(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_offset(struct str *rest, struct rfc3339_fields *fields);

/* Reads a whole timestamp as machines write it: T and Z in upper case, any offset, no leap second,
 * years 0001 to 9999 here and in UTC. ERR_PARSE. */
enum err rfc3339_parse(struct str text, int64_t *ret_unix_s, uint32_t *ret_nanos);

/* Writes a time in UTC with `digits` (0 to 9) of its second, the rest cut off, and a NUL. Times
 * before the first or after the last moment print as that moment. */
enum { RFC3339_SHORTEST = 10 }; /* as `digits`: nine, without the zeros they end in */
void rfc3339_text(int64_t unix_s, uint32_t nanos, unsigned digits, char text[RFC3339_CAP]);
/* The same with milliseconds, as logs and tables show it. */
void wall_text(wall_time time, char text[RFC3339_CAP]);
#endif
