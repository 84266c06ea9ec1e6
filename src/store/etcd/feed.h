/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of etcd's API on the watch engine: decodes requests of streams and encodes responses.
 *
 * A stream has any number of watches, each with an id. A watch whose position is compacted is
 * cancelled with the compacted revision (C4, rules 4 and 14). Progress is sent only when no event
 * waits for any watch of the stream, so no later event is at or below its revision.
 *
 * Uses no connections: responses are sent through `send`. Loop's thread. */
#ifndef STORE_ETCD_FEED_H
#define STORE_ETCD_FEED_H
#include "store/watch_engine.h"
#include "wire/pb/etcd_rpc.pb-c.h"

struct feed;
struct feed_stream;
struct feed_options {
    struct io *io;
    struct watch_engine *engine;
    uint32_t watches_max; /* for all streams together; further watches are refused */
    uint64_t progress_ms; /* idle time before progress_notify sends the revision; 0: 600,000 */
    /* After ERR_FULL, call watch_stream_writable() when there is room. With `must`, ERR_FULL is not
     * allowed. After any other error `broken` is called. */
    enum err (*send)(struct feed_stream *stream, struct str message, bool must);
    /* closes the stream, in this call or in a later turn */
    void (*broken)(struct feed_stream *stream, enum err err);
    /* appends the ResponseHeader as field 1 */
    void (*header)(void *owner, struct pack *into, uint64_t revision);
    void *owner;
};
enum err feed_open(const struct feed_options *options, struct feed **ret_feed);
void feed_close(struct feed *feed);         /* after all streams are closed; NULL is fine */
size_t feed_count(const struct feed *feed); /* number of watches */

struct feed_stream { /* the caller provides the memory */
    struct watch_stream base;
    struct feed *feed;
    struct map watches; /* by id */
    uint64_t starts_at; /* the largest start revision that a watch of the stream has asked for */
    bool starts_stale;  /* the watch with `starts_at` is gone */
    int64_t next_id;
    struct list closing; /* feed.closing, see feed_stream_close */
    size_t close_cursor; /* in watches */
    void (*freed)(struct feed_stream *stream);
};
void feed_stream_init(struct feed *feed, struct feed_stream *stream);
void feed_stream_deinit(struct feed_stream *stream); /* frees all watches in one turn */
/* Frees FEED_FREES_PER_TURN watches per turn, and sends no more responses. Calls freed(stream)
 * once, when no watch is left. With few watches, the call comes before this function returns. */
enum { FEED_FREES_PER_TURN = 256 };
void feed_stream_close(struct feed_stream *stream, void (*freed)(struct feed_stream *stream));

/* NULL: the range may be watched; otherwise a static text says why not */
typedef const char *feed_refusal_fn(void *owner, struct key_range range);
/* Handles one message of the client. `send` must accept the responses to requests. While the stream
 * has no room, the caller must not pass the next request. */
void feed_request(struct feed_stream *stream, const Etcdserverpb__WatchRequest *m,
                  feed_refusal_fn *refusal, void *owner);
#endif
