/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/database.h"

#include <stdio.h>

#include "member/ledger/db.h"

enum { FILE_MAX = 64 << 20 };

enum err worker_db_open(struct fs *fs, const char *path, struct ledger_db **ret_db,
                        struct note *note)
{
    char dir[FS_PATH_CAP];
    const char *slash = strrchr(path, '/');
    enum err err = ERR_OK;

    if (slash && slash != path) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        err = fs_make_dirs(fs, dir, 0755);
        if (err) note_set(note, "%s", err_text(err));
    }
    if (!err) err = ledger_db_open(fs, path, FILE_MAX, ret_db, note);
    if (err) note_prefix(note, "storage.path %s", path);
    return err;
}

static struct ledger_key key_of(struct str name)
{
    return (struct ledger_key){
        .space = LEDGER_PLUGINS, .run = STR_EMPTY, .parts = {name}, .part_count = 1};
}

enum err worker_db_keep_plugin(struct ledger_db *db, struct str name, struct str json,
                               struct note *note)
{
    struct ledger_key key = key_of(name);
    struct ledger_txn *txn;
    enum err err = ledger_begin(db, true, &txn);

    if (!err) {
        err = ledger_put(txn, &key, json);
        if (err)
            ledger_abort(txn);
        else
            err = ledger_commit(txn);
    }
    if (err) note_set(note, "plugins/%.*s: %s", STR_ARG(name), err_text(err));
    return err;
}

enum err worker_db_plugin(struct ledger_db *db, struct str name, struct buf *into)
{
    struct ledger_key key = key_of(name);
    struct ledger_txn *txn;
    struct str value;
    enum err err = ledger_begin(db, false, &txn);

    if (err) return err;
    err = ledger_get(txn, &key, &value);
    if (!err) err = buf_append(into, value);
    ledger_abort(txn);
    return err;
}
