/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a copy between key spaces that speak etcd's API: a cluster named by a URL, or the
 * coordinators of --coordinator.
 *
 * Keys come in order as they were at one revision, a page at a time. A change is one transaction
 * that holds only while each of its keys is as it was read, so a repeat after a lost answer does
 * nothing, and nobody else's write is lost. */
#ifndef CTL_STORE_SIDE_H
#define CTL_STORE_SIDE_H
#include "ctl/ctl.h"
#include "wire/pb/etcd_rpc.pb-c.h"

struct store_side;
/* ERR_INVALID (the URL, a part of the TLS files), ERR_NOMEM and what reading certificates gives;
 * the note of `ctl` says it. */
enum err store_side_open_url(struct ctl *ctl, const char *option, struct store_side **ret_side);
enum err store_side_open_coordinators(struct ctl *ctl, struct store_side **ret_side);
void store_side_close(struct store_side *side);             /* NULL is fine */
const char *store_side_name(const struct store_side *side); /* "etcd", "the coordinators" */

/* The first key behind all that begin with this, in the command's memory. */
enum err store_prefix_end(struct ctl *ctl, struct str prefix, ProtobufCBinaryData *ret_end);

struct store_walk {
    struct store_side *side;
    struct str end;   /* of the range */
    struct buf from;  /* where the next page begins */
    int64_t revision; /* 0 until the first page: as of now, and of that moment from then on */
    struct arena page;
    const Etcdserverpb__RangeResponse *answer; /* in `page` */
    size_t at;
    bool last; /* page */
};
void store_walk_open(struct store_walk *walk, struct store_side *side, struct str from,
                     struct str end);
void store_walk_close(struct store_walk *walk);
/* The next key, NULL behind the last; valid until the next call. */
enum err store_walk_next(struct store_walk *walk, const Mvccpb__KeyValue **ret_row);

enum { STORE_CHANGES_MAX = 100, STORE_CHANGES_BYTES = 512 * 1024 };
struct store_change {
    struct str key, value; /* borrowed until it is sent */
    int64_t seen;          /* the revision its key has now; 0: it is not there */
    bool removes;
};
/* ret_done false: one of the keys has changed meanwhile, and nothing was done. */
enum err store_side_change(struct store_side *side, const struct store_change *changes,
                           size_t count, bool *ret_done);

ctl_fn store_copy_import, store_copy_export; /* musterctl store import, export */
#endif
