/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies processes across restarts of their parent.
 *
 * A pid alone is not enough, because the kernel reuses pids. Pid, start time and boot id together
 * identify one process uniquely. */
#ifndef IO_PROCESS_LOOK_H
#define IO_PROCESS_LOOK_H
#include "base/err.h"
#include "base/str.h"

enum { PROCESS_BOOT_CAP = 40 };
struct process_name {
    int pid;              /* 0 means no process */
    uint64_t start_ticks; /* start of the process after boot, in kernel clock ticks */
    char boot[PROCESS_BOOT_CAP];
};
/* Reads a process's identity. ERR_NOT_FOUND: no process, or a zombie. ERR_UNSUPPORTED: no /proc. */
enum err process_name_of(int pid, struct process_name *ret_name);
/* Returns a pidfd of exactly this process, readable once it ends; the caller closes the pidfd.
 * ERR_NOT_FOUND: the process is gone, even if its pid is reused. ERR_FULL, ERR_UNSUPPORTED. */
enum err process_watch(const struct process_name *name, int *ret_pidfd);
bool process_watch_ended(int pidfd);
/* True if the process has ended, is our child, and was not waited for yet. */
bool process_watch_is_child(int pidfd);
/* Describes how a watched process ended, as "exit status 3" or "killed by signal 9", and reaps the
 * process. False if the caller is not its parent. */
enum { PROCESS_END_CAP = 48 };
bool process_watch_reap(int pidfd, char text[PROCESS_END_CAP]);

/* Returns field `number`, at least 3, of a line of /proc/<pid>/stat, numbered as in proc(5).
 * Returns 0 if the field is absent or not a number. */
uint64_t process_stat_field(struct str line, int number);
#endif
