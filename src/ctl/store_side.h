/* SPDX-License-Identifier: Apache-2.0 */
/* One side of a copy between key spaces with etcd's API: a cluster named by a URL, or the
 * coordinators of --coordinator.
 *
 * Keys are read in order at one revision, page by page. A change is one transaction that applies
 * only if its keys have not changed since they were read. So no other writer's value is lost. */
#ifndef CTL_STORE_SIDE_H
#define CTL_STORE_SIDE_H
#include "ctl/ctl.h"
#include "wire/pb/etcd_rpc.pb-c.h"

struct store_side;
/* ERR_INVALID (the URL, an incomplete set of TLS files), ERR_NOMEM and errors of reading
 * certificates, with the note in `ctl`. */
enum err store_side_open_url(struct ctl *ctl, const char *option, struct store_side **ret_side);
enum err store_side_open_coordinators(struct ctl *ctl, struct store_side **ret_side);
void store_side_close(struct store_side *side);             /* NULL is fine */
const char *store_side_name(const struct store_side *side); /* "etcd", "the coordinators" */

/* Returns the first key after all keys with this prefix, in the command's memory. */
enum err store_prefix_end(struct ctl *ctl, struct str prefix, ProtobufCBinaryData *ret_end);

struct store_walk {
    struct store_side *side;
    struct str end; /* of the range */
    struct buf from;
    int64_t revision; /* 0: the newest, set by the first page */
    struct arena page;
    const Etcdserverpb__RangeResponse *answer; /* in `page` */
    size_t at;
    bool last; /* page */
};
void store_walk_open(struct store_walk *walk, struct store_side *side, struct str from,
                     struct str end);
void store_walk_close(struct store_walk *walk);
/* Returns the next key, NULL after the last; valid until the next call. */
enum err store_walk_next(struct store_walk *walk, const Mvccpb__KeyValue **ret_row);

enum { STORE_CHANGES_MAX = 100, STORE_CHANGES_BYTES = 512 * 1024 };
struct store_change {
    struct str key, value; /* borrowed until the change is sent */
    int64_t seen;          /* the key's revision when it was read; 0: no such key */
    bool removes;
};
/* *ret_done false: one of the keys has changed meanwhile, and nothing was written. */
enum err store_side_change(struct store_side *side, const struct store_change *changes,
                           size_t count, bool *ret_done);

ctl_fn store_copy_import, store_copy_export;
#endif
