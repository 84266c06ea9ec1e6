/* SPDX-License-Identifier: Apache-2.0 */
/* Appends a line for each note. A file that has reached its maximum size is truncated first. Writes
 * block the loop's thread, because notes are rare and short. */
#include "muster/dev_notes.h"

#include <stdio.h>

#include "text/ndjson.h"

enum { LINE_MAX_BYTES = 4096, DEV_NOTES_FILE_MAX = 64 << 10, DEV_NOTES_FILE_MODE = 0644 };

static enum err notes_make_line(const struct dev_notes *notes, const char *from, const char *text,
                                struct buf *into)
{
    struct ndjson json;

    ndjson_begin(&json, into, NDJSON_LINE);
    ndjson_u64(&json, STR("at_ms"), clock_wall(notes->io->clock).ms);
    ndjson_c_string(&json, STR("from"), from);
    ndjson_c_string(&json, STR("text"), text);
    return ndjson_end(&json);
}

static enum err notes_begin_anew(const struct dev_notes *notes, struct fs_file *file)
{
    struct buf line;
    enum err err = fs_truncate(notes->io->fs, file, 0);

    buf_init(&line, LINE_MAX_BYTES);
    if (!err)
        err = notes_make_line(notes, "notes", "older notes were dropped: there were many", &line);
    if (!err) err = fs_write_at(notes->io->fs, file, 0, buf_peek(&line));
    buf_deinit(&line);
    return err;
}

static enum err notes_write_line(const struct dev_notes *notes, const char *path, struct str line)
{
    struct fs *fs = notes->io->fs;
    struct fs_file *file;
    uint64_t size = 0;
    enum err err = fs_open(fs, path, FS_WRITE | FS_CREATE | FS_APPEND, DEV_NOTES_FILE_MODE, &file);

    if (err) return err;
    err = fs_file_size(fs, file, &size);
    if (!err && size > DEV_NOTES_FILE_MAX) err = notes_begin_anew(notes, file);
    if (!err) err = fs_write_at(fs, file, 0, line); /* O_APPEND ignores the offset 0 */
    fs_close(fs, file);
    return err;
}

void dev_notes_add(struct dev_notes *notes, const char *from, const char *text)
{
    char path[DEV_PATH_CAP + 64];
    struct buf line;
    enum err err;

    snprintf(path, sizeof path, "%s/%s", notes->dir, DEV_NOTES_FILE);
    buf_init(&line, LINE_MAX_BYTES);
    err = notes_make_line(notes, from, text, &line);
    if (!err) err = notes_write_line(notes, path, buf_peek(&line));
    if (err)
        LOG_WARN(notes->log, "notes for the dashboard could not be written", log_err("err", err));
    buf_deinit(&line);
}
