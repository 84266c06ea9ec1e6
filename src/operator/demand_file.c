/* SPDX-License-Identifier: Apache-2.0 */
/* TOML is turned into JSON first, and that is read: one reader, and both say the same. */
#include "operator/demand_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "text/json.h"
#include "text/toml_json.h"

enum {
    JSON_BYTES_MAX = 4 * DEMAND_FILE_BYTES_MAX, /* of TOML as JSON */
    TOML_MEMORY_MAX = 512 << 20,
    NUMBER_CAP = 40,
    SHOWN = 60, /* bytes of a strange word in a note */
};

/* -- TOML to JSON -- */

static enum err toml_as_json(const struct toml *document, struct buf *out, struct note *note)
{
    const struct toml_value *odd = NULL;
    struct ndjson w;
    enum err err;

    ndjson_begin_value(&w, out, NDJSON_LINE);
    toml_write_json(toml_root(document), NDJSON_ITEM, &w, &odd);
    err = ndjson_end(&w);
    if (!odd) return err;
    if (toml_type(odd) == TOML_FLOAT)
        note_set(note, "line %" PRIu32 ": not a finite number; \"pinned\" says without end",
                 toml_position(odd).line);
    else
        note_set(note, "line %" PRIu32 ": %s has no place here", toml_position(odd).line,
                 toml_type_article_name(toml_type(odd)));
    return ERR_INVALID;
}

/* -- one row -- */

struct reading {
    struct arena *arena;
    struct note *note;
};

static struct str keep(struct reading *r, struct str text)
{
    char *copy = arena_dup(r->arena, text);

    return copy ? str_of(copy, text.len) : (struct str){NULL, 0};
}

static enum err wrong(struct reading *r, const char *key, const char *what)
{
    note_set(r->note, "%s: %s", key, what);
    return ERR_INVALID;
}

static enum err read_text(struct reading *r, const char *key, const struct json *value,
                          struct str *ret_text)
{
    struct str text = STR_EMPTY;

    if (json_kind(value) != JSON_KIND_STRING) return wrong(r, key, "must be a text");
    json_get_string(value, "", &text, NULL);
    *ret_text = keep(r, text);
    return ret_text->at ? ERR_OK : ERR_NOMEM;
}

static enum err read_whole(struct reading *r, const char *key, const struct json *value,
                           int64_t least, int64_t most, int64_t *ret_number)
{
    if (json_kind(value) != JSON_KIND_INTEGER) return wrong(r, key, "must be a whole number");
    json_get_i64(value, "", ret_number, NULL);
    if (*ret_number >= least && *ret_number <= most) return ERR_OK;
    note_set(r->note, "%s: %" PRId64 ", between %" PRId64 " and %" PRId64 " is allowed", key,
             *ret_number, least, most);
    return ERR_INVALID;
}

static enum err read_texts(struct reading *r, const char *key, const struct json *value,
                           const struct str **ret_texts, size_t *ret_count)
{
    size_t count = json_count(value);
    struct str *texts = arena_calloc(r->arena, count, sizeof *texts);
    enum err err = ERR_OK;

    if (!texts) return ERR_NOMEM;
    if (json_kind(value) != JSON_KIND_ARRAY) return wrong(r, key, "must be a list of texts");
    if (count > REQUIREMENT_VALUES_MAX) return wrong(r, key, "too many values");
    for (size_t i = 0; i < count && !err; i++)
        err = read_text(r, key, json_item(value, i), &texts[i]);
    *ret_texts = texts;
    *ret_count = count;
    return err;
}

static enum err unknown_key(struct reading *r, const char *in, struct str key)
{
    note_set(r->note, "%s%sunknown key '%.*s'", in, in[0] ? ": " : "",
             (int)min_size(key.len, SHOWN), key.at);
    return ERR_INVALID;
}

static enum err read_penalty(struct reading *r, const char *key, const struct json *value,
                             bool *ret_given, double *ret_dollars)
{
    struct str word = STR_EMPTY;

    *ret_given = true;
    if (json_kind(value) == JSON_KIND_STRING) {
        json_get_string(value, "", &word, NULL);
        *ret_dollars = (double)INFINITY;
        if (str_equal(word, STR("pinned"))) return ERR_OK;
    } else if (!json_get_double(value, "", ret_dollars, NULL) && *ret_dollars >= 0) {
        return ERR_OK;
    }
    return wrong(r, key, "must be dollars, 0 or more, or \"pinned\"");
}

/* A quantity is a text, or a number as it would be written. */
static enum err read_quantity(struct reading *r, struct str name, const struct json *value,
                              struct str *ret_text)
{
    char number[NUMBER_CAP + 1];
    struct buf text;
    enum err err;

    if (json_kind(value) == JSON_KIND_STRING) return read_text(r, "resources", value, ret_text);
    if (json_kind(value) != JSON_KIND_INTEGER && json_kind(value) != JSON_KIND_REAL) {
        note_set(r->note, "resources.%.*s: must be a number or a text such as \"16Gi\"",
                 (int)min_size(name.len, SHOWN), name.at);
        return ERR_INVALID;
    }
    buf_init(&text, NUMBER_CAP);
    err = json_write(value, NDJSON_LINE, &text);
    if (!err) {
        struct str line = str_trim(buf_peek(&text));
        memcpy(number, line.at, line.len);
        *ret_text = keep(r, str_of(number, line.len));
        if (!ret_text->at) err = ERR_NOMEM;
    }
    buf_deinit(&text);
    return err;
}

static enum err read_resources(struct reading *r, const struct json *value, struct request *request)
{
    struct label *resources = arena_calloc(r->arena, json_count(value), sizeof *resources);
    const struct json *quantity;
    void *cursor = NULL;
    struct str name;
    size_t count = 0;
    enum err err = ERR_OK;

    if (!resources) return ERR_NOMEM;
    if (json_kind(value) != JSON_KIND_OBJECT)
        return wrong(r, "resources", "must be a table of names and amounts");
    while (!err && json_next(value, &cursor, &name, &quantity)) {
        resources[count].key = keep(r, name);
        if (!resources[count].key.at) return ERR_NOMEM;
        err = read_quantity(r, name, quantity, &resources[count].value);
        count++;
    }
    request->resources = resources;
    request->resource_count = count;
    return err;
}

static bool word_in(struct str word, const char *const *words, size_t count, size_t *ret_at)
{
    for (size_t i = 0; i < count; i++) {
        if (!words[i] || !str_equal_nocase(word, str_from(words[i]))) continue;
        *ret_at = i;
        return true;
    }
    return false;
}

static enum err read_requirement(struct reading *r, const struct json *value,
                                 struct requirement *requirement)
{
    static const char *const words[OPERATOR_COUNT] = {[OPERATOR_IN] = "In",
                                                      [OPERATOR_NOT_IN] = "NotIn",
                                                      [OPERATOR_EXISTS] = "Exists",
                                                      [OPERATOR_DOES_NOT_EXIST] = "DoesNotExist"};
    const char *in = "requirements";
    const struct json *field;
    void *cursor = NULL;
    struct str key, word = STR_EMPTY;
    size_t op = OPERATOR_UNSPECIFIED;
    enum err err = ERR_OK;

    if (json_kind(value) != JSON_KIND_OBJECT) return wrong(r, in, "must be a list of tables");
    while (!err && json_next(value, &cursor, &key, &field)) {
        if (str_equal(key, STR("key")))
            err = read_text(r, "requirements.key", field, &requirement->key);
        else if (str_equal(key, STR("operator")))
            err = read_text(r, "requirements.operator", field, &word);
        else if (str_equal(key, STR("values")))
            err = read_texts(r, "requirements.values", field, &requirement->values,
                             &requirement->value_count);
        else
            err = unknown_key(r, in, key);
    }
    if (err) return err;
    if (!word_in(word, words, ARRAY_LEN(words), &op))
        return wrong(r, "requirements.operator", "must be In, NotIn, Exists or DoesNotExist");
    requirement->op = (enum requirement_operator)op;
    return ERR_OK;
}

/* Behind those that are there already: three keys lead here. */
static enum err more_requirements(struct reading *r, struct request *request, size_t more,
                                  struct requirement **ret_first)
{
    size_t before = request->requirement_count;
    struct requirement *all = arena_calloc(r->arena, before + more, sizeof *all);

    if (!all) return ERR_NOMEM;
    if (before) memcpy(all, request->requirements, before * sizeof *all);
    request->requirements = all;
    request->requirement_count = before + more;
    *ret_first = all + before;
    return ERR_OK;
}

static enum err read_requirements_list(struct reading *r, const struct json *value,
                                       struct request *request)
{
    size_t count = json_count(value);
    struct requirement *first = NULL;
    enum err err;

    if (json_kind(value) != JSON_KIND_ARRAY) return wrong(r, "requirements", "must be a list");
    if (count > REQUIREMENTS_MAX) return wrong(r, "requirements", "too many");
    err = more_requirements(r, request, count, &first);
    for (size_t i = 0; i < count && !err; i++)
        err = read_requirement(r, json_item(value, i), &first[i]);
    return err;
}

static enum err read_in(struct reading *r, const char *name, struct str key,
                        const struct json *value, struct request *request)
{
    struct requirement *one = NULL;
    enum err err = more_requirements(r, request, 1, &one);

    if (err) return err;
    one->key = key;
    one->op = OPERATOR_IN;
    return read_texts(r, name, value, &one->values, &one->value_count);
}

static enum err read_spread_one(struct reading *r, const struct json *value, struct spread *spread)
{
    static const char *const words[SPREAD_WHEN_COUNT] = {
        [SPREAD_DO_NOT_SCHEDULE] = "DoNotSchedule", [SPREAD_SCHEDULE_ANYWAY] = "ScheduleAnyway"};
    const struct json *field;
    void *cursor = NULL;
    struct str key, word = STR("DoNotSchedule");
    int64_t skew = 1;
    size_t when = 0;
    enum err err = ERR_OK;

    if (json_kind(value) != JSON_KIND_OBJECT) return wrong(r, "spread", "must be a list of tables");
    while (!err && json_next(value, &cursor, &key, &field)) {
        if (str_equal(key, STR("key")))
            err = read_text(r, "spread.key", field, &spread->key);
        else if (str_equal(key, STR("max-skew")))
            err = read_whole(r, "spread.max-skew", field, 1, INT32_MAX, &skew);
        else if (str_equal(key, STR("when")))
            err = read_text(r, "spread.when", field, &word);
        else
            err = unknown_key(r, "spread", key);
    }
    if (err) return err;
    if (!word_in(word, words, ARRAY_LEN(words), &when))
        return wrong(r, "spread.when", "must be DoNotSchedule or ScheduleAnyway");
    spread->max_skew = (int32_t)skew;
    spread->when = (enum spread_when)when;
    return ERR_OK;
}

static enum err read_spreads(struct reading *r, const struct json *value, struct request *request)
{
    size_t count = json_count(value);
    struct spread *spreads = arena_calloc(r->arena, count, sizeof *spreads);
    enum err err = ERR_OK;

    if (!spreads) return ERR_NOMEM;
    if (json_kind(value) != JSON_KIND_ARRAY) return wrong(r, "spread", "must be a list");
    if (count > SPREADS_MAX) return wrong(r, "spread", "too many");
    for (size_t i = 0; i < count && !err; i++)
        err = read_spread_one(r, json_item(value, i), &spreads[i]);
    request->spreads = spreads;
    request->spread_count = count;
    return err;
}

/* The group as the wire has it: key, NUL, the user's name of it. */
static enum err join_group(struct reading *r, struct str name, struct request *request)
{
    size_t len = request->same_key.len + 1 + name.len;
    char *group = arena_calloc(r->arena, len, 1);

    if (!group) return ERR_NOMEM;
    memcpy(group, request->same_key.at, request->same_key.len);
    memcpy(group + request->same_key.len + 1, name.at, name.len);
    request->group = str_of(group, len);
    return ERR_OK;
}

static enum err read_co_locate(struct reading *r, const struct json *value, struct request *request)
{
    const struct json *field;
    void *cursor = NULL;
    struct str key, group = STR_EMPTY;
    enum err err = ERR_OK;

    if (json_kind(value) != JSON_KIND_OBJECT) return wrong(r, "co-locate", "must be a table");
    while (!err && json_next(value, &cursor, &key, &field)) {
        if (str_equal(key, STR("key")))
            err = read_text(r, "co-locate.key", field, &request->same_key);
        else if (str_equal(key, STR("group")))
            err = read_text(r, "co-locate.group", field, &group);
        else
            err = unknown_key(r, "co-locate", key);
    }
    if (err) return err;
    if (request->same_key.len == 0) return wrong(r, "co-locate.key", "is missing");
    if (group.len == 0)
        return wrong(r, "co-locate.group", "is missing: it names those that belong together");
    if (text_check("co-locate.group", group, LABEL_VALUE_MAX, r->note)) return ERR_INVALID;
    return join_group(r, group, request);
}

static enum err read_field(struct reading *r, struct str key, const struct json *value,
                           struct demand_file_row *row)
{
    struct request *request = &row->request;
    int64_t number = 0;
    enum err err;

    if (str_equal(key, STR("name"))) return read_text(r, "name", value, &row->name);
    if (str_equal(key, STR("count"))) {
        err = read_whole(r, "count", value, 0, REQUEST_COUNT_MAX, &number);
        request->count = (uint32_t)number;
        return err;
    }
    if (str_equal(key, STR("priority"))) {
        err = read_whole(r, "priority", value, INT32_MIN, INT32_MAX, &number);
        request->priority = (int32_t)number;
        return err;
    }
    if (str_equal(key, STR("resources"))) return read_resources(r, value, request);
    if (str_equal(key, STR("interruption-penalty")))
        return read_penalty(r, "interruption-penalty", value, &request->has_interruption_penalty,
                            &request->interruption_penalty);
    if (str_equal(key, STR("reclamation-penalty")))
        return read_penalty(r, "reclamation-penalty", value, &request->has_reclamation_penalty,
                            &request->reclamation_penalty);
    if (str_equal(key, STR("instance-types")))
        return read_in(r, "instance-types", LABEL_INSTANCE_TYPE, value, request);
    if (str_equal(key, STR("zones"))) return read_in(r, "zones", LABEL_ZONE, value, request);
    if (str_equal(key, STR("requirements"))) return read_requirements_list(r, value, request);
    if (str_equal(key, STR("spread"))) return read_spreads(r, value, request);
    if (str_equal(key, STR("co-locate"))) return read_co_locate(r, value, request);
    return unknown_key(r, "", key);
}

static enum err read_row(struct reading *r, const struct json *value, struct demand_file_row *row)
{
    const struct json *field;
    void *cursor = NULL;
    struct str key;
    enum err err = ERR_OK;

    row->name = STR_EMPTY;
    row->request.count = 1;
    if (json_kind(value) != JSON_KIND_OBJECT) return wrong(r, "a request", "must be a table");
    while (!err && json_next(value, &cursor, &key, &field)) err = read_field(r, key, field, row);
    return err ? err : id_check("name", row->name, ID_MAX, r->note);
}

/* -- the file -- */

void demand_file_where(const struct demand_file_row *row, size_t index, enum err err,
                       struct note *note)
{
    if (!note->text[0]) note_set(note, "%s", err_text(err));
    if (row->line)
        note_prefix(note, "line %" PRIu32 ": \"%.*s\"", row->line,
                    (int)min_size(row->name.len, SHOWN), row->name.at);
    else
        note_prefix(note, "requests[%zu] \"%.*s\"", index, (int)min_size(row->name.len, SHOWN),
                    row->name.at);
}

struct named {
    const struct demand_file_row *row;
};

static int compare_names(const void *a, const void *b)
{
    const struct demand_file_row *left = ((const struct named *)a)->row;
    const struct demand_file_row *right = ((const struct named *)b)->row;
    int order = str_compare(left->name, right->name);

    return order ? order : (left > right) - (left < right); /* of two the later is blamed */
}

static enum err check_names(struct reading *r, const struct demand_file *file)
{
    struct named *sorted = arena_calloc(r->arena, file->count, sizeof *sorted);

    if (!sorted) return ERR_NOMEM;
    for (size_t i = 0; i < file->count; i++) sorted[i].row = &file->rows[i];
    qsort(sorted, file->count, sizeof *sorted, compare_names);
    for (size_t i = 1; i < file->count; i++) {
        if (!str_equal(sorted[i - 1].row->name, sorted[i].row->name)) continue;
        note_set(r->note, "name: given twice");
        demand_file_where(sorted[i].row, (size_t)(sorted[i].row - file->rows), ERR_INVALID,
                          r->note);
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* The list, whether it stands alone or under its key. */
static enum err find_list(struct reading *r, const struct json *root, const struct json **ret_list)
{
    const struct json *value;
    void *cursor = NULL;
    struct str key;

    *ret_list = json_kind(root) == JSON_KIND_ARRAY ? root : NULL;
    while (json_next(root, &cursor, &key, &value)) {
        if (!str_equal(key, STR("requests"))) return unknown_key(r, "", key);
        *ret_list = value;
    }
    if (!*ret_list) {
        /* Not the same as an empty list: a file that was cut to nothing must not cost a cluster its
         * machines. */
        note_set(r->note, "no 'requests'; no demand at all is written requests = []");
        return ERR_INVALID;
    }
    return json_kind(*ret_list) == JSON_KIND_ARRAY ? ERR_OK
                                                   : wrong(r, "requests", "must be a list");
}

static enum err read_json(struct reading *r, const struct json *root, const struct toml *toml,
                          struct demand_file *ret_file)
{
    const struct toml_value *where = toml ? toml_get(toml_root(toml), STR("requests")) : NULL;
    const struct json *list;
    struct demand_file_row *rows;
    enum err err = find_list(r, root, &list);

    if (err) return err;
    if (json_count(list) > DEMAND_FILE_ROWS_MAX) return wrong(r, "requests", "too many");
    rows = arena_calloc(r->arena, json_count(list), sizeof *rows);
    if (!rows) return ERR_NOMEM;
    if (where) where = toml_first(where);
    for (size_t i = 0; i < json_count(list) && !err; i++) {
        if (where) {
            rows[i].line = toml_position(where).line;
            where = toml_next(where);
        }
        err = read_row(r, json_item(list, i), &rows[i]);
        if (err) demand_file_where(&rows[i], i, err, r->note);
    }
    if (err) return err;
    ret_file->rows = rows;
    ret_file->count = json_count(list);
    return check_names(r, ret_file);
}

bool demand_file_is_json(struct str text)
{
    struct str rest = str_trim(text);

    if (str_starts(rest, STR("{"))) return true;
    if (!str_starts(rest, STR("["))) return false;
    rest = str_trim(str_tail(rest, 1));
    return str_starts(rest, STR("{")) || str_starts(rest, STR("]"));
}

static enum err open_toml(struct str text, struct toml **ret_toml, struct buf *json,
                          struct note *note)
{
    enum err err = toml_open(text, TOML_MEMORY_MAX, ret_toml, NULL, note);

    return err ? err : toml_as_json(*ret_toml, json, note);
}

enum err demand_file_read(struct str text, struct arena *arena, struct demand_file *ret_file,
                          struct note *note)
{
    struct note own = {""};
    struct reading r = {arena, note ? note : &own};
    struct demand_file file = {0};
    struct toml *toml = NULL;
    struct json *root = NULL;
    struct buf json;
    enum err err = ERR_OK;

    if (text.len > DEMAND_FILE_BYTES_MAX) {
        note_set(note, "%zu bytes, at most %d are allowed", text.len, DEMAND_FILE_BYTES_MAX);
        return ERR_TOO_LARGE;
    }
    buf_init(&json, JSON_BYTES_MAX);
    if (!demand_file_is_json(text)) {
        err = open_toml(text, &toml, &json, r.note);
        text = buf_peek(&json);
    }
    if (!err) err = json_open(text, JSON_BYTES_MAX, &root, r.note);
    if (!err) err = read_json(&r, root, toml, &file);
    json_close(root);
    toml_close(toml);
    buf_deinit(&json);
    if (!err) *ret_file = file;
    return err;
}
