/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue between a backend that detects changes and the reader of a watch.
 *
 * The producer never blocks. When the reader lags by more than FEED_EVENTS_MAX events, the queue is
 * dropped, later events are refused, and the reader's next event is RESYNC. After the reader has
 * read RESYNC, on_room asks the producer for a new snapshot. A snapshot is one item of any size, so
 * a store larger than the queue can still be watched.
 *
 * Events and entries outside the watch's scope are dropped. The feed guarantees W2 for any
 * producer: it passes a key's event only if the revision is larger than the last delivered
 * revision, and only if the last snapshot did not contain it. */
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
struct prim_scope { /* what a feed watches: one key, or all keys directly in one bucket */
    struct str name;
    bool bucket;
};
struct prim_scope prim_feed_scope(const struct prim_feed *feed); /* valid as long as the feed */
bool prim_feed_covers(const struct prim_feed *feed, struct str key);
/* Adds an event. Returns false if it was dropped and a snapshot is needed (now or at on_room). */
bool prim_feed_put(struct prim_feed *feed, const struct prim_event *event);
/* Sets the function that is called when the reader has read RESYNC and waits for a snapshot.
 * on_room runs on the reader's thread without a lock of the feed. Set on_room before the first
 * event. After a call with NULL returns, on_room is not running and will not be called. */
void prim_feed_on_room(struct prim_feed *feed, void (*on_room)(void *owner), void *owner);
bool prim_feed_wants_snapshot(struct prim_feed *feed);
/* Reports a broken stream (compaction, reconnect). The reader gets RESYNC and a new snapshot. */
void prim_feed_resync(struct prim_feed *feed);
/* Ends the feed. `reason` is a reason of UNAVAILABLE, or COORD_R_NONE for an orderly end. */
void prim_feed_end(struct prim_feed *feed, int reason);

struct prim_snapshot *prim_snapshot_open(const struct prim_feed *feed); /* NULL: out of memory */
void prim_snapshot_close(struct prim_snapshot *snapshot);               /* NULL is allowed */
/* Returns false if memory ran out. */
bool prim_snapshot_add(struct prim_snapshot *snapshot, const struct prim_event *entry);
/* Queues the snapshot. `as_of` is the store's revision, or 0 if the store has no revision. */
void prim_feed_snapshot(struct prim_feed *feed, struct prim_snapshot *own_snapshot, uint64_t as_of);

/* -- reader: one thread -- */
struct prim_feed *prim_feed_open(struct prim_scope scope); /* NULL: no memory or descriptor */
void prim_feed_close(struct prim_feed *feed);
int prim_feed_fd(struct prim_feed *feed); /* readable while an event waits */
/* Works like coord_watch_next. The event's data is valid until the next call. */
int prim_feed_next(struct prim_feed *feed, int64_t wait_ms, coord_event *ret_event);

/* -- without a queue -- */
/* Opens a feed that passes each event to `on_event` at once, on the producer's thread and perhaps
 * under its lock. A snapshot comes as SNAPSHOT_BEGIN, ENTRY ..., SNAPSHOT_END with its revision;
 * the end comes as CLOSED. Changes start at revision `since`, without a snapshot if the backend can
 * avoid one. NULL: out of memory. */
typedef void prim_feed_event_fn(void *owner, const struct prim_event *event);
struct prim_feed *prim_feed_open_direct(struct prim_scope scope, uint64_t since,
                                        prim_feed_event_fn *on_event, void *owner);
/* Returns the revision where the changes that a producer must deliver begin, or 0. */
uint64_t prim_feed_since(const struct prim_feed *feed);
/* The token of an entry that another program wrote. Only guards get such entries. */
#define PRIM_TOKEN_UNKNOWN UINT64_MAX
#endif
