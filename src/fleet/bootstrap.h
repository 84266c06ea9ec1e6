/* SPDX-License-Identifier: Apache-2.0 */
/* A replica that waits to bootstrap a cluster. The replica asks every join address for a promise,
 * in rounds, until fleet/bootstrap_rules.h decides. Meanwhile its gRPC port answers only
 * PromiseBootstrap, BootstrapReplica and StateHash; other methods get UNAVAILABLE. */
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
    const char *dir;              /* data directory; must exist and be locked by the caller */
    const char *name;             /* name of this node; copied */
    uint32_t expect;
    /* Called once, with BOOTSTRAP_NOW or BOOTSTRAP_JOIN. The owner then calls bootstrap_stop. */
    void (*done)(void *owner, enum bootstrap_verdict verdict);
    /* called when the reason to wait changes; may be NULL */
    void (*waits)(void *owner, const char *for_what);
    void *owner;
};
/* Reads DIR/BOOTSTRAP, or draws new identities and writes the file. */
enum err bootstrap_open(const struct bootstrap_options *options, struct bootstrap **ret_bootstrap,
                        struct note *note);
/* for formatting the data directory */
struct datadir bootstrap_identity(const struct bootstrap *bootstrap);
enum err bootstrap_methods(struct bootstrap *bootstrap, struct rpc_server *server,
                           struct note *note);
/* Stops the queries without done(). Calls closed(), unless NULL, after the last query. */
void bootstrap_stop(struct bootstrap *bootstrap, void (*closed)(void *owner), void *owner);
void bootstrap_free(struct bootstrap *bootstrap); /* after closed() and the server's close */
#endif
