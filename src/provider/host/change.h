/* SPDX-License-Identifier: Apache-2.0 */
/* What happened to the book, one change after the other: what the journal holds and what replaying
 * it applies. Pure.
 *
 * A change is a byte that says which, then fields as protobuf writes them; what is zero is left
 * out. docs/formats/provider-state.md has the numbers.
 *
 *   ITEM     a text that others refer to by its number; with an epoch, a shard and its newest one
 *   MACHINE  all there is to say of a machine, but for its marks
 *   FENCE    a shard's token passed for a machine, or for an id that is none
 *   REMOVED  a machine is gone for good
 *   MARKS    the counters, at the head of a file: what must never be given out again */
#ifndef PROVIDER_HOST_CHANGE_H
#define PROVIDER_HOST_CHANGE_H
#include "base/buf.h"
#include "provider/host/backend.h"

enum book_change_kind {
    CHANGE_ITEM = 1,
    CHANGE_MACHINE = 2,
    CHANGE_FENCE = 3,
    CHANGE_REMOVED = 4,
    CHANGE_MARKS = 5,
};
struct book_change {
    enum book_change_kind kind;
    struct str id;     /* MACHINE, FENCE, REMOVED */
    uint64_t revision; /* MACHINE, REMOVED: of this change. MARKS: the newest */
    /* ITEM */
    uint64_t number;
    struct str bytes;
    /* MACHINE. What belongs to a state comes and goes with it: no host while Speculative or
     * Creating, a binding from Configuring to Draining, an error while Failed. */
    enum machine_state state;
    uint64_t offer;                       /* item */
    uint64_t binding;                     /* item; 0: none */
    struct str host;                      /* its name; empty: "host-<id>", or FAILED without one */
    struct str error;                     /* FAILED */
    uint64_t operations[OPERATION_KINDS]; /* the last accepted of each kind; 0: none */
    struct str blob;                      /* CONFIGURING */
    uint64_t grace_ms;                    /* DRAINING */
    /* FENCE; ITEM: the epoch of a shard, or 0 */
    uint64_t shard; /* item */
    int64_t epoch, sequence;
    /* MARKS */
    uint64_t identity, operation, item, forgotten; /* forgotten: tombstones up to this revision */
};
/* Appends its length and its bytes. ERR_FULL, ERR_NOMEM: nothing was appended. */
enum err change_write(const struct book_change *change, struct buf *into);
/* The change at the front of `bytes`, and how long it is; texts are views. ERR_PARSE. */
enum err change_read(struct str bytes, struct book_change *ret_change, size_t *ret_size);
#endif
