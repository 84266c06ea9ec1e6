/* SPDX-License-Identifier: Apache-2.0 */
/* The dashboard of a coordinator: its token, its client certificate for shards, and the replica's
 * own status. Without a token the dashboard is read-only. Runs on the loop's thread. */
#include "common/version.h"
#include "dash/token.h"
#include "muster/coordinator.h"

static void dash_describe_self(void *owner, struct dash_self *ret_self)
{
    static const char *const words[] = {"follower", "candidate", "leader"};
    const struct coordinator *c = owner;
    struct replica_status s = replica_status(c->replica);

    *ret_self = (struct dash_self){
        .id = s.id,
        .leader_id = s.leader_id,
        .role = words[s.role],
        .ready = s.ready,
        .voter = s.voter,
        .installing = s.installing,
        .disk_full = s.disk_full,
        .level = s.level,
        .term = s.term,
        .first = s.first,
        .last = s.last,
        .durable = s.durable,
        .commit = s.commit,
        .applied = s.applied,
        .snapshot = s.snapshot,
        .log_bytes = s.log_bytes,
        .disk_free = s.disk_free,
    };
}

/* The client certificate for reading shards; NULL if the settings name none. */
static enum err dash_open_reader(const struct conf *conf, struct io *io,
                                 struct tls_context **ret_tls, struct note *note)
{
    struct tls_options options = {
        .side = TLS_CLIENT,
        .version_min = TLS_V1_3,
        .cert_file = conf_text(conf, "dashboard.cert-file"),
        .key_file = conf_text(conf, "dashboard.key-file"),
        .ca_files = {conf_text(conf, "tls.ca-file")},
        .alpn = {"h2"},
    };
    enum err err;

    *ret_tls = NULL;
    if (!options.cert_file) return ERR_OK;
    err = tls_context_open(io->fs, &options, ret_tls, note);
    if (err) note_prefix(note, "dashboard.cert-file");
    return err;
}

/* Reads or makes the dashboard's token. A failure does not stop the start, because a replica with a
 * full disk must start. */
static enum err dash_read_token(struct coordinator *c, struct note *note)
{
    struct coordinator_dash *d = &c->dash;
    const char *file = conf_text(c->role.conf, "dashboard.token-file");
    const char *dir = file ? "" : conf_text(c->role.conf, "data-dir");
    enum err err;

    if (snprintf(d->token_path, sizeof d->token_path, "%s%s%s", dir, file ? "" : "/",
                 file ? file : "dashboard-token") >= PATH_MAX)
        return note_fail(note, ERR_TOO_LARGE,
                         "dashboard.token-file: the path is longer than %d bytes", PATH_MAX - 1);
    err = dash_token_read(c->role.io->fs, d->token_path, d->token, note);
    if (err != ERR_NOT_FOUND) return err;
    err = dash_token_make(c->role.io, d->token_path, d->token, note);
    if (!err) return ERR_OK;
    d->token[0] = '\0';
    LOG_WARN(c->log, "dashboard actions are disabled: the token file could not be written",
             log_text("file", d->token_path), log_err("err", err));
    return ERR_OK;
}

enum err coordinator_dash_open(void *state, struct note *note)
{
    struct coordinator *c = state;
    const struct conf *conf = c->role.conf;
    const char *warning = c->role.warning;
    const char *addresses[JOIN_ADDRESSES_MAX + 2] = {c->grpc_address};
    struct dash_options options = {
        .io = c->role.io,
        .log = c->log,
        .http = c->role.status->http,
        .addresses = addresses,
        .tls = c->role.client_tls,
        .node = conf_text(conf, "id"),
        .version = version_number(),
        .commit = version_commit(),
        .warning = warning,
        .notes_file = conf_text(conf, "dashboard.notes-file"),
        .read_only = warning ? "this listener is open to the network without TLS"
                             : "the file with the admin token could not be written",
        .self = dash_describe_self,
        .owner = c,
    };
    enum err err;

    if (!conf_bool(conf, "dashboard.enabled") || !options.http) return ERR_OK;
    memcpy(addresses + 1, c->join_addresses, sizeof c->join_addresses);
    err = warning ? ERR_OK : dash_read_token(c, note);
    if (c->dash.token[0]) options.token = c->dash.token;
    if (!err) err = dash_open_reader(conf, c->role.io, &options.shard_tls, note);
    if (!err) err = dash_open(&options, &c->dash.dash, note);
    tls_context_unref(options.shard_tls);
    return err;
}

void coordinator_dash_stop(struct coordinator *c)
{
    if (!c->dash.dash || c->dash.closing) return;
    c->dash.closing = true;
    dash_close(c->dash.dash, chassis_set_true, &c->dash.closed);
}
