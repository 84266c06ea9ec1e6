/* SPDX-License-Identifier: Apache-2.0 */
/* Reports all objects of one kind, then every change of them, on the loop's thread.
 *
 * Another thread calls the API server. This thread fetches a batch only when the loop has processed
 * the previous batch, so no queue grows. After an error or a compaction of the history the follower
 * lists again, after growing pauses. */
#ifndef OPERATOR_KUBE_FOLLOW_H
#define OPERATOR_KUBE_FOLLOW_H
#include "io/io.h"
#include "kube/kube.h"
#include "obs/log.h"

struct follow;
/* An object is valid only during the call. */
struct follow_events {
    void (*begin)(void *owner); /* a list begins */
    void (*end)(void *owner);
    void (*give_up)(void *owner); /* the list failed; another list begins later; may be NULL */
    void (*seen)(void *owner, const struct json *object);
    void (*gone)(void *owner, const struct json *object); /* deleted; `object` is the last state */
};
struct follow_options {
    struct io *io;
    const struct log_source *log;
    struct kube *kube;     /* must outlive the follower */
    struct kube_path path; /* its texts must outlive the follower */
    const char *thread_name;
    const struct follow_events *events;
    void *owner;
};
enum err follow_open(const struct follow_options *options, struct follow **ret_follow);
/* Cancels the call under way and waits for it. No event follows. NULL is allowed. Not allowed
 * inside an event. */
void follow_close(struct follow *follow);
/* True if a list was completed and changes follow. Otherwise sets `reason`. */
bool follow_whole(const struct follow *follow, struct note *reason);
#endif
