/* SPDX-License-Identifier: Apache-2.0 */
/* A second process that stops a command in time, even if the first process fails.
 *
 * `coord exec` renews a claim and passes to the guard the time until which the claim is safe. The
 * guard sends TERM to the command's process group `grace` before that time, and KILL at that time
 * or when its parent is gone. So no command outlives its claim, even if the parent hangs or is
 * killed. */
#ifndef CTL_COORD_GUARD_H
#define CTL_COORD_GUARD_H
#include <sys/types.h>

#include "base/err.h"
#include "base/note.h"

struct coord_guard {
    struct coord_guard_shared *shared;
    int life; /* our end of a pipe; the guard sees when it closes */
    pid_t pid;
};

/* Forks: call while the process has one thread. */
enum err coord_guard_start(struct coord_guard *guard, struct note *note);
/* Guards `group` from now on. Times are in ns of prim_boottime_ns, like libmuster's leases. */
void coord_guard_watch(struct coord_guard *guard, pid_t group, int64_t safe_until_ns,
                       int64_t grace_ns);
void coord_guard_extend(struct coord_guard *guard, int64_t safe_until_ns);
bool coord_guard_fired(const struct coord_guard *guard);
/* Stops guarding. Call before the group's leader is reaped, because its id may then be reused. */
void coord_guard_forget(struct coord_guard *guard);
void coord_guard_stop(struct coord_guard *guard);
#endif
