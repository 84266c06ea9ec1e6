/* SPDX-License-Identifier: Apache-2.0 */
/* Tells when a process ends, for processes of our own pid namespace: one descriptor each, bounded.
 *
 * Decides nothing: who hears of a death judges the lease by the rules. What does not fit, or cannot
 * be asked, is found by looking every now and then. One thread. */
#ifndef PRIM_FILE_DEATHS_H
#define PRIM_FILE_DEATHS_H
#include "prim/file/who.h"

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
