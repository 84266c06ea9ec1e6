/* SPDX-License-Identifier: Apache-2.0 */
/* One process of `muster dev`: started, watched, started again when it dies, ended when asked. It
 * never outlives this process, however this one ends. */
#ifndef MUSTER_DEV_CHILD_H
#define MUSTER_DEV_CHILD_H
#include "base/note.h"
#include "io/loop.h"
#include "obs/log.h"

enum { DEV_ARGS_MAX = 48 };

struct dev_child;
struct dev_child_options {
    struct loop *loop;
    const struct log_source *log;
    const char *name;        /* "node-0"; copied */
    const char *const *argv; /* the program first; copied */
    /* It cannot be: a wrong setting, a port or directory that is taken. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void (*on_ended)(void *owner); /* after dev_child_stop() */
    void *owner;
};
/* ERR_TOO_LARGE: too many words. On an error there is no child. */
enum err dev_child_open(const struct dev_child_options *options, struct dev_child **ret_child,
                        struct note *note);
void dev_child_stop(struct dev_child *child); /* asked to end, and not started again */
void dev_child_kill(struct dev_child *child); /* where it did not; or: it dies, and comes back */
/* Pause with SIGSTOP and resume with SIGCONT. A paused child can be stopped. False: not running. */
bool dev_child_pause(struct dev_child *child);
void dev_child_resume(struct dev_child *child);
/* It has run once: a port that somebody took while it was away is waited for from now on. */
void dev_child_settled(struct dev_child *child);
int dev_child_pid(const struct dev_child *child); /* 0: not running now */
const char *dev_child_name(const struct dev_child *child);
void dev_child_close(struct dev_child *child); /* when it does not run; NULL is fine */
#endif
