/* SPDX-License-Identifier: Apache-2.0 */
/* This host's boot, this process, and whether another process is provably dead. */
#ifndef PRIM_FILE_PROCESS_H
#define PRIM_FILE_PROCESS_H
#include "prim/file/record.h"

struct host_facts {
    coord_id boot_id;
    struct who self;
    bool proc_is_ours; /* /proc shows the pids of our own namespace */
};
/* ERR_UNSUPPORTED: the kernel does not show it (no /proc). */
enum err who_am_i(struct host_facts *ret_facts);
/* True only with proof: the same boot, the same pid namespace, and no process has that pid, or one
 * that started at another time, or one that has ended and waits for its parent. */
bool who_is_dead(const struct host_facts *facts, const struct who *who, const coord_id *boot_id);

/* A descriptor that becomes readable when that process ends; -1: it is ourselves, of another pid
 * namespace, or cannot be watched. */
int who_watch(const struct host_facts *facts, const struct who *who);
#endif
