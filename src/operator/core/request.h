/* SPDX-License-Identifier: Apache-2.0 */
/* A workload's request for machines, from a pod or a row of a demand file. demand_put() checks and
 * copies the data. Amounts are of one unit; `count` is the number of units. */
#ifndef OPERATOR_CORE_REQUEST_H
#define OPERATOR_CORE_REQUEST_H
#include "base/buf.h"
#include "model/profile.h"
#include "model/requirement.h"

enum { REQUEST_COUNT_MAX = 1000 * 1000 };

struct request_penalty {
    bool given;
    double dollars; /* rounded up to a bucket; +Inf: pinned */
};
struct capacity_request {
    const struct requirement *requirements; /* without operator Same */
    size_t requirement_count;
    const struct spread *spreads; /* without ScheduleAnyway */
    size_t spread_count;
    const struct label *resources; /* name and quantity as text: "cpu", "500m" */
    size_t resource_count;
    uint32_t count; /* 1..REQUEST_COUNT_MAX */
    int32_t priority;
    struct request_penalty interruption, reclamation;
    /* Co-location: all machines of the group have the same value of this label. Empty: no
     * co-location. */
    struct str same_key;
    struct str group; /* from group_write(); empty without same_key */
};

/* `op` as in Kubernetes: "In". */
struct selector_term {
    struct str key, op;
    const struct str *values;
    size_t value_count;
};
/* Appends the group of a co-location term, byte for byte as the original operator does. Sorts
 * `labels` and `terms` in place. Returns ERR_FULL or ERR_NOMEM of `out`.
 *   topology key, NUL
 *   "k=v,"            for each label, sorted by key
 *   ";"
 *   "key op v1,v2;"   for each expression, sorted by key, operator and joined values
 * Without labels and expressions nothing follows the NUL. */
enum err group_write(struct str topology_key, struct label *labels, size_t label_count,
                     struct selector_term *terms, size_t term_count, struct buf *out);
#endif
