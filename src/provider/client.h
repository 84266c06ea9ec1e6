/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's client of a capacity provider: six calls, each of which ends exactly once.
 *
 * Fencing. Every attempt at a mutating call carries the shard's id, its epoch and a sequence number
 * that no other attempt had. A call that may have been applied is never sent again: it ends as
 * UNKNOWN, and the caller must ask with Get. A call that certainly did not reach the provider (its
 * connection was closing) is sent again under a new number, at most PROVIDER_ATTEMPTS_MAX times.
 *
 * A fence that names no epoch above ours does not prove that a newer process exists, because a
 * proxy may send a call twice and have the second copy refused. The call is sent once more under a
 * new number; only a second refusal is FENCED. A call whose request was not kept (kept_max) is
 * UNKNOWN.
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
 * Many calls. Tens of thousands run at once. A further connection is opened when one reaches the
 * provider's own limit (SETTINGS_MAX_CONCURRENT_STREAMS, often 100) or ours (8,192 calls, 32 MiB of
 * requests). When `connections_max` connections are full, calls wait here, in order. The deadline
 * of a call begins when the call is sent, because the provider does not know the call before. A
 * call that has waited for 30 s is not sent any more, and ends within another 30 s: by then the
 * caller has decided anew, and a late Drain would hit a machine that serves another Need. A
 * connection that received nothing during the whole time of a call is replaced. List has a
 * connection of its own, because half a gigabyte must not delay the other answers.
 *
 * Everything runs on the loop's thread. No callback runs inside a function of this header. */
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
    const char *address;      /* such as "provider.example:7790" */
    const char *shard_id;     /* required; not empty */
    int64_t epoch;            /* required; greater than 0 */
    struct tls_context *tls;  /* kept by reference; NULL means plaintext */
    const char *tls_name;     /* host name to verify; NULL means the dialled host */
    uint32_t connections_max; /* connections for all calls except List; 0 means 16 */
    uint32_t calls_max;       /* limit for waiting and running calls (0: 65,536), then ERR_FULL */
    uint64_t timeout_ms, list_timeout_ms; /* limits for one attempt; 0 means 30 s, List 2 min */
    size_t kept_max; /* limit for bytes kept to send large requests again; 0 means 16 MiB */
    size_t list_max; /* limit for bytes of one List response; 0 means 2 GiB */
    uint64_t backoff_first_ms, backoff_max_ms; /* pauses between dials; 0 means as rpc/client.h */
    uint64_t dial_timeout_ms;                  /* limit for one dial; 0 means as rpc/client.h */
    struct rpc_client_metrics *metrics;        /* may be NULL */
};
/* Opens a client. ERR_INVALID with a note (missing or bad address, no shard id, no epoch),
 * ERR_NOMEM, ERR_FULL (timers). */
enum err provider_open(const struct provider_options *options, struct provider **ret_provider,
                       struct note *note);
/* Ends every call: as UNKNOWN if it was sent, else as UNSENT. Then calls done(), unless NULL. */
void provider_close(struct provider *provider, void (*done)(void *owner), void *owner);
struct provider_stats {
    uint32_t running, waiting, connections;
    size_t waiting_bytes; /* total size of waiting requests */
    int64_t sequence;     /* the sequence number used last */
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
    struct str bytes; /* after DONE: the encoded TransitionAck, or for GET the Machine */
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
    struct str shard; /* empty if there is no fencing token */
    int64_t epoch, sequence;
};
struct provider_request { /* everything is copied */
    enum provider_verb verb;
    struct str machine;
    uint64_t timeout_ms;          /* 0 means timeout_ms of the client */
    struct str cluster, blob;     /* only for CONFIGURE */
    const struct label *metadata; /* only for CONFIGURE */
    size_t metadata_count;
    uint64_t grace_seconds; /* only for DRAIN */
    /* NULL in a shard: its id and epoch are sent with a new sequence number. */
    const struct provider_token *token;
};
/* Starts a call. done() is called exactly once, unless provider_call() fails: ERR_INVALID (no
 * machine, or a bad token), ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err provider_call(struct provider *provider, const struct provider_request *request,
                       provider_done_fn *done, void *context);

/* Stops sending mutating calls: waiting and new calls end as UNSENT with `why`, which must be
 * static. Calls that were sent continue, and Get and List are still sent. The stop is final. */
void provider_stop_mutating(struct provider *provider, const char *why);
/* Reads the epoch from the text of a FENCED answer. `muster provider` writes "token (1, 5) is not
 * newer than (41, 7)", whose epoch is 41. Returns false if the text names no epoch. */
bool provider_fence_epoch(struct str text, int64_t *ret_epoch);

/* -- List: one answer, delivered in chunks as they arrive -- */
struct provider_fetch;
struct provider_chunk { /* another thread may read it until provider_chunk_done() */
    struct str bytes;
};
struct provider_fetch_request {
    struct str cursor;      /* the since_revision; empty to request everything */
    struct str page_token;  /* token that the previous page returned; empty for the first page */
    uint32_t page_size;     /* machines per page; 0 means all machines in one page */
    const uint32_t *states; /* requests machines in these states; the client does not check them */
    size_t state_count;     /* 0 means machines in all states */
    uint32_t max_results;   /* 0 means no limit */
    size_t chunk_bytes;     /* bytes; a chunk of this size is delivered at once; 0 means 256 KiB */
    uint32_t chunks_max;    /* reading stops at this many unreturned chunks; 0 means 8 */
};
struct provider_fetch_events {
    void (*on_chunk)(void *context, struct provider_chunk *own_chunk);
    /* After DONE all chunks together are one MachineList; otherwise they are only its beginning.
     * The fetch must not be used after on_end; chunks may still be returned. */
    void (*on_end)(void *context, const struct provider_answer *answer);
};
/* Starts a List. ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err provider_fetch_start(struct provider *provider,
                              const struct provider_fetch_request *request,
                              const struct provider_fetch_events *events, void *context,
                              struct provider_fetch **ret_fetch);
void provider_fetch_cancel(struct provider_fetch *fetch); /* on_end will be called */
void provider_chunk_done(struct provider_chunk *chunk); /* returns the chunk on the loop's thread */
#endif
