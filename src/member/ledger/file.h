/* SPDX-License-Identifier: Apache-2.0 */
/* A file of keys and values: the heartbeat ledger and the database of a worker.
 *
 *     "muster rows 1\n\0\0"  u32 CRC-32C of the rest of the file
 *     records: u16 length of the key  u32 length of the value  key  value
 *
 * Numbers are little-endian. The file is replaced whole, so a reader sees one complete version and
 * needs no lock. Calls block; this file keeps no state. */
#ifndef MEMBER_LEDGER_FILE_H
#define MEMBER_LEDGER_FILE_H
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

enum { LEDGER_FILE_MAX = 1 << 30 };

/* *ret_records points into `into`. Errors, each with a note:
 * ERR_NOT_FOUND: the file does not exist or is empty
 * ERR_CONFLICT: another format
 * ERR_CORRUPT: the file is damaged
 * errors of fs_read_whole() */
enum err ledger_file_read(struct fs *fs, const char *path, struct buf *into,
                          struct str *ret_records, struct note *note);
/* Removes the first record from `records`; false: none is left. */
bool ledger_record_next(struct str *records, struct str *ret_key, struct str *ret_value);

/* Builds a new file: begin, add records, write. ERR_FULL, ERR_NOMEM, ERR_TOO_LARGE (the key). */
enum err ledger_file_begin(struct buf *content);
enum err ledger_record_add(struct buf *content, struct str key, struct str value);
/* `unique`, the errors and the note are those of fs_publish(). */
enum err ledger_file_write(struct fs *fs, const char *path, struct buf *content, uint64_t unique,
                           struct note *note);
#endif
