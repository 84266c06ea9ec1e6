/* SPDX-License-Identifier: Apache-2.0 */
/* Handles HashKV, which reads every key, and Ranges of very many keys. A Range is first measured,
 * then sent in slices of one revision, one slice per turn. The response is one message, but only a
 * slice is in memory. A sorted Range first reads all keys and keeps the first pairs. */
#ifndef STORE_ETCD_LISTING_H
#define STORE_ETCD_LISTING_H
#include "store/etcd/internal.h"

enum { LISTING_KEYS_MIN = 2048 }; /* fewer keys are sent in one turn */
/* True if the query must be sent in slices. Call query_check() first. */
bool listing_suits(const struct keys *keys, const struct query *query);
/* May answer in a later turn. `query` refers to the request's message. */
void listing_begin(struct etcd_request *request, const struct query *query);
/* Answers with the hash of all keys at the revision; 0 or less: the current revision. */
void listing_hash(struct etcd_request *request, int64_t revision);

/* -- called by the API -- */
enum err listing_open(struct etcd_api *api);
void listing_close(struct etcd_api *api);
void listing_writable(struct etcd_request *request);
void listing_freed(struct etcd_request *request);
void listing_restored(struct etcd_api *api); /* a snapshot replaced the state; all listings end */
#endif
