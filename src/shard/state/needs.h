/* SPDX-License-Identifier: Apache-2.0 */
/* What the clusters want: the rows of each cluster's last roll-up. Pure; the decide thread owns the
 * table.
 *
 * Operators stamp every row anew with every roll-up. So the shard keeps the arrival of a (cluster,
 * fingerprint, group) from the first roll-up that has this triple, until a roll-up comes without
 * the triple. */
#ifndef SHARD_STATE_NEEDS_H
#define SHARD_STATE_NEEDS_H
#include "base/arena.h"
#include "model/need.h"

enum { NEEDS_ROWS_MOST = 4 << 20 };

struct needs; /* opaque */
struct needs_options {
    uint32_t rows_max;                   /* rows of all clusters; beyond: ERR_FULL */
    uint64_t seed;                       /* hash seed: random in a shard, fixed in tests */
    const struct dimensions *dimensions; /* the shard's resource names; must outlive this object */
};
struct needs_stats {
    uint32_t clusters, rows; /* clusters: with at least one row */
    uint32_t reported;       /* clusters that have reported since the start */
    uint32_t profiles;       /* distinct fingerprints */
    uint64_t bytes;
};

enum err needs_open(const struct needs_options *options, struct needs **ret_needs);
void needs_close(struct needs *needs); /* NULL is allowed */

/* Replaces the cluster's rows by copies of `rows`, and marks the cluster as reported. A roll-up
 * equal to the last one is cheap. ERR_INVALID if a row names another cluster. ERR_FULL, ERR_NOMEM:
 * the old rows stay. */
enum err needs_replace(struct needs *needs, struct str cluster, const struct need *rows,
                       size_t count, struct note *note);
/* Call when a roll-up is held in quarantine. ERR_NOMEM. */
enum err needs_mark_reported(struct needs *needs, struct str cluster);
/* Forgets the cluster's rows, and that the cluster ever reported. */
void needs_forget(struct needs *needs, struct str cluster);
/* False: the cluster has not reported since the start, so it keeps even unwanted machines. */
bool needs_reported(const struct needs *needs, struct str cluster);

struct needs_stats needs_stats(const struct needs *needs);
#endif
