/* SPDX-License-Identifier: Apache-2.0 */
/* A life of a log in steps, with the promised state after each: run it over a disk that fails or
 * loses power at any call, then compare the found state with the promised one. */
#ifndef TESTS_FAULT_LOG_WAL_SCRIPT_H
#define TESTS_FAULT_LOG_WAL_SCRIPT_H
#include "disk_rig.h"

struct script {
    struct rig rig;
    struct wal *wal;
    struct rig_log promised;
    /* the step that has begun and not ended: recovery may find any beginning of it */
    struct rig_append appending; /* count 0: none */
    bool resetting;
    uint64_t reset_index, reset_term;
    uint64_t from; /* nothing is promised any more of entries before it */
    uint64_t term;
    struct note note;
};
void script_init(struct script *script, const struct sim_fs_options *disk, uint64_t seed);
void script_deinit(struct script *script);
/* Runs the steps over `fs`, which leads to the rig's disk, until one fails. */
enum err script_run(struct script *script, struct fs *fs);
/* The process has ended, and its handles with it. */
void script_drop(struct script *script);
/* Opens the log over the plain disk and compares: false with a note when the found state was not
 * promised, or the log cannot be opened. Then the log continues from the found state. */
bool script_recover(struct script *script, struct note *why);
/* Appends once more, as many bytes as the interrupted append: the rest of a torn tail must not
 * become valid behind the new entry. */
bool script_go_on(struct script *script, struct note *why);
#endif
