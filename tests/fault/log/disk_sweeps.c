/* SPDX-License-Identifier: Apache-2.0 */
#include "disk_sweeps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "disk_rig.h"
#include "lib/fault_fs.h"
#include "log/datadir_internal.h"
#include "log/envelope.h"
#include "log/meta.h"
#include "snap_rig.h"

/* The state of a scenario; `began` and `ended` count its steps. */
struct state {
    struct rig rig;
    uint64_t began, ended;
    struct datadir before, after;
    char sent[16384]; /* a snapshot of a peer */
    size_t sent_len;
    struct note note;
};
struct deed {
    const char *name;
    void (*prepare)(struct state *state); /* over a disk that works, and durably */
    enum err (*act)(struct state *state, struct fs *fs);
    bool (*judge)(struct state *state, struct note *why); /* over a disk that works again */
};

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

static void state_open(struct state *state, const struct deed *deed,
                       const struct sim_fs_options *options, uint64_t seed)
{
    memset(state, 0, sizeof *state);
    rig_open(&state->rig, options, seed);
    if (deed->prepare) deed->prepare(state);
}

static bool judged(struct state *state, const struct deed *deed, enum err err, bool expected,
                   struct note *why)
{
    if (err && !expected) {
        note_set(why, "failed by itself: %s: %s", err_name(err), state->note.text);
        return false;
    }
    if (err && !state->note.text[0]) {
        note_set(why, "%s without saying where", err_name(err));
        return false;
    }
    if (!deed->judge(state, why)) return false;
    /* A state that was read once must be read after the next power cut, too. */
    state->began = state->ended;
    sim_fs_crash(state->rig.disk);
    sim_fs_reclaim(state->rig.disk);
    if (deed->judge(state, why)) return true;
    note_prefix(why, "after another power cut");
    return false;
}

static bool power_cut(const struct deed *deed, const struct sim_fs_options *disk, uint64_t seed,
                      uint64_t k, bool *ret_reached, struct note *why)
{
    static struct state state;
    struct fault_fs fault;
    state_open(&state, deed, disk, seed);
    fault_fs_init(&fault, state.rig.fs);
    fault_fs_arm(&fault, (struct fault_fs_plan){
                             .calls = FAULT_FS_ANY, .nth = k, .err = ERR_IO, .from_then_on = true});
    enum err err = deed->act(&state, fault_fs_fs(&fault));
    *ret_reached = fault_fs_fired(&fault);
    sim_fs_crash(state.rig.disk);
    sim_fs_reclaim(state.rig.disk);
    bool fine = judged(&state, deed, err, *ret_reached, why);
    rig_close(&state.rig);
    return fine;
}

static bool failure(const struct deed *deed, enum sim_fs_call call, uint64_t seed, uint64_t nth,
                    bool power, bool *ret_reached, struct note *why)
{
    static struct state state;
    struct sim_fs_options disk = disks[2];
    disk.failed_sync_drops_per_million = 700000;
    state_open(&state, deed, &disk, seed);
    uint64_t before = sim_fs_stats(state.rig.disk).failures;
    sim_fs_fail_once(state.rig.disk, call, nth, ERR_IO);
    enum err err = deed->act(&state, state.rig.fs);
    *ret_reached = sim_fs_stats(state.rig.disk).failures > before;
    sim_fs_fail_once(state.rig.disk, call, 0, ERR_OK);
    if (power)
        sim_fs_crash(state.rig.disk);
    else
        sim_fs_process_died(state.rig.disk);
    sim_fs_reclaim(state.rig.disk);
    bool fine = judged(&state, deed, err, *ret_reached, why);
    rig_close(&state.rig);
    return fine;
}

bool sweep_deed(const struct deed *deed, uint64_t seeds, struct note *why)
{
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        bool reached;
        for (size_t d = 0; d < ARRAY_LEN(disks); d++) {
            reached = true;
            for (uint64_t k = 1; reached; k++)
                if (!power_cut(deed, &disks[d], seed, k, &reached, why)) {
                    note_prefix(why, "%s, seed %" PRIu64 ", disk %zu, power cut at call %" PRIu64,
                                deed->name, seed, d, k);
                    return false;
                }
        }
        for (int kind = 0; kind < 2 * SIM_FS_CALL_COUNT; kind++) {
            reached = true;
            for (uint64_t nth = 1; reached; nth++)
                if (!failure(deed, (enum sim_fs_call)(kind / 2), seed, nth, kind % 2, &reached,
                             why)) {
                    note_prefix(why, "%s, seed %" PRIu64 ", call %" PRIu64 " of kind %d fails%s",
                                deed->name, seed, nth, kind / 2, kind % 2 ? ", power cut" : "");
                    return false;
                }
        }
    }
    return true;
}

/* -- votes: step n writes term n for candidate 10 n -- */

static enum err votes_act(struct state *state, struct fs *fs)
{
    struct vote_file *file;
    struct vote vote;
    enum err err = vote_open(fs, RIG_DIR, false, &file, &vote, &state->note);
    while (!err && state->ended < 6) {
        state->began++;
        err = vote_write(file, (struct vote){state->began, 10 * state->began}, &state->note);
        if (!err) state->ended++;
        if (state->ended == 3 && !err) { /* closes and opens the file in the middle */
            vote_close(file);
            file = NULL;
            err = vote_open(fs, RIG_DIR, false, &file, &vote, &state->note);
            if (err) return err;
        }
        if (err) vote_close(file);
    }
    if (!err) vote_close(file);
    return err;
}

static bool votes_judge(struct state *state, struct note *why)
{
    struct vote_file *file;
    struct vote vote;
    if (vote_open(state->rig.fs, RIG_DIR, false, &file, &vote, why)) return false;
    vote_close(file);
    bool fine =
        vote.candidate == 10 * vote.term && vote.term >= state->ended && vote.term <= state->began;
    if (!fine)
        note_set(why, "vote of term %" PRIu64 ", promised %" PRIu64 ", tried %" PRIu64, vote.term,
                 state->ended, state->began);
    state->ended = vote.term; /* a later read must find this term */
    return fine;
}

const struct deed deed_votes = {"votes", NULL, votes_act, votes_judge};

/* -- snapshots: step n writes one at index n, the older ones go -- */

static enum err snapshots_act(struct state *state, struct fs *fs)
{
    enum err err = ERR_OK;
    while (!err && state->ended < 3) {
        struct snap_head head = snap_rig_head(state->began + 1);
        state->began++;
        err = snap_rig_write(fs, RIG_DIR, state->began, state->began, &state->note);
        if (!err) state->ended++;
        if (!err) err = snap_remove_older(fs, RIG_DIR, &head.mark, &state->note);
    }
    return err;
}

static bool snapshots_judge(struct state *state, struct note *why)
{
    char name[SNAP_NAME_CAP], path[128];
    struct snap_head head = {.mark = {.index = 0}};
    if (snap_sweep(state->rig.fs, RIG_DIR, why)) return false;
    enum err err = snap_newest(state->rig.fs, RIG_DIR, name, &head, why);
    if (!err) {
        snprintf(path, sizeof path, RIG_DIR "/snap/%s", name);
        err = snap_rig_compare(state->rig.fs, path, head.mark.index, why);
    }
    if (err && err != ERR_NOT_FOUND) return false;
    if (head.mark.index < state->ended || head.mark.index > state->began) {
        note_set(why, "snapshot %" PRIu64 ", promised %" PRIu64 ", tried %" PRIu64, head.mark.index,
                 state->ended, state->began);
        return false;
    }
    state->ended = head.mark.index;
    return true;
}

const struct deed deed_snapshots = {"snapshots", NULL, snapshots_act, snapshots_judge};

/* -- install: snapshot 1 is ours, snapshot 2 arrives in pieces -- */

static void install_prepare(struct state *state)
{
    struct snap_head head = snap_rig_head(2);
    char name[SNAP_NAME_CAP], path[128];
    struct buf bytes;
    snap_name(&head.mark, name);
    snprintf(path, sizeof path, "/peer/snap/%s", name);
    CHECK_OK("ours", snap_rig_write(state->rig.fs, RIG_DIR, 1, 1, NULL));
    CHECK_OK("theirs", fs_make_dirs(state->rig.fs, "/peer/snap", 0700));
    CHECK_OK("theirs", snap_rig_write(state->rig.fs, "/peer", 2, 1, NULL));
    buf_init(&bytes, sizeof state->sent);
    CHECK_OK("theirs", fs_read_whole(state->rig.fs, path, sizeof state->sent, &bytes));
    memcpy(state->sent, bytes.data, bytes.len);
    state->sent_len = bytes.len;
    buf_deinit(&bytes);
    state->began = state->ended = 1;
}

static enum err install_act(struct state *state, struct fs *fs)
{
    struct snap_inbox *inbox;
    struct snap_head head;
    state->began = 2;
    enum err err = snap_inbox_open(fs, RIG_DIR, 1, &inbox, &state->note);
    for (size_t at = 0; !err && at < state->sent_len; at += 1000) {
        struct str piece = str_of(state->sent + at, min_size(1000, state->sent_len - at));
        err = snap_inbox_write(inbox, at, piece, &state->note);
        if (err) snap_inbox_drop(inbox);
    }
    if (err) return err;
    err = snap_inbox_check(inbox, &head, &state->note);
    if (err) {
        snap_inbox_drop(inbox);
        return err;
    }
    err = snap_inbox_keep(inbox, &state->note);
    if (!err) state->ended = 2;
    if (!err) err = snap_remove_older(fs, RIG_DIR, &head.mark, &state->note);
    return err;
}

const struct deed deed_install = {"install", install_prepare, install_act, snapshots_judge};

/* -- the data directory -- */

#define DATA "/made/data"

struct held { /* the content of DATA's log */
    size_t entries, changes;
    uint64_t last_term;
    bool recovers; /* the last entry does */
};

static enum err count_entry(void *context, const struct wal_found *found)
{
    struct held *held = context;
    held->entries++;
    held->changes += found->entry.kind == ENTRY_CHANGE;
    held->last_term = found->entry.term;
    struct log_envelope envelope;
    struct machine_recovery recovery;
    held->recovers = !found->reset && found->entry.kind == ENTRY_COMMAND &&
                     !envelope_parse(found->entry.bytes, &envelope, NULL) &&
                     meta_recovery(envelope.command, &recovery);
    return ERR_OK;
}

static bool look_at(struct state *state, const struct datadir *datadir, struct held *ret_held,
                    struct vote *ret_vote, struct note *why)
{
    struct vote_file *file;
    struct wal *wal;
    struct wal_options options = {.fs = state->rig.fs,
                                  .dir = DATA,
                                  .entropy = &state->rig.entropy.base,
                                  .replica_id = datadir->replica_id};
    *ret_held = (struct held){0};
    if (vote_open(state->rig.fs, DATA, false, &file, ret_vote, why)) return false;
    vote_close(file);
    if (wal_open(&options, false, count_entry, ret_held, &wal, NULL, why)) return false;
    wal_close(wal);
    return true;
}

static enum err format(struct state *state, struct fs *fs)
{
    struct members founders = {.count = 1};
    founders.at[0].role = MEMBER_VOTER;
    memcpy(founders.at[0].address, "host:1", 7);
    return datadir_format(
        &(struct datadir_format_options){
            .fs = fs, .entropy = &state->rig.entropy.base, .dir = DATA, .founders = &founders},
        &state->after, &state->note);
}

static enum err format_act(struct state *state, struct fs *fs)
{
    state->began = 1;
    enum err err = format(state, fs);
    if (!err) state->ended = 1;
    return err;
}

static bool format_judge(struct state *state, struct note *why)
{
    struct datadir found;
    struct held held;
    struct vote vote;
    enum err err = datadir_read(state->rig.fs, DATA, &found, why);
    if (err == ERR_NOT_FOUND && state->ended == 0) { /* not created: format must succeed */
        err = format(state, state->rig.fs);
        if (err) {
            *why = state->note;
            note_prefix(why, "made anew");
            return false;
        }
        found = state->after;
    } else if (err) {
        return false;
    }
    if (!look_at(state, &found, &held, &vote, why)) return false;
    state->ended = 1;
    if (held.entries == 1 && held.changes == 1 && vote.term == 1) return true;
    note_set(why, "%zu entries, term %" PRIu64, held.entries, vote.term);
    return false;
}

const struct deed deed_format = {"format", NULL, format_act, format_judge};

static void adopt_prepare(struct state *state)
{
    struct datadir_format_options options = {
        .fs = state->rig.fs, .entropy = &state->rig.entropy.base, .dir = DATA};
    CHECK_OK("made", datadir_format(&options, &state->before, NULL));
}

static enum err adopt_act(struct state *state, struct fs *fs)
{
    state->began = 1;
    enum err err = datadir_adopt(fs, DATA, 77, 1, &state->note);
    if (!err) state->ended = 1;
    return err;
}

static bool adopt_judge(struct state *state, struct note *why)
{
    struct datadir found;
    if (datadir_read(state->rig.fs, DATA, &found, why)) return false;
    bool adopted = found.cluster_id == 77;
    if (found.replica_id == state->before.replica_id && (adopted || found.cluster_id == 0) &&
        (adopted || state->ended == 0)) {
        state->ended = adopted;
        return true;
    }
    note_set(why, "cluster %" PRIu64, found.cluster_id);
    return false;
}

const struct deed deed_adopt = {"adopt", adopt_prepare, adopt_act, adopt_judge};

/* Five entries behind the configuration, a snapshot at 3. */
static void tools_prepare(struct state *state)
{
    struct wal *wal;
    CHECK_OK("made", format(state, state->rig.fs));
    state->before = state->after;
    struct wal_options options = {.fs = state->rig.fs,
                                  .dir = DATA,
                                  .entropy = &state->rig.entropy.base,
                                  .replica_id = state->before.replica_id};
    CHECK_OK("open", wal_open(&options, false, NULL, NULL, &wal, NULL, NULL));
    CHECK_OK("append", rig_append(wal, (struct rig_append){2, 1, 5, 100}, NULL, NULL));
    wal_close(wal);
    CHECK_OK("snapshot", snap_rig_write(state->rig.fs, DATA, 3, 1, NULL));
}

static enum err force(struct state *state, struct fs *fs)
{
    struct datadir_force how = {.fs = fs, .entropy = &state->rig.entropy.base, .dir = DATA};
    return datadir_force_config(&how, &state->after, &state->note);
}

static enum err force_act(struct state *state, struct fs *fs)
{
    state->began = 1;
    enum err err = force(state, fs);
    if (!err) state->ended = 1;
    return err;
}

static bool force_judge(struct state *state, struct note *why)
{
    struct datadir found;
    struct held held;
    struct vote vote;
    enum err err = datadir_read(state->rig.fs, DATA, &found, why);
    if (err == ERR_NOT_READY) { /* no replica starts from it, and the repeat must finish */
        err = force(state, state->rig.fs);
        if (err) {
            *why = state->note;
            note_prefix(why, "finished");
            return false;
        }
        err = datadir_read(state->rig.fs, DATA, &found, why);
    }
    if (err || !look_at(state, &found, &held, &vote, why)) return false;
    bool forced = found.cluster_id != state->before.cluster_id;
    bool old_whole = held.entries == 6 && held.changes == 1 && vote.term == 1;
    bool new_whole = held.entries >= 8 && held.recovers && held.changes >= 2 && vote.term >= 2 &&
                     vote.candidate == found.replica_id && held.last_term == vote.term;
    if (found.replica_id == state->before.replica_id && (forced ? new_whole : old_whole) &&
        (forced || state->ended == 0)) {
        state->ended = forced;
        return true;
    }
    note_set(why, "forced %d, %zu entries, term %" PRIu64, forced, held.entries, vote.term);
    return false;
}

const struct deed deed_force = {"force-config", tools_prepare, force_act, force_judge};

static enum err rejoin_act(struct state *state, struct fs *fs)
{
    struct datadir old;
    state->began = 1;
    enum err err =
        datadir_rejoin(fs, &state->rig.entropy.base, DATA, &old, &state->after, &state->note);
    if (!err) state->ended = 1;
    return err;
}

static bool exists(struct state *state, const char *path)
{
    struct fs_info info;
    return fs_stat(state->rig.fs, path, &info) == ERR_OK;
}

static bool rejoin_judge(struct state *state, struct note *why)
{
    struct datadir found, old;
    struct held held;
    struct vote vote;
    char aside[128];
    enum err err = datadir_read(state->rig.fs, DATA, &found, why);
    if (err == ERR_NOT_READY) {
        err = datadir_rejoin(state->rig.fs, &state->rig.entropy.base, DATA, &old, &found, why);
        if (err) {
            note_prefix(why, "finished");
            return false;
        }
        state->ended = 1;
        err = datadir_read(state->rig.fs, DATA, &found, why);
    }
    if (err || !look_at(state, &found, &held, &vote, why)) return false;
    bool another = found.replica_id != state->before.replica_id;
    bool empty = held.entries == 0 && vote.term == 0;
    bool whole = held.entries == 6 && vote.term == 1;
    const char *snapshot = DATA "/snap/0000000000000003-0000000000000001.snap";
    snprintf(aside, sizeof aside,
             DATA "/damaged-%016" PRIx64 "/snap/0000000000000003-0000000000000001.snap",
             state->before.replica_id);
    if (found.cluster_id == (another ? 0 : state->before.cluster_id) && (another ? empty : whole) &&
        (another || state->ended == 0) && exists(state, another ? aside : snapshot) &&
        !exists(state, another ? snapshot : aside)) {
        state->ended = another;
        return true;
    }
    note_set(why, "another identity %d, %zu entries, term %" PRIu64, another, held.entries,
             vote.term);
    return false;
}

const struct deed deed_rejoin = {"rejoin", tools_prepare, rejoin_act, rejoin_judge};

/* -- restore: over a directory in use, and over an empty one -- */

struct sections { /* two, of several chunks each */
    unsigned given;
};
enum { PIECES = 4 };

static enum err sections_next(void *owner, uint32_t *ret_section, struct buf *into,
                              struct note *note)
{
    struct sections *sections = owner;
    (void)note;
    *ret_section = sections->given < PIECES / 2 ? 2 : 3;
    if (sections->given == PIECES) *ret_section = DATADIR_SECTIONS_END;
    if (sections->given == PIECES) return ERR_OK;
    return buf_appendf(into, "piece %u of the backup", sections->given++);
}

static enum err restore(struct state *state, struct fs *fs)
{
    struct sections sections = {0};
    struct datadir_restore how = {
        .fs = fs,
        .entropy = &state->rig.entropy.base,
        .dir = DATA,
        .address = "restored:1",
        .index = 12,
        .term = 7,
        .clock_ns = 99,
        .level = 1,
        .next = sections_next,
        .owner = &sections,
    };
    return datadir_restore(&how, &state->after, &state->note);
}

static enum err restore_act(struct state *state, struct fs *fs)
{
    state->began = 1;
    enum err err = restore(state, fs);
    if (!err) state->ended = 1;
    return err;
}

static bool restored_snapshot(struct state *state, const struct datadir *found, struct note *why)
{
    struct snap_reader *reader;
    struct snap_head head;
    struct buf chunk;
    uint32_t section = 0;
    unsigned pieces = 0;
    enum err err = snap_open(state->rig.fs, DATA "/snap/000000000000000c-0000000000000007.snap",
                             &reader, &head, why);
    if (err) return false;
    bool fine = head.mark.index == 12 && head.mark.term == 7 && head.mark.members.count == 1 &&
                head.mark.members.at[0].id == found->replica_id && head.clock_ns == 99 &&
                head.cluster_id == found->cluster_id;
    buf_init(&chunk, SNAP_CHUNK_MAX);
    while (!err) {
        err = snap_read(reader, &chunk, &section, why);
        if (err || section == UINT32_MAX) break;
        fine = fine && section == (pieces < PIECES / 2 ? 2u : 3u);
        pieces++;
    }
    buf_deinit(&chunk);
    snap_close(reader);
    return !err && fine && pieces == PIECES;
}

static bool restore_judge(struct state *state, struct note *why)
{
    struct datadir found = {.replica_id = 0};
    struct held held;
    struct vote vote;
    bool had = state->before.replica_id != 0;
    enum err err = datadir_read(state->rig.fs, DATA, &found, why);
    if (err == ERR_NOT_FOUND && !had && state->ended == 0) return true; /* as it was */
    if (err == ERR_NOT_READY) {
        /* no other command may succeed */
        if (format(state, state->rig.fs) != ERR_NOT_READY) {
            note_set(why, "a half restored directory can be formatted");
            return false;
        }
        err = restore(state, state->rig.fs);
        if (err) {
            *why = state->note;
            note_prefix(why, "run again");
            return false;
        }
        err = datadir_read(state->rig.fs, DATA, &found, why);
    }
    if (err || !look_at(state, &found, &held, &vote, why)) return false;
    bool restored = found.replica_id != state->before.replica_id;
    bool new_whole = held.entries == 1 && vote.term == 7 && vote.candidate == 0 &&
                     found.cluster_id != state->before.cluster_id &&
                     restored_snapshot(state, &found, why);
    bool old_whole = had && held.entries == 6 && vote.term == 1 &&
                     exists(state, DATA "/snap/0000000000000003-0000000000000001.snap");
    if ((restored ? new_whole : old_whole) && (restored || state->ended == 0)) {
        state->ended = restored;
        return true;
    }
    note_set(why, "restored %d, %zu entries, term %" PRIu64, restored, held.entries, vote.term);
    return false;
}

const struct deed deed_restore = {"restore", tools_prepare, restore_act, restore_judge};
const struct deed deed_restore_new = {"restore into nothing", NULL, restore_act, restore_judge};
