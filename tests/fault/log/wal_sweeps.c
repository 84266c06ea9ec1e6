/* SPDX-License-Identifier: Apache-2.0 */
#include "wal_sweeps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/fault_fs.h"
#include "wal_script.h"

/* Effects of a power cut on bytes that were not synced. */
static const struct sim_fs_options disks[] = {
    {.write_lost_per_million = 1000000},
    {.write_torn_per_million = 1000000},
    {.write_lost_per_million = 300000,
     .write_torn_per_million = 400000,
     .name_lost_per_million = 500000},
    {.write_lost_per_million = 400000,
     .write_torn_per_million = 200000,
     .name_lost_per_million = 400000,
     .reorder_names = true},
};

static struct script script; /* too large for a stack */

/* -- the power goes just before call `k` -- */

static bool power_cut_at(const struct sim_fs_options *disk, uint64_t seed, uint64_t k,
                         bool *ret_reached, struct note *why)
{
    struct fault_fs fault;
    script_init(&script, disk, seed);
    fault_fs_init(&fault, script.rig.fs);
    fault_fs_arm(&fault, (struct fault_fs_plan){
                             .calls = FAULT_FS_ANY, .nth = k, .err = ERR_IO, .from_then_on = true});
    enum err err = script_run(&script, fault_fs_fs(&fault));
    *ret_reached = fault_fs_fired(&fault);
    bool fine = *ret_reached || err == ERR_OK;
    if (!fine) note_set(why, "failed by itself: %s: %s", err_name(err), script.note.text);
    sim_fs_crash(script.rig.disk);
    script_drop(&script);
    if (fine) fine = script_recover(&script, why);
    /* Entries that recovery returned are promised from then on, and so are later ones. */
    for (int cuts = 0; fine && cuts < 2; cuts++) {
        fine = script_go_on(&script, why);
        sim_fs_crash(script.rig.disk);
        script_drop(&script);
        if (fine && !(fine = script_recover(&script, why))) note_prefix(why, "after going on");
    }
    script_deinit(&script);
    return fine;
}

bool sweep_power_cuts(uint64_t seeds, struct note *why)
{
    for (size_t d = 0; d < ARRAY_LEN(disks); d++)
        for (uint64_t seed = 1; seed <= seeds; seed++) {
            bool reached = true;
            for (uint64_t k = 1; reached; k++)
                if (!power_cut_at(&disks[d], seed, k, &reached, why)) {
                    note_prefix(why, "disk %zu, seed %" PRIu64 ", call %" PRIu64, d, seed, k);
                    return false;
                }
        }
    return true;
}

/* -- power cuts while recovering from a power cut -- */

static bool power_cut_recovering(const struct sim_fs_options *disk, uint64_t seed, uint64_t first,
                                 uint64_t second, bool *ret_reached, struct note *why)
{
    struct fault_fs fault;
    static struct rig_log found;
    script_init(&script, disk, seed);
    fault_fs_init(&fault, script.rig.fs);
    struct fault_fs_plan plan = {
        .calls = FAULT_FS_ANY, .nth = first, .err = ERR_IO, .from_then_on = true};
    fault_fs_arm(&fault, plan);
    (void)script_run(&script, fault_fs_fs(&fault));
    sim_fs_crash(script.rig.disk);
    script_drop(&script);

    struct wal_options options = script.rig.options;
    struct wal *wal = NULL;
    options.fs = fault_fs_fs(&fault);
    plan.nth = second;
    fault_fs_arm(&fault, plan);
    found = (struct rig_log){0};
    enum err err = wal_open(&options, false, rig_log_found, &found, &wal, NULL, &script.note);
    *ret_reached = fault_fs_fired(&fault);
    bool fine = *ret_reached || !err;
    if (!fine) note_set(why, "cannot be opened: %s", script.note.text);
    sim_fs_crash(script.rig.disk);
    wal_close(wal);
    if (fine) fine = script_recover(&script, why);
    script_deinit(&script);
    return fine;
}

bool sweep_power_cuts_recovering(uint64_t seeds, struct note *why)
{
    for (size_t d = 0; d < ARRAY_LEN(disks); d++)
        for (uint64_t seed = 1; seed <= seeds; seed++)
            for (uint64_t first = 7; first < 250; first += 13) {
                bool reached = true;
                for (uint64_t second = 1; reached; second++)
                    if (!power_cut_recovering(&disks[d], seed, first, second, &reached, why)) {
                        note_prefix(why, "disk %zu, seed %" PRIu64 ", calls %" PRIu64 ", %" PRIu64,
                                    d, seed, first, second);
                        return false;
                    }
            }
    return true;
}

/* -- call `nth` of a kind fails once -- */

/* Every later operation fails, too. */
static bool is_final(struct wal *wal, enum err err, struct note *why)
{
    struct entry entry = {.index = 1, .term = 1, .kind = ENTRY_BARRIER, .bytes = STR_EMPTY};
    struct wal_place place;
    struct note note;
    bool final = wal_append(wal, &entry, 1, &place, &note) == err &&
                 wal_reset(wal, 1000000, 1, &note) == err && wal_seal(wal, &note) == err &&
                 wal_publish(wal, &note) == err && wal_prepare(wal, &note) == err &&
                 wal_release(wal, 1, &note) == err && !wal_wants_spare(wal);
    if (!final) note_set(why, "goes on after %s", err_name(err));
    return final;
}

static bool failure_at(enum sim_fs_call call, uint64_t seed, uint64_t nth, bool power,
                       bool *ret_reached, struct note *why)
{
    struct sim_fs_options disk = disks[2];
    disk.failed_sync_drops_per_million = 700000;
    script_init(&script, &disk, seed);
    sim_fs_fail_once(script.rig.disk, call, nth, ERR_IO);
    enum err err = script_run(&script, script.rig.fs);
    *ret_reached = err != ERR_OK;
    sim_fs_fail_once(script.rig.disk, call, 0, ERR_OK);
    bool fine = !err || err == ERR_IO;
    if (!fine) note_set(why, "%s: %s", err_name(err), script.note.text);
    if (fine && err && !script.note.text[0]) {
        fine = false;
        note_set(why, "fails without saying where");
    }
    if (fine && err && script.wal) fine = is_final(script.wal, err, why);
    if (power)
        sim_fs_crash(script.rig.disk);
    else
        sim_fs_process_died(script.rig.disk);
    script_drop(&script);
    if (fine) fine = script_recover(&script, why);
    /* The found entries must be on the disk, not only in the kernel's memory. */
    if (fine) {
        script.appending.count = 0;
        sim_fs_crash(script.rig.disk);
        script_drop(&script);
        if (!(fine = script_recover(&script, why))) note_prefix(why, "after a power cut");
    }
    script_deinit(&script);
    return fine;
}

bool sweep_failures(uint64_t seeds, struct note *why)
{
    for (int call = 0; call < SIM_FS_CALL_COUNT; call++)
        for (uint64_t seed = 1; seed <= seeds; seed++)
            for (int power = 0; power < 2; power++) {
                bool reached = true;
                for (uint64_t nth = 1; reached; nth++)
                    if (!failure_at((enum sim_fs_call)call, seed, nth, power, &reached, why)) {
                        note_prefix(why, "call %" PRIu64 " of kind %d, seed %" PRIu64 ", %s", nth,
                                    call, seed, power ? "power cut" : "killed");
                        return false;
                    }
            }
    return true;
}

/* -- damage -- */

struct where {
    struct wal_place place[RIG_ENTRIES_MAX];
    size_t count;
};

static enum err note_place(void *context, const struct wal_found *found)
{
    struct where *where = context;
    if (where->count < RIG_ENTRIES_MAX) where->place[where->count++] = found->place;
    return ERR_OK;
}

static bool flip(struct rig *rig, const struct wal_place *place, uint64_t at, int bit)
{
    char path[64], byte = 0;
    struct fs_file *file;
    size_t got;
    snprintf(path, sizeof path, RIG_DIR "/log/%016" PRIx64 ".seg", place->sequence);
    if (fs_open(rig->fs, path, FS_READ | FS_WRITE, 0, &file)) return false;
    enum err err = fs_read_at(rig->fs, file, place->offset + at, &byte, 1, &got);
    byte = (char)(byte ^ 1 << bit);
    if (!err) err = fs_write_at(rig->fs, file, place->offset + at, str_of(&byte, 1));
    fs_close(rig->fs, file);
    return !err;
}

bool sweep_damage(uint64_t seeds, struct note *why)
{
    static struct where where;
    static struct rig_log found;
    struct prng prng;
    bool fine = true;
    prng_seed(&prng, 1);
    script_init(&script, &disks[0], 1);
    enum err err = script_run(&script, script.rig.fs);
    script_drop(&script); /* which seals it */
    where.count = 0;
    struct wal *wal = NULL;
    if (!err) err = wal_open(&script.rig.options, true, note_place, &where, &wal, NULL, why);
    wal_close(wal);
    if (err) note_set(why, "no life to damage: %s", err_name(err));
    for (uint64_t i = 0; i < seeds * 20 && !err && fine; i++) {
        const struct wal_place *place = &where.place[prng_below(&prng, where.count)];
        uint64_t at = prng_below(&prng, place->size);
        int bit = (int)prng_below(&prng, 8);
        char want[64];
        struct note note = {""};
        wal = NULL;
        found = (struct rig_log){0};
        fine = flip(&script.rig, place, at, bit);
        enum err answer =
            wal_open(&script.rig.options, true, rig_log_found, &found, &wal, NULL, &note);
        wal_close(wal);
        snprintf(want, sizeof want, "%016" PRIx64 ".seg: offset %" PRIu32 ":", place->sequence,
                 place->offset);
        if (fine && (answer != ERR_CORRUPT || !strstr(note.text, want))) {
            note_set(why, "damage at %s %" PRIu64 ": %s: %.100s", want, at, err_name(answer),
                     note.text);
            fine = false;
        }
        if (!flip(&script.rig, place, at, bit)) fine = false;
    }
    script_deinit(&script);
    return fine && !err;
}
