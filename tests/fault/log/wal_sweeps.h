/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps over a life of the log (wal_script.h): false, with a note, at the first broken
 * promise. The test of the shipped library and the test of the planted bugs share them. */
#ifndef TESTS_FAULT_LOG_WAL_SWEEPS_H
#define TESTS_FAULT_LOG_WAL_SWEEPS_H
#include "base/note.h"

bool sweep_power_cuts(uint64_t seeds, struct note *why);            /* just before each call */
bool sweep_power_cuts_recovering(uint64_t seeds, struct note *why); /* and again while opening */
bool sweep_failures(uint64_t seeds, struct note *why);              /* each call fails once */
/* After a life that ended well, a bit changes somewhere in the acknowledged entries. */
bool sweep_damage(uint64_t seeds, struct note *why);
#endif
