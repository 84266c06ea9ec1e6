/* SPDX-License-Identifier: Apache-2.0 */
/* The k-th allocation fails while archives of each kind are written, read and restored: the call
 * returns out of memory with the place, and nothing leaks. */
#include <stdio.h>

#include "archive_rig.h"
#include "lib/fault_alloc.h"

static void path_of(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", test_dir(), name);
}

/* Without memory a machine's section fails with ERR_NOMEM and no other error. */
static void judge(enum err err, const struct note *note)
{
    if (!err) return;
    CHECK(note->text, fault_alloc_fired());
    CHECK_ERR(note->text, err, ERR_NOMEM);
    CHECK("says where", note->text[0]);
}

static void sweep(const char *name)
{
    struct sample_entropy entropy;
    char path[512], data[512];
    uint64_t turns = 0;

    path_of(name, path);
    path_of("data", data);
    sample_entropy_init(&entropy, 1);
    FAULT_SWEEP_ALLOC(k)
    {
        struct archive_restore_options options = {
            .fs = fs_real(), .entropy = &entropy.base, .dir = data, .address = "h:1"};
        struct archive *archive;
        struct datadir made;
        struct note note = {""};
        enum err err = archive_open(fs_real(), path, NULL, &archive, &note);

        turns++;
        judge(err, &note);
        if (err) continue;
        err = archive_restore(archive, &options, &made, &note);
        judge(err, &note);
        archive_close(archive);
    }
    CHECK("far enough", turns > 20);
}

TEST(an_export_is_read_and_restored)
{
    char dir[512];

    path_of("exports", dir);
    CHECK_OK("open", export_dir_open(fs_real(), dir, NULL));
    CHECK_OK("export", sample_export(fs_real(), dir, 3, NULL));
    sweep("exports/latest");
}

TEST(a_snapshot_is_read_and_restored)
{
    char path[512];

    path_of("saved", path);
    CHECK_OK("save", sample_save(fs_real(), path, SAVE_SNAPSHOT, 3, NULL));
    sweep("saved");
}

TEST(a_backup_is_read_and_restored)
{
    char path[512];

    path_of("backup", path);
    CHECK_OK("save", sample_save(fs_real(), path, SAVE_BACKUP, 3, NULL));
    sweep("backup");
}

TEST(files_are_written)
{
    struct buf rows, json;
    struct fleet_meta meta = sample_meta(3);
    char path[512], dir[512];
    uint64_t turns = 0, unique = 100;

    path_of("target", path);
    path_of("more", dir);
    buf_init(&rows, 1 << 20);
    buf_init(&json, 1 << 16);
    sample_state(3, &rows);
    CHECK_OK("meta", fleet_meta_write(&meta, false, &json));
    FAULT_SWEEP_ALLOC(k)
    {
        struct save_file *saved;
        struct save_facts facts;
        struct export_file *file;
        char name[EXPORT_NAME_CAP];
        uint32_t removed;
        struct note note = {""};
        enum err err = save_open(fs_real(), path, SAVE_SNAPSHOT, ++unique, &saved, &note);

        turns++;
        judge(err, &note);
        if (!err) {
            err = save_meta(saved, buf_peek(&json), &note);
            if (!err) err = save_data(saved, buf_peek(&rows), &note);
            judge(err, &note);
            if (err)
                save_abandon(saved);
            else
                judge(save_finish(saved, &facts, &note), &note);
        }
        err = export_dir_open(fs_real(), dir, &note);
        if (!err)
            err = export_create(fs_real(), dir, &meta, (wall_time){1794764400000 + unique * 1000},
                                &file, &note);
        judge(err, &note);
        if (err) continue;
        err = export_write(file, buf_peek(&rows), &note);
        judge(err, &note);
        err = export_finish(file, name, &note);
        judge(err, &note);
        if (!err) judge(export_prune(fs_real(), dir, 2, name, &removed, &note), &note);
    }
    CHECK("far enough", turns > 10);
    buf_deinit(&rows);
    buf_deinit(&json);
}
