/* SPDX-License-Identifier: Apache-2.0 */
/* The demand of one cluster: the requests of a source, and the rows of a roll-up.
 *
 * Requests that share profile and group are one row: amounts added up exactly, and of the units the
 * larger counts in each dimension. A row is what its requests are now, computed from them when it
 * is looked at; nothing is subtracted, so nothing can drift. Invariants, asserted as those of
 * nodes.h and reclaims.h are: I1 A row has a request. I2 Every request is in one row.
 *
 * A request is checked as the shard checks a row, alone: a shard refuses a roll-up whole, and one
 * careless workload must not cost its cluster the rest. Pure. */
#ifndef OPERATOR_CORE_DEMAND_H
#define OPERATOR_CORE_DEMAND_H
#include "model/need.h"
#include "operator/core/request.h"

enum {
    DEMAND_REQUESTS_MAX = 1 << 20,
    DEMAND_ROWS_MAX = 200 * 1000, /* as many as a shard takes in one roll-up */
};
/* No sum of so many requests stops at the bound of resource.h. */
static_assert(DEMAND_REQUESTS_MAX <= 1 << 20 && REQUEST_COUNT_MAX < 1 << 20,
              "2^63 milli-units, 2^20 of them, in 2^20 requests: below 2^107");

struct demand;
enum err demand_open(uint64_t seed, struct demand **ret_demand); /* ERR_NOMEM */
void demand_close(struct demand *demand);                        /* NULL is fine */

/* Puts one request, new or changed; `id` is the source's own name for the request, at most ID_MAX
 * bytes (a Kubernetes UID, for example). The request is checked as the shard checks it. An error
 * names the field and leaves the earlier request under this id as it was:
 *   ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE   malformed
 *   ERR_UNSUPPORTED                         well formed, but no machine can ever satisfy it
 *   ERR_FULL                                too many requests, rows or resource names
 *   ERR_NOMEM
 * *ret_change (may be NULL) is for source_ops.taken. */
enum err demand_put(struct demand *demand, struct str id, const struct capacity_request *request,
                    uint64_t *ret_change, struct note *note);
/* Would demand_put take the request? For a source that takes all of an edit or nothing. Changes
 * nothing; ERR_FULL is not foreseen. */
enum err demand_check(struct demand *demand, const struct capacity_request *request,
                      struct note *note);
void demand_remove(struct demand *demand, struct str id); /* fine when it is not there */
/* Between begin and end the source puts everything; the end removes requests that were not put
 * since the beginning. The first end lets demand out to the shard, and during a list nothing is
 * sent. A list that cannot be completed is given up: nothing is removed. */
void demand_list_begin(struct demand *demand);
void demand_list_end(struct demand *demand);
void demand_list_give_up(struct demand *demand);

/* A list was ended once and none is open: the demand may go to the shard. */
bool demand_whole(const struct demand *demand);
uint64_t demand_change(const struct demand *demand);  /* grows with every change */
uint64_t demand_refused(const struct demand *demand); /* calls of demand_put that failed */
size_t demand_requests(const struct demand *demand);
size_t demand_rows(const struct demand *demand);
const struct dimensions *demand_dimensions(const struct demand *demand);

struct rollup_row {
    struct profile profile;
    struct str group;
    struct resource_sum aggregate;
    struct resources min_unit;
    size_t requests;
};
/* Walks the rows in the order they came into being; *cursor begins at 0; NULL at the end. The row
 * is valid until the next call that changes the demand. */
const struct rollup_row *demand_next(struct demand *demand, size_t *cursor);
#endif
