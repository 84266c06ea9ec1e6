/* SPDX-License-Identifier: Apache-2.0 */
/* A running operator: connects one cluster with its shard.
 *
 * The operator keeps one outbound stream (Shard.Session), which is dialled again whenever
 * it ends, after 0.5 to 30 s. It sends the cluster's whole demand when the stream opens, when demand
 * changed and every ten seconds; answers requests for bootstrap data from a template; and passes
 * node states, hints and reclaims to its source (source.h). A newer roll-up replaces one that is
 * not sent.
 *
 * Only the reclaims that were begun must survive kill -9 (state_dir). The source reads demand
 * again, and the shard reports machines again. */
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
    const char *cluster_id;             /* outlives the operator, as does state_dir */
    const char *const *shard_addresses; /* ends with NULL; copied */
    struct tls_context *tls;            /* NULL: plaintext */
    const char *state_dir;              /* there, and locked by the caller */
    const char *template_file; /* NULL: an empty blob, as a cluster without bootstrap wants */
    /* How long a machine is still shown after a new session, although the shard has not reported it
     * again: a shard that was just started knows no machine yet. 0: OPERATOR_STALE_MS. */
    uint64_t stale_ms;
    uint64_t rollup_ms;           /* 0: OPERATOR_ROLLUP_MS */
    struct demand_source *source; /* closed by operator_close */
};
/* ERR_INVALID with a note (template, ids), ERR_NOMEM, and what reading the state directory answers.
 * After an error the source is the caller's to close. */
enum err operator_open(const struct operator_options *options, struct operator_host **ret_host,
                       struct note *note);
/* Starts the source, in the same turn; errors are those of its start(). After an error only
 * operator_close may be called. */
enum err operator_start(struct operator_host *host, struct note *note);
/* Closes the source at once; done() in a later turn, when the stream is closed. NULL is fine. */
void operator_close(struct operator_host *host, void (*done)(void *owner), void *owner);
/* Connected, and all demand is known. False: `reason` says why not. */
bool operator_ready(const struct operator_host *host, struct note *reason);
#endif
