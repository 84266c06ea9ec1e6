/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrites the worker's file with one record replaced. Runs on the event loop's thread when plugins
 * are loaded. */
#include "worker/database.h"

#include <stdio.h>

#include "io/fs.h"
#include "member/ledger/file.h"

enum { CONTENT_MAX = 64 << 20, DATABASE_KEY_CAP = 256 };

static enum err database_read(struct fs *fs, const char *path, struct buf *into,
                              struct str *ret_records, struct note *note)
{
    enum err err = ledger_file_read(fs, path, into, ret_records, note);

    if (err == ERR_NOT_FOUND) *ret_records = STR_EMPTY;
    return err == ERR_NOT_FOUND ? ERR_OK : err;
}

enum err worker_db_check(struct fs *fs, const char *path, struct note *note)
{
    struct str records;
    struct buf content;
    enum err err = fs_make_parent(fs, path, 0755, note);

    buf_init(&content, CONTENT_MAX);
    if (!err) err = database_read(fs, path, &content, &records, note);
    buf_deinit(&content);
    if (err) note_prefix(note, "storage.path %s", path);
    return err;
}

enum err worker_db_keep_plugin(struct fs *fs, const char *path, uint64_t unique, struct str name,
                               struct str json, struct note *note)
{
    struct buf old, content;
    struct str records, key, value;
    char plugin[DATABASE_KEY_CAP];
    int len = snprintf(plugin, sizeof plugin, "plugins/%.*s", STR_ARG(name));
    enum err err;

    if (len >= DATABASE_KEY_CAP) return ERR_TOO_LARGE;
    buf_init(&old, CONTENT_MAX);
    buf_init(&content, CONTENT_MAX);
    err = database_read(fs, path, &old, &records, note);
    if (!err) err = ledger_file_begin(&content);
    while (!err && ledger_record_next(&records, &key, &value))
        if (!str_equal(key, str_from(plugin))) err = ledger_record_add(&content, key, value);
    if (!err) err = ledger_record_add(&content, str_from(plugin), json);
    if (!err) err = ledger_file_write(fs, path, &content, unique, note);
    if (err) note_set(note, "%s: %s", plugin, err_text(err));
    buf_deinit(&old);
    buf_deinit(&content);
    return err;
}
