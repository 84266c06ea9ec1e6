/* SPDX-License-Identifier: Apache-2.0 */
/* One row of demand: the amount that a cluster wants of one profile.
 *
 * struct need is for interfaces (wire, JSON, tests). A shard stores compact rows instead. The texts
 * belong to the arena that need_build() used. */
#ifndef MODEL_NEED_H
#define MODEL_NEED_H
#include "model/profile.h"
#include "model/resource.h"

struct need {
    struct str cluster;
    struct profile profile;
    struct resource_sum aggregate; /* the amount for the whole row */
    struct resources min_unit;     /* a machine that counts has at least these resources */
    int64_t arrival_unix_ns;       /* 0: unknown */
    struct str group;              /* compared for equality only; may contain a NUL; may be empty */
};

/* A row as received, unchecked. */
struct need_input {
    struct str cluster;
    struct profile profile; /* not canonical, without fingerprint */
    const struct label *aggregate;
    size_t aggregate_count;
    const struct label *min_unit;
    size_t min_unit_count;
    int64_t arrival_unix_ns;
    struct str group;
};

/* Checks and copies a row. Errors name the field as on the wire ("aggregate_resources[cpu]: ...").
 * ERR_UNSUPPORTED: no machine can satisfy all requirements; a reader of a roll-up drops only this
 * row.
 * ERR_FULL: too many resource names in the shard.
 * ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE, ERR_NOMEM. */
enum err need_build(struct arena *arena, struct dimensions *dimensions,
                    const struct need_input *given, struct need *ret_need, struct note *note);
#endif
