/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/coordinator_state.h"

#include <stdlib.h>

#include "fleet/export.h"

struct coordinator_state {
    struct snapshot_service *service;
    struct export_loop *exports;
};

static enum err open_exports(struct coordinator_state *state,
                             const struct snapshot_service_options *options,
                             const struct conf *conf, struct note *note)
{
    struct export_loop_options exports = {
        .io = options->io,
        .log = options->log,
        .metrics = options->metrics,
        .replica = options->replica,
        .fleet = options->fleet,
        .roster = options->roster,
        .dir = conf_text(conf, "snapshot-export-dir"),
        .every_ms = conf_number(conf, "snapshot-export-interval"),
        .keep = (uint32_t)conf_number(conf, "snapshot-export-keep"),
    };

    if (!exports.dir || !exports.dir[0]) return ERR_OK;
    return export_loop_open(&exports, &state->exports, note);
}

enum err coordinator_state_open(const struct snapshot_service_options *options,
                                const struct conf *conf, struct rpc_server *server,
                                struct coordinator_state **ret_state, struct note *note)
{
    struct coordinator_state *state = calloc(1, sizeof *state);
    enum err err;

    if (!state) return ERR_NOMEM;
    *ret_state = state; /* the caller closes it, also half-built: the server may know of it */
    err = snapshot_service_open(options, &state->service, note);
    if (!err) err = snapshot_service_methods(state->service, server, note);
    return err ? err : open_exports(state, options, conf, note);
}

enum err coordinator_state_etcd(struct coordinator_state *state, struct rpc_server *server,
                                struct note *note)
{
    return snapshot_service_etcd(state->service, server, note);
}

void coordinator_state_close(struct coordinator_state *state)
{
    if (!state) return;
    export_loop_close(state->exports);
    snapshot_service_close(state->service);
    free(state);
}
