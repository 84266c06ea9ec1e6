/* SPDX-License-Identifier: Apache-2.0 */
/* Which process is which, across restarts of its parent.
 *
 * A number alone says nothing: the kernel gives it to somebody else. The number, the time at which
 * it started and the boot it belongs to name one process for ever. */
#ifndef IO_PROCESS_LOOK_H
#define IO_PROCESS_LOOK_H
#include "base/err.h"
#include "base/str.h"

enum { PROCESS_BOOT_CAP = 40 };
struct process_name {
    int pid;              /* 0: none */
    uint64_t start_ticks; /* since boot, as the kernel counts */
    char boot[PROCESS_BOOT_CAP];
};
/* ERR_NOT_FOUND: there is none, or it has ended and waits for its parent; ERR_UNSUPPORTED: no
 * /proc. */
enum err process_name_of(int pid, struct process_name *ret_name);
/* A descriptor that means this process for ever and is readable when it has ended; close() it.
 * ERR_NOT_FOUND: it is gone, though its number may be somebody else's. ERR_FULL,
 * ERR_UNSUPPORTED. */
enum err process_watch(const struct process_name *name, int *ret_pidfd);
bool process_watch_ended(int pidfd);
/* It has ended, is a child of ours, and was not waited for yet. */
bool process_watch_is_child(int pidfd);
/* How a process that was watched ended: "exit status 3", "killed by signal 9". Only for its
 * parent; else false. It is gone after this. */
enum { PROCESS_END_CAP = 48 };
bool process_watch_reap(int pidfd, char text[PROCESS_END_CAP]);

/* Field `number` of a line of /proc/<pid>/stat, counted as the manual does, from 3 on; 0: there is
 * none, or it is no number. */
uint64_t process_stat_field(struct str line, int number);
#endif
