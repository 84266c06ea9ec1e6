/* SPDX-License-Identifier: Apache-2.0 */
/* The demand of one cluster: the requests of a source, and the rows of a roll-up. Pure.
 *
 * Requests with the same profile and group form one row. A row has the sum of the amounts and, for
 * each dimension, the largest unit. Rows are computed from all requests when they are read, so
 * rounding errors cannot accumulate. Each request is checked alone with the shard's rules, because
 * a shard refuses a roll-up with one wrong row.
 *
 * Invariants: I1 A row has a request. I2 Every request is in one row. */
#ifndef OPERATOR_CORE_DEMAND_H
#define OPERATOR_CORE_DEMAND_H
#include "base/time.h"
#include "model/need.h"
#include "operator/core/request.h"

enum {
    DEMAND_REQUESTS_MAX = 1 << 20,
    DEMAND_ROWS_MAX = 200 * 1000, /* a shard refuses a roll-up with more rows */
    SUPPLY_REASON_CAP = 40,
};
static_assert(DEMAND_REQUESTS_MAX <= 1 << 20 && REQUEST_COUNT_MAX < 1 << 20,
              "2^63 milli-units, 2^20 of them, in 2^20 requests: below 2^107");

struct demand;
enum err demand_open(uint64_t seed, struct demand **ret_demand); /* ERR_NOMEM */
void demand_close(struct demand *demand);                        /* NULL is allowed */

/* Adds or replaces the request `id`, for example a Kubernetes UID of at most ID_MAX bytes. After an
 * error the earlier request of this id stays.
 *   ERR_INVALID, ERR_PARSE, ERR_TOO_LARGE   malformed
 *   ERR_UNSUPPORTED                         well formed, but no machine can ever satisfy it
 *   ERR_FULL                                too many requests, rows or resource names
 *   ERR_NOMEM
 * *ret_change (may be NULL) is the number to compare with the argument of source_ops.taken. */
enum err demand_put(struct demand *demand, struct str id, const struct capacity_request *request,
                    uint64_t *ret_change, struct note *note);
/* Checks a request as demand_put() does, except for ERR_FULL. Changes nothing. */
enum err demand_check(struct demand *demand, const struct capacity_request *request,
                      struct note *note);
void demand_remove(struct demand *demand, struct str id);
/* A list replaces all requests. demand_list_end() removes the requests that were not put since
 * demand_list_begin(); demand_list_give_up() removes nothing. The operator sends no demand before
 * the first list has ended, nor during a list. */
void demand_list_begin(struct demand *demand);
void demand_list_end(struct demand *demand);
void demand_list_give_up(struct demand *demand);

bool demand_whole(const struct demand *demand);
uint64_t demand_change(const struct demand *demand); /* increases with every change */
uint64_t demand_refused(const struct demand *demand);
size_t demand_requests(const struct demand *demand);
size_t demand_rows(const struct demand *demand);
const struct dimensions *demand_dimensions(const struct demand *demand);

/* What the shard's last cycle decided for a row. */
struct supply {
    bool satisfied;
    uint64_t ready, coming, lacking; /* machines, machines, units */
    char reason[SUPPLY_REASON_CAP];  /* as the shard names it: "NO_MATCHING_SUPPLY" */
    wall_time since;                 /* when `satisfied` changed */
};
/* Keeps the shard's report about a row, also while no request forms the row, because the shard does
 * not repeat the report. NULL: the shard has no report. ERR_FULL (DEMAND_ROWS_MAX), ERR_NOMEM. */
enum err demand_supply_put(struct demand *demand, struct str fingerprint, struct str group,
                           const struct supply *supply);
void demand_supplies_forget(struct demand *demand); /* a new session repeats all reports */
/* The report about the row of a request; NULL: none. */
const struct supply *demand_supply(const struct demand *demand, struct str id);

struct rollup_row {
    struct profile profile;
    struct str group;
    struct resource_sum aggregate;
    struct resources min_unit;
    size_t requests;
};
/* Returns the next row in order of creation, or NULL. *cursor must be 0 at first. The row is valid
 * until the demand changes. */
const struct rollup_row *demand_next(struct demand *demand, size_t *cursor);
#endif
