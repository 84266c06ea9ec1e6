/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's own database, storage.path: the manifests of the plugins it loaded, as JSON, under
 * plugins/<name>, for people and tools to look at. An LMDB file (member/ledger/db.h). */
#ifndef WORKER_DATABASE_H
#define WORKER_DATABASE_H
#include "base/buf.h"
#include "base/note.h"
#include "io/fs.h"

struct ledger_db;
/* Makes its directory. What ledger_db_open answers, with a note that names the file. */
enum err worker_db_open(struct fs *fs, const char *path, struct ledger_db **ret_db,
                        struct note *note);
/* Replaces what stands there. What ledger_put and ledger_commit answer. */
enum err worker_db_keep_plugin(struct ledger_db *db, struct str name, struct str json,
                               struct note *note);
#endif
