/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes the frames of a session's stream by a table of fields, and encodes frames directly. No
 * I/O. The loop decodes. The loop and the decide thread encode, each with its own frame_writer. */
#include "shard/session_frame.h"

#include "wire/field.h"

/* -- reading -- */

/* One nesting level of a message, with at most FRAME_FIELDS_MAX fields. */
struct level {
    struct fields fields;
    size_t seen;
};

static bool level_next(struct level *level, struct field *ret_field)
{
    return level->seen++ < FRAME_FIELDS_MAX && fields_next(&level->fields, ret_field);
}

/* Returns the result after level_next() has returned false. */
static enum err level_end(const struct level *level, struct note *note)
{
    if (level->fields.problem) return note_fail(note, ERR_PARSE, "%s", level->fields.problem);
    if (level->fields.at < level->fields.end)
        return note_fail(note, ERR_TOO_LARGE, "too many fields");
    return ERR_OK;
}

/* Payload names and field numbers in OperatorMessage. */
static const struct {
    const char *name;
    uint32_t number;
} payloads[] = {
    [FRAME_HELLO] = {"hello", 1},
    [FRAME_ROLLUP] = {"rollup", 2},
    [FRAME_BLOB] = {"bootstrap_response", 3},
    [FRAME_RECLAIM_ACK] = {"reclaim_ack", 4},
    [FRAME_DRAIN_REPORT] = {"drain_report", 100},
};

/* The fields decoded from each payload, with their destinations. The decide thread decodes
 * roll-ups. */
static const struct payload_field {
    enum operator_frame_kind kind;
    uint32_t number;
    enum { AS_TEXT, AS_BYTES, AS_NUMBER, AS_BOOL } as;
    size_t at;
} payload_fields[] = {
    {FRAME_HELLO, 1, AS_TEXT, offsetof(struct operator_frame, cluster)},
    {FRAME_HELLO, 3, AS_TEXT, offsetof(struct operator_frame, version)},
    {FRAME_HELLO, 100, AS_BOOL, offsetof(struct operator_frame, reports_drains)},
    {FRAME_HELLO, 101, AS_BOOL, offsetof(struct operator_frame, reports_occupancy)},
    {FRAME_HELLO, 104, AS_BOOL, offsetof(struct operator_frame, takes_status)},
    {FRAME_BLOB, 1, AS_TEXT, offsetof(struct operator_frame, request_id)},
    {FRAME_BLOB, 2, AS_BYTES, offsetof(struct operator_frame, user_data)},
    {FRAME_BLOB, 4, AS_TEXT, offsetof(struct operator_frame, error)},
    {FRAME_RECLAIM_ACK, 1, AS_TEXT, offsetof(struct operator_frame, request_id)},
    {FRAME_DRAIN_REPORT, 1, AS_TEXT, offsetof(struct operator_frame, request_id)},
    {FRAME_DRAIN_REPORT, 2, AS_TEXT, offsetof(struct operator_frame, machine)},
    {FRAME_DRAIN_REPORT, 3, AS_BOOL, offsetof(struct operator_frame, drained)},
    {FRAME_DRAIN_REPORT, 4, AS_NUMBER, offsetof(struct operator_frame, left_seconds)},
    {FRAME_DRAIN_REPORT, 5, AS_TEXT, offsetof(struct operator_frame, error)},
};

static enum err field_take(const struct payload_field *row, const struct field *field,
                           struct operator_frame *frame, struct note *note)
{
    void *to = (char *)frame + row->at;

    if (field->wire != (row->as == AS_TEXT || row->as == AS_BYTES ? WIRE_LEN : WIRE_VARINT))
        return note_fail(note, ERR_PARSE, "wrong wire type");
    if (row->as == AS_TEXT && !str_is_utf8(field->bytes))
        return note_fail(note, ERR_PARSE, "text is not UTF-8");
    if (row->as == AS_NUMBER)
        *(uint64_t *)to = field->value;
    else if (row->as == AS_BOOL)
        *(bool *)to = field->value != 0;
    else
        *(struct str *)to = field->bytes;
    return ERR_OK;
}

static enum err payload_read(struct str payload, struct operator_frame *frame, struct note *note)
{
    struct level level = {fields_of(payload), 0};
    struct field field;
    enum err err = ERR_OK;

    while (!err && level_next(&level, &field))
        for (size_t i = 0; i < ARRAY_LEN(payload_fields) && !err; i++)
            if (payload_fields[i].kind == frame->kind && payload_fields[i].number == field.number)
                err = field_take(&payload_fields[i], &field, frame, note);
    if (!err) err = level_end(&level, note);
    if (!err && frame->kind == FRAME_DRAIN_REPORT)
        err = id_check("machine_id", frame->machine, ID_MAX, note);
    /* A value above INT64_MAX is negative on the wire, and is read as 0. */
    if (frame->left_seconds > INT64_MAX) frame->left_seconds = 0;
    return err;
}

/* FRAME_UNSET: the payload is from a newer version. */
static enum operator_frame_kind kind_of(uint32_t number)
{
    for (enum operator_frame_kind kind = FRAME_HELLO; kind < ARRAY_LEN(payloads); kind++)
        if (payloads[kind].number == number) return kind;
    return FRAME_UNSET;
}

enum err frame_read(struct str bytes, struct operator_frame *ret_frame, struct note *note)
{
    struct operator_frame frame = {.kind = FRAME_UNSET,
                                   .payload = STR_EMPTY,
                                   .cluster = STR_EMPTY,
                                   .version = STR_EMPTY,
                                   .request_id = STR_EMPTY,
                                   .user_data = STR_EMPTY,
                                   .error = STR_EMPTY,
                                   .machine = STR_EMPTY};
    struct level level = {fields_of(bytes), 0};
    struct field field;
    enum err err;

    while (level_next(&level, &field)) {
        enum operator_frame_kind kind = kind_of(field.number);
        if (kind == FRAME_UNSET) continue;
        if (frame.kind != FRAME_UNSET)
            return note_fail(note, ERR_PARSE, "two payloads in one frame");
        if (field.wire != WIRE_LEN) return note_fail(note, ERR_PARSE, "wrong wire type");
        frame.kind = kind;
        frame.payload = field.bytes;
    }
    err = level_end(&level, note);
    if (err) return err;
    if (frame.kind != FRAME_UNSET && frame.kind != FRAME_ROLLUP)
        err = payload_read(frame.payload, &frame, note);
    if (err) {
        note_prefix(note, "%s", payloads[frame.kind].name);
        return err;
    }
    *ret_frame = frame;
    return ERR_OK;
}

/* -- writing -- */

/* Field numbers of ShardMessage. */
enum {
    SEND_ACK = 1,
    SEND_BLOB_REQUEST = 2,
    SEND_RECLAIM = 3,
    SEND_NODE_STATE = 4,
    SEND_CAPACITY = 5,
    SEND_NEED_STATUS = 104,
};

static enum err frame_wrap(struct frame_writer *w, uint32_t payload, const struct pack *body)
{
    struct pack frame = pack_begin(&w->frame);

    pack_row(&frame, payload, body);
    return frame.err;
}

enum err frame_write_ack(struct frame_writer *w, struct str echo, int64_t term, int64_t epoch,
                         bool drain_reports, bool occupancy)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, echo);
    pack_i64(&body, 2, term);
    pack_i64(&body, 3, epoch);
    pack_u64(&body, 100, drain_reports);
    pack_u64(&body, 101, occupancy);
    return frame_wrap(w, SEND_ACK, &body);
}

enum err frame_write_blob_request(struct frame_writer *w, struct str request_id, struct str cluster,
                                  const struct profile *profile)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, request_id);
    pack_requirements(&body, 2, profile, &w->part);
    pack_text(&body, 3, cluster);
    return frame_wrap(w, SEND_BLOB_REQUEST, &body);
}

enum err frame_write_reclaim(struct frame_writer *w, struct str instruction_id, struct str machine,
                             uint64_t grace_ms, int32_t preemptor_priority)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, instruction_id);
    pack_bytes(&body, 2, machine);
    pack_u64(&body, 3, (grace_ms + MS_PER_SECOND - 1) / MS_PER_SECOND);
    pack_i64(&body, 4, preemptor_priority);
    return frame_wrap(w, SEND_RECLAIM, &body);
}

/* Packs both texts as one field. */
static void pack_joined(struct pack *pack, uint32_t field, struct str before, struct str after)
{
    pack_varint(pack, field << 3 | 2);
    pack_varint(pack, before.len + after.len);
    if (!pack->err) pack->err = buf_append(pack->into, before);
    if (!pack->err) pack->err = buf_append(pack->into, after);
}

/* Packs labels, type and zone. Leaves out a label that is named like the type or zone. */
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
    bool left = !str_equal(machine->cluster, cluster);
    struct resource_sum capacity;

    resource_sum_clear(&capacity);
    resource_sum_add(&capacity, machine_capacity(machine));
    pack_joined(&body, 1, STR("node:"), machine->id);
    pack_text(&body, 2, machine->id);
    pack_text(&body, 3, cluster);
    /* what another cluster does with the machine is not this operator's */
    pack_u64(&body, 4, left && machine->cluster.len ? MACHINE_IDLE : machine->state);
    pack_text(&body, 6, machine->host_ref);
    pack_text(&body, 8, machine->last_error);
    pack_labels(w, &body, &machine->attributes);
    pack_resources(&body, 10, &capacity, dimensions, &w->part, &w->piece);
    pack_u64(&body, 100, left); /* field left */
    return frame_wrap(w, SEND_NODE_STATE, &body);
}

enum err frame_write_capacity(struct frame_writer *w, const struct capacity_offer *offer)
{
    struct pack body = pack_begin(&w->body);

    pack_joined(&body, 1, STR("available:"), offer->profile->fingerprint);
    pack_requirements(&body, 2, offer->profile, &w->part);
    pack_u64(&body, 4, min_u64(offer->count, INT32_MAX));
    pack_u64(&body, 5, offer->confidence);
    pack_double(&body, 6, offer->cost_per_hour);
    return frame_wrap(w, SEND_CAPACITY, &body);
}

enum err frame_write_need_status(struct frame_writer *w, const struct need_status *status)
{
    struct pack body = pack_begin(&w->body);

    pack_text(&body, 1, status->fingerprint);
    pack_bytes(&body, 2, status->group);
    pack_u64(&body, 3, status->satisfied);
    pack_u64(&body, 4, status->ready);
    pack_u64(&body, 5, status->coming);
    pack_u64(&body, 6, status->lacking);
    pack_text(&body, 7, str_from(verdict_reason_name(status->reason)));
    pack_u64(&body, 8, status->since.ms);
    return frame_wrap(w, SEND_NEED_STATUS, &body);
}
