/* SPDX-License-Identifier: Apache-2.0 */
/* Invariants of the shards' reports after every call: counts, orders and bytes add up. */
#ifndef TESTS_LIB_REPORTS_CHECK_H
#define TESTS_LIB_REPORTS_CHECK_H
#include "fleet/shard_reports.h"

static inline void reports_check(const struct shard_reports *reports)
{
    size_t cursor = 0, bytes = 0, silent = 0, heard = 0, conflicts = 0, strays = 0;
    uint64_t before = 0;

    for (struct map_entry *e; (e = map_next(&reports->shards, &cursor));) {
        const struct reported_shard *shard = e->value;
        const struct instruction *last = NULL;
        size_t queued = 0, topics = 0, tagged = 0, stray = 0;

        LIST_EACH(&shard->queue, node)
        {
            const struct instruction *it = CONTAINER_OF(node, struct instruction, link);
            assert(!last || last->term < it->term ||
                   (last->term == it->term && last->sequence <= it->sequence));
            assert(map_get(&shard->by_id, it->id) == it);
            assert(!it->topic.len || map_get(&shard->by_topic, it->topic) == it);
            topics += it->topic.len > 0;
            tagged += it->tag != 0;
            stray += it->stray;
            bytes += it->id.len + it->topic.len + it->bytes.len + it->reason.len;
            queued++;
            last = it;
        }
        assert(queued == map_count(&shard->by_id) && queued <= reports->options.pending_max);
        assert(topics == map_count(&shard->by_topic) && tagged == shard->tagged);
        assert(stray == shard->strays);
        strays += stray;
        assert(shard->silent == (shard->heard.next == &shard->heard));
        assert(shard->shortfall_count <= REPORTS_SHORTFALLS_MAX);
        silent += shard->silent;
        conflicts += shard->conflict;
        bytes += shard->id.len + shard->summary.len + shard->shortfalls.len + shard->provider.len;
        for (size_t i = 0; i < REPORTS_PROCESSES_MAX; i++) bytes += shard->processes[i].address.len;
    }
    LIST_EACH(&reports->heard, node)
    {
        const struct reported_shard *shard = CONTAINER_OF(node, struct reported_shard, heard);
        assert(shard->heard_at.ms >= before && shard->heard_at.ms <= reports->now.ms);
        before = shard->heard_at.ms;
        heard++;
    }
    assert(bytes == reports->bytes && bytes <= reports->options.bytes_max);
    assert(silent == reports->silent_count && heard + silent == map_count(&reports->shards));
    assert(conflicts == reports->conflict_count && strays == reports->stray_count);
}
#endif
