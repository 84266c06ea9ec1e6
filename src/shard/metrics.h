/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's metrics: bigfleet_shard_* as in existing dashboards, and some new ones. */
#ifndef SHARD_METRICS_H
#define SHARD_METRICS_H
#include "obs/metrics.h"
#include "shard/core/core.h"
#include "shard/sessions.h"

struct shard_metrics;
const char *audit_kind_name(enum action_kind kind); /* for example "Reclaim" */
/* ERR_NOMEM and errors of metrics_add. */
enum err shard_metrics_open(struct metrics *metrics, struct shard_metrics **ret_metrics,
                            struct note *note);
void shard_metrics_close(struct shard_metrics *m); /* NULL is fine */

/* Call after each batch of jobs. */
void shard_metrics_take(struct shard_metrics *m, const struct core_counts *counts);
/* Call after each cycle. Updates inventory and per-cluster metrics. */
void shard_metrics_cycle_end(struct shard_metrics *m, const struct core_counts *counts,
                             const struct cluster_counts *clusters, size_t count);
enum { OBSERVE_LIST = OBSERVE_COUNT, OBSERVE_CYCLE, SHARD_HISTOGRAMS };
void shard_metrics_observe(struct shard_metrics *m, unsigned histogram, double seconds);
void shard_metrics_phase(struct shard_metrics *m, enum cycle_phase phase, double seconds);
void shard_metrics_hold(struct shard_metrics *m, bool paused, bool fenced);
/* `blob_bytes`: size of blobs that wait for Configure. `blobs_refused`: blobs without room. */
void shard_metrics_sessions(struct shard_metrics *m, const struct sessions_stats *stats,
                            size_t blob_bytes, uint64_t blobs_refused);
void shard_metrics_list(struct shard_metrics *m, bool whole, uint64_t machines, double seconds);
#endif
