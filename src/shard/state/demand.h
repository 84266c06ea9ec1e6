/* SPDX-License-Identifier: Apache-2.0 */
/* Demand as the engine reads it: the rows of every cluster, already merged as far as the rows alone
 * decide it (docs/decision.md, section 1), and in the order of Needs.
 *
 *   kind    a profile, once for all rows that share it; with the set of its requirements, once for
 *           all profiles that share those
 *   unit    what each machine must cover, once for all rows that ask for the same
 *   demand  a plain row (all rows of one cluster, kind and unit joined), or a gang
 *   gangs   all gangs of one cluster with one kind and aggregate: they fold together or not at all
 *   fold    what gangs become when they fold: one plain row of their kind without Same
 *
 * Whether gangs fold depends on the machines there are, so that is left to the engine. Pointers are
 * valid until the next change of the table; (slot, birth) is the identity of a kind or set. */
#ifndef SHARD_STATE_DEMAND_H
#define SHARD_STATE_DEMAND_H
#include "shard/state/amounts.h"
#include "shard/state/needs.h"
#include "shard/state/table.h"

/* The key of a normalised Need. A plain one has no group. */
struct need_key {
    struct str cluster, fingerprint, group;
};
int need_key_compare(const void *left, const void *right); /* of two struct need_key */

struct requirement_set {
    struct table_link link; /* counted by kinds */
    const struct requirement *requirements;
    size_t count, size; /* size: of the block the requirements are in */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* as in the fingerprint */
};
struct kind {
    struct table_link link; /* counted by rows, and by the gang kinds it is left over from */
    size_t size;            /* of the block the spreads are in; 0: none */
    struct profile profile;
    struct requirement_set *set;
    struct kind *stripped;          /* a gang's: without Same; NULL: plain */
    const struct requirement *same; /* a gang's: the one whose key is K */
    const struct spread *spread;    /* a plain one's: its first strict constraint; NULL: none */
    uint64_t birth;
    uint32_t slot, len;
    char text[]; /* the fingerprint */
};

struct demand_unit {
    struct table_link link;     /* counted by rows and folds */
    struct resources resources; /* to compare machines with */
    struct amounts amounts;
    uint32_t len; /* bytes of: */
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
    /* For the engine. */
    const struct kind *kind;
    struct demand_cluster *cluster;
    const struct resources *unit; /* min_unit, to compare machines with */
    struct gangs *gangs;          /* a gang's */
    struct fold *fold;            /* a plain one's: what would merge into it; NULL: nothing */
    uint64_t rank;                /* priority and buckets in one number: smaller comes first */
    uint64_t birth;               /* never that of another row of this table */
    uint32_t place;               /* in the input */
    uint32_t memory; /* an engine's: where it remembers this row; looked at, not believed */
};
/* The profile's, for walks over all rows: the profile itself is not looked up. */
static inline uint8_t demand_interruption_bucket(const struct demand *d)
{
    return (uint8_t)(UINT8_MAX - (d->rank >> 8 & UINT8_MAX));
}
struct gangs {
    const struct kind *kind;
    struct amounts aggregate;
    struct fold *fold;
    uint32_t number; /* among all gangs of the table when it was ordered */
};
struct fold {
    struct demand demand; /* its aggregate that of one gang; arrival and place left to the engine */
    struct demand_unit *unit; /* of the demand */
    struct demand *plain;     /* the plain row it merges into, whose `fold` it is; NULL: none */
    uint32_t number;          /* among all folds of the table when it was ordered */
};
struct demand_row {         /* a row as it came, but for its arrival */
    struct table_link link; /* by (kind, group), the first of each */
    struct kind *kind;
    struct demand_unit *unit;
    struct str group;
    struct amounts aggregate;
    int64_t arrival_unix_ns;
};
struct demand_cluster {
    struct table_link link;
    struct str name;                     /* its text */
    const struct dimensions *dimensions; /* of its table */
    bool reported;
    struct demand_set {     /* of one roll-up; replaced as a whole */
        struct arena arena; /* texts and amounts */
        void *block;        /* rows, demands, gangs and folds, cut to measure */
        size_t block_size;
        struct demand_row *rows;
        struct demand *demands;
        struct gangs *gangs;
        struct fold *folds;
        uint32_t row_count, demand_count, gangs_count, fold_count;
        struct table ages;
        uint64_t version; /* of the table when it was put in */
    } set;
    uint32_t slot, len;
    char text[];
};

struct needs {
    struct needs_options options;
    uint64_t bytes, births, version;
    struct table clusters, kinds, sets, units;
    struct rooms cluster_slots, kind_slots, set_slots;
    uint32_t row_count, reported_count, filled_count;
    uint32_t held;           /* references to kinds that no row counts: kind_hold(), retired sets */
    struct retired *retired; /* sets that were replaced and are still read */
    uint64_t kept;           /* the version that is still read; 0: none */
    /* The order, as of `ordered`. */
    struct demand **order;
    uint32_t *order_from, order_from_cap; /* by place: slot of the cluster whose row it is */
    struct fold **folds; /* in no order: what they become is put in the order of Needs */
    uint32_t order_count, order_cap, gangs_count, folds_count, folds_cap;
    uint64_t ordered; /* the version; 0: never */
};

const struct demand_cluster *needs_cluster(const struct needs *needs, struct str cluster);
/* Every demand, kind and text of now stays where it is, though its cluster's rows are replaced,
 * until the next needs_keep(), for showing a decision long after it. At most one set per cluster
 * is kept so. needs_forget() ends it for that cluster. */
void needs_keep(struct needs *needs);
/* Brings order, gangs and folds up to date. Changes nothing anybody can see. ERR_NOMEM. */
enum err needs_order(struct needs *needs);
/* The order of Needs; `place` is looked at last. Of two struct demand *, for qsort(). */
int demand_compare(const void *left, const void *right);
/* The earlier arrival of two; 0 is not known. */
static inline int64_t arrival_earlier(int64_t a, int64_t b)
{
    if (!a || !b) return a ? a : b;
    return a < b ? a : b;
}
#endif
