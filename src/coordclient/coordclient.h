/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of a shard to the coordinator every so often, and the instructions in the answers.
 *
 * Everything a shard does it does without this module; when no coordinator answers for a week,
 * reports fail, are counted, and nothing else happens. It follows the leader: an answer that names
 * one is obeyed, one that only says "not leader" moves on to the next address, and no report takes
 * longer than its interval (at least 5 s), so a hung replica cannot stop the loop.
 *
 * Instructions are fenced by term and carried out once per id (instructions.h). AssignDomain and
 * UnassignDomain are carried out; the other three are refused by name until they are built. */
#ifndef COORDCLIENT_COORDCLIENT_H
#define COORDCLIENT_COORDCLIENT_H
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "rpc/client.h"
#include "shard/view.h"

enum { COORDCLIENT_INTERVAL_MS = 10 * 1000, COORDCLIENT_ACKS_MAX = 4096 };

struct coordclient;
struct coordclient_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL */
    struct rpc_client_metrics *rpc_metrics;
    const char *const *addresses; /* ends with NULL; copied */
    struct tls_context *tls;      /* NULL: plaintext */
    const char *shard_id;         /* copied */
    const char *advertise;        /* where operators reach this shard; copied */
    uint64_t epoch;
    uint64_t interval_ms;   /* 0: COORDCLIENT_INTERVAL_MS */
    struct shard_view view; /* outlives the client */
};
/* Reports at once, then every interval. ERR_INVALID with a note, ERR_NOMEM, what rpc_channel_open
 * answers. */
enum err coordclient_open(const struct coordclient_options *options,
                          struct coordclient **ret_client, struct note *note);
/* done() once nothing of it is left. */
void coordclient_close(struct coordclient *client, void (*done)(void *owner), void *owner);
struct coordclient_stats {
    uint64_t reports, failures, instructions;
    int64_t term;
};
struct coordclient_stats coordclient_stats(const struct coordclient *client);
#endif
