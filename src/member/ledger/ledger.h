/* SPDX-License-Identifier: Apache-2.0 */
/* The heartbeat ledger: the latest row of every worker and of its last beat, in the file at
 * storage.path (file.h), for people to look at after a restart. Nothing ever decides by it.
 *
 * Rows are kept in memory, the newest counts, and the file is replaced once a second, if anything
 * changed, by a thread of its own. A round is skipped while the replicated log's own sync is slow,
 * so that the ledger never makes a vote wait. The surprising rule: nothing here fails towards the
 * caller. A full disk, a damaged file or no memory is logged once, counted, and tried
 * again; beats go on as if there were no ledger. A damaged file of ours is set aside as
 * <path>.damaged and a new one begun; a file that is not ours is never touched, and then there is
 * no ledger. */
#ifndef MEMBER_LEDGER_LEDGER_H
#define MEMBER_LEDGER_LEDGER_H
#include "base/err.h"
#include "io/io.h"
#include "member/ledger/rows.h"
#include "obs/log.h"

enum {
    MEMBER_LEDGER_FLUSH_MS = 1000,
    MEMBER_LEDGER_ROWS_MAX = 500000,        /* two for a worker; more are dropped and counted */
    MEMBER_LEDGER_BYTES_A_SECOND = 2 << 20, /* a larger file makes the next writing come later */
    MEMBER_LEDGER_RETRY_MS = 10000,         /* after a failure, before the file is tried again */
};
struct member_ledger_options {
    struct io *io;
    const struct log_source *log; /* borrowed */
    const char *path;             /* copied; its directory is made */
    uint64_t flush_ms;            /* 0: MEMBER_LEDGER_FLUSH_MS */
    uint64_t retry_ms;            /* 0: MEMBER_LEDGER_RETRY_MS */
    size_t rows_max;              /* 0: MEMBER_LEDGER_ROWS_MAX */
    /* True while the log's sync is slow: asked before each round. NULL: never. */
    bool (*log_is_slow)(void *owner);
    void *owner;
};
struct member_ledger_stats {
    uint64_t rows, batches; /* rows that had changed, and how often the file was written */
    uint64_t skipped;       /* rounds, for the log's sake */
    uint64_t failures;      /* rounds that could not be written; their rows wait again */
    uint64_t dropped;       /* rows that found no room */
    bool in_trouble;        /* the last round failed, or there is no usable file */
};

struct member_ledger;
/* ERR_NOMEM, ERR_INVALID, ERR_UNAVAILABLE (no thread). The file is opened later, by the thread. */
enum err member_ledger_open(const struct member_ledger_options *options,
                            struct member_ledger **ret_ledger);
/* Writes what changed, unless the file is in trouble, then ends. Blocks for that. NULL is fine. */
void member_ledger_close(struct member_ledger *ledger);

/* All on the loop's thread; a NULL ledger takes everything. */
void member_ledger_worker(struct member_ledger *ledger, const struct worker_row *row);
void member_ledger_beat(struct member_ledger *ledger, const struct heartbeat_row *row);
void member_ledger_forget(struct member_ledger *ledger, struct str worker_id); /* both rows */
struct member_ledger_stats member_ledger_stats(const struct member_ledger *ledger);
#endif
