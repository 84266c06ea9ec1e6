/* SPDX-License-Identifier: Apache-2.0 */
/* Reads machines and roll-ups from JSON. Tables map keys to struct members. The model checks rules
 * about several members. */
#include "model/metadata.h"
#include "model/penalty.h"
#include "shard/plan/document.h"
#include "text/json_fields.h"

enum { LIST_MOST = 100 * 1000 }; /* rows, labels, requirements; later limits are lower */

/* ---- a machine ---- */

struct machine_text {
    struct machine machine;
    struct label *labels, *resources, *allocatable, *metadata;
    size_t label_count, resource_count, allocatable_count, metadata_count;
    double idle_seconds;
};
static const char *const state_words[] = {
    "",           "Speculative", "Creating", "Idle",   "Configuring",
    "Configured", "Draining",    "Deleting", "Failed", NULL};
static const char *const capacity_words[] = {"", "BareMetal", "Reserved", "OnDemand", "Spot", NULL};
static_assert(ARRAY_LEN(state_words) == MACHINE_STATE_COUNT + 1, "a word for each state");
static_assert(ARRAY_LEN(capacity_words) == CAPACITY_TYPE_COUNT + 1, "a word for each type");

#define MACHINE_MEMBER(member) JSON_MEMBER(struct machine_text, machine.member)
#define MACHINE_PAIRS(list, number)                                                                \
    JSON_AS_PAIRS, JSON_MEMBER(struct machine_text, list),                                         \
        JSON_COUNT(struct machine_text, number), .most = LIST_MOST
static const struct json_field host_fields[] = {
    {"provider", JSON_AS_TEXT, MACHINE_MEMBER(host_provider)},
    {"ref", JSON_AS_TEXT, MACHINE_MEMBER(host_ref)},
};
static const struct json_fields host_row = {JSON_FIELDS(host_fields)};
static const struct json_field machine_fields[] = {
    {"id", JSON_AS_TEXT, MACHINE_MEMBER(id), .needed = true},
    {"state", JSON_AS_WORD, MACHINE_MEMBER(state), .words = state_words, .needed = true},
    {"host", JSON_AS_ROW, .row = &host_row},
    {"cluster", JSON_AS_TEXT, MACHINE_MEMBER(cluster)},
    {"instance_type", JSON_AS_TEXT, MACHINE_MEMBER(attributes.instance_type)},
    {"zone", JSON_AS_TEXT, MACHINE_MEMBER(attributes.zone)},
    {"labels", MACHINE_PAIRS(labels, label_count)},
    {"capacity_type", JSON_AS_WORD, MACHINE_MEMBER(capacity_type), .words = capacity_words},
    {"price_per_hour", JSON_AS_DOUBLE, MACHINE_MEMBER(price_per_hour)},
    {"interruption_probability", JSON_AS_DOUBLE, MACHINE_MEMBER(interruption_probability)},
    {"resources", MACHINE_PAIRS(resources, resource_count)},
    {"allocatable", MACHINE_PAIRS(allocatable, allocatable_count)},
    {"last_error", JSON_AS_TEXT, MACHINE_MEMBER(last_error)},
    {"shard_metadata", MACHINE_PAIRS(metadata, metadata_count)},
    {"idle_seconds", JSON_AS_DOUBLE, JSON_MEMBER(struct machine_text, idle_seconds)},
};
static const struct json_fields machine_row_fields = {JSON_FIELDS(machine_fields)};

static enum err read_metadata(const struct machine_text *text, struct machine *m, struct note *note)
{
    struct machine_metadata metadata = {0};
    enum err err = metadata_decode(text->metadata, text->metadata_count, &metadata, note);

    if (err) {
        note_prefix(note, "shard_metadata");
        return err;
    }
    m->stamp = metadata.stamp;
    m->destination = metadata.destination;
    m->promised = metadata.promised;
    return ERR_OK;
}

/* Hand-written files usually omit the host. */
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
    struct machine_text text = {0};
    struct machine *m = &text.machine;
    enum err err = json_fields_read(object, &machine_row_fields, &text, arena, note);

    if (!err) {
        err = resources_parse(dimensions, "resources", text.resources, text.resource_count,
                              &m->resources, note);
    }
    if (!err) {
        err = resources_parse(dimensions, "allocatable", text.allocatable, text.allocatable_count,
                              &m->allocatable, note);
    }
    if (!err) err = labels_canonicalise("labels", text.labels, text.label_count, note);
    if (!err) err = read_metadata(&text, m, note);
    if (err) return err;
    m->attributes.labels = text.labels;
    m->attributes.label_count = text.label_count;
    if (!(text.idle_seconds >= 0 && text.idle_seconds < 1e12))
        return note_fail(note, ERR_INVALID, "idle_seconds: out of range");
    fill_in_host(m);
    err = machine_check(m, NULL, note);
    if (err) return err;
    *ret_machine =
        (struct document_machine){.machine = *m, .idle_ms = (uint64_t)(text.idle_seconds * 1000)};
    return ERR_OK;
}

/* ---- a cluster ---- */

/* Reads a wire number, or the bucket's upper bound as text. */
static enum err read_bucket(const struct json *value, void *into, struct arena *, struct note *note)
{
    struct str word;
    int64_t number = -1;

    if (!json_get_string(value, "", &word, NULL)) {
        for (number = 0; number < PENALTY_BUCKET_COUNT; number++)
            if (str_equal(word, str_from(penalty_label((uint8_t)number)))) break;
    } else if (json_get_i64(value, "", &number, NULL)) {
        return json_wrong(note, "must be a number or a word");
    }
    if (number < 0 || number >= PENALTY_BUCKET_COUNT)
        return json_wrong(note, "must be 0 to 27 or one of unspecified, 0, 0.5, 1, 2, 4 ... "
                                "8388608, pinned");
    *(uint8_t *)into = (uint8_t)number;
    return ERR_OK;
}

static const char *const operator_words[] = {"",     "In", "NotIn", "Exists", "DoesNotExist",
                                             "Same", NULL};
static const char *const when_words[] = {"", "DoNotSchedule", "ScheduleAnyway", NULL};
static_assert(ARRAY_LEN(operator_words) == OPERATOR_COUNT + 1, "a word for each operator");
static_assert(ARRAY_LEN(when_words) == SPREAD_WHEN_COUNT + 1, "a word for each constraint");

static const struct json_field requirement_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct requirement, key), .needed = true},
    {"operator", JSON_AS_WORD, JSON_MEMBER(struct requirement, op), .words = operator_words,
     .needed = true},
    {"values", JSON_AS_TEXTS, JSON_MEMBER(struct requirement, values),
     JSON_COUNT(struct requirement, value_count), .most = LIST_MOST},
};
static const struct json_fields requirement_row = {JSON_FIELDS(requirement_fields),
                                                   .size = sizeof(struct requirement)};
static const struct json_field spread_fields[] = {
    {"topology_key", JSON_AS_TEXT, JSON_MEMBER(struct spread, key), .needed = true},
    {"max_skew", JSON_AS_NUMBER, JSON_MEMBER(struct spread, max_skew), .least = INT32_MIN,
     .most = INT32_MAX},
    {"when_unsatisfiable", JSON_AS_WORD, JSON_MEMBER(struct spread, when), .words = when_words,
     .needed = true},
};
static const struct spread usual_spread = {.max_skew = 1};
static const struct json_fields spread_row = {
    JSON_FIELDS(spread_fields), .size = sizeof(struct spread), .usual = &usual_spread};

#define NEED_MEMBER(member) JSON_MEMBER(struct need_input, member)
#define NEED_COUNT(member)  JSON_COUNT(struct need_input, member), .most = LIST_MOST
static const struct json_field need_fields[] = {
    {"requirements", JSON_AS_ROWS, NEED_MEMBER(profile.requirements),
     NEED_COUNT(profile.requirement_count), .row = &requirement_row},
    {"aggregate_resources", JSON_AS_PAIRS, NEED_MEMBER(aggregate), NEED_COUNT(aggregate_count),
     .needed = true},
    {"priority", JSON_AS_NUMBER, NEED_MEMBER(profile.priority), .least = INT32_MIN,
     .most = INT32_MAX},
    {"spread", JSON_AS_ROWS, NEED_MEMBER(profile.spreads), NEED_COUNT(profile.spread_count),
     .row = &spread_row},
    {"min_unit", JSON_AS_PAIRS, NEED_MEMBER(min_unit), NEED_COUNT(min_unit_count)},
    {"group", JSON_AS_TEXT, NEED_MEMBER(group)},
    {"interruption_penalty_bucket", JSON_AS_OWN, NEED_MEMBER(profile.interruption_bucket),
     .own = read_bucket},
    {"reclamation_penalty_bucket", JSON_AS_OWN, NEED_MEMBER(profile.reclamation_bucket),
     .own = read_bucket},
    {"arrival_unix_nanos", JSON_AS_NUMBER, NEED_MEMBER(arrival_unix_ns), .most = INT64_MAX},
};
/* -1: use the arrival of the roll-up */
static const struct need_input usual_need = {.arrival_unix_ns = -1};
static const struct json_fields need_row = {
    JSON_FIELDS(need_fields), .size = sizeof(struct need_input), .usual = &usual_need};

struct cluster_text {
    struct str cluster;
    struct need_input *needs;
    size_t need_count;
    int64_t timestamp_unix_ns;
};
static const struct json_field cluster_fields[] = {
    {"cluster_id", JSON_AS_TEXT, JSON_MEMBER(struct cluster_text, cluster), .needed = true},
    {"needs", JSON_AS_ROWS, JSON_MEMBER(struct cluster_text, needs),
     JSON_COUNT(struct cluster_text, need_count), .most = LIST_MOST, .row = &need_row},
    {"timestamp_unix_nanos", JSON_AS_NUMBER, JSON_MEMBER(struct cluster_text, timestamp_unix_ns),
     .most = INT64_MAX},
};
static const struct json_fields cluster_row = {JSON_FIELDS(cluster_fields)};

enum err document_read_cluster(const struct json *object, struct arena *arena,
                               struct dimensions *dimensions, struct document_cluster *ret_cluster,
                               struct note *note)
{
    struct cluster_text text = {0};
    struct need *needs;
    enum err err = json_fields_read(object, &cluster_row, &text, arena, note);

    if (!err) err = id_check("cluster_id", text.cluster, ID_MAX, note);
    if (err) return err;
    needs = arena_calloc(arena, text.need_count, sizeof *needs);
    if (!needs) return ERR_NOMEM;
    for (size_t i = 0; i < text.need_count; i++) {
        struct need_input *given = &text.needs[i];

        given->cluster = text.cluster;
        if (given->arrival_unix_ns < 0) given->arrival_unix_ns = text.timestamp_unix_ns;
        err = need_build(arena, dimensions, given, &needs[i], note);
        if (!err) continue;
        note_prefix(note, "needs: [%zu]", i);
        return err;
    }
    *ret_cluster = (struct document_cluster){text.cluster, needs, text.need_count};
    return ERR_OK;
}
