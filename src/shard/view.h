/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a shard and its client of the coordinator. cmd/ connects the two. Each call
 * is answered once, later, on the loop's thread. A shard that closes answers open calls with
 * ERR_CANCELLED. */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
#include "base/err.h"
#include "base/str.h"

/* `fields`: the encoded fields 5 (summary), 6 (shortfalls, at most 100), 100 (scope) and 102
 * (domains) of a ShardReport. A report has at most SHARD_VIEW_DOMAINS domains; the next report
 * continues with the next domain. */
enum { SHARD_VIEW_DOMAINS = 1024 };
typedef void shard_report_fn(void *context, enum err err, struct str fields);
/* `why`: more detail than err_text(), or empty. */
typedef void shard_domain_fn(void *context, enum err err, struct str why);

struct shard_view {
    void *shard;
    void (*report)(void *shard, shard_report_fn *done, void *context);
    /* Assigns a domain (label key and value) to this shard, or takes the domain away.
     * - ERR_OK: the change is on disk. The shard acts on no machine of a domain taken away.
     * - ERR_BUSY: taken away, but machines there still serve a cluster. Repeat the call later.
     * - ERR_PRECONDITION: no domain was ever assigned, so none can be taken away.
     * - ERR_UNKNOWN: in effect, but a power cut may revert the change. Repeat the call.
     * - ERR_FULL, ERR_INVALID, and other errors of fs_publish: nothing changed. */
    void (*assign)(void *shard, struct str key, struct str value, bool assigned,
                   shard_domain_fn *done, void *context);
    /* Sets the highest known term, which the shard sends to operators. */
    void (*term)(void *shard, int64_t term);
};
#endif
