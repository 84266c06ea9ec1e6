/* SPDX-License-Identifier: Apache-2.0 */
/* muster coordinator ledger: prints the contents of a coordinator's heartbeat ledger. */
#include <stdio.h>
#include <string.h>

#include "common/program.h"
#include "member/ledger/file.h"
#include "member/ledger/rows.h"
#include "muster/commands.h"
#include "text/ndjson.h"

struct printing {
    struct buf *out;
    enum err err;
    size_t unreadable;
};

static void ledger_print_worker(struct printing *p, struct str value)
{
    static const char *const standings[] = {"active", "suspected", "dead", "removed"};
    static const char *const reasons[] = {NULL, "left", "dead", "evicted", "replaced"};
    struct worker_row row;
    struct ndjson line;

    if (worker_row_read(value, &row)) {
        p->unreadable++;
        return;
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
}

static void ledger_print_beat(struct printing *p, struct str value)
{
    static const char *const phases[] = {NULL, "init", "ready", "running", "draining"};
    struct heartbeat_row row;
    struct ndjson line;

    if (heartbeat_row_read(value, &row)) {
        p->unreadable++;
        return;
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
}

static enum err ledger_print_all(struct str records, struct printing *p)
{
    static const struct {
        const char *space;
        void (*print)(struct printing *p, struct str value);
    } parts[] = {{"workers/", ledger_print_worker}, {"heartbeats/", ledger_print_beat}};
    struct str left, key, value;

    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        for (left = records; !p->err && ledger_record_next(&left, &key, &value);)
            if (str_starts(key, str_from(parts[i].space))) parts[i].print(p, value);
    return p->err;
}

enum err coordinator_ledger_act(struct program_run *run)
{
    struct printing p = {.out = &run->out};
    struct str records;
    struct buf content;
    enum err err;

    buf_init(&content, LEDGER_FILE_MAX);
    err = ledger_file_read(fs_real(), conf_argument(run->conf, 0), &content, &records, &run->note);
    if (!err) err = ledger_print_all(records, &p);
    buf_deinit(&content);
    if (err || !p.unreadable) return err;
    return note_fail(&run->note, ERR_CORRUPT, "%zu rows could not be read and were left out",
                     p.unreadable);
}
