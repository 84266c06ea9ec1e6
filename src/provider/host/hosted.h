/* SPDX-License-Identifier: Apache-2.0 */
/* A process that acts as a machine's host or node, and outlives the provider. A later provider
 * finds the process by a file. When the process ends, everything it started is killed.
 *
 * In the machine's directory:
 *   <role>.pid   "PID START BOOT", written before the program runs; see io/process_look.h
 *   <role>.log   the output of the process
 *
 * Where possible, the process gets a cgroup (version 2), which also holds children that leave its
 * session. */
#ifndef PROVIDER_HOST_HOSTED_H
#define PROVIDER_HOST_HOSTED_H
#include "io/fs.h"
#include "io/io.h"
#include "io/process_look.h"

struct hosted_place {
    char directory[FS_PATH_CAP];
    const char *role;         /* such as "host" */
    char cgroup[FS_PATH_CAP]; /* created if absent; empty: no cgroup */
};
struct hosted {
    int pid;   /* 0: no process */
    int pidfd; /* -1: no process */
};
static const struct hosted hosted_none = {0, -1};

/* The cgroup in which this program can create cgroups; "": none. */
void hosted_cgroup_root(char root[FS_PATH_CAP]);
/* Runs `command` with sh. ERR_INVALID, ERR_IO, errors of process_start_detached(), with a note. */
enum err hosted_start(struct io *io, const struct hosted_place *place, const char *command,
                      const char *const *env, struct hosted *ret_hosted, struct note *note);
/* ERR_NOT_FOUND: the process of the file does not run. */
enum err hosted_find(struct io *io, const struct hosted_place *place, struct hosted *ret_hosted);
bool hosted_runs(const struct hosted *hosted);
void hosted_signal(const struct hosted *hosted, int signal);
/* True when the process and all its descendants are gone; *hosted is then hosted_none. When the
 * process has ended, writes `how` and kills what is left. */
bool hosted_gone(struct io *io, const struct hosted_place *place, struct hosted *hosted,
                 char how[PROCESS_END_CAP]);
/* The process keeps running. hosted_none is allowed. */
void hosted_let_go(struct hosted *hosted);
#endif
