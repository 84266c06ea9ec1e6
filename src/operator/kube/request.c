/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the spec of a CapacityRequest, and writes its status. */
#include <math.h>
#include <stdio.h>

#include "operator/kube/objects.h"
#include "text/json_fields.h"
#include "text/real.h"
#include "text/rfc3339.h"

static enum supply_kind condition_read(const struct json *object);

enum err capacity_view_read(const struct json *object, struct capacity_view *ret_view,
                            struct note *note)
{
    ret_view->generation = kube_generation(object);
    ret_view->pod_uid = kube_text(object, "spec.podUID");
    ret_view->phase = kube_text(object, "status.phase");
    ret_view->condition = condition_read(object);
    ret_view->managed =
        str_equal(kube_label(object, "metadata.labels", KUBE_LABEL_MANAGED), STR(KUBE_MANAGED_BY));
    return kube_names(object, &ret_view->namespace_, &ret_view->name, &ret_view->uid, note);
}

/* -- the spec -- */

enum { LIST_MAX = INT32_MAX }; /* demand_put() checks stricter bounds */

static enum err read_operator(const struct json *value, void *into, struct arena *arena,
                              struct note *note)
{
    enum requirement_operator *op = into;
    struct str word;
    enum err err = json_text(value, &word, arena, note);

    if (err) return err;
    for (*op = OPERATOR_IN; *op <= OPERATOR_DOES_NOT_EXIST; ++*op)
        if (str_equal(word, str_from(operator_name(*op)))) return ERR_OK;
    return note_fail(note, ERR_UNSUPPORTED, "%.*s: a machine has no numbers to compare",
                     STR_ARG(word));
}

static enum err read_skew(const struct json *value, void *into, struct arena *, struct note *note)
{
    int64_t skew;

    if (json_get_i64(value, "", &skew, NULL)) return json_wrong(note, "must be a whole number");
    *(int32_t *)into = skew > INT32_MAX ? INT32_MAX : skew < 1 ? 1 : (int32_t)skew;
    return ERR_OK;
}

static enum err read_when(const struct json *value, void *into, struct arena *arena,
                          struct note *note)
{
    (void)arena, (void)note;
    if (str_equal(kube_text(value, ""), STR("ScheduleAnyway")))
        *(enum spread_when *)into = SPREAD_SCHEDULE_ANYWAY;
    return ERR_OK;
}

/* Reads "2.5" dollars, or "pinned". */
static enum err request_read_penalty(const struct json *value, void *into, struct arena *arena,
                                     struct note *note)
{
    struct request_penalty *penalty = into;
    struct str text = STR_EMPTY;
    enum err err = json_text(value, &text, arena, note);

    penalty->given = true;
    penalty->dollars = (double)INFINITY;
    if (!err && str_equal(text, STR("pinned"))) return ERR_OK;
    if (err == ERR_NOMEM || (!err && !real_read(text.at, &penalty->dollars))) return err;
    return json_wrong(note, "expected dollars as \"2.5\", or \"pinned\"");
}

struct capacity {
    struct capacity_request request;
    /* Members of coLocation: */
    struct label *labels;
    struct selector_term *terms;
    size_t label_count, term_count;
};
static const struct json_field requirement_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct requirement, key), .needed = true},
    {"operator", JSON_AS_OWN, JSON_MEMBER(struct requirement, op), .own = read_operator,
     .needed = true},
    {"values", JSON_AS_TEXTS, JSON_MEMBER(struct requirement, values),
     JSON_COUNT(struct requirement, value_count), .most = LIST_MAX},
};
static const struct json_fields requirement_row = {
    JSON_FIELDS(requirement_fields), .size = sizeof(struct requirement), .loose = true};

static const struct json_field spread_fields[] = {
    {"topologyKey", JSON_AS_TEXT, JSON_MEMBER(struct spread, key), .needed = true},
    {"maxSkew", JSON_AS_OWN, JSON_MEMBER(struct spread, max_skew), .own = read_skew},
    {"whenUnsatisfiable", JSON_AS_OWN, JSON_MEMBER(struct spread, when), .own = read_when},
};
static const struct spread usual_spread = {.max_skew = 1, .when = SPREAD_DO_NOT_SCHEDULE};
static const struct json_fields spread_row = {JSON_FIELDS(spread_fields),
                                              .size = sizeof(struct spread), .usual = &usual_spread,
                                              .loose = true};

static const struct json_field term_fields[] = {
    {"key", JSON_AS_TEXT, JSON_MEMBER(struct selector_term, key), .needed = true},
    {"operator", JSON_AS_TEXT, JSON_MEMBER(struct selector_term, op), .needed = true},
    {"values", JSON_AS_TEXTS, JSON_MEMBER(struct selector_term, values),
     JSON_COUNT(struct selector_term, value_count), .most = LIST_MAX},
};
static const struct json_fields term_row = {JSON_FIELDS(term_fields),
                                            .size = sizeof(struct selector_term), .loose = true};
static const struct json_field selector_fields[] = {
    {"matchLabels", JSON_AS_PAIRS, JSON_MEMBER(struct capacity, labels),
     JSON_COUNT(struct capacity, label_count), .most = LIST_MAX},
    {"matchExpressions", JSON_AS_ROWS, JSON_MEMBER(struct capacity, terms),
     JSON_COUNT(struct capacity, term_count), .most = LIST_MAX, .row = &term_row},
};
static const struct json_fields selector_row = {JSON_FIELDS(selector_fields), .loose = true};
/* All tables with this macro fill the same struct capacity. */
#define WHOLE .offset = 0, .size = sizeof(struct capacity)
static const struct json_field co_location_fields[] = {
    {"topologyKey", JSON_AS_TEXT, JSON_MEMBER(struct capacity, request.same_key), .needed = true},
    {"labelSelector", JSON_AS_ROW, WHOLE, .row = &selector_row},
};
static const struct json_fields co_location_row = {JSON_FIELDS(co_location_fields), .loose = true};

static const struct json_field spec_fields[] = {
    {"priority", JSON_AS_NUMBER, JSON_MEMBER(struct capacity, request.priority), .least = INT32_MIN,
     .most = INT32_MAX},
    {"count", JSON_AS_NUMBER, JSON_MEMBER(struct capacity, request.count), .least = 1,
     .most = REQUEST_COUNT_MAX},
    {"requirements", JSON_AS_ROWS, JSON_MEMBER(struct capacity, request.requirements),
     JSON_COUNT(struct capacity, request.requirement_count), .most = LIST_MAX,
     .row = &requirement_row},
    {"resources", JSON_AS_PAIRS, JSON_MEMBER(struct capacity, request.resources),
     JSON_COUNT(struct capacity, request.resource_count), .most = LIST_MAX},
    {"topologySpread", JSON_AS_ROWS, JSON_MEMBER(struct capacity, request.spreads),
     JSON_COUNT(struct capacity, request.spread_count), .most = LIST_MAX, .row = &spread_row},
    {"coLocation", JSON_AS_ROW, WHOLE, .row = &co_location_row},
    {"interruptionPenalty", JSON_AS_OWN, JSON_MEMBER(struct capacity, request.interruption),
     .own = request_read_penalty},
    {"reclamationPenalty", JSON_AS_OWN, JSON_MEMBER(struct capacity, request.reclamation),
     .own = request_read_penalty},
};
static const struct json_fields spec_table = {JSON_FIELDS(spec_fields), .loose = true};

static enum err make_group(struct capacity *c, struct arena *arena)
{
    struct buf group;
    char *copy = NULL;
    enum err err;

    buf_init(&group, KUBE_OBJECT_MAX);
    err = group_write(c->request.same_key, c->labels, c->label_count, c->terms, c->term_count,
                      &group);
    if (!err) copy = arena_dup(arena, buf_peek(&group));
    if (copy) c->request.group = str_of(copy, group.len);
    buf_deinit(&group);
    return copy || err ? err : ERR_NOMEM;
}

enum err capacity_read(const struct json *object, struct arena *arena,
                       struct capacity_request *ret_request, struct note *note)
{
    const struct json *spec = json_find(object, "spec");
    struct capacity c = {.request.count = 1};
    enum err err;

    if (!spec) return note_fail(note, ERR_PARSE, "spec: missing");
    err = json_fields_read(spec, &spec_table, &c, arena, note);
    if (err && err != ERR_NOMEM) note_prefix(note, "spec");
    if (!err && json_find(spec, "coLocation")) err = make_group(&c, arena);
    *ret_request = c.request;
    return err;
}

/* -- the supply: condition and Event -- */

static const struct supply_words {
    const char *shard, *reason, *message;
} supply_words[SUPPLY_KINDS] = {
    [SUPPLY_MET] = {"", "Supplied", "The shard has machines for this request."},
    [SUPPLY_NO_MATCH] = {"NO_MATCHING_SUPPLY", "NoMatchingSupply",
                         "No machine of this shape exists at the shard. Ask for another shape, or "
                         "raise the quota of its provider."},
    [SUPPLY_STARVED] = {"PRIORITY_STARVED", "PriorityStarved",
                        "Requests of at least this priority have all machines of this shape. Raise "
                        "the priority, or add machines."},
    [SUPPLY_EXHAUSTED] = {"PREEMPTION_EXHAUSTED", "PreemptionExhausted",
                          "Machines were taken from lower priorities, and they are too few. Add "
                          "machines."},
    [SUPPLY_TOPOLOGY] = {"TOPOLOGY_UNSATISFIABLE", "TopologyUnsatisfiable",
                         "No single domain can hold the whole group. Make the group smaller, or "
                         "the domain larger."},
    [SUPPLY_OTHER] = {"", "Waiting",
                      "The shard has no machine for this request yet. `musterctl need list` says "
                      "why."},
};

enum supply_kind supply_kind_of(const struct supply *supply)
{
    enum supply_kind kind = SUPPLY_NO_MATCH;

    if (supply->satisfied) return SUPPLY_MET;
    while (kind < SUPPLY_OTHER && strcmp(supply->reason, supply_words[kind].shard) != 0) kind++;
    return kind;
}

static bool condition_is_ours(const struct json *condition)
{
    return str_equal(kube_text(condition, "type"), STR("Supplied"));
}

static enum supply_kind condition_read(const struct json *object)
{
    const struct json *all = json_find(object, "status.conditions");

    for (size_t i = 0; all && i < json_count(all); i++) {
        struct str reason = kube_text(json_item(all, i), "reason");
        if (!condition_is_ours(json_item(all, i))) continue;
        for (enum supply_kind kind = SUPPLY_MET; kind < SUPPLY_KINDS; kind++)
            if (str_equal(reason, str_from(supply_words[kind].reason))) return kind;
        return SUPPLY_OTHER;
    }
    return SUPPLY_UNKNOWN;
}

static void put_conditions(struct ndjson *w, const struct json *object, enum supply_kind kind,
                           wall_time since)
{
    const struct json *all = json_find(object, "status.conditions");
    char text[RFC3339_CAP];

    if (!all && !kind) return;
    ndjson_open_array(w, STR("conditions"));
    for (size_t i = 0; all && i < json_count(all); i++)
        if (!kind || !condition_is_ours(json_item(all, i)))
            kube_put(w, NDJSON_ITEM, json_item(all, i));
    if (kind) {
        rfc3339_text((int64_t)(since.ms / MS_PER_SECOND), 0, 0, text);
        ndjson_open_object(w, NDJSON_ITEM);
        ndjson_c_string(w, STR("type"), "Supplied");
        ndjson_c_string(w, STR("status"), kind == SUPPLY_MET ? "True" : "False");
        ndjson_c_string(w, STR("reason"), supply_words[kind].reason);
        ndjson_c_string(w, STR("message"), supply_words[kind].message);
        ndjson_c_string(w, STR("lastTransitionTime"), text);
        ndjson_close_object(w);
    }
    ndjson_close_array(w);
}

enum err capacity_status_write(const struct json *object, const char *phase, struct str message,
                               enum supply_kind kind, wall_time since, struct buf *out)
{
    struct ndjson w;

    ndjson_begin(&w, out, NDJSON_LINE);
    kube_put_members(&w, object, STR("status"));
    ndjson_open_object(&w, STR("status"));
    ndjson_c_string(&w, STR("phase"), phase);
    if (message.len) ndjson_string(&w, STR("message"), message);
    put_conditions(&w, object, kind, since);
    ndjson_close_object(&w);
    return ndjson_end(&w);
}

/* "POD.TIME" with at most 253 bytes, as kubelets name Events. The part before the dot must end with
 * a letter or digit. */
static void event_name(const struct pod_event *event, char ret_name[KUBE_NAME_CAP])
{
    enum { TIME_LEN = 17 };
    size_t len = min_size(event->name.len, KUBE_NAME_CAP - 1 - TIME_LEN);

    while (len > 1 && (event->name.at[len - 1] == '-' || event->name.at[len - 1] == '.')) len--;
    (void)snprintf(ret_name, KUBE_NAME_CAP, "%.*s.%016llx", (int)len, event->name.at,
                   (unsigned long long)event->at.ms);
}

enum err event_write(const struct pod_event *event, struct buf *out)
{
    char name[KUBE_NAME_CAP], at[RFC3339_CAP];
    struct ndjson w;

    event_name(event, name);
    rfc3339_text((int64_t)(event->at.ms / MS_PER_SECOND), 0, 0, at);
    ndjson_begin(&w, out, NDJSON_LINE);
    ndjson_c_string(&w, STR("apiVersion"), "v1");
    ndjson_c_string(&w, STR("kind"), "Event");
    ndjson_open_object(&w, STR("metadata"));
    ndjson_c_string(&w, STR("name"), name);
    ndjson_string(&w, STR("namespace"), event->namespace_);
    ndjson_close_object(&w);
    ndjson_open_object(&w, STR("involvedObject"));
    ndjson_c_string(&w, STR("apiVersion"), "v1");
    ndjson_c_string(&w, STR("kind"), "Pod");
    ndjson_string(&w, STR("namespace"), event->namespace_);
    ndjson_string(&w, STR("name"), event->name);
    ndjson_string(&w, STR("uid"), event->uid);
    ndjson_close_object(&w);
    ndjson_c_string(&w, STR("type"), "Warning");
    ndjson_c_string(&w, STR("reason"), supply_words[event->kind].reason);
    ndjson_c_string(&w, STR("message"), supply_words[event->kind].message);
    ndjson_open_object(&w, STR("source"));
    ndjson_c_string(&w, STR("component"), KUBE_MANAGED_BY);
    ndjson_close_object(&w);
    ndjson_c_string(&w, STR("firstTimestamp"), at);
    ndjson_c_string(&w, STR("lastTimestamp"), at);
    ndjson_u64(&w, STR("count"), 1);
    return ndjson_end(&w);
}
