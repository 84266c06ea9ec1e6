/* SPDX-License-Identifier: Apache-2.0 */
/* This host's boot, this process, and whether another process is provably dead. */
#ifndef PRIM_FILE_PROCESS_H
#define PRIM_FILE_PROCESS_H
#include "prim/file/record.h"

struct host_facts {
    uint8_t boot_id[16];
    struct who self;
    bool proc_is_ours; /* /proc shows the pids of our own namespace */
};
/* ERR_UNSUPPORTED: the kernel does not tell (no /proc). */
enum err who_am_i(struct host_facts *ret_facts);
/* True only with proof: the same boot, the same pid namespace, and no process has that pid, or one
 * that started at another time, or one that has ended and waits for its parent. */
bool who_is_dead(const struct host_facts *facts, const struct who *who, const uint8_t boot_id[16]);

/* Tells when a process ends, for processes of our own pid namespace: one descriptor each, bounded.
 *
 * Decides nothing: who hears of a death judges the lease by the rules. What does not fit, or cannot
 * be asked, is found by looking every now and then. One thread. */
enum { DEATHS_MAX = 256 };
struct deaths {
    int poll; /* readable when somebody died; -1: not available here */
    size_t count;
    struct death {
        uint32_t pid;
        int fd;
    } each[DEATHS_MAX];
};
void deaths_open(struct deaths *deaths);
void deaths_close(struct deaths *deaths);
/* Nothing happens for ourselves, for another namespace, when it is watched already, or full. */
void deaths_add(struct deaths *deaths, const struct host_facts *facts, const struct who *who);
bool deaths_take(struct deaths *deaths, uint32_t *ret_pid); /* false: nobody more */
void deaths_forget_all(struct deaths *deaths);
#endif
