/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that the shard reclaims: the orders and their progress.
 *
 *   ordered --saved--> begun --source started--> started --> ended
 *      |                 |      (acknowledged)      |
 *      +-----------------+------- deadline ---------+--> over (expired)
 *                        a newer order of the machine --> over (replaced)
 *
 * If the shard accepts drain reports, an order that ended or expired is reported, and kept until
 * the shard reports that the machine left the cluster. The report is repeated in every session and
 * every RECLAIM_REPORT_MS. A running order is reported to a shard that reports the machine as
 * Configured, because that shard was restarted and does not know the order.
 *
 * After kill -9 an order is resumed with the rest of its grace period. An acknowledgement means
 * that the machine gets no new work. It is sent when the source has started, and again in every new
 * session until the order ended. Invariants: I5 The newest order of a machine is found by the
 * machine. I6 An order begins only when it is on disk, because the shard sends it once. I7 An order
 * is acknowledged only after the source has started it.
 *
 * Pure: the caller saves, calls the source and sends; reclaims_step() reports what is due. Times
 * are wall times, because they must mean the same after a restart. */
#ifndef OPERATOR_CORE_RECLAIMS_H
#define OPERATOR_CORE_RECLAIMS_H
#include "base/time.h"
#include "model/ids.h"
#include "model/machine.h"

enum {
    RECLAIMS_MAX = 1 << 16,
    RECLAIM_GRACE_DEFAULT_MS = 30 * 1000, /* grace period of an order that names none */
    RECLAIM_GRACE_MAX_MS = 7 * 86400 * 1000,
    RECLAIM_REPORT_MS = 30 * 1000,
    /* How long after its deadline an order is kept, if its machine is never reported as left. */
    RECLAIM_KEPT_MS = 86400 * 1000,
};

enum reclaim_phase {
    RECLAIM_ORDERED,
    RECLAIM_BEGUN,
    RECLAIM_STARTED,
    RECLAIM_DRAINED, /* the drain succeeded; the order is kept for its report */
    RECLAIM_GAVE_UP, /* the source gave up or the grace period ended; kept for its report */
};
static inline bool reclaim_is_over(enum reclaim_phase phase)
{
    return phase >= RECLAIM_DRAINED;
}
struct reclaim { /* views, valid until the next call that changes the table */
    struct str id, machine;
    wall_time deadline;
    int32_t preemptor_priority;
    enum reclaim_phase phase;
    bool resumed;      /* loaded from disk: an earlier process stored the order */
    bool acknowledged; /* the operator acknowledged the order in this session */
};
struct reclaims;
enum err reclaims_open(uint64_t seed, struct reclaims **ret_reclaims); /* ERR_NOMEM */
void reclaims_close(struct reclaims *reclaims);                        /* NULL is allowed */

/* Adds an order. If `grace_seconds` <= 0, the grace period is RECLAIM_GRACE_DEFAULT_MS. ERR_EXISTS:
 * the order is known, and a past acknowledgement is repeated. After ERR_INVALID with a note (ids),
 * ERR_FULL and ERR_NOMEM the order is not stored. */
enum err reclaims_order(struct reclaims *reclaims, struct str id, struct str machine,
                        int64_t grace_seconds, int32_t preemptor_priority, wall_time now,
                        struct note *note);
/* Adds an order read from disk, and sets its field `resumed`. Errors as for reclaims_order(). */
enum err reclaims_put(struct reclaims *reclaims, const struct reclaim *order, struct note *note);
/* Returns the number of the newest change to be saved. reclaims_saved() confirms saved changes. */
uint64_t reclaims_change(const struct reclaims *reclaims);
void reclaims_saved(struct reclaims *reclaims, uint64_t change);
void reclaims_session(struct reclaims *reclaims); /* a new session: acknowledge all orders again */
/* Sets whether the shard accepts drain reports. If not, orders that ended are forgotten. */
void reclaims_reporting(struct reclaims *reclaims, bool takes);
/* Records that the shard reported a machine in this session. */
void reclaims_reported(struct reclaims *reclaims, struct str machine, enum machine_state state);
/* Treats machines that were not reported as having left. Must be called when the shard has reported
 * all machines of this session. */
void reclaims_sweep(struct reclaims *reclaims);
/* Records a report of the source. Returns false if the order is unknown or over. */
bool reclaims_started(struct reclaims *reclaims, struct str id);
bool reclaims_ended(struct reclaims *reclaims, struct str id, bool drained);
/* Retries in a second a report that could not be queued. */
void reclaims_unsent(struct reclaims *reclaims, struct str id, wall_time now);

enum reclaim_due {
    RECLAIM_BEGIN,
    RECLAIM_ACKNOWLEDGE,
    RECLAIM_EXPIRED,
    RECLAIM_REPLACED,
    RECLAIM_REPORT, /* reports the order as drained, given up or under way, by its phase */
};
typedef void reclaim_due_fn(void *context, enum reclaim_due due, const struct reclaim *reclaim);
/* Calls `each` for every order whose next step is due. Expired and replaced orders are removed
 * afterwards, unless they are kept for a report. `connected`: acknowledgements can be sent. `each`
 * must not change the table. */
void reclaims_step(struct reclaims *reclaims, wall_time now, bool connected, reclaim_due_fn *each,
                   void *context);
size_t reclaims_running(const struct reclaims *reclaims); /* number of orders that are not over */
/* Returns the next order by arrival, or NULL at the end. *cursor must be 0 at first. */
const struct reclaim *reclaims_next(const struct reclaims *reclaims, size_t *cursor);
/* Finds an order; NULL: unknown. */
const struct reclaim *reclaims_find(const struct reclaims *reclaims, struct str id);
#endif
