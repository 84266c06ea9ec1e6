/* SPDX-License-Identifier: Apache-2.0 */
/* Machines and demand as JSON, for `muster plan`.
 *
 * Field names are those of the wire format; "idle_seconds" is muster's own. A machine is an item of
 * a provider's List, a cluster is a roll-up. States, capacity types and operators are words (Idle,
 * OnDemand, In). Penalty buckets are the wire's numbers or upper bounds ("8192", "pinned").
 *
 * All input is checked. Errors name the field. Values are borrowed from the document or are in the
 * arena. */
#ifndef SHARD_PLAN_DOCUMENT_H
#define SHARD_PLAN_DOCUMENT_H
#include "base/arena.h"
#include "model/machine.h"
#include "model/need.h"
#include "text/json.h"

struct document_machine {
    struct machine machine;
    uint64_t idle_ms; /* time since the machine became Idle */
};
struct document_cluster {
    struct str cluster;
    struct need *needs;
    size_t need_count;
};

/* Read one object. ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE, ERR_FULL (resource names), ERR_NOMEM. */
enum err document_read_machine(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_machine *ret_machine,
                               struct note *note);
enum err document_read_cluster(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_cluster *ret_cluster,
                               struct note *note);
/* Write one line of JSON that the functions above can read. ERR_FULL, ERR_NOMEM. */
enum err document_write_machine(const struct document_machine *machine, struct arena *arena,
                                const struct dimensions *dimensions, struct buf *out);
enum err document_write_cluster(const struct document_cluster *cluster,
                                const struct dimensions *dimensions, struct buf *out);
#endif
