/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies processes across restarts of their parent. The kernel reuses pids, so an identity is
 * pid, start time and boot id. */
#ifndef IO_PROCESS_LOOK_H
#define IO_PROCESS_LOOK_H
#include "base/err.h"
#include "base/str.h"

enum { PROCESS_BOOT_CAP = 40 };
struct process_name {
    int pid;              /* 0: no process */
    uint64_t start_ticks; /* start of the process after boot, in kernel clock ticks */
    char boot[PROCESS_BOOT_CAP];
};
/* ERR_NOT_FOUND: no process, or a zombie. ERR_UNSUPPORTED: no /proc. */
enum err process_name_of(int pid, struct process_name *ret_name);
/* Returns a pidfd, readable once the process ends, which the caller closes. ERR_NOT_FOUND: the
 * process is gone, even if its pid is reused. ERR_FULL, ERR_UNSUPPORTED. */
enum err process_watch(const struct process_name *name, int *ret_pidfd);
bool process_watch_ended(int pidfd);
/* True: ended, our child, and not waited for yet. */
bool process_watch_is_child(int pidfd);
/* Reaps a watched child and describes its end: "exit status 3", "killed by signal 9". False if the
 * process is not our child. */
enum { PROCESS_END_CAP = 48 };
bool process_watch_reap(int pidfd, char text[PROCESS_END_CAP]);

/* `number` is at least 3, as in proc(5). 0 if absent or not a number. */
uint64_t process_stat_field(struct str line, int number);
#endif
