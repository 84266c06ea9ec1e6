/* SPDX-License-Identifier: Apache-2.0 */
#include "shard/session_frame.h"

#include "wire/field.h"

/* Of OperatorMessage; the numbers of the payloads before it are those of enum operator_frame_kind. */
enum { FIELD_DRAIN_REPORT = 100 };

/* -- reading -- */

static enum err refuse(struct note *note, enum err err, const char *problem)
{
    return note_fail(note, err, "%s", problem);
}

/* A level of a message that is looked through, at most FRAME_FIELDS_MAX fields of it. */
struct level {
    struct fields fields;
    size_t seen;
};

static struct level level_of(struct str message)
{
    return (struct level){fields_of(message), 0};
}

static bool level_next(struct level *level, struct field *ret_field)
{
    return level->seen++ < FRAME_FIELDS_MAX && fields_next(&level->fields, ret_field);
}

/* After level_next has said no: was that the end? */
static enum err level_end(const struct level *level, struct note *note)
{
    if (level->fields.problem) return refuse(note, ERR_PARSE, level->fields.problem);
    if (level->fields.at < level->fields.end) return refuse(note, ERR_TOO_LARGE, "too many fields");
    return ERR_OK;
}

static enum err take_bytes(const struct field *field, struct str *ret_bytes, struct note *note)
{
    if (field->wire != WIRE_LEN) return refuse(note, ERR_PARSE, "wrong wire type");
    *ret_bytes = field->bytes;
    return ERR_OK;
}

static enum err take_text(const struct field *field, struct str *ret_text, struct note *note)
{
    enum err err = take_bytes(field, ret_text, note);

    if (!err && !str_is_utf8(*ret_text)) err = refuse(note, ERR_PARSE, "text is not UTF-8");
    return err;
}

static enum err take_number(const struct field *field, uint64_t *ret_number, struct note *note)
{
    if (field->wire != WIRE_VARINT) return refuse(note, ERR_PARSE, "wrong wire type");
    *ret_number = field->value;
    return ERR_OK;
}

static enum err take_bool(const struct field *field, bool *ret_value, struct note *note)
{
    uint64_t number = 0;
    enum err err = take_number(field, &number, note);

    *ret_value = number != 0;
    return err;
}

static enum err read_hello(struct str payload, struct operator_frame *frame, struct note *note)
{
    struct level level = level_of(payload);
    struct field field;
    enum err err = ERR_OK;

    while (!err && level_next(&level, &field)) {
        if (field.number == 1) err = take_text(&field, &frame->cluster, note);
        if (field.number == 3) err = take_text(&field, &frame->version, note);
        if (field.number == 100) err = take_bool(&field, &frame->reports_drains, note);
    }
    return err ? err : level_end(&level, note);
}

/* Only as far as it must: the rows are read, and everything checked, elsewhere. */
static enum err read_rollup(struct str payload, struct operator_frame *frame, struct note *note)
{
    struct level level = level_of(payload);
    struct field field;

    frame->rollup = payload;
    while (level_next(&level, &field)) {
        if (field.number != 1) continue;
        frame->named = true;
        return take_bytes(&field, &frame->cluster, note);
    }
    frame->named = level.fields.at == level.fields.end; /* all was seen: it names none */
    return level.fields.problem ? refuse(note, ERR_PARSE, level.fields.problem) : ERR_OK;
}

static enum err read_blob(struct str payload, struct operator_frame *frame, struct note *note)
{
    struct level level = level_of(payload);
    struct field field;
    enum err err = ERR_OK;

    while (!err && level_next(&level, &field)) {
        if (field.number == 1) err = take_text(&field, &frame->request_id, note);
        if (field.number == 2) err = take_bytes(&field, &frame->user_data, note);
        if (field.number == 4) err = take_text(&field, &frame->error, note);
    }
    return err ? err : level_end(&level, note);
}

static enum err read_reclaim_ack(struct str payload, struct operator_frame *frame,
                                 struct note *note)
{
    struct level level = level_of(payload);
    struct field field;
    enum err err = ERR_OK;

    while (!err && level_next(&level, &field))
        if (field.number == 1) err = take_text(&field, &frame->request_id, note);
    return err ? err : level_end(&level, note);
}

static enum err read_drain_report(struct str payload, struct operator_frame *frame,
                                  struct note *note)
{
    struct level level = level_of(payload);
    struct field field;
    enum err err = ERR_OK;

    while (!err && level_next(&level, &field)) {
        if (field.number == 1) err = take_text(&field, &frame->request_id, note);
        if (field.number == 2) err = take_text(&field, &frame->machine, note);
        if (field.number == 3) err = take_bool(&field, &frame->drained, note);
        if (field.number == 4) err = take_number(&field, &frame->left_seconds, note);
        if (field.number == 5) err = take_text(&field, &frame->error, note);
    }
    if (!err) err = level_end(&level, note);
    if (!err) err = id_check("machine_id", frame->machine, ID_MAX, note);
    if (frame->left_seconds > INT64_MAX) frame->left_seconds = 0; /* negative */
    return err;
}

static const struct {
    const char *name;
    enum err (*read)(struct str rest, struct operator_frame *frame, struct note *note);
} payloads[] = {
    [FRAME_HELLO] = {"hello", read_hello},
    [FRAME_ROLLUP] = {"rollup", read_rollup},
    [FRAME_BLOB] = {"bootstrap_response", read_blob},
    [FRAME_RECLAIM_ACK] = {"reclaim_ack", read_reclaim_ack},
    [FRAME_DRAIN_REPORT] = {"drain_report", read_drain_report},
};

/* FRAME_UNSET: of a newer operator. */
static enum operator_frame_kind kind_of(uint32_t number)
{
    if (number == FIELD_DRAIN_REPORT) return FRAME_DRAIN_REPORT;
    return number < FRAME_DRAIN_REPORT ? (enum operator_frame_kind)number : FRAME_UNSET;
}

enum err frame_read(struct str bytes, struct operator_frame *ret_frame, struct note *note)
{
    struct operator_frame frame = {.kind = FRAME_UNSET,
                                   .cluster = STR_EMPTY,
                                   .version = STR_EMPTY,
                                   .rollup = STR_EMPTY,
                                   .request_id = STR_EMPTY,
                                   .user_data = STR_EMPTY,
                                   .error = STR_EMPTY,
                                   .machine = STR_EMPTY};
    struct level level = level_of(bytes);
    struct str payload = STR_EMPTY;
    struct field field;
    enum err err;

    while (level_next(&level, &field)) {
        enum operator_frame_kind kind = kind_of(field.number);
        if (kind == FRAME_UNSET) continue;
        if (frame.kind != FRAME_UNSET) return refuse(note, ERR_PARSE, "two payloads in one frame");
        frame.kind = kind;
        err = take_bytes(&field, &payload, note);
        if (err) return err;
    }
    err = level_end(&level, note);
    if (err) return err;
    if (frame.kind != FRAME_UNSET) err = payloads[frame.kind].read(payload, &frame, note);
    if (err) {
        note_prefix(note, "%s", payloads[frame.kind].name);
        return err;
    }
    *ret_frame = frame;
    return ERR_OK;
}

/* -- writing -- */

enum { /* fields of ShardMessage */
       SEND_ACK = 1,
       SEND_BLOB_REQUEST = 2,
       SEND_RECLAIM = 3,
       SEND_NODE_STATE = 4,
       SEND_CAPACITY = 5,
};

static enum err wrap(struct frame_writer *w, uint32_t payload, const struct pack *body)
{
    struct pack frame = pack_begin(&w->frame);

    pack_row(&frame, payload, body);
    return frame.err;
}

enum err frame_write_ack(struct frame_writer *w, struct str echo, int64_t term, int64_t epoch,
                         bool drain_reports)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, echo);
    pack_i64(&body, 2, term);
    pack_i64(&body, 3, epoch);
    pack_u64(&body, 100, drain_reports);
    return wrap(w, SEND_ACK, &body);
}

enum err frame_write_blob_request(struct frame_writer *w, struct str request_id, struct str cluster,
                                  const struct profile *profile)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, request_id);
    pack_requirements(&body, 2, profile, &w->part);
    pack_text(&body, 3, cluster);
    return wrap(w, SEND_BLOB_REQUEST, &body);
}

enum err frame_write_reclaim(struct frame_writer *w, struct str instruction_id, struct str machine,
                             uint64_t grace_ms, int32_t preemptor_priority)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, instruction_id);
    pack_bytes(&body, 2, machine);
    pack_u64(&body, 3, (grace_ms + MS_PER_SECOND - 1) / MS_PER_SECOND);
    pack_i64(&body, 4, preemptor_priority);
    return wrap(w, SEND_RECLAIM, &body);
}

/* "<before><after>" as a text field, without a copy in between. */
static void pack_joined(struct pack *pack, uint32_t field, struct str before, struct str after)
{
    pack_varint(pack, field << 3 | 2);
    pack_varint(pack, before.len + after.len);
    if (!pack->err) pack->err = buf_append(pack->into, before);
    if (!pack->err) pack->err = buf_append(pack->into, after);
}

/* Type and zone are labels to a cluster; where the machine has them, they win over labels of the
 * same name. */
static void pack_labels(struct frame_writer *w, struct pack *body, const struct attributes *a)
{
    for (size_t i = 0; i < a->label_count; i++) {
        struct str key = a->labels[i].key;
        if (a->instance_type.len > 0 && str_equal(key, LABEL_INSTANCE_TYPE)) continue;
        if (a->zone.len > 0 && str_equal(key, LABEL_ZONE)) continue;
        pack_pair(body, 9, key, a->labels[i].value, &w->part);
    }
    if (a->instance_type.len > 0)
        pack_pair(body, 9, LABEL_INSTANCE_TYPE, a->instance_type, &w->part);
    if (a->zone.len > 0) pack_pair(body, 9, LABEL_ZONE, a->zone, &w->part);
}

enum err frame_write_node_state(struct frame_writer *w, struct str cluster,
                                const struct machine *machine, const struct dimensions *dimensions)
{
    struct pack body = pack_begin(&w->body);
    struct resource_sum capacity;

    resource_sum_clear(&capacity);
    resource_sum_add(&capacity, machine_capacity(machine));
    pack_joined(&body, 1, STR("node:"), machine->id);
    pack_text(&body, 2, machine->id);
    pack_text(&body, 3, cluster);
    pack_u64(&body, 4, machine->state);
    pack_text(&body, 6, machine->host_ref);
    pack_text(&body, 8, machine->last_error);
    pack_labels(w, &body, &machine->attributes);
    pack_resources(&body, 10, &capacity, dimensions, &w->part, &w->piece);
    return wrap(w, SEND_NODE_STATE, &body);
}

enum err frame_write_capacity(struct frame_writer *w, const struct profile *profile, uint32_t count,
                              enum confidence confidence, double cost_per_hour)
{
    struct pack body = pack_begin(&w->body);

    pack_joined(&body, 1, STR("available:"), profile->fingerprint);
    pack_requirements(&body, 2, profile, &w->part);
    pack_u64(&body, 4, min_u64(count, INT32_MAX));
    pack_u64(&body, 5, confidence);
    pack_double(&body, 6, cost_per_hour);
    return wrap(w, SEND_CAPACITY, &body);
}
