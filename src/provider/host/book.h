/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's book of machines: offer and state of each machine, and the newest token of each
 * shard. Pure. Only loading and a full List take time that grows with the number of machines.
 *
 * The book is ahead of the disk. The caller must send an answer or start an operation only when
 * book_changes() up to that moment are durable.
 *
 * A request is checked in this order: arguments, fence, existence, repeat, state, backend (wire.md
 * 3.2, 8.2, 8.3). A token that passes the fence is recorded even if a later check fails. The fence
 * compares:
 *
 *   (epoch, sequence)   per shard and machine, because a shard's requests may overtake each other
 *   epoch               per shard: a newer process fences the shard's older process everywhere */
#ifndef PROVIDER_HOST_BOOK_H
#define PROVIDER_HOST_BOOK_H
#include "base/arena.h"
#include "base/buf.h"
#include "provider/host/backend.h"

enum {
    BOOK_MACHINES_MAX = 4 << 20,
    BOOK_METADATA_MAX = 256, /* the limit of a shard */
    BOOK_METADATA_BYTES_MAX = 64 << 10,
    BOOK_BLOB_MAX = 1 << 20,
    BOOK_BLOBS_MAX = 256 << 20,       /* bytes of the blobs of all running operations */
    BOOK_FENCES_PER_MACHINE_MAX = 64, /* shards with a fence. A further shard replaces
                                       * the oldest while the machine is Speculative */
    BOOK_STRANGERS_MAX = 64 << 10,    /* unknown ids with fences; the oldest are removed */
    /* Shards with a stored epoch. The least recently used is dropped, but its fences stay. */
    BOOK_SHARDS_MAX = 64 << 10,
    BOOK_TOMBSTONES_MAX = 64 << 10, /* the oldest are dropped; old cursors then get a full List */
    BOOK_WALKS_MAX = 16,
};

struct book;
struct book_options {
    uint64_t seed;
    uint64_t identity;    /* for a new book */
    uint64_t boot;        /* of this process; page tokens of other processes are refused */
    const char *provider; /* value of HostRef.provider; borrowed */
    size_t machines_max;  /* 0 means BOOK_MACHINES_MAX */
    bool keeps_blobs;
    bool ignores_offers;
};
enum err book_open(const struct book_options *options, struct book **ret_book); /* ERR_NOMEM */
void book_close(struct book *book); /* NULL is allowed */

/* -- loading: replay the changes of a journal in order, then call book_loaded. ERR_CORRUPT with a
 * note that names the machine, ERR_NOMEM -- */
enum err book_replay(struct book *book, struct str changes, struct note *note);
enum err book_loaded(struct book *book);

/* -- changes not written to the journal yet; the caller empties the buffer -- */
struct buf *book_changes(struct book *book);

/* -- the four mutating calls -- */
struct book_request {
    enum operation_kind kind;
    struct str machine_id;
    struct str shard; /* empty: no fencing token */
    int64_t epoch, sequence;
    /* CONFIGURE only */
    struct str cluster, blob;
    const struct label *metadata;
    size_t metadata_count;
    /* DRAIN only */
    uint64_t grace_ms;
};
enum book_outcome {
    BOOK_ACCEPTED,
    BOOK_REPEATED,
    BOOK_INVALID,
    BOOK_FENCED,
    BOOK_NOT_FOUND,
    BOOK_WRONG_STATE,
    BOOK_REFUSED, /* by the backend or by a limit of the book */
    BOOK_OUTCOMES,
};
const char *book_outcome_name(enum book_outcome outcome);
struct book_answer {
    enum book_outcome outcome;
    enum grpc_status status;
    /* accepted: the operation to start; repeated: that of the first request */
    struct operation_ticket operation;
};
/* Decides about a request. If the status is OK, `into` gets a TransitionAck, otherwise `note` gets
 * the reason. Calls check() of `backend`, which may be NULL. */
struct book_answer book_ask(struct book *book, const struct book_request *request,
                            struct backend *backend, struct buf *into, struct note *note);

/* -- operations -- */
/* Returns an operation under way. Its views are in `arena`, or valid until the book changes. False:
 * the operation is over, or *ret_err is ERR_NOMEM. */
bool book_operation(struct book *book, struct operation_ticket ticket, struct arena *arena,
                    struct backend_operation *ret_operation, enum err *ret_err);
/* False: the operation was not under way, or *ret_err is ERR_NOMEM and nothing changed. */
bool book_end(struct book *book, struct operation_ticket ticket, const struct operation_end *end,
              enum err *ret_err);
enum err book_see(struct book *book, enum sighting what, struct str id, const struct offer *offer,
                  struct str why, struct note *note);
/* Calls `each` for every machine that is not Speculative, with its operation under way, if any. An
 * error of `each` ends the iteration. */
typedef enum err book_each_fn(void *context, const struct backend_machine *machine,
                              struct operation_ticket operation);
enum err book_each(struct book *book, book_each_fn *each, void *context);

/* -- Get and List -- */
/* ERR_NOT_FOUND, ERR_INVALID (no id), ERR_NOMEM. */
enum err book_get(struct book *book, struct str id, struct buf *into);

struct book_filter {
    uint32_t states; /* one bit per state; 0: all states */
    uint64_t results_max, page_size;
    struct str since, page_token;
};
/* An open List shows the book at the moment of opening: a machine that changes before it was
 * written is copied first. */
struct book_walk;
/* ERR_INVALID (a malformed page token, or one of another process), ERR_BUSY (BOOK_WALKS_MAX),
 * ERR_NOMEM. */
enum err book_walk_open(struct book *book, const struct book_filter *filter,
                        struct book_walk **ret_walk, struct note *note);
uint64_t book_walk_total(const struct book_walk *walk);
/* Appends about `budget` bytes; nothing when the List is complete. After ERR_NOMEM the List cannot
 * be finished. */
enum err book_walk_next(struct book_walk *walk, size_t budget, struct buf *into);
void book_walk_close(struct book_walk *walk); /* NULL is allowed */

/* -- compaction: writes the book as a new, smaller journal, piece by piece -- */
/* Begins a new journal; book_changes() must be empty. From now on changes go into both journals. */
void book_snapshot_begin(struct book *book);
/* Appends about `budget` bytes of the book for the new journal. Write them after the changes made
 * so far. *ret_more false: the new journal is complete. After an error it must be discarded. */
enum err book_snapshot_next(struct book *book, size_t budget, struct buf *into, bool *ret_more);

/* -- statistics -- */
struct book_stats {
    uint64_t machines[MACHINE_STATE_COUNT];
    uint64_t total, revision, tombstones, strangers, shards, operations, blob_bytes;
    uint64_t list_bytes;
    uint64_t items;
};
struct book_stats book_stats(const struct book *book);
#endif
