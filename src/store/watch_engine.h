/* SPDX-License-Identifier: Apache-2.0 */
/* The watch engine sends applied changes to the streams of clients, for all APIs of the store.
 *
 * Each watch has a position: the first change that the watch was not sent. The changes themselves
 * are kept once, in the store's history. If history is compacted past a position, the API's
 * callback `lost` decides: etcd's API cancels the watch, muster.v1 restarts it with a snapshot. A
 * turn of the loop sends and reads a bounded amount.
 *
 * All changes of one revision are sent in one message, except with `split`. A revision that is too
 * large for one turn is collected over several turns, for one watch of the process at a time.
 *
 * An API provides the storage, the encoding and the sending (struct watch_api). Loop's thread. */
#ifndef STORE_WATCH_ENGINE_H
#define STORE_WATCH_ENGINE_H
#include "io/io.h"
#include "store/interest.h"
#include "store/machine.h"
#include "wire/pack.h"

struct watch;
struct watch_stream;

/* Watches of one form encode an event to the same bytes. */
enum watch_form { WATCH_PLAIN, WATCH_CLAIM, WATCH_ETCD, WATCH_ETCD_PREV };
struct watch_change {
    uint64_t number;
    struct key_value now, before;
};
struct watch_api {
    void (*event)(const struct watch *watch, const struct watch_change *change, struct pack *into);
    /* Appends the other fields of a message with all events up to `revision`. `more`: further
     * events of that revision follow in another message. */
    void (*head)(const struct watch *watch, uint64_t revision, bool more, struct pack *into);
    /* After ERR_FULL, watch_stream_writable() is called when there is room. */
    enum err (*send)(struct watch_stream *stream, struct str message);
    /* Called when a woken watch has nothing unsent, and when a watch first catches up. */
    void (*idle)(struct watch *watch);
    /* `lost`: the watch must end, because its position is compacted or its unsent events exceed a
     * limit. `too_large`: one revision does not fit into a message; NULL for an API that always
     * splits. */
    void (*lost)(struct watch *watch);
    void (*too_large)(struct watch *watch);
    void (*ends)(struct watch *watch);              /* called after watch_end_soon(); may be NULL */
    void (*caught_up)(struct watch_stream *stream); /* after watch_stream_ask(); may be NULL */
    void (*broken)(struct watch_stream *stream, enum err); /* may free the stream */
};

struct watch_engine_options {
    struct io *io;
    struct store_machine *machine;
    /* Limits of the unsent events of a `bounded` watch after it has caught up once; 0: no limit. */
    uint32_t events_max;
    uint64_t bytes_max;
    uint64_t *events; /* counts sent events; may be NULL */
};
struct watch_walk {
    uint64_t at; /* number of the next change; then its revision, and its index in that revision */
    uint64_t revision;
    uint32_t sub;
    bool inside; /* the walk has begun `revision` */
    bool has;    /* the message contains an event of `revision` */
    uint64_t events, bytes;
    enum err err;
};
enum { WATCH_CACHE_SLOTS = 128 };
struct watch_engine {
    struct watch_engine_options options;
    struct interest interest;  /* also has lookers other than watches; calls lookers during apply */
    struct claim_fact *claims; /* see facts_note_claim */
    struct list ready, asking;
    uint64_t revision;  /* changes up to this revision were offered to the watches */
    uint64_t forwarded; /* highest revision in the leader's responses that this replica forwarded */
    bool renumbered;    /* a snapshot replaced the state: changes have new numbers */
    uint64_t walked;    /* changes read in this turn, by the engine and the APIs */
    struct task pump;
    struct timer next_turn; /* a timer, because a task would run in the same turn */
    struct buf message, events, event;
    struct { /* the revision that is being collected over several turns */
        struct watch *watch;
        struct watch_walk walk;
        struct buf events;
    } large;
    struct list large_waiting;
    struct watch_cached {
        uint64_t number;
        enum watch_form form;
        bool used;
        struct buf bytes;
    } cache[WATCH_CACHE_SLOTS];
};
enum err watch_engine_open(const struct watch_engine_options *options,
                           struct watch_engine **ret_engine); /* ERR_NOMEM, ERR_FULL */
/* Call after all watches have left. NULL is fine. */
void watch_engine_close(struct watch_engine *engine);
void watch_engine_applied(struct watch_engine *engine, struct key_changes changes);
void watch_engine_restored(struct watch_engine *engine);
const struct store *watch_engine_store(const struct watch_engine *engine);
/* The highest revision that this replica has applied, or returned to a client on the leader's
 * behalf. Responses never name a lower revision. */
uint64_t watch_engine_visible(const struct watch_engine *engine);

struct watch_stream { /* memory of the caller */
    struct watch_engine *engine;
    const struct watch_api *api;
    struct list waiting; /* woken watches that wait until the stream has room */
    struct list asking;  /* link in engine.asking */
    uint32_t behind;     /* watches with unsent changes */
    bool blocked;
};
void watch_stream_init(struct watch_stream *stream, struct watch_engine *engine,
                       const struct watch_api *api);
void watch_stream_deinit(struct watch_stream *stream); /* its watches must have left */
void watch_stream_writable(struct watch_stream *stream);
/* Requests a call of caught_up() in each turn that leaves nothing unsent on the stream. Ends when
 * the caller removes the stream from the list `asking`. */
void watch_stream_ask(struct watch_stream *stream);
/* watch_message() begins a message in the engine's scratch buffer. When the stream has no room,
 * watch_send() returns ERR_FULL and blocks the stream. */
struct pack watch_message(struct watch_engine *engine);
enum err watch_send(struct watch_stream *stream, const struct pack *message);

#define WATCH_SENT_ALL UINT64_MAX /* a position: no unsent change */
#define WATCH_NOTHING  UINT64_MAX /* a start revision: the watch follows nothing */
struct watch {                    /* memory of the caller, who sets the first fields */
    struct watch_stream *stream;
    struct key_range range; /* the range's bytes must outlive the watch */
    struct str bucket;      /* "", or a muster.v1 bucket, of which only direct keys match */
    enum watch_form form;
    size_t split; /* maximal bytes of a message; 0: one revision is one message */
    bool no_put, no_delete, bounded;
    /* -- managed by the engine -- */
    struct looker looker;
    struct list ready; /* in engine.ready, engine.large_waiting, stream.waiting, or none */
    bool exact;        /* every key that matches the looker's scope is watched */
    bool is_lost;
    bool live; /* the watch has caught up at least once */
    bool ends;
    uint64_t from_revision; /* earlier revisions are not sent */
    uint64_t sent_revision; /* revision of the last message with events */
    uint64_t next;          /* position in the history, or WATCH_SENT_ALL */
    uint64_t next_revision; /* of the next change; remains correct after renumbering */
    uint32_t next_sub;      /* not 0: a part of next_revision was sent */
    uint32_t waiting;       /* unsent events since the watch has caught up */
    uint64_t waiting_bytes;
};
enum err watch_join(struct watch *watch); /* ERR_NOMEM; follows nothing yet */
void watch_leave(struct watch *watch);
/* Sends the changes from this revision on; WATCH_NOTHING: sends none. */
void watch_follow(struct watch *watch, uint64_t from_revision);
static inline bool watch_is_behind(const struct watch *watch)
{
    return watch->is_lost || watch->next != WATCH_SENT_ALL;
}
bool watch_has_key(const struct watch *watch, struct str key);
void watch_wake(struct watch *watch);     /* handles the watch when its stream has room */
void watch_end_soon(struct watch *watch); /* calls `ends` in a later turn, even without room */

/* -- facts.c --
 * Finds the claim that held a key when the key changed, because the store forgets ended claims. A
 * replica that got the change in a snapshot does not know the claim. */
/* Records the claim of a change, during apply. *claims is NULL at first; the caller frees it with
 * free(). Without memory the claim is not recorded. */
struct claim_fact;
void facts_note_claim(struct claim_fact **claims, const struct store *store, uint64_t number,
                      const struct key_value *change);

/* Finds the key's current claim, if the change was made under that claim. An earlier claim of the
 * same lease has a smaller token, and does not match. */
bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim);
/* Like facts_claim_now(), but also finds the claim that was recorded when the change was made. */
bool facts_claim(const struct claim_fact *claims, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim);
#endif
