/* SPDX-License-Identifier: Apache-2.0 */
/* Demand as the decision engine reads it: the rows of all clusters, merged as far as the rows alone
 * allow (docs/decision.md, section 1), in the order of Needs.
 *
 *   kind    a profile, shared by all rows that have it. Its requirement set is shared by all
 *           profiles that have equal requirements
 *   unit    what each machine must cover, shared by all rows that ask for the same
 *   demand  a plain row (all rows of one cluster, kind and unit joined), or a gang
 *   gangs   all gangs of one cluster with one kind and aggregate: they fold together or not at all
 *   fold    the plain row that gangs become when they fold: their kind without Same
 *
 * Whether gangs fold depends on the machines, so the engine decides it. Pointers are valid until
 * the next change of the table. (slot, birth) identifies a kind or set. */
#ifndef SHARD_STATE_DEMAND_H
#define SHARD_STATE_DEMAND_H
#include "shard/state/amounts.h"
#include "shard/state/needs.h"
#include "shard/state/table.h"

/* The key of a normalised Need. `group` is empty for a plain Need, which is no gang. */
struct need_key {
    struct str cluster, fingerprint, group;
};
int need_key_compare(const void *left, const void *right); /* compares two struct need_key */

struct requirement_set {
    struct table_link link; /* references are held by kinds */
    const struct requirement *requirements;
    size_t count, size; /* size: bytes of the memory block with the requirements */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* the requirements, as in the fingerprint */
};
struct kind {
    struct table_link link; /* referenced by rows, and by gangs as their `stripped` kind */
    size_t size;            /* bytes of the memory block with the spreads; 0: none */
    struct profile profile;
    struct requirement_set *set;
    struct kind *stripped;          /* of a gang: the kind without Same; NULL for a plain kind */
    const struct requirement *same; /* of a gang: the requirement Same */
    const struct spread *spread;    /* of a plain kind: its first strict constraint, or NULL */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* the fingerprint */
};

struct demand_unit {
    struct table_link link;     /* references are held by rows and folds */
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
    /* The decision engine uses the fields below. */
    const struct kind *kind;
    struct demand_cluster *cluster;
    const struct resources *unit; /* min_unit, in the form for comparisons with machines */
    struct gangs *gangs;          /* of a gang; otherwise NULL */
    struct fold *fold;            /* of a plain row: the fold that would merge into it, or NULL */
    uint64_t rank;                /* priority and penalty buckets in one number; smaller is first */
    uint64_t birth;               /* unique among the rows of this table */
    uint32_t place;               /* index of the row in the input */
    uint32_t memory; /* index of an engine's state; verified, because engines share rows */
};
/* Returns the profile's interruption bucket without reading the profile, to speed up searches. */
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
    struct demand demand;     /* aggregate of one gang; the engine sets arrival and place */
    struct demand_unit *unit; /* unit of `demand` */
    struct demand *plain;     /* the plain row that the fold merges into, or NULL */
    uint32_t number;          /* index among all folds of the table, set by needs_order() */
};
struct demand_row {         /* a row of a roll-up, with the arrival that the shard determined */
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
        struct arena arena; /* holds texts and amounts */
        void *block;        /* rows, demands, gangs and folds in one block of exact size */
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
    uint32_t held;           /* references to kinds by kind_hold() and retired sets, not by rows */
    struct retired *retired; /* replaced sets that a reader still uses */
    uint64_t kept;           /* version of the table that a reader still uses; 0: none */
    /* The order of Needs, as of version `ordered`. */
    struct demand **order;
    uint32_t *order_from, order_from_cap; /* indexed like `order`: slot of the row's cluster */
    struct fold **folds;                  /* unordered, since the engine sorts rows made of folds */
    uint32_t order_count, order_cap, gangs_count, folds_count, folds_cap;
    uint64_t ordered; /* 0: never ordered */
};

const struct demand_cluster *needs_cluster(const struct needs *needs, struct str cluster);
/* Keeps the current demands, kinds and texts valid until the next needs_keep(), even if a roll-up
 * replaces them, so that a decision can be shown long after it was made. At most one set per
 * cluster is kept. needs_forget() drops the kept set of its cluster. */
void needs_keep(struct needs *needs);
/* Updates order, gangs and folds. Has no other visible effect. Returns ERR_NOMEM on failure. */
enum err needs_order(struct needs *needs);
/* Compares two struct demand * by the order of Needs, for qsort(). `place` is compared last. */
int demand_compare(const void *left, const void *right);
/* Returns the earlier arrival; 0 means not known. */
static inline int64_t arrival_earlier(int64_t a, int64_t b)
{
    if (!a || !b) return a ? a : b;
    return a < b ? a : b;
}
#endif
