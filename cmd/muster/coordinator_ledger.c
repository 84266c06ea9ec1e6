/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator ledger: what the heartbeat ledger of a coordinator that does not run holds. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "common/tables.h"
#include "member/ledger/db.h"
#include "member/ledger/rows.h"
#include "muster/commands.h"
#include "text/ndjson.h"

enum { FILE_MAX = 1 << 30 };

struct printing {
    struct buf *out;
    enum err err;
    size_t unreadable;
};

static bool print_worker(void *context, const struct ledger_key *key, struct str value)
{
    static const char *const standings[] = {"active", "suspected", "dead", "removed"};
    static const char *const reasons[] = {NULL, "left", "dead", "evicted", "replaced"};
    struct printing *p = context;
    struct worker_row row;
    struct ndjson line;

    (void)key;
    if (worker_row_read(value, &row)) {
        p->unreadable++;
        return true;
    }
    ndjson_begin(&line, p->out, NDJSON_LINE);
    ndjson_c_string(&line, STR("row"), "worker");
    ndjson_string(&line, STR("worker_id"), row.worker_id);
    ndjson_string(&line, STR("run_id"), row.run_id);
    ndjson_u64(&line, STR("registered_at_ms"), row.registered_at_ms);
    ndjson_u64(&line, STR("incarnation"), row.incarnation);
    ndjson_c_string(&line, STR("standing"), standings[row.standing]);
    ndjson_c_string(&line, STR("reason"), reasons[row.reason]);
    ndjson_bool(&line, STR("draining"), row.draining);
    p->err = ndjson_end(&line);
    return !p->err;
}

static bool print_beat(void *context, const struct ledger_key *key, struct str value)
{
    static const char *const phases[] = {NULL, "init", "ready", "running", "draining"};
    struct printing *p = context;
    struct heartbeat_row row;
    struct ndjson line;

    (void)key;
    if (heartbeat_row_read(value, &row)) {
        p->unreadable++;
        return true;
    }
    ndjson_begin(&line, p->out, NDJSON_LINE);
    ndjson_c_string(&line, STR("row"), "heartbeat");
    ndjson_string(&line, STR("worker_id"), row.worker_id);
    ndjson_string(&line, STR("run_id"), row.run_id);
    ndjson_c_string(&line, STR("phase"), phases[row.phase]);
    ndjson_u64(&line, STR("due_at_ms"), row.due_at_ms);
    ndjson_u64(&line, STR("received_at_ms"), row.received_at_ms);
    if (row.has_load)
        ndjson_double(&line, STR("load"), row.load);
    else
        ndjson_null(&line, STR("load"));
    p->err = ndjson_end(&line);
    return !p->err;
}

static enum err print_all(struct ledger_db *db, struct printing *p)
{
    struct ledger_key workers = {.space = LEDGER_WORKERS}, beats = {.space = LEDGER_HEARTBEATS};
    struct ledger_txn *txn;
    enum err err = ledger_begin(db, false, &txn);

    if (err) return err;
    err = ledger_scan(txn, &workers, SIZE_MAX, print_worker, p);
    if (!err && !p->err) err = ledger_scan(txn, &beats, SIZE_MAX, print_beat, p);
    ledger_abort(txn);
    return err ? err : p->err;
}

/* LMDB makes a file that is not there; a look must not. */
static enum err check_there(const char *path, struct note *note)
{
    struct fs_info info;
    enum err err = fs_stat(fs_real(), path, &info);

    if (err) note_set(note, "%s: %s", path, err_text(err));
    return err;
}

static enum err print_ledger(struct program_run *run)
{
    const char *path = conf_argument(run->conf, 0);
    struct printing p = {.out = &run->out};
    struct ledger_db *db = NULL;
    enum err err = check_there(path, &run->note);

    if (!err) err = ledger_db_open(fs_real(), path, FILE_MAX, &db, &run->note);
    if (!err) err = print_all(db, &p);
    ledger_db_close(db);
    if (err || !p.unreadable) return err;
    return program_refuse(run, ERR_CORRUPT, "%zu rows could not be read and were left out",
                          p.unreadable);
}

const struct command coordinator_ledger_command = {
    .name = "ledger",
    .summary = "print the heartbeat ledger of one that does not run",
    .about = "Prints the rows of the file at storage.path, one JSON object a line: the workers, "
             "then the last beat of each that was written. Nothing decides by it; a coordinator "
             "that runs has the file to itself.",
    .options = &coordinator_ledger_table,
    COMMAND_ARGUMENTS("FILE", 1, 1),
    .examples = COMMAND_EXAMPLES(
        {"muster coordinator ledger ./data/rollout.db", "who there was, and each one's last beat"}),
    .exits = BIT(1) | BIT(2) | BIT(4) | BIT(5),
    PROGRAM_ACT(print_ledger),
};
