/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through a file of LMDB's, page by page, before LMDB maps it.
 *
 * LMDB trusts its file: a page that is damaged or missing ends the process by an assertion or a
 * signal. A ledger is not worth that, so every page that can be reached is read here with plain
 * reads: numbers within the file, offsets within the page, no page used twice, none both used and
 * free. Knows the format of LMDB 0.9 on this machine (8-byte numbers, its own byte order) and the
 * plain tables that db.h makes; anything else counts as damage. What a value says is not looked
 * at.
 *
 *     page      u64 number  u16 -  u16 flags  u16 lower  u16 upper | u32 pages  ...
 *     meta      page 0 and 1: page, u32 magic 0xBEEFC0DE  u32 version 1  u64 -  u64 map size
 *               table free  table main  u64 last page  u64 transaction
 *     table     u32 page size | -  u16 flags  u16 depth  u64 x 3 counts  u64 entries  u64 root
 *     node      u16 low  u16 high  u16 flags  u16 key length  key  data; data of a big one is the
 *               number of its first overflow page, of a table a table; in a branch low, high and
 *               flags are the 48 bits of a page number */
#ifndef MEMBER_LEDGER_CHECK_H
#define MEMBER_LEDGER_CHECK_H
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

/* ERR_OK: LMDB may have it. ERR_NOT_FOUND: no file, or an empty one. ERR_CONFLICT: not LMDB's, or
 * of another format. ERR_CORRUPT: the note says which page. Else what reading gives; ERR_NOMEM. */
enum err ledger_check(struct fs *fs, const char *path, struct note *note);
#endif
