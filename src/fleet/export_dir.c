/* SPDX-License-Identifier: Apache-2.0 */
/* Writes, names and prunes the directories of exports, in the order of steps that export_dir.h
 * describes. Runs on the export loop's worker thread. */
#include "fleet/export_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/rfc3339.h"

enum {
    DIR_MODE = 0755,
    EXPORT_DIR_FILE_MODE = 0644,
    STAMP_LEN = 15,      /* YYYYMMDD-HHMMSS */
    SYNC_BYTES = 8 << 20 /* one long sync would delay the Raft log's syncs */
};

struct export_file {
    struct fs *fs;
    struct fs_file *state;
    struct fleet_meta meta;
    char dir[FS_PATH_CAP], temp[FS_PATH_CAP];
    char name[EXPORT_NAME_CAP];
    uint64_t unsynced;
};

/* Every path fits: export_loop_open refuses a longer directory. */
static void export_path_of(const char *dir, const char *name, char path[FS_PATH_CAP])
{
    int len = snprintf(path, FS_PATH_CAP, "%s/%s", dir, name);

    assert(len > 0 && len < FS_PATH_CAP);
}

static enum err export_note(struct note *note, enum err err, const char *what, const char *path)
{
    if (err) note_set(note, "%s %s: %s", what, path, err_text(err));
    return err;
}

static void export_temp_of(const char *name, char temp[EXPORT_NAME_CAP + 8])
{
    snprintf(temp, EXPORT_NAME_CAP + 8, ".%s.tmp", name);
}

/* -- existing exports -- */

/* Other files in the directory are not removed. */
static bool is_export(const char *name)
{
    for (size_t i = 0; i < STAMP_LEN; i++)
        if (i == 8 ? name[i] != '-' : name[i] < '0' || name[i] > '9') return false;
    return name[STAMP_LEN] == '-' && strlen(name) < FS_NAME_MAX - 4;
}

static bool is_temporary(const char *name)
{
    return name[0] == '.' && is_export(name + 1) && str_ends(str_from(name), STR(".tmp"));
}

struct look {
    const char *newest; /* never chosen as `oldest`; may be NULL */
    bool (*wanted)(const char *name);
    size_t count;
    char oldest[EXPORT_NAME_CAP]; /* the smallest name; empty: none */
};

static void export_look_at(void *context, const char *name, enum fs_kind kind)
{
    struct look *look = context;

    if (kind != FS_DIRECTORY || !look->wanted(name)) return;
    look->count++;
    if (look->newest && strcmp(name, look->newest) == 0) return;
    if (!look->oldest[0] || strcmp(name, look->oldest) < 0)
        snprintf(look->oldest, sizeof look->oldest, "%s", name);
}

/* A missing file is no error. */
static enum err remove_dir(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    static const char *const files[] = {"meta.json", "state"};
    char path[FS_PATH_CAP], file[FS_PATH_CAP];
    enum err err = ERR_OK;

    export_path_of(dir, name, path);
    for (size_t i = 0; !err && i < ARRAY_LEN(files); i++) {
        export_path_of(path, files[i], file);
        err = fs_remove(fs, file);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
        export_note(note, err, "remove", file);
    }
    return err ? err : export_note(note, fs_remove(fs, path), "remove", path);
}

enum err export_dir_open(struct fs *fs, const char *dir, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err = export_note(note, fs_make_dirs(fs, dir, DIR_MODE), "make", dir);

    if (err) return err;
    export_path_of(dir, "latest.tmp", path);
    err = fs_remove(fs, path);
    if (err && err != ERR_NOT_FOUND) return export_note(note, err, "remove", path);
    for (;;) {
        struct look look = {.wanted = is_temporary};

        err = export_note(note, fs_list(fs, dir, export_look_at, &look), "list", dir);
        if (err || !look.count) return err;
        err = remove_dir(fs, dir, look.oldest, note);
        if (err) return err;
    }
}

/* -- one export -- */

static void export_name_of(const struct fleet_meta *meta, wall_time now, char name[EXPORT_NAME_CAP])
{
    char when[RFC3339_CAP]; /* 2026-11-15T10:54:18.123Z */
    char id[FLEET_META_TEXT_MAX + 1];

    wall_text(now, when);
    fleet_meta_id(meta, id);
    snprintf(name, EXPORT_NAME_CAP, "%.4s%.2s%.2s-%.2s%.2s%.2s-%s", when, when + 5, when + 8,
             when + 11, when + 14, when + 17, id);
}

static enum err file_make(struct export_file *file, const char *name, struct fs_file **ret_file,
                          struct note *note)
{
    char path[FS_PATH_CAP];

    export_path_of(file->temp, name, path);
    return export_note(note,
                       fs_open(file->fs, path, FS_WRITE | FS_CREATE | FS_EXCLUSIVE,
                               EXPORT_DIR_FILE_MODE, ret_file),
                       "make", path);
}

enum err export_create(struct fs *fs, const char *dir, const struct fleet_meta *meta, wall_time now,
                       struct export_file **ret_file, struct note *note)
{
    char temp[EXPORT_NAME_CAP + 8];
    struct export_file *file = calloc(1, sizeof *file);
    enum err err;

    if (!file) return export_note(note, ERR_NOMEM, "export to", dir);
    file->fs = fs;
    file->meta = *meta;
    file->meta.size = 0;
    export_name_of(meta, now, file->name);
    export_temp_of(file->name, temp);
    export_path_of(dir, temp, file->temp);
    memcpy(file->dir, dir, strlen(dir) + 1);
    err = export_note(note, fs_make_dir(fs, file->temp, DIR_MODE), "make", file->temp);
    if (err) {
        free(file);
        return err;
    }
    err = file_make(file, "state", &file->state, note);
    if (err)
        export_abandon(file);
    else
        *ret_file = file;
    return err;
}

enum err export_write(struct export_file *file, struct str state, struct note *note)
{
    enum err err = fs_write_at(file->fs, file->state, file->meta.size, state);

    if (err) return export_note(note, err, "write state in", file->temp);
    file->meta.size += state.len;
    file->unsynced += state.len;
    if (file->unsynced < SYNC_BYTES) return ERR_OK;
    file->unsynced = 0;
    return export_note(note, fs_sync(file->fs, file->state), "sync state in", file->temp);
}

static enum err write_meta(struct export_file *file, struct note *note)
{
    struct fs_file *meta;
    struct buf json;
    enum err err = file_make(file, "meta.json", &meta, note);

    if (err) return err;
    buf_init(&json, FLEET_META_BYTES_MAX);
    err = fleet_meta_write(&file->meta, true, &json);
    if (!err) err = fs_write_at(file->fs, meta, 0, buf_peek(&json));
    if (!err) err = fs_sync(file->fs, meta);
    fs_close(file->fs, meta);
    buf_deinit(&json);
    return export_note(note, err, "write meta.json in", file->temp);
}

static enum err swap_latest(struct export_file *file, struct note *note)
{
    char temp[FS_PATH_CAP], latest[FS_PATH_CAP];
    enum err err;

    export_path_of(file->dir, "latest.tmp", temp);
    export_path_of(file->dir, "latest", latest);
    err = fs_remove(file->fs, temp); /* an earlier failure may have left this file */
    if (!err || err == ERR_NOT_FOUND) err = fs_make_link(file->fs, file->name, temp);
    if (err) return export_note(note, err, "make", temp);
    err = export_note(note, fs_rename(file->fs, temp, latest), "swap", latest);
    return err ? err : export_note(note, fs_sync_dir(file->fs, file->dir), "sync", file->dir);
}

static void file_free(struct export_file *file)
{
    fs_close(file->fs, file->state);
    free(file);
}

enum err export_finish(struct export_file *own_file, char name[EXPORT_NAME_CAP], struct note *note)
{
    struct export_file *file = own_file;
    char path[FS_PATH_CAP];
    enum err err = export_note(note, fs_sync(file->fs, file->state), "sync state in", file->temp);

    export_path_of(file->dir, file->name, path);
    if (!err) err = write_meta(file, note);
    if (!err) err = export_note(note, fs_sync_dir(file->fs, file->temp), "sync", file->temp);
    if (!err) err = export_note(note, fs_rename(file->fs, file->temp, path), "name", path);
    if (err) {
        export_abandon(file);
        return err;
    }
    /* Syncs the directory first, because `latest` may point only to a durable name. */
    err = export_note(note, fs_sync_dir(file->fs, file->dir), "sync", file->dir);
    if (!err) err = swap_latest(file, note);
    if (!err) memcpy(name, file->name, sizeof file->name);
    file_free(file);
    return err;
}

void export_abandon(struct export_file *own_file)
{
    char temp[EXPORT_NAME_CAP + 8];

    if (!own_file) return;
    export_temp_of(own_file->name, temp);
    /* the next start repeats a failed removal */
    (void)remove_dir(own_file->fs, own_file->dir, temp, NULL);
    file_free(own_file);
}

/* -- pruning -- */

/* Renames the export first: a partly removed export must never look complete. */
static enum err remove_export(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    char path[FS_PATH_CAP], aside[FS_PATH_CAP], temp[EXPORT_NAME_CAP + 8];
    enum err err;

    export_temp_of(name, temp);
    export_path_of(dir, name, path);
    export_path_of(dir, temp, aside);
    err = export_note(note, fs_rename(fs, path, aside), "put aside", path);
    if (!err) err = export_note(note, fs_sync_dir(fs, dir), "sync", dir);
    return err ? err : remove_dir(fs, dir, temp, note);
}

enum err export_prune(struct fs *fs, const char *dir, uint32_t keep, const char *newest,
                      uint32_t *ret_removed, struct note *note)
{
    assert(keep > 0);
    for (*ret_removed = 0;; ++*ret_removed) {
        struct look look = {.newest = newest, .wanted = is_export};
        enum err err = export_note(note, fs_list(fs, dir, export_look_at, &look), "list", dir);

        if (err || look.count <= keep || !look.oldest[0]) return err;
        err = remove_export(fs, dir, look.oldest, note);
        if (err) return err;
    }
}
