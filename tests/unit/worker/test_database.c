/* SPDX-License-Identifier: Apache-2.0 */
/* worker/database.h: case 206 of workers.md, with the example's manifest. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "member/config/manifest.h"
#include "member/ledger/db.h"
#include "worker/database.h"

static enum err read_plugin(struct ledger_db *db, struct str name, struct buf *into)
{
    const struct ledger_key key = {
        .space = LEDGER_PLUGINS, .run = STR_EMPTY, .parts = {name}, .part_count = 1};
    struct ledger_txn *txn;
    struct str value;
    enum err err;

    CHECK_OK("begin", ledger_begin(db, false, &txn));
    err = ledger_get(txn, &key, &value);
    if (!err) err = buf_append(into, value);
    ledger_abort(txn);
    return err;
}

TEST(a_manifest_reads_back_equal) /* 206 */
{
    char dir[] = "/tmp/muster-worker-db-XXXXXX", path[96], line[128];
    struct manifest *manifest;
    struct ledger_db *db;
    struct buf toml, json, back;

    CHECK("directory", mkdtemp(dir));
    snprintf(path, sizeof path, "%s/data/worker.db", dir);
    buf_init(&toml, MANIFEST_FILE_MAX);
    buf_init(&json, MANIFEST_FILE_MAX);
    buf_init(&back, MANIFEST_FILE_MAX);
    CHECK_OK("read", fs_read_whole(fs_real(), getenv("TEST_MANIFEST"), MANIFEST_FILE_MAX, &toml));
    CHECK_OK("manifest", manifest_open(buf_peek(&toml), &manifest, NULL));
    CHECK_OK("json", manifest_json(manifest, &json));
    CHECK_OK("open", worker_db_open(fs_real(), path, &db, NULL));
    CHECK_ERR("none yet", read_plugin(db, STR("lengths"), &back), ERR_NOT_FOUND);
    CHECK_OK("keep", worker_db_keep_plugin(db, STR("lengths"), STR("{}"), NULL));
    CHECK_OK("replace", worker_db_keep_plugin(db, STR("lengths"), buf_peek(&json), NULL));
    ledger_db_close(db);
    CHECK_OK("again", worker_db_open(fs_real(), path, &db, NULL));
    CHECK_OK("there", read_plugin(db, STR("lengths"), &back));
    CHECK_STR("equal", buf_peek(&back), buf_peek(&json));
    ledger_db_close(db);
    manifest_close(manifest);
    buf_deinit(&toml);
    buf_deinit(&json);
    buf_deinit(&back);
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    CHECK_I64("removed", system(line), 0);
}
