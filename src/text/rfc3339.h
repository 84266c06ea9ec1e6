/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes RFC 3339 timestamps: "2026-11-15T10:54:18.123Z".
 *
 * The calendar is the proleptic Gregorian calendar. Nothing here reads a clock. */
#ifndef TEXT_RFC3339_H
#define TEXT_RFC3339_H
#include "base/str.h"
#include "base/time.h"

#define RFC3339_CAP     32               /* length of the longest text, including its NUL */
#define RFC3339_FIRST_S (-62135596800LL) /* 0001-01-01T00:00:00Z, in seconds since 1970 */
#define RFC3339_LAST_S  253402300799LL   /* 9999-12-31T23:59:59Z */

/* The fields as written; fields that the text does not contain are 0. */
struct rfc3339_fields {
    uint16_t year;
    uint8_t month, day, hour, minute, second; /* second 60 is a leap second */
    uint32_t nanosecond;                      /* digits past the ninth are dropped */
    int16_t offset_minutes;                   /* local time minus UTC */
};
/* True if `s` starts with `shape`, where '0' means any digit: "0000-00-00". */
bool rfc3339_has_shape(struct str s, const char *shape);
/* Each function reads its part from the front of *rest into *fields. Returns NULL, or a description
 * of the error. The time is the time of day with an optional fraction. The offset may be Z or z. */
const char *rfc3339_read_date(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_time(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_offset(struct str *rest, struct rfc3339_fields *fields);

/* Reads a whole timestamp as machines write it: upper-case T and Z, any offset, no leap second,
 * years 0001 to 9999 in local time and in UTC. ERR_PARSE. */
enum err rfc3339_parse(struct str text, int64_t *ret_unix_s, uint32_t *ret_nanos);

/* Writes a time in UTC with `digits` (0 to 9) digits of the fraction, truncated, and a NUL. Times
 * outside the range print as its first or last moment. */
enum { RFC3339_SHORTEST = 10 }; /* value for `digits`: nine digits without trailing zeros */
void rfc3339_text(int64_t unix_s, uint32_t nanos, unsigned digits, char text[RFC3339_CAP]);
/* The same with milliseconds, for logs and tables. */
void wall_text(wall_time time, char text[RFC3339_CAP]);
#endif
