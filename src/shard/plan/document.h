/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and demand as JSON: what `muster plan` reads and writes.
 *
 * The names are the wire's. A machine is an item of a provider's List, with `shard_metadata` for
 * what it was bought for, and one word of ours, "idle_seconds". A cluster is a roll-up:
 * "cluster_id" and "needs".
 * States, capacity types and operators are words (Idle, OnDemand, In); penalty buckets are the
 * wire's numbers or their upper bound in words ("8192", "pinned").
 *
 * Everything is checked, unknown fields too, and a mistake names the field. Values are borrowed
 * from the document or are in the arena. */
#ifndef SHARD_PLAN_DOCUMENT_H
#define SHARD_PLAN_DOCUMENT_H
#include "base/arena.h"
#include "model/machine.h"
#include "model/need.h"
#include "text/json.h"

struct document_machine {
    struct machine machine;
    uint64_t idle_ms; /* how long it has been Idle */
};
struct document_cluster {
    struct str cluster;
    struct need *needs;
    size_t need_count;
};

/* ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE, ERR_FULL (resource names), ERR_NOMEM. */
enum err document_read_machine(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_machine *ret_machine,
                               struct note *note);
enum err document_read_cluster(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_cluster *ret_cluster,
                               struct note *note);
/* One line each, which the readers take again. ERR_FULL, ERR_NOMEM. */
enum err document_write_machine(const struct document_machine *machine, struct arena *arena,
                                const struct dimensions *dimensions, struct buf *out);
enum err document_write_cluster(const struct document_cluster *cluster,
                                const struct dimensions *dimensions, struct buf *out);
#endif
