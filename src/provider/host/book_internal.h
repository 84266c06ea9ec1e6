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
    STRANGERS_MOST = 16 * BOOK_STRANGERS_MAX, /* limit for strangers while a journal is read */
    CHUNKS_MAX = (BOOK_MACHINES_MAX + STRANGERS_MOST) / CHUNK,
    CHANGES_BYTES_MAX = INT32_MAX,
    LIST_MACHINES = 1, /* protobuf field numbers of MachineList and Machine */
    MACHINE_CLUSTER = 14,
    MACHINE_METADATA = 15,
    ENTRY_HOST_CAP = 264,
};

struct fence {
    struct pool_item *shard;
    int64_t epoch, sequence;
};
struct shard_epoch {  /* the newest epoch that a shard has used on any machine */
    struct list link; /* in a list ordered by last use, the least recently used first */
    struct pool_item *shard;
    int64_t epoch;
};
struct fences { /* fences of one machine or unknown id; nearly always one fence */
    struct fence *all;
    uint32_t count;
};
struct entry_texts { /* texts of one machine; most machines have no such struct */
    uint64_t grace_ms;
    uint32_t host_len, error_len, blob_len;
    char bytes[]; /* the texts of host, error and blob, in this order */
};
/* A machine; or, with MACHINE_UNSPECIFIED, an unknown id (a "stranger") with the fences of the
 * shards that named it. A removed machine becomes a stranger, so that its fences still hold if the
 * id is used again. */
struct book_entry {
    char *id;                             /* NULL if the slot is free */
    uint64_t revision;                    /* revision of the last change */
    uint64_t operations[OPERATION_KINDS]; /* last accepted operation of each kind, or 0 */
    struct pool_item *offer, *binding;
    struct entry_texts *texts; /* NULL if there is no error and the host is "host-<id>" */
    struct fences fences;
    /* machines are linked by revision, strangers by age; `newer` also links free slots */
    struct book_entry *newer, *older;
    uint32_t slot;
    uint32_t wire_len; /* bytes of the entry in a List, including tag and length prefix */
    uint8_t id_len, state;
    bool has_host; /* only used in FAILED; every other state shows if there is a host */
};
struct entry_order { /* a list of entries, linked by `newer` and `older` */
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
    uint32_t slots; /* number of existing slots, used or free */
    struct book_entry *free;
    struct map by_id;    /* struct book_entry, by id */
    uint64_t operations; /* number of operations under way */
    struct map shards;   /* struct shard_epoch, by the shard's id */
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
    struct buf machine, host; /* scratch buffers of book_wire.c for the machine being written */
    uint64_t rewriting;       /* number of the newest compaction; pool_item.written refers to it */
    bool loaded;
    struct list walks;
    struct {
        bool marked;
        uint32_t position; /* slots below this number are written */
    } snapshot;
};

static inline struct str entry_id(const struct book_entry *e)
{
    return str_of(e->id, e->id_len);
}
/* Returns the stored name of the host; empty if the name is "host-<id>". */
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
/* Returns the number of the operation under way, or 0 if there is none. */
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
/* Applies one change; after an error nothing has changed. A loaded book appends the change to its
 * journals. ERR_NOMEM, ERR_FULL. */
enum err book_apply(struct book *book, const struct book_change *change);
void book_order_append(struct entry_order *order, struct book_entry *e);
void book_order_remove(struct entry_order *order, struct book_entry *e);
/* Finds a machine. Returns NULL if no machine has this id. */
struct book_entry *book_find(const struct book *book, struct str id);
/* Removes the oldest unknown ids above BOOK_STRANGERS_MAX, or STRANGERS_MOST in book_replay(). */
void book_evict(struct book *book);
/* Raises the newest epoch of a shard, while a journal is read. ERR_NOMEM. */
enum err book_raise_epoch(struct book *book, struct pool_item *shard, int64_t epoch);
struct fence *fences_find(const struct fences *fences, struct str shard);
/* Reserves room for a change and all items that it names. ERR_FULL, ERR_NOMEM. */
enum err change_room(const struct book_change *change, struct buf *into);

/* -- book_wire.c -- */
/* Returns the length as an element of a list, including tag and length prefix. */
uint32_t entry_wire_len(struct book *book, const struct book_entry *e);
/* Writes e->wire_len bytes as element `field` of a message, or for 0 as a separate message. */
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
/* Appends the items that the change names and the file does not contain, then the change. Cannot
 * fail, because change_room() has reserved the room. */
void book_put_change(const struct book *book, const struct book_change *change, struct buf *into);
#endif
