/* SPDX-License-Identifier: Apache-2.0 */
/* A file of keys and values: the heartbeat ledger, and the database of a worker.
 *
 *     "muster rows 1\n\0\0"  u32 CRC-32C of what follows
 *     records: u16 length of the key  u32 length of the value  key  value
 *
 * Numbers are little-endian. The file is read whole and replaced whole: a reader sees all of one
 * writing, and needs no lock. Calls block; nothing here keeps state. */
#ifndef MEMBER_LEDGER_FILE_H
#define MEMBER_LEDGER_FILE_H
#include "base/buf.h"
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

enum { LEDGER_FILE_MAX = 1 << 30 };

/* Reads the file into `into`; its records are a view of that. ERR_NOT_FOUND: there is none, or it
 * is empty; ERR_CONFLICT: it is not of this format; ERR_CORRUPT: it was, and is damaged; else what
 * fs_read_whole answers. With a note. */
enum err ledger_file_read(struct fs *fs, const char *path, struct buf *into,
                          struct str *ret_records, struct note *note);
/* Takes the first of the records; views. False: none is left. */
bool ledger_record_next(struct str *records, struct str *ret_key, struct str *ret_value);

/* A new content: begun, records added, written. ERR_FULL, ERR_NOMEM; ERR_TOO_LARGE for a key. */
enum err ledger_file_begin(struct buf *content);
enum err ledger_record_add(struct buf *content, struct str key, struct str value);
/* Replaces the file. `unique`: see fs_publish, which says what it answers. With a note. */
enum err ledger_file_write(struct fs *fs, const char *path, struct buf *content, uint64_t unique,
                           struct note *note);
#endif
