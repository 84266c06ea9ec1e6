/* SPDX-License-Identifier: Apache-2.0 */
/* The watch engine: from applied changes to the streams of clients, for every API of the store.
 *
 * What waits for a watch is one number, its position: the first change that it was not sent. The
 * bytes stay in the store's history, once for all watches. A watch whose client does not read costs
 * its position only. Once history is compacted past the position, the API's `lost` decides: etcd's
 * cancels the watch, muster.v1 starts it again with a snapshot. A turn of the loop sends a bounded
 * number of bytes and looks at a bounded number of changes.
 *
 * All changes of one revision are one message. A watch with `split` accepts such a revision in
 * several messages of at most so many bytes. For any other watch a revision that is larger than a
 * turn is collected over several turns, for one watch of the process at a time.
 *
 * An API gives the storage, the encoding and the sending (struct watch_api). The engine knows no
 * connection. Everything runs on the loop's thread. */
#ifndef STORE_WATCH_ENGINE_H
#define STORE_WATCH_ENGINE_H
#include "io/io.h"
#include "store/interest.h"
#include "store/machine.h"
#include "wire/pack.h"

struct watch;
struct watch_stream;

/* Events of watches with the same form have the same bytes. */
enum watch_form { WATCH_PLAIN, WATCH_CLAIM, WATCH_ETCD, WATCH_ETCD_PREV };
struct watch_change {
    uint64_t number;
    struct key_value now, before;
};
struct watch_api {
    /* Appends an event, as a field of a message. */
    void (*event)(const struct watch *watch, const struct watch_change *change, struct pack *into);
    /* Appends the rest of the message with events. It is complete up to `revision`; `more`: but for
     * the rest of that revision. */
    void (*head)(const struct watch *watch, uint64_t revision, bool more, struct pack *into);
    /* ERR_FULL: watch_stream_writable comes when there is room. */
    enum err (*send)(struct watch_stream *stream, struct str message);
    /* It has nothing to be sent, and was woken, or caught up for the first time. */
    void (*idle)(struct watch *watch);
    /* It cannot go on: its position is compacted, or more waits than the limits allow; or (NULL
     * does for an API that always splits) one revision is too large for a message. */
    void (*lost)(struct watch *watch);
    void (*too_large)(struct watch *watch);
    void (*ends)(struct watch *watch);              /* of watch_end_soon; NULL: never asked */
    void (*caught_up)(struct watch_stream *stream); /* of watch_stream_ask; the same */
    void (*broken)(struct watch_stream *stream, enum err); /* may free it */
};

struct watch_engine_options {
    struct io *io;
    struct store_machine *machine;
    /* What may wait for a watch that is `bounded` and has caught up once; 0: no limit. */
    uint32_t events_max;
    uint64_t bytes_max;
    uint64_t *events; /* that were sent; may be NULL */
};
struct watch_walk {
    uint64_t at; /* the change that comes next, with its revision and its place in that */
    uint64_t revision;
    uint32_t sub;
    bool inside; /* `revision` is begun */
    bool has;    /* an event of it is in the message */
    uint64_t events, bytes;
    enum err err;
};
enum { WATCH_CACHE_SLOTS = 128 };
struct watch_engine {
    struct watch_engine_options options;
    struct interest interest;  /* its lookers need not be watches; they are called during apply */
    struct claim_fact *claims; /* see facts_note_claim */
    struct list ready, asking;
    uint64_t revision;  /* everything up to it was shown to the watches */
    uint64_t forwarded; /* the highest that a client was sent on the leader's behalf */
    bool renumbered;    /* the state was replaced, and its changes have new numbers */
    uint64_t walked;    /* changes looked at in this turn; APIs add their own */
    struct task pump;
    struct timer next_turn; /* runs while this one has had its share; tasks would run within it */
    struct buf message, events, event;
    struct { /* the one revision that is collected over several turns */
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
void watch_engine_close(struct watch_engine *engine);         /* no watch is left; NULL is fine */
void watch_engine_applied(struct watch_engine *engine, struct key_changes changes);
void watch_engine_restored(struct watch_engine *engine);
const struct store *watch_engine_store(const struct watch_engine *engine);
/* The visible revision: the highest that this replica has applied, or returned to any client on the
 * leader's behalf. Answers never name less. */
uint64_t watch_engine_visible(const struct watch_engine *engine);

struct watch_stream { /* the caller's storage */
    struct watch_engine *engine;
    const struct watch_api *api;
    struct list waiting; /* watches that were woken while there is no room */
    struct list asking;  /* engine.asking */
    uint32_t behind;     /* watches that were not sent everything */
    bool blocked;
};
void watch_stream_init(struct watch_stream *stream, struct watch_engine *engine,
                       const struct watch_api *api);
void watch_stream_deinit(struct watch_stream *stream); /* its watches have left */
void watch_stream_writable(struct watch_stream *stream);
/* caught_up() comes in each turn in which its watches were sent everything, until it is taken out
 * of the list `asking`. */
void watch_stream_ask(struct watch_stream *stream);
/* A message in the engine's scratch; what watch_send returns. ERR_FULL blocks the stream. */
struct pack watch_message(struct watch_engine *engine);
enum err watch_send(struct watch_stream *stream, const struct pack *message);

#define WATCH_SENT_ALL UINT64_MAX /* a position: nothing waits */
#define WATCH_NOTHING  UINT64_MAX /* a first revision: it follows nothing */
struct watch {                    /* the caller's storage, whose first lines the caller fills in */
    struct watch_stream *stream;
    struct key_range range; /* its bytes live as the watch does */
    struct str bucket;      /* "" or one of muster.v1, the range's prefix: its own keys only */
    enum watch_form form;
    size_t split; /* bytes of a message; 0: one revision is one message */
    bool no_put, no_delete, bounded;
    /* -- the engine's -- */
    struct looker looker;
    struct list ready; /* engine.ready, engine.large_waiting, stream.waiting, or none */
    bool exact;        /* its scope contains no key that it does not watch */
    bool is_lost;
    bool live; /* it caught up once since it follows */
    bool ends;
    uint64_t from_revision; /* nothing before it is sent */
    uint64_t sent_revision; /* of the last message with events */
    uint64_t next;          /* the position, or WATCH_SENT_ALL */
    uint64_t next_revision; /* its revision and its place in that, which outlive its number */
    uint32_t next_sub;      /* not 0: a part of the revision was sent */
    uint32_t waiting;       /* events since it caught up */
    uint64_t waiting_bytes;
};
enum err watch_join(struct watch *watch); /* ERR_NOMEM. It follows nothing yet */
void watch_leave(struct watch *watch);
/* From this revision on, or WATCH_NOTHING. */
void watch_follow(struct watch *watch, uint64_t from_revision);
static inline bool watch_is_behind(const struct watch *watch)
{
    return watch->is_lost || watch->next != WATCH_SENT_ALL;
}
bool watch_has_key(const struct watch *watch, struct str key);
void watch_wake(struct watch *watch);     /* its turn comes, once its stream has room */
void watch_end_soon(struct watch *watch); /* `ends` is called in a turn of its own, room or not */

/* -- facts.c: the holder of a claim when a change was made. The state does not contain it once the claim
 * has ended, so a replica that received the change within a snapshot of the log does not know it. -- */
/* During apply. *claims: of the newest changes, by number; NULL before the first. Freed by free().
 * Without memory a claim is not noted. */
struct claim_fact;
void facts_note_claim(struct claim_fact **claims, const struct store *store, uint64_t number,
                      const struct key_value *change);

/* The claim on the key, if this change is of it: a holder that released a claim may have it again
 * under the same lease, with a token that this change is older than. */
bool facts_claim_now(const struct store *store, const struct key_value *change,
                     struct store_claim *ret_claim);
/* The same, or as it was when the change was made. */
bool facts_claim(const struct claim_fact *claims, const struct store *store, uint64_t number,
                 const struct key_value *change, struct store_claim *ret_claim);
#endif
