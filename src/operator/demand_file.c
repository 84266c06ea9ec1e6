/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the demand file. TOML is converted to JSON, so that one reader handles both. Pure. */
#include "operator/demand_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "operator/core/occupancy.h"
#include "text/json_fields.h"
#include "text/toml_json.h"

enum {
    JSON_BYTES_MAX = 4 * DEMAND_FILE_BYTES_MAX,
    TOML_MEMORY_MAX = 512 << 20,
    NUMBER_CAP = 40,
    SHOWN = 60, /* bytes of a wrong value in a note */
};

/* -- reading a row -- */

struct part_list {
    const void *all;
    size_t count;
};
struct parts {
    struct demand_file_row row;
    struct part_list resources;    /* struct label */
    struct part_list types, zones; /* struct str */
    struct part_list requirements; /* struct requirement */
};

static enum err demand_file_read_penalty(const struct json *value, void *into, struct arena *,
                                         struct note *note)
{
    struct request_penalty *penalty = into;
    struct str word = STR_EMPTY;

    penalty->given = true;
    penalty->dollars = (double)INFINITY;
    if (!json_get_string(value, "", &word, NULL) && str_equal(word, STR("pinned"))) return ERR_OK;
    if (!json_get_double(value, "", &penalty->dollars, NULL) && penalty->dollars >= 0)
        return ERR_OK;
    return json_wrong(note, "must be dollars, 0 or more, or \"pinned\"");
}

static enum err read_quantity(const struct json *value, struct str *ret_text, struct arena *arena,
                              struct note *note)
{
    struct str line;
    struct buf text;
    char *copy;
    enum err err;

    if (json_kind(value) == JSON_KIND_STRING) return json_text(value, ret_text, arena, note);
    if (json_kind(value) != JSON_KIND_INTEGER && json_kind(value) != JSON_KIND_REAL)
        return json_wrong(note, "must be a number or a text such as \"16Gi\"");
    buf_init(&text, NUMBER_CAP);
    err = json_write(value, NDJSON_LINE, &text);
    line = str_trim(buf_peek(&text));
    copy = err ? NULL : arena_dup(arena, line);
    if (copy) *ret_text = str_of(copy, line.len);
    buf_deinit(&text);
    return copy || err ? err : ERR_NOMEM;
}

static enum err read_resources(const struct json *value, void *into, struct arena *arena,
                               struct note *note)
{
    struct label *pairs = arena_calloc(arena, json_count(value), sizeof *pairs);
    const struct json *quantity;
    void *cursor = NULL;
    struct str name;
    size_t count = 0;
    enum err err = pairs ? ERR_OK : ERR_NOMEM;

    if (json_kind(value) != JSON_KIND_OBJECT)
        return json_wrong(note, "must be a table of names and amounts");
    while (!err && json_next(value, &cursor, &name, &quantity)) {
        char *copy = arena_dup(arena, name);

        err = copy ? read_quantity(quantity, &pairs[count].value, arena, note) : ERR_NOMEM;
        if (err == ERR_INVALID) note_prefix(note, "%s", copy);
        pairs[count++].key = str_of(copy, name.len);
    }
    *(struct part_list *)into = (struct part_list){pairs, count};
    return err;
}

static const char *const operators[] = {"", "In", "NotIn", "Exists", "DoesNotExist", NULL};
static_assert(OPERATOR_IN == 1 && OPERATOR_NOT_IN == 2 && OPERATOR_EXISTS == 3 &&
                  OPERATOR_DOES_NOT_EXIST == 4,
              "places in the list");
static const char *const spread_whens[] = {"", "DoNotSchedule", "ScheduleAnyway", NULL};
static_assert(SPREAD_DO_NOT_SCHEDULE == 1 && SPREAD_SCHEDULE_ANYWAY == 2, "places in the list");

static const struct json_field requirement_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct requirement, key)},
    {"operator", JSON_AS_WORD, JSON_MEMBER(struct requirement, op), .words = operators,
     .any_case = true, .needed = true},
    {"values", JSON_AS_TEXTS, JSON_MEMBER(struct requirement, values),
     JSON_COUNT(struct requirement, value_count), .most = REQUIREMENT_VALUES_MAX},
};
static const struct json_fields requirement_row = {JSON_FIELDS(requirement_fields),
                                                   .size = sizeof(struct requirement)};

static const struct json_field spread_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct spread, key)},
    {"max-skew", JSON_AS_NUMBER, JSON_MEMBER(struct spread, max_skew), .least = 1,
     .most = INT32_MAX},
    {"when", JSON_AS_WORD, JSON_MEMBER(struct spread, when), .words = spread_whens,
     .any_case = true},
};
static const struct spread usual_spread = {.max_skew = 1, .when = SPREAD_DO_NOT_SCHEDULE};
static const struct json_fields spread_row = {
    JSON_FIELDS(spread_fields), .size = sizeof(struct spread), .usual = &usual_spread};

static const struct json_field co_locate_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct capacity_request, same_key), .needed = true},
    {"group", JSON_AS_TEXT, JSON_MEMBER(struct capacity_request, group), .needed = true},
};
static const struct json_fields co_locate_row = {JSON_FIELDS(co_locate_fields)};

static const struct json_field row_fields[] = {
    {"name", JSON_AS_TEXT, JSON_MEMBER(struct parts, row.name)},
    {"count", JSON_AS_NUMBER, JSON_MEMBER(struct parts, row.request.count),
     .most = REQUEST_COUNT_MAX},
    {"priority", JSON_AS_NUMBER, JSON_MEMBER(struct parts, row.request.priority),
     .least = INT32_MIN, .most = INT32_MAX},
    {"resources", JSON_AS_OWN, JSON_MEMBER(struct parts, resources), .own = read_resources},
    {"interruption-penalty", JSON_AS_OWN, JSON_MEMBER(struct parts, row.request.interruption),
     .own = demand_file_read_penalty},
    {"reclamation-penalty", JSON_AS_OWN, JSON_MEMBER(struct parts, row.request.reclamation),
     .own = demand_file_read_penalty},
    {"instance-types", JSON_AS_TEXTS, JSON_MEMBER(struct parts, types.all),
     JSON_COUNT(struct parts, types.count), .most = REQUIREMENT_VALUES_MAX},
    {"zones", JSON_AS_TEXTS, JSON_MEMBER(struct parts, zones.all),
     JSON_COUNT(struct parts, zones.count), .most = REQUIREMENT_VALUES_MAX},
    {"requirements", JSON_AS_ROWS, JSON_MEMBER(struct parts, requirements.all),
     JSON_COUNT(struct parts, requirements.count), .most = REQUIREMENTS_MAX,
     .row = &requirement_row},
    {"spread", JSON_AS_ROWS, JSON_MEMBER(struct parts, row.request.spreads),
     JSON_COUNT(struct parts, row.request.spread_count), .most = SPREADS_MAX, .row = &spread_row},
    {"co-locate", JSON_AS_ROW, JSON_MEMBER(struct parts, row.request), .row = &co_locate_row},
};
static const struct json_fields row_table = {JSON_FIELDS(row_fields)};

static const struct json_field machine_fields[] = {
    {"machine", JSON_AS_TEXT, JSON_MEMBER(struct demand_file_machine, name), .needed = true},
    {"evictable", JSON_AS_NUMBER, JSON_MEMBER(struct demand_file_machine, evictable),
     .most = INT32_MAX},
    {"held", JSON_AS_NUMBER, JSON_MEMBER(struct demand_file_machine, held), .most = INT32_MAX},
    {"disruption-cost", JSON_AS_OWN, JSON_MEMBER(struct demand_file_machine, disruption),
     .own = demand_file_read_penalty},
    {"free", JSON_AS_OWN, JSON_MEMBER(struct demand_file_machine, free), .own = read_resources},
    {"requested", JSON_AS_OWN, JSON_MEMBER(struct demand_file_machine, requested),
     .own = read_resources},
    {"largest", JSON_AS_OWN, JSON_MEMBER(struct demand_file_machine, largest),
     .own = read_resources},
};
static const struct json_fields machine_table = {JSON_FIELDS(machine_fields)};
static_assert(sizeof(struct file_amounts) == sizeof(struct part_list), "read_resources fills both");

static enum err read_machines(const struct json *list, struct arena *arena,
                              struct demand_file *file, struct note *note)
{
    struct demand_file_machine *machines = arena_calloc(arena, json_count(list), sizeof *machines);
    enum err err = ERR_OK;

    if (json_kind(list) != JSON_KIND_ARRAY || json_count(list) > OCCUPANCY_ROWS_MAX)
        return note_fail(note, ERR_INVALID, "machines: must be a list of at most %d machines",
                         OCCUPANCY_ROWS_MAX);
    if (!machines) return ERR_NOMEM;
    for (size_t i = 0; i < json_count(list) && !err; i++) {
        err = json_fields_read(json_item(list, i), &machine_table, &machines[i], arena, note);
        if (!err) err = id_check("machine", machines[i].name, ID_MAX, note);
        if (err) note_prefix(note, "machines[%zu]", i);
        if (!machines[i].disruption.given) machines[i].disruption.dollars = machines[i].evictable;
    }
    file->machines = machines;
    file->machine_count = json_count(list);
    return err;
}

static enum err join_requirements(struct parts *parts, struct arena *arena)
{
    const struct {
        struct str key;
        const struct part_list *values;
    } shorts[] = {{LABEL_INSTANCE_TYPE, &parts->types}, {LABEL_ZONE, &parts->zones}};
    struct requirement *all =
        arena_calloc(arena, parts->requirements.count + ARRAY_LEN(shorts), sizeof *all);
    size_t count = 0;

    if (!all) return ERR_NOMEM;
    for (size_t i = 0; i < ARRAY_LEN(shorts); i++)
        if (shorts[i].values->all)
            all[count++] = (struct requirement){shorts[i].key, OPERATOR_IN, shorts[i].values->all,
                                                shorts[i].values->count};
    if (parts->requirements.count)
        memcpy(all + count, parts->requirements.all, parts->requirements.count * sizeof *all);
    parts->row.request.requirements = all;
    parts->row.request.requirement_count = count + parts->requirements.count;
    return ERR_OK;
}

static enum err join_group(struct capacity_request *request, struct arena *arena, struct note *note)
{
    struct str key = request->same_key, name = request->group;
    char *group = arena_calloc(arena, key.len + 1 + name.len, 1);

    if (key.len == 0) return json_wrong(note, "co-locate: key: is empty");
    if (name.len == 0) return json_wrong(note, "co-locate: group: is empty");
    if (text_check("co-locate: group", name, LABEL_VALUE_MAX, note)) return ERR_INVALID;
    if (!group) return ERR_NOMEM;
    memcpy(group, key.at, key.len);
    memcpy(group + key.len + 1, name.at, name.len);
    request->group = str_of(group, key.len + 1 + name.len);
    return ERR_OK;
}

static enum err read_row(const struct json *value, struct arena *arena, struct demand_file_row *row,
                         struct note *note)
{
    struct parts parts = {.row = {.name = STR_EMPTY, .line = row->line, .request.count = 1}};
    struct capacity_request *request = &parts.row.request;
    enum err err = json_fields_read(value, &row_table, &parts, arena, note);

    row->name = parts.row.name;
    if (!err) err = join_requirements(&parts, arena);
    if (!err && json_find(value, "co-locate")) err = join_group(request, arena, note);
    if (!err) err = id_check("name", parts.row.name, ID_MAX, note);
    request->resources = parts.resources.all;
    request->resource_count = parts.resources.count;
    *row = parts.row;
    return err;
}

/* -- reading the file -- */

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

static int compare_names(const void *a, const void *b)
{
    const struct demand_file_row *left = *(const struct demand_file_row *const *)a;
    const struct demand_file_row *right = *(const struct demand_file_row *const *)b;
    int order = str_compare(left->name, right->name);

    /* of equal names the later row is reported */
    return order ? order : (left > right) - (left < right);
}

static enum err check_names(const struct demand_file *file, struct arena *arena, struct note *note)
{
    const struct demand_file_row **sorted = arena_calloc(arena, file->count, sizeof(void *));

    if (!sorted) return ERR_NOMEM;
    for (size_t i = 0; i < file->count; i++) sorted[i] = &file->rows[i];
    qsort(sorted, file->count, sizeof(void *), compare_names);
    for (size_t i = 1; i < file->count; i++) {
        if (!str_equal(sorted[i - 1]->name, sorted[i]->name)) continue;
        note_set(note, "name: given twice");
        demand_file_where(sorted[i], (size_t)(sorted[i] - file->rows), ERR_INVALID, note);
        return ERR_INVALID;
    }
    return ERR_OK;
}

/* The list is the root or its value "requests". *ret_machines is NULL if there are none. */
static enum err find_list(const struct json *root, const struct json **ret_list,
                          const struct json **ret_machines, struct note *note)
{
    const struct json *value;
    void *cursor = NULL;
    struct str key;

    *ret_list = json_kind(root) == JSON_KIND_ARRAY ? root : NULL;
    while (json_next(root, &cursor, &key, &value)) {
        if (str_equal(key, STR("machines"))) {
            *ret_machines = value;
            continue;
        }
        if (!str_equal(key, STR("requests")))
            return note_fail(note, ERR_INVALID, "unknown key '%.*s'", (int)min_size(key.len, SHOWN),
                             key.at);
        *ret_list = value;
    }
    if (!*ret_list) {
        /* A truncated file may lack 'requests', and must not cost a cluster its machines. */
        return note_fail(note, ERR_INVALID,
                         "no 'requests'; no demand at all is written requests = []");
    }
    if (json_kind(*ret_list) == JSON_KIND_ARRAY) return ERR_OK;
    return note_fail(note, ERR_INVALID, "requests: must be a list");
}

static enum err read_json(const struct json *root, const struct toml *toml, struct arena *arena,
                          struct demand_file *ret_file, struct note *note)
{
    const struct toml_value *where = toml ? toml_get(toml_root(toml), STR("requests")) : NULL;
    const struct json *list, *machines = NULL;
    struct demand_file_row *rows;
    enum err err = find_list(root, &list, &machines, note);

    if (!err && machines) err = read_machines(machines, arena, ret_file, note);
    if (err) return err;
    if (json_count(list) > DEMAND_FILE_ROWS_MAX)
        return note_fail(note, ERR_INVALID, "requests: too many");
    rows = arena_calloc(arena, json_count(list), sizeof *rows);
    if (!rows) return ERR_NOMEM;
    if (where) where = toml_first(where);
    for (size_t i = 0; i < json_count(list) && !err; i++) {
        if (where) {
            rows[i].line = toml_position(where).line;
            where = toml_next(where);
        }
        err = read_row(json_item(list, i), arena, &rows[i], note);
        if (err) demand_file_where(&rows[i], i, err, note);
    }
    if (err) return err;
    ret_file->rows = rows;
    ret_file->count = json_count(list);
    return check_names(ret_file, arena, note);
}

bool demand_file_is_json(struct str text)
{
    struct str rest = str_trim(text);

    if (str_starts(rest, STR("{"))) return true;
    if (!str_starts(rest, STR("["))) return false;
    rest = str_trim(str_tail(rest, 1));
    return str_starts(rest, STR("{")) || str_starts(rest, STR("]"));
}

enum err demand_file_read(struct str text, struct arena *arena, struct demand_file *ret_file,
                          struct note *note)
{
    struct note own = {""};
    struct demand_file file = {0};
    struct toml *toml = NULL;
    struct json *root = NULL;
    struct buf json;
    enum err err = ERR_OK;

    if (!note) note = &own;
    if (text.len > DEMAND_FILE_BYTES_MAX)
        return note_fail(note, ERR_TOO_LARGE, "%zu bytes, at most %d are allowed", text.len,
                         DEMAND_FILE_BYTES_MAX);
    buf_init(&json, JSON_BYTES_MAX);
    if (!demand_file_is_json(text)) {
        err = toml_open(text, TOML_MEMORY_MAX, &toml, NULL, note);
        if (!err) err = toml_as_json(toml, &json, note);
        text = buf_peek(&json);
    }
    if (!err) err = json_open(text, JSON_BYTES_MAX, &root, note);
    if (!err) err = read_json(root, toml, arena, &file, note);
    json_close(root);
    toml_close(toml);
    buf_deinit(&json);
    if (!err) *ret_file = file;
    return err;
}
