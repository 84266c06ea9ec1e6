/* SPDX-License-Identifier: Apache-2.0 */
/* worker/database.h: case 206 of workers.md, with the example's manifest. */
#include <stdio.h>
#include <stdlib.h>

#include "lib/test.h"
#include "member/config/manifest.h"
#include "member/ledger/file.h"
#include "worker/database.h"

static enum err read_plugin(const char *path, struct str name, struct buf *into)
{
    struct str records, key, value;
    struct buf content;
    enum err err, found = ERR_NOT_FOUND;

    buf_init(&content, LEDGER_FILE_MAX);
    err = ledger_file_read(fs_real(), path, &content, &records, NULL);
    while (!err && ledger_record_next(&records, &key, &value))
        if (str_equal(key, name)) found = buf_append(into, value);
    buf_deinit(&content);
    return err ? err : found;
}

TEST(a_manifest_reads_back_equal) /* 206 */
{
    char dir[] = "/tmp/muster-worker-db-XXXXXX", path[96], line[128];
    struct manifest *manifest;
    struct buf toml, json, back;

    CHECK("directory", mkdtemp(dir));
    snprintf(path, sizeof path, "%s/data/worker.db", dir);
    buf_init(&toml, MANIFEST_FILE_MAX);
    buf_init(&json, MANIFEST_FILE_MAX);
    buf_init(&back, MANIFEST_FILE_MAX);
    CHECK_OK("read", fs_read_whole(fs_real(), getenv("TEST_MANIFEST"), MANIFEST_FILE_MAX, &toml));
    CHECK_OK("manifest", manifest_open(buf_peek(&toml), &manifest, NULL));
    CHECK_OK("json", manifest_json(manifest, &json));
    CHECK_OK("check", worker_db_check(fs_real(), path, NULL));
    CHECK_ERR("none yet", read_plugin(path, STR("plugins/lengths"), &back), ERR_NOT_FOUND);
    CHECK_OK("keep", worker_db_keep_plugin(fs_real(), path, 1, STR("lengths"), STR("{}"), NULL));
    CHECK_OK("another", worker_db_keep_plugin(fs_real(), path, 2, STR("other"), STR("[]"), NULL));
    CHECK_OK("replace",
             worker_db_keep_plugin(fs_real(), path, 3, STR("lengths"), buf_peek(&json), NULL));
    CHECK_OK("there", read_plugin(path, STR("plugins/lengths"), &back));
    CHECK_STR("equal", buf_peek(&back), buf_peek(&json));
    buf_clear(&back);
    CHECK_OK("the other, too", read_plugin(path, STR("plugins/other"), &back));
    CHECK_STR("equal", buf_peek(&back), STR("[]"));
    manifest_close(manifest);
    buf_deinit(&toml);
    buf_deinit(&json);
    buf_deinit(&back);
    snprintf(line, sizeof line, "rm -rf '%s'", dir);
    CHECK_I64("removed", system(line), 0);
}
