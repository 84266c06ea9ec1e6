/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's client of a capacity provider: six calls, each ended exactly once.
 *
 * Fencing. Every attempt at a mutating call carries the shard's id, its epoch and a sequence number
 * that no other attempt had. What may have been applied is never sent again: it ends as "don't
 * know", and the caller finds out by Get. What certainly did not reach the provider (a connection
 * that was going away) is sent again under a new number, PROVIDER_ATTEMPTS_MAX times at most.
 *
 * A fence that names no epoch above ours is no proof of a newer process: a proxy that sends a call
 * twice gets the second copy refused. The call is sent once more under a new number, and only a
 * second refusal is FENCED. A call whose request was not kept (kept_max) is UNKNOWN.
 *
 * How a call ended, by what the provider said (wire.md 8.3):
 *
 *   OK                                       DONE
 *   FAILED_PRECONDITION, of a mutating call  FENCED: reserved for that
 *   NOT_FOUND, UNIMPLEMENTED                 NOT_FOUND, NOT_SUPPORTED
 *   CANCELLED, DEADLINE_EXCEEDED, UNKNOWN,   UNKNOWN: a proxy or a handler that broke says these,
 *   UNAVAILABLE, DATA_LOSS                   whatever was done before
 *   anything else, INTERNAL too              REFUSED: the contract's answer to a wrong state
 *   nothing (lost, late, unreadable)         UNKNOWN
 *   nothing, and nothing was sent            UNSENT: there was no connection, or no turn in time
 *
 * Many calls. Tens of thousands run at once. They are spread over several connections as soon as
 * one is full by the provider's own limit (SETTINGS_MAX_CONCURRENT_STREAMS, often 100) or ours
 * (8,192 calls, 32 MiB of requests);
 * past `connections_max` they wait here, in order. The deadline of a call begins when it is sent,
 * because before that the provider has not been asked. What has waited for 30 s is not sent any
 * more, and ends within another 30: who asked has other thoughts by then, and a Drain that comes
 * minutes late hits a machine that serves somebody else. A connection that said nothing during the
 * whole time of a call is left for another. List has a connection of its own: half a gigabyte must
 * not stand in front of the acks.
 *
 * Everything belongs to the loop's thread; no callback comes from inside a call of this header. */
#ifndef PROVIDER_CLIENT_H
#define PROVIDER_CLIENT_H
#include "model/ids.h"
#include "rpc/client.h"

enum {
    PROVIDER_ATTEMPTS_MAX = 3, /* of what never reached the provider */
    PROVIDER_CALLS_PER_CONNECTION = 8192,
};

struct provider;
struct provider_options { /* its texts outlive the client */
    struct io *io;
    const char *address;                  /* "host:port" */
    const char *shard_id;                 /* not empty */
    int64_t epoch;                        /* > 0 */
    struct tls_context *tls;              /* NULL: plaintext. Held by reference */
    const char *tls_name;                 /* NULL: the dialled host */
    uint32_t connections_max;             /* for calls; 0: 16 */
    uint32_t calls_max;                   /* waiting and running; 0: 65,536; more get ERR_FULL */
    uint64_t timeout_ms, list_timeout_ms; /* of one attempt; 0: 30 s, 2 min */
    size_t kept_max;                      /* bytes of large requests kept; 0: 16 MiB */
    size_t list_max;                      /* bytes of one answer to List; 0: 2 GiB */
    uint64_t backoff_first_ms, backoff_max_ms; /* between dials; 0: as rpc/client.h */
    uint64_t dial_timeout_ms;                  /* 0: as rpc/client.h */
    struct rpc_client_metrics *metrics;        /* may be NULL */
};
/* ERR_INVALID with a note (no address, or one that is none; no shard id; no epoch), ERR_NOMEM,
 * ERR_FULL (timers). */
enum err provider_open(const struct provider_options *options, struct provider **ret_provider,
                       struct note *note);
/* Every call ends (UNKNOWN if it was sent, else UNSENT); then done(), which may be NULL. */
void provider_close(struct provider *provider, void (*done)(void *owner), void *owner);
bool provider_ready(const struct provider *provider); /* a call would go out now */
struct provider_stats {
    uint32_t running, waiting, connections;
    size_t waiting_bytes; /* of the requests that wait */
    int64_t sequence;     /* the last that was used */
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
    struct str text;  /* the provider's, or ours where it said nothing */
    struct str bytes; /* DONE: a TransitionAck, or a Machine for GET; undecoded, and unchecked */
};
typedef void provider_done_fn(void *context, const struct provider_answer *answer);

enum provider_verb {
    PROVIDER_CREATE,
    PROVIDER_CONFIGURE,
    PROVIDER_DRAIN,
    PROVIDER_DELETE,
    PROVIDER_GET,
};
/* A token of the caller's own, for one who tries a provider: sent as it is. */
struct provider_token {
    struct str shard; /* empty: no token */
    int64_t epoch, sequence;
};
struct provider_request { /* everything is copied */
    enum provider_verb verb;
    struct str machine;
    uint64_t timeout_ms;          /* 0: the provider's */
    struct str cluster, blob;     /* CONFIGURE */
    const struct label *metadata; /* CONFIGURE */
    size_t metadata_count;
    uint64_t grace_seconds; /* DRAIN */
    /* NULL, as a shard has it: our id and epoch, a number that no other attempt had. */
    const struct provider_token *token;
};
/* done() exactly once, unless this fails: ERR_INVALID (no machine, nor a token), ERR_FULL,
 * ERR_CLOSED, ERR_NOMEM. */
enum err provider_call(struct provider *provider, const struct provider_request *request,
                       provider_done_fn *done, void *context);

/* From now on no mutating call is sent: those that wait and those that come end as UNSENT with
 * `why`, which is static. Calls that were sent run on, and Get and List go out as before. There is
 * no way back. */
void provider_stop_mutating(struct provider *provider, const char *why);
/* The epoch in the mark that a FENCED answer's text names: "token (1, 5) is not newer than (41, 7)"
 * of `muster provider` is 41. False: the text names none, as a foreign provider's may. */
bool provider_fence_epoch(struct str text, int64_t *ret_epoch);

/* -- List: one answer, handed on in chunks as it arrives -- */
struct provider_fetch;
struct provider_chunk { /* may be read on another thread until it is given back */
    struct str bytes;
};
struct provider_fetch_request {
    struct str cursor;      /* since_revision; empty: everything */
    struct str page_token;  /* of the page before; empty: the first */
    uint32_t page_size;     /* 0: all in one */
    const uint32_t *states; /* only machines in these; any number is sent */
    size_t state_count;     /* 0: in all */
    uint32_t max_results;   /* 0: no limit */
    size_t chunk_bytes;     /* a chunk is handed on as soon as it has so many; 0: 256 KiB */
    uint32_t chunks_max;    /* not given back yet; then the provider waits. 0: 8 */
};
struct provider_fetch_events {
    void (*on_chunk)(void *context, struct provider_chunk *own_chunk);
    /* DONE: all chunks together are one MachineList. Else what came is a part of one. The fetch is
     * not to be used after this; chunks may still be given back. */
    void (*on_end)(void *context, const struct provider_answer *answer);
};
/* ERR_FULL, ERR_CLOSED, ERR_NOMEM. */
enum err provider_fetch_start(struct provider *provider,
                              const struct provider_fetch_request *request,
                              const struct provider_fetch_events *events, void *context,
                              struct provider_fetch **ret_fetch);
void provider_fetch_cancel(struct provider_fetch *fetch); /* on_end follows */
void provider_chunk_done(struct provider_chunk *chunk);   /* on the loop's thread */
#endif
