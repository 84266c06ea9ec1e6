/* SPDX-License-Identifier: Apache-2.0 */
/* What the provider counts. Every function takes NULL: nothing is counted then. */
#ifndef PROVIDER_HOST_HOST_METRICS_H
#define PROVIDER_HOST_HOST_METRICS_H
#include "obs/metrics.h"
#include "provider/host/book.h"

struct host_metrics;
/* `metrics` NULL: *ret_metrics is NULL. The gauges are read from the book by host_metrics_refresh,
 * on the loop. */
enum err host_metrics_open(struct metrics *metrics, const struct book *book,
                           struct host_metrics **ret_metrics, struct note *note);
void host_metrics_close(struct host_metrics *m);
void host_metrics_refresh(struct host_metrics *m);
void host_metrics_asked(struct host_metrics *m, enum operation_kind kind,
                        enum book_outcome outcome);
void host_metrics_ended(struct host_metrics *m, bool failed);
void host_metrics_seen(struct host_metrics *m, enum sighting what);
void host_metrics_written(struct host_metrics *m, size_t bytes, uint64_t size, uint64_t sync_ns);
void host_metrics_compacted(struct host_metrics *m, bool published);
void host_metrics_listed(struct host_metrics *m, uint64_t bytes, bool delta);
#endif
