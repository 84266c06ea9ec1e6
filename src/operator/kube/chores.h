/* SPDX-License-Identifier: Apache-2.0 */
/* Runs calls of the API server on a few threads and repeats each call until it succeeds.
 *
 * A chore belongs to one object and brings the object to its wanted state. A chore that is wanted
 * while it runs is run again afterwards. The pause after a failure grows. */
#ifndef OPERATOR_KUBE_CHORES_H
#define OPERATOR_KUBE_CHORES_H
#include "io/io.h"
#include "io/worker.h"

enum { CHORE_THREADS = 8 };

struct chores;
struct chore;
struct chore_ops {
    /* Called on the loop: copies the data that run() needs. False: nothing to do. Must not free the
     * chore. */
    bool (*prepare)(struct chore *chore);
    enum err (*run)(struct chore *chore); /* on a thread; reads only copies */
    /* Called on the loop after each run. True: ended() may have freed the chore. False after an
     * error: the chore pauses and runs again. */
    bool (*ended)(struct chore *chore, enum err err);
};
enum chore_state { CHORE_IDLE, CHORE_QUEUED, CHORE_RUNNING, CHORE_PAUSED };
struct chore {
    const struct chore_ops *ops;
    struct chores *chores;
    struct list link;
    enum chore_state state;
    uint32_t failures;
    mono_time due; /* when a paused chore runs again */
    bool again;
    bool urgent; /* runs before chores that are not urgent */
};

enum err chores_open(struct io *io, struct chores **ret_chores);
/* Waits for running chores; ended() is not called. The caller frees the rows. NULL is allowed. */
void chores_close(struct chores *chores);
void chore_init(struct chore *chore, struct chores *chores, const struct chore_ops *ops);
void chore_want(struct chore *chore);
void chore_want_in(struct chore *chore, uint64_t delay_ms); /* only for an idle chore */
/* True: the row may be freed. False: the chore runs; retry in ended(). */
bool chore_forget(struct chore *chore);
#endif
