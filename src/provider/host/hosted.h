/* SPDX-License-Identifier: Apache-2.0 */
/* One process that is a machine's host or its node: it outlives the provider, its name is in a file
 * so that a later provider finds it, and it is ended with everything it started.
 *
 * In the machine's directory:
 *   <role>.pid   "PID START BOOT", before the program runs: docs of io/process_look.h say why three
 *   <role>.log   what it prints
 * And, where cgroups of version 2 can be made, one cgroup for it: what leaves its session does not
 * leave that. */
#ifndef PROVIDER_HOST_HOSTED_H
#define PROVIDER_HOST_HOSTED_H
#include "io/fs.h"
#include "io/io.h"
#include "io/process_look.h"

struct hosted_place { /* where it lives; filled by the caller */
    char directory[FS_PATH_CAP];
    const char *role;         /* "host" */
    char cgroup[FS_PATH_CAP]; /* to be made; empty: none */
};
struct hosted {
    int pid;   /* 0: none */
    int pidfd; /* -1: none */
};
static const struct hosted hosted_none = {0, -1};

/* The cgroup that is ours, where others may be made below it; empty: there is none. */
void hosted_cgroup_root(char root[FS_PATH_CAP]);
/* `command` is for sh. ERR_INVALID, ERR_IO and what process_start_detached answers, with a note. */
enum err hosted_start(struct io *io, const struct hosted_place *place, const char *command,
                      const char *const *env, struct hosted *ret_hosted, struct note *note);
/* The process that the file names, if it runs; else ERR_NOT_FOUND. */
enum err hosted_find(struct io *io, const struct hosted_place *place, struct hosted *ret_hosted);
bool hosted_runs(const struct hosted *hosted);
void hosted_signal(const struct hosted *hosted, int signal); /* to all of its group */
/* Once it has ended: what it left behind is killed, and when nothing is left of it this is true and
 * it is hosted_none. `how` is written as soon as it is known. */
bool hosted_gone(struct io *io, const struct hosted_place *place, struct hosted *hosted,
                 char how[PROCESS_END_CAP]);
void hosted_let_go(struct hosted *hosted); /* it lives on; fine with hosted_none */
#endif
