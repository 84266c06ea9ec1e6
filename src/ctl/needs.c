/* SPDX-License-Identifier: Apache-2.0 */
/* musterctl need list: what each Need of a shard's last cycle got, and why it lacks machines. Asks
 * the shards, because a coordinator has only a summary. One thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "ctl/inspect.h"
#include "text/rfc3339.h"
#include "wire/json/message_json.h"
#include "wire/pb/bigfleet_v1alpha1_shardread.pb-c.h"

enum { CELL_BYTES_MAX = 16 * 1024 };

struct needs_view {
    struct ctl *ctl;
    struct text_table table;
    struct ndjson *json;
    const char *shard; /* the shard being asked; NULL if there is only one */
    Bigfleet__V1alpha1__InspectNeedsHeader *header; /* one per shard; printed last */
    bool headed;
};

/* -- cells; each is a copy, because the messages are freed before the table is printed -- */

static void needs_put_cell(struct needs_view *l, struct buf *text, enum err err)
{
    char *copy = err ? NULL : arena_dup(&l->ctl->memory, buf_peek(text)); /* with a NUL */

    if (!copy && !l->table.err) l->table.err = err ? err : ERR_NOMEM;
    table_text(&l->table, copy ? copy : "");
    buf_deinit(text);
}

static int needs_by_key(const void *a, const void *b)
{
    const Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *const *one = a;
    const Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *const *two = b;

    return strcmp((*one)->key, (*two)->key);
}

/* A protobuf map has no order, so the pairs are sorted. All text maps have the same layout. */
static void needs_amounts_cell(struct needs_view *l, ProtobufCMessage **entries, size_t count)
{
    struct buf cell;
    enum err err = ERR_OK;

    if (count > 1) qsort(entries, count, sizeof(void *), needs_by_key);
    buf_init(&cell, CELL_BYTES_MAX);
    for (size_t i = 0; i < count && !err; i++) {
        const Bigfleet__V1alpha1__CapacityNeed__AggregateResourcesEntry *entry =
            (const void *)entries[i];
        err = buf_appendf(&cell, "%s%s=%s", i ? " " : "", entry->key, entry->value);
    }
    if (!count) err = buf_append_c(&cell, "-");
    needs_put_cell(l, &cell, err);
}

static enum err needs_append_requirement(const Bigfleet__V1alpha1__NodeSelectorRequirement *r,
                                         struct buf *cell)
{
    static const char *const words[] = {"?", " in ", " not in ", " exists", " absent", " same"};
    const char *key = strrchr(r->key, '/');
    uint32_t op = (uint32_t)r->operator_;
    enum err err = buf_appendf(cell, "%s%s", key ? key + 1 : r->key,
                               op < ARRAY_LEN(words) ? words[op] : words[0]);

    for (size_t i = 0; i < r->n_values && !err; i++)
        err = buf_appendf(cell, "%s%s", i ? "," : "", r->values[i]);
    return err;
}

static void needs_requirements_cell(struct needs_view *l,
                                    const Bigfleet__V1alpha1__CapacityNeed *need)
{
    struct buf cell;
    enum err err = ERR_OK;

    buf_init(&cell, CELL_BYTES_MAX);
    for (size_t i = 0; i < need->n_requirements && !err; i++) {
        if (i) err = buf_append_c(&cell, "; ");
        if (!err) err = needs_append_requirement(need->requirements[i], &cell);
    }
    if (!need->n_requirements) err = buf_append_c(&cell, "any machine");
    needs_put_cell(l, &cell, err);
}

static const char *needs_reason_text(const Bigfleet__V1alpha1__NeedView *v)
{
    static const char *const words[] = {"-", "priority-starved", "no-matching-supply",
                                        "topology-unsatisfiable", "preemption-exhausted"};
    uint32_t reason = (uint32_t)v->unmet_reason;

    return reason < ARRAY_LEN(words) ? words[reason] : "of a newer shard";
}

static void needs_why_cell(struct needs_view *l, const Bigfleet__V1alpha1__NeedView *v)
{
    const char *reason = v->sold_out[0] ? v->sold_out : needs_reason_text(v);

    if (v->acquisition_parked)
        table_format(&l->table, "%s, parked for %" PRId32, reason, v->parked_age_cycles);
    else
        table_format(&l->table, "%s", reason); /* copied: the row is freed before the table */
}

static void needs_supply_cell(struct needs_view *l,
                              const Bigfleet__V1alpha1__MatchingSupply *supply)
{
    if (supply)
        table_format(&l->table, "%" PRId32 "/%" PRId32 "/%" PRId32 "%s", supply->idle,
                     supply->speculative, supply->configured, supply->capped ? "+" : "");
    else
        table_text(&l->table, "-");
}

static void needs_add_row(struct needs_view *l, const Bigfleet__V1alpha1__NeedView *v)
{
    static const Bigfleet__V1alpha1__CapacityNeed none = BIGFLEET__V1ALPHA1__CAPACITY_NEED__INIT;
    const Bigfleet__V1alpha1__CapacityNeed *need = v->need ? v->need : &none;
    const Bigfleet__V1alpha1__Resources *lacks = v->residual_deficit;

    if (l->ctl->table_flags & TABLE_NAMES) /* print a name that explain need accepts */
        table_format(&l->table, "%s/%" PRId32, v->cluster_id, need->priority);
    else
        table_format(&l->table, "%s", v->cluster_id[0] ? v->cluster_id : "-");
    table_number(&l->table, need->priority);
    needs_requirements_cell(l, need);
    needs_amounts_cell(l, (ProtobufCMessage **)need->aggregate_resources,
                       need->n_aggregate_resources);
    table_number(&l->table, v->claimed_machine_count);
    table_number(&l->table, (int64_t)v->bootstrap_count + v->provision_count);
    needs_amounts_cell(l, lacks ? (ProtobufCMessage **)lacks->resources : NULL,
                       lacks ? lacks->n_resources : 0);
    table_number(&l->table, v->age_cycles_unmet);
    needs_why_cell(l, v);
    needs_supply_cell(l, v->matching_supply);
    if (l->shard) table_text(&l->table, l->shard);
}

static void needs_add_json(struct needs_view *l, const Bigfleet__V1alpha1__NeedView *v)
{
    ndjson_open_object(l->json, NDJSON_ITEM);
    if (l->shard) ndjson_c_string(l->json, STR("shard_id"), l->shard);
    message_json_fields(l->json, &v->base);
    ndjson_close_object(l->json);
}

/* -- the stream: a header, then rows -- */

static void needs_take_header(struct needs_view *l, const Bigfleet__V1alpha1__InspectNeedsHeader *h)
{
    char time[RFC3339_CAP];
    const char *shard = l->shard ? l->shard : "", *colon = l->shard ? ": " : "";

    l->headed = true;
    *l->header = *h;
    if (l->ctl->json) {
        if (l->shard) return; /* printed later, after the Needs of all shards */
        message_json_fields(l->json, &h->base);
        ndjson_open_array(l->json, STR("needs"));
    } else if (l->ctl->table_flags & (TABLE_NAMES | TABLE_NO_HEADERS)) {
        return;
    } else if (h->cycle == 0) {
        ctl_line(l->ctl, "%s%sno cycle was decided yet: /readyz says why", shard, colon);
    } else {
        wall_text((wall_time){(uint64_t)h->computed_at_unix_nanos / 1000000}, time);
        ctl_line(l->ctl, "%s%scycle %" PRId64 " at %s: %" PRId32 " needs", shard, colon, h->cycle,
                 time, h->total_needs);
    }
}

static enum err needs_on_frame(void *owner, const ProtobufCMessage *message, struct note *note)
{
    const Bigfleet__V1alpha1__InspectNeedsResponse *frame = (const void *)message;
    struct needs_view *l = owner;

    switch ((int)frame->frame_case) {
    case BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_HEADER:
        if (l->headed) break;
        needs_take_header(l, frame->header);
        return ERR_OK;
    case BIGFLEET__V1ALPHA1__INSPECT_NEEDS_RESPONSE__FRAME_NEED:
        if (!l->headed) break;
        if (l->ctl->json)
            needs_add_json(l, frame->need);
        else
            needs_add_row(l, frame->need);
        return ERR_OK;
    default: return ERR_OK; /* a newer shard's kind of message */
    }
    return note_fail(note, ERR_PARSE, "the shard's answer has no header, or more than one");
}

static enum err needs_of_shard(struct needs_view *l, struct survey_shard *shard)
{
    Bigfleet__V1alpha1__InspectNeedsRequest request =
        BIGFLEET__V1ALPHA1__INSPECT_NEEDS_REQUEST__INIT;

    l->headed = false;
    if (!ctl_survey_answers(shard)) return shard->err;
    shard->why = (struct note){""};
    request.cluster_id = ctl_text(conf_text(l->ctl->conf, "cluster"));
    request.limit = (int32_t)conf_number(l->ctl->conf, "limit");
    shard->err = remote_stream(shard->remote,
                               REMOTE_READ_OF("/bigfleet.v1alpha1.ShardRead/InspectNeeds",
                                              bigfleet__v1alpha1__inspect_needs),
                               &request.base, needs_on_frame, l, &shard->why);
    if (!shard->err && !l->headed)
        shard->err =
            note_fail(&shard->why, ERR_PARSE, "the shard ended its answer before it began");
    return shard->err;
}

static void needs_json_shards(struct needs_view *l, const struct ctl_survey *survey)
{
    ndjson_open_array(l->json, STR("shards"));
    for (size_t i = 0; i < survey->shard_count; i++) {
        const struct survey_shard *shard = &survey->shards[i];

        ndjson_open_object(l->json, NDJSON_ITEM);
        ndjson_c_string(l->json, STR("shard_id"), shard->id);
        ndjson_c_string(l->json, STR("error"), shard->err ? shard->why.text : NULL);
        if (!shard->err) message_json_fields(l->json, &l->header[i].base);
        ndjson_close_object(l->json);
    }
    ndjson_close_array(l->json);
}

/* Asks every shard even if another one fails. Returns the first shard's error. */
static enum err needs_of_all(struct needs_view *l, struct ctl_survey *survey)
{
    Bigfleet__V1alpha1__InspectNeedsHeader *headers = l->header;
    struct ctl *ctl = l->ctl;
    size_t silent = 0;
    enum err first = ERR_OK;

    for (size_t i = 0; i < survey->shard_count; i++) {
        struct survey_shard *shard = &survey->shards[i];

        l->header = &headers[i];
        l->shard = shard->id;
        if (!needs_of_shard(l, shard) || silent++ > 0) continue;
        first = ctl_fail(ctl, shard->err, "shard %s: %s", shard->id, shard->why.text);
    }
    l->header = headers;
    if (first)
        note_prefix(&ctl->note, "%zu of %zu shards answered", survey->shard_count - silent,
                    survey->shard_count);
    else if (survey->shards_left_out)
        first = ctl_fail(ctl, ERR_TOO_LARGE, "%zu more shards are not asked here; --shard asks one",
                         survey->shards_left_out);
    return first;
}

/* One shard: an incomplete answer is an error. All shards: the Needs that arrived are printed. */
static enum err needs_list(struct needs_view *l, struct ctl_survey *survey)
{
    static const char *const columns[] = {"CLUSTER", "PRIORITY", "MACHINES_THAT", "WANTS",
                                          "HAS",     "COMING",   "LACKS",         "CYCLES_UNMET",
                                          "WHY",     "SUPPLY",   "SHARD",         NULL};
    bool all = !conf_text(l->ctl->conf, "shard");
    struct ctl *ctl = l->ctl;
    enum err err;

    l->header = arena_calloc(&ctl->memory, survey->shard_count + 1, sizeof *l->header);
    if (!l->header) return ERR_NOMEM;
    table_init(&l->table, columns, &ctl->memory);
    if (!all) l->table.column_count--;
    if (ctl->json) l->json = ctl_json_begin(ctl);
    if (ctl->json && all) ndjson_open_array(l->json, STR("needs"));
    err = all ? needs_of_all(l, survey) : needs_of_shard(l, &survey->shards[0]);
    if (err && !all) {
        ctl->note = survey->shards[0].why;
        buf_clear(&ctl->out);
        return err;
    }
    if (!ctl->json) {
        ctl_print_table(ctl, &l->table);
        return err;
    }
    ndjson_close_array(l->json);
    if (all) needs_json_shards(l, survey);
    ctl_json_end(ctl);
    return err;
}

enum err needs_act(struct ctl *ctl)
{
    static struct ctl_survey survey; /* it is large */
    struct needs_view l = {.ctl = ctl};
    enum err err = ctl_survey_open(&survey, ctl->conf, &ctl->note);

    if (!err) err = ctl_survey_ask_shards(&survey, &ctl->note);
    if (!err) err = needs_list(&l, &survey);
    ctl_survey_close(&survey);
    return err;
}
