/* SPDX-License-Identifier: Apache-2.0 */
/* All objects of one kind, then every change to them, told on the loop's thread.
 *
 * The API server is asked on a thread of the follower's own, one batch at a time: the next is
 * fetched when the last has been told, so nothing can pile up here. Where the server has forgotten
 * too much, or says what cannot be, it lists anew, with growing pauses. */
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
    void (*give_up)(
        void *owner); /* the list cannot be told to its end; another begins. NULL: fine */
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
/* Ends what is asked just now; nothing is told from here on. Waits at most for one call. NULL is
 * fine; not from inside an event. */
void follow_close(struct follow *follow);
/* Told once to the end, and following. False: why not. */
bool follow_whole(const struct follow *follow, struct note *reason);
#endif
