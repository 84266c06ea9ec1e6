/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the NATS backend.
 *
 * What is atomic here is one publish to one subject with the header
 * Nats-Expected-Last-Subject-Sequence; everything is built on it. A change reads the last message
 * of its subject from the stream's leader, decides, and publishes under that message's sequence;
 * when another was faster the server refuses (10071) and the change decides anew. Whether a publish
 * without an answer arrived is read from the subject: the envelope carries the request id. */
#ifndef PRIM_NATS_STORE_H
#define PRIM_NATS_STORE_H
#include <pthread.h>

#include "prim/answer.h"
#include "prim/backend.h"
#include "prim/nats/decode.h"
#include "prim/nats/link.h"
#include "prim/nats/subject.h"

enum {
    JET_ROUNDS_MAX = 8, /* refusals by faster writers before a change gives up */
    JET_TTL_STEP_MS = 1000,
    JET_MARKER_TTL_S = 900,
    JET_TOMBSTONE_TTL_S = 3600,
    JET_CHECK_MS = 5000, /* how often the stream's configuration is looked at */
};

struct jet_guards;

struct jet_store {
    struct prim_backend backend;
    struct jet_link link;
    struct prim_clock clock;
    struct prim_host *host;
    char bucket[JET_BUCKET_MAX + 1], stream[JET_BUCKET_MAX + 4];
    char get_subject[128]; /* the message-get call of this stream */
    coord_limits limits;
    coord_id id;
    bool has_ttl;
    bool durable_asserted;

    pthread_mutex_t lock;
    coord_caps caps; /* under the lock: it can lose bits */
    struct jet_guards *guards;
};

static inline struct jet_store *jet_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct jet_store, backend);
}

/* stream.c: what the server offers. */
coord_result jet_stream_open(struct jet_store *store, const struct prim_open *in);
/* C4: looks at the configuration again; degrades the store when it lost something. */
void jet_stream_check(struct jet_store *store);
/* What the stream's leader has for the time: by the same clock it ends claims. */
coord_result jet_server_ms(struct jet_store *store, int64_t deadline_ns, int64_t *ret_ms);
void jet_degrade(struct jet_store *store, const char *why);

/* change.c: one key. */
coord_result jet_read(struct jet_store *store, int64_t deadline_ns, struct str key,
                      struct buf *memory, struct jet_state *ret_state);
coord_result jet_message_of(struct jet_store *store, struct str answer, struct buf *memory,
                            struct jet_state *ret_state);
enum err jet_get_body(struct jet_store *store, struct str key, struct buf *out);
/* OK and *ret_sequence; CONFLICT/revision: another message is there; UNAVAILABLE. */
coord_result jet_write(struct jet_store *store, int64_t deadline_ns, struct str key,
                       const struct envelope *envelope, uint64_t expected_sequence,
                       uint64_t *ret_sequence, int64_t *ret_sent_ns);

/* What a change wants, having seen the state of its key. */
struct jet_plan {
    bool write;
    struct envelope envelope; /* revision and token 0: the sequence of the write */
    coord_result result;      /* of the change, once written or at once; revision and token 0: the
                                 sequence of the write */
};
struct jet_change {
    const struct prim_call *call;
    struct str key;
    void (*decide)(struct jet_change *change, const struct jet_state *state,
                   struct jet_plan *ret_plan);
    const void *in;                /* the decider's own, to read */
    void *out;                     /* and to write */
    const struct jet_state *known; /* from a list: saves the first read */

    /* For the decider: a publish of this very call may have arrived, and since when. */
    bool sent;
    int64_t sent_ns;
    /* The grant that stands in the subject now. Filled when the result is OK. */
    struct prim_grant grant;
};
coord_result jet_change_run(struct jet_store *store, struct jet_change *change);
/* The envelope that stands there, as a renewal writes it again: revision and token as they are. */
struct envelope jet_same(const struct jet_state *state);
void jet_pause_ms(int64_t ms); /* under a second */
int64_t jet_remaining_ms(const struct jet_state *state);
/* EXISTS, with who is there. */
coord_result jet_exists(int reason, const struct jet_state *state);
bool jet_is_mine(const struct jet_state *state, const struct prim_claim *claim, uint64_t token);
coord_result jet_corrupt(struct str key);

/* entry.c, group.c, watch.c, guard.c: the table. */
coord_result jet_create(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_create *in, struct prim_grant *ret_grant);
coord_result jet_cas(struct prim_backend *backend, const struct prim_call *call,
                     const struct prim_cas *in, struct prim_grant *ret_grant);
coord_result jet_remove(struct prim_backend *backend, const struct prim_call *call,
                        const struct prim_delete *in);
coord_result jet_get(struct prim_backend *backend, const struct prim_call *call, struct str key,
                     int consistency, coord_entry **ret_entry);
coord_result jet_renew(struct prim_backend *backend, const struct prim_call *call,
                       const struct prim_claim *claim, int64_t *ret_sent_ns);
coord_result jet_release(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_claim *claim, const char *key);
coord_result jet_adopt(struct prim_backend *backend, const struct prim_call *call,
                       const struct prim_claim *claim, int64_t *ret_left_ms);
bool jet_is_replay(const struct jet_change *change, const struct jet_state *state);
/* This request did it already; `first`: the reason when it was this very call. */
void jet_replay(const struct jet_change *change, const struct jet_state *state, int first,
                struct jet_plan *plan);
/* ttl_ms 0: without a lease. */
struct envelope jet_new(const struct prim_call *call, struct str value, struct str owner,
                        int64_t ttl_ms, const coord_id *lease_id);
/* Is the claim's key still its own? OK, EXPIRED with a reason, UNAVAILABLE. */
coord_result jet_check_claim(struct jet_store *store, int64_t deadline_ns, struct str key,
                             const coord_id *lease_id, uint64_t token);

coord_result jet_acquire(struct prim_backend *backend, const struct prim_call *call,
                         const struct prim_acquire *in, struct prim_grant *ret_grant);
coord_result jet_resize(struct prim_backend *backend, const struct prim_call *call,
                        struct str group, uint64_t expected, uint32_t slot_count);
coord_result jet_holders(struct prim_backend *backend, const struct prim_call *call,
                         struct str group, coord_holders **ret_holders);

coord_result jet_watch(struct prim_backend *backend, const struct prim_call *call, struct str scope,
                       bool bucket, struct prim_feed *feed, void **ret_watch);
void jet_unwatch(struct prim_backend *backend, void *watch);

coord_result jet_guards_open(struct jet_store *store); /* its thread, and the look at the stream */
void jet_guards_close(struct jet_store *store);
void jet_guard(struct prim_backend *backend, const struct prim_claim *claim);
void jet_unguard(struct prim_backend *backend, const coord_id *lease_id);
#endif
