/* SPDX-License-Identifier: Apache-2.0 */
/* The heartbeat ledger: the latest row of every worker and of its last heartbeat, in the file at
 * storage.path (file.h). For people to read after a restart; no decision depends on the ledger.
 *
 * A thread replaces the file once a second if a row changed, unless the sync of the replicated log
 * is slow.
 *
 * No error reaches the caller: errors are logged once, counted and retried. A damaged ledger is
 * renamed to <path>.damaged, and a new ledger is begun. A file of another format is never
 * changed. */
#ifndef MEMBER_LEDGER_LEDGER_H
#define MEMBER_LEDGER_LEDGER_H
#include "base/err.h"
#include "io/io.h"
#include "member/ledger/rows.h"
#include "obs/log.h"

enum {
    MEMBER_LEDGER_FLUSH_MS = 1000,
    MEMBER_LEDGER_ROWS_MAX = 500000, /* two rows per worker; further rows are dropped and counted */
    MEMBER_LEDGER_BYTES_A_SECOND = 2 << 20, /* a larger file is written less often */
    MEMBER_LEDGER_RETRY_MS = 10000, /* delay before the file is tried again after a failure */
};
struct member_ledger_options {
    struct io *io;
    const struct log_source *log; /* borrowed */
    const char *path;             /* copied; its directory is created */
    uint64_t flush_ms;            /* 0: MEMBER_LEDGER_FLUSH_MS */
    uint64_t retry_ms;            /* 0: MEMBER_LEDGER_RETRY_MS */
    size_t rows_max;              /* 0: MEMBER_LEDGER_ROWS_MAX */
    /* Called before each round. True: the log's sync is slow, so the round is skipped. May be
     * NULL. */
    bool (*log_is_slow)(void *owner);
    void *owner;
};
struct member_ledger_stats {
    uint64_t rows, batches; /* changed rows that were written, and writes of the file */
    uint64_t skipped;       /* rounds skipped because the log's sync was slow */
    uint64_t failures;      /* rounds that failed; their rows are written in a later round */
    uint64_t dropped;
    bool in_trouble; /* the last round failed, or the file is not usable */
};

struct member_ledger;
/* Starts the thread that opens the file. ERR_NOMEM, ERR_INVALID, ERR_UNAVAILABLE (no thread). */
enum err member_ledger_open(const struct member_ledger_options *options,
                            struct member_ledger **ret_ledger);
/* Writes changed rows if the file is usable, and ends the thread. Blocks. NULL is allowed. */
void member_ledger_close(struct member_ledger *ledger);

/* The row of a worker, or of its last heartbeat. Loop's thread only; a NULL ledger ignores all
 * calls. */
void member_ledger_worker(struct member_ledger *ledger, const struct worker_row *row);
void member_ledger_beat(struct member_ledger *ledger, const struct heartbeat_row *row);
void member_ledger_forget(struct member_ledger *ledger, struct str worker_id);
struct member_ledger_stats member_ledger_stats(const struct member_ledger *ledger);
#endif
