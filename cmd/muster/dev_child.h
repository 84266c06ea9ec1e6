/* SPDX-License-Identifier: Apache-2.0 */
/* One child process of `muster dev`: started, watched, restarted when it dies, and stopped on
 * request. It never outlives `muster dev`, even after a kill. */
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
    const char *const *argv; /* starts with the program; copied */
    /* The child cannot run: an invalid setting, or a port or directory that is taken. */
    void (*on_failed)(void *owner, enum err err, const struct note *note);
    void (*on_ended)(void *owner); /* after dev_child_stop() */
    void *owner;
};
/* ERR_TOO_LARGE: the command line has too many words. On an error *ret_child is not set. */
enum err dev_child_open(const struct dev_child_options *options, struct dev_child **ret_child,
                        struct note *note);
void dev_child_stop(struct dev_child *child); /* sends SIGTERM; no restart */
void dev_child_kill(struct dev_child *child);
/* A paused child can be stopped, too. False: the child does not run. */
bool dev_child_pause(struct dev_child *child);
void dev_child_resume(struct dev_child *child);
/* The child ran once: from now on it is restarted even if its port is taken. */
void dev_child_settled(struct dev_child *child);
int dev_child_pid(const struct dev_child *child); /* 0: it does not run */
const char *dev_child_name(const struct dev_child *child);
void dev_child_close(struct dev_child *child); /* accepts NULL; the child must not run */
#endif
