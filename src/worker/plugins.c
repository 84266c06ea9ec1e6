/* SPDX-License-Identifier: Apache-2.0 */
/* Loads plugins by their manifests, watches their files, and reloads plugins between jobs. Runs on
 * the event loop's thread, except plugins_call. */
#include "worker/plugins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/fs.h"
#include "member/config/manifest.h"
#include "worker/cdylib.h"
#include "worker/database.h"
#include "worker/sidecar.h"
#include "worker/sidecar_call.h"

enum {
    LOOK_MS = 100,
    FILES_MAX = SIDECAR_WORDS_MAX + 2,
    MANIFEST_JSON_MAX = 4 * MANIFEST_FILE_MAX,
};
#define SOCKET_TEMPLATE "./data/sidecars/{name}-{pid}.sock"

struct watched_file {
    const char *path;
    struct fs_info seen;
};
struct plugin {
    struct plugins *set;
    char *path;
    char library_path[FS_PATH_CAP];
    struct manifest *manifest;
    const struct manifest_facts *facts;
    const struct muster_plugin *library; /* NULL if the plugin is a process */
    struct sidecar *sidecar;             /* NULL if the plugin is a shared object */
    struct sidecar_line line;
    struct watched_file files[FILES_MAX];
    size_t file_count;
    mono_time changed; /* time of the last file change; MONO_NEVER: nothing to reload */
    bool waits;        /* a reload is due when the running job ends */
};
struct plugins {
    struct plugins_options options;
    struct plugin each[PLUGINS_MAX];
    size_t count, closing;
    struct timer look;
    bool busy, halted, closed;
    void (*done)(void *owner);
    void *done_owner;
};

/* -- paths -- */

/* Puts the plugin's name and this process's id into the socket's path. */
static enum err socket_path(const struct plugin *p, char **ret_path)
{
    const struct str name = p->facts->socket_template;
    struct str text = name.len ? name : STR(SOCKET_TEMPLATE);
    struct buf path;
    enum err err = ERR_OK;

    buf_init(&path, FS_PATH_CAP);
    for (size_t len; !err && text.len; text = str_tail(text, len)) {
        len = 1;
        if (str_starts(text, STR("{name}"))) {
            len = sizeof "{name}" - 1;
            err = buf_append(&path, p->facts->name);
        } else if (str_starts(text, STR("{pid}"))) {
            len = sizeof "{pid}" - 1;
            err = buf_appendf(&path, "%d", (int)getpid());
        } else {
            err = buf_append_byte(&path, text.at[0]);
        }
    }
    if (!err) err = buf_detach(&path, ret_path);
    buf_deinit(&path);
    return err;
}

/* A relative path is relative to the manifest's directory. */
static void plugin_name_library(struct plugin *p)
{
    const char *slash = strrchr(p->path, '/'), *library = p->facts->library.at;

    if (library[0] == '/')
        snprintf(p->library_path, FS_PATH_CAP, "%s", library);
    else
        snprintf(p->library_path, FS_PATH_CAP, "%.*s/%s", slash ? (int)(slash - p->path) : 1,
                 slash ? p->path : ".", library);
}

/* -- loading -- */

static enum err plugin_read_manifest(struct plugin *p, struct note *note)
{
    struct fs *fs = p->set->options.io->fs;
    struct fs_info info = {.kind = FS_REGULAR};
    struct buf text;
    enum err err = fs_stat(fs, p->path, &info);

    if (!err && info.kind != FS_REGULAR)
        return note_fail(note, ERR_INVALID, "%s, not a manifest",
                         info.kind == FS_DIRECTORY ? "this is a directory"
                                                   : "this is no regular file");
    buf_init(&text, MANIFEST_FILE_MAX + 1);
    if (!err) err = fs_read_whole(fs, p->path, MANIFEST_FILE_MAX, &text);
    if (err) note_set(note, "%s", err_text(err));
    if (!err) err = manifest_open(buf_peek(&text), &p->manifest, note);
    buf_deinit(&text);
    if (!err) p->facts = manifest_facts(p->manifest);
    return err;
}

static enum err plugin_keep_manifest(struct plugin *p, struct note *note)
{
    const struct plugins_options *options = &p->set->options;
    struct buf json;
    enum err err;

    buf_init(&json, MANIFEST_JSON_MAX);
    err = manifest_json(p->manifest, &json);
    if (!err)
        err = worker_db_keep_plugin(options->io->fs, options->storage_path,
                                    entropy_u64(options->io->entropy), p->facts->name,
                                    buf_peek(&json), note);
    buf_deinit(&json);
    return err;
}

static void sidecar_changed(void *owner)
{
    struct plugin *p = owner;

    LOG_INFO(p->set->options.log, "sidecar of a plugin became ready or ended",
             log_text("plugin", p->facts->name.at), log_bool("ready", sidecar_ready(p->sidecar)),
             log_i64("pid", sidecar_pid(p->sidecar)));
    p->set->options.on_change(p->set->options.owner);
}

static void sidecar_failed(void *owner, enum err err, const struct note *note)
{
    struct plugin *p = owner;
    struct note whole = *note;

    note_prefix(&whole, "%s", p->path);
    p->set->options.on_failed(p->set->options.owner, err, &whole);
}

static enum err start_sidecar(struct plugin *p, struct note *note)
{
    const struct plugins_options *set = &p->set->options;
    struct sidecar_options options = {.io = set->io,
                                      .log = set->log,
                                      .name = p->facts->name.at,
                                      .command = p->facts->command,
                                      .bind_ms = set->bind_ms,
                                      .on_change = sidecar_changed,
                                      .on_failed = sidecar_failed,
                                      .owner = p};
    char *path = NULL;
    enum err err;

    if (p->facts->protocol != MANIFEST_FRAMED_JSON_UDS)
        return note_fail(note, ERR_UNSUPPORTED,
                         "protocol grpc-uds is not spoken by this worker; use framed-json-uds");
    err = socket_path(p, &path);
    if (!err) err = fs_make_parent(set->io->fs, path, 0755, note);
    options.socket_path = path;
    if (!err) err = sidecar_open(&options, &p->sidecar, note);
    if (!err) sidecar_line_init(&p->line, path);
    free(path);
    return err;
}

static enum err plugin_start(struct plugin *p, struct note *note)
{
    switch (p->facts->mode) {
    case MANIFEST_SIDECAR: return start_sidecar(p, note);
    case MANIFEST_CDYLIB:
        plugin_name_library(p);
        return cdylib_load(p->library_path, p->facts->symbol.at, &p->library, note);
    case MANIFEST_PYO3: break;
    }
    return note_fail(note, ERR_UNSUPPORTED,
                     "mode pyo3 needs Python inside the worker, and this worker has none: run the "
                     "plugin as a process, mode = \"sidecar\"");
}

/* -- watching -- */

static struct fs_info file_look(struct fs *fs, const char *path)
{
    struct fs_info info;

    return fs_stat(fs, path, &info) ? (struct fs_info){0} : info;
}

static void plugin_watch(struct plugin *p, const char *path)
{
    if (p->file_count == FILES_MAX) return;
    p->files[p->file_count++] =
        (struct watched_file){path, file_look(p->set->options.io->fs, path)};
}

static void plugin_watch_files(struct plugin *p)
{
    struct fs *fs = p->set->options.io->fs;
    struct fs_info info;

    plugin_watch(p, p->path);
    if (p->library) plugin_watch(p, p->library_path);
    for (size_t i = 0; p->sidecar && i < p->facts->command_count; i++)
        if (strchr(p->facts->command[i], '/') && !fs_stat(fs, p->facts->command[i], &info) &&
            info.kind == FS_REGULAR)
            plugin_watch(p, p->facts->command[i]);
}

static void plugin_reload_now(struct plugin *p)
{
    const struct log_source *log = p->set->options.log;

    if (p->library) {
        LOG_ERROR(log, "plugin not reloaded: a loaded cdylib cannot be replaced",
                  log_text("plugin", p->facts->name.at));
        return;
    }
    LOG_INFO(log, "plugin reloaded", log_text("plugin", p->facts->name.at));
    sidecar_reload(p->sidecar);
}

static void plugin_reload(struct plugin *p)
{
    p->changed = MONO_NEVER;
    if (p->set->busy && p->sidecar)
        p->waits = true;
    else
        plugin_reload_now(p);
}

static void look_at_plugin(struct plugin *p, mono_time now)
{
    for (size_t i = 0; i < p->file_count; i++) {
        struct fs_info now_seen = file_look(p->set->options.io->fs, p->files[i].path);
        if (fs_same(&now_seen, &p->files[i].seen)) continue;
        p->files[i].seen = now_seen;
        p->changed = now; /* reload when the files have not changed for a while */
    }
    if (p->changed.ms != MONO_NEVER.ms && mono_elapsed_ms(p->changed, now) >= PLUGINS_QUIET_MS)
        plugin_reload(p);
}

static void plugins_on_look(struct timer *timer)
{
    struct plugins *set = CONTAINER_OF(timer, struct plugins, look);

    for (size_t i = 0; i < set->count; i++)
        look_at_plugin(&set->each[i], loop_now(set->options.io->loop));
    timer_start_in(&set->look, LOOK_MS);
}

/* -- open and close -- */

static enum err plugin_load(struct plugins *set, const char *path, struct note *note)
{
    struct plugin *p = &set->each[set->count];
    enum err err;

    if (set->count == PLUGINS_MAX)
        return note_fail(note, ERR_INVALID, "more than %d plugins", PLUGINS_MAX);
    *p = (struct plugin){.set = set, .changed = MONO_NEVER, .line = {.fd = -1}};
    p->path = str_dup(str_from(path));
    if (!p->path) return ERR_NOMEM;
    set->count++;
    err = plugin_read_manifest(p, note);
    if (!err) err = plugin_start(p, note);
    if (!err) err = plugin_keep_manifest(p, note);
    if (!err && set->options.hot_reload) plugin_watch_files(p);
    if (!err)
        LOG_INFO(set->options.log, "plugin loaded", log_text("plugin", p->facts->name.at),
                 log_text("version", p->facts->version.at), log_text("manifest", path));
    if (err) note_prefix(note, "%s", path);
    return err && err != ERR_NOMEM ? ERR_INVALID : err;
}

enum err plugins_open(const struct plugins_options *options, struct plugins **ret_plugins,
                      struct note *note)
{
    struct plugins *set = calloc(1, sizeof *set);
    enum err err;

    if (!set) return ERR_NOMEM;
    *ret_plugins = set;
    set->options = *options;
    err = timer_init(&set->look, options->io->loop, plugins_on_look);
    for (size_t i = 0; !err && options->manifests[i]; i++)
        err = plugin_load(set, options->manifests[i], note);
    if (!err && options->hot_reload && set->count) timer_start_in(&set->look, LOOK_MS);
    return err;
}

bool plugins_ready(const struct plugins *set)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->each[i].waits || (set->each[i].sidecar && !sidecar_ready(set->each[i].sidecar)))
            return false;
    return true;
}

void plugins_busy(struct plugins *set, bool busy)
{
    set->busy = busy;
    for (size_t i = 0; !busy && i < set->count; i++) {
        if (!set->each[i].waits) continue;
        set->each[i].waits = false;
        plugin_reload_now(&set->each[i]);
    }
}

void plugins_reload(struct plugins *set)
{
    for (size_t i = 0; i < set->count; i++) plugin_reload(&set->each[i]);
}

void plugins_halt(struct plugins *set)
{
    set->halted = true;
    for (size_t i = 0; i < set->count; i++)
        if (set->each[i].sidecar) sidecar_halt(set->each[i].sidecar);
}

void plugins_resume(struct plugins *set)
{
    if (!set->halted) return;
    set->halted = false;
    for (size_t i = 0; i < set->count; i++)
        if (set->each[i].sidecar) sidecar_resume(set->each[i].sidecar);
}

static void plugins_free(struct plugins *set)
{
    void (*done)(void *) = set->done;
    void *owner = set->done_owner;

    for (size_t i = 0; i < set->count; i++) {
        struct plugin *p = &set->each[i];
        if (p->line.path[0]) sidecar_line_deinit(&p->line);
        manifest_close(p->manifest);
        free(p->path);
    }
    timer_deinit(&set->look);
    free(set);
    if (done) done(owner);
}

static void plugins_one_closed(void *owner)
{
    struct plugins *set = owner;

    if (--set->closing == 0) plugins_free(set);
}

void plugins_close(struct plugins *set, void (*done)(void *owner), void *owner)
{
    if (!set) {
        if (done) done(owner);
        return;
    }
    set->done = done;
    set->done_owner = owner;
    timer_stop(&set->look);
    set->closing = set->count + 1; /* 1 more, so that the set is not freed during this loop */
    for (size_t i = 0, count = set->count; i < count; i++) {
        struct sidecar *sidecar = set->each[i].sidecar;
        set->each[i].sidecar = NULL;
        sidecar_close(sidecar, plugins_one_closed, set);
    }
    plugins_one_closed(set);
}

/* -- called on the processing thread -- */

enum err plugins_call(struct plugins *set, struct str method, struct str payload,
                      struct buf *answer, struct note *note)
{
    struct plugin *p = &set->each[0];
    struct buf reply;
    enum err err;

    assert(set->count > 0);
    if (p->library) return cdylib_call(p->library, method, payload, answer, note);
    buf_init(&reply, SIDECAR_FRAME_MAX);
    err = sidecar_call(&p->line, method, payload, SIDECAR_CALL_MS, &reply, note);
    if (!err) err = sidecar_reply_payload(buf_peek(&reply), answer, note);
    buf_deinit(&reply);
    return err;
}
