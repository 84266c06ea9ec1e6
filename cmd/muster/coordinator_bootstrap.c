/* SPDX-License-Identifier: Apache-2.0 */
/* Runs before the replica is opened, on the loop's thread. While ordinal 0 waits to bootstrap a
 * cluster, its gRPC port is served by fleet/bootstrap.h alone, and the directory is locked. */
#include "muster/coordinator_bootstrap.h"

#include <inttypes.h>
#include <stdio.h>

#include "fleet/bootstrap.h"
#include "fleet/join.h"
#include "log/datadir.h"

enum { ANSWER_WITHIN_MS = 1000 /* the administrator who ordered the bootstrap gets an answer */ };

struct waiting {
    const struct coordinator_bootstrap_options *options;
    struct bootstrap *bootstrap;
    struct rpc_server *server;
    enum bootstrap_verdict verdict; /* BOOTSTRAP_WAIT: none yet */
};

static void on_done(void *owner, enum bootstrap_verdict verdict)
{
    ((struct waiting *)owner)->verdict = verdict;
}

static void on_waits(void *owner, const char *for_what)
{
    struct waiting *w = owner;
    char text[NOTE_CAP];

    snprintf(text, sizeof text, "waiting to bootstrap a cluster: %s", for_what);
    health_check_set(w->options->ready, false, text);
}

static enum err open_waiting(struct waiting *w, const char *dir, struct note *note)
{
    struct chassis *chassis = w->options->chassis;
    const struct conf *conf = chassis_conf(chassis);
    struct bootstrap_options options = {
        .io = chassis_io(chassis),
        .log = instruments_log(chassis_instruments(chassis)),
        .dir = dir,
        .addresses = w->options->join_addresses,
        .self = w->options->grpc_address,
        .name = conf_text(conf, "id"),
        .expect = (uint32_t)conf_number(conf, "bootstrap-expect"),
        .tls = w->options->grpc_client,
        .look_up = true,
        .done = on_done,
        .waits = on_waits,
        .owner = w,
    };
    struct rpc_server_options server = {.io = options.io, .log = options.log};
    enum err err = bootstrap_open(&options, &w->bootstrap, note);

    if (!err) err = rpc_server_open(&server, &w->server, note);
    if (!err) err = bootstrap_methods(w->bootstrap, w->server, note);
    if (err) return err;
    err = rpc_server_listen(w->server, conf_text(conf, "listen"), w->options->grpc_server, note);
    if (err) note_prefix(note, "listen");
    return err;
}

static void close_waiting(struct waiting *w)
{
    struct chassis *chassis = w->options->chassis;
    bool drained = false;

    CHASSIS_AWAIT(chassis, bootstrap_stop, w->bootstrap);
    if (w->server && rpc_server_stats(w->server).connections > 0) { /* answers may be unsent */
        rpc_server_drain(w->server, ANSWER_WITHIN_MS, chassis_set_true, &drained);
        while (!drained) chassis_turn(chassis);
    }
    CHASSIS_AWAIT(chassis, rpc_server_close, w->server);
    bootstrap_free(w->bootstrap);
}

/* -- making the directory -- */

static enum err format(const struct coordinator_bootstrap_options *options, const char *dir,
                       enum bootstrap_start start, const struct waiting *w, struct note *note)
{
    struct io *io = chassis_io(options->chassis);
    const struct log_source *log = instruments_log(chassis_instruments(options->chassis));
    struct datadir_format_options made = {.fs = io->fs, .entropy = io->entropy, .dir = dir};
    struct members founders = {.count = 1, .at = {{.role = MEMBER_VOTER}}};
    struct datadir datadir;
    char replica[17], cluster[17];
    enum err err;

    snprintf(founders.at[0].address, sizeof founders.at[0].address, "%s", options->raft_address);
    if (start == BOOTSTRAP_ALONE || w->verdict == BOOTSTRAP_NOW) made.founders = &founders;
    if (w->verdict == BOOTSTRAP_NOW) { /* what the others promised to */
        datadir = bootstrap_identity(w->bootstrap);
        made.replica_id = datadir.replica_id;
        made.cluster_id = datadir.cluster_id;
    }
    err = datadir_format(&made, &datadir, note);
    if (!err) err = datadir_mark_remove(io->fs, dir, DATADIR_BOOTSTRAP, note);
    if (err) return err;
    snprintf(replica, sizeof replica, "%016" PRIx64, datadir.replica_id);
    snprintf(cluster, sizeof cluster, "%016" PRIx64, datadir.cluster_id);
    if (made.founders)
        LOG_INFO(log, "bootstrapped a cluster", log_text("cluster", cluster),
                 log_text("replica", replica));
    else
        LOG_INFO(log, "made a data directory that joins a cluster", log_text("replica", replica));
    return ERR_OK;
}

/* Asks the others until there is a verdict; the directory is locked meanwhile. */
static enum err ask_others(struct waiting *w, const char *dir, struct note *note)
{
    struct chassis *chassis = w->options->chassis;
    struct fs *fs = chassis_io(chassis)->fs;
    struct fs_lock *lock;
    enum err err = fs_lock_dir(fs, dir, &lock, note);

    if (err) return err;
    err = open_waiting(w, dir, note);
    while (!err && w->verdict == BOOTSTRAP_WAIT) {
        if (chassis_stopping(chassis)) err = ERR_CANCELLED;
        if (!err) chassis_turn(chassis);
    }
    fs_unlock(fs, lock);
    return err;
}

static enum err make(const struct coordinator_bootstrap_options *options, const char *dir,
                     struct note *note)
{
    const struct conf *conf = chassis_conf(options->chassis);
    struct bootstrap_facts facts = {.allowed = conf_bool(conf, "bootstrap"),
                                    .has_join_address = options->join_addresses[0] != NULL};
    struct waiting w = {.options = options};
    enum bootstrap_start start;
    enum err err = ERR_OK;

    if (facts.has_join_address)
        err = join_ordinal(str_from(conf_text(conf, "id")), &facts.ordinal, note);
    if (err) return err;
    start = bootstrap_start(&facts);
    if (start == BOOTSTRAP_ASK) err = ask_others(&w, dir, note);
    if (w.verdict == BOOTSTRAP_JOIN) *options->ret_told_to_join = true;
    if (!err) err = format(options, dir, start, &w, note);
    *options->ret_alone = !err && start == BOOTSTRAP_ALONE;
    close_waiting(&w);
    return err;
}

static void warn_of_expect(const struct coordinator_bootstrap_options *options)
{
    const struct conf *conf = chassis_conf(options->chassis);

    if (!options->join_addresses[0] || conf_number(conf, "bootstrap-expect") != 1) return;
    LOG_WARN(instruments_log(chassis_instruments(options->chassis)),
             "bootstrap-expect is 1: over an empty data directory ordinal 0 bootstraps a cluster "
             "although other replicas are silent; set it to the number of replicas once all are "
             "started");
}

enum err coordinator_directory(const struct coordinator_bootstrap_options *options,
                               struct note *note)
{
    const char *dir = conf_text(chassis_conf(options->chassis), "data-dir");
    struct fs *fs = chassis_io(options->chassis)->fs;
    struct datadir known, refused;
    enum err err = datadir_read(fs, dir, &known, note);

    warn_of_expect(options);
    if (err == ERR_NOT_FOUND) return make(options, dir, note);
    if (err) return err;
    err = datadir_mark_read(fs, dir, DATADIR_CONFLICT, &refused, note);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err || refused.replica_id != known.replica_id || refused.cluster_id != known.cluster_id)
        return err; /* a tool has given the directory another identity since */
    note_set(note,
             "%s: belongs to cluster %016" PRIx64 ", but another cluster lists this replica "
             "(%s/" DATADIR_CONFLICT "). Move %s aside and start again to join the other cluster, "
             "or delete that file to serve this one",
             dir, known.cluster_id, dir, dir);
    return ERR_PRECONDITION;
}
