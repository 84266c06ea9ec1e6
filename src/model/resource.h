/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of named resources: what a machine offers, what a Need asks for.
 *
 * Names become small numbers once, at ingest, through one table per shard (struct dimensions), and
 * texts become integers of milli-units. Two vectors follow from where they are used:
 *
 *   struct resources      one machine or one unit: at most 16 dimensions of int64, packed. 64-bit
 *                         milli-units reach 8 PiB of memory, which no machine has; more is refused.
 *   struct resource_sum   demand, deficits and totals: 128 bits per dimension, because 8,192
 *                         machines of 1 TiB already pass 64 bits of milli-bytes.
 *
 * Why packed under a mask: covers() runs hundreds of millions of times in a decision. Bit d of
 * `mask` says that dimension d is named; its value is the n-th, n = bits of the mask below d. Equal
 * masks (a machine and a unit of one family, nearly always) compare value by value without looking
 * anything up; else both masks are walked together. Nothing is chased, a typical vector is one line
 * of cache, and the inline functions below compile to a few instructions.
 *
 * An absent dimension is zero everywhere. Nothing here is ever negative. The index of a dimension
 * depends on the order names were met, so nothing that is decided or printed may follow it: walk
 * dimensions->by_name where order shows. */
#ifndef MODEL_RESOURCE_H
#define MODEL_RESOURCE_H
#include "base/arena.h"
#include "base/buf.h"
#include "model/ids.h"
#include "model/quantity.h"

enum {
    DIMENSIONS_MAX = 64,          /* names in one shard; the mask has a bit for each */
    RESOURCES_MAX = 16,           /* names in one vector that comes from outside */
    RESOURCE_NAME_MAX = 317,      /* a qualified name of Kubernetes */
    RESOURCES_TEXT_MAX = 1 << 16, /* enough for 64 names and their amounts */
};

struct dimensions {
    struct arena arena; /* holds the names */
    struct str names[DIMENSIONS_MAX];
    uint8_t by_name[DIMENSIONS_MAX]; /* indexes in bytewise order of their names */
    uint32_t count;
};
void dimensions_init(struct dimensions *d); /* takes no memory yet */
void dimensions_deinit(struct dimensions *d);
/* The index of `name`, which is added when it is new. ERR_INVALID, ERR_TOO_LARGE for the name,
 * ERR_FULL past DIMENSIONS_MAX, ERR_NOMEM. */
enum err dimensions_index(struct dimensions *d, struct str name, uint32_t *ret_index,
                          struct note *note);

/* In which suffixes a dimension is printed again: a bit per dimension; neither bit is decimal. */
struct resource_formats {
    uint64_t binary, exponent;
};

/* --- one machine, one unit --- */

struct resources { /* zeroed: the empty vector */
    uint64_t mask; /* named dimensions, also those named with an amount of zero */
    struct resource_formats formats;
    int64_t milli[RESOURCES_MAX]; /* packed by ascending dimension; >= 0 */
};

/* Bits set in a mask. Written out, because without -mpopcnt the builtin is a call. */
static inline uint32_t resource_bits(uint64_t mask)
{
    mask -= mask >> 1 & 0x5555555555555555;
    mask = (mask & 0x3333333333333333) + (mask >> 2 & 0x3333333333333333);
    mask = (mask + (mask >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return (uint32_t)(mask * 0x0101010101010101 >> 56);
}
static inline int64_t resources_get(const struct resources *r, uint32_t dimension)
{
    uint64_t bit = (uint64_t)1 << dimension;

    return r->mask & bit ? r->milli[resource_bits(r->mask & (bit - 1))] : 0;
}
/* In every dimension that `want` names, `have` is at least as much. Both are walked together, so
 * that no place has to be looked up. */
static inline bool resources_covers(const struct resources *have, const struct resources *want)
{
    const int64_t *there = have->milli, *asked = want->milli;

    if (have->mask == want->mask) {
        for (uint64_t left = want->mask; left; left &= left - 1)
            if (*there++ < *asked++) return false;
        return true;
    }
    for (uint64_t left = have->mask | want->mask; left; left &= left - 1) {
        uint64_t bit = left & -left;
        int64_t milli = have->mask & bit ? *there++ : 0;
        if (want->mask & bit && milli < *asked++) return false;
    }
    return true;
}
/* Same amounts; formats and dimensions named with zero do not count. */
bool resources_equal(const struct resources *a, const struct resources *b);
/* Sets one dimension; `milli` >= 0. ERR_FULL past RESOURCES_MAX. */
enum err resources_set(struct resources *r, uint32_t dimension, int64_t milli,
                       enum quantity_format format);
/* *a = the larger of each dimension over both. ERR_FULL leaves *a alone. */
enum err resources_max(struct resources *a, const struct resources *b);
/* Reads names and quantities as they came over the wire. Refused, with "<field>[name]: why": a bad
 * name or quantity (ERR_INVALID, ERR_PARSE), a negative one and a name given twice (ERR_INVALID),
 * more than int64 milli-units or RESOURCES_MAX names (ERR_TOO_LARGE), a new name when the table is
 * full (ERR_FULL), ERR_NOMEM. After an error the table may hold new names, nothing else. */
enum err resources_parse(struct dimensions *d, const char *field, const struct label *pairs,
                         size_t count, struct resources *ret_resources, struct note *note);

/* --- demand, deficits, totals --- */

struct
    resource_sum { /* only what `mask` names is valid; resource_sum_clear() makes the empty one */
    uint64_t mask;
    struct resource_formats formats;
    int128 milli[DIMENSIONS_MAX]; /* by dimension, not packed; >= 0 */
};

static inline void resource_sum_clear(struct resource_sum *s)
{
    s->mask = 0;
    s->formats = (struct resource_formats){0, 0};
}
static inline int128 resource_sum_get(const struct resource_sum *s, uint32_t dimension)
{
    return s->mask >> dimension & 1 ? s->milli[dimension] : 0;
}
/* Copies what is named: a few lines of cache instead of the whole struct. */
void resource_sum_copy(struct resource_sum *to, const struct resource_sum *from);
/* Sums stop at QUANTITY_MILLI_MAX, which no fleet reaches. A dimension that is zero or absent
 * in *s takes the format of the other side. */
void resource_sum_add(struct resource_sum *s, const struct resources *r);
void resource_sum_add_sum(struct resource_sum *s, const struct resource_sum *other);
/* *s = r x n; n = 0 gives the empty one. */
void resource_sum_scale(struct resource_sum *s, const struct resources *r, uint64_t n);
void resource_sum_scale_sum(struct resource_sum *s, const struct resource_sum *of, uint64_t n);
bool resource_sum_is_zero(const struct resource_sum *s);
/* ERR_TOO_LARGE when a dimension does not fit 64 bits or there are more than RESOURCES_MAX. */
enum err resource_sum_narrow(const struct resource_sum *s, struct resources *ret_resources);
/* As resources_parse, but any quantity below 2^63 units. */
enum err resource_sum_parse(struct dimensions *d, const char *field, const struct label *pairs,
                            size_t count, struct resource_sum *ret_sum, struct note *note);
/* Out of amounts that were kept packed by ascending dimension of `mask`. */
void resource_sum_unpack(struct resource_sum *s, uint64_t mask, struct resource_formats formats,
                         const int128 *packed);

/* --- text --- */

/* Calls `each` for every named dimension in bytewise order of the names, with its quantity in
 * canonical form: how a vector goes back to the wire. Stops at the first error and returns it. */
typedef enum err resource_each(void *context, struct str name, struct str quantity);
enum err resource_sum_each(const struct dimensions *d, const struct resource_sum *s,
                           resource_each *each, void *context);
/* "cpu=16,memory=128Gi": for people; "" for the empty vector. ERR_FULL, ERR_NOMEM of `out`. */
enum err resource_sum_text(const struct dimensions *d, const struct resource_sum *s,
                           struct buf *out);
/* "cpu=16000,memory=137438953472000": milli-units, zeroes left out, so that equal amounts give
 * equal text however they were written. For keys and for order. */
enum err resource_sum_key(const struct dimensions *d, const struct resource_sum *s,
                          struct buf *out);
/* As str_compare() of the two keys, but takes no memory. */
int resource_sum_key_compare(const struct dimensions *d, const struct resource_sum *a,
                             const struct resource_sum *b);
#endif
