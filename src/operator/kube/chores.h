/* SPDX-License-Identifier: Apache-2.0 */
/* Things to be done at the API server, each again until it is done, by a few threads.
 *
 * A chore stands for one object and says "make it as it should be": wanted twice before it began it
 * is done once, wanted again while it runs it runs once more after. So there are never more of them
 * than objects, and the newest wish wins. A failed one rests, longer each time. */
#ifndef OPERATOR_KUBE_CHORES_H
#define OPERATOR_KUBE_CHORES_H
#include "io/io.h"
#include "io/worker.h"

enum { CHORE_HANDS = 8 }; /* threads */

struct chores;
struct chore;
struct chore_ops {
    /* On the loop: what it needs is copied into the chore. False: nothing to do after all. Never
     * frees it: it comes from inside chore_want(), and so from inside ended(). */
    bool (*prepare)(struct chore *chore);
    enum err (*run)(struct chore *chore); /* on a thread; sees what prepare() copied and no more */
    /* On the loop, after each run; may free the chore if it returns true. False: it goes on as
     * `err` says: rests and comes again after an error. */
    bool (*ended)(struct chore *chore, enum err err);
};
enum chore_state { CHORE_IDLE, CHORE_QUEUED, CHORE_RUNNING, CHORE_RESTING };
struct chore { /* embedded in the object's row; zeroed, then chore_init() */
    const struct chore_ops *ops;
    struct chores *chores;
    struct list link;
    enum chore_state state;
    uint32_t failures;
    mono_time due; /* of a resting one */
    bool again;
    bool urgent; /* set after chore_init(): before all others that wait */
};

enum err chores_open(struct io *io, struct chores **ret_chores);
/* Waits for those that run. Chores that are left are not told; their rows are the caller's. NULL is
 * fine. */
void chores_close(struct chores *chores);
void chore_init(struct chore *chore, struct chores *chores, const struct chore_ops *ops);
void chore_want(struct chore *chore);
void chore_want_in(struct chore *chore, uint64_t delay_ms); /* of an idle one */
/* True: it is nowhere, its row may be freed. False: it runs; ask again in ended(). */
bool chore_forget(struct chore *chore);
#endif
