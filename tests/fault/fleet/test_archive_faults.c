/* SPDX-License-Identifier: Apache-2.0 */
/* Export, save and restore over a disk that loses power or fails a call, at every call: completed
 * work is there, whole, and an interrupted operation can be repeated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "archive_rig.h"
#include "lib/fault_fs.h"

struct state {
    struct sim_fs *disk;
    struct fs *fs;
    struct sample_entropy entropy;
    uint64_t began, ended; /* indexes of the newest that was tried, and that was promised */
    struct datadir before, after;
    struct note note;
};
struct deed {
    const char *name;
    void (*prepare)(struct state *state);
    enum err (*act)(struct state *state, struct fs *fs);
    bool (*judge)(struct state *state, struct note *why);
};

static const struct sim_fs_options disks[] = {
    {.write_lost_per_million = 1000000},
    {.write_torn_per_million = 500000, .write_lost_per_million = 500000},
    {.write_lost_per_million = 300000,
     .write_torn_per_million = 400000,
     .name_lost_per_million = 500000},
    {.write_lost_per_million = 400000,
     .write_torn_per_million = 200000,
     .name_lost_per_million = 400000,
     .reorder_names = true},
};

/* -- the sweep -- */

/* Cuts the power at call k, or fails just that call and ends the process. */
static bool one(const struct deed *deed, size_t disk, uint64_t seed, uint64_t k, bool power,
                bool *ret_reached, struct note *why)
{
    struct state state = {.began = 0};
    struct fault_fs fault;
    struct prng prng;
    enum err err;
    bool fine;

    prng_seed(&prng, seed);
    CHECK_OK("a disk", sim_fs_open(&disks[disk], &prng, &state.disk));
    state.fs = sim_fs_fs(state.disk);
    sample_entropy_init(&state.entropy, seed);
    deed->prepare(&state);
    fault_fs_init(&fault, state.fs);
    fault_fs_arm(&fault, (struct fault_fs_plan){.calls = FAULT_FS_ANY,
                                                .nth = k,
                                                .err = power ? ERR_IO : ERR_NO_SPACE,
                                                .from_then_on = power});
    err = deed->act(&state, fault_fs_fs(&fault));
    *ret_reached = fault_fs_fired(&fault);
    if (power)
        sim_fs_crash(state.disk);
    else
        sim_fs_process_died(state.disk);
    sim_fs_reclaim(state.disk);
    fine = !err || *ret_reached;
    if (!fine)
        note_set(why, "failed by itself: %s: %s", err_name(err), state.note.text);
    else if (err && !state.note.text[0])
        note_set(why, "%s without saying where", err_name(err)), fine = false;
    fine = fine && deed->judge(&state, why);
    sim_fs_close(state.disk);
    return fine;
}

static void sweep(const struct deed *deed)
{
    uint64_t seeds = getenv("MUSTER_TEST_LONG") ? 50 : 3;
    struct note why = {""};

    for (uint64_t seed = 1; seed <= seeds; seed++)
        for (size_t disk = 0; disk < ARRAY_LEN(disks); disk++)
            for (int power = 0; power < 2; power++) {
                bool reached = true;
                for (uint64_t k = 1; reached; k++) {
                    if (one(deed, disk, seed, k, power, &reached, &why)) continue;
                    print_message("%s, seed %" PRIu64 ", disk %zu, call %" PRIu64 "%s: %s\n",
                                  deed->name, seed, disk, k, power ? ", power cut" : " fails",
                                  why.text);
                    CHECK("holds", false);
                }
            }
}

/* -- export -- */

#define EXPORTS "/exports"
enum { KEEP = 2 };

static void export_prepare(struct state *state)
{
    CHECK_OK("open", export_dir_open(state->fs, EXPORTS, NULL));
    CHECK_OK("first", sample_export(state->fs, EXPORTS, 1, NULL));
    state->began = state->ended = 1;
}

static enum err export_one(struct state *state, struct fs *fs, uint64_t index)
{
    char name[EXPORT_NAME_CAP];
    uint32_t removed;
    enum err err = sample_export(fs, EXPORTS, index, &state->note);

    if (err) return err;
    state->ended = index;
    sample_export_name(index, name);
    return export_prune(fs, EXPORTS, KEEP, name, &removed, &state->note);
}

static enum err export_act(struct state *state, struct fs *fs)
{
    enum err err = export_dir_open(fs, EXPORTS, &state->note);

    for (uint64_t index = 2; !err && index <= 4; index++) {
        state->began = index;
        err = export_one(state, fs, index);
    }
    return err;
}

struct walk {
    struct fs *fs;
    struct note *why;
    bool fine, temporaries;
};

static void check_name(void *context, const char *name, enum fs_kind kind)
{
    struct walk *walk = context;
    char path[FS_PATH_CAP];

    if (name[0] == '.' || strcmp(name, "latest.tmp") == 0) walk->temporaries = true;
    if (kind != FS_DIRECTORY || name[0] == '.' || !walk->fine) return;
    snprintf(path, sizeof path, EXPORTS "/%s", name);
    walk->fine = sample_index_of(walk->fs, path, walk->why) > 0;
}

static bool export_judge(struct state *state, struct note *why)
{
    struct walk walk = {.fs = state->fs, .why = why, .fine = true};
    uint64_t latest = sample_index_of(state->fs, EXPORTS "/latest", why);

    if (latest < state->ended || latest > state->began) {
        note_prefix(why, "latest is %" PRIu64 ", promised %" PRIu64 ", tried %" PRIu64, latest,
                    state->ended, state->began);
        return false;
    }
    /* every file with the name of an export is a whole export */
    CHECK_OK("list", fs_list(state->fs, EXPORTS, check_name, &walk));
    if (!walk.fine) return false;
    /* and it goes on */
    state->note.text[0] = '\0';
    if (export_dir_open(state->fs, EXPORTS, why)) return false;
    walk.temporaries = false;
    CHECK_OK("list", fs_list(state->fs, EXPORTS, check_name, &walk));
    if (walk.temporaries) {
        note_set(why, "temporaries are left");
        return false;
    }
    if (export_one(state, state->fs, 5)) {
        *why = state->note;
        return false;
    }
    return sample_index_of(state->fs, EXPORTS "/latest", why) == 5;
}

TEST(an_export)
{
    static const struct deed deed = {"export", export_prepare, export_act, export_judge};
    sweep(&deed);
}

/* -- save, over an older one -- */

#define SAVED "/kept/saved"

static void save_prepare(struct state *state)
{
    CHECK_OK("a place", fs_make_dirs(state->fs, "/kept", 0755));
    CHECK_OK("older", sample_save(state->fs, SAVED, SAVE_SNAPSHOT, 1, NULL));
    state->began = state->ended = 1;
}

static enum err save_act_as(struct state *state, struct fs *fs, enum save_kind kind)
{
    enum err err;

    state->began = 2;
    err = sample_save(fs, SAVED, kind, 2, &state->note);
    if (!err) state->ended = 2;
    return err;
}

static enum err save_act(struct state *state, struct fs *fs)
{
    return save_act_as(state, fs, SAVE_SNAPSHOT);
}

static enum err backup_act(struct state *state, struct fs *fs)
{
    return save_act_as(state, fs, SAVE_BACKUP);
}

static bool save_judge(struct state *state, struct note *why)
{
    uint64_t found = sample_index_of(state->fs, SAVED, why);

    if (found >= state->ended && found <= state->began && found > 0) return true;
    note_prefix(why, "found %" PRIu64 ", promised %" PRIu64, found, state->ended);
    return false;
}

TEST(a_snapshot_that_is_saved)
{
    static const struct deed deed = {"save", save_prepare, save_act, save_judge};
    sweep(&deed);
}

TEST(saving_a_backup)
{
    static const struct deed deed = {"backup", save_prepare, backup_act, save_judge};
    sweep(&deed);
}

/* -- restore; the directory itself is swept in tests/fault/log -- */

static void restore_prepare(struct state *state)
{
    struct datadir_format_options options = {
        .fs = state->fs, .entropy = &state->entropy.base, .dir = "/data"};

    save_prepare(state);
    CHECK_OK("a replica", datadir_format(&options, &state->before, NULL));
}

static enum err restore(struct state *state, struct fs *fs)
{
    struct archive_restore_options options = {
        .fs = fs, .entropy = &state->entropy.base, .dir = "/data", .address = "h:1"};
    struct archive *archive;
    enum err err = archive_open(fs, SAVED, NULL, &archive, &state->note);

    if (err) return err;
    err = archive_restore(archive, &options, &state->after, &state->note);
    archive_close(archive);
    return err;
}

static enum err restore_act(struct state *state, struct fs *fs)
{
    enum err err = restore(state, fs);

    state->ended = !err;
    return err;
}

static bool restore_judge(struct state *state, struct note *why)
{
    struct datadir found;
    struct buf report;
    enum err err = datadir_read(state->fs, "/data", &found, why);

    if (err == ERR_NOT_READY) { /* says that it is half restored: once more */
        err = restore(state, state->fs);
        if (!err) err = datadir_read(state->fs, "/data", &found, why);
        state->ended = 1;
    }
    if (err) return false;
    if (state->ended == 1 && found.replica_id == state->before.replica_id) {
        note_set(why, "not restored, though promised");
        return false;
    }
    buf_init(&report, 1 << 16);
    err = datadir_check(state->fs, "/data", &report, why);
    buf_deinit(&report);
    return err == ERR_OK;
}

TEST(a_restore)
{
    static const struct deed deed = {"restore", restore_prepare, restore_act, restore_judge};
    sweep(&deed);
}
