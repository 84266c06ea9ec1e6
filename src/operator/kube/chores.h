/* SPDX-License-Identifier: Apache-2.0 */
/* Runs calls of the API server on a few threads and repeats each until it succeeds.
 *
 * A chore belongs to one object and brings the object to its wanted state. A chore wanted twice
 * before it runs runs once. A chore wanted while it runs runs once more. So chores never outnumber
 * objects, and the newest state wins. After a failure a chore pauses, longer each time. */
#ifndef OPERATOR_KUBE_CHORES_H
#define OPERATOR_KUBE_CHORES_H
#include "io/io.h"
#include "io/worker.h"

enum { CHORE_THREADS = 8 };

struct chores;
struct chore;
struct chore_ops {
    /* On the loop: copies the data that run() needs into the chore. False: there is nothing to do.
     * Never frees the chore, because chore_want() may call prepare() from inside ended(). */
    bool (*prepare)(struct chore *chore);
    enum err (*run)(struct chore *chore); /* on a thread; reads only data copied by prepare() */
    /* Called on the loop after each run. May free the chore if it returns true. False: after an
     * error the chore pauses and runs again. */
    bool (*ended)(struct chore *chore, enum err err);
};
enum chore_state { CHORE_IDLE, CHORE_QUEUED, CHORE_RUNNING, CHORE_PAUSED };
struct chore { /* embedded in the object's row; zeroed, then chore_init() */
    const struct chore_ops *ops;
    struct chores *chores;
    struct list link;
    enum chore_state state;
    uint32_t failures;
    mono_time due; /* when a paused chore runs again */
    bool again;
    bool urgent; /* set after chore_init(): runs before all other waiting chores */
};

enum err chores_open(struct io *io, struct chores **ret_chores);
/* Waits for running chores; ended() is not called. The caller frees the rows. NULL is allowed. */
void chores_close(struct chores *chores);
void chore_init(struct chore *chore, struct chores *chores, const struct chore_ops *ops);
void chore_want(struct chore *chore);
void chore_want_in(struct chore *chore, uint64_t delay_ms); /* only for an idle chore */
/* True: the row may be freed. False: the chore runs; ask again in ended(). */
bool chore_forget(struct chore *chore);
#endif
