/* SPDX-License-Identifier: Apache-2.0 */
/* Where things stand below the root of a file store, and how keys become file names. Pure.
 *
 *   FORMAT  meta/{epoch,floor,recover.lk}  s/<lease id>  lost/
 *   b/<bucket>/h/<name>  b/<bucket>/l/<name>  b/<bucket>/l/.bucket  b/<bucket>/t/<temp> */
#ifndef PRIM_FILE_LAYOUT_H
#define PRIM_FILE_LAYOUT_H
#include <muster/coord.h>

#include "base/str.h"

enum {
    LAYOUT_PLAIN_MAX = 180, /* longer when encoded: a hash stands for it */
    LAYOUT_NAME_CAP = LAYOUT_PLAIN_MAX + 1,
    LAYOUT_TEMP_CAP = 80,
    LAYOUT_LEASE_CAP = 33,
};
/* A bucket or a last segment as one file name: bytes outside A-Za-z0-9_- become %XX; the empty
 * bucket is "~"; what gets longer than 180 bytes is "~" and 40 hex digits of its SHA-256. */
void layout_name(struct str raw, char name[LAYOUT_NAME_CAP]);
void layout_lease(const coord_id *id, char name[LAYOUT_LEASE_CAP]);
bool layout_lease_id(const char *name, coord_id *ret_id); /* false: no such name */

/* Temporary files say whose they are, so that anybody can tell when they are nobody's. */
struct layout_temp {
    uint8_t boot[4]; /* the first bytes of the boot id */
    uint32_t pid;
    uint64_t start_ticks, number;
};
void layout_temp(const struct layout_temp *temp, char name[LAYOUT_TEMP_CAP]);
bool layout_temp_parse(const char *name, struct layout_temp *ret_temp);
#endif
