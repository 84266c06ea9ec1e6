/* SPDX-License-Identifier: Apache-2.0 */
/* What the clusters want: the rows of each cluster's last roll-up.
 *
 * Pure; one owner, one thread, like inventory.h. A roll-up replaces all rows of its cluster.
 *
 * The shard determines the age of rows, because operators stamp every row anew with every roll-up.
 * The arrival of a row is the time when its (cluster, fingerprint, group) was first seen: the
 * earliest known arrival among the rows of the first roll-up that contained it. The arrival is kept
 * while roll-ups contain the row, and forgotten with the first roll-up that does not. */
#ifndef SHARD_STATE_NEEDS_H
#define SHARD_STATE_NEEDS_H
#include "base/arena.h"
#include "model/need.h"

enum { NEEDS_ROWS_MOST = 4 << 20 };

struct needs; /* opaque */
struct needs_options {
    uint32_t rows_max;                   /* limit of all clusters' rows; more are ERR_FULL */
    uint64_t seed;                       /* hash seed: random in a shard, fixed in tests */
    const struct dimensions *dimensions; /* the shard's resource names; must outlive this object */
};
struct needs_stats {
    uint32_t clusters, rows; /* clusters: number of clusters with at least one row */
    uint32_t reported;       /* clusters that have reported since start */
    uint32_t profiles;       /* distinct fingerprints */
    uint64_t bytes;
};

enum err needs_open(const struct needs_options *options, struct needs **ret_needs);
void needs_close(struct needs *needs); /* NULL is allowed */

/* Replaces the cluster's rows by copies of `rows`, which may be empty, and marks the cluster as
 * reported. A roll-up that equals the last one, except for arrivals, changes nothing and is cheap,
 * because idle fleets repeat the same roll-up. Every row must name `cluster`, or the result is
 * ERR_INVALID. After ERR_FULL and ERR_NOMEM the old rows stay. */
enum err needs_replace(struct needs *needs, struct str cluster, const struct need *rows,
                       size_t count, struct note *note);
/* Records that the cluster has reported although its roll-up is in quarantine. ERR_NOMEM. */
enum err needs_mark_reported(struct needs *needs, struct str cluster);
/* Forgets the cluster's rows, and that the cluster ever reported. */
void needs_forget(struct needs *needs, struct str cluster);
/* Returns true if the cluster reported since start. Otherwise it keeps even unwanted machines. */
bool needs_reported(const struct needs *needs, struct str cluster);

struct needs_stats needs_stats(const struct needs *needs);
#endif
