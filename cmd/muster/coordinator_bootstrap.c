/* SPDX-License-Identifier: Apache-2.0 */
/* Runs on the loop's thread before the replica is opened. While ordinal 0 waits to bootstrap a
 * cluster, only fleet/bootstrap.h serves its gRPC port, and the data directory is locked. */
#include <inttypes.h>
#include <stdio.h>

#include "fleet/bootstrap.h"
#include "fleet/join.h"
#include "log/datadir.h"
#include "muster/coordinator.h"

enum {
    ANSWER_WITHIN_MS = 1000 /* for the answer to the administrator */
};

struct waiting {
    struct coordinator *c;
    struct bootstrap *bootstrap;
    struct rpc_server *server;
    enum bootstrap_verdict verdict; /* BOOTSTRAP_WAIT: none yet */
};

static void bootstrap_on_verdict(void *owner, enum bootstrap_verdict verdict)
{
    ((struct waiting *)owner)->verdict = verdict;
}

static void bootstrap_on_waits(void *owner, const char *for_what)
{
    struct waiting *w = owner;
    char text[NOTE_CAP];

    snprintf(text, sizeof text, "waiting to bootstrap a cluster: %s", for_what);
    health_check_set(w->c->role.ready, false, text);
}

static enum err open_waiting(struct waiting *w, const char *dir, struct note *note)
{
    struct coordinator *c = w->c;
    const struct conf *conf = c->role.conf;
    struct bootstrap_options options = {
        .to = coordinator_join(c),
        .log = c->log,
        .dir = dir,
        .name = conf_text(conf, "id"),
        .expect = (uint32_t)conf_number(conf, "bootstrap-expect"),
        .done = bootstrap_on_verdict,
        .waits = bootstrap_on_waits,
        .owner = w,
    };
    struct rpc_server_options server = {.io = c->role.io, .log = options.log};
    enum err err = bootstrap_open(&options, &w->bootstrap, note);

    if (!err) err = rpc_server_open(&server, &w->server, note);
    if (!err) err = bootstrap_methods(w->bootstrap, w->server, note);
    if (err) return err;
    err = rpc_server_listen(w->server, conf_text(conf, "listen"), c->role.server_tls, note);
    if (err) note_prefix(note, "listen");
    return err;
}

static void close_waiting(struct waiting *w)
{
    struct chassis *chassis = w->c->role.chassis;
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

static enum err bootstrap_format(const struct waiting *w, const char *dir,
                                 enum bootstrap_start start, struct note *note)
{
    const struct log_source *log = w->c->log;
    struct io *io = w->c->role.io;
    struct datadir_format_options made = {.fs = io->fs, .entropy = io->entropy, .dir = dir};
    struct members founders = {.count = 1, .at = {{.role = MEMBER_VOTER}}};
    struct datadir datadir;
    char replica[17], cluster[17];
    enum err err;

    snprintf(founders.at[0].address, sizeof founders.at[0].address, "%s",
             coordinator_raft_address(w->c));
    if (start == BOOTSTRAP_ALONE || w->verdict == BOOTSTRAP_NOW) made.founders = &founders;
    if (w->verdict == BOOTSTRAP_NOW) { /* the other replicas made their promises to this identity */
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
        LOG_INFO(log, "created a data directory that joins a cluster",
                 log_text("replica", replica));
    return ERR_OK;
}

/* The directory stays locked until the verdict is known. */
static enum err ask_others(struct waiting *w, const char *dir, struct note *note)
{
    struct chassis *chassis = w->c->role.chassis;
    struct fs *fs = w->c->role.io->fs;
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

static enum err bootstrap_make(struct coordinator *c, const char *dir, struct note *note)
{
    const struct conf *conf = c->role.conf;
    struct bootstrap_facts facts = {.allowed = conf_bool(conf, "bootstrap"),
                                    .has_join_address = c->join_addresses[0] != NULL};
    struct waiting w = {.c = c};
    enum bootstrap_start start;
    enum err err = ERR_OK;

    if (facts.has_join_address)
        err = join_ordinal(str_from(conf_text(conf, "id")), &facts.ordinal, note);
    if (err) return err;
    start = bootstrap_start(&facts);
    if (start == BOOTSTRAP_ASK) err = ask_others(&w, dir, note);
    c->join_ordered = w.verdict == BOOTSTRAP_JOIN;
    if (!err) err = bootstrap_format(&w, dir, start, note);
    c->bootstrapped_alone = !err && start == BOOTSTRAP_ALONE;
    close_waiting(&w);
    return err;
}

static enum err judge_name(struct str line, void *context)
{
    const struct str *want = context;

    if (!str_starts(line, str_of(want->at, 16))) return ERR_NOT_FOUND; /* an earlier identity's */
    return str_equal(line, *want) ? ERR_OK : ERR_PRECONDITION;
}

/* The file NAME has the identity and the name under which the replica ran. Under another replica's
 * name, the leader would take this replica for its successor and remove the other replica. */
static enum err check_name(struct coordinator *c, const char *dir, uint64_t replica_id,
                           struct note *note)
{
    char path[FS_PATH_CAP], line[160];
    const char *name = conf_text(c->role.conf, "id");
    struct str want = {
        line, (size_t)snprintf(line, sizeof line, "%016" PRIx64 " %s\n", replica_id, name)};
    struct fs *fs = c->role.io->fs;
    struct fs_lock *lock;
    enum err err = fs_path(dir, "NAME", path, note);

    if (!err) err = fs_lock_dir(fs, dir, &lock, note);
    if (err) return err;
    err = fs_read_judged(fs, path, sizeof line, judge_name, &want);
    if (err == ERR_NOT_FOUND)
        err = fs_noted(fs_publish(fs, path, want, 0600, entropy_u64(c->role.io->entropy)), "write",
                       path, note);
    else if (err)
        note_set(note,
                 "%s: the directory is not that of --id %s; start the replica that the file names, "
                 "or delete the file to rename the replica",
                 path, name);
    fs_unlock(fs, lock);
    return err;
}

enum err coordinator_directory(struct coordinator *c, struct note *note)
{
    const char *dir = conf_text(c->role.conf, "data-dir");
    struct fs *fs = c->role.io->fs;
    struct datadir known, refused;
    enum err err = datadir_read(fs, dir, &known, note);

    if (c->join_addresses[0] && conf_number(c->role.conf, "bootstrap-expect") == 1)
        LOG_WARN(c->log, "bootstrap-expect is 1: if ordinal 0 loses its data directory while the "
                         "others are down, it bootstraps a second cluster");
    if (err == ERR_NOT_FOUND) {
        err = bootstrap_make(c, dir, note);
        if (!err) err = datadir_read(fs, dir, &known, note);
    }
    if (!err) err = check_name(c, dir, known.replica_id, note);
    if (err) return err;
    err = datadir_mark_read(fs, dir, DATADIR_CONFLICT, &refused, note);
    if (err == ERR_NOT_FOUND) return ERR_OK;
    if (err || refused.replica_id != known.replica_id || refused.cluster_id != known.cluster_id)
        return err; /* a tool has changed the identity meanwhile */
    return note_fail(
        note, ERR_PRECONDITION,
        "%s: belongs to cluster %016" PRIx64 ", but another cluster lists this replica "
        "(%s/" DATADIR_CONFLICT "). Move %s aside and start again to join the other cluster, "
        "or delete that file to serve this one",
        dir, known.cluster_id, dir, dir);
}
