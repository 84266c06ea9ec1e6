/* SPDX-License-Identifier: Apache-2.0 */
/* Invariants of the shard's state, each compared with a walk over all of it. False with what is
 * wrong in the note. */
#ifndef TESTS_LIB_SHARD_CHECK_H
#define TESTS_LIB_SHARD_CHECK_H
#include "shard/core/core.h"
#include "shard/state/needs.h"

/* Every index, count and reference. O(N log N). */
bool inventory_check(const struct inventory *inventory, struct note *note);
/* Every count and reference. */
bool needs_check(const struct needs *needs, struct note *note);
/* At most one task per machine, every count right, and no machine in a passing state or Failed
 * without a task or a machine_work. */
bool running_check(const struct core *core, struct note *note);

/* All rows by priority descending, arrival ascending, cluster ascending; rows of one cluster keep
 * their own order. In the arena; texts are borrowed until the next change. ERR_NOMEM. */
enum err needs_snapshot(const struct needs *needs, struct arena *arena, struct need **ret_rows,
                        size_t *ret_count);
#endif
