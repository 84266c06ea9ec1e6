/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's file at storage.path (format: member/ledger/file.h): the manifest of each loaded
 * plugin, as plugins/<name>, for people and tools. */
#ifndef WORKER_DATABASE_H
#define WORKER_DATABASE_H
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

/* Creates the file's directory, and checks the format of an existing file. Errors of fs_make_parent
 * and ledger_file_read, with a note. */
enum err worker_db_check(struct fs *fs, const char *path, struct note *note);
/* Replaces the plugin's record. Errors of ledger_file_read and ledger_file_write, ERR_FULL. */
enum err worker_db_keep_plugin(struct fs *fs, const char *path, uint64_t unique, struct str name,
                               struct str json, struct note *note);
#endif
