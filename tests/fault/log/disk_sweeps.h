/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps over all files besides the log: a power cut or a failed call at each call of a
 * scenario in turn. False, with a note, at the first state that breaks a promise. */
#ifndef TESTS_FAULT_LOG_DISK_SWEEPS_H
#define TESTS_FAULT_LOG_DISK_SWEEPS_H
#include "base/note.h"

struct deed;
extern const struct deed deed_votes, deed_snapshots, deed_install, deed_format, deed_adopt,
    deed_force, deed_rejoin, deed_restore, deed_restore_new;
bool sweep_deed(const struct deed *deed, uint64_t seeds, struct note *why);
#endif
