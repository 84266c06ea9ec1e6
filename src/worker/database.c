/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/database.h"

#include "io/fs_path.h"
#include "member/ledger/db.h"

enum { FILE_MAX = 64 << 20 };

enum err worker_db_open(struct fs *fs, const char *path, struct ledger_db **ret_db,
                        struct note *note)
{
    enum err err = fs_make_parent(fs, path, 0755, note);

    if (!err) err = ledger_db_open(fs, path, FILE_MAX, ret_db, note);
    if (err) note_prefix(note, "storage.path %s", path);
    return err;
}

enum err worker_db_keep_plugin(struct ledger_db *db, struct str name, struct str json,
                               struct note *note)
{
    const struct ledger_key key = {
        .space = LEDGER_PLUGINS, .run = STR_EMPTY, .parts = {name}, .part_count = 1};
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
