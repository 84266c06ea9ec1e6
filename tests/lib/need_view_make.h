/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the inspection from a Need, as the core would show it. */
#ifndef TESTS_LIB_NEED_VIEW_MAKE_H
#define TESTS_LIB_NEED_VIEW_MAKE_H
#include "shard/core/core.h"
#include "shard/state/demand.h"

struct view_made {
    struct demand demand;
    struct need_verdict row;
    struct shortage shortage; /* shown when row.shortage points here */
    int128 milli[3][RESOURCES_MAX];
};

/* Texts and the unit are the Need's. */
static inline struct need_view need_view_make(struct view_made *made, const struct need *need)
{
    *made = (struct view_made){.demand = {.key = {.cluster = need->cluster,
                                                  .fingerprint = need->profile.fingerprint,
                                                  .group = need->group},
                                          .profile = &need->profile,
                                          .unit = &need->min_unit}};
    made->row = (struct need_verdict){.need = &made->demand, .domain = STR_EMPTY};
    amounts_pack(&need->aggregate, made->milli[0], &made->demand.aggregate);
    return (struct need_view){.row = &made->row};
}
#endif
