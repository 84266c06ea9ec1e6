/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the NATS backend. The atomic step is one publish to one subject with the header
 * Nats-Expected-Last-Subject-Sequence.
 *
 * A change reads the last message of its subject from the stream's leader and publishes with
 * that message's sequence. If another writer was faster, the server refuses (10071). */
#ifndef PRIM_NATS_STORE_H
#define PRIM_NATS_STORE_H
#include <stdatomic.h>

#include "prim/answer.h"
#include "prim/change.h"
#include "prim/nats/decode.h"
#include "prim/nats/link.h"
#include "prim/nats/subject.h"
#include "prim/thread.h"

enum {
    JET_MARKER_TTL_S = 900,
    JET_TOMBSTONE_TTL_S = 3600,
    JET_CHECK_MS = 5000, /* between checks of the stream's configuration */
};

struct jet_store {
    struct prim_backend backend;
    struct jet_link link;
    char bucket[JET_BUCKET_MAX + 1], stream[JET_BUCKET_MAX + 4];
    char get_subject[128]; /* subject of the stream's message-get call */
    bool has_ttl;
    bool durable_asserted;

    pthread_mutex_t lock;
    coord_caps caps; /* guarded by `lock`, because bits can be cleared */

    pthread_t checker;
    natsSubscription *edits; /* server reports about edits of the stream; NULL: no checks */
    atomic_bool closing;
};

static inline struct jet_store *jet_of(struct prim_backend *backend)
{
    return CONTAINER_OF(backend, struct jet_store, backend);
}

/* stream.c: detects the server's capabilities. */
coord_result jet_stream_open(struct jet_store *store, const struct prim_open *in);
/* Starts a thread that checks the configuration after an edit and every JET_CHECK_MS. The thread
 * degrades the store if a capability was lost (C4). */
coord_result jet_check_start(struct jet_store *store);
void jet_check_stop(struct jet_store *store);
/* Time of the stream's leader, whose clock ends claims. */
coord_result jet_server_ms(struct jet_store *store, int64_t deadline_ns, int64_t *ret_ms);
void jet_degrade(struct jet_store *store, const char *why);

/* entry.c: operations on one key. */
extern const struct prim_ways jet_ways;
coord_result jet_read(struct jet_store *store, int64_t deadline_ns, struct str key,
                      struct buf *memory, struct jet_state *ret_state);
coord_result jet_message_of(struct jet_store *store, struct str answer, struct buf *memory,
                            struct jet_state *ret_state);
enum err jet_get_body(struct jet_store *store, struct str key, struct buf *out);
prim_adopt_fn jet_adopt;

coord_result jet_list(struct prim_change *c, struct str group, uint32_t wanted,
                      struct prim_slots *slots);
void jet_list_end(struct prim_slots *slots);

/* -- run.c -- */
/* A consumer of the stream that starts with the last message of each subject under a filter and
 * then continues, for watches and long lists. A gap in the delivery numbers, or a heartbeat with
 * a different last number, breaks the consumer, and its user starts again. One thread. */
enum { JET_HEARTBEAT_MS = 1000 };

struct jet_run {
    natsSubscription *subscription; /* NULL: not open */
    char name[64];
    uint64_t delivered; /* number of the last delivered message */
    uint64_t pending;   /* messages when the run started */
};
coord_result jet_run_open(struct jet_store *store, int64_t deadline_ns, const char *filter,
                          struct jet_run *run);
void jet_run_close(struct jet_store *store, struct jet_run *run);

enum jet_step {
    JET_STEP_MESSAGE, /* the caller owns *ret_message; `key` is "" for another bucket's message */
    JET_STEP_IDLE,    /* the server reports that no message waits */
    JET_STEP_SILENT,  /* no message within wait_ms */
    JET_STEP_BROKEN,
};
struct jet_message {
    natsMsg *message; /* `state` borrows from this message */
    struct jet_state state;
    uint64_t pending; /* messages that follow this message */
    char key[PRIM_KEY_MAX + 1];
};
enum jet_step jet_run_next(struct jet_store *store, struct jet_run *run, int64_t wait_ms,
                           struct jet_message *ret_message);

/* watch.c */
prim_watch_fn jet_watch;
void jet_unwatch(struct prim_backend *backend, void *watch);
#endif
