/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of etcd's API: from the store's history to the responses of streams.
 *
 * A stream has any number of watches. What waits for a watch is one number, the first change that
 * it has not been told: the bytes stand in the store's own history, once for all. So a watcher that
 * does not read costs nothing but its own position, and when compaction passes it, its watch ends
 * with the compacted revision (C4, rules 4 and 14). Nobody else is held up: a turn of the loop
 * tells a bounded number of bytes to whoever is next.
 *
 * The surprising rules. Changes of one revision are one response, also when it is of a million
 * changes: what is larger than a turn is gathered over many, one such response at a time in the
 * whole process. And a progress response is sent only when nothing waits for any watch of its
 * stream, so no event at or below the revision it tells can follow it.
 *
 * Knows no connection: responses go out through `send`. All on the loop's thread. */
#ifndef STORE_ETCD_FEED_H
#define STORE_ETCD_FEED_H
#include "io/io.h"
#include "obs/metrics.h"
#include "store/interest.h"
#include "store/machine.h"
#include "wire/pack.h"

struct feed;
struct feed_stream;
struct feed_options {
    struct io *io;
    struct store_machine *machine;
    uint32_t watches_max; /* over all streams; more are refused one by one */
    uint64_t progress_ms; /* 0: 600,000; of quiet, then who asked for it is told the revision */
    /* ERR_FULL: feed_stream_writable comes when there is room. Any other error: `broken`. */
    enum err (*send)(struct feed_stream *stream, struct str message);
    void (*broken)(struct feed_stream *stream, enum err err);          /* closes it, or soon */
    void (*header)(void *owner, struct pack *into, uint64_t revision); /* as field 1 */
    void *owner;
    struct counter *events; /* may be NULL */
};
enum err feed_open(const struct feed_options *options, struct feed **ret_feed);
void feed_close(struct feed *feed);         /* no stream is left; NULL is fine */
size_t feed_count(const struct feed *feed); /* watches */

struct feed_stream { /* the caller's storage */
    struct feed *feed;
    struct map watches;  /* by id */
    struct list answers; /* to requests, that had no room yet */
    struct list waiting; /* watches that have something to tell, while there is no room */
    struct list asking;  /* feed.asking: it asked for progress */
    uint32_t behind;     /* watches that were not told everything */
    uint64_t starts_at;  /* the largest start that a watch of it asked for, or asked for once */
    bool starts_stale;   /* the watch with that start is gone */
    int64_t next_id;
    bool blocked;
    struct list closing; /* feed.closing, see feed_stream_close */
    size_t close_cursor; /* in watches */
    void (*freed)(struct feed_stream *stream);
};
void feed_stream_init(struct feed *feed, struct feed_stream *stream);
void feed_stream_deinit(struct feed_stream *stream); /* all at once */
/* The same in slices: at most FEED_FREES_PER_TURN watches are freed in a turn of the loop. No
 * response is sent from here on. freed(stream) comes once, when no watch is left; before this
 * returns if they are few. */
enum { FEED_FREES_PER_TURN = 256 };
void feed_stream_close(struct feed_stream *stream, void (*freed)(struct feed_stream *stream));
/* There is room again; true: and all answers to its requests are sent. */
bool feed_stream_writable(struct feed_stream *stream);
/* Answers wait: the next request must, too. */
bool feed_stream_full(const struct feed_stream *stream);

struct feed_create {
    struct key_range range; /* as etcd says it: from not empty */
    int64_t start_revision, id;
    bool prev_kv, no_put, no_delete, fragment, progress_notify;
    const char *refusal; /* static text, or NULL: why it may not */
};
/* Each answers by itself, in order. */
void feed_create(struct feed_stream *stream, const struct feed_create *create);
void feed_cancel(struct feed_stream *stream, int64_t id);
void feed_progress(struct feed_stream *stream);

/* A caller was shown this revision before it came here: watches from now on begin behind it, and
 * requests are answered with it. Who wrote through us and then watches is not told of its own
 * write. */
void feed_shown(struct feed *feed, uint64_t revision);
void feed_applied(struct feed *feed, const struct store_applied *applied);
void feed_restored(struct feed *feed);
#endif
