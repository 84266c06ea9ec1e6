/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's client of a capacity provider: six calls, each of which ends exactly once. Runs on
 * the loop's thread. No callback runs inside a function of this header.
 *
 * Fencing. Every attempt of a mutating call has the shard's id, its epoch and a new sequence
 * number. A call that may have been applied is not sent again: it ends as UNKNOWN, and the caller
 * asks with Get. A call that did not reach the provider is sent again, at most
 * PROVIDER_ATTEMPTS_MAX times. A proxy may send a call twice, and the second copy is fenced. So a
 * fence without a newer epoch counts only when the call was sent again and fenced again.
 *
 * How a call ends, by the provider's status (wire.md 8.3):
 *
 *   OK                                       DONE
 *   FAILED_PRECONDITION, of a mutating call  FENCED: reserved for fencing
 *   NOT_FOUND, UNIMPLEMENTED                 NOT_FOUND, NOT_SUPPORTED
 *   CANCELLED, DEADLINE_EXCEEDED, UNKNOWN,   UNKNOWN: proxies and crashed handlers return these,
 *   UNAVAILABLE, DATA_LOSS                   whether or not the call was applied
 *   all other statuses, INTERNAL too         REFUSED: the contract's answer to a wrong state
 *   no status (lost, late, unreadable)       UNKNOWN
 *   no status, and nothing was sent          UNSENT: no connection, or no free slot in time
 *
 * Connections. When a connection is full, another one is opened, up to `connections_max`. Then
 * calls wait in order, but not longer than 30 s, because a late Drain could hit a machine that
 * serves another Need. List has its own connection, because half a gigabyte must not delay other
 * answers. */
#ifndef PROVIDER_CLIENT_H
#define PROVIDER_CLIENT_H
#include "model/ids.h"
#include "rpc/client.h"

enum {
    PROVIDER_ATTEMPTS_MAX = 3, /* attempts for a call that did not reach the provider */
    PROVIDER_CALLS_PER_CONNECTION = 8192,
};

struct provider;
struct provider_options { /* the texts must outlive the client */
    struct io *io;
    const char *address;  /* such as "provider.example:7790" */
    const char *shard_id; /* required; not empty */
    int64_t epoch;
    struct tls_context *tls;              /* kept by reference; NULL: plaintext */
    const char *tls_name;                 /* host name to verify; NULL: the dialled host */
    uint32_t connections_max;             /* connections for all calls but List; 0: 16 */
    uint32_t calls_max;                   /* waiting and running calls, then ERR_FULL; 0: 65,536 */
    uint64_t timeout_ms, list_timeout_ms; /* limit of one attempt; 0: 30 s, List 2 min */
    size_t kept_max; /* bytes of large requests kept to send them again; 0: 16 MiB */
    size_t list_max; /* bytes of one List response; 0: 2 GiB */
    uint64_t backoff_first_ms, backoff_max_ms; /* 0: as rpc/client.h */
    uint64_t dial_timeout_ms;                  /* 0: as rpc/client.h */
    struct rpc_client_metrics *metrics;        /* may be NULL */
};
/* ERR_INVALID with a note (address, shard id or epoch), ERR_NOMEM, ERR_FULL (timers). */
enum err provider_open(const struct provider_options *options, struct provider **ret_provider,
                       struct note *note);
/* Ends every call: as UNKNOWN if it was sent, else as UNSENT. Then calls done(), unless NULL. */
void provider_close(struct provider *provider, void (*done)(void *owner), void *owner);
struct provider_stats {
    uint32_t running, waiting, connections;
    size_t waiting_bytes;
    int64_t sequence;
};
struct provider_stats provider_stats(const struct provider *provider);

enum provider_end {
    PROVIDER_DONE,
    PROVIDER_UNKNOWN,
    PROVIDER_REFUSED,
    PROVIDER_FENCED,
    PROVIDER_NOT_FOUND,
    PROVIDER_NOT_SUPPORTED,
    PROVIDER_UNSENT,
};
struct provider_answer {
    enum provider_end end;
    enum grpc_status status;
    struct str text;  /* the provider's status message, or our own text */
    struct str bytes; /* after DONE: the encoded TransitionAck; for GET the Machine */
};
typedef void provider_done_fn(void *context, const struct provider_answer *answer);

enum provider_verb {
    PROVIDER_CREATE,
    PROVIDER_CONFIGURE,
    PROVIDER_DRAIN,
    PROVIDER_DELETE,
    PROVIDER_GET,
};
/* A token that the caller chooses, for programs that test a provider. Sent unchanged. */
struct provider_token {
    struct str shard; /* empty: no fencing token */
    int64_t epoch, sequence;
};
struct provider_request { /* everything is copied */
    enum provider_verb verb;
    struct str machine;
    uint64_t timeout_ms;          /* 0: timeout_ms of the client */
    struct str cluster, blob;     /* only for CONFIGURE */
    const struct label *metadata; /* only for CONFIGURE */
    size_t metadata_count;
    uint64_t grace_seconds; /* only for DRAIN */
    /* NULL in a shard: the client makes a token with a new sequence number. */
    const struct provider_token *token;
};
/* done() is called exactly once, unless provider_call() fails: ERR_INVALID (no machine, or a bad
 * token), ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err provider_call(struct provider *provider, const struct provider_request *request,
                       provider_done_fn *done, void *context);

/* Ends waiting and new mutating calls as UNSENT with `why`, which must be static. Get and List are
 * still sent. The stop is final. */
void provider_stop_mutating(struct provider *provider, const char *why);
/* Reads the epoch from the text of a FENCED answer: 41 in "token (1, 5) is not newer than (41, 7)".
 * False: the text names no epoch. */
bool provider_fence_epoch(struct str text, int64_t *ret_epoch);

/* -- List: one answer, delivered in chunks as they arrive -- */
struct provider_fetch;
struct provider_chunk { /* another thread may read it until provider_chunk_done() */
    struct str bytes;
};
struct provider_fetch_request {
    struct str cursor;     /* the since_revision; empty: request everything */
    struct str page_token; /* from the previous page; empty: the first page */
    uint32_t page_size;
    const uint32_t *states; /* states to request; the answer is not checked */
    size_t state_count;     /* 0: all states */
    uint32_t max_results;   /* 0: no limit */
    size_t chunk_bytes;     /* bytes of a chunk; 0: 256 KiB */
    uint32_t chunks_max;    /* reading stops at this many unreturned chunks; 0: 8 */
};
struct provider_fetch_events {
    void (*on_chunk)(void *context, struct provider_chunk *own_chunk);
    /* After DONE all chunks together are one MachineList. The fetch must not be used after on_end;
     * chunks may still be returned. */
    void (*on_end)(void *context, const struct provider_answer *answer);
};
enum err provider_fetch_start(struct provider *provider,
                              const struct provider_fetch_request *request,
                              const struct provider_fetch_events *events, void *context,
                              struct provider_fetch **ret_fetch);
void provider_fetch_cancel(struct provider_fetch *fetch); /* on_end is still called */
void provider_chunk_done(struct provider_chunk *chunk);   /* on the loop's thread */
#endif
