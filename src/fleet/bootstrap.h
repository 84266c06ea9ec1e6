/* SPDX-License-Identifier: Apache-2.0 */
/* A replica that waits to bootstrap a cluster: asks every join address for its promise, round after
 * round, until fleet/bootstrap_rules.h decides. Meanwhile its gRPC port answers PromiseBootstrap,
 * BootstrapReplica and StateHash; every other method fails with UNAVAILABLE, not applied. */
#ifndef FLEET_BOOTSTRAP_H
#define FLEET_BOOTSTRAP_H
#include "fleet/bootstrap_rules.h"
#include "fleet/survey.h"
#include "log/datadir.h"
#include "obs/log.h"
#include "rpc/server.h"

struct bootstrap;
struct bootstrap_options {
    struct survey_to to;
    const struct log_source *log; /* may be NULL */
    const char *dir;              /* data directory; there, and locked by the caller */
    const char *name;             /* of this node; copied */
    uint32_t expect;
    /* BOOTSTRAP_NOW or BOOTSTRAP_JOIN, once, never from inside; bootstrap_close follows. */
    void (*done)(void *owner, enum bootstrap_verdict verdict);
    void (*waits)(void *owner, const char *for_what); /* each time that changes; may be NULL */
    void *owner;
};
/* Reads DIR/BOOTSTRAP, or draws the identities and writes it. */
enum err bootstrap_open(const struct bootstrap_options *options, struct bootstrap **ret_bootstrap,
                        struct note *note);
struct datadir bootstrap_identity(const struct bootstrap *bootstrap); /* to be formatted with */
enum err bootstrap_methods(struct bootstrap *bootstrap, struct rpc_server *server,
                           struct note *note);
/* Stops asking; done() does not follow. closed() (may be NULL) when no question runs any more. */
void bootstrap_stop(struct bootstrap *bootstrap, void (*closed)(void *owner), void *owner);
void bootstrap_free(struct bootstrap *bootstrap); /* stopped, and the server closed */
#endif
