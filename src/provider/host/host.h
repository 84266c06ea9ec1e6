/* SPDX-License-Identifier: Apache-2.0 */
/* The reference provider without its listener: book, state file and backend on one loop.
 *
 * The book is ahead of the disk, and nothing is answered before it is durable. An answer waits
 * for the sync that covers it, and all answers of a turn share one sync. The backend gets an
 * operation only after that sync. So nothing that was answered is lost, whenever the process
 * dies.
 *
 * The state file is written on a thread of its own. A file that has grown to several times the
 * size of its content is rewritten beside the old one, in small pieces. When the disk fails, the
 * provider ends: on_failed. */
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
    const char *state;            /* a path; NULL: nothing is stored, for trials */
    const char *name;             /* HostRef.provider */
    size_t machines_max;          /* 0: BOOK_MACHINES_MAX */
    uint64_t compact_bytes;       /* a smaller state file is not rewritten; 0: 64 MiB */
    struct backend *own_backend;  /* closed by host_close, also after a host_open that failed */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void *owner;
};
/* Loads the state: blocking. What journal_open and book_loaded answer. */
enum err host_open(const struct host_options *options, struct host **ret_host, struct note *note);
/* The backend adopts what there is and begins. */
enum err host_start(struct host *host, struct note *note);
/* Waits for the sync under way; what was not answered may be lost. No host_wait may be left.
 * NULL is fine. */
void host_close(struct host *host);
enum err host_reload(struct host *host, struct note *note); /* the backend's configuration */

struct book *host_book(struct host *host);
struct io *host_io(struct host *host);
void host_listed(struct host *host, uint64_t bytes, bool delta); /* counts a List */
const struct journal_report *host_loaded(const struct host *host);
/* As book_ask; an operation that is accepted starts by itself when it is durable. */
struct book_answer host_ask(struct host *host, const struct book_request *request, struct buf *into,
                            struct note *note);

/* -- waiting for the disk -- */
struct host_wait;
typedef void host_wait_fn(struct host_wait *wait);
struct host_wait {    /* embedded; the caller's again when fn runs */
    struct list link; /* the caller's list_init; list_remove ends the waiting */
    uint64_t until;
    host_wait_fn *fn;
};
/* False: all that the book says is durable, go ahead. True: fn comes once it is, never from
 * inside. */
bool host_wait(struct host *host, struct host_wait *wait, host_wait_fn *fn);
#endif
