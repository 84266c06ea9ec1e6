/* SPDX-License-Identifier: Apache-2.0 */
/* Reports all objects of one kind, then every change of them, on the loop's thread.
 *
 * A thread of its own asks the API server, one batch at a time: the next batch is fetched when the
 * loop has taken the last one, so no queue can grow. When the server has compacted too much, or its
 * answer is wrong, the follower lists again, after growing pauses. */
#ifndef OPERATOR_KUBE_FOLLOW_H
#define OPERATOR_KUBE_FOLLOW_H
#include "io/io.h"
#include "kube/kube.h"
#include "obs/log.h"

struct follow;
/* Objects are valid during the call. */
struct follow_events {
    void (*begin)(void *owner); /* a list: everything follows */
    void (*end)(void *owner);
    void (*give_up)(void *owner); /* the list cannot be completed; another begins. May be NULL */
    void (*seen)(void *owner, const struct json *object); /* in a list, or it is new or changed */
    void (*gone)(void *owner, const struct json *object); /* as it was last */
};
struct follow_options {
    struct io *io;
    const struct log_source *log;
    struct kube *kube;       /* outlives it */
    struct kube_path path;   /* its texts outlive it */
    const char *thread_name; /* 15 characters */
    const struct follow_events *events;
    void *owner;
};
enum err follow_open(const struct follow_options *options, struct follow **ret_follow);
/* Cancels the call under way; no event comes any more. Waits at most for one call. NULL is fine;
 * not from inside an event. */
void follow_close(struct follow *follow);
/* A list was completed, and changes follow. False: `reason` says why not. */
bool follow_whole(const struct follow *follow, struct note *reason);
#endif
