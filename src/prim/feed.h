/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue between a backend that sees changes and the reader of a watch.
 *
 * The producer is never blocked. When the reader lags by more than FEED_EVENTS_MAX events, what
 * waits is dropped, later events are refused, and the reader's next event is RESYNC. Once the reader
 * has read RESYNC, on_room asks the producer for a new snapshot. A snapshot is one item whatever its
 * size, so that a store larger than the queue can still be watched.
 *
 * Events and entries outside the scope of the watch are dropped. W2 holds whatever the producer
 * does: for each key only a revision larger than the last one delivered gets through, and nothing
 * that the last snapshot already showed. */
#ifndef PRIM_FEED_H
#define PRIM_FEED_H
#include <muster/coord.h>

#include "base/str.h"

enum { FEED_EVENTS_MAX = 16384, FEED_BYTES_MAX = 64 * 1024 * 1024 };

struct prim_feed;
struct prim_snapshot;

struct prim_event {
    int type; /* COORD_PUT, COORD_DELETE, COORD_EXPIRE, COORD_PROGRESS */
    uint64_t revision, token;
    struct str key, value, owner; /* copied */
};

/* -- producer: any thread -- */
struct prim_scope { /* what is watched: a key, or a bucket with its own keys */
    struct str name;
    bool bucket;
};
struct prim_scope prim_feed_scope(const struct prim_feed *feed); /* valid as long as the feed */
bool prim_feed_covers(const struct prim_feed *feed, struct str key);
/* False: dropped, a snapshot is due (now or at on_room). */
bool prim_feed_put(struct prim_feed *feed, const struct prim_event *event);
/* The reader has seen RESYNC and waits for a snapshot. Called from the reader's thread without a
 * lock of the feed. Set before the first event; with NULL it is not called any more, and no call is
 * under way when this returns. */
void prim_feed_on_room(struct prim_feed *feed, void (*on_room)(void *owner), void *owner);
bool prim_feed_wants_snapshot(struct prim_feed *feed);
/* The stream broke (compaction, reconnect): the reader gets RESYNC, then the next snapshot. */
void prim_feed_resync(struct prim_feed *feed);
/* Nothing comes after it. Reasons of UNAVAILABLE, or COORD_R_NONE for an orderly end. */
void prim_feed_end(struct prim_feed *feed, int reason);

struct prim_snapshot *prim_snapshot_open(const struct prim_feed *feed); /* NULL: out of memory */
void prim_snapshot_close(struct prim_snapshot *snapshot);               /* NULL is fine */
bool prim_snapshot_add(struct prim_snapshot *snapshot, const struct prim_event *entry); /* memory */
/* Takes the snapshot. As of a revision where the store has such, else 0. */
void prim_feed_snapshot(struct prim_feed *feed, struct prim_snapshot *own_snapshot, uint64_t as_of);

/* -- reader: one thread -- */
struct prim_feed *prim_feed_open(struct prim_scope scope); /* NULL: no memory, no descriptor */
void prim_feed_close(struct prim_feed *feed);
int prim_feed_fd(struct prim_feed *feed); /* readable while an event waits */
/* As coord_watch_next. What the event points to is valid until the next call. */
int prim_feed_next(struct prim_feed *feed, int64_t wait_ms, coord_event *ret_event);

/* -- without a queue -- */
/* Each event goes to `on_event` at once, on the thread of the producer and perhaps under its lock:
 * a snapshot as SNAPSHOT_BEGIN, ENTRY ..., SNAPSHOT_END with its revision; the end as CLOSED. The
 * changes from revision `since` on are wanted, and no snapshot as long as a backend can do without.
 * NULL: no memory. */
typedef void prim_feed_event_fn(void *owner, const struct prim_event *event);
struct prim_feed *prim_feed_open_direct(struct prim_scope scope, uint64_t since,
                                        prim_feed_event_fn *on_event, void *owner);
/* For a producer: 0, or where the changes begin that are wanted. */
uint64_t prim_feed_since(const struct prim_feed *feed);
/* The token of an entry that another program has written: only guards get such entries. */
#define PRIM_TOKEN_UNKNOWN UINT64_MAX
#endif
