/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the disk code fails once: it returns ERR_NOMEM, leaks nothing and loses
 * nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disk_rig.h"
#include "lib/fault_alloc.h"
#include "log/datadir.h"
#include "snap_rig.h"

/* The simulated disk allocates, too, and answers ERR_NOMEM for itself; the kernel's does not. */
static char root[256];

static const char *fresh_dir(void)
{
    static int number;
    snprintf(root, sizeof root, "%s/%d", test_dir(), number++);
    CHECK_OK("directory", fs_make_dir(fs_real(), root, 0700));
    return root;
}

static bool only_memory(enum err err)
{
    return err == ERR_OK || err == ERR_NOMEM;
}

TEST(the_log)
{
    struct rig_entropy entropy;
    rig_entropy_init(&entropy, 1);
    FAULT_SWEEP_ALLOC(k)
    {
        static struct entry entries[30];
        static struct wal_place places[30];
        static char bytes[9000];
        char path[300];
        struct wal *wal = NULL;
        struct buf into;
        const char *dir = fresh_dir();
        fault_alloc_arm(0);
        snprintf(path, sizeof path, "%s/log", dir);
        CHECK_OK("log", fs_make_dir(fs_real(), path, 0700));
        struct wal_options options = {.fs = fs_real(),
                                      .entropy = &entropy.base,
                                      .dir = dir,
                                      .replica_id = 1,
                                      .segment_bytes = 64 << 10,
                                      .create = true};
        for (uint64_t i = 0; i < 30; i++)
            entries[i] = (struct entry){.index = i + 1,
                                        .term = 1,
                                        .kind = ENTRY_COMMAND,
                                        .bytes = str_of(bytes, sizeof bytes)};
        fault_alloc_arm(k);
        enum err err = wal_open(&options, false, NULL, NULL, &wal, NULL, NULL);
        CHECK("open", only_memory(err));
        if (!err) {
            err = wal_append(wal, entries, 30, places, NULL);
            CHECK("append", only_memory(err));
        }
        while (!err && wal_wants_spare(wal)) {
            err = wal_prepare(wal, NULL);
            CHECK("prepare", only_memory(err));
        }
        buf_init(&into, 1 << 20);
        if (!err)
            CHECK("read", only_memory(wal_read(fs_real(), dir, places, 30, &into, entries, NULL)));
        buf_deinit(&into);
        wal_close(wal);
        wal = NULL;
        enum err again = wal_open(&options, true, NULL, NULL, &wal, NULL, NULL);
        CHECK("open again", only_memory(again));
        wal_close(wal);
    }
}

TEST(snapshots)
{
    FAULT_SWEEP_ALLOC(k)
    {
        char path[400], name[SNAP_NAME_CAP];
        struct snap_head head = snap_rig_head(3);
        struct snap_inbox *inbox;
        const char *dir = fresh_dir();
        fault_alloc_arm(0);
        snprintf(path, sizeof path, "%s/snap", dir);
        CHECK_OK("snap", fs_make_dir(fs_real(), path, 0700));
        fault_alloc_arm(k);
        enum err err = snap_rig_write(fs_real(), dir, 3, 1, NULL);
        CHECK("write", only_memory(err));
        if (!err) err = snap_newest(fs_real(), dir, name, &head, NULL);
        CHECK("newest", only_memory(err));
        if (!err) {
            snprintf(path, sizeof path, "%s/snap/%s", dir, name);
            err = snap_rig_compare(fs_real(), path, 3, NULL);
        }
        CHECK("compare", only_memory(err));
        if (!err) err = snap_inbox_open(fs_real(), dir, 1, &inbox, NULL);
        CHECK("inbox", only_memory(err));
        if (!err) snap_inbox_drop(inbox);
        if (!err) err = snap_sweep(fs_real(), dir, NULL);
        CHECK("sweep", only_memory(err));
    }
}

TEST(the_data_directory)
{
    struct rig_entropy entropy;
    rig_entropy_init(&entropy, 1);
    FAULT_SWEEP_ALLOC(k)
    {
        struct members founders = {.count = 1};
        struct datadir made, other;
        struct buf report;
        char dir[300];
        fault_alloc_arm(0);
        snprintf(dir, sizeof dir, "%s/data", fresh_dir());
        founders.at[0].role = MEMBER_VOTER;
        memcpy(founders.at[0].address, "host:1", 7);
        struct datadir_format_options options = {
            .fs = fs_real(), .entropy = &entropy.base, .dir = dir, .founders = &founders};
        struct datadir_force force = {.fs = fs_real(), .entropy = &entropy.base, .dir = dir};
        fault_alloc_arm(k);
        enum err err = datadir_format(&options, &made, NULL);
        CHECK("format", only_memory(err));
        /* The same call finishes an interrupted operation. */
        if (err) err = datadir_format(&options, &made, NULL);
        CHECK_OK("format", err);
        buf_init(&report, 1 << 16);
        CHECK("check", only_memory(datadir_check(fs_real(), dir, &report, NULL)));
        buf_deinit(&report);
        err = datadir_force_config(&force, &made, NULL);
        CHECK("force", only_memory(err));
        if (err) err = datadir_force_config(&force, &made, NULL);
        CHECK_OK("force", err);
        err = datadir_rejoin(fs_real(), &entropy.base, dir, &other, &made, NULL);
        CHECK("rejoin", only_memory(err));
        if (err) err = datadir_rejoin(fs_real(), &entropy.base, dir, &other, &made, NULL);
        CHECK_OK("rejoin", err);
        err = datadir_read(fs_real(), dir, &other, NULL);
        CHECK("read", only_memory(err));
    }
}
