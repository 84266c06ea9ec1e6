/* SPDX-License-Identifier: Apache-2.0 */
/* The file of reclaim orders that must survive kill -9: one JSON object per line.
 *
 *   {"format":"muster operator reclaims 1"}
 *   {"instruction":"00a1...","machine":"m-7","deadline_unix_ms":1700000000,"preemptor_priority":0}
 *
 * The file is replaced whole (fs_publish), so no operator writes a partial, unreadable file. */
#ifndef OPERATOR_RECLAIMS_FILE_H
#define OPERATOR_RECLAIMS_FILE_H
#include "base/buf.h"
#include "operator/core/reclaims.h"

/* A line has at most 2 KiB: two ids of 253 bytes, each byte escaped, and short fields. */
enum { RECLAIMS_FILE_MAX = RECLAIMS_MAX * 2048 };
/* Appends the file's content to `out`. Returns ERR_FULL or ERR_NOMEM. */
enum err reclaims_write(const struct reclaims *reclaims, struct buf *out);
/* Reads the file. Returns ERR_PARSE with a note "line 3: ...", ERR_FULL or ERR_NOMEM. */
enum err reclaims_read(struct reclaims *reclaims, struct str text, struct note *note);
#endif
