/* SPDX-License-Identifier: Apache-2.0 */
/* LMDB with one table for each name space. A key is kept as
 *
 *     run 00 part 00 part 00 ...
 *
 * which sorts by run, then by path, and makes a path's beginning the beginning of its key. */
#include "member/ledger/db.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "member/ledger/check.h"

enum { FILE_MODE = 0600, CHANGES_MAX = 64 << 20, CHANGE_HEAD = 4 };
static_assert(LEDGER_SPACE_COUNT < 16, "the environment is opened with room for 16 tables");

static const char *const space_names[LEDGER_SPACE_COUNT] = {
    [LEDGER_WORKERS] = "workers",
    [LEDGER_HEARTBEATS] = "heartbeats",
    [LEDGER_COORDINATOR_LEASE] = "coordinator_lease",
    [LEDGER_EPOCH] = "epoch",
    [LEDGER_WORK] = "work",
    [LEDGER_QUEUE_ITEMS] = "queue_items",
    [LEDGER_PLUGINS] = "plugins",
    [LEDGER_PARTITIONS] = "partitions",
    [LEDGER_CHECKPOINTS] = "checkpoints",
    [LEDGER_TOMBSTONES] = "tombstones",
    [LEDGER_META] = "meta",
    [LEDGER_RUNS] = "runs",
};

struct watch {
    enum ledger_space space;
    ledger_changed_fn *changed;
    void *context;
};
struct ledger_db {
    MDB_env *env;
    int lock; /* a descriptor of the file: its holder is the one process that writes */
    MDB_dbi tables[LEDGER_SPACE_COUNT];
    struct watch watches[LEDGER_WATCHES_MAX];
    size_t watch_count;
};
struct ledger_txn {
    struct ledger_db *db;
    MDB_txn *txn;
    struct buf changes; /* of watched spaces: u8 space, u8 deleted, u16 length, key */
};

const char *ledger_space_name(enum ledger_space space)
{
    assert(space < LEDGER_SPACE_COUNT);
    return space_names[space];
}

enum err ledger_space_parse(struct str name, enum ledger_space *ret_space, struct note *note)
{
    char all[NOTE_CAP / 2];
    size_t used = 0;

    for (size_t i = 0; i < LEDGER_SPACE_COUNT; i++) {
        if (str_equal(name, str_from(space_names[i]))) {
            *ret_space = (enum ledger_space)i;
            return ERR_OK;
        }
        used += (size_t)snprintf(all + used, sizeof all - used, " %s", space_names[i]);
        assert(used < sizeof all);
    }
    note_set(note, "'%.*s' is no name space; there are%s", (int)min_size(name.len, 40), name.at,
             all);
    return ERR_NOT_FOUND;
}

/* -- errors -- */

static enum err err_of(int code)
{
    switch (code) {
    case 0: return ERR_OK;
    case MDB_NOTFOUND: return ERR_NOT_FOUND;
    case MDB_MAP_FULL:
    case MDB_TXN_FULL:
    case MDB_READERS_FULL: return ERR_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PANIC: return ERR_CORRUPT;
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH: return ERR_CONFLICT;
    case MDB_BAD_VALSIZE: return ERR_TOO_LARGE;
    case ENOSPC:
    case EFBIG:
    case EDQUOT: return ERR_NO_SPACE;
    case ENOMEM: return ERR_NOMEM;
    case EACCES:
    case EPERM:
    case EROFS: return ERR_DENIED;
    case ENOENT: return ERR_NOT_FOUND;
    case ENFILE:
    case EMFILE: return ERR_FULL;
    case EISDIR:
    case ELOOP:
    case EINVAL: return ERR_INVALID;
    default: return ERR_IO;
    }
}

/* -- life -- */

static int open_tables(struct ledger_db *db)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(db->env, NULL, 0, &txn);

    if (code) return code;
    for (size_t i = 0; i < LEDGER_SPACE_COUNT && !code; i++)
        code = mdb_dbi_open(txn, space_names[i], MDB_CREATE, &db->tables[i]);
    if (!code) return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

/* LMDB lets many processes write to a file; setting a damaged one aside needs to be alone. */
static enum err lock_file(struct ledger_db *db, const char *path, struct note *note)
{
    db->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (db->lock < 0) return err_of(errno);
    if (flock(db->lock, LOCK_EX | LOCK_NB) == 0) return ERR_OK;
    note_set(note, "%s: held by another process", path);
    return ERR_BUSY;
}

enum err ledger_db_open(struct fs *fs, const char *path, uint64_t bytes_max,
                        struct ledger_db **ret_db, struct note *note)
{
    struct ledger_db *db = calloc(1, sizeof *db);
    enum err err;
    int code;

    if (!db) return ERR_NOMEM;
    db->lock = -1;
    note_set(note, "%s", "");
    err = lock_file(db, path, note);
    if (!err) {
        err = ledger_check(fs, path, note);
        if (err == ERR_NOT_FOUND) err = ERR_OK;
    }
    if (!err) {
        code = mdb_env_create(&db->env);
        if (!code) code = mdb_env_set_mapsize(db->env, bytes_max);
        if (!code) code = mdb_env_set_maxdbs(db->env, LEDGER_SPACE_COUNT + 1);
        if (!code) code = mdb_env_open(db->env, path, MDB_NOSUBDIR | MDB_NOTLS, FILE_MODE);
        if (!code) code = open_tables(db);
        err = err_of(code);
    }
    if (err) {
        if (note && !note->text[0]) note_set(note, "%s: %s", path, err_text(err));
        ledger_db_close(db);
        return err;
    }
    *ret_db = db;
    return ERR_OK;
}

void ledger_db_close(struct ledger_db *db)
{
    if (!db) return;
    if (db->env) mdb_env_close(db->env);
    if (db->lock >= 0) close(db->lock);
    free(db);
}

/* -- keys -- */

struct raw_key {
    size_t len;
    char bytes[LEDGER_KEY_MAX];
};

static enum err add_part(struct raw_key *raw, struct str part)
{
    for (size_t i = 0; i < part.len; i++)
        if (part.at[i] < 0x20 || part.at[i] > 0x7E) return ERR_INVALID;
    if (part.len >= sizeof raw->bytes - raw->len) return ERR_TOO_LARGE;
    if (part.len > 0) memcpy(raw->bytes + raw->len, part.at, part.len);
    raw->len += part.len;
    raw->bytes[raw->len++] = '\0';
    return ERR_OK;
}

static enum err make_raw(const struct ledger_key *key, struct raw_key *ret_raw)
{
    enum err err;

    assert(key->space < LEDGER_SPACE_COUNT && key->part_count <= LEDGER_PARTS_MAX);
    ret_raw->len = 0;
    err = add_part(ret_raw, key->run);
    for (size_t i = 0; i < key->part_count && !err; i++) err = add_part(ret_raw, key->parts[i]);
    return err;
}

/* False: not one of ours. The parts are views of the bytes. */
static bool read_raw(enum ledger_space space, struct str bytes, struct ledger_key *ret_key)
{
    struct ledger_key key = {.space = space};
    struct str part;
    bool first = true;

    if (!str_ends(bytes, STR("\0"))) return false;
    while (bytes.len > 0) {
        size_t end = str_find(bytes, '\0');
        part = str_of(bytes.at, end);
        bytes = str_tail(bytes, end + 1);
        if (first)
            key.run = part;
        else if (key.part_count < LEDGER_PARTS_MAX)
            key.parts[key.part_count++] = part;
        else
            return false;
        first = false;
    }
    *ret_key = key;
    return true;
}

/* -- transactions -- */

enum err ledger_begin(struct ledger_db *db, bool write, struct ledger_txn **ret_txn)
{
    struct ledger_txn *txn = calloc(1, sizeof *txn);
    enum err err;

    if (!txn) return ERR_NOMEM;
    txn->db = db;
    buf_init(&txn->changes, CHANGES_MAX);
    err = err_of(mdb_txn_begin(db->env, NULL, write ? 0 : MDB_RDONLY, &txn->txn));
    if (err)
        free(txn);
    else
        *ret_txn = txn;
    return err;
}

static void end(struct ledger_txn *txn)
{
    buf_deinit(&txn->changes);
    free(txn);
}

static void tell_one(const struct ledger_db *db, const struct ledger_key *key, bool deleted)
{
    for (size_t i = 0; i < db->watch_count; i++)
        if (db->watches[i].space == key->space)
            db->watches[i].changed(db->watches[i].context, key, deleted);
}

static void tell(const struct ledger_txn *txn)
{
    struct str rest = buf_peek(&txn->changes);

    while (rest.len > 0) {
        enum ledger_space space = (enum ledger_space)(uint8_t)rest.at[0];
        bool deleted = rest.at[1] != 0;
        size_t len = load_le16(rest.at + 2);
        struct ledger_key key;

        if (read_raw(space, str_of(rest.at + CHANGE_HEAD, len), &key))
            tell_one(txn->db, &key, deleted);
        rest = str_tail(rest, CHANGE_HEAD + len);
    }
}

enum err ledger_commit(struct ledger_txn *own_txn)
{
    enum err err = err_of(mdb_txn_commit(own_txn->txn));

    if (!err) tell(own_txn);
    end(own_txn);
    return err;
}

void ledger_abort(struct ledger_txn *own_txn)
{
    if (!own_txn) return;
    mdb_txn_abort(own_txn->txn);
    end(own_txn);
}

static enum err note_change(struct ledger_txn *txn, enum ledger_space space, bool deleted,
                            const struct raw_key *raw)
{
    char head[CHANGE_HEAD] = {(char)space, (char)deleted};
    bool watched = false;
    enum err err;

    for (size_t i = 0; i < txn->db->watch_count; i++) watched |= txn->db->watches[i].space == space;
    if (!watched) return ERR_OK;
    store_le16(head + 2, (uint16_t)raw->len);
    err = buf_append(&txn->changes, str_of(head, sizeof head));
    return err ? err : buf_append(&txn->changes, str_of(raw->bytes, raw->len));
}

enum err ledger_watch(struct ledger_db *db, enum ledger_space space, ledger_changed_fn *changed,
                      void *context)
{
    if (db->watch_count == LEDGER_WATCHES_MAX) return ERR_FULL;
    db->watches[db->watch_count++] = (struct watch){space, changed, context};
    return ERR_OK;
}

/* -- reading and writing -- */

static MDB_val val_of(struct str text)
{
    return (MDB_val){.mv_size = text.len, .mv_data = (char *)text.at}; /* LMDB never writes it */
}

static enum err get_raw(struct ledger_txn *txn, enum ledger_space space, const struct raw_key *raw,
                        struct str *ret_value)
{
    MDB_val key = val_of(str_of(raw->bytes, raw->len)), value;
    enum err err = err_of(mdb_get(txn->txn, txn->db->tables[space], &key, &value));

    if (!err) *ret_value = str_of(value.mv_data, value.mv_size);
    return err;
}

static enum err put_raw(struct ledger_txn *txn, enum ledger_space space, const struct raw_key *raw,
                        struct str value)
{
    MDB_val key = val_of(str_of(raw->bytes, raw->len)), bytes = val_of(value);
    enum err err;

    if (value.len > LEDGER_VALUE_MAX) return ERR_TOO_LARGE;
    err = err_of(mdb_put(txn->txn, txn->db->tables[space], &key, &bytes, 0));
    return err ? err : note_change(txn, space, false, raw);
}

static enum err delete_raw(struct ledger_txn *txn, enum ledger_space space,
                           const struct raw_key *raw)
{
    MDB_val key = val_of(str_of(raw->bytes, raw->len));
    enum err err = err_of(mdb_del(txn->txn, txn->db->tables[space], &key, NULL));

    if (err == ERR_NOT_FOUND) return ERR_OK;
    return err ? err : note_change(txn, space, true, raw);
}

enum err ledger_get(struct ledger_txn *txn, const struct ledger_key *key, struct str *ret_value)
{
    struct raw_key raw;
    enum err err = make_raw(key, &raw);
    return err ? err : get_raw(txn, key->space, &raw, ret_value);
}

enum err ledger_get_many(struct ledger_txn *txn, const struct ledger_key *keys, size_t count,
                         struct str *values, bool *found)
{
    for (size_t i = 0; i < count; i++) {
        enum err err = ledger_get(txn, &keys[i], &values[i]);
        if (err && err != ERR_NOT_FOUND) return err;
        found[i] = !err;
    }
    return ERR_OK;
}

enum err ledger_put(struct ledger_txn *txn, const struct ledger_key *key, struct str value)
{
    struct raw_key raw;
    enum err err = make_raw(key, &raw);
    return err ? err : put_raw(txn, key->space, &raw, value);
}

enum err ledger_delete(struct ledger_txn *txn, const struct ledger_key *key)
{
    struct raw_key raw;
    enum err err = make_raw(key, &raw);
    return err ? err : delete_raw(txn, key->space, &raw);
}

enum err ledger_swap(struct ledger_txn *txn, const struct ledger_key *key,
                     const struct str *expected, const struct str *next, bool *ret_swapped)
{
    struct raw_key raw;
    struct str now = STR_EMPTY;
    bool there, as_expected;
    enum err err = make_raw(key, &raw);

    if (err) return err;
    err = get_raw(txn, key->space, &raw, &now);
    if (err && err != ERR_NOT_FOUND) return err;
    there = !err;
    err = ERR_OK;
    as_expected = expected ? there && str_equal(now, *expected) : !there;
    if (as_expected && next)
        err = put_raw(txn, key->space, &raw, *next);
    else if (as_expected && there)
        err = delete_raw(txn, key->space, &raw);
    if (!err) *ret_swapped = as_expected;
    return err;
}

enum err ledger_scan(struct ledger_txn *txn, const struct ledger_key *prefix, size_t limit,
                     ledger_each_fn *each, void *context)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    struct raw_key raw;
    struct str begins;
    enum err err = make_raw(prefix, &raw);
    int code;

    if (!err) err = err_of(mdb_cursor_open(txn->txn, txn->db->tables[prefix->space], &cursor));
    if (err) return err;
    begins = str_of(raw.bytes, raw.len);
    key = val_of(begins);
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    for (size_t given = 0; !code && given < limit;
         code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
        struct str bytes = str_of(key.mv_data, key.mv_size);
        struct ledger_key found;

        if (!str_starts(bytes, begins)) break;
        if (!read_raw(prefix->space, bytes, &found)) continue;
        given++;
        if (!each(context, &found, str_of(value.mv_data, value.mv_size))) break;
    }
    mdb_cursor_close(cursor);
    return code && code != MDB_NOTFOUND ? err_of(code) : ERR_OK;
}
