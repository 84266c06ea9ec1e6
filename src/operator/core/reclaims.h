/* Machines the shard takes back: what was ordered, and how far it is.
 *
 *   ordered --saved--> begun --the source says so--> started --> ended
 *      |                 |          (acknowledged)      |
 *      +-----------------+---------- deadline ----------+--> over (expired)
 *                        a newer order of the machine   --> over (replaced)
 *
 * An order is begun only once it stands on disk, because the shard gives it once: after kill -9 it
 * is taken up from there with what is left of its grace. An acknowledgement says "no new work goes
 * there"; it is sent when the source says so, and again in every new session until the order ended.
 *
 * Pure: the caller saves, tells the source and sends; reclaims_step says what is due. Time is wall
 * time, since it must mean the same after a restart. */
#ifndef OPERATOR_CORE_RECLAIMS_H
#define OPERATOR_CORE_RECLAIMS_H
#include "base/time.h"
#include "model/ids.h"

enum {
    RECLAIMS_MAX = 1 << 16,
    RECLAIM_GRACE_DEFAULT_MS = 30 * 1000, /* of an order that names none */
    RECLAIM_GRACE_MAX_MS = 7 * 86400 * 1000,
};

enum reclaim_phase { RECLAIM_ORDERED, RECLAIM_BEGUN, RECLAIM_STARTED };
struct reclaim { /* views, valid until the next call that changes the table */
    struct str id, machine;
    wall_time deadline;
    int32_t preemptor_priority;
    enum reclaim_phase phase;
    bool resumed;      /* from the disk of an earlier process */
    bool acknowledged; /* in this session */
};
struct reclaims;
enum err reclaims_open(uint64_t seed, struct reclaims **ret_reclaims); /* ERR_NOMEM */
void reclaims_close(struct reclaims *reclaims);                        /* NULL is fine */

/* `grace_seconds` <= 0 is RECLAIM_GRACE_DEFAULT_MS. ERR_EXISTS: the order is known (it is
 * acknowledged again if it was); ERR_INVALID with a note (ids), ERR_FULL, ERR_NOMEM: not taken. */
enum err reclaims_order(struct reclaims *reclaims, struct str id, struct str machine,
                        int64_t grace_seconds, int32_t preemptor_priority, wall_time now,
                        struct note *note);
/* From disk. Errors as reclaims_order. */
enum err reclaims_restore(struct reclaims *reclaims, struct str id, struct str machine,
                          wall_time deadline, int32_t preemptor_priority, struct note *note);
/* What is on disk must follow this number; reclaims_saved() says up to which it does. */
uint64_t reclaims_change(const struct reclaims *reclaims);
void reclaims_saved(struct reclaims *reclaims, uint64_t change);
void reclaims_session(struct reclaims *reclaims); /* a new one: acknowledge again */
/* The source's word. False: no such order (it is over). */
bool reclaims_started(struct reclaims *reclaims, struct str id);
bool reclaims_ended(struct reclaims *reclaims, struct str id);

enum reclaim_due { RECLAIM_BEGIN, RECLAIM_ACKNOWLEDGE, RECLAIM_EXPIRED, RECLAIM_REPLACED };
typedef void reclaim_due_fn(void *context, enum reclaim_due due, const struct reclaim *reclaim);
/* Calls `each` for everything that is due; one that expired or was replaced is gone when this
 * returns. `connected`: an acknowledgement can be sent. `each` must not change the table. */
void reclaims_step(struct reclaims *reclaims, wall_time now, bool connected, reclaim_due_fn *each,
                   void *context);
size_t reclaims_count(const struct reclaims *reclaims);
/* Walks in the order they came; *cursor begins at 0; NULL at the end. */
const struct reclaim *reclaims_next(const struct reclaims *reclaims, size_t *cursor);
const struct reclaim *reclaims_find(const struct reclaims *reclaims, struct str id); /* or NULL */
#endif
