/* SPDX-License-Identifier: Apache-2.0 */
/* The restore both programs have: `muster coordinator restore`, `musterctl restore` and the
 * original's `snapshot restore`, with every state machine of a coordinator. */
#ifndef COMMON_RESTORE_ARCHIVE_H
#define COMMON_RESTORE_ARCHIVE_H
#include "common/program.h"
#include "fleet/archive_tool.h"

/* Of the archive that is the first argument, into `data-dir`, for `raft-advertise`. */
enum err restore_archive(const struct conf *conf, const char *name, bool replaces, bool json,
                         struct buf *out, struct note *note);
program_act_fn restore_act; /* the same by the options of coordinator_restore_table */
enum err verify_archive(const char *path, bool json, struct buf *out, struct note *note);
#endif
