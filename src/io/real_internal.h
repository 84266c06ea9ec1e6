/* SPDX-License-Identifier: Apache-2.0 */
/* Types and functions that the files of the real I/O and http_server.c share.
 *
 * Every libuv callback begins with real_enter, which begins the turn at its first event. A stream
 * with output is in `unsent` and flushed after the turn's tasks and hooks. */
#ifndef IO_REAL_INTERNAL_H
#define IO_REAL_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "io/real.h"

enum { REAL_READ_ROOM = 64 * 1024 }; /* one read of any stream; valid during the call */

struct real_io {
    struct io io;
    struct loop loop;
    struct net net;
    uv_loop_t uv;
    uv_async_t wake;     /* signalled when the first post is queued */
    uv_timer_t alarm;    /* for the loop's earliest timer */
    mono_time alarm_due; /* MONO_NEVER if `alarm` is not set */
    bool stop;
    struct list unsent; /* streams to be flushed when the turn finishes */
    uint64_t turn_start_ns;
    uint64_t cpu_mark_ns, cpu_mark_at_ns; /* the thread's CPU time, and when it was read */
    pthread_mutex_t posts_lock;
    struct list posts;   /* waiting posts; protected by posts_lock */
    atomic_uint posters; /* threads in loop_post that no longer hold posts_lock */
    char read_room[REAL_READ_ROOM];
};

extern const struct loop_ops real_loop_ops;

void real_turn_begin(struct real_io *real);

static inline void real_enter(struct real_io *real)
{
    if (!real->loop.in_turn) real_turn_begin(real);
}
/* NULL for a simulated loop. */
static inline struct real_io *real_from_loop(struct loop *loop)
{
    return loop->ops == &real_loop_ops ? CONTAINER_OF(loop, struct real_io, loop) : NULL;
}
/* Loop thread only. No effect if the post is not waiting. */
void real_unpost(struct real_io *real, struct post *post);
/* Runs no callback. */
void real_flush_streams(struct real_io *real);

/* The new thread blocks all signals, except faults. */
int real_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *argument);
enum err real_worker_open(struct loop *loop, const struct worker_options *options,
                          struct loop_worker **ret_worker);
enum err real_dial(struct net *net, const struct dial_options *options,
                   const struct stream_events *events, void *owner, struct stream **ret_stream,
                   struct note *note);
enum err real_listen(struct net *net, const struct listen_options *options,
                     struct listener **ret_listener, struct note *note);
/* Maps a negative libuv error or a negated errno. */
enum err real_err(int uv_code);
#endif
