/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded queue between a backend that detects changes and the reader of a watch. The
 * producer never blocks.
 *
 * If the reader lags by more than FEED_EVENTS_MAX events, the queue is dropped and the reader's
 * next event is RESYNC. Then on_room asks the producer for a snapshot, which is one item of any
 * size. Events outside the watch's scope are dropped. W2 holds for any producer: a key's event
 * must have a larger revision than the last delivered event and snapshot. */
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
struct prim_scope { /* one key, or all keys directly in one bucket */
    struct str name;
    bool bucket;
};
struct prim_scope prim_feed_scope(const struct prim_feed *feed); /* valid as long as the feed */
bool prim_feed_covers(const struct prim_feed *feed, struct str key);
/* False: the event was dropped. A snapshot is needed, now or at on_room. */
bool prim_feed_put(struct prim_feed *feed, const struct prim_event *event);
/* on_room is called when the reader has read RESYNC and waits for a snapshot, on the reader's
 * thread without a lock of the feed. Set on_room before the first event. After a call with NULL
 * returns, on_room is not running and will not be called. */
void prim_feed_on_room(struct prim_feed *feed, void (*on_room)(void *owner), void *owner);
bool prim_feed_wants_snapshot(struct prim_feed *feed);
/* Call when a stream broke (compaction, reconnect). The reader gets RESYNC and a new snapshot. */
void prim_feed_resync(struct prim_feed *feed);
/* `reason`: of UNAVAILABLE, or COORD_R_NONE for an orderly end. */
void prim_feed_end(struct prim_feed *feed, int reason);

struct prim_snapshot *prim_snapshot_open(const struct prim_feed *feed); /* NULL: out of memory */
void prim_snapshot_close(struct prim_snapshot *snapshot);               /* NULL is allowed */
/* False: out of memory. */
bool prim_snapshot_add(struct prim_snapshot *snapshot, const struct prim_event *entry);
/* `as_of`: the store's revision; 0: none. */
void prim_feed_snapshot(struct prim_feed *feed, struct prim_snapshot *own_snapshot, uint64_t as_of);

/* -- reader: one thread -- */
struct prim_feed *prim_feed_open(struct prim_scope scope); /* NULL: no memory or descriptor */
void prim_feed_close(struct prim_feed *feed);
int prim_feed_fd(struct prim_feed *feed); /* readable while an event waits */
/* Like coord_watch_next. The event's data is valid until the next call. */
int prim_feed_next(struct prim_feed *feed, int64_t wait_ms, coord_event *ret_event);

/* -- without a queue -- */
/* A feed that passes each event to `on_event` when the producer adds it, on the producer's thread
 * and perhaps under the producer's lock. A snapshot comes as SNAPSHOT_BEGIN, ENTRY ...,
 * SNAPSHOT_END with its revision; the end comes as CLOSED. Changes start at revision `since`, if
 * possible without a snapshot. NULL: out of memory. */
typedef void prim_feed_event_fn(void *owner, const struct prim_event *event);
struct prim_feed *prim_feed_open_direct(struct prim_scope scope, uint64_t since,
                                        prim_feed_event_fn *on_event, void *owner);
/* The `since` of prim_feed_open_direct(); 0: the feed begins with a snapshot. */
uint64_t prim_feed_since(const struct prim_feed *feed);
/* Token of an entry that another program wrote. Only guards get such entries. */
#define PRIM_TOKEN_UNKNOWN UINT64_MAX
#endif
