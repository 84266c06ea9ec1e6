/* SPDX-License-Identifier: Apache-2.0 */
/* The file of reclaim orders that must survive kill -9: one JSON object per line, replaced as a
 * whole.
 *
 *   {"format":"muster operator reclaims 1"}
 *   {"instruction":"00a1...","machine":"m-7","deadline_unix_ms":1700000000,"preemptor_priority":0}
 */
#ifndef OPERATOR_RECLAIMS_FILE_H
#define OPERATOR_RECLAIMS_FILE_H
#include "base/buf.h"
#include "operator/core/reclaims.h"

/* 2 KiB per line: two ids of 253 escaped bytes, and short fields. */
enum { RECLAIMS_FILE_MAX = RECLAIMS_MAX * 2048 };
/* ERR_FULL or ERR_NOMEM. */
enum err reclaims_write(const struct reclaims *reclaims, struct buf *out);
/* ERR_PARSE with a note "line 3: ...", ERR_FULL or ERR_NOMEM. */
enum err reclaims_read(struct reclaims *reclaims, struct str text, struct note *note);
#endif
