/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes RFC 3339 timestamps: "2026-11-15T10:54:18.123Z".
 *
 * The calendar is the proleptic Gregorian calendar. The module reads no clock. */
#ifndef TEXT_RFC3339_H
#define TEXT_RFC3339_H
#include "base/str.h"
#include "base/time.h"

#define RFC3339_CAP     32               /* bytes of the longest text, including the NUL */
#define RFC3339_FIRST_S (-62135596800LL) /* 0001-01-01T00:00:00Z, in seconds since 1970 */
#define RFC3339_LAST_S  253402300799LL   /* 9999-12-31T23:59:59Z */

/* The fields of a timestamp as written. Fields that are missing in the text are 0. */
struct rfc3339_fields {
    uint16_t year;
    uint8_t month, day, hour, minute, second; /* in a leap second, `second` is 60 */
    uint32_t nanosecond;                      /* digits past the ninth are dropped */
    int16_t offset_minutes;                   /* local time minus UTC */
};
/* Returns true if `s` starts with `shape`, such as "0000-00-00". A '0' matches any digit. */
bool rfc3339_has_shape(struct str s, const char *shape);
/* Each function reads its part from the beginning of *rest into *fields. Returns NULL, or a text
 * that describes the error. A time may have a fraction of a second. An offset may be Z or z. */
const char *rfc3339_read_date(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_time(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_offset(struct str *rest, struct rfc3339_fields *fields);

/* Reads a whole timestamp as machines write it: upper-case T and Z, any offset, no leap second, and
 * years 0001 to 9999 in local time and in UTC. ERR_PARSE. */
enum err rfc3339_parse(struct str text, int64_t *ret_unix_s, uint32_t *ret_nanos);

/* Writes a time in UTC and a NUL. `digits` (0 to 9) is the number of decimal places, without
 * rounding. A time outside of years 0001 to 9999 becomes the nearest time in this range. */
enum { RFC3339_SHORTEST = 10 }; /* value of `digits`: up to nine digits, without zeros at the end */
void rfc3339_text(int64_t unix_s, uint32_t nanos, unsigned digits, char text[RFC3339_CAP]);
/* Writes a time with milliseconds, for logs and tables. */
void wall_text(wall_time time, char text[RFC3339_CAP]);
#endif
