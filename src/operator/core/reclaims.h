/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that the shard reclaims: the orders and their progress. Pure.
 *
 *   ordered --saved--> begun --source started--> started --> ended
 *      |                 |      (acknowledged)      |
 *      +-----------------+------- deadline ---------+--> over (expired)
 *                        a newer order of the machine --> over (replaced)
 *
 * The operator sends an acknowledgement when the source has started, and again in every session
 * until the order ends. The end of an order is reported every RECLAIM_REPORT_MS, until the shard
 * reports that the machine left the cluster. A running order is reported if the shard reports the
 * machine as Configured, because a restarted shard does not know the order. Times are wall times,
 * so that a deadline survives a restart.
 *
 * Invariants: I5 The newest order of a machine is found by the machine. I6 An order begins only
 * when it is on disk, because the shard sends it once. I7 An order is acknowledged only after the
 * source has started it. */
#ifndef OPERATOR_CORE_RECLAIMS_H
#define OPERATOR_CORE_RECLAIMS_H
#include "base/time.h"
#include "model/ids.h"
#include "model/machine.h"

enum {
    RECLAIMS_MAX = 1 << 16,
    RECLAIM_GRACE_DEFAULT_MS = 30 * 1000, /* for an order without grace period */
    RECLAIM_GRACE_MAX_MS = 7 * 86400 * 1000,
    RECLAIM_REPORT_MS = 30 * 1000,
    /* An order whose machine never leaves is dropped this long after its deadline. */
    RECLAIM_KEPT_MS = 86400 * 1000,
};

enum reclaim_phase {
    RECLAIM_ORDERED,
    RECLAIM_BEGUN,
    RECLAIM_STARTED,
    RECLAIM_DRAINED, /* the drain succeeded; to be reported */
    RECLAIM_GAVE_UP, /* the drain failed or expired; to be reported */
};
static inline bool reclaim_is_over(enum reclaim_phase phase)
{
    return phase >= RECLAIM_DRAINED;
}
struct reclaim { /* views, valid until the table changes */
    struct str id, machine;
    wall_time deadline;
    int32_t preemptor_priority;
    enum reclaim_phase phase;
    bool resumed;      /* loaded from disk */
    bool acknowledged; /* in this session */
};
struct reclaims;
enum err reclaims_open(uint64_t seed, struct reclaims **ret_reclaims); /* ERR_NOMEM */
void reclaims_close(struct reclaims *reclaims);                        /* NULL is allowed */

/* Adds an order. `grace_seconds` <= 0 means RECLAIM_GRACE_DEFAULT_MS.
 *   ERR_EXISTS    the order is known; its acknowledgement is sent again
 *   ERR_INVALID   the note names the wrong id
 *   ERR_FULL, ERR_NOMEM */
enum err reclaims_order(struct reclaims *reclaims, struct str id, struct str machine,
                        int64_t grace_seconds, int32_t preemptor_priority, wall_time now,
                        struct note *note);
enum err reclaims_put(struct reclaims *reclaims, const struct reclaim *order, struct note *note);
/* The number of the newest change. When this change is on disk, call reclaims_saved(). */
uint64_t reclaims_change(const struct reclaims *reclaims);
void reclaims_saved(struct reclaims *reclaims, uint64_t change);
void reclaims_session(struct reclaims *reclaims); /* all orders are acknowledged again */
/* If the shard does not accept drain reports, an order is dropped when it ends. */
void reclaims_reporting(struct reclaims *reclaims, bool takes);
void reclaims_reported(struct reclaims *reclaims, struct str machine, enum machine_state state);
/* Call when the shard has reported all machines. Machines without a report in this session have
 * left. */
void reclaims_sweep(struct reclaims *reclaims);
/* False: the order is unknown or over. */
bool reclaims_started(struct reclaims *reclaims, struct str id);
bool reclaims_ended(struct reclaims *reclaims, struct str id, bool drained);
/* Call if the report could not be queued. The report is due again in a second. */
void reclaims_unsent(struct reclaims *reclaims, struct str id, wall_time now);

enum reclaim_due {
    RECLAIM_BEGIN,
    RECLAIM_ACKNOWLEDGE,
    RECLAIM_EXPIRED,
    RECLAIM_REPLACED,
    RECLAIM_REPORT, /* report the order's phase to the shard */
};
typedef void reclaim_due_fn(void *context, enum reclaim_due due, const struct reclaim *reclaim);
/* Calls `each` for every order with a due step. `each` must not change the table. `connected`:
 * acknowledgements can be sent. */
void reclaims_step(struct reclaims *reclaims, wall_time now, bool connected, reclaim_due_fn *each,
                   void *context);
size_t reclaims_running(const struct reclaims *reclaims);
/* Returns the next order by arrival, or NULL. *cursor must be 0 at first. */
const struct reclaim *reclaims_next(const struct reclaims *reclaims, size_t *cursor);
const struct reclaim *reclaims_find(const struct reclaims *reclaims, struct str id);
#endif
