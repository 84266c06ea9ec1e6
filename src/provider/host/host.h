/* SPDX-License-Identifier: Apache-2.0 */
/* The reference provider without its listener: book, state file and backend on one loop.
 *
 * The book changes before the disk. Answers and backend operations wait for the sync of their
 * changes, so a crash loses nothing that was answered. All changes of a turn share one sync.
 *
 * A separate thread writes the state file. A grown file is rewritten as a new file, in small
 * pieces. If the disk fails, the provider ends (on_failed). */
#ifndef PROVIDER_HOST_HOST_H
#define PROVIDER_HOST_HOST_H
#include "io/io.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "provider/host/book.h"
#include "provider/host/journal.h"

struct host;
struct host_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL */
    const char *state;            /* path of the state file; NULL: store nothing */
    const char *name;             /* value of HostRef.provider */
    size_t machines_max;          /* 0 means BOOK_MACHINES_MAX */
    uint64_t compact_bytes;       /* a smaller state file is not compacted; 0: 64 MiB */
    struct backend *own_backend;  /* closed by host_close(), and by host_open() after an error */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads the state, which blocks. Errors of journal_open() and book_loaded(). */
enum err host_open(const struct host_options *options, struct host **ret_host, struct note *note);
enum err host_start(struct host *host, struct note *note);
/* Waits for the sync under way; unanswered requests may be lost. No struct host_wait may still
 * wait. `host` may be NULL. */
void host_close(struct host *host);
enum err host_reload(struct host *host, struct note *note);

struct book *host_book(struct host *host);
struct io *host_io(struct host *host);
void host_listed(struct host *host, uint64_t bytes, bool delta);
const struct journal_report *host_loaded(const struct host *host);
/* Calls book_ask(). An accepted operation starts when it is durable. */
struct book_answer host_ask(struct host *host, const struct book_request *request, struct buf *into,
                            struct note *note);

/* -- waiting for the disk -- */
struct host_wait;
typedef void host_wait_fn(struct host_wait *wait);
struct host_wait {    /* part of the caller's struct, which the caller may reuse inside fn */
    struct list link; /* the caller calls list_init(); list_remove() cancels the wait */
    uint64_t until;
    host_wait_fn *fn;
};
/* False: the book is durable already, so the caller continues. True: fn is called later, never from
 * inside host_wait(). */
bool host_wait(struct host *host, struct host_wait *wait, host_wait_fn *fn);
#endif
