/* SPDX-License-Identifier: Apache-2.0 */
/* A running operator: one cluster's voice at its shard.
 *
 * It keeps one outbound stream (Shard.Session), dialled again with pauses of 0.5 to 30 s whenever
 * it ends; sends the cluster's whole demand when the stream opens, when demand changed and every
 * ten seconds; answers requests for bootstrap blobs out of a template; and hands node states, hints
 * and reclaims to its source (source.h). What is not sent yet is replaced by what is newer.
 *
 * What must survive kill -9 is small: the reclaims that were begun (state_dir). Demand comes from
 * the source again, machines from the shard. */
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
    /* How long after a new session a machine is still shown that the shard has not told of again: a
     * shard that was just started knows none yet. 0: OPERATOR_STALE_MS. */
    uint64_t stale_ms;
    uint64_t rollup_ms;           /* 0: OPERATOR_ROLLUP_MS */
    struct demand_source *source; /* closed by operator_close */
};
/* ERR_INVALID with a note (template, ids), ERR_NOMEM, and what reading the state directory answers.
 * After an error the source is the caller's to close. */
enum err operator_open(const struct operator_options *options, struct operator_host **ret_host,
                       struct note *note);
/* Starts the source, in the same turn; what it answers. After an error there is only
 * operator_close. */
enum err operator_start(struct operator_host *host, struct note *note);
/* Closes the source at once; done() in a later turn, when the stream is closed. NULL is fine. */
void operator_close(struct operator_host *host, void (*done)(void *owner), void *owner);
/* Does the shard hear this cluster? False: why not. */
bool operator_ready(const struct operator_host *host, struct note *reason);
#endif
