/* SPDX-License-Identifier: Apache-2.0 */
/* The file of reclaim orders that must survive kill -9: one JSON object per line.
 *
 *   {"format":"muster operator reclaims 1"}
 *   {"instruction":"00a1...","machine":"m-7","deadline_unix_ms":1700000000,"preemptor_priority":0}
 *
 * The file is replaced whole (fs_publish), so an unreadable file was not written by an operator. */
#ifndef OPERATOR_RECLAIMS_FILE_H
#define OPERATOR_RECLAIMS_FILE_H
#include "base/buf.h"
#include "operator/core/reclaims.h"

/* Every line is at most 2 KiB: two ids of 253 bytes, each byte escaped. */
enum { RECLAIMS_FILE_MAX = RECLAIMS_MAX * 2048 };
/* Appends the content of the file to `out`. ERR_FULL, ERR_NOMEM. */
enum err reclaims_write(const struct reclaims *reclaims, struct buf *out);
/* Reads the file. ERR_PARSE with "line 3: ...", ERR_FULL, ERR_NOMEM. */
enum err reclaims_read(struct reclaims *reclaims, struct str text, struct note *note);
#endif
