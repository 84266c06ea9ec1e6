/* SPDX-License-Identifier: Apache-2.0 */
#include "model/metadata.h"
#include "model/penalty.h"
#include "shard/plan/document.h"

enum { LIST_MOST = 100 * 1000 }; /* rows, labels, requirements: each has its own, tighter, check */

struct reader {
    const struct json *object;
    struct arena *arena;
    struct dimensions *dimensions;
    struct note *note;
};

/* ---- fields of an object ---- */

static enum err refuse_unknown(const struct reader *r, const char *const *known)
{
    void *cursor = NULL;
    struct str key;
    const struct json *value;

    while (json_next(r->object, &cursor, &key, &value)) {
        const char *const *name = known;

        while (*name && !str_equal(key, str_from(*name))) name++;
        if (*name) continue;
        return note_fail(r->note, ERR_INVALID, "unknown field '%.*s'", (int)min_size(key.len, 64),
                         key.at);
    }
    return ERR_OK;
}

static bool has(const struct reader *r, const char *name)
{
    return json_member(r->object, str_from(name)) != NULL;
}

/* Optional: absent leaves the value alone. */
static enum err get_text(const struct reader *r, const char *name, struct str *text)
{
    return has(r, name) ? json_get_string(r->object, name, text, r->note) : ERR_OK;
}

static enum err get_real(const struct reader *r, const char *name, double *number)
{
    return has(r, name) ? json_get_double(r->object, name, number, r->note) : ERR_OK;
}

static enum err get_time(const struct reader *r, const char *name, int64_t *unix_ns)
{
    int64_t given = 0;
    enum err err = has(r, name) ? json_get_i64(r->object, name, &given, r->note) : ERR_OK;

    if (err || !has(r, name)) return err;
    if (given < 0) return note_fail(r->note, ERR_INVALID, "field '%s': negative", name);
    *unix_ns = given;
    return ERR_OK;
}

static enum err require_object(const struct reader *r)
{
    if (json_kind(r->object) == JSON_KIND_OBJECT) return ERR_OK;
    return note_fail(r->note, ERR_INVALID, "expected an object, got %s",
                     json_kind_name(json_kind(r->object)));
}

/* {"a": "b"} as pairs, in the order of the text. */
static enum err get_pairs(const struct reader *r, const struct json *object, const char *field,
                          struct label **ret_pairs, size_t *ret_count)
{
    size_t most = json_count(object), count = 0;
    struct label *pairs;
    void *cursor = NULL;
    const struct json *value;
    struct str key;

    *ret_pairs = NULL;
    *ret_count = 0;
    if (!object) return ERR_OK;
    if (json_kind(object) != JSON_KIND_OBJECT)
        return note_fail(r->note, ERR_INVALID, "field '%s': expected object, got %s", field,
                         json_kind_name(json_kind(object)));
    pairs = arena_calloc(r->arena, most, sizeof *pairs);
    if (!pairs) return ERR_NOMEM;
    while (json_next(object, &cursor, &key, &value)) {
        enum err err = json_get_string(value, "", &pairs[count].value, NULL);

        if (err)
            return note_fail(r->note, err, "field '%s.%.*s': expected string, got %s", field,
                             (int)min_size(key.len, 64), key.at, json_kind_name(json_kind(value)));
        pairs[count++].key = key;
    }
    *ret_pairs = pairs;
    *ret_count = count;
    return ERR_OK;
}

static enum err get_resources(const struct reader *r, const char *name, struct resources *resources)
{
    struct label *pairs;
    size_t count;
    enum err err = get_pairs(r, json_member(r->object, str_from(name)), name, &pairs, &count);

    if (err || !pairs) return err;
    return resources_parse(r->dimensions, name, pairs, count, resources, r->note);
}

/* ---- a machine ---- */

static enum err bad_word(const struct reader *r, const char *field, struct str word,
                         const char *known)
{
    return note_fail(r->note, ERR_INVALID, "field '%s': '%.*s' is none of %s", field,
                     (int)min_size(word.len, 64), word.at, known);
}

static enum err read_words(const struct reader *r, struct machine *m)
{
    struct str state = STR_EMPTY, capacity = STR_EMPTY;
    enum err err = json_get_string(r->object, "state", &state, r->note);

    if (!err) err = get_text(r, "capacity_type", &capacity);
    if (err) return err;
    if (!machine_state_read(state, &m->state))
        return bad_word(
            r, "state", state,
            "Speculative, Creating, Idle, Configuring, Configured, Draining, Deleting, Failed");
    if (capacity.len && !capacity_type_read(capacity, &m->capacity_type))
        return bad_word(r, "capacity_type", capacity, "BareMetal, Reserved, OnDemand, Spot");
    return ERR_OK;
}

static enum err read_metadata(const struct reader *r, struct machine *m)
{
    struct machine_metadata metadata = {0};
    struct label *pairs;
    size_t count;
    enum err err = get_pairs(r, json_member(r->object, STR("shard_metadata")), "shard_metadata",
                             &pairs, &count);

    if (err || !pairs) return err;
    err = metadata_decode(pairs, count, &metadata, r->note);
    if (err) {
        note_prefix(r->note, "shard_metadata");
        return err;
    }
    m->stamp = metadata.stamp;
    m->destination = metadata.destination;
    m->promised = metadata.promised;
    return ERR_OK;
}

static enum err read_host(const struct reader *r, struct machine *m)
{
    static const char *const known[] = {"provider", "ref", NULL};
    struct reader host = *r;
    enum err err;

    if (!has(r, "host")) return ERR_OK;
    err = json_get_object(r->object, "host", &host.object, r->note);
    if (!err) err = refuse_unknown(&host, known);
    if (!err) err = get_text(&host, "provider", &m->host_provider);
    if (!err) err = get_text(&host, "ref", &m->host_ref);
    if (err) note_prefix(r->note, "host");
    return err;
}

/* Files made by hand leave the host out. */
static void fill_in_host(struct machine *m)
{
    if (m->state != MACHINE_SPECULATIVE && m->state != MACHINE_CREATING && !m->host_ref.len &&
        !m->host_provider.len) {
        m->host_provider = STR("unknown");
        m->host_ref = m->id;
    }
}

enum err document_read_machine(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_machine *ret_machine,
                               struct note *note)
{
    static const char *const known[] = {
        "id",         "state",          "host",          "instance_type",
        "zone",       "labels",         "capacity_type", "price_per_hour",
        "cluster",    "resources",      "allocatable",   "interruption_probability",
        "last_error", "shard_metadata", "idle_seconds",  NULL};
    struct reader r = {object, arena, dimensions, note};
    struct document_machine out = {0};
    struct machine *m = &out.machine;
    struct label *labels;
    double idle_seconds = 0;
    enum err err;

    err = require_object(&r);
    if (!err) err = refuse_unknown(&r, known);
    if (!err) err = json_get_string(object, "id", &m->id, note);
    if (!err) err = read_words(&r, m);
    if (!err) err = read_host(&r, m);
    if (!err) err = get_text(&r, "cluster", &m->cluster);
    if (!err) err = get_text(&r, "instance_type", &m->attributes.instance_type);
    if (!err) err = get_text(&r, "zone", &m->attributes.zone);
    if (!err) err = get_text(&r, "last_error", &m->last_error);
    if (!err) err = get_real(&r, "price_per_hour", &m->price_per_hour);
    if (!err) err = get_real(&r, "interruption_probability", &m->interruption_probability);
    if (!err) err = get_real(&r, "idle_seconds", &idle_seconds);
    if (!err) err = get_resources(&r, "resources", &m->resources);
    if (!err) err = get_resources(&r, "allocatable", &m->allocatable);
    if (!err)
        err = get_pairs(&r, json_member(object, STR("labels")), "labels", &labels,
                        &m->attributes.label_count);
    if (err) return err;
    err = labels_canonicalise("labels", labels, m->attributes.label_count, note);
    m->attributes.labels = labels;
    if (!err) err = read_metadata(&r, m);
    if (err) return err;
    if (!(idle_seconds >= 0 && idle_seconds < 1e12))
        return note_fail(note, ERR_INVALID, "field 'idle_seconds': out of range");
    out.idle_ms = (uint64_t)(idle_seconds * 1000);
    fill_in_host(m);
    err = machine_check(m, NULL, note);
    if (!err) *ret_machine = out;
    return err;
}

/* ---- a cluster ---- */

static enum err get_bucket(const struct reader *r, const char *name, uint8_t *bucket)
{
    const struct json *value = json_member(r->object, str_from(name));
    struct str word;
    int64_t number;
    enum err err;

    if (!value) return ERR_OK;
    if (json_kind(value) == JSON_KIND_STRING) {
        err = json_get_string(r->object, name, &word, r->note);
        if (err) return err;
        for (unsigned b = 0; b < PENALTY_BUCKET_COUNT; b++)
            if (str_equal(word, str_from(penalty_label((uint8_t)b)))) {
                *bucket = (uint8_t)b;
                return ERR_OK;
            }
        return bad_word(r, name, word, "unspecified, 0, 0.5, 1, 2, 4 ... 8388608, pinned");
    }
    err = json_get_i64(r->object, name, &number, r->note);
    if (!err)
        err = penalty_check(name, number < 0 || number > UINT32_MAX ? UINT32_MAX : (uint32_t)number,
                            r->note);
    if (!err) *bucket = (uint8_t)number;
    return err;
}

static enum err get_items(const struct reader *r, const char *name, const struct json **ret_array,
                          size_t *ret_count)
{
    enum err err;

    *ret_array = NULL;
    *ret_count = 0;
    if (!has(r, name)) return ERR_OK;
    err = json_get_array(r->object, name, ret_array, r->note);
    if (err) return err;
    *ret_count = json_count(*ret_array);
    if (*ret_count <= LIST_MOST) return ERR_OK;
    return note_fail(r->note, ERR_TOO_LARGE, "field '%s': more than %d items", name, LIST_MOST);
}

static enum err read_requirement(const struct reader *r, struct requirement *ret_requirement)
{
    static const char *const known[] = {"key", "operator", "values", NULL};
    struct requirement out = {0};
    struct str word, *values;
    const struct json *array;
    enum err err = require_object(r);

    if (!err) err = refuse_unknown(r, known);
    if (!err) err = json_get_string(r->object, "key", &out.key, r->note);
    if (!err) err = json_get_string(r->object, "operator", &word, r->note);
    if (!err) err = get_items(r, "values", &array, &out.value_count);
    if (err) return err;
    out.op = OPERATOR_IN;
    while (out.op < OPERATOR_COUNT && !str_equal(word, str_from(operator_name(out.op)))) out.op++;
    if (out.op == OPERATOR_COUNT)
        return bad_word(r, "operator", word, "In, NotIn, Exists, DoesNotExist, Same");
    values = arena_calloc(r->arena, out.value_count, sizeof *values);
    if (!values) return ERR_NOMEM;
    for (size_t i = 0; i < out.value_count; i++) {
        err = json_get_string(json_item(array, i), "", &values[i], NULL);
        if (!err) continue;
        return note_fail(r->note, err, "field 'values[%zu]': expected string, got %s", i,
                         json_kind_name(json_kind(json_item(array, i))));
    }
    out.values = values;
    *ret_requirement = out;
    return ERR_OK;
}

static enum err read_requirements(const struct reader *r, struct profile *profile)
{
    const struct json *array;
    struct requirement *list;
    enum err err = get_items(r, "requirements", &array, &profile->requirement_count);

    if (err) return err;
    list = arena_calloc(r->arena, profile->requirement_count, sizeof *list);
    if (!list) return ERR_NOMEM;
    for (size_t i = 0; i < profile->requirement_count && !err; i++) {
        struct reader item = *r;

        item.object = json_item(array, i);
        err = read_requirement(&item, &list[i]);
        if (err) note_prefix(r->note, "requirements[%zu]", i);
    }
    profile->requirements = list;
    return err;
}

static enum err read_spread(const struct reader *r, struct spread *ret_spread)
{
    static const char *const known[] = {"topology_key", "max_skew", "when_unsatisfiable", NULL};
    static const struct {
        const char *word;
        enum spread_when when;
    } words[] = {{"DoNotSchedule", SPREAD_DO_NOT_SCHEDULE},
                 {"ScheduleAnyway", SPREAD_SCHEDULE_ANYWAY}};
    struct spread out = {0};
    struct str word;
    int64_t skew = 1;
    enum err err = require_object(r);

    if (!err) err = refuse_unknown(r, known);
    if (!err) err = json_get_string(r->object, "topology_key", &out.key, r->note);
    if (!err && has(r, "max_skew")) err = json_get_i64(r->object, "max_skew", &skew, r->note);
    if (!err) err = json_get_string(r->object, "when_unsatisfiable", &word, r->note);
    if (err) return err;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (str_equal(word, str_from(words[i].word))) out.when = words[i].when;
    if (out.when == SPREAD_UNSPECIFIED)
        return bad_word(r, "when_unsatisfiable", word, "DoNotSchedule, ScheduleAnyway");
    if (skew < INT32_MIN || skew > INT32_MAX)
        return note_fail(r->note, ERR_INVALID, "field 'max_skew': out of range");
    out.max_skew = (int32_t)skew;
    *ret_spread = out;
    return ERR_OK;
}

static enum err read_spreads(const struct reader *r, struct profile *profile)
{
    const struct json *array;
    struct spread *list;
    enum err err = get_items(r, "spread", &array, &profile->spread_count);

    if (err) return err;
    list = arena_calloc(r->arena, profile->spread_count, sizeof *list);
    if (!list) return ERR_NOMEM;
    for (size_t i = 0; i < profile->spread_count && !err; i++) {
        struct reader item = *r;

        item.object = json_item(array, i);
        err = read_spread(&item, &list[i]);
        if (err) note_prefix(r->note, "spread[%zu]", i);
    }
    profile->spreads = list;
    return err;
}

/* `arrival` is the roll-up's, for rows that say none of their own. */
static enum err read_need(const struct reader *r, struct str cluster, int64_t arrival,
                          struct need *ret_need)
{
    static const char *const known[] = {"requirements",
                                        "aggregate_resources",
                                        "priority",
                                        "spread",
                                        "min_unit",
                                        "group",
                                        "interruption_penalty_bucket",
                                        "reclamation_penalty_bucket",
                                        "arrival_unix_nanos",
                                        NULL};
    struct need_input given = {.cluster = cluster, .arrival_unix_ns = arrival};
    struct label *aggregate, *min_unit;
    int64_t priority = 0;
    enum err err = require_object(r);

    if (!err) err = refuse_unknown(r, known);
    if (!err && !has(r, "aggregate_resources")) {
        note_set(r->note, "field 'aggregate_resources': missing");
        err = ERR_INVALID;
    }
    if (!err && has(r, "priority")) err = json_get_i64(r->object, "priority", &priority, r->note);
    if (!err && (priority < INT32_MIN || priority > INT32_MAX)) {
        note_set(r->note, "field 'priority': out of range");
        err = ERR_INVALID;
    }
    given.profile.priority = (int32_t)priority;
    if (!err)
        err = get_bucket(r, "interruption_penalty_bucket", &given.profile.interruption_bucket);
    if (!err) err = get_bucket(r, "reclamation_penalty_bucket", &given.profile.reclamation_bucket);
    if (!err) err = get_text(r, "group", &given.group);
    if (!err) err = get_time(r, "arrival_unix_nanos", &given.arrival_unix_ns);
    if (!err) err = read_requirements(r, &given.profile);
    if (!err) err = read_spreads(r, &given.profile);
    if (!err)
        err = get_pairs(r, json_member(r->object, STR("aggregate_resources")),
                        "aggregate_resources", &aggregate, &given.aggregate_count);
    if (!err)
        err = get_pairs(r, json_member(r->object, STR("min_unit")), "min_unit", &min_unit,
                        &given.min_unit_count);
    if (err) return err;
    given.aggregate = aggregate;
    given.min_unit = min_unit;
    return need_build(r->arena, r->dimensions, &given, ret_need, r->note);
}

enum err document_read_cluster(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_cluster *ret_cluster,
                               struct note *note)
{
    static const char *const known[] = {"cluster_id", "needs", "timestamp_unix_nanos", NULL};
    struct reader r = {object, arena, dimensions, note};
    struct document_cluster out = {0};
    const struct json *array;
    int64_t timestamp = 0;
    enum err err = require_object(&r);

    if (!err) err = refuse_unknown(&r, known);
    if (!err) err = json_get_string(object, "cluster_id", &out.cluster, note);
    if (!err) err = id_check("cluster_id", out.cluster, ID_MAX, note);
    if (!err) err = get_time(&r, "timestamp_unix_nanos", &timestamp);
    if (!err) err = get_items(&r, "needs", &array, &out.need_count);
    if (err) return err;
    out.needs = arena_calloc(arena, out.need_count, sizeof *out.needs);
    if (!out.needs) return ERR_NOMEM;
    for (size_t i = 0; i < out.need_count; i++) {
        struct reader row = r;

        row.object = json_item(array, i);
        err = read_need(&row, out.cluster, timestamp, &out.needs[i]);
        if (err) {
            note_prefix(note, "needs[%zu]", i);
            return err;
        }
    }
    *ret_cluster = out;
    return ERR_OK;
}
