/* SPDX-License-Identifier: Apache-2.0 */
/* A change of the book. Replaying a journal's changes makes the book again. Pure.
 *
 * On disk a change is one byte for its kind, followed by its fields in protobuf encoding
 * (docs/formats/provider-state.md).
 *
 *   ITEM     a text that other changes refer to by its number; with an epoch: the id of a shard
 *   MACHINE  the whole record of a machine, without its fences
 *   FENCE    the last token of a shard for a machine, or for an unknown id
 *   REMOVED  a machine is gone for good
 *   MARKS    the counters, at the head of a file: numbers that must not be used again */
#ifndef PROVIDER_HOST_CHANGE_H
#define PROVIDER_HOST_CHANGE_H
#include "base/buf.h"
#include "provider/host/backend.h"
#include "provider/host/pool.h"

enum book_change_kind {
    CHANGE_ITEM = 1,
    CHANGE_MACHINE = 2,
    CHANGE_FENCE = 3,
    CHANGE_REMOVED = 4,
    CHANGE_MARKS = 5,
};
struct book_change {
    enum book_change_kind kind;
    struct str id;     /* of the machine; in MACHINE, FENCE and REMOVED */
    uint64_t revision; /* revision of the change; in MARKS the newest revision */
    /* ITEM: */
    uint64_t number;
    struct str bytes;
    /* MACHINE. Speculative and Creating machines have no host. A binding exists from Configuring to
     * Draining. An error exists in Failed. */
    enum machine_state state;
    struct pool_item *offer, *binding;    /* borrowed; binding may be NULL */
    struct str host;                      /* empty: "host-<id>"; in FAILED: no host */
    struct str error;                     /* only in state FAILED */
    uint64_t operations[OPERATION_KINDS]; /* last accepted operation of each kind, or 0 */
    struct str blob;                      /* only in state CONFIGURING */
    uint64_t grace_ms;                    /* only in state DRAINING */
    /* FENCE. In an ITEM, `epoch` is the epoch of a shard or 0. */
    struct pool_item *shard; /* borrowed */
    int64_t epoch, sequence;
    /* MARKS: */
    uint64_t identity, operation, item, forgotten; /* forgotten: older tombstones were dropped */
};
/* Appends the change's length and bytes. ERR_FULL, ERR_NOMEM: nothing was appended. */
enum err change_write(const struct book_change *change, struct buf *into);
/* Reads the first change of `bytes` and its length; texts are views. `find` returns an item by
 * number, or NULL. ERR_PARSE; ERR_NOT_FOUND: the change names a missing item. */
typedef struct pool_item *change_find_fn(const void *context, uint64_t number);
enum err change_read(struct str bytes, change_find_fn *find, const void *context,
                     struct book_change *ret_change, size_t *ret_size);
#endif
