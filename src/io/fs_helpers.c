/* SPDX-License-Identifier: Apache-2.0 */
/* Functions built on the calls of fs.h, the same for every file system. */
#include "io/fs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"

enum {
    READ_STEP_MIN = 4096, /* bytes of the first read if the file reports size 0 */
    ZERO_STEP = 64 * 1024,
    SWEEP_BYTES_MAX = 64 * 1024, /* bytes of names that a sweep collects at a time */
    TEMP_UNIQUE_LEN = 8,
};
#define TEMP_END ".tmp"

/* -- reading -- */

static enum err read_open_file(struct fs *fs, struct fs_file *file, size_t max, struct buf *into)
{
    uint64_t size;
    enum err err = fs_file_size(fs, file, &size);
    if (err) return err;
    if (size > max) return ERR_TOO_LARGE;
    /* The file may grow during the read. Each round doubles the buffer, so rounds are few. */
    for (size_t want = (size_t)size;;) {
        char *room = NULL, probe;
        size_t got = 0, more = 0;
        if (want > 0) {
            err = buf_reserve(into, want, &room);
            if (!err) err = fs_read_at(fs, file, 0, room, want, &got);
        }
        if (!err && got == want) err = fs_read_at(fs, file, want, &probe, 1, &more);
        if (err) return err;
        if (more == 0) {
            if (got > 0) buf_commit(into, got);
            return ERR_OK;
        }
        if (want == max) return ERR_TOO_LARGE;
        want = want > max / 2 ? max : min_size(max_size(want * 2, READ_STEP_MIN), max);
    }
}

enum err fs_read_whole(struct fs *fs, const char *path, size_t max, struct buf *into)
{
    struct fs_file *file;
    enum err err = fs_open(fs, path, FS_READ, 0, &file);
    if (err) return err;
    err = read_open_file(fs, file, max, into);
    fs_close(fs, file);
    return err;
}

enum err fs_read_judged(struct fs *fs, const char *path, size_t max, fs_judge_fn *judge,
                        void *context)
{
    struct buf content;
    enum err err = ERR_CORRUPT;
    buf_init(&content, max);
    for (int attempt = 0; attempt < 2 && err == ERR_CORRUPT; attempt++) {
        buf_clear(&content);
        err = fs_read_whole(fs, path, max, &content);
        if (err == ERR_TOO_LARGE || err == ERR_FULL) err = ERR_CORRUPT;
        if (!err) err = judge(buf_peek(&content), context);
    }
    buf_deinit(&content);
    return err;
}

/* -- names -- */

enum err fs_path(const char *dir, const char *name, char path[FS_PATH_CAP], struct note *note)
{
    int len = snprintf(path, FS_PATH_CAP, "%s/%s", dir, name);
    if (len > 0 && len < FS_PATH_CAP) return ERR_OK;
    return note_fail(note, ERR_INVALID, "%.100s...: path too long", dir);
}

enum err fs_noted(enum err err, const char *what, const char *path, struct note *note)
{
    if (err) note_set(note, "%s %s: %s", what, path, err_text(err));
    return err;
}

struct gathering {
    fs_name_fn *wants;
    struct buf *names;
    enum err err;
};

static void gather_name(void *context, const char *name, enum fs_kind kind)
{
    struct gathering *gathering = context;
    struct str whole = str_from(name);
    if (gathering->err || !gathering->wants(whole, kind)) return;
    gathering->err = buf_append(gathering->names, str_of(name, whole.len + 1));
}

enum err fs_names(struct fs *fs, const char *path, fs_name_fn *wants, struct buf *names,
                  struct note *note)
{
    struct gathering gathering = {.wants = wants, .names = names};
    enum err err = fs_list(fs, path, gather_name, &gathering);
    return fs_noted(err ? err : gathering.err, "list", path, note);
}

/* -- temporaries -- */

static bool is_temp_name(struct str name)
{
    const size_t end_len = sizeof TEMP_END - 1;
    const size_t fixed = 1 + 1 + TEMP_UNIQUE_LEN + end_len;
    if (name.len <= fixed || name.at[0] != '.' || !str_ends(name, STR(TEMP_END))) return false;
    const char *unique = name.at + name.len - end_len - TEMP_UNIQUE_LEN;
    uint64_t number;
    return unique[-1] == '.' && hex_read(str_of(unique, TEMP_UNIQUE_LEN), &number);
}

static void parent_of(const char *path, char dir[FS_PATH_CAP])
{
    const char *slash = strrchr(path, '/');
    if (!slash) {
        memcpy(dir, ".", 2);
        return;
    }
    while (slash > path && slash[-1] == '/') slash--;
    size_t len = slash == path ? 1 : (size_t)(slash - path);
    memcpy(dir, path, len);
    dir[len] = '\0';
}

static const char *last_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

enum err fs_temp_for(const char *path, uint64_t unique, char dir[FS_PATH_CAP],
                     char temp[FS_PATH_CAP])
{
    size_t path_len = strnlen(path, FS_PATH_CAP);
    if (path_len == 0 || path_len == FS_PATH_CAP) return ERR_INVALID;
    const char *name = last_name(path);
    if (!name[0] || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return ERR_INVALID;
    parent_of(path, dir);
    int len = snprintf(temp, FS_PATH_CAP, "%.*s.%s.%08" PRIx32 TEMP_END, (int)(name - path), path,
                       name, (uint32_t)unique);
    return len > 0 && len < FS_PATH_CAP ? ERR_OK : ERR_INVALID;
}

enum err fs_publish(struct fs *fs, const char *path, struct str content, uint32_t mode,
                    uint64_t unique)
{
    char dir[FS_PATH_CAP], temp[FS_PATH_CAP];
    struct fs_file *file;
    enum err err = fs_temp_for(path, unique, dir, temp);
    if (err) return err;
    if (is_temp_name(str_from(last_name(path)))) return ERR_INVALID; /* a sweep would remove it */
    err = fs_open(fs, temp, FS_WRITE | FS_CREATE | FS_EXCLUSIVE, mode, &file);
    if (err) return err;
    err = fs_write_at(fs, file, 0, content);
    /* Synced before the rename: otherwise a power cut could keep the name and lose the content. */
    if (!err) err = fs_sync(fs, file);
    if (!err) err = fs_rename(fs, temp, path);
    fs_close(fs, file);
    if (err) {
        fs_remove(fs, temp); /* readers skip temporary files */
        return err;
    }
    return fs_sync_dir(fs, dir) ? ERR_UNKNOWN : ERR_OK; /* visible, maybe not durable */
}

/* -- sweeping: names are gathered first, because a listed directory must not change -- */

static bool is_temp(struct str name, enum fs_kind kind)
{
    return kind == FS_REGULAR && is_temp_name(name);
}

static enum err remove_gathered(struct fs *fs, const char *dir, struct str names)
{
    enum err first = ERR_OK;
    for (size_t at = 0; at < names.len; at += strlen(names.at + at) + 1) {
        char path[FS_PATH_CAP];
        enum err err = fs_path(dir, names.at + at, path, NULL);
        if (!err) err = fs_remove(fs, path);
        if (err && err != ERR_NOT_FOUND && !first) first = err;
    }
    return first;
}

enum err fs_sweep_temps(struct fs *fs, const char *dir)
{
    enum err listed, err;
    /* ends: each round that filled the buffer removed a file or failed */
    do {
        struct buf names;
        buf_init(&names, SWEEP_BYTES_MAX);
        listed = fs_names(fs, dir, is_temp, &names, NULL);
        err = listed == ERR_FULL ? ERR_OK : listed;
        if (!err) err = remove_gathered(fs, dir, buf_peek(&names));
        buf_deinit(&names);
    } while (listed == ERR_FULL && !err);
    return err;
}

/* -- directories -- */

/* A parent that we cannot open is skipped if `path` existed before. */
static enum err sync_parent(struct fs *fs, const char *path, bool made)
{
    char dir[FS_PATH_CAP];
    parent_of(path, dir);
    enum err err = fs_sync_dir(fs, dir);
    if (err == ERR_DENIED && !made) return ERR_OK;
    return err ? ERR_UNKNOWN : ERR_OK;
}

/* Each level is synced before the next is made. After an interrupted call only the deepest existing
 * level can lack a sync, so that level is synced first. */
enum err fs_make_dirs(struct fs *fs, const char *path, uint32_t mode)
{
    char level[FS_PATH_CAP], found[FS_PATH_CAP] = "";
    size_t len = strnlen(path, FS_PATH_CAP), end = 0;
    struct fs_info info;
    bool made = false;

    if (len == 0 || len == FS_PATH_CAP) return ERR_INVALID;
    while (len > 1 && path[len - 1] == '/') len--;
    while (end < len) {
        while (end < len && path[end] == '/') end++;
        while (end < len && path[end] != '/') end++;
        memcpy(level, path, end);
        level[end] = '\0';
        enum err err = fs_stat(fs, level, &info);
        if (!err && info.kind != FS_DIRECTORY) return ERR_EXISTS;
        if (!err) {
            memcpy(found, level, end + 1);
            continue;
        }
        if (err != ERR_NOT_FOUND) return err;
        if (!made && found[0] && (err = sync_parent(fs, found, false))) return err;
        err = fs_make_dir(fs, level, mode);
        if (err && err != ERR_EXISTS) return err; /* another process may have made the directory */
        if ((err = sync_parent(fs, level, true))) return err;
        made = true;
    }
    return made ? ERR_OK : sync_parent(fs, found, false);
}

enum err fs_make_parent(struct fs *fs, const char *path, uint32_t mode, struct note *note)
{
    char dir[FS_PATH_CAP];
    enum err err;

    if (strnlen(path, FS_PATH_CAP) == FS_PATH_CAP)
        return note_fail(note, ERR_INVALID, "%.100s...: path too long", path);
    parent_of(path, dir);
    err = fs_make_dirs(fs, dir, mode);
    return fs_noted(err == ERR_UNKNOWN ? ERR_OK : err, "make", dir, note);
}

/* -- segments -- */

enum err fs_allocate_zeroed(struct fs *fs, struct fs_file *file, uint64_t offset, uint64_t len)
{
    static const char zeros[ZERO_STEP];
    if (len > UINT64_MAX - offset) return ERR_INVALID;
    for (uint64_t done = 0; done < len;) {
        size_t step = (size_t)min_u64(sizeof zeros, len - done);
        enum err err = fs_write_at(fs, file, offset + done, str_of(zeros, step));
        if (err) return err;
        done += step;
    }
    return ERR_OK;
}
