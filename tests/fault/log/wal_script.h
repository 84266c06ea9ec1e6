/* SPDX-License-Identifier: Apache-2.0 */
/* A life of a log in steps, with what it has promised after each: run it over a disk that fails or
 * loses power at any call, then ask whether what is found was promised. */
#ifndef TESTS_FAULT_LOG_WAL_SCRIPT_H
#define TESTS_FAULT_LOG_WAL_SCRIPT_H
#include "disk_rig.h"

struct script {
    struct rig rig;
    struct wal *wal;
    struct rig_log promised;
    /* the step that has begun and not ended: any beginning of it may be found */
    struct rig_append appending; /* count 0: none */
    bool resetting;
    uint64_t reset_index, reset_term;
    uint64_t from; /* of what stands before it nothing is promised any more */
    uint64_t term;
    struct note note;
};
void script_init(struct script *script, const struct sim_fs_options *disk, uint64_t seed);
void script_deinit(struct script *script);
/* Runs the steps over `fs`, which leads to the rig's disk, until one fails. */
enum err script_run(struct script *script, struct fs *fs);
/* The process is gone: its handles too. */
void script_drop(struct script *script);
/* Opens the log over the plain disk and compares: false with a note when what is found was not
 * promised, or nothing can be opened. Then the log goes on from what was found. */
bool script_recover(struct script *script, struct note *why);
/* Appends once more, in the length of what was being appended: what a torn tail left must not come
 * back to life behind it. */
bool script_go_on(struct script *script, struct note *why);
#endif
