/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes RFC 3339 timestamps: "2026-11-15T10:54:18.123Z", in the proleptic Gregorian
 * calendar. */
#ifndef TEXT_RFC3339_H
#define TEXT_RFC3339_H
#include "base/str.h"
#include "base/time.h"

#define RFC3339_CAP     32               /* bytes of the longest text, including the NUL */
#define RFC3339_FIRST_S (-62135596800LL) /* 0001-01-01T00:00:00Z, in seconds since 1970 */
#define RFC3339_LAST_S  253402300799LL   /* 9999-12-31T23:59:59Z */

/* The fields of a timestamp as written. A missing field is 0. */
struct rfc3339_fields {
    uint16_t year;
    uint8_t month, day, hour, minute, second; /* in a leap second, `second` is 60 */
    uint32_t nanosecond;                      /* digits past the ninth are dropped */
    int16_t offset_minutes;                   /* local time minus UTC */
};
/* True if `s` starts with `shape`, such as "0000-00-00". A '0' matches any digit. */
bool rfc3339_has_shape(struct str s, const char *shape);
/* Read one part from the beginning of *rest. Return NULL, or a text that describes the error. */
const char *rfc3339_read_date(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_time(struct str *rest, struct rfc3339_fields *fields);
const char *rfc3339_read_offset(struct str *rest, struct rfc3339_fields *fields);

/* Reads a whole timestamp with any offset. ERR_PARSE for lower-case t and z, leap seconds, and
 * years outside of 0001 to 9999 in local time or UTC. */
enum err rfc3339_parse(struct str text, int64_t *ret_unix_s, uint32_t *ret_nanos);

/* Writes a time in UTC and a NUL. `digits` is the number of decimal places, without rounding. A
 * time outside of years 0001 to 9999 becomes the nearest time in this range. */
enum { RFC3339_SHORTEST = 10 }; /* `digits`: up to nine, without zeros at the end */
void rfc3339_text(int64_t unix_s, uint32_t nanos, unsigned digits, char text[RFC3339_CAP]);
void wall_text(wall_time time, char text[RFC3339_CAP]);
#endif
