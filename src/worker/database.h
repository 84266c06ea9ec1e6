/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker keeps of itself at storage.path: the manifest of each plugin it loaded, under
 * plugins/<name>, for people and tools to look at (member/ledger/file.h). */
#ifndef WORKER_DATABASE_H
#define WORKER_DATABASE_H
#include "base/err.h"
#include "base/note.h"
#include "io/fs.h"

/* Makes its directory, and looks whether the file is ours. What fs_make_parent and ledger_file_read
 * answer, with a note that names the file; a file that is not there yet is fine. */
enum err worker_db_check(struct fs *fs, const char *path, struct note *note);
/* Replaces what is there. What ledger_file_read and ledger_file_write answer, ERR_FULL. */
enum err worker_db_keep_plugin(struct fs *fs, const char *path, uint64_t unique, struct str name,
                               struct str json, struct note *note);
#endif
