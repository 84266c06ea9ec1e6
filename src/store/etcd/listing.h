/* SPDX-License-Identifier: Apache-2.0 */
/* HashKV, which reads every key, and a Range of very many keys. Such a Range is measured, then sent,
 * a slice in a turn of the loop, all as of one revision. Its response is one message, of which only
 * a slice is held in memory. A sorted one keeps its first few pairs while it reads, then sends them. */
#ifndef STORE_ETCD_LISTING_H
#define STORE_ETCD_LISTING_H
#include "store/etcd/internal.h"

enum { LISTING_KEYS_MIN = 2048 }; /* fewer are sent in one turn */
/* Is it one for here? After query_check. */
bool listing_suits(const struct keys *keys, const struct query *query);
/* Answers, sooner or later. `query`: its views are the message's. */
void listing_begin(struct etcd_request *request, const struct query *query);
/* Of every key as of the revision, or of now, when that is 0 or less. */
void listing_hash(struct etcd_request *request, int64_t revision);

/* -- of the part -- */
enum err listing_open(struct etcd_api *api);
void listing_close(struct etcd_api *api);
void listing_writable(struct etcd_request *request);
void listing_freed(struct etcd_request *request);
void listing_restored(struct etcd_api *api); /* the state was replaced: all end */
#endif
