/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics muster_provider_*. The host counts them and publishes them at the end of each
 * turn. */
#ifndef PROVIDER_HOST_HOST_METRICS_H
#define PROVIDER_HOST_HOST_METRICS_H
#include "obs/metrics.h"
#include "provider/host/book.h"

struct provider_counts {
    struct book_stats book;
    uint64_t ended[2]; /* successful, and failed operations */
    uint64_t seen[SIGHTINGS];
    uint64_t rewritten[2]; /* compactions abandoned, and published */
    uint64_t lists[2];     /* full Lists, and deltas */
    uint64_t state_bytes, written_bytes, listed_bytes;
};
struct host_metrics { /* zeroed without metrics */
    struct metric_fields *rows;
    struct counter *asked[OPERATION_KINDS][BOOK_OUTCOMES];
    struct histogram *sync_seconds;
};
/* Errors of metrics_add(). */
enum err host_metrics_open(struct metrics *metrics, struct host_metrics *ret_metrics,
                           struct note *note);
#endif
