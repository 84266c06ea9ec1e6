/* SPDX-License-Identifier: Apache-2.0 */
/* What the clusters want: the rows of every roll-up, each cluster's set replaced as a whole.
 *
 * Pure, one owner, one thread, as inventory.h. A roll-up never merges with what was there: rows
 * that it does not name are gone.
 *
 * Age is ours: an operator stamps every row anew with every roll-up, so "older first" would mean
 * nothing. A row's arrival here is when its (cluster, fingerprint, group) was first seen: the
 * earliest known arrival among the rows of the first roll-up that had it. It is kept while
 * roll-ups keep naming it and forgotten with the first that does not. */
#ifndef SHARD_STATE_NEEDS_H
#define SHARD_STATE_NEEDS_H
#include "base/arena.h"
#include "model/need.h"

enum { NEEDS_ROWS_MOST = 4 << 20 };

struct needs; /* opaque */
struct needs_options {
    uint32_t rows_max; /* of all clusters together; past it ERR_FULL */
    uint64_t seed;     /* of the hash tables: random in a shard, fixed in a test */
    const struct dimensions *dimensions; /* the shard's table; outlives this one */
};
struct needs_stats {
    uint32_t clusters, rows; /* clusters with at least one row */
    uint32_t reported;       /* clusters that have reported since start */
    uint32_t profiles;       /* distinct fingerprints */
    uint64_t bytes;
};

enum err needs_open(const struct needs_options *options, struct needs **ret_needs);
void needs_close(struct needs *needs); /* NULL is fine */

/* Swaps the cluster's rows for these, which it copies; none removes them all. Counts as a report.
 * Those that say what the last ones said, arrivals apart, change nothing and cost a look: a fleet
 * at rest rolls up the same again and again.
 * Every row must name `cluster` (ERR_INVALID). ERR_FULL, ERR_NOMEM: the old rows stay. */
enum err needs_replace(struct needs *needs, struct str cluster, const struct need *rows,
                       size_t count, struct note *note);
/* The cluster has reported though its roll-up is held back (quarantine). ERR_NOMEM. */
enum err needs_mark_reported(struct needs *needs, struct str cluster);
/* Forgets that the cluster ever reported, and its rows. */
void needs_forget(struct needs *needs, struct str cluster);
/* It reported since start, so what it does not ask for may be taken from it. */
bool needs_reported(const struct needs *needs, struct str cluster);

struct needs_stats needs_stats(const struct needs *needs);
#endif
