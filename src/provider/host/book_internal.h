/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the book; only for its own files. */
#ifndef PROVIDER_HOST_BOOK_INTERNAL_H
#define PROVIDER_HOST_BOOK_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "provider/host/book.h"
#include "provider/host/change.h"
#include "provider/host/operation.h"
#include "provider/host/pool.h"

enum {
    CHUNK = 4096,                             /* entries per allocation; an entry is never moved */
    STRANGERS_MOST = 16 * BOOK_STRANGERS_MAX, /* limit while a journal is read */
    CHUNKS_MAX = (BOOK_MACHINES_MAX + STRANGERS_MOST) / CHUNK,
    CHANGES_BYTES_MAX = INT32_MAX,
    LIST_MACHINES = 1,
    MACHINE_CLUSTER = 14,
    MACHINE_METADATA = 15,
    ENTRY_HOST_CAP = 264,
};

struct fence {
    struct pool_item *shard;
    int64_t epoch, sequence;
};
struct shard_epoch {  /* a shard's newest epoch on any machine */
    struct list link; /* least recently used first */
    struct pool_item *shard;
    int64_t epoch;
};
struct fences { /* of a machine or an unknown id; nearly always one fence */
    struct fence *all;
    uint32_t count;
};
struct entry_texts { /* most machines have no such texts */
    uint64_t grace_ms;
    uint32_t host_len, error_len, blob_len;
    char bytes[]; /* host, error and blob, in this order */
};
/* A machine; or, with MACHINE_UNSPECIFIED, an unknown id with fences (a "stranger"). A removed
 * machine becomes a stranger, so that its fences still hold if the id is used again. */
struct book_entry {
    char *id;
    uint64_t revision;
    uint64_t operations[OPERATION_KINDS];
    struct pool_item *offer, *binding;
    struct entry_texts *texts; /* NULL: no error, and the host is "host-<id>" */
    struct fences fences;
    /* in revision order, strangers in age order; `newer` also links free slots */
    struct book_entry *newer, *older;
    uint32_t slot;
    uint32_t wire_len; /* bytes in a List, including tag and length prefix */
    uint8_t id_len, state;
    bool has_host; /* only used in FAILED; other states say whether there is a host */
};
struct entry_order {
    struct book_entry *newest, *oldest;
};
struct tombstone {
    struct list link;
    uint64_t revision;
    uint8_t id_len;
    char id[];
};

struct book {
    struct book_options options;
    struct book_entry **chunks;
    uint32_t slots;
    struct book_entry *free;
    struct map by_id;
    uint64_t operations;
    struct map shards;
    struct list shards_by_use;
    struct list tombstones;
    struct entry_order by_revision, strangers;
    size_t stranger_count;
    struct item_pool pool;
    struct map loading; /* struct loaded, by item number; only while a journal is read */
    uint64_t identity, revision, operation, forgotten;
    uint64_t blob_bytes;
    uint64_t count[MACHINE_STATE_COUNT], bytes[MACHINE_STATE_COUNT]; /* bytes: size in a List */
    size_t tombstone_count;
    struct buf changes;
    struct buf machine, host; /* scratch buffers of book_wire.c */
    uint64_t rewriting;       /* number of the newest compaction; see pool_item.written */
    bool loaded;
    struct list walks;
    struct {
        bool marked;
        uint32_t position; /* all slots below it are written */
    } snapshot;
};

static inline struct str entry_id(const struct book_entry *e)
{
    return str_of(e->id, e->id_len);
}
/* Empty for the host "host-<id>", which is not stored. */
static inline struct str entry_own_host(const struct book_entry *e)
{
    return e->texts ? str_of(e->texts->bytes, e->texts->host_len) : STR_EMPTY;
}
static inline struct str entry_error(const struct book_entry *e)
{
    const struct entry_texts *t = e->texts;
    return t ? str_of(t->bytes + t->host_len, t->error_len) : STR_EMPTY;
}
static inline struct str entry_blob(const struct book_entry *e)
{
    const struct entry_texts *t = e->texts;
    return t ? str_of(t->bytes + t->host_len + t->error_len, t->blob_len) : STR_EMPTY;
}
static inline struct book_entry *book_slot(const struct book *book, uint32_t slot)
{
    return &book->chunks[slot / CHUNK][slot % CHUNK];
}
/* 0: no operation is under way. */
static inline uint64_t entry_under_way(const struct book_entry *e)
{
    enum operation_kind kind = operation_passing(e->state);
    return kind < OPERATION_KINDS ? e->operations[kind] : 0;
}
static inline struct operation_ticket entry_ticket(const struct book_entry *e, uint64_t operation)
{
    return (struct operation_ticket){operation, e->slot};
}

/* -- book.c: the only file that changes the book -- */
/* Applies one change, and appends it to the journals of a loaded book. After an error nothing has
 * changed. ERR_NOMEM, ERR_FULL. */
enum err book_apply(struct book *book, const struct book_change *change);
void book_order_append(struct entry_order *order, struct book_entry *e);
void book_order_remove(struct entry_order *order, struct book_entry *e);
struct book_entry *book_find(const struct book *book, struct str id);
/* Removes the oldest strangers above the limit. */
void book_evict(struct book *book);
enum err book_raise_epoch(struct book *book, struct pool_item *shard, int64_t epoch);
struct fence *fences_find(const struct fences *fences, struct str shard);
/* Reserves room for a change and all items that it names. ERR_FULL, ERR_NOMEM. */
enum err change_room(const struct book_change *change, struct buf *into);

/* -- book_wire.c -- */
/* The bytes in a List, including tag and length prefix. */
uint32_t entry_wire_len(struct book *book, const struct book_entry *e);
/* Writes e->wire_len bytes as element `field` of a message. `field` 0: without tag and length. */
enum err entry_write(struct book *book, const struct book_entry *e, uint32_t field,
                     struct buf *into);
struct str entry_host(const struct book_entry *e, char room[ENTRY_HOST_CAP]); /* empty: no host */
enum err binding_write(const struct book_request *request, struct buf *into);

/* -- book_list.c: call before an entry changes or is removed -- */
void walks_keep(struct book *book, const struct book_entry *e);
/* -- book_snapshot.c -- */
struct change_of { /* a MACHINE record; its texts point into the entry and `room` */
    struct book_change change;
    char room[ENTRY_HOST_CAP];
};
void change_of(const struct book_entry *e, struct change_of *ret_change);
/* Writes the fences of an id. ERR_FULL, ERR_NOMEM: only some were written. */
enum err snapshot_put_fences(const struct book *book, struct str id, const struct fences *fences,
                             struct buf *into);
/* Appends the items that the change names and the file does not have, then the change. Cannot fail,
 * because change_room() has reserved the room. */
void book_put_change(const struct book *book, const struct book_change *change, struct buf *into);
#endif
