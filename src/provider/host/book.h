/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's book of machines: the offer and state of each, and the newest token of each shard.
 *
 * Pure: no clock, no file, no backend. For a request the book returns the answer, changes for the
 * journal and, when it accepts an operation, the operation's number. The surprising rule: the book
 * is ahead of the disk. The caller sends an answer or starts an operation only when book_changes()
 * up to that moment are durable, so that a crash takes back nothing that was answered.
 *
 * The order in which a request is judged: arguments, fence, existence, repeat, state, backend
 * (wire.md 3.2, 8.2, 8.3). A token that passes the fence is recorded whatever comes after it.
 *
 * The fence has two parts. (epoch, sequence) is compared per shard and machine, because a shard
 * sends its sequence numbers concurrently. The epoch alone is compared per shard: once a newer
 * process of a shard has acted on any machine, an older process may act on none.
 *
 * All but loading and a full List takes time that does not depend on the number of machines. */
#ifndef PROVIDER_HOST_BOOK_H
#define PROVIDER_HOST_BOOK_H
#include "base/arena.h"
#include "base/buf.h"
#include "provider/host/backend.h"

enum {
    BOOK_MACHINES_MAX = 4 << 20,
    BOOK_METADATA_MAX = 256,            /* entries; what a shard reads back */
    BOOK_METADATA_BYTES_MAX = 64 << 10, /* of one machine */
    BOOK_BLOB_MAX = 1 << 20,            /* of one Configure */
    BOOK_BLOBS_MAX = 256 << 20,         /* of all that are under way */
    BOOK_FENCES_PER_MACHINE_MAX = 64,   /* shards that ever commanded one; more are refused */
    BOOK_STRANGERS_MAX = 64 << 10,      /* ids that are no machine and have fences; oldest go */
    BOOK_SHARDS_MAX = 64 << 10,         /* shards whose newest epoch is kept; the least recently
                                           used goes, and its marks per machine stay */
    BOOK_TOMBSTONES_MAX = 64 << 10,     /* older cursors get everything */
    BOOK_WALKS_MAX = 16,                /* Lists under way */
};

struct book;
struct book_options {
    uint64_t seed;        /* of hashes; random */
    uint64_t identity;    /* of a new book; a loaded one has its own */
    uint64_t boot;        /* page tokens of another process are refused */
    const char *provider; /* HostRef.provider; borrowed */
    size_t machines_max;  /* 0: BOOK_MACHINES_MAX */
    bool keeps_blobs;
};
enum err book_open(const struct book_options *options, struct book **ret_book); /* ERR_NOMEM */
void book_close(struct book *book);                                             /* NULL is fine */

/* -- loading: the changes of a journal in order, then once book_loaded. ERR_CORRUPT with a note
 * that names the machine, ERR_NOMEM -- */
enum err book_replay(struct book *book, struct str changes, struct note *note);
enum err book_loaded(struct book *book);

/* -- the changes that nobody has written yet; the caller empties it -- */
struct buf *book_changes(struct book *book);

/* -- the four mutating calls -- */
struct book_request {
    enum operation_kind kind;
    struct str machine_id;
    struct str shard; /* empty: no token */
    int64_t epoch, sequence;
    /* CONFIGURE */
    struct str cluster, blob;
    const struct label *metadata;
    size_t metadata_count;
    /* DRAIN */
    uint64_t grace_ms;
};
/* also the label of the metric */
enum book_outcome {
    BOOK_ACCEPTED,
    BOOK_REPEATED,
    BOOK_INVALID,
    BOOK_FENCED,
    BOOK_NOT_FOUND,
    BOOK_WRONG_STATE,
    BOOK_REFUSED, /* by the backend, or by a limit of the book */
    BOOK_OUTCOMES,
};
const char *book_outcome_name(enum book_outcome outcome);
struct book_answer {
    enum book_outcome outcome;
    enum grpc_status status;
    struct operation_ticket operation; /* accepted: to be started; repeated: the one of before */
};
/* `into`: a TransitionAck if the status is OK, else as it was. `note`: why not. `backend`: its
 * check() is asked; NULL: none. */
struct book_answer book_ask(struct book *book, const struct book_request *request,
                            struct backend *backend, struct buf *into, struct note *note);

/* -- operations -- */
/* An operation under way, for the backend; its views are in `arena`, or in the book until its next
 * change. False: the operation is over. ERR_NOMEM is false too, with *ret_err set. */
bool book_operation(struct book *book, struct operation_ticket ticket, struct arena *arena,
                    struct backend_operation *ret_operation, enum err *ret_err);
/* The operation ended; false: it is not under way. ERR_NOMEM by *ret_err: nothing has changed. */
bool book_end(struct book *book, struct operation_ticket ticket, const struct operation_end *end,
              enum err *ret_err);
enum err book_see(struct book *book, enum sighting what, struct str id, const struct offer *offer,
                  struct str why, struct note *note);
/* Every machine that is not Speculative, with the operation that is under way, if one is. An
 * error of `each` ends the walk. */
typedef enum err book_each_fn(void *context, const struct backend_machine *machine,
                              struct operation_ticket operation);
enum err book_each(struct book *book, book_each_fn *each, void *context);

/* -- Get and List -- */
/* Appends a Machine. ERR_NOT_FOUND, ERR_INVALID (no id), ERR_NOMEM. */
enum err book_get(struct book *book, struct str id, struct buf *into);

struct book_filter {
    uint32_t states; /* a bit for each; 0: all */
    uint64_t results_max, page_size;
    struct str since, page_token;
};
/* A List under way. It shows the book as it was when the List was opened: a machine that changes
 * before the List has written it is copied first. */
struct book_walk;
/* ERR_INVALID (a page token that is none of ours), ERR_BUSY (BOOK_WALKS_MAX), ERR_NOMEM. */
enum err book_walk_open(struct book *book, const struct book_filter *filter,
                        struct book_walk **ret_walk, struct note *note);
uint64_t book_walk_total(const struct book_walk *walk); /* bytes of the whole MachineList */
/* Appends about `budget` bytes more; nothing: the List is complete. ERR_NOMEM, also when a machine
 * could not be copied: the List cannot be finished. */
enum err book_walk_next(struct book_walk *walk, size_t budget, struct buf *into);
void book_walk_close(struct book_walk *walk); /* NULL is fine */

/* -- the same book as a new journal, in fewer bytes, made piece by piece -- */
/* book_changes() is empty. From here on changes go into both journals. */
void book_snapshot_begin(struct book *book);
/* Appends about `budget` bytes to `into`: the book slot by slot. They go into the new journal
 * behind the changes up to this moment. *ret_more false: the new journal is complete. After an
 * error the new journal must be given up. */
enum err book_snapshot_next(struct book *book, size_t budget, struct buf *into, bool *ret_more);

/* -- numbers -- */
struct book_stats {
    uint64_t machines[MACHINE_STATE_COUNT];
    uint64_t total, revision, tombstones, strangers, shards, operations, blob_bytes;
    uint64_t list_bytes; /* of a full List */
    uint64_t items;
};
struct book_stats book_stats(const struct book *book);
#endif
