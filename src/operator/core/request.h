/* SPDX-License-Identifier: Apache-2.0 */
/* What one workload asks of its cluster's machines: a pod, or a row of a file.
 *
 * A plain struct of views, nothing of it trusted yet: demand_put() checks and copies (demand.h).
 * Amounts are those of ONE unit; `count` says how many such units there are. */
#ifndef OPERATOR_CORE_REQUEST_H
#define OPERATOR_CORE_REQUEST_H
#include "base/buf.h"
#include "model/profile.h"
#include "model/requirement.h"

enum { REQUEST_COUNT_MAX = 1000 * 1000 };

struct request_penalty {
    bool given;
    double dollars; /* rounded up to a bucket; +Inf is "pinned" */
};
struct capacity_request {
    const struct requirement *requirements; /* without Same: `same_key` makes it */
    size_t requirement_count;
    const struct spread *spreads; /* those with ScheduleAnyway are dropped, as the wire wants it */
    size_t spread_count;
    const struct label *resources; /* name and quantity text ("cpu", "500m"); of one unit */
    size_t resource_count;
    uint32_t count; /* 1..REQUEST_COUNT_MAX */
    int32_t priority;
    struct request_penalty interruption, reclamation;
    /* Co-location: all machines of the group carry one value under this key. Empty: none. */
    struct str same_key;
    struct str group; /* as group_write() makes it; with same_key only */
};

/* One expression of a Kubernetes label selector; operator as Kubernetes spells it ("In"). */
struct selector_term {
    struct str key, op;
    const struct str *values;
    size_t value_count;
};
/* The group of a co-location term, byte for byte as the original writes it: topology key, NUL,
 * "k=v," for each label by key, then ";" and "key op v1,v2;" for each expression by key, operator,
 * joined values. No label and no expression (an absent selector): nothing follows the NUL. Sorts
 * `labels` and `terms` in place. Appends; ERR_FULL, ERR_NOMEM of `out`. */
enum err group_write(struct str topology_key, struct label *labels, size_t label_count,
                     struct selector_term *terms, size_t term_count, struct buf *out);
#endif
