/* SPDX-License-Identifier: Apache-2.0 */
/* Which partitions a worker holds, under which token, and what is to be done with each. Pure.
 *
 * The service sends the whole assignment each time: the partitions that are granted and those that
 * are being taken back, each with its grant epoch, the token. A partition in neither list is not ours
 * any more: it is dropped without an acknowledgement and without a last write. A token only ever
 * grows; a grant with a lower token than we hold is an old message, and is ignored.
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
 * CLAIM: our token is written to the checkpoint store, which shuts out every lower one, and gives
 * us the newest checkpoint. WORK: input is read. LEAVE: what was begun is finished and written.
 * GONE: the service is sent an acknowledgement; the row stays until its next assignment, so that
 * nothing starts again. */
#ifndef WORKER_CORE_TENURE_H
#define WORKER_CORE_TENURE_H
#include "base/err.h"

enum tenure_state { TENURE_CLAIM, TENURE_WORK, TENURE_LEAVE, TENURE_GONE };
enum tenure_ack { ACK_NONE, ACK_DUE, ACK_SENT };
struct tenure {
    uint32_t partition;
    enum tenure_state state;
    enum tenure_ack ack; /* GONE: the service must be sent that it was given back */
    uint64_t token;      /* grant epoch */
    bool begun;          /* it was claimed: there may be something to write when leaving */
    bool want_write;     /* a checkpoint was asked for */
    void *data;          /* the owner's: what was loaded */
};
struct grant { /* of an assignment */
    uint32_t partition;
    uint64_t token;
    bool revoking; /* to be given back */
};

enum { TENURES_MAX = 1 << 20 };
struct tenures {
    struct tenure *rows; /* by partition */
    size_t count;
    size_t cursor;             /* whose turn it is */
    uint64_t assignment_epoch; /* the newest that was taken */
};
void tenures_init(struct tenures *t);
void tenures_deinit(struct tenures *t); /* the owner has seen to `data` */

/* Of a row that is dropped; `data` is not looked at again. */
typedef void tenure_drop_fn(void *owner, struct tenure *row);
/* Takes an assignment, and sorts it. ERR_CONFLICT: older than what we know, nothing changed;
 * ERR_INVALID: a partition twice; ERR_FULL, ERR_NOMEM: nothing changed. */
enum err tenures_assign(struct tenures *t, uint64_t assignment_epoch, struct grant *grants,
                        size_t count, tenure_drop_fn *drop, void *owner);
void tenures_drop_all(struct tenures *t, tenure_drop_fn *drop, void *owner); /* fence, reset */
void tenures_leave_all(struct tenures *t); /* a drain: as if all were revoked */

struct tenure *tenures_find(struct tenures *t, uint32_t partition); /* NULL */
/* The next row in turn in CLAIM, WORK or LEAVE; NULL: none. */
struct tenure *tenures_next(struct tenures *t);
void tenure_claimed(struct tenure *row);
void tenure_left(struct tenure *row);
size_t tenures_held(const struct tenures *t); /* CLAIM, WORK and LEAVE */
bool tenures_unacked(const struct tenures *t);
/* Those that were sent are acknowledged, or are due again. */
void tenures_acked(struct tenures *t, bool done);
#endif
