/* SPDX-License-Identifier: Apache-2.0 */
/* The version of muster, and the versions of its libraries as loaded, not as compiled. */
#ifndef COMMON_VERSION_H
#define COMMON_VERSION_H
#include "base/buf.h"
#include "base/note.h"

const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* "1a2b3c4", "1a2b3c4+" or "unknown" */
/* Prints version, commit and compiler on a line, then a line per library. ERR_FULL, ERR_NOMEM. */
enum err version_print(const char *program, struct buf *into);
/* ERR_VERSION with a note: libraft is not the one release that the simulator runs against. Another
 * release may lose acknowledged writes. */
enum err version_check_engines(struct note *note);
enum err version_check_raft(int loaded, struct note *note);
#endif
