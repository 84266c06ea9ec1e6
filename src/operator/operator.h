/* SPDX-License-Identifier: Apache-2.0 */
/* A running operator: connects one cluster with its shard.
 *
 * The operator keeps one stream (Shard.Session). When the stream ends, the operator dials again
 * after 0.5 to 30 s. The operator sends the whole demand when the stream opens, when the demand
 * changes and every ten seconds. It answers requests for bootstrap data from a template. It passes
 * node states, hints and reclaims to its source (source.h). Only reclaims are stored on disk. */
#ifndef OPERATOR_OPERATOR_H
#define OPERATOR_OPERATOR_H
#include "io/io.h"
#include "io/tls.h"
#include "obs/log.h"
#include "obs/metrics.h"
#include "operator/source.h"
#include "rpc/client.h"

enum { OPERATOR_ROLLUP_MS = 10 * 1000, OPERATOR_STALE_MS = 60 * 1000 };

struct operator_options {
    struct io *io;
    const struct log_source *log; /* may be NULL; copied */
    struct metrics *metrics;      /* may be NULL */
    struct rpc_client_metrics *rpc_metrics;
    const char *cluster_id;             /* cluster_id and state_dir must outlive the operator */
    const char *const *shard_addresses; /* ends with NULL; copied */
    struct tls_context *tls;            /* NULL: plaintext */
    const char *state_dir;              /* exists; locked by the caller */
    const char *template_file;
    /* How long machines from an earlier session stay shown until the shard reports them. A
     * restarted shard knows no machines at first. 0: OPERATOR_STALE_MS. */
    uint64_t stale_ms;
    uint64_t rollup_ms;           /* 0: OPERATOR_ROLLUP_MS */
    struct demand_source *source; /* closed by operator_close() */
};
/* ERR_INVALID with a note (template, ids), ERR_NOMEM, or an error of the state directory. After an
 * error the caller must close the source. */
enum err operator_open(const struct operator_options *options, struct operator_host **ret_host,
                       struct note *note);
/* Starts the source and returns its error. After an error only operator_close() may be called. */
enum err operator_start(struct operator_host *host, struct note *note);
/* Closes the source before the return. Calls done() in a later turn, when the stream is closed. */
void operator_close(struct operator_host *host, void (*done)(void *owner), void *owner);
/* True if connected and all demand is known. Otherwise sets `reason`. */
bool operator_ready(const struct operator_host *host, struct note *reason);
#endif
