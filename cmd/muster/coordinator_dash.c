/* SPDX-License-Identifier: Apache-2.0 */
#include "muster/coordinator_dash.h"

#include <limits.h>
#include <stdlib.h>

#include "common/version.h"
#include "dash/token.h"

enum { ADDRESSES_MAX = 64 };

struct coordinator_dash {
    struct chassis *chassis;
    struct replica *replica;
    struct dash *dash;
    char token[DASH_TOKEN_MAX + 1];
    char token_path[PATH_MAX];
    bool closing, closed;
};

static void self(void *owner, struct dash_self *ret_self)
{
    static const char *const words[] = {"follower", "candidate", "leader"};
    const struct coordinator_dash *d = owner;
    struct replica_status s = replica_status(d->replica);

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

/* The identity of a reader, for shards; NULL: none was given. */
static enum err open_reader(const struct conf *conf, struct io *io, struct tls_context **ret_tls,
                            struct note *note)
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

/* A replica whose disk is full must still start: without the token nobody may act on the
 * dashboard. */
static enum err read_token(struct coordinator_dash *d, const struct conf *conf, struct io *io,
                           struct note *note)
{
    const char *file = conf_text(conf, "dashboard.token-file");
    int len = file ? snprintf(d->token_path, sizeof d->token_path, "%s", file)
                   : snprintf(d->token_path, sizeof d->token_path, "%s/dashboard-token",
                              conf_text(conf, "data-dir"));
    enum err err;

    if ((size_t)len >= sizeof d->token_path) {
        note_set(note, "dashboard.token-file: the path is longer than %d bytes", PATH_MAX - 1);
        return ERR_TOO_LARGE;
    }
    err = dash_token_read(io->fs, d->token_path, d->token, note);
    if (err != ERR_NOT_FOUND) return err;
    err = dash_token_make(io, d->token_path, d->token, note);
    if (!err) return ERR_OK;
    d->token[0] = '\0';
    LOG_WARN(instruments_log(chassis_instruments(d->chassis)),
             "the dashboard has no actions: its token file could not be written",
             log_text("file", d->token_path), log_err("err", err));
    return ERR_OK;
}

static enum err open_it(struct coordinator_dash *d, const struct coordinator_dash_options *options,
                        struct note *note)
{
    const struct conf *conf = chassis_conf(d->chassis);
    const char *warning = chassis_warning(d->chassis);
    const char *addresses[ADDRESSES_MAX + 1] = {options->address};
    struct io *io = chassis_io(d->chassis);
    struct dash_options dash = {
        .io = io,
        .log = instruments_log(chassis_instruments(d->chassis)),
        .http = chassis_http(d->chassis),
        .addresses = addresses,
        .tls = options->tls,
        .node = conf_text(conf, "id"),
        .version = version_number(),
        .commit = version_commit(),
        .warning = warning,
        .notes_file = conf_text(conf, "dashboard.notes-file"),
        .read_only = "this listener is open to the network without TLS",
        .self = self,
        .owner = d,
    };
    enum err err = ERR_OK;

    for (size_t i = 0; options->join_addresses[i] && i + 1 < ADDRESSES_MAX; i++)
        addresses[i + 1] = options->join_addresses[i];
    if (!warning) err = read_token(d, conf, io, note);
    if (err) return err;
    if (d->token[0]) dash.token = d->token;
    if (!warning) dash.read_only = "the file with the admin token could not be written";
    err = open_reader(conf, io, &dash.shard_tls, note);
    if (!err) err = dash_open(&dash, &d->dash, note);
    tls_context_unref(dash.shard_tls); /* the dashboard holds its own reference */
    return err;
}

enum err coordinator_dash_open(const struct coordinator_dash_options *options,
                               struct coordinator_dash **ret_dash, struct note *note)
{
    struct coordinator_dash *d;
    enum err err;

    *ret_dash = NULL;
    if (!conf_bool(chassis_conf(options->chassis), "dashboard.enabled")) return ERR_OK;
    if (!chassis_http(options->chassis)) return ERR_OK;
    d = calloc(1, sizeof *d);
    if (!d) return ERR_NOMEM;
    d->chassis = options->chassis;
    d->replica = options->replica;
    err = open_it(d, options, note);
    if (err)
        free(d);
    else
        *ret_dash = d;
    return err;
}

void coordinator_dash_say(const struct coordinator_dash *dash, FILE *out)
{
    if (!dash) return;
    if (!dash->token[0])
        fprintf(out, "  dashboard    read-only\n");
    else
        fprintf(out, "  admin token  in %s\n", dash->token_path);
}

void coordinator_dash_stop(struct coordinator_dash *dash)
{
    if (!dash || dash->closing) return;
    dash->closing = true;
    dash_close(dash->dash, chassis_set_true, &dash->closed);
}

void coordinator_dash_close(struct coordinator_dash *dash)
{
    if (!dash) return;
    coordinator_dash_stop(dash);
    while (!dash->closed) chassis_turn(dash->chassis);
    free(dash);
}
