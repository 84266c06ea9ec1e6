/* SPDX-License-Identifier: Apache-2.0 */
/* One row of demand: a cluster wants this much of that profile.
 *
 * A plain struct of views, for the edges (wire, JSON, tests) and for building the shard's own
 * compact rows; texts belong to the arena it was built in. */
#ifndef MODEL_NEED_H
#define MODEL_NEED_H
#include "model/profile.h"
#include "model/resource.h"

struct need {
    struct str cluster;
    struct profile profile;
    struct resource_sum aggregate; /* all of it */
    struct resources min_unit;     /* every machine that counts must cover this */
    int64_t arrival_unix_ns;       /* 0: not known */
    struct str group;              /* compared for equality only; may hold a NUL; "": none */
};

/* A row as it arrives, nothing of it trusted yet. */
struct need_input {
    struct str cluster;
    struct profile profile; /* not canonical, no fingerprint */
    const struct label *aggregate;
    size_t aggregate_count;
    const struct label *min_unit;
    size_t min_unit_count;
    int64_t arrival_unix_ns;
    struct str group;
};

/* Checks and copies. Errors name the field as the wire calls it ("aggregate_resources[cpu]: ...");
 * the caller puts the row before it. ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE, ERR_FULL (a resource
 * name too many for the shard), ERR_NOMEM. ERR_UNSUPPORTED: well formed, but no machine can satisfy
 * its requirements together; a reader of a roll-up drops that row and keeps the others. */
enum err need_build(struct arena *arena, struct dimensions *dimensions,
                    const struct need_input *given, struct need *ret_need, struct note *note);
#endif
