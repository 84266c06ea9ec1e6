/* SPDX-License-Identifier: Apache-2.0 */
/* The provider's book of machines: offer and state of each machine, and the newest token of each
 * shard.
 *
 * Pure: no clock, no file, no backend. For a request the book returns the answer, changes for the
 * journal and, if it accepts an operation, the operation's number. The surprising rule: the book is
 * ahead of the disk. The caller sends an answer or starts an operation only when book_changes() up
 * to that moment are durable, so that a crash cannot revert anything that was answered.
 *
 * A request is checked in this order: arguments, fence, existence, repeat, state, backend (wire.md
 * 3.2, 8.2, 8.3). A token that passes the fence is recorded even if a later check fails.
 *
 * The fence has two parts. (epoch, sequence) is compared per shard and machine, because a shard
 * sends its sequence numbers concurrently. The epoch alone is compared per shard: once a newer
 * process of a shard has acted on any machine, an older process may act on none.
 *
 * Only loading and a full List take time that grows with the number of machines. */
#ifndef PROVIDER_HOST_BOOK_H
#define PROVIDER_HOST_BOOK_H
#include "base/arena.h"
#include "base/buf.h"
#include "provider/host/backend.h"

enum {
    BOOK_MACHINES_MAX = 4 << 20,
    BOOK_METADATA_MAX = 256,            /* metadata entries; as many as a shard reads back */
    BOOK_METADATA_BYTES_MAX = 64 << 10, /* bytes of metadata per machine */
    BOOK_BLOB_MAX = 1 << 20,            /* bytes of the bootstrap blob of one Configure */
    BOOK_BLOBS_MAX = 256 << 20,         /* bytes of the blobs of all running operations */
    BOOK_FENCES_PER_MACHINE_MAX = 64,   /* Shards with a fence per machine. A further shard replaces
                                         * the oldest one while no cluster has the machine. */
    BOOK_STRANGERS_MAX = 64 << 10,      /* unknown ids that have fences; the oldest are removed */
    /* Maximum of shards with a stored epoch. Dropping the least recently used keeps its fences. */
    BOOK_SHARDS_MAX = 64 << 10,
    BOOK_TOMBSTONES_MAX = 64 << 10, /* the oldest are dropped; a List may then return everything */
    BOOK_WALKS_MAX = 16,            /* limit for open Lists */
};

struct book;
struct book_options {
    uint64_t seed;        /* random seed of the hash tables */
    uint64_t identity;    /* identity of a new book; a loaded book keeps its own */
    uint64_t boot;        /* identifies this process; page tokens of other processes are refused */
    const char *provider; /* value of HostRef.provider; borrowed */
    size_t machines_max;  /* 0 means BOOK_MACHINES_MAX */
    bool keeps_blobs;
    bool ignores_offers; /* as in struct backend_ops */
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
    struct str shard; /* empty if the request has no fencing token */
    int64_t epoch, sequence;
    /* CONFIGURE only */
    struct str cluster, blob;
    const struct label *metadata;
    size_t metadata_count;
    /* DRAIN only */
    uint64_t grace_ms;
};
/* The outcome of a request. Its name is a label value of the provider's request counter. */
enum book_outcome {
    BOOK_ACCEPTED,
    BOOK_REPEATED,
    BOOK_INVALID,
    BOOK_FENCED,
    BOOK_NOT_FOUND,
    BOOK_WRONG_STATE,
    BOOK_REFUSED, /* the backend refused the request, or a limit of the book did */
    BOOK_OUTCOMES,
};
const char *book_outcome_name(enum book_outcome outcome);
struct book_answer {
    enum book_outcome outcome;
    enum grpc_status status;
    /* if accepted: the operation to start; if repeated: that of the first request */
    struct operation_ticket operation;
};
/* Decides about a request. Appends a TransitionAck to `into` if the status is OK. `note` gets the
 * reason of a refusal. Calls check() of `backend`, which may be NULL. */
struct book_answer book_ask(struct book *book, const struct book_request *request,
                            struct backend *backend, struct buf *into, struct note *note);

/* -- operations -- */
/* Returns an operation under way, for the backend. Its views are in `arena`, or in the book until
 * the book's next change. Returns false if the operation is over, or if *ret_err is ERR_NOMEM. */
bool book_operation(struct book *book, struct operation_ticket ticket, struct arena *arena,
                    struct backend_operation *ret_operation, enum err *ret_err);
/* Ends an operation. False: it was not under way, or *ret_err is ERR_NOMEM and nothing changed. */
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
/* Appends the Machine with this id. ERR_NOT_FOUND, ERR_INVALID (no id), ERR_NOMEM. */
enum err book_get(struct book *book, struct str id, struct buf *into);

struct book_filter {
    uint32_t states; /* one bit per state; 0 means all states */
    uint64_t results_max, page_size;
    struct str since, page_token;
};
/* An open List. The List shows the book at the moment when the List was opened: a machine that
 * changes before the List has written it is copied first. */
struct book_walk;
/* Opens a List. ERR_INVALID (a page token of another process or a malformed one), ERR_BUSY
 * (BOOK_WALKS_MAX), ERR_NOMEM. */
enum err book_walk_open(struct book *book, const struct book_filter *filter,
                        struct book_walk **ret_walk, struct note *note);
uint64_t book_walk_total(const struct book_walk *walk); /* bytes of the complete MachineList */
/* Appends about `budget` bytes, or nothing if the List is complete. After ERR_NOMEM the List cannot
 * be finished, for example because a machine could not be copied before its change. */
enum err book_walk_next(struct book_walk *walk, size_t budget, struct buf *into);
void book_walk_close(struct book_walk *walk); /* NULL is allowed */

/* -- compaction: writes the book as a new, smaller journal, piece by piece -- */
/* Begins a new journal; book_changes() must be empty. From now on changes go into both journals. */
void book_snapshot_begin(struct book *book);
/* Appends about `budget` bytes of the book to `into`, slot by slot. Write these bytes to the new
 * journal after the changes made so far. The new journal is complete if *ret_more is false. After
 * an error the new journal must be discarded. */
enum err book_snapshot_next(struct book *book, size_t budget, struct buf *into, bool *ret_more);

/* -- statistics -- */
struct book_stats {
    uint64_t machines[MACHINE_STATE_COUNT];
    uint64_t total, revision, tombstones, strangers, shards, operations, blob_bytes;
    uint64_t list_bytes; /* bytes of a full List */
    uint64_t items;
};
struct book_stats book_stats(const struct book *book);
#endif
