/* SPDX-License-Identifier: Apache-2.0 */
/* The encoding of the ledger's rows: rollout's fields, followed by muster's own in brackets.
 *
 *     heartbeat  len id  len run  zigzag state  varint due_at_ms  varint received_at_ms
 *                [ varint load in millionths + 1, 0: none ]
 *     worker     len id  len run  varint registered_at_ms
 *                [ varint incarnation  varint standing  varint reason  varint draining
 *                  len instance ]
 *
 * A length is a varint: seven bits per byte, lowest first, in its shortest form. The fields in
 * brackets are absent in a row written by rollout, and then read as 0. Rows in any other form are
 * refused. */
#ifndef MEMBER_LEDGER_ROWS_H
#define MEMBER_LEDGER_ROWS_H
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum { ROW_ID_MAX = 128, ROW_RUN_MAX = 26, ROW_INSTANCE_MAX = 64, ROW_BYTES_MAX = 320 };

struct heartbeat_row {
    struct str worker_id, run_id;
    uint32_t phase; /* 1 INIT 2 READY 3 RUNNING 4 DRAINING */
    uint64_t due_at_ms, received_at_ms;
    bool has_load;
    double load; /* 0 to 1, stored in millionths */
};
struct worker_row {
    struct str worker_id, run_id;
    uint64_t registered_at_ms, incarnation;
    uint32_t standing; /* 0 ACTIVE 1 SUSPECTED 2 DEAD 3 REMOVED */
    uint32_t reason;   /* of a removal: 0 none 1 left 2 dead 3 evicted 4 replaced */
    bool draining;
    struct str instance;
};

/* ERR_INVALID: an id, run, phase or load is out of bounds. ERR_FULL, ERR_NOMEM. */
enum err heartbeat_row_write(const struct heartbeat_row *row, struct buf *into);
enum err worker_row_write(const struct worker_row *row, struct buf *into);
/* The row's texts point into `bytes`. ERR_PARSE: no row. */
enum err heartbeat_row_read(struct str bytes, struct heartbeat_row *ret_row);
enum err worker_row_read(struct str bytes, struct worker_row *ret_row);
#endif
