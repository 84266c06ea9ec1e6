/* SPDX-License-Identifier: Apache-2.0 */
/* What the provider counts, muster_provider_*. Without metrics every member is NULL, and meter_*()
 * do nothing. */
#ifndef PROVIDER_HOST_HOST_METRICS_H
#define PROVIDER_HOST_HOST_METRICS_H
#include "obs/metrics.h"
#include "provider/host/book.h"

struct host_metrics {
    struct gauge *machines[MACHINE_STATE_COUNT];
    struct gauge *under_way, *revision, *state_bytes, *list_bytes;
    struct counter *asked[OPERATION_KINDS][BOOK_OUTCOMES];
    struct counter *ended[2]; /* done, failed */
    struct counter *seen[SIGHTINGS];
    struct counter *compacted[2]; /* given up, published */
    struct counter *lists[2];     /* full, delta */
    struct counter *written_bytes, *listed_bytes;
    struct histogram *sync_seconds;
};
enum err host_metrics_open(struct metrics *metrics, struct host_metrics *ret_metrics,
                           struct note *note);
void host_metrics_refresh(const struct host_metrics *m, const struct book *book);
static inline void meter_add(struct counter *counter, uint64_t n)
{
    if (counter) counter_add(counter, n);
}
static inline void meter_set(struct gauge *gauge, double value)
{
    if (gauge) gauge_set(gauge, value);
}
#endif
