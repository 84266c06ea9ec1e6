/* SPDX-License-Identifier: Apache-2.0 */
/* Restores an archive into every state machine of a coordinator. Shared by `muster coordinator
 * restore`, `musterctl restore` and BigFleet's `snapshot restore`. */
#ifndef COMMON_RESTORE_ARCHIVE_H
#define COMMON_RESTORE_ARCHIVE_H
#include "common/program.h"
#include "fleet/archive_tool.h"

/* Restores the archive in the first argument into `data-dir`, for a replica at `raft-advertise`. */
enum err restore_archive(const struct conf *conf, const char *name, bool replaces, bool json,
                         struct buf *out, struct note *note);
program_act_fn restore_act; /* its options: coordinator_restore_table */
enum err verify_archive(const char *path, bool json, struct buf *out, struct note *note);
#endif
