/* SPDX-License-Identifier: Apache-2.0 */
/* What a shard shows to who speaks with the coordinator, and what may be asked of it.
 *
 * A table of functions and nothing else: the client of the coordinator sees this header alone, and
 * the shard sees nothing of the client. Both meet in cmd/. Each call is answered once, later, on
 * the loop's thread; a shard that closes answers what is open with ERR_CANCELLED. */
#ifndef SHARD_VIEW_H
#define SHARD_VIEW_H
#include "base/err.h"
#include "base/str.h"

/* `fields`: fields 5 (summary), 6 (shortfalls, at most 100), 100 (scope) and 102 (domains, at most
 * SHARD_VIEW_DOMAINS; when there are more, each report continues where the last one ended) of a
 * ShardReport, encoded. */
enum { SHARD_VIEW_DOMAINS = 1024 };
typedef void shard_report_fn(void *context, enum err err, struct str fields);
/* `why`: empty, or more than err_text() says. */
typedef void shard_domain_fn(void *context, enum err err, struct str why);

struct shard_view {
    void *shard;
    void (*report)(void *shard, shard_report_fn *done, void *context);
    /* A domain (label key, value) is this shard's, or is not any more. ERR_OK: it is kept on disk
     * and scopes what the shard reconciles and buys from here on; one that was taken away has no
     * machine left that the shard acts on. ERR_BUSY: it was taken away, and machines there still
     * serve; asked again, the shard says whether they do. ERR_PRECONDITION: a domain is
     * to be taken from a shard that never was given one, and so has everything. ERR_UNKNOWN: it
     * counts, and may be lost with the power; asked again, the shard writes it again. ERR_FULL,
     * ERR_INVALID, and what fs_publish answers else: nothing changed. */
    void (*assign)(void *shard, struct str key, struct str value, bool assigned,
                   shard_domain_fn *done, void *context);
    /* The highest term heard of, for acknowledgements to operators. */
    void (*term)(void *shard, int64_t term);
};
#endif
