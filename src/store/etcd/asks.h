/* SPDX-License-Identifier: Apache-2.0 */
/* What requests of Lease and Watch ask of the store and of the feed: from the message alone. */
#ifndef STORE_ETCD_ASKS_H
#define STORE_ETCD_ASKS_H
#include "store/etcd/errors.h"
#include "store/etcd/feed.h"
#include "wire/pb/etcd_rpc.pb-c.h"

enum { ETCD_TTL_MIN_S = 2 };
#define ETCD_TTL_MAX_S 9000000000

enum etcd_error ask_grant_check(const Etcdserverpb__LeaseGrantRequest *m);
int64_t ask_grant_ttl(const Etcdserverpb__LeaseGrantRequest *m); /* raised to the least */
/* `drawn`: its number when the request has none; positive. */
struct store_command ask_grant(const Etcdserverpb__LeaseGrantRequest *m, int64_t drawn);
enum etcd_error ask_revoke_check(const Etcdserverpb__LeaseRevokeRequest *m);
struct store_command ask_revoke(const Etcdserverpb__LeaseRevokeRequest *m);

/* `refusal` says of a watch's keys why they may not be watched; NULL: they may. */
typedef const char *ask_watch_fn(void *owner, struct key_range range);
void ask_watch(struct feed_stream *stream, const Etcdserverpb__WatchRequest *m,
               ask_watch_fn *refusal, void *owner);
#endif
