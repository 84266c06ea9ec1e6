/* SPDX-License-Identifier: Apache-2.0 */
/* A process that acts as a machine's host or node, and outlives the provider. A later provider
 * finds the process by a file. When the process ends, everything it started is killed.
 *
 * In the machine's directory:
 *   <role>.pid   "PID START BOOT", written before the program runs; see io/process_look.h
 *   <role>.log   the output of the process
 * The process also gets a cgroup of its own where cgroups of version 2 can be created. A child that
 * leaves the session of the process stays in the cgroup. */
#ifndef PROVIDER_HOST_HOSTED_H
#define PROVIDER_HOST_HOSTED_H
#include "io/fs.h"
#include "io/io.h"
#include "io/process_look.h"

struct hosted_place { /* where the files of the process are; the caller fills it */
    char directory[FS_PATH_CAP];
    const char *role;         /* such as "host" */
    char cgroup[FS_PATH_CAP]; /* created if absent; empty means no cgroup */
};
struct hosted {
    int pid;   /* 0 if there is no process */
    int pidfd; /* -1 if there is no process */
};
static const struct hosted hosted_none = {0, -1};

/* Returns the cgroup in which this program can create cgroups, or "" if there is none. */
void hosted_cgroup_root(char root[FS_PATH_CAP]);
/* Runs `command` with sh. ERR_INVALID, ERR_IO, errors of process_start_detached(), with a note. */
enum err hosted_start(struct io *io, const struct hosted_place *place, const char *command,
                      const char *const *env, struct hosted *ret_hosted, struct note *note);
/* Finds the running process that the file identifies, or returns ERR_NOT_FOUND. */
enum err hosted_find(struct io *io, const struct hosted_place *place, struct hosted *ret_hosted);
bool hosted_runs(const struct hosted *hosted);
/* Sends the signal to the whole process group. */
void hosted_signal(const struct hosted *hosted, int signal);
/* True when the process and everything it started are gone; *hosted is then hosted_none. When the
 * process has ended, writes `how` and kills what the process left behind. */
bool hosted_gone(struct io *io, const struct hosted_place *place, struct hosted *hosted,
                 char how[PROCESS_END_CAP]);
/* Releases the handle; the process keeps running. hosted_none is allowed. */
void hosted_let_go(struct hosted *hosted);
#endif
