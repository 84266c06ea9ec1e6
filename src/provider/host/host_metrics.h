/* SPDX-License-Identifier: Apache-2.0 */
/* The metrics of the provider, muster_provider_*. The host counts them and publishes them at the
 * end of each turn of its loop. */
#ifndef PROVIDER_HOST_HOST_METRICS_H
#define PROVIDER_HOST_HOST_METRICS_H
#include "obs/metrics.h"
#include "provider/host/book.h"

struct provider_counts {
    struct book_stats book;
    uint64_t ended[2]; /* number of operations that were done, and that failed */
    uint64_t seen[SIGHTINGS];
    uint64_t rewritten[2]; /* number of compactions abandoned, and of compactions published */
    uint64_t lists[2];     /* number of full Lists, and of deltas */
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
