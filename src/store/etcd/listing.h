/* SPDX-License-Identifier: Apache-2.0 */
/* HashKV, which looks at every key; and a Range of very many keys: measured, then told, a slice a turn of the loop, all as of one
 * revision. Its answer is one message, of which next to nothing is held in memory. Of one that is
 * sorted the first few are kept while it is looked at, and then told. */
#ifndef STORE_ETCD_LISTING_H
#define STORE_ETCD_LISTING_H
#include "store/etcd/internal.h"

enum { LISTING_KEYS_MIN = 2048 }; /* fewer are told in one go */
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
void listing_restored(struct etcd_api *api); /* another state stands there: all end */
#endif
