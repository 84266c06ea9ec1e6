/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard of a coordinator: shows replicas, shards and store as pages, JSON and a stream of
 * server-sent events, on the process's HTTP listener.
 *
 * The dashboard queries coordinators and shards over gRPC on the event loop's thread. A peer that
 * does not answer is shown as missing and delays nothing. The HTTP thread serves the finished text.
 *
 * Everything is read-only except POST /api/actions, which needs the token or, under TLS, a
 * certificate with bigfleet://admin. Without a token there are no actions, and the store's values
 * are not shown. */
#ifndef DASH_DASH_H
#define DASH_DASH_H
#include "io/http.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"

enum { DASH_TOKEN_MAX = 128, DASH_TOKEN_MIN = 16 };

struct dash_self {
    uint64_t id, leader_id; /* leader_id 0: unknown */
    const char *role;       /* for example "leader"; static */
    bool ready, voter, installing, disk_full;
    uint32_t level;
    uint64_t term, first, last, durable, commit, applied, snapshot;
    uint64_t log_bytes, disk_free;
};

struct dash;
struct dash_options {
    struct io *io;
    const struct log_source *log;  /* copied */
    struct http_server *http;      /* must outlive the dashboard */
    const char *const *addresses;  /* gRPC addresses of the coordinators, own first; copied */
    struct tls_context *tls;       /* NULL: plaintext; adds a reference */
    struct tls_context *shard_tls; /* for shards; NULL: `tls`; adds a reference */
    const char *node, *version, *commit;
    const char *warning;    /* shown on every page; may be NULL; copied */
    const char *token;      /* enables actions; NULL: no actions; copied */
    const char *notes_file; /* NULL: no notes; copied */
    const char *read_only;  /* why there is no token; copied */
    void (*self)(void *owner, struct dash_self *ret_self);
    void *owner;
};
/* Loop's thread. Errors of http_publish, http_route and rpc_channel_open. */
enum err dash_open(const struct dash_options *options, struct dash **ret_dash, struct note *note);
/* Calls done() in a later turn, when every call has ended. Call before closing the listener. */
void dash_close(struct dash *dash, void (*done)(void *owner), void *owner);
#endif
