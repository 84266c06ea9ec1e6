/* SPDX-License-Identifier: Apache-2.0 */
/* The book from the inside; only for its own files. */
#ifndef PROVIDER_HOST_BOOK_INTERNAL_H
#define PROVIDER_HOST_BOOK_INTERNAL_H
#include "base/list.h"
#include "base/map.h"
#include "provider/host/book.h"
#include "provider/host/change.h"
#include "provider/host/operation.h"
#include "provider/host/pool.h"

enum {
    CHUNK = 4096,                             /* entries of one allocation; entries never move */
    STRANGERS_MOST = 16 * BOOK_STRANGERS_MAX, /* while a journal is read */
    CHUNKS_MAX = (BOOK_MACHINES_MAX + STRANGERS_MOST) / CHUNK,
    CHANGES_BYTES_MAX = INT32_MAX,
    LIST_MACHINES = 1, /* fields of a MachineList and of a Machine */
    MACHINE_CLUSTER = 14,
    MACHINE_METADATA = 15,
    ENTRY_HOST_CAP = 264,
};

struct fence {
    struct pool_item *shard;
    int64_t epoch, sequence;
};
struct shard_epoch {  /* the newest epoch that a shard has used on any machine */
    struct list link; /* the least recently used first */
    struct pool_item *shard;
    int64_t epoch;
};
struct fences { /* of one machine or stranger; nearly always one */
    struct fence *all;
    uint32_t count;
};
struct entry_texts { /* of a machine; most machines have none */
    uint64_t grace_ms;
    uint32_t host_len, error_len, blob_len;
    char bytes[]; /* host, error, blob */
};
/* A machine; or, with MACHINE_UNSPECIFIED, a stranger: an id that is no machine, with the fences
 * of the shards that named it. A machine that is removed leaves a stranger, so that its fences
 * are still there when the id comes back. */
struct book_entry {
    char *id;                             /* NULL: the slot is free */
    uint64_t revision;                    /* of its last change */
    uint64_t operations[OPERATION_KINDS]; /* the last accepted of each kind; 0: none */
    struct pool_item *offer, *binding;
    struct entry_texts *texts; /* NULL: no error, and the host is "host-<id>" */
    struct fences fences;
    struct book_entry *newer, *older; /* by revision, strangers by age; `newer` chains free slots */
    uint32_t slot;
    uint32_t wire_len; /* in a List, with its own tag and length */
    uint8_t id_len, state;
    bool has_host; /* of a Failed machine either; of others the state decides */
};
struct entry_order { /* entries, by newer and older */
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
    uint32_t slots; /* in use or free, below this */
    struct book_entry *free;
    struct map by_id;    /* struct book_entry */
    uint64_t operations; /* under way */
    struct map shards;   /* struct shard_epoch, by the shard's id */
    struct list shards_by_use;
    struct list tombstones;
    struct entry_order by_revision, strangers;
    size_t stranger_count;
    struct item_pool pool;
    struct map loading; /* struct loaded, by number; while a journal is read */
    uint64_t identity, revision, operation, forgotten;
    uint64_t blob_bytes;
    uint64_t count[MACHINE_STATE_COUNT], bytes[MACHINE_STATE_COUNT]; /* bytes: of a List */
    size_t tombstone_count;
    struct buf changes;
    struct buf machine, host; /* book_wire.c: of the machine that is being written */
    uint64_t rewriting;       /* number of the newest one; items say which file has them */
    bool loaded;
    struct list walks;
    struct {
        bool marked;
        uint32_t position; /* slots below it are written */
    } snapshot;
};

static inline struct str entry_id(const struct book_entry *e)
{
    return str_of(e->id, e->id_len);
}
/* The name of the host, where it is not "host-<id>". */
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
/* Of the operation that is under way; 0: none is. */
static inline uint64_t entry_under_way(const struct book_entry *e)
{
    enum operation_kind kind = operation_passing(e->state);
    return kind < OPERATION_KINDS ? e->operations[kind] : 0;
}
static inline struct operation_ticket entry_ticket(const struct book_entry *e, uint64_t operation)
{
    return (struct operation_ticket){operation, e->slot};
}

/* -- book.c: the only place that changes anything -- */
/* Applies one change; after an error nothing has changed. A book that is loaded appends the change
 * to its journals. ERR_NOMEM, ERR_FULL. */
enum err book_apply(struct book *book, const struct book_change *change);
void book_order_append(struct entry_order *order, struct book_entry *e);
void book_order_remove(struct entry_order *order, struct book_entry *e);
struct book_entry *book_find(const struct book *book, struct str id); /* NULL: no such machine */
/* Past BOOK_STRANGERS_MAX the oldest go; while a journal is read, past STRANGERS_MOST. */
void book_evict(struct book *book);
/* Raises the newest epoch of a shard, as a journal says. ERR_NOMEM. */
enum err book_raise_epoch(struct book *book, struct pool_item *shard, int64_t epoch);
struct fence *fences_find(const struct fences *fences, struct str shard);
/* Room for a change and all items it names. ERR_FULL, ERR_NOMEM. */
enum err change_room(const struct book_change *change, struct buf *into);

/* -- book_wire.c -- */
/* As element of a list: with tag and length. */
uint32_t entry_wire_len(struct book *book, const struct book_entry *e);
/* As element `field` of a message, e->wire_len bytes; 0: as a message. */
enum err entry_write(struct book *book, const struct book_entry *e, uint32_t field,
                     struct buf *into);
struct str entry_host(const struct book_entry *e, char room[ENTRY_HOST_CAP]); /* empty: none */
enum err binding_write(const struct book_request *request, struct buf *into);

/* -- book_list.c: before an entry changes or goes -- */
void walks_keep(struct book *book, const struct book_entry *e);
/* -- book_snapshot.c -- */
struct change_of { /* the record of a machine; views of the entry and of `room` */
    struct book_change change;
    char room[ENTRY_HOST_CAP];
};
void change_of(const struct book_entry *e, struct change_of *ret_change);
/* The fences of an id. ERR_FULL, ERR_NOMEM: only some were written. */
enum err snapshot_put_fences(const struct book *book, struct str id, const struct fences *fences,
                             struct buf *into);
/* Appends the items that the change names, unless the file has them, then the change. There is room
 * for all of them (change_room), so this cannot fail. */
void book_put_change(const struct book *book, const struct book_change *change, struct buf *into);
#endif
