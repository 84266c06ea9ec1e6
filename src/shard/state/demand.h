/* SPDX-License-Identifier: Apache-2.0 */
/* Demand as the decision engine reads it: the rows of all clusters, merged as far as possible
 * without machines (docs/decision.md, section 1), in the order of Needs.
 *
 *   kind    a profile, shared by all rows that have it. Kinds with equal requirements share a
 *           requirement set
 *   unit    what each machine must cover, shared by all rows that ask for the same
 *   demand  a plain row (all rows of one cluster, kind and unit joined), or a gang
 *   gangs   all gangs of one cluster with one kind and aggregate: they fold together or not at all
 *   fold    the plain row that gangs become when they fold: their kind without Same
 *
 * Pointers are valid until the next change of the table. (slot, birth) identifies a kind or set. */
#ifndef SHARD_STATE_DEMAND_H
#define SHARD_STATE_DEMAND_H
#include "shard/state/amounts.h"
#include "shard/state/needs.h"
#include "shard/state/table.h"

/* The key of a normalised Need. `group` is empty for a plain Need. */
struct need_key {
    struct str cluster, fingerprint, group;
};
int need_key_compare(const void *left, const void *right); /* compares two struct need_key */

struct requirement_set {
    struct table_link link; /* references are held by kinds */
    const struct requirement *requirements;
    size_t count, size; /* size: bytes of the block with the requirements */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* as in the fingerprint */
};
struct kind {
    struct table_link link; /* referenced by rows, and by gangs as `stripped` */
    size_t size;            /* bytes of the block with the spreads; 0: none */
    struct profile profile;
    struct requirement_set *set;
    struct kind *stripped;          /* of a gang: the kind without Same; else NULL */
    const struct requirement *same; /* of a gang: its requirement Same */
    const struct spread *spread;    /* of a plain kind: the first strict spread, or NULL */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* the fingerprint */
};

struct demand_unit {
    struct table_link link;     /* referenced by rows and folds */
    struct resources resources; /* for comparisons with machines */
    struct amounts amounts;
    uint32_t len; /* bytes of `milli` */
    int128 milli[];
};

struct demand_cluster;
struct demand {
    struct need_key key;
    const struct profile *profile;
    struct amounts aggregate;
    const struct amounts *min_unit;
    int64_t arrival_unix_ns;
    bool gang;
    /* For the decision engine: */
    const struct kind *kind;
    struct demand_cluster *cluster;
    const struct resources *unit; /* min_unit, for comparisons with machines */
    struct gangs *gangs;          /* of a gang; else NULL */
    struct fold *fold;            /* of a plain row: the fold that would merge into the row */
    uint64_t rank;                /* priority and penalty buckets in one number, smallest first */
    uint64_t birth;               /* unique among the rows of this table */
    uint32_t place;               /* index of the row in the input */
    uint32_t memory;              /* index of the row's state in the last engine that used it */
};
/* Reads `rank`, which is faster than reading the profile. */
static inline uint8_t demand_interruption_bucket(const struct demand *d)
{
    return (uint8_t)(UINT8_MAX - (d->rank >> 8 & UINT8_MAX));
}
struct gangs {
    const struct kind *kind;
    struct amounts aggregate;
    struct fold *fold;
    uint32_t number; /* index among all gangs of the table, set by needs_order() */
};
struct fold {
    struct demand demand; /* aggregate of one gang; the engine sets arrival and place */
    struct demand_unit *unit;
    struct demand *plain; /* the plain row that the fold merges into; NULL: none */
    uint32_t number;      /* index among all folds of the table, set by needs_order() */
};
struct demand_row {         /* a row of a roll-up */
    struct table_link link; /* in a table keyed by (kind, group); only the first row of each key */
    struct kind *kind;
    struct demand_unit *unit;
    struct str group;
    struct amounts aggregate;
    int64_t arrival_unix_ns;
};
struct demand_cluster {
    struct table_link link;
    struct str name;                     /* points to `text` */
    const struct dimensions *dimensions; /* of the needs table */
    bool reported;
    struct demand_set {     /* the rows of one roll-up; replaced as a whole */
        struct arena arena; /* texts and amounts */
        void *block;        /* rows, demands, gangs and folds */
        size_t block_size;
        struct demand_row *rows;
        struct demand *demands;
        struct gangs *gangs;
        struct fold *folds;
        uint32_t row_count, demand_count, gangs_count, fold_count;
        struct table ages;
        uint64_t version; /* version of the table when the set was installed */
    } set;
    uint32_t slot, len;
    char text[];
};

struct needs {
    struct needs_options options;
    uint64_t bytes, births, version;
    struct table clusters, kinds, sets, units;
    struct slot_map cluster_slots, kind_slots, set_slots;
    uint32_t row_count, reported_count, filled_count;
    uint32_t held;           /* references to kinds by kind_hold() and by retired sets */
    struct retired *retired; /* replaced sets that a reader still uses */
    uint64_t kept;           /* version of the table that a reader still uses; 0: none */
    /* The order of Needs, for version `ordered` of the table. */
    struct demand **order;
    uint32_t *order_from, order_from_cap; /* indexed like `order`: slot of the row's cluster */
    struct fold **folds;                  /* in no order */
    uint32_t order_count, order_cap, gangs_count, folds_count, folds_cap;
    uint64_t ordered; /* 0: never ordered */
};

const struct demand_cluster *needs_cluster(const struct needs *needs, struct str cluster);
/* Keeps the current demands, kinds and texts valid until the next needs_keep(), even if a roll-up
 * replaces them. needs_forget() drops what was kept of its cluster. */
void needs_keep(struct needs *needs);
/* Updates order, gangs and folds. ERR_NOMEM. */
enum err needs_order(struct needs *needs);
/* For qsort() of struct demand *. Compares `place` last. */
int demand_compare(const void *left, const void *right);
/* Returns the earlier arrival; 0: unknown. */
static inline int64_t arrival_earlier(int64_t a, int64_t b)
{
    if (!a || !b) return a ? a : b;
    return a < b ? a : b;
}
#endif
