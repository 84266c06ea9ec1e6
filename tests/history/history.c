/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "text/json.h"

enum { LINE_MAX_BYTES = 1 << 16, FILE_MAX_BYTES = 1 << 30, KEYS_MAX = 1 << 16 };

static const char *const op_names[] = {"create",  "cas",   "delete",  "get",     "stale",
                                       "acquire", "renew", "release", "holders", "check"};
static_assert(ARRAY_LEN(op_names) == HIST_OP_COUNT, "one name each");
static const struct {
    const char *name;
    int type;
} event_types[] = {
    {"begin", COORD_SNAPSHOT_BEGIN}, {"entry", COORD_ENTRY},
    {"end", COORD_SNAPSHOT_END},     {"put", COORD_PUT},
    {"delete", COORD_DELETE},        {"expired", COORD_EXPIRE},
    {"resync", COORD_RESYNC},        {"progress", COORD_PROGRESS},
    {"closed", COORD_CLOSED},
};

const char *hist_op_name(enum hist_op op)
{
    return op < HIST_OP_COUNT ? op_names[op] : "?";
}

void hist_init(struct hist *h)
{
    *h = (struct hist){0};
    map_init(&h->by_key, KEYS_MAX, 1);
    map_init(&h->by_id, MAP_MOST, 1);
}

void hist_deinit(struct hist *h)
{
    map_deinit(&h->by_key);
    map_deinit(&h->by_id);
    for (size_t i = 0; i < h->key_count; i++) free(h->keys[i]);
    free(h->keys);
    free(h->calls);
    free(h->events);
    free(h->faults);
}

/* Without memory the program aborts. */
static void *more(void *rows, size_t count, size_t *cap, size_t size)
{
    if (count < *cap) return rows;
    *cap = *cap ? *cap * 2 : 256;
    rows = realloc(rows, *cap * size);
    if (!rows) abort();
    return rows;
}

static uint32_t key_of(struct hist *h, struct str name)
{
    uintptr_t known = (uintptr_t)map_get(&h->by_key, name);

    if (known) return (uint32_t)(known - 1);
    h->keys = more(h->keys, h->key_count, &h->key_cap, sizeof *h->keys);
    h->keys[h->key_count] = strndup(name.at, name.len);
    if (!h->keys[h->key_count]) abort();
    if (map_put(&h->by_key, str_from(h->keys[h->key_count]), (void *)(h->key_count + 1))) abort();
    return (uint32_t)h->key_count++;
}

/* -- lines -- */

struct line {
    const struct json *json;
    struct note *note;
    enum err err; /* the first */
};

static uint64_t number(struct line *line, const char *field)
{
    uint64_t value = 0;

    if (!line->err && json_find(line->json, field))
        line->err = json_get_u64(line->json, field, &value, line->note);
    return value;
}

static struct str word(struct line *line, const char *field)
{
    struct str value = STR_EMPTY;

    if (!line->err && json_find(line->json, field))
        line->err = json_get_string(line->json, field, &value, line->note);
    return value;
}

static uint64_t needed(struct line *line, const char *field)
{
    if (!line->err && !json_find(line->json, field)) {
        line->err = ERR_PARSE;
        note_set(line->note, "no '%s'", field);
    }
    return number(line, field);
}

static int code_named(struct str name)
{
    for (int i = COORD_OK; i <= COORD_UNAVAILABLE; i++)
        if (str_equal(name, str_from(coord_code_name(i)))) return i;
    return -1;
}

static int reason_named(struct str name)
{
    for (int i = COORD_R_NONE; i <= COORD_R_CLOSED; i++)
        if (str_equal(name, str_from(coord_reason_name(i)))) return i;
    return COORD_R_NONE;
}

static enum err refuse(struct line *line, const char *what, struct str word_)
{
    note_set(line->note, "no such %s: '%.*s'", what, (int)word_.len, word_.at);
    return ERR_PARSE;
}

static struct hist_call *find(const struct hist *h, uint64_t id)
{
    return map_get(&h->by_id, str_of((const char *)&id, sizeof id));
}

/* Until hist_seal the map holds index + 1, because the row of calls still moves. */
static enum err take_call(struct hist *h, struct line *line)
{
    struct str name = word(line, "op");
    struct hist_call call = {
        .id = needed(line, "id"),
        .client = (uint32_t)number(line, "client"),
        .called_ns = (int64_t)needed(line, "t"),
        .ended_ns = HIST_OPEN,
        .key = key_of(h, word(line, "key")),
        .expected = number(line, "expected"),
        .ttl_ms = (int64_t)number(line, "ttl"),
        .lease = number(line, "lease"),
        .slots = (uint32_t)number(line, "slots"),
        .session = (uint32_t)number(line, "session"),
        .waits = json_find(line->json, "wait") != NULL,
        .code = COORD_UNAVAILABLE,
    };

    if (json_find(line->json, "any")) call.expected = COORD_ANY;
    if (line->err) return line->err;
    while (call.op < HIST_OP_COUNT && !str_equal(name, str_from(op_names[call.op]))) call.op++;
    if (call.op == HIST_OP_COUNT) return refuse(line, "operation", name);
    if (call.slots > HIST_SLOTS_MAX) return refuse(line, "number of slots", STR_EMPTY);
    h->calls = more(h->calls, h->call_count, &h->call_cap, sizeof *h->calls);
    h->calls[h->call_count++] = call;
    return line->err;
}

static void take_holders(struct hist_call *call, struct line *line)
{
    const struct json *rows = json_find(line->json, "holders");

    for (size_t i = 0; rows && i < json_count(rows) && i < HIST_SLOTS_MAX; i++)
        if (!line->err)
            line->err = json_get_u64(json_item(rows, i), "", &call->holders[i], line->note);
}

/* The call is one of the last lines, except for a client that was stopped for long. */
static struct hist_call *called(struct hist *h, uint64_t id)
{
    for (size_t i = h->call_count; i-- > 0;)
        if (h->calls[i].id == id) return &h->calls[i];
    return NULL;
}

static enum err take_answer(struct hist *h, struct line *line)
{
    struct hist_call *call = called(h, needed(line, "id"));
    struct str code = word(line, "code");
    int64_t at_ns = (int64_t)needed(line, "t");

    if (line->err) return line->err;
    if (!call || call->ended_ns != HIST_OPEN) return refuse(line, "open call", STR_EMPTY);
    call->code = code_named(code);
    if (call->code < 0) return refuse(line, "code", code);
    call->reason = reason_named(word(line, "reason"));
    call->revision = number(line, "rev");
    call->token = number(line, "token");
    if (call->op == HIST_ACQUIRE && call->code != COORD_OK) call->token = 0; /* another's */
    call->slot = (uint32_t)number(line, "slot");
    call->found = number(line, "found");
    if (json_find(line->json, "ttl")) call->ttl_ms = (int64_t)number(line, "ttl");
    take_holders(call, line);
    call->ended_ns = at_ns;
    return line->err;
}

static enum err take_event(struct hist *h, struct line *line)
{
    struct str name = word(line, "type");
    struct hist_event event = {
        .watch = (uint32_t)needed(line, "watch"),
        .key = key_of(h, word(line, "key")),
        .at_ns = (int64_t)needed(line, "t"),
        .revision = number(line, "rev"),
        .token = number(line, "token"),
        .value = number(line, "value"),
        .order = h->event_count,
    };

    for (size_t i = 0; i < ARRAY_LEN(event_types); i++)
        if (str_equal(name, str_from(event_types[i].name))) event.type = event_types[i].type;
    if (!event.type) return refuse(line, "event", name);
    h->events = more(h->events, h->event_count, &h->event_cap, sizeof *h->events);
    h->events[h->event_count++] = event;
    return line->err;
}

static enum err take_fault(struct hist *h, struct line *line)
{
    struct hist_fault fault = {(int64_t)needed(line, "t"), (uint32_t)needed(line, "replica")};

    h->faults = more(h->faults, h->fault_count, &h->fault_cap, sizeof *h->faults);
    h->faults[h->fault_count++] = fault;
    return line->err;
}

static enum err take(struct hist *h, const struct json *json, struct note *note)
{
    struct line line = {json, note, ERR_OK};
    struct str kind = word(&line, "e");

    if (line.err) return line.err;
    if (str_equal(kind, STR("call"))) return take_call(h, &line);
    if (str_equal(kind, STR("done"))) return take_answer(h, &line);
    if (str_equal(kind, STR("lost"))) return ERR_OK; /* as if nothing had come */
    if (str_equal(kind, STR("watch"))) return take_event(h, &line);
    if (str_equal(kind, STR("ended"))) return take_fault(h, &line);
    if (str_equal(kind, STR("note"))) return ERR_OK; /* for people */
    return refuse(&line, "kind of line", kind);
}

enum err hist_read(struct hist *h, struct str text, struct note *note)
{
    enum err err = ERR_OK;

    for (size_t at = 0, number_ = 1; !err && at < text.len; number_++) {
        const char *end = memchr(text.at + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.at) - at : text.len - at;
        struct json *json;

        if (len > 0) {
            err = json_open(str_of(text.at + at, len), LINE_MAX_BYTES, &json, note);
            if (!err) {
                err = take(h, json, note);
                json_close(json);
            }
            if (err) note_prefix(note, "line %zu", number_);
        }
        at += len + 1;
    }
    return err;
}

enum err hist_load(struct hist *h, const char *path, struct note *note)
{
    FILE *file = fopen(path, "r");
    struct buf text;
    enum err err = ERR_OK;

    if (!file) {
        note_set(note, "%s: cannot be opened", path);
        return ERR_NOT_FOUND;
    }
    buf_init(&text, FILE_MAX_BYTES);
    for (;;) {
        char *room;
        size_t got;

        err = buf_reserve(&text, LINE_MAX_BYTES, &room);
        if (err) break;
        got = fread(room, 1, LINE_MAX_BYTES, file);
        if (!got) break;
        buf_commit(&text, got);
    }
    if (!err) err = hist_read(h, buf_peek(&text), note);
    if (err) note_prefix(note, "%s", path);
    buf_deinit(&text);
    (void)fclose(file);
    return err;
}

static int by_call(const void *a, const void *b)
{
    const struct hist_call *left = a, *right = b;

    if (left->called_ns != right->called_ns) return left->called_ns < right->called_ns ? -1 : 1;
    return left->id < right->id ? -1 : left->id > right->id;
}

static int by_watch(const void *a, const void *b)
{
    const struct hist_event *left = a, *right = b;

    if (left->watch != right->watch) return left->watch < right->watch ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

enum err hist_seal(struct hist *h, struct note *note)
{
    if (h->call_count) qsort(h->calls, h->call_count, sizeof *h->calls, by_call);
    if (h->event_count) qsort(h->events, h->event_count, sizeof *h->events, by_watch);
    for (size_t i = 0; i < h->call_count; i++) {
        struct hist_call *call = &h->calls[i];
        if (map_put(&h->by_id, str_of((const char *)&call->id, sizeof call->id), call)) {
            note_set(note, "call %" PRIu64 " is there twice", call->id);
            return ERR_INVALID;
        }
    }
    return ERR_OK;
}

const struct hist_call *hist_call(const struct hist *h, uint64_t id)
{
    return find(h, id);
}

/* -- words -- */

void hist_describe(const struct hist *h, const struct hist_call *call, struct note *ret_text)
{
    double from = h->call_count ? (double)(call->called_ns - h->calls[0].called_ns) / 1e9 : 0;
    double to = (double)(call->ended_ns - h->calls[0].called_ns) / 1e9;
    char answer[96];

    if (call->ended_ns == HIST_OPEN)
        (void)snprintf(answer, sizeof answer, "no answer");
    else
        (void)snprintf(answer, sizeof answer, "%s/%s at %.4f s, revision %" PRIu64,
                       coord_code_name(call->code), coord_reason_name(call->reason), to,
                       call->revision);
    note_set(ret_text, "%s of %s by %" PRIu32 " (%" PRIu64 ") at %.4f s: %s",
             hist_op_name(call->op), h->keys[call->key], call->client, call->id, from, answer);
    if (call->op == HIST_GET || call->op == HIST_STALE) {
        size_t len = strlen(ret_text->text);
        (void)snprintf(ret_text->text + len, sizeof ret_text->text - len, ", found %" PRIu64,
                       call->found);
    }
}

static bool is_change(const struct hist_call *call)
{
    return call->op == HIST_CREATE || call->op == HIST_CAS || call->op == HIST_DELETE ||
           call->op == HIST_ACQUIRE || call->op == HIST_RELEASE;
}

bool hist_in_doubt(const struct hist_call *call)
{
    if (call->ended_ns == HIST_OPEN) return is_change(call);
    return call->op == HIST_ACQUIRE && call->waits && call->code == COORD_EXISTS;
}

bool hist_may_change(const struct hist_call *call)
{
    return is_change(call) && (hist_in_doubt(call) || call->code == COORD_OK);
}
