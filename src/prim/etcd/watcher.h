/* SPDX-License-Identifier: Apache-2.0 */
/* One Watch stream with many watches on it; loop thread only.
 *
 * A watch resumes by itself where it was when the stream has to be opened anew, so a lost
 * connection is no gap. Only history that the server no longer has ends it (etcd_sub_compacted). */
#ifndef PRIM_ETCD_WATCHER_H
#define PRIM_ETCD_WATCHER_H
#include "base/map.h"
#include "prim/etcd/client.h"
#include "wire/pb/etcd_rpc.pb-c.h"

struct etcd_backend;
struct etcd_sub {
    /* the owner's */
    struct str key, end; /* end: "" for one key; lives as long as the sub */
    uint64_t next;       /* the first revision it has not seen */
    bool progress;
    /* the watcher's */
    struct list link;
    struct etcd_watcher *watcher; /* NULL: not on one */
    int64_t id;
    uint32_t denied;
    bool asked;
};
struct etcd_watcher {
    struct courier_stream stream;
    struct etcd_backend *backend;
    struct list subs;
    struct map by_id;
    int64_t last_id;
    size_t unasked;
};
enum err etcd_watcher_init(struct etcd_watcher *watcher, struct etcd_backend *backend);
void etcd_watcher_deinit(struct etcd_watcher *watcher);
enum err etcd_sub_add(struct etcd_watcher *watcher, struct etcd_sub *sub); /* ERR_FULL, ERR_NOMEM */
void etcd_sub_remove(struct etcd_sub *sub); /* fine when it is on none */

/* -- feed.c: what a sub hears -- */
/* Events of one answer, or none: progress. `bytes` is the answer itself. */
void etcd_sub_events(struct etcd_sub *sub, const Etcdserverpb__WatchResponse *response,
                     struct str bytes);
void etcd_sub_compacted(struct etcd_sub *sub); /* it is no longer on the watcher; */
void etcd_sub_denied(struct etcd_sub *sub);    /* the same */
#endif
