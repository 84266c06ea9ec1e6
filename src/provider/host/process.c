/* SPDX-License-Identifier: Apache-2.0 */
/* The process backend: a unit is a machine that has, or had, a process. A timer checks all units.
 * Loop thread. */
#include "provider/host/process.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/map.h"
#include "io/environment.h"
#include "provider/host/hosted.h"
#include "provider/host/operation.h"
#include "text/ndjson.h"

enum {
    TICK_MS = 20,       /* interval while an operation runs */
    TICK_IDLE_MS = 200, /* interval while only processes run */
    STOP_WITHIN_MS = 5000,
    READY_WITHIN_MS = 5 * 60 * 1000,
    MACHINES_MAX = 1000 * 1000,
    UNIT_ID_MAX = 200, /* bytes; the id plus a suffix must be a file name */
    METADATA_MAX = 4 << 20,
    WIPE_FILES = 16, /* files open at a time while a directory is emptied */
};
static const char sleep_command[] = "exec sleep infinity";

enum role { HOST, NODE, ROLES };
static const char *const role_names[ROLES] = {"host", "node"};

struct unit { /* a machine that has, or had, a process */
    const char *id;
    struct hosted processes[ROLES];
    bool wanted[ROLES]; /* its end is a failure */
    bool clean[ROLES];  /* the process and all its descendants are gone */
    char how[ROLES][PROCESS_END_CAP];
    /* The operation under way: */
    bool busy, killed;
    struct operation_ticket ticket;
    enum operation_kind kind;
    mono_time until;
    struct note error;  /* not empty: the operation has failed */
    struct note broken; /* not empty: SEEN_FAILED must be reported */
};
struct local {
    struct backend backend;
    struct process_backend_options options;
    struct log_source log;
    char *directory;
    const char *commands[ROLES];
    char cgroup_root[FS_PATH_CAP];
    uint64_t salt; /* hash of the directory, because another provider may use the same ids */
    struct map units;
    struct timer tick;
    bool reports; /* sightings may be reported */
};

static struct local *local_of(struct backend *backend)
{
    return CONTAINER_OF(backend, struct local, backend);
}

static mono_time local_now(const struct local *l)
{
    return loop_now(l->options.io->loop);
}

/* -- directories of units -- */

static bool unit_id_fits(struct str id)
{
    if (id.len == 0 || id.len > UNIT_ID_MAX || id.at[0] == '.') return false;
    for (size_t i = 0; i < id.len; i++) {
        char c = id.at[i];
        bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || c == '.';
        if (!fine) return false;
    }
    return true;
}

static struct hosted_place unit_place(const struct local *l, const struct unit *unit,
                                      enum role role)
{
    struct hosted_place place = {.role = role_names[role]};

    /* local_open_directory() has checked the length */
    snprintf(place.directory, sizeof place.directory, "%.*s/%s", FS_PATH_CAP - 2 * UNIT_ID_MAX,
             l->directory, unit->id);
    if (l->cgroup_root[0])
        snprintf(place.cgroup, sizeof place.cgroup, "%.*s/muster-%08x-%s-%s",
                 FS_PATH_CAP - 2 * UNIT_ID_MAX, l->cgroup_root, (unsigned)(uint32_t)l->salt,
                 unit->id, role_names[role]);
    return place;
}

static void unit_path(const struct local *l, const struct unit *unit, const char *name,
                      char path[FS_PATH_CAP])
{
    snprintf(path, FS_PATH_CAP, "%.*s/%s/%.*s", FS_PATH_CAP - 2 * UNIT_ID_MAX, l->directory,
             unit->id, UNIT_ID_MAX / 2, name);
}

/* -- units -- */

static struct unit *unit_of(struct local *l, struct str id, struct note *note)
{
    struct unit *unit;
    char key[UNIT_ID_MAX + 1];

    if (!unit_id_fits(id)) {
        note_set(note, "the id is no name for a directory");
        return NULL;
    }
    snprintf(key, sizeof key, "%.*s", STR_ARG(id));
    unit = map_make(&l->units, str_of(key, id.len + 1), sizeof *unit);
    if (!unit) {
        note_set(note, "out of memory");
    } else if (!unit->id) {
        unit->id = (const char *)(unit + 1);
        for (enum role role = HOST; role < ROLES; role++) unit->processes[role] = hosted_none;
    }
    return unit;
}

static void unit_free(struct local *l, struct unit *unit)
{
    for (enum role role = HOST; role < ROLES; role++) hosted_let_go(&unit->processes[role]);
    (void)map_remove(&l->units, str_of(unit->id, strlen(unit->id) + 1));
    free(unit);
}

/* -- starting processes -- */

static void unit_put_environment(const struct local *l, const struct unit *unit, enum role role,
                                 const struct backend_machine *machine, struct environment *env)
{
    struct hosted_place place = unit_place(l, unit, role);
    char path[FS_PATH_CAP];

    environment_put(env, "MUSTER_MACHINE_ID", machine->id);
    environment_put(env, "MUSTER_MACHINE_DIR", str_from(place.directory));
    environment_put(env, "MUSTER_MACHINE_TYPE", machine->offer->instance_type);
    environment_put(env, "MUSTER_ZONE", machine->offer->zone);
    if (role == HOST) return;
    environment_put(env, "MUSTER_CLUSTER", machine->cluster);
    unit_path(l, unit, "blob", path);
    environment_put(env, "MUSTER_BLOB_FILE", str_from(path));
    unit_path(l, unit, "metadata.json", path);
    environment_put(env, "MUSTER_METADATA_FILE", str_from(path));
}

/* An earlier provider may have started the process already. */
static void unit_start_process(struct local *l, struct unit *unit, enum role role,
                               const struct backend_machine *machine)
{
    struct hosted_place place = unit_place(l, unit, role);
    struct environment env;
    enum err err;

    unit->wanted[role] = true;
    if (hosted_runs(&unit->processes[role])) return;
    hosted_let_go(&unit->processes[role]);
    unit->clean[role] = false;
    environment_init(&env, "MUSTER_");
    unit_put_environment(l, unit, role, machine, &env);
    err = env.err;
    if (!err)
        err = hosted_start(l->options.io, &place, l->commands[role], env.all,
                           &unit->processes[role], &unit->error);
    environment_deinit(&env);
    if (!err) return;
    unit->wanted[role] = false;
    if (!unit->error.text[0]) note_set(&unit->error, "%s", err_text(err));
}

/* -- operations -- */

static void unit_begin_create(struct local *l, struct unit *unit,
                              const struct backend_operation *operation)
{
    struct hosted_place place = unit_place(l, unit, HOST);
    enum err err = fs_make_dirs(l->options.io->fs, place.directory, 0700);

    if (err && err != ERR_UNKNOWN)
        note_set(&unit->error, "%s: %s", place.directory, err_text(err));
    else
        unit_start_process(l, unit, HOST, &operation->machine);
}

static enum err unit_write_file(struct local *l, const struct unit *unit, const char *name,
                                struct str content)
{
    char path[FS_PATH_CAP];

    unit_path(l, unit, name, path);
    return fs_publish(l->options.io->fs, path, content, 0600, entropy_u64(l->options.io->entropy));
}

static enum err unit_write_metadata(struct local *l, const struct unit *unit,
                                    const struct backend_operation *operation)
{
    struct ndjson json;
    struct buf text;
    enum err err;

    buf_init(&text, METADATA_MAX);
    ndjson_begin(&json, &text, NDJSON_LINE);
    for (size_t i = 0; i < operation->metadata_count; i++)
        ndjson_string(&json, operation->metadata[i].key, operation->metadata[i].value);
    err = ndjson_end(&json);
    if (!err) err = unit_write_file(l, unit, "metadata.json", buf_peek(&text));
    buf_deinit(&text);
    return err;
}

static void unit_remove_file(struct local *l, const struct unit *unit, const char *name)
{
    char path[FS_PATH_CAP];

    if (!name) return;
    unit_path(l, unit, name, path);
    (void)fs_remove(l->options.io->fs, path);
}

static void unit_begin_configure(struct local *l, struct unit *unit,
                                 const struct backend_operation *operation)
{
    enum err err;

    if (!hosted_runs(&unit->processes[HOST])) {
        note_set(&unit->error, "its host does not run");
        return;
    }
    if (!hosted_runs(&unit->processes[NODE])) unit_remove_file(l, unit, l->options.ready_file);
    err = unit_write_file(l, unit, "blob", operation->blob);
    if (!err) err = unit_write_metadata(l, unit, operation);
    if (err && err != ERR_UNKNOWN)
        note_set(&unit->error, "its directory: %s", err_text(err));
    else
        unit_start_process(l, unit, NODE, &operation->machine);
    unit->until = mono_after(local_now(l), l->options.ready_within_ms);
}

static void unit_signal(struct unit *unit, enum role role, int signal)
{
    unit->wanted[role] = false;
    hosted_signal(&unit->processes[role], signal);
}

static void unit_begin(struct local *l, struct unit *unit,
                       const struct backend_operation *operation)
{
    unit->busy = true;
    unit->killed = false;
    unit->ticket = operation->ticket;
    unit->kind = operation->kind;
    unit->error.text[0] = unit->broken.text[0] = '\0';
    switch (operation->kind) {
    case OPERATION_CREATE: unit_begin_create(l, unit, operation); break;
    case OPERATION_CONFIGURE: unit_begin_configure(l, unit, operation); break;
    case OPERATION_DRAIN:
        unit_signal(unit, NODE, SIGTERM);
        unit->until = mono_after(local_now(l), operation->grace_ms);
        break;
    case OPERATION_DELETE:
        unit_signal(unit, NODE, SIGKILL);
        unit_signal(unit, HOST, SIGTERM);
        unit->until = mono_after(local_now(l), STOP_WITHIN_MS);
        break;
    case OPERATION_KINDS: assert(!"no operation");
    }
}

static enum err local_start(struct backend *backend, const struct backend_operation *operation,
                            struct note *note)
{
    struct local *l = local_of(backend);
    struct unit *unit = unit_of(l, operation->machine.id, note);

    if (!unit) return ERR_INVALID;
    unit_begin(l, unit, operation);
    timer_start_in(&l->tick, 0); /* a timer, because done() must not be called inside start() */
    return ERR_OK;
}

/* -- progress of operations -- */

static void unit_report_done(struct local *l, struct unit *unit)
{
    struct backend_host *host = l->backend.host;
    struct operation_end end = {0};
    char name[64];

    unit->busy = false;
    if (unit->error.text[0]) {
        note_prefix(&unit->error, "%s", operation_kind_name(unit->kind));
        end = (struct operation_end){.failed = true, .error = str_from(unit->error.text)};
        for (enum role role = HOST; role < ROLES; role++) unit_signal(unit, role, SIGKILL);
    } else if (unit->kind == OPERATION_CREATE) {
        snprintf(name, sizeof name, "pid-%d", unit->processes[HOST].pid);
        end.host = str_from(name);
    }
    host->done(host, unit->ticket, &end);
}

static int unit_wipe_one(const char *path, const struct stat *, int, struct FTW *)
{
    return remove(path);
}

/* A failure is only logged, because nothing depends on the directory. */
static void unit_wipe(struct local *l, const struct unit *unit)
{
    struct hosted_place place = unit_place(l, unit, HOST);

    if (nftw(place.directory, unit_wipe_one, WIPE_FILES, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0 ||
        access(place.directory, F_OK))
        return;
    LOG_WARN(&l->log, "directory of a machine could not be removed",
             log_text("path", place.directory));
}

static bool unit_is_ready(struct local *l, struct unit *unit)
{
    struct fs_info info;
    char path[FS_PATH_CAP];

    if (!l->options.ready_file) return true;
    unit_path(l, unit, l->options.ready_file, path);
    return fs_stat(l->options.io->fs, path, &info) == ERR_OK;
}

static bool unit_role_gone(struct local *l, struct unit *unit, enum role role)
{
    struct hosted_place place = unit_place(l, unit, role);

    if (!unit->clean[role])
        unit->clean[role] =
            hosted_gone(l->options.io, &place, &unit->processes[role], unit->how[role]);
    return unit->clean[role];
}

static void unit_kill_late(struct local *l, struct unit *unit, enum role role)
{
    if (unit->killed || !mono_due(unit->until, local_now(l))) return;
    unit->killed = true;
    hosted_signal(&unit->processes[role], SIGKILL);
}

static bool unit_is_over(struct local *l, struct unit *unit)
{
    if (unit->error.text[0]) return true;
    switch (unit->kind) {
    case OPERATION_CREATE: return true;
    case OPERATION_CONFIGURE:
        if (unit_is_ready(l, unit)) return true;
        if (!mono_due(unit->until, local_now(l))) return false;
        note_set(&unit->error, "the node did not say that it is ready (%s)", l->options.ready_file);
        unit_signal(unit, NODE, SIGKILL);
        return true;
    case OPERATION_DRAIN:
        unit_kill_late(l, unit, NODE);
        if (!unit_role_gone(l, unit, NODE)) return false;
        unit_remove_file(l, unit, "blob");
        unit_remove_file(l, unit, "metadata.json");
        unit_remove_file(l, unit, l->options.ready_file);
        return true;
    case OPERATION_DELETE:
        unit_kill_late(l, unit, HOST);
        if (!unit_role_gone(l, unit, NODE) || !unit_role_gone(l, unit, HOST)) return false;
        unit_wipe(l, unit);
        return true;
    case OPERATION_KINDS: break;
    }
    return true;
}

static void unit_check(struct local *l, struct unit *unit)
{
    for (enum role role = HOST; role < ROLES; role++) {
        if (!unit->wanted[role]) {
            if (!unit->busy) (void)unit_role_gone(l, unit, role);
            continue;
        }
        int pid = unit->processes[role].pid;
        if (hosted_runs(&unit->processes[role])) continue;
        unit->wanted[role] = false;
        (void)unit_role_gone(l, unit, role);
        note_set(&unit->broken, "the process of its %s (%d) ended: %s", role_names[role], pid,
                 unit->how[role]);
    }
}

static void unit_report_broken(struct local *l, struct unit *unit)
{
    struct backend_host *host = l->backend.host;
    struct note note = {""};

    unit->busy = false;
    for (enum role role = HOST; role < ROLES; role++) unit_signal(unit, role, SIGKILL);
    (void)host->seen(host, SEEN_FAILED, str_from(unit->id), NULL, str_from(unit->broken.text),
                     &note);
    unit->broken.text[0] = '\0';
}

static void on_tick(struct timer *timer)
{
    struct local *l = CONTAINER_OF(timer, struct local, tick);
    struct map_entry *at;
    size_t cursor = 0;
    bool busy = false;

    while ((at = map_next(&l->units, &cursor)) != NULL) {
        struct unit *unit = at->value;
        unit_check(l, unit);
        if (unit->broken.text[0] && l->reports) unit_report_broken(l, unit);
        if (unit->busy && unit_is_over(l, unit)) unit_report_done(l, unit);
        busy |= unit->busy;
        if (!unit->busy && !unit->broken.text[0] && !unit->wanted[HOST] && !unit->wanted[NODE] &&
            unit->clean[HOST] && unit->clean[NODE])
            unit_free(l, unit);
    }
    if (busy)
        timer_start_in(&l->tick, TICK_MS);
    else if (map_count(&l->units) > 0)
        timer_start_in(&l->tick, TICK_IDLE_MS);
}

/* -- adopting processes of an earlier provider -- */

static void local_adopt(struct backend *backend, const struct backend_machine *machine)
{
    struct local *l = local_of(backend);
    struct note note = {""};
    struct unit *unit = unit_of(l, machine->id, &note);
    bool host = machine->state == MACHINE_IDLE || machine->state == MACHINE_CONFIGURING ||
                machine->state == MACHINE_CONFIGURED || machine->state == MACHINE_DRAINING;

    if (!unit) {
        LOG_WARN(&l->log, "machine not taken over after the restart: its process is unknown",
                 log_str("machine", machine->id), log_text("why", note.text));
        return;
    }
    unit->wanted[HOST] = host;
    unit->wanted[NODE] = machine->state == MACHINE_CONFIGURED;
    for (enum role role = HOST; role < ROLES; role++) {
        struct hosted_place place = unit_place(l, unit, role);
        if (hosted_find(l->options.io, &place, &unit->processes[role]) == ERR_OK) continue;
        if (!unit->wanted[role]) continue;
        unit->wanted[role] = false;
        note_set(&unit->broken, "the process of its %s is gone: it ended while no provider ran",
                 role_names[role]);
    }
    if (operation_passing(machine->state) != OPERATION_KINDS)
        return; /* the host starts the operation again */
    for (enum role role = HOST; role < ROLES; role++)
        if (!unit->wanted[role]) unit_signal(unit, role, SIGKILL);
}

static void local_ready(struct backend *backend)
{
    struct local *l = local_of(backend);
    struct backend_host *host = l->backend.host;

    l->reports = true;
    for (uint32_t i = 1; i <= l->options.machines; i++) {
        struct note note = {""};
        char id[32];
        snprintf(id, sizeof id, "local-%" PRIu32, i);
        if (host->seen(host, SEEN_OFFERED, str_from(id), &l->options.offer, STR_EMPTY, &note))
            LOG_WARN(&l->log, "machine could not be offered", log_text("machine", id),
                     log_text("why", note.text));
    }
    timer_start_in(&l->tick, 0);
}

/* -- open and close -- */

static void local_close(struct backend *backend)
{
    struct local *l = local_of(backend);
    struct map_entry *at;

    timer_deinit(&l->tick);
    for (size_t cursor = 0; (at = map_next(&l->units, &cursor)) != NULL;) unit_free(l, at->value);
    map_deinit(&l->units);
    free(l->directory);
    free(l);
}

static const struct backend_ops process_ops = {
    .name = "process",
    .keeps_blobs = true,
    .start = local_start,
    .adopt = local_adopt,
    .ready = local_ready,
    .close = local_close,
};

/* Stores the absolute path, because the processes run in other directories. */
static enum err local_open_directory(struct local *l, const char *directory, struct note *note)
{
    enum err err = fs_make_dirs(l->options.io->fs, directory, 0700);

    if (err && err != ERR_UNKNOWN) return note_fail(note, err, "%s: %s", directory, err_text(err));
    l->directory = realpath(directory, NULL);
    if (!l->directory || strlen(l->directory) > FS_PATH_CAP - 3 * UNIT_ID_MAX)
        return note_fail(note, ERR_INVALID, "%s: too long a path", directory);
    l->salt = str_hash(str_from(l->directory), 0);
    return ERR_OK;
}

enum err process_backend_open(const struct process_backend_options *options,
                              struct backend **ret_backend, struct note *note)
{
    struct process_name self;
    struct local *l;
    enum err err;

    if (!options->directory || !options->directory[0])
        return note_fail(note, ERR_INVALID, "the process backend needs a directory");
    err = process_name_of((int)getpid(), &self);
    if (err) return note_fail(note, ERR_UNSUPPORTED, "the process backend needs /proc");
    l = calloc(1, sizeof *l);
    if (!l) return ERR_NOMEM;
    l->backend.ops = &process_ops;
    l->options = *options;
    if (options->log) l->log = *options->log;
    l->commands[HOST] = options->host_command ? options->host_command : sleep_command;
    l->commands[NODE] = options->node_command ? options->node_command : sleep_command;
    if (!l->options.ready_within_ms) l->options.ready_within_ms = READY_WITHIN_MS;
    map_init(&l->units, MACHINES_MAX, entropy_u64(options->io->entropy));
    err = timer_init(&l->tick, options->io->loop, on_tick);
    if (!err) err = local_open_directory(l, options->directory, note);
    if (err) {
        local_close(&l->backend);
        return err;
    }
    if (options->cgroups) hosted_cgroup_root(l->cgroup_root);
    LOG_INFO(&l->log, "machines of this provider are local processes",
             log_text("directory", l->directory),
             log_text("cgroup", l->cgroup_root[0] ? l->cgroup_root : "none"));
    *ret_backend = &l->backend;
    return ERR_OK;
}
