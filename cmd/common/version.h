/* SPDX-License-Identifier: Apache-2.0 */
/* Which muster this is and which engines it runs on, as loaded and not as compiled. */
#ifndef COMMON_VERSION_H
#define COMMON_VERSION_H
#include "base/buf.h"
#include "base/note.h"

const char *version_number(void); /* "0.1.0" */
const char *version_commit(void); /* "1a2b3c4", with a '+' when the tree was changed; "unknown" */
/* Version, commit and compiler on one line, then a line for each engine. ERR_FULL, ERR_NOMEM. */
enum err version_print(const char *program, struct buf *into);
/* ERR_VERSION with a note when libraft is not the one release the simulator runs against:
 * another one may lose acknowledged writes, so nothing may start on it. */
enum err version_check_engines(struct note *note);
enum err version_check_raft(int loaded, struct note *note); /* the same for a given number: 2201 */
#endif
