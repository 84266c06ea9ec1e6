/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a shard and its client of the coordinator.
 *
 * The client includes only this header, and the shard knows nothing of the client; cmd/ connects
 * them. Each call is answered once, later, on the loop's thread. A shard that closes answers open
 * calls with ERR_CANCELLED. */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
#include "base/err.h"
#include "base/str.h"

/* `fields`: the encoded fields 5 (summary), 6 (shortfalls, at most 100), 100 (scope) and 102
 * (domains) of a ShardReport. A report has at most SHARD_VIEW_DOMAINS domains; the next report
 * continues where the last one ended. */
enum { SHARD_VIEW_DOMAINS = 1024 };
typedef void shard_report_fn(void *context, enum err err, struct str fields);
/* `why`: empty, or more detail than err_text() gives. */
typedef void shard_domain_fn(void *context, enum err err, struct str why);

struct shard_view {
    void *shard;
    void (*report)(void *shard, shard_report_fn *done, void *context);
    /* Assigns a domain (label key, value) to this shard, or takes it away.
     * - ERR_OK: the change is on disk, and from now on limits what the shard reconciles and buys.
     *   In a domain that was taken away the shard acts on no machine any more.
     * - ERR_BUSY: the domain was taken away, but machines there still serve a cluster. Repeat the
     *   call to learn when they are done.
     * - ERR_PRECONDITION: a domain cannot be taken from a shard that was never assigned one and
     *   therefore has everything.
     * - ERR_UNKNOWN: the change is in effect, but a power cut may revert it. Repeat the call to
     *   write it again.
     * - ERR_FULL, ERR_INVALID, and other errors of fs_publish: nothing changed. */
    void (*assign)(void *shard, struct str key, struct str value, bool assigned,
                   shard_domain_fn *done, void *context);
    /* Sets the highest term seen, for acknowledgements to operators. */
    void (*term)(void *shard, int64_t term);
};
#endif
