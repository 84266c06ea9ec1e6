/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the file of the reclaim orders, one line per order. Pure. */
#include "operator/reclaims_file.h"

#include "text/json.h"
#include "text/ndjson.h"

#define FORMAT "muster operator reclaims 1"
enum { LINE_MAX_BYTES = 8192 };

enum err reclaims_write(const struct reclaims *reclaims, struct buf *out)
{
    const struct reclaim *r;
    struct ndjson w;
    size_t cursor = 0;
    enum err err;

    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_string(&w, STR("format"), STR(FORMAT));
    err = ndjson_end(&w);
    while (!err && (r = reclaims_next(reclaims, &cursor))) {
        ndjson_begin(&w, out, NDJSON_LINE);
        ndjson_string(&w, STR("instruction"), r->id);
        ndjson_string(&w, STR("machine"), r->machine);
        ndjson_u64(&w, STR("deadline_unix_ms"), r->deadline.ms);
        ndjson_i64(&w, STR("preemptor_priority"), r->preemptor_priority);
        if (reclaim_is_over(r->phase)) ndjson_bool(&w, STR("drained"), r->phase == RECLAIM_DRAINED);
        err = ndjson_end(&w);
    }
    return err;
}

static enum err read_order(struct reclaims *reclaims, const struct json *line, struct note *note)
{
    struct reclaim order = {.id = STR_EMPTY, .machine = STR_EMPTY, .resumed = true};
    int64_t priority = 0;
    bool drained = false;
    enum err err = json_get_string(line, "instruction", &order.id, note);

    if (!err) err = json_get_string(line, "machine", &order.machine, note);
    if (!err) err = json_get_u64(line, "deadline_unix_ms", &order.deadline.ms, note);
    if (!err) err = json_get_i64(line, "preemptor_priority", &priority, note);
    if (!err && (priority < INT32_MIN || priority > INT32_MAX))
        return note_fail(note, ERR_PARSE, "preemptor_priority: past 32 bits");
    order.preemptor_priority = (int32_t)priority;
    if (!err && json_find(line, "drained")) {
        err = json_get_bool(line, "drained", &drained, note);
        order.phase = drained ? RECLAIM_DRAINED : RECLAIM_GAVE_UP;
    }
    if (err) return err;
    err = reclaims_put(reclaims, &order, note);
    if (err == ERR_EXISTS) note_set(note, "instruction given twice");
    return err;
}

enum err reclaims_read(struct reclaims *reclaims, struct str text, struct note *note)
{
    struct str rest = text, line, format;
    size_t number = 0;
    enum err err = ERR_OK;

    while (!err && str_split(&rest, '\n', &line) && rest.at) {
        struct json *json = NULL;
        number++;
        err = json_open(line, LINE_MAX_BYTES, &json, note);
        if (!err && number > 1) err = read_order(reclaims, json, note);
        if (!err && number == 1) {
            err = json_get_string(json, "format", &format, note);
            if (!err && !str_equal(format, STR(FORMAT)))
                err = note_fail(note, ERR_PARSE, "not a file of this version");
        }
        json_close(json);
        if (err && err != ERR_NOMEM && err != ERR_FULL) err = ERR_PARSE;
        if (err) note_prefix(note, "line %zu", number);
    }
    if (!err && (number == 0 || line.len > 0)) return note_fail(note, ERR_PARSE, "cut short");
    return err;
}
