/* SPDX-License-Identifier: Apache-2.0 */
#include "wal_script.h"

#include <inttypes.h>
#include <string.h>

enum step_kind { APPEND, RESET, SEAL, PUBLISH, RELEASE, UPKEEP, UPKEEP_ONCE, REOPEN };
struct step {
    enum step_kind kind;
    uint64_t back; /* APPEND: replaces that many; RELEASE: keeps that many; RESET: skips */
    size_t count, len;
};
/* With segments of 64 KiB: grows, rolls with and without a spare, replaces over a roll, recycles,
 * writes over what a recycled file held before, a record larger than a segment. */
static const struct step steps[] = {
    {APPEND, 0, 1, 100},   {APPEND, 0, 5, 20},     {UPKEEP_ONCE, 0, 0, 0}, {APPEND, 0, 3, 0},
    {APPEND, 2, 4, 333},   {SEAL, 0, 0, 0},        {PUBLISH, 0, 0, 0},     {APPEND, 0, 10, 3000},
    {APPEND, 0, 12, 3000}, {PUBLISH, 0, 0, 0},     {PUBLISH, 0, 0, 0},     {UPKEEP, 0, 0, 0},
    {APPEND, 0, 1, 70000}, {APPEND, 0, 1, 10},     {RELEASE, 3, 0, 0},     {UPKEEP, 0, 0, 0},
    {APPEND, 0, 20, 3000}, {APPEND, 15, 5, 500},   {APPEND, 0, 6, 500},    {RESET, 100, 0, 0},
    {APPEND, 0, 4, 200},   {REOPEN, 0, 0, 0},      {APPEND, 0, 3, 1000},   {APPEND, 0, 40, 3000},
    {RELEASE, 9, 0, 0},    {UPKEEP_ONCE, 0, 0, 0}, {APPEND, 0, 2, 600},    {UPKEEP, 0, 0, 0},
    {APPEND, 1, 30, 2000}, {SEAL, 0, 0, 0},        {RELEASE, 1, 0, 0},     {UPKEEP, 0, 0, 0},
    {APPEND, 0, 25, 2500}, {PUBLISH, 0, 0, 0},     {APPEND, 0, 2, 64},
};

void script_init(struct script *script, const struct sim_fs_options *disk, uint64_t seed)
{
    memset(script, 0, sizeof *script);
    rig_open(&script->rig, disk, seed);
    script->from = 1;
    script->term = 1;
}

void script_drop(struct script *script)
{
    /* The close writes nothing to the disk, because its handles are dead. */
    wal_close(script->wal);
    script->wal = NULL;
}

void script_deinit(struct script *script)
{
    script_drop(script);
    rig_close(&script->rig);
}

static enum err reopen(struct script *script, struct fs *fs)
{
    static struct rig_log found;
    struct wal_options options = script->rig.options;
    found = (struct rig_log){0};
    options.fs = fs;
    wal_close(script->wal);
    script->wal = NULL;
    enum err err =
        wal_open(&options, false, rig_log_found, &found, &script->wal, NULL, &script->note);
    return err;
}

static enum err append(struct script *script, const struct step *step)
{
    if (step->back > 0) script->term++;
    script->appending = (struct rig_append){
        .index = rig_log_last(&script->promised) + 1 - step->back,
        .term = script->term,
        .count = step->count,
        .len = step->len,
    };
    enum err err = rig_append(script->wal, script->appending, &script->promised, &script->note);
    if (!err) script->appending.count = 0;
    return err;
}

static enum err reset(struct script *script, const struct step *step)
{
    script->term++;
    script->resetting = true;
    script->reset_index = rig_log_last(&script->promised) + step->back;
    script->reset_term = script->term;
    enum err err = wal_reset(script->wal, script->reset_index, script->reset_term, &script->note);
    if (err) return err;
    script->resetting = false;
    rig_log_reset(&script->promised, script->reset_index, script->reset_term);
    return ERR_OK;
}

static enum err release(struct script *script, const struct step *step)
{
    const struct rig_log *log = &script->promised;
    assert(log->count > step->back);
    const struct rig_entry *first = &log->at[log->count - step->back];
    script->from = first->index;
    return wal_release(script->wal, first->place.sequence, &script->note);
}

static enum err upkeep(struct script *script)
{
    enum err err = ERR_OK;
    while (!err && wal_wants_spare(script->wal)) err = wal_prepare(script->wal, &script->note);
    return err;
}

enum err script_run(struct script *script, struct fs *fs)
{
    enum err err = reopen(script, fs);
    for (size_t i = 0; i < ARRAY_LEN(steps) && !err; i++) {
        switch (steps[i].kind) {
        case APPEND: err = append(script, &steps[i]); break;
        case RESET: err = reset(script, &steps[i]); break;
        case SEAL: err = wal_seal(script->wal, &script->note); break;
        case PUBLISH: err = wal_publish(script->wal, &script->note); break;
        case RELEASE: err = release(script, &steps[i]); break;
        case UPKEEP: err = upkeep(script); break;
        case UPKEEP_ONCE: err = wal_prepare(script->wal, &script->note); break;
        case REOPEN: err = reopen(script, fs); break;
        }
    }
    return err;
}

/* -- judging -- */

/* Makes the found state the promised one, if it is one of the allowed states. */
static bool settle(struct script *script, const struct rig_log *found)
{
    static struct rig_log state;
    if (rig_log_equal(&script->promised, found, script->from)) return true;
    state = script->promised;
    if (script->resetting) {
        rig_log_reset(&state, script->reset_index, script->reset_term);
        if (!rig_log_equal(&state, found, script->from)) return false;
        script->promised = state;
        return true;
    }
    for (size_t i = 0; i < script->appending.count; i++) {
        rig_log_put(&state, script->appending.index + i, script->appending.term, ENTRY_COMMAND,
                    script->appending.len);
        if (rig_log_equal(&state, found, script->from)) {
            script->promised = state;
            return true;
        }
    }
    return false;
}

bool script_recover(struct script *script, struct note *why)
{
    static struct rig_log found;
    found = (struct rig_log){0};
    assert(!script->wal);
    enum err err = wal_open(&script->rig.options, false, rig_log_found, &found, &script->wal, NULL,
                            &script->note);
    if (err) {
        note_set(why, "cannot be opened: %s: %s", err_name(err), script->note.text);
        return false;
    }
    if (found.wrong) {
        note_set(why, "entry %" PRIu64 " has other bytes than were written", found.wrong);
        return false;
    }
    if (!settle(script, &found)) {
        note_set(why,
                 "found up to %" PRIu64 " (%zu), promised up to %" PRIu64 " (%zu), from %" PRIu64,
                 rig_log_last(&found), found.count, rig_log_last(&script->promised),
                 script->promised.count, script->from);
        return false;
    }
    for (size_t i = 0; i < script->promised.count; i++) /* places for a later release */
        for (size_t j = 0; j < found.count; j++)
            if (found.at[j].index == script->promised.at[i].index)
                script->promised.at[i].place = found.at[j].place;
    script->resetting = false;
    return true;
}

bool script_go_on(struct script *script, struct note *why)
{
    size_t len = script->appending.count > 0 ? script->appending.len : 100;
    script->term += 10;
    script->appending = (struct rig_append){
        .index = rig_log_last(&script->promised) + 1, .term = script->term, .count = 1, .len = len};
    enum err err = rig_append(script->wal, script->appending, &script->promised, &script->note);
    script->appending.count = 0;
    if (err) note_set(why, "cannot go on: %s: %s", err_name(err), script->note.text);
    return !err;
}
