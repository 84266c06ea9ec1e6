/* SPDX-License-Identifier: Apache-2.0 */
/* The interface between a shard and its client of the coordinator.
 *
 * The client includes only this header, and the shard does not know the client. cmd/ connects the
 * shard and the client. Each call is answered once, later, on the loop's thread. A shard that
 * closes answers open calls with ERR_CANCELLED. */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
#include "base/err.h"
#include "base/str.h"

/* `fields` are the encoded fields 5 (summary), 6 (shortfalls, at most 100), 100 (scope) and 102
 * (domains) of a ShardReport. A report has at most SHARD_VIEW_DOMAINS domains; the next report
 * continues behind the last domain sent. */
enum { SHARD_VIEW_DOMAINS = 1024 };
typedef void shard_report_fn(void *context, enum err err, struct str fields);
/* `why` is empty, or gives more detail than err_text(). */
typedef void shard_domain_fn(void *context, enum err err, struct str why);

struct shard_view {
    void *shard;
    void (*report)(void *shard, shard_report_fn *done, void *context);
    /* Assigns the domain (a label's key and value) to this shard, or takes the domain away.
     * - ERR_OK: the change is on disk, and limits what the shard reconciles and buys from now on.
     *   The shard acts on no machine of a domain that was taken away.
     * - ERR_BUSY: the domain was taken away, but machines there still serve a cluster. Repeat the
     *   call to learn when these machines are done.
     * - ERR_PRECONDITION: the shard was never assigned a domain, so it has all domains and none can
     *   be taken away.
     * - ERR_UNKNOWN: the change is in effect, but a power cut may revert it. Repeat the call to
     *   write the change again.
     * - ERR_FULL, ERR_INVALID, and other errors of fs_publish: nothing changed. */
    void (*assign)(void *shard, struct str key, struct str value, bool assigned,
                   shard_domain_fn *done, void *context);
    /* Sets the highest known term, which the shard sends to operators in acknowledgements. */
    void (*term)(void *shard, int64_t term);
};
#endif
