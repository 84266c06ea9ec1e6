/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of what a server keeps for its peers: defaults, and accounting per identity.
 *
 * Buffered bytes are memory beyond the windows and queues of a connection: incomplete or waiting
 * requests, and unread responses. Metadata is charged separately, because a peer can cause much of
 * it with few bytes: one byte refers to an entry of the header table. */
#include <stdlib.h>
#include <string.h>

#include "rpc/server_internal.h"

enum {
    KEY_MAX = 512,            /* bytes; identities cut to the same text share their limits */
    H2_OVERHEAD = 3 << 20,    /* for nghttp2 itself: header tables, control frames */
    STREAMS_RECKONED = 65536, /* each stream adds 1 KiB to the overhead, up to this many streams */
};

#define DEFAULT(field, value)                                                                      \
    if (!l.field) l.field = (value)

enum err limits_settle(const struct rpc_server_limits *given, struct rpc_server_limits *ret_limits)
{
    struct rpc_server_limits l = *given;

    DEFAULT(connections_max, 10000);
    DEFAULT(connections_per_identity_max, 1000);
    DEFAULT(streams_per_connection_max, 1000);
    DEFAULT(calls_max, 100000);
    DEFAULT(buffered_max, (size_t)1 << 30);
    DEFAULT(buffered_per_identity_max, (size_t)512 << 20);
    DEFAULT(metadata_per_connection_max, 4 << 20);
    DEFAULT(metadata_per_identity_max, 64 << 20);
    DEFAULT(metadata_max, 256 << 20);
    DEFAULT(header_bytes_max, 64 << 10);
    DEFAULT(stream_window, 256 << 10);
    DEFAULT(connection_window, 1 << 20);
    DEFAULT(stream_output_max, 32 << 10);
    DEFAULT(output_max, 1 << 20);
    DEFAULT(socket_output_max, 256 << 10);
    DEFAULT(handshake_timeout_ms, 10 * MS_PER_SECOND);
    DEFAULT(header_timeout_ms, 10 * MS_PER_SECOND);
    DEFAULT(body_timeout_ms, 30 * MS_PER_SECOND);
    DEFAULT(write_timeout_ms, 60 * MS_PER_SECOND);
    DEFAULT(ping_after_ms, 7200 * MS_PER_SECOND);
    DEFAULT(ping_timeout_ms, 20 * MS_PER_SECOND);
    DEFAULT(ping_min_interval_ms, 300 * MS_PER_SECOND);
    DEFAULT(slow_call_ms, MS_PER_SECOND);
    if (l.stream_window > INT32_MAX || l.connection_window > INT32_MAX) return ERR_INVALID;
    if (l.stream_output_max > l.output_max || l.output_max > (1u << 30)) return ERR_INVALID;
    *ret_limits = l;
    return ERR_OK;
}

struct h2_limits limits_for_h2(const struct rpc_server_limits *limits)
{
    return (struct h2_limits){
        .streams_max = limits->streams_per_connection_max,
        .header_bytes_max = limits->header_bytes_max,
        .stream_window = limits->stream_window,
        .connection_window = limits->connection_window,
        .stream_output_max = limits->stream_output_max,
        .output_max = limits->output_max,
        .ping_min_interval_ms = limits->ping_min_interval_ms,
        .memory_max =
            limits->output_max + H2_OVERHEAD +
            (uint32_t)min_u64(limits->streams_per_connection_max, STREAMS_RECKONED) * 1024,
    };
}

/* -- identities -- */

/* A proven name, which is the same for every connection of a peer. */
static struct str identity_key(const struct tls_identity *identity)
{
    if (identity->uri_count > 0) return identity->uris[0];
    if (identity->common_name.len > 0) return identity->common_name;
    if (identity->dns_count > 0) return identity->dns_names[0];
    return identity->serial_hex;
}

static struct str address_key(const char *address)
{
    struct address_parts parts;

    return address_split(address, &parts, NULL) ? str_from(address) : parts.host;
}

struct rpc_peer *limits_join(struct rpc_server *s, const struct tls_identity *identity,
                             const char *address)
{
    struct str key = identity ? identity_key(identity) : address_key(address);
    struct rpc_peer *peer;

    key.len = min_size(key.len, KEY_MAX);
    peer = map_make(&s->peers, key, sizeof *peer);
    if (!peer || peer->connections >= s->limits.connections_per_identity_max) return NULL;
    peer->key = str_of(peer + 1, key.len); /* map_make copied the key to the end of the entry */
    peer->connections++;
    return peer;
}

void limits_leave(struct rpc_server *s, struct rpc_peer *peer)
{
    if (!peer) return;
    assert(peer->connections > 0);
    if (--peer->connections > 0) return;
    assert(peer->buffered == 0 && peer->metadata == 0); /* calls refund what they were charged */
    map_remove(&s->peers, peer->key);
    free(peer);
}

/* -- bytes -- */

static bool limits_fit(size_t used, size_t max, size_t bytes)
{
    return used <= max && bytes <= max - used;
}

enum err limits_charge(struct rpc_call *call, size_t bytes)
{
    struct rpc_server *s = call->server;
    struct rpc_peer *peer = call->connection->peer;

    if (!limits_fit(s->stats.buffered, s->limits.buffered_max, bytes) ||
        !limits_fit(peer->buffered, s->limits.buffered_per_identity_max, bytes))
        return ERR_FULL;
    s->stats.buffered += bytes;
    peer->buffered += bytes;
    call->charged += bytes;
    return ERR_OK;
}

void limits_refund(struct rpc_call *call, size_t bytes)
{
    struct rpc_server *s = call->server;
    struct rpc_peer *peer = call->connection->peer;

    assert(bytes <= call->charged && bytes <= peer->buffered && bytes <= s->stats.buffered);
    call->charged -= bytes;
    peer->buffered -= bytes;
    s->stats.buffered -= bytes;
}

enum err limits_charge_metadata(struct rpc_call *call, size_t bytes)
{
    struct rpc_server *s = call->server;
    struct connection *c = call->connection;
    bool replica = c->passes_on && c->own_identity; /* plaintext proves no identity */

    if (!c->passes_on && !limits_fit(c->metadata, s->limits.metadata_per_connection_max, bytes))
        return ERR_TOO_LARGE;
    if (!replica && !limits_fit(c->peer->metadata, s->limits.metadata_per_identity_max, bytes))
        return ERR_FULL;
    if (!limits_fit(s->stats.metadata, s->limits.metadata_max, bytes)) return ERR_FULL;
    c->metadata += bytes;
    c->peer->metadata += bytes;
    s->stats.metadata += bytes;
    call->metadata_charged += bytes;
    return ERR_OK;
}

void limits_refund_metadata(struct rpc_call *call)
{
    struct connection *c = call->connection;
    size_t bytes = call->metadata_charged;

    assert(bytes <= c->metadata && bytes <= c->peer->metadata &&
           bytes <= call->server->stats.metadata);
    call->metadata_charged = 0;
    c->metadata -= bytes;
    c->peer->metadata -= bytes;
    call->server->stats.metadata -= bytes;
}
