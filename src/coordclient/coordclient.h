/* SPDX-License-Identifier: Apache-2.0 */
/* Sends a shard's reports to the coordinator and carries out the instructions in the answers.
 *
 * The client follows the leader that an answer names. On a bare "not leader" it tries the next
 * address. A report times out after one interval (at least 5 s). Failed reports are only counted.
 *
 * Instructions are fenced by term and carried out once per id (instructions.h). All instructions
 * except AssignDomain and UnassignDomain are rejected. */
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
    const char *const *addresses; /* NULL-terminated; copied */
    struct tls_context *tls;      /* NULL: plaintext */
    const char *shard_id;         /* copied */
    const char *advertise;        /* where operators reach this shard; copied */
    uint64_t epoch;
    uint64_t interval_ms;   /* 0: COORDCLIENT_INTERVAL_MS */
    struct shard_view view; /* must outlive the client */
};
/* Reports immediately and then at every interval. ERR_INVALID with a note, ERR_NOMEM, or an error
 * of rpc_channel_open. */
enum err coordclient_open(const struct coordclient_options *options,
                          struct coordclient **ret_client, struct note *note);
/* Calls done() when all memory of the client is freed. */
void coordclient_close(struct coordclient *client, void (*done)(void *owner), void *owner);
struct coordclient_stats {
    uint64_t reports, failures, instructions;
    int64_t term;
};
struct coordclient_stats coordclient_stats(const struct coordclient *client);
#endif
