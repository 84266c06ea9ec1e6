/* SPDX-License-Identifier: Apache-2.0 */
/* The demand of one cluster: the requests of a source, and the rows of a roll-up.
 *
 * Requests with the same profile and group form one row. The row has the exact sum of their
 * amounts, and in each dimension the larger of their units. A row is computed from its present
 * requests when it is read; nothing is subtracted, so rounding errors cannot accumulate.
 * Invariants, asserted like those of nodes.h and reclaims.h: I1 A row has a request. I2 Every
 * request is in one row.
 *
 * Each request is checked alone with the shard's rules, because a shard refuses a roll-up whole,
 * and one wrong workload must not cost its cluster all other demand. Pure. */
#ifndef OPERATOR_CORE_DEMAND_H
#define OPERATOR_CORE_DEMAND_H
#include "model/need.h"
#include "operator/core/request.h"

enum {
    DEMAND_REQUESTS_MAX = 1 << 20,
    DEMAND_ROWS_MAX = 200 * 1000, /* rows; a shard accepts no more in one roll-up */
};
/* The sum of DEMAND_REQUESTS_MAX requests stays below the bound of resource.h. */
static_assert(DEMAND_REQUESTS_MAX <= 1 << 20 && REQUEST_COUNT_MAX < 1 << 20,
              "2^63 milli-units, 2^20 of them, in 2^20 requests: below 2^107");

struct demand;
enum err demand_open(uint64_t seed, struct demand **ret_demand); /* ERR_NOMEM */
void demand_close(struct demand *demand);                        /* NULL is allowed */

/* Adds or replaces one request; `id` is the source's own name for the request, at most ID_MAX bytes
 * (for example a Kubernetes UID). The request is checked with the shard's rules. An error names the
 * field and leaves the earlier request of this id unchanged:
 *   ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE   malformed
 *   ERR_UNSUPPORTED                         well formed, but no machine can ever satisfy it
 *   ERR_FULL                                too many requests, rows or resource names
 *   ERR_NOMEM
 * *ret_change (may be NULL) is for source_ops.taken. */
enum err demand_put(struct demand *demand, struct str id, const struct capacity_request *request,
                    uint64_t *ret_change, struct note *note);
/* Checks whether demand_put() would accept the request, for a source that accepts an edit whole or
 * not at all. Changes nothing, and does not check for ERR_FULL. */
enum err demand_check(struct demand *demand, const struct capacity_request *request,
                      struct note *note);
void demand_remove(struct demand *demand, struct str id); /* an unknown id is allowed */
/* Between begin and end of a list the source puts all its requests. The end removes requests that
 * the list did not put. No demand is sent before the first list ends, nor during a list. A list
 * that cannot be completed must be given up, which removes nothing. */
void demand_list_begin(struct demand *demand);
void demand_list_end(struct demand *demand);
void demand_list_give_up(struct demand *demand);

/* Returns true if a list has ended and none is open, so that the demand may be sent. */
bool demand_whole(const struct demand *demand);
uint64_t demand_change(const struct demand *demand);  /* increases with every change */
uint64_t demand_refused(const struct demand *demand); /* number of failed calls of demand_put() */
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
/* Returns the next row in order of creation, or NULL at the end. *cursor must be 0 at first. The
 * row is valid until the next call that changes the demand. */
const struct rollup_row *demand_next(struct demand *demand, size_t *cursor);
#endif
