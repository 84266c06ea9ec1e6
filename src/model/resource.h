/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts of named resources: what a machine offers, what a Need asks for.
 *
 * One table per shard (struct dimensions) gives each name a small index. Amounts are integers of
 * milli-units, never negative. There are two vectors:
 *
 *   struct resources      one machine or one unit: at most 16 dimensions of int64, packed. 8 PiB of
 *                         memory fit; larger amounts are rejected
 *   struct resource_sum   demand, deficits and totals: 128 bits per dimension, because 8,192
 *                         machines of 1 TiB already exceed 64 bits of milli-bytes
 *
 * Bit d of `mask` is set if dimension d is named. In a packed vector, dimension d is at index n =
 * number of mask bits below d. Packing makes resources_covers() fast, which runs hundreds of
 * millions of times in a decision. An absent dimension is zero.
 *
 * An index depends on the order in which names were first seen. Therefore no decision and no output
 * may depend on indexes: walk dimensions->by_name instead. */
#ifndef MODEL_RESOURCE_H
#define MODEL_RESOURCE_H
#include "base/arena.h"
#include "base/buf.h"
#include "model/ids.h"
#include "model/quantity.h"

enum {
    DIMENSIONS_MAX = 64,          /* names in one shard; each has one bit in a mask */
    RESOURCES_MAX = 16,           /* names in one received vector */
    RESOURCE_NAME_MAX = 317,      /* bytes; a qualified name of Kubernetes */
    RESOURCES_TEXT_MAX = 1 << 16, /* bytes; enough for 64 names and their amounts */
};

struct dimensions {
    struct arena arena; /* holds the names */
    struct str names[DIMENSIONS_MAX];
    uint8_t by_name[DIMENSIONS_MAX]; /* indexes of `names`, sorted bytewise by name */
    uint32_t count;
};
void dimensions_init(struct dimensions *d); /* allocates nothing */
void dimensions_deinit(struct dimensions *d);
/* Finds or adds `name`. ERR_FULL above DIMENSIONS_MAX; ERR_INVALID, ERR_TOO_LARGE, ERR_NOMEM. */
enum err dimensions_index(struct dimensions *d, struct str name, uint32_t *ret_index,
                          struct note *note);

/* The suffix family of each dimension's amount. No bit: decimal. */
struct resource_formats {
    uint64_t binary, exponent;
};

/* --- one machine, one unit --- */

struct resources { /* all zeros mean empty */
    uint64_t mask; /* named dimensions, also those with an amount of zero */
    struct resource_formats formats;
    int64_t milli[RESOURCES_MAX]; /* packed by ascending dimension; >= 0 */
};

/* Written in C, because without -mpopcnt the builtin is a call. */
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
/* True if `have` is at least `want` in every dimension of `want`. Both vectors are walked together,
 * so that no index must be computed. */
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
/* Ignores formats. An absent dimension equals zero. */
bool resources_equal(const struct resources *a, const struct resources *b);
/* Sets one dimension; `milli` >= 0. ERR_FULL above RESOURCES_MAX. */
enum err resources_set(struct resources *r, uint32_t dimension, int64_t milli,
                       enum quantity_format format);
/* Sets *a to the maximum of *a and *b in each dimension. ERR_FULL leaves *a unchanged. */
enum err resources_max(struct resources *a, const struct resources *b);
/* Reads names and quantities from the wire. The note of an error is "<field>[name]: why".
 * ERR_INVALID: bad name or quantity, negative quantity, repeated name. ERR_PARSE: bad quantity.
 * ERR_TOO_LARGE: more than int64 milli-units or RESOURCES_MAX names.
 * ERR_FULL: a new name when the table is full. ERR_NOMEM.
 * After an error the table may contain new names. */
enum err resources_parse(struct dimensions *d, const char *field, const struct label *pairs,
                         size_t count, struct resources *ret_resources, struct note *note);

/* --- demand, deficits, totals --- */

struct resource_sum { /* only dimensions in `mask` are valid */
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
/* Cheaper than copying the struct: copies only named dimensions. */
void resource_sum_copy(struct resource_sum *to, const struct resource_sum *from);
/* Sums saturate at QUANTITY_MILLI_MAX. A dimension that is zero in *s takes the format of the other
 * operand. */
void resource_sum_add(struct resource_sum *s, const struct resources *r);
void resource_sum_add_sum(struct resource_sum *s, const struct resource_sum *other);
/* Sets *s to r times n. n = 0 gives an empty sum. */
void resource_sum_scale(struct resource_sum *s, const struct resources *r, uint64_t n);
void resource_sum_scale_sum(struct resource_sum *s, const struct resource_sum *of, uint64_t n);
bool resource_sum_is_zero(const struct resource_sum *s);
/* Packs a sum. ERR_TOO_LARGE: an amount above 64 bits, or too many names. */
enum err resource_sum_narrow(const struct resource_sum *s, struct resources *ret_resources);
/* Like resources_parse(), but accepts any quantity below 2^63 units. */
enum err resource_sum_parse(struct dimensions *d, const char *field, const struct label *pairs,
                            size_t count, struct resource_sum *ret_sum, struct note *note);
/* `packed` has amounts by ascending dimension of `mask`. */
void resource_sum_unpack(struct resource_sum *s, uint64_t mask, struct resource_formats formats,
                         const int128 *packed);

/* --- text --- */

/* Calls `each` for every named dimension, in the order of names, with its canonical quantity.
 * Returns the first error. */
typedef enum err resource_each(void *context, struct str name, struct str quantity);
enum err resource_sum_each(const struct dimensions *d, const struct resource_sum *s,
                           resource_each *each, void *context);
/* Appends "cpu=16,memory=128Gi", for people. ERR_FULL, ERR_NOMEM. */
enum err resource_sum_text(const struct dimensions *d, const struct resource_sum *s,
                           struct buf *out);
/* Appends "cpu=16000,memory=137438953472000" in milli-units, without zeroes, as a key and for
 * sorting. Equal amounts give equal text in every format. */
enum err resource_sum_key(const struct dimensions *d, const struct resource_sum *s,
                          struct buf *out);
/* Compares the texts of resource_sum_key() without writing them. */
int resource_sum_key_compare(const struct dimensions *d, const struct resource_sum *a,
                             const struct resource_sum *b);
#endif
