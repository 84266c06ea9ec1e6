/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies processes across restarts of their parent.
 *
 * A pid alone is not enough, because the kernel reuses pids. Pid, start time and boot id together
 * identify one process for ever. */
#ifndef IO_PROCESS_LOOK_H
#define IO_PROCESS_LOOK_H
#include "base/err.h"
#include "base/str.h"

enum { PROCESS_BOOT_CAP = 40 };
struct process_name {
    int pid;              /* 0: no process */
    uint64_t start_ticks; /* start time since boot, in kernel clock ticks */
    char boot[PROCESS_BOOT_CAP];
};
/* ERR_NOT_FOUND: no such process, or it has ended and is a zombie. ERR_UNSUPPORTED: no /proc. */
enum err process_name_of(int pid, struct process_name *ret_name);
/* Returns a pidfd of exactly this process, readable once it ends; close() it. ERR_NOT_FOUND: it is
 * gone, even if its pid is in use again. ERR_FULL, ERR_UNSUPPORTED. */
enum err process_watch(const struct process_name *name, int *ret_pidfd);
bool process_watch_ended(int pidfd);
/* True if the process has ended, is our child, and was not waited for yet. */
bool process_watch_is_child(int pidfd);
/* Describes how a watched process ended: "exit status 3", "killed by signal 9". False if the caller
 * is not its parent. Reaps the process. */
enum { PROCESS_END_CAP = 48 };
bool process_watch_reap(int pidfd, char text[PROCESS_END_CAP]);

/* Returns field `number` of a line of /proc/<pid>/stat, numbered as in proc(5), from 3 on. 0: the
 * field is absent or not a number. */
uint64_t process_stat_field(struct str line, int number);
#endif
