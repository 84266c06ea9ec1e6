/* SPDX-License-Identifier: Apache-2.0 */
/* Reports all objects of one kind, then every change of them, on the loop's thread.
 *
 * A separate thread calls the API server, one batch at a time. It fetches the next batch when the
 * loop has processed the last one, so no queue can grow. When the server has compacted the needed
 * history, or its answer is malformed, the follower lists again, after growing pauses. */
#ifndef OPERATOR_KUBE_FOLLOW_H
#define OPERATOR_KUBE_FOLLOW_H
#include "io/io.h"
#include "kube/kube.h"
#include "obs/log.h"

struct follow;
/* Events of a follower. An object is valid only during the call. */
struct follow_events {
    void (*begin)(void *owner); /* a list begins; all objects follow */
    void (*end)(void *owner);
    void (*give_up)(void *owner); /* the list failed; another list begins later; may be NULL */
    void (*seen)(void *owner, const struct json *object); /* listed, new or changed */
    void (*gone)(void *owner, const struct json *object); /* deleted; `object` is the last state */
};
struct follow_options {
    struct io *io;
    const struct log_source *log;
    struct kube *kube;       /* must outlive the follower */
    struct kube_path path;   /* the path's texts must outlive the follower */
    const char *thread_name; /* at most 15 characters */
    const struct follow_events *events;
    void *owner;
};
enum err follow_open(const struct follow_options *options, struct follow **ret_follow);
/* Cancels the call under way; no event follows. Waits at most for one call. NULL is allowed. Must
 * not be called from inside an event. */
void follow_close(struct follow *follow);
/* Returns true if a list was completed and changes follow. Otherwise sets `reason`. */
bool follow_whole(const struct follow *follow, struct note *reason);
#endif
