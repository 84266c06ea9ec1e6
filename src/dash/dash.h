/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard of a coordinator: what its replicas, its shards and its store say, as pages, JSON
 * and one stream of server-sent events, on the HTTP listener the process has.
 *
 * It asks as any client does, by gRPC: the coordinators over one channel that follows the leader,
 * each shard at its own address. Who does not answer is missing in the picture, with the reason,
 * and nothing waits for it. Answers become JSON on the loop's thread; the HTTP thread sees the
 * finished text. While nobody watches, it asks five times less often.
 *
 * The surprising rule: everything is read-only but for POST /api/actions, and that needs the token
 * or, under TLS, a certificate with bigfleet://admin. Without a token there are no actions at all,
 * and values of the store are not shown. */
#ifndef DASH_DASH_H
#define DASH_DASH_H
#include "io/http.h"
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"

enum { DASH_TOKEN_MAX = 128, DASH_TOKEN_MIN = 16 };

/* What the replica of this process knows of itself. */
struct dash_self {
    uint64_t id, leader_id; /* 0: no leader is known */
    const char *role;       /* "leader"; static text */
    bool ready, voter, installing, disk_full;
    uint32_t level;
    uint64_t term, first, last, durable, commit, applied, snapshot;
    uint64_t log_bytes, disk_free;
};

struct dash;
struct dash_options {
    struct io *io;
    const struct log_source *log;        /* copied */
    struct http_server *http;            /* lives longer */
    const char *const *addresses;        /* of coordinators, gRPC; this one's first; copied */
    struct tls_context *tls;             /* NULL: plaintext; held by reference */
    struct tls_context *shard_tls;       /* shown to shards; NULL: as `tls`; the same */
    const char *node, *version, *commit; /* copied */
    const char *warning;                 /* shown on every page; NULL: none; copied */
    const char *token;                   /* NULL: no actions; copied */
    const char *notes_file;              /* NULL: no notes; copied */
    const char *read_only;               /* without a token: why; copied */
    void (*self)(void *owner, struct dash_self *ret_self);
    void *owner;
};
/* On the loop's thread, as everything here. What http_publish, http_route and rpc_channel_open
 * answer. */
enum err dash_open(const struct dash_options *options, struct dash **ret_dash, struct note *note);
/* done() when every call has ended; the loop must turn for it. Before the listener is closed. */
void dash_close(struct dash *dash, void (*done)(void *owner), void *owner);
#endif
