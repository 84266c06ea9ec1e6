/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of etcd's API over the watch engine: requests of streams, and responses.
 *
 * A stream has any number of watches, each with an id. A watch whose position is compacted is
 * cancelled with the compacted revision (C4, rules 4 and 14). A progress response is sent only when
 * nothing waits for any watch of its stream, so no event at or below its revision can follow it.
 *
 * Knows no connection: responses go out through `send`. All on the loop's thread. */
#ifndef STORE_ETCD_FEED_H
#define STORE_ETCD_FEED_H
#include "store/watch_engine.h"
#include "wire/pb/etcd_rpc.pb-c.h"

struct feed;
struct feed_stream;
struct feed_options {
    struct io *io;
    struct watch_engine *engine;
    uint32_t watches_max; /* over all streams; more are refused one by one */
    uint64_t progress_ms; /* 0: 600,000; without events, then progress_notify sends the revision */
    /* ERR_FULL, but for one that must be taken: watch_stream_writable comes when there is room. Any
     * other error: `broken`. */
    enum err (*send)(struct feed_stream *stream, struct str message, bool must);
    void (*broken)(struct feed_stream *stream, enum err err);          /* closes it, or soon */
    void (*header)(void *owner, struct pack *into, uint64_t revision); /* as field 1 */
    void *owner;
};
enum err feed_open(const struct feed_options *options, struct feed **ret_feed);
void feed_close(struct feed *feed);         /* no stream is left; NULL is fine */
size_t feed_count(const struct feed *feed); /* watches */

struct feed_stream { /* the caller's storage */
    struct watch_stream base;
    struct feed *feed;
    struct map watches; /* by id */
    uint64_t starts_at; /* the largest start that a watch of it asked for, or asked for once */
    bool starts_stale;  /* the watch with that start is gone */
    int64_t next_id;
    struct list closing; /* feed.closing, see feed_stream_close */
    size_t close_cursor; /* in watches */
    void (*freed)(struct feed_stream *stream);
};
void feed_stream_init(struct feed *feed, struct feed_stream *stream);
void feed_stream_deinit(struct feed_stream *stream); /* all at once */
/* The same in slices: a turn of the loop frees at most FEED_FREES_PER_TURN watches of a stream. No
 * response is sent from here on. freed(stream) comes once, when no watch is left; before this
 * returns if they are few. */
enum { FEED_FREES_PER_TURN = 256 };
void feed_stream_close(struct feed_stream *stream, void (*freed)(struct feed_stream *stream));

/* Why the range may not be watched, a static text; NULL: it may. */
typedef const char *feed_refusal_fn(void *owner, struct key_range range);
/* A message of the client's. Each is answered by itself, in order, by messages that must be taken:
 * while there is no room the next request must wait. */
void feed_request(struct feed_stream *stream, const Etcdserverpb__WatchRequest *m,
                  feed_refusal_fn *refusal, void *owner);
#endif
