/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the real I/O share. Of the others only http_server.c includes this.
 *
 * Every libuv callback begins with real_enter: it opens the turn (time, watchdog) with the first
 * event that is delivered, because libuv has no hook between waking up and its first callback.
 * Output is gathered: a stream with output is in `unsent` and is flushed when the turn's tasks and
 * hooks are through. */
#ifndef IO_REAL_INTERNAL_H
#define IO_REAL_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "io/real.h"

enum {
    REAL_READ_ROOM = 64 * 1024
}; /* one read; bytes are valid during the call only, so all share it */

struct real_io {
    struct io io;
    struct loop loop;
    struct net net;
    uv_loop_t uv;
    uv_async_t wake;     /* posts wait */
    uv_timer_t alarm;    /* the earliest timer of the loop */
    mono_time alarm_due; /* MONO_NEVER: not armed */
    bool stop;
    struct list unsent; /* streams with output to flush at the turn's end */
    uint64_t turn_start_ns;
    uint64_t cpu_mark_ns, cpu_mark_at_ns; /* thread CPU, and when it was read */
    pthread_mutex_t posts_lock;
    struct list posts;   /* under posts_lock */
    atomic_uint posters; /* threads inside loop_post, past the lock */
    char read_room[REAL_READ_ROOM];
};

extern const struct loop_ops real_loop_ops;

void real_turn_begin(struct real_io *real);

static inline void real_enter(struct real_io *real)
{
    if (!real->loop.in_turn) real_turn_begin(real);
}
/* NULL for a loop that is not real. */
static inline struct real_io *real_from_loop(struct loop *loop)
{
    return loop->ops == &real_loop_ops ? CONTAINER_OF(loop, struct real_io, loop) : NULL;
}
/* Loop thread only: takes back a post that may still be waiting. */
void real_unpost(struct real_io *real, struct post *post);
/* Sends what the streams gathered. Calls nobody back. */
void real_flush_streams(struct real_io *real);

/* As pthread_create, for a thread that leaves signals to the loop's thread. */
int real_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *argument);
enum err real_worker_open(struct loop *loop, const struct worker_options *options,
                          struct loop_worker **ret_worker);
enum err real_dial(struct net *net, const struct dial_options *options,
                   const struct stream_events *events, void *owner, struct stream **ret_stream,
                   struct note *note);
enum err real_listen(struct net *net, const struct listen_options *options,
                     struct listener **ret_listener, struct note *note);
/* Our code for a negative libuv error; the kernel's errno with its sign turned is one. */
enum err real_err(int uv_code);
#endif
