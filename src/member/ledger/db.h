/* SPDX-License-Identifier: Apache-2.0 */
/* An embedded key-value file with rollout's name spaces, over LMDB: what the heartbeat ledger and a
 * worker's own database are kept in (workers.md § 10).
 *
 * Calls block; a database and its transactions belong to one thread at a time. A key is a name
 * space, a run where the space is kept per run, and a path of printable parts; values are bytes.
 * A commit is synced before it returns. Reading sees the whole of a commit or nothing of it. Text
 * that a get or a scan hands out is borrowed until its transaction ends or changes something.
 *
 * The surprising rule: the file is looked through, page by page, before LMDB maps it, because LMDB
 * trusts its file and a damaged one would take the process down (check.h). */
#ifndef MEMBER_LEDGER_DB_H
#define MEMBER_LEDGER_DB_H
#include "base/err.h"
#include "base/note.h"
#include "base/str.h"
#include "io/fs.h"

enum {
    LEDGER_PARTS_MAX = 4,
    LEDGER_KEY_MAX = 500, /* bytes of a key as it is kept; LMDB takes 511 */
    LEDGER_VALUE_MAX = 64 << 20,
    LEDGER_WATCHES_MAX = 16,
};
enum ledger_space {
    LEDGER_WORKERS,
    LEDGER_HEARTBEATS,
    LEDGER_COORDINATOR_LEASE,
    LEDGER_EPOCH,
    LEDGER_WORK,
    LEDGER_QUEUE_ITEMS,
    LEDGER_PLUGINS,
    LEDGER_PARTITIONS,
    LEDGER_CHECKPOINTS,
    LEDGER_TOMBSTONES,
    LEDGER_META,
    LEDGER_RUNS,
    LEDGER_SPACE_COUNT
};
const char *ledger_space_name(enum ledger_space space); /* "queue_items" */
/* ERR_NOT_FOUND with a note that names it and says which there are. */
enum err ledger_space_parse(struct str name, enum ledger_space *ret_space, struct note *note);

struct ledger_key {
    enum ledger_space space;
    struct str run; /* empty: not of a run */
    struct str parts[LEDGER_PARTS_MAX];
    size_t part_count; /* 0: the whole path is empty, which is a key too */
};

struct ledger_db;
struct ledger_txn;

/* ERR_CONFLICT: there is a file and it is not LMDB's. ERR_CORRUPT: it was, and is damaged; the note
 * says where. ERR_BUSY: another process has it. Otherwise what files give. The directory must be
 * there. `bytes_max` bounds the file. */
enum err ledger_db_open(struct fs *fs, const char *path, uint64_t bytes_max,
                        struct ledger_db **ret_db, struct note *note);
void ledger_db_close(struct ledger_db *db); /* NULL is fine; no transaction may be open */

/* One writer at a time; readers see the state before it. ERR_NOMEM, ERR_IO, ERR_FULL. */
enum err ledger_begin(struct ledger_db *db, bool write, struct ledger_txn **ret_txn);
/* Ends the transaction, whatever the answer: ERR_OK, all of it is there for good; any error, none
 * of it. ERR_NO_SPACE, ERR_IO, ERR_FULL (the file's bound). */
enum err ledger_commit(struct ledger_txn *own_txn);
void ledger_abort(struct ledger_txn *own_txn); /* NULL is fine */

/* Keys: ERR_INVALID for a part with a byte outside 0x20..0x7E, ERR_TOO_LARGE. */
enum err ledger_get(struct ledger_txn *txn, const struct ledger_key *key,
                    struct str *ret_value); /* ERR_NOT_FOUND */
/* In the order asked for; `found[i]` false where there is none. */
enum err ledger_get_many(struct ledger_txn *txn, const struct ledger_key *keys, size_t count,
                         struct str *values, bool *found);
enum err ledger_put(struct ledger_txn *txn, const struct ledger_key *key, struct str value);
enum err ledger_delete(struct ledger_txn *txn, const struct ledger_key *key); /* fine when absent */
/* Exact bytes. `expected` NULL: only if absent; `next` NULL: delete. */
enum err ledger_swap(struct ledger_txn *txn, const struct ledger_key *key,
                     const struct str *expected, const struct str *next, bool *ret_swapped);
/* Keys of one space and run whose path begins with the parts of `prefix`, in order; `each` answers
 * false to stop. The parts are borrowed for the call. */
typedef bool ledger_each_fn(void *context, const struct ledger_key *key, struct str value);
enum err ledger_scan(struct ledger_txn *txn, const struct ledger_key *prefix, size_t limit,
                     ledger_each_fn *each, void *context);

/* Told of each key of `space` that a commit changed, after it, in order; never of an abort. Must
 * begin no transaction of its own. ERR_FULL at LEDGER_WATCHES_MAX. */
typedef void ledger_changed_fn(void *context, const struct ledger_key *key, bool deleted);
enum err ledger_watch(struct ledger_db *db, enum ledger_space space, ledger_changed_fn *changed,
                      void *context);
#endif
