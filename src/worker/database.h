/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's file at storage.path: the manifest of each loaded plugin, under plugins/<name>, for
 * people and tools (member/ledger/file.h). */
#ifndef WORKER_DATABASE_H
#define WORKER_DATABASE_H
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

/* Creates the file's directory, and checks that an existing file has our format. A missing file is
 * fine. Errors of fs_make_parent and ledger_file_read, with a note that names the file. */
enum err worker_db_check(struct fs *fs, const char *path, struct note *note);
/* Replaces the record of the plugin. Errors of ledger_file_read and ledger_file_write, ERR_FULL. */
enum err worker_db_keep_plugin(struct fs *fs, const char *path, uint64_t unique, struct str name,
                               struct str json, struct note *note);
#endif
