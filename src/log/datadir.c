/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes FORMAT, which has the ids of the replica and its cluster, and small files of
 * the same syntax. A write is durable when the call returns. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/hex.h"
#include "log/datadir_internal.h"

/* -- encoding -- */

size_t datadir_text(const struct datadir *datadir, char text[DATADIR_TEXT_CAP])
{
    int len = snprintf(text, DATADIR_TEXT_CAP,
                       "muster-data 1\nreplica %016" PRIx64 "\ncluster %016" PRIx64 "\n",
                       datadir->replica_id, datadir->cluster_id);
    assert(len > 0 && len < DATADIR_TEXT_CAP - 16);
    uint32_t crc = crc32c(0, text, (size_t)len);
    len += snprintf(text + len, DATADIR_TEXT_CAP - (size_t)len, "check %08" PRIx32 "\n", crc);
    return (size_t)len;
}

/* Takes "<word> <lower-case hex digits>\n" from the front of *rest. */
static bool take_hex(struct str *rest, struct str word, size_t digits, uint64_t *ret_value)
{
    uint64_t value;
    size_t len = word.len + 1 + digits + 1;
    if (rest->len < len || !str_starts(*rest, word) || rest->at[word.len] != ' ') return false;
    if (!hex_read(str_of(rest->at + word.len + 1, digits), &value)) return false;
    if (rest->at[len - 1] != '\n') return false;
    *rest = str_tail(*rest, len);
    *ret_value = value;
    return true;
}

enum err datadir_parse(struct str text, struct datadir *ret_datadir)
{
    struct str rest = text, first = STR("muster-data 1\n");
    struct datadir datadir;
    uint64_t check = 0;
    if (!str_starts(rest, STR("muster-data "))) return ERR_CORRUPT;
    /* "muster-data 2" is an unknown format; other text is damage. */
    if (!str_starts(rest, first)) {
        size_t end = str_find(text, '\n'), from = sizeof "muster-data " - 1;
        uint64_t number;
        bool numbered =
            end < text.len && str_to_u64(str_of(text.at + from, end - from), &number) == ERR_OK;
        return numbered ? ERR_VERSION : ERR_CORRUPT;
    }
    rest = str_tail(rest, first.len);
    if (!take_hex(&rest, STR("replica"), 16, &datadir.replica_id)) return ERR_CORRUPT;
    if (!take_hex(&rest, STR("cluster"), 16, &datadir.cluster_id)) return ERR_CORRUPT;
    uint32_t crc = crc32c(0, text.at, text.len - rest.len);
    if (!take_hex(&rest, STR("check"), 8, &check) || rest.len > 0) return ERR_CORRUPT;
    if (check != crc || datadir.replica_id == 0) return ERR_CORRUPT;
    *ret_datadir = datadir;
    return ERR_OK;
}

/* -- files -- */

enum err datadir_has(struct fs *fs, const char *dir, const char *name, bool *ret_there,
                     struct note *note)
{
    char path[FS_PATH_CAP];
    struct fs_info info;
    enum err err = fs_path(dir, name, path, note);
    if (err) return err;
    err = fs_stat(fs, path, &info);
    *ret_there = err == ERR_OK;
    return err == ERR_NOT_FOUND ? ERR_OK : fs_noted(err, "look at", path, note);
}

static enum err read_judged(struct fs *fs, const char *dir, const char *name, fs_judge_fn *judge,
                            void *context, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err = fs_path(dir, name, path, note);
    if (err) return err;
    err = fs_read_judged(fs, path, DATADIR_TEXT_CAP, judge, context);
    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}

static enum err judge_datadir(struct str text, void *ret_datadir)
{
    return datadir_parse(text, ret_datadir);
}

enum err datadir_read_file(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note)
{
    return read_judged(fs, dir, name, judge_datadir, ret_datadir, note);
}

enum err datadir_mark_write(struct fs *fs, const char *dir, const char *name,
                            const struct datadir *datadir, uint64_t unique, struct note *note)
{
    char path[FS_PATH_CAP], text[DATADIR_TEXT_CAP];
    enum err err = fs_path(dir, name, path, note);
    if (err) return err;
    size_t len = datadir_text(datadir, text);
    return fs_noted(fs_publish(fs, path, str_of(text, len), 0600, unique), "write", path, note);
}

/* -- small files beside FORMAT -- */

enum err datadir_mark_read(struct fs *fs, const char *dir, const char *name,
                           struct datadir *ret_datadir, struct note *note)
{
    enum err err = datadir_read_file(fs, dir, name, ret_datadir, note);

    /* Syncs the directory, because the file's writer may have died before the name was durable. */
    return err ? err : fs_noted(fs_sync_dir(fs, dir), "sync", dir, note);
}

enum err datadir_remove(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    char path[FS_PATH_CAP];
    enum err err = fs_path(dir, name, path, note);
    if (err) return err;
    err = fs_remove(fs, path);
    return err == ERR_NOT_FOUND ? ERR_OK : fs_noted(err, "remove", path, note);
}

enum err datadir_mark_remove(struct fs *fs, const char *dir, const char *name, struct note *note)
{
    enum err err = datadir_remove(fs, dir, name, note);
    return err ? err : fs_noted(fs_sync_dir(fs, dir), "sync", dir, note);
}

struct datadir datadir_draw(struct entropy *entropy)
{
    struct datadir drawn = {.replica_id = datadir_draw_id(entropy)};

    drawn.cluster_id = datadir_draw_id(entropy);
    return drawn;
}

enum err datadir_commit(struct fs *fs, const char *dir, struct note *note)
{
    char from[FS_PATH_CAP], to[FS_PATH_CAP];
    enum err err = fs_path(dir, DATADIR_NEXT, from, note);
    if (!err) err = fs_path(dir, DATADIR_FORMAT, to, note);
    if (err) return err;
    err = fs_noted(fs_rename(fs, from, to), "name", to, note);
    return err ? err : fs_noted(fs_sync_dir(fs, dir), "sync", dir, note);
}

uint64_t datadir_draw_id(struct entropy *entropy)
{
    uint64_t id;
    do id = entropy_u64(entropy);
    while (id == 0); /* 0 means "none" everywhere */
    return id;
}

/* Reads FORMAT.new, if there is one. ERR_NOT_READY: another tool wrote FORMAT.new. */
static enum err interrupted(struct fs *fs, const char *dir, const struct datadir *now, bool rejoin,
                            struct datadir *ret_next, struct note *note)
{
    enum err err = datadir_read_file(fs, dir, DATADIR_NEXT, ret_next, note);
    if (!err && (ret_next->replica_id != now->replica_id) != rejoin) {
        note_set(note, "%s/" DATADIR_NEXT ": a %s was interrupted: finish that first", dir,
                 rejoin ? "force-config" : "rejoin");
        err = ERR_NOT_READY;
    }
    return err;
}

enum err datadir_may_begin(struct fs *fs, const char *dir, const struct datadir *now, bool rejoin,
                           struct note *note)
{
    struct datadir found = {.replica_id = 0};
    enum err err = datadir_not_restoring(fs, dir, note);
    if (!err) err = interrupted(fs, dir, now, rejoin, &found, note);
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err datadir_begin(struct fs *fs, const char *dir, const struct datadir *now,
                       const struct datadir *next, uint64_t unique, struct datadir *ret_next,
                       struct note *note)
{
    struct datadir found = {.replica_id = 0};
    enum err err = datadir_not_restoring(fs, dir, note);
    if (!err) err = fs_noted(fs_sweep_temps(fs, dir), "sweep", dir, note);
    if (err) return err;
    err = interrupted(fs, dir, now, next->replica_id != now->replica_id, &found, note);
    if (err && err != ERR_NOT_FOUND) return err;
    if (err) found = *next;
    /* Writes even an existing file again, because its writer may have died before a sync. */
    err = datadir_mark_write(fs, dir, DATADIR_NEXT, &found, unique, note);
    if (!err) *ret_next = found;
    return err;
}

/* -- public functions -- */

static enum err judge_room(struct str text, void *line)
{
    struct str want = *(struct str *)line;
    size_t stem = str_find(want, ' ') + 1; /* "muster-log 2" is an unknown format, not damage */
    if (str_equal(text, want)) return ERR_OK;
    return text.len > stem && str_starts(text, str_of(want.at, stem)) ? ERR_VERSION : ERR_CORRUPT;
}

static enum err room_check(struct fs *fs, const char *dir, const char *name, struct str want,
                           struct note *note)
{
    enum err err = read_judged(fs, dir, name, judge_room, &want, note);
    return err == ERR_NOT_FOUND ? ERR_CORRUPT : err;
}

enum err datadir_read(struct fs *fs, const char *dir, struct datadir *ret_datadir,
                      struct note *note)
{
    struct datadir datadir = {.replica_id = 0};
    bool half_made = false, has_vote = false;
    enum err err = datadir_not_restoring(fs, dir, note);
    if (!err) err = datadir_mark_read(fs, dir, DATADIR_FORMAT, &datadir, note);
    if (!err) err = datadir_has(fs, dir, DATADIR_NEXT, &half_made, note);
    if (!err && half_made) {
        note_set(note,
                 "%s/" DATADIR_NEXT ": a rejoin or force-config was interrupted: run it again",
                 dir);
        err = ERR_NOT_READY;
    }
    if (!err) err = room_check(fs, dir, "log/FORMAT", STR("muster-log 1\n"), note);
    if (!err) err = room_check(fs, dir, "snap/FORMAT", STR("muster-snap 1\n"), note);
    /* A data directory without VOTE has lost its votes. */
    if (!err) err = datadir_has(fs, dir, "log/VOTE", &has_vote, note);
    if (err) return err;
    if (!has_vote) return note_fail(note, ERR_CORRUPT, "%s/log/VOTE: is missing", dir);
    *ret_datadir = datadir;
    return ERR_OK;
}

enum err datadir_adopt(struct fs *fs, const char *dir, uint64_t cluster_id, uint64_t unique,
                       struct note *note)
{
    struct datadir datadir = {.replica_id = 0};
    assert(cluster_id != 0);
    enum err err = datadir_read_file(fs, dir, DATADIR_FORMAT, &datadir, note);
    if (err) return err;
    if (datadir.cluster_id == cluster_id) return ERR_OK;
    if (datadir.cluster_id != 0)
        return note_fail(note, ERR_CONFLICT,
                         "%s: of cluster %016" PRIx64 ", cannot join %016" PRIx64, dir,
                         datadir.cluster_id, cluster_id);
    datadir.cluster_id = cluster_id;
    return datadir_mark_write(fs, dir, DATADIR_FORMAT, &datadir, unique, note);
}
