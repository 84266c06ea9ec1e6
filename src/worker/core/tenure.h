/* SPDX-License-Identifier: Apache-2.0 */
/* The partitions that a worker holds, their tokens, and the next step for each. Pure.
 *
 * An assignment lists all granted partitions and all partitions being revoked, each with its token
 * (the grant epoch). A partition in neither list is lost: its row is dropped without a last write.
 * A grant with a lower token than the row's is old and ignored.
 *
 *     (not held) --granted--> CLAIM --claimed--> WORK --revoking--> LEAVE --ack due--> GONE
 *                               |                  |  `--higher token--> CLAIM
 *                               `--revoking--> LEAVE (nothing was begun: nothing to write)
 *     any --in neither list, fence, reset--> (not held)
 *
 * Invariants, asserted when rows change (tenure.c):
 *   I6 A partition has one row at most, and rows are in the order of partitions.
 *   I7 Input is read (WORK) only under a token that was claimed. Tokens only grow.
 *   I8 Only a row that is GONE has an acknowledgement to send.
 *
 *   CLAIM  the worker writes its token to the checkpoint store, and loads the newest checkpoint
 *   WORK   the worker reads input
 *   LEAVE  the worker finishes and writes the work in progress
 *   GONE   an acknowledgement is sent; the row stays until the next assignment */
#ifndef WORKER_CORE_TENURE_H
#define WORKER_CORE_TENURE_H
#include "base/err.h"

enum tenure_state { TENURE_CLAIM, TENURE_WORK, TENURE_LEAVE, TENURE_GONE };
enum tenure_ack { ACK_NONE, ACK_DUE, ACK_SENT };
struct tenure {
    uint32_t partition;
    enum tenure_state state;
    enum tenure_ack ack; /* in GONE: progress of the acknowledgement */
    uint64_t token;      /* the grant epoch */
    bool begun;          /* the partition was claimed: LEAVE may have work to write */
    bool want_write;
    void *data; /* of the caller */
};
struct grant {
    uint32_t partition;
    uint64_t token;
    bool revoking;
};

enum { TENURES_MAX = 1 << 20 };
struct tenures {
    struct tenure *rows; /* sorted by partition */
    size_t count;
    size_t cursor;             /* of tenures_next */
    uint64_t assignment_epoch; /* newest applied assignment */
};
void tenures_init(struct tenures *t);
void tenures_deinit(struct tenures *t); /* the caller frees every `data` first */

/* Called for each row that is dropped. Its `data` is not used afterwards. */
typedef void tenure_drop_fn(void *owner, struct tenure *row);
/* Applies an assignment, and sorts `grants`. After an error nothing has changed.
 *   ERR_CONFLICT         older than the current assignment
 *   ERR_INVALID          a partition appears twice
 *   ERR_FULL, ERR_NOMEM */
enum err tenures_assign(struct tenures *t, uint64_t assignment_epoch, struct grant *grants,
                        size_t count, tenure_drop_fn *drop, void *owner);
void tenures_drop_all(struct tenures *t, tenure_drop_fn *drop, void *owner);
void tenures_leave_all(struct tenures *t); /* for a drain: treats all partitions as revoked */

struct tenure *tenures_find(struct tenures *t, uint32_t partition); /* NULL: not held */
/* Returns the next row in CLAIM, WORK or LEAVE, in turn, or NULL. */
struct tenure *tenures_next(struct tenures *t);
void tenure_claimed(struct tenure *row);
void tenure_left(struct tenure *row);
size_t tenures_held(const struct tenures *t);
bool tenures_unacked(const struct tenures *t);
/* `done`: forgets the sent acknowledgements; otherwise they are sent again. */
void tenures_acked(struct tenures *t, bool done);
#endif
