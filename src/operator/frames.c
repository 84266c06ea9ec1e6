/* SPDX-License-Identifier: Apache-2.0 */
/* Writes frames field by field, because a roll-up may have hundreds of megabytes. Reads frames with
 * the generated decoder, then checks them. No I/O. */
#include "operator/frames.h"

#include "model/wire/demand_wire.h"

enum {
    ERROR_MAX = 4096,
    BLOB_TTL_SECONDS = 600,
    /* field numbers of OperatorMessage */
    SEND_HELLO = 1,
    SEND_ROLLUP = 2,
    SEND_BLOB = 3,
    SEND_RECLAIM_ACK = 4,
    SEND_DRAIN_REPORT = 100,
};

void frame_parts_init(struct frame_parts *parts)
{
    buf_init(&parts->body, FRAMES_ROLLUP_MAX);
    buf_init(&parts->row, FRAMES_ROLLUP_MAX);
    buf_init(&parts->piece, FRAMES_ROLLUP_MAX);
}

void frame_parts_deinit(struct frame_parts *parts)
{
    buf_deinit(&parts->body);
    buf_deinit(&parts->row);
    buf_deinit(&parts->piece);
}

static enum err finish(struct buf *out, uint32_t payload, const struct pack *body)
{
    struct pack frame = pack_begin(out);

    pack_row(&frame, payload, body);
    return frame.err;
}

enum err frames_hello(struct frame_parts *parts, struct str cluster, bool takes_status,
                      bool occupancy, struct buf *out)
{
    struct pack body = pack_begin(&parts->body);

    pack_text(&body, 1, cluster);
    pack_text(&body, 3, STR("v1alpha1"));
    pack_u64(&body, 100, 1);         /* field reports_drains */
    pack_u64(&body, 101, occupancy); /* field reports_occupancy */
    pack_u64(&body, 104, takes_status);
    return finish(out, SEND_HELLO, &body);
}

static void pack_vector(struct pack *row, uint32_t field, const struct resources *amounts,
                        const struct dimensions *dimensions, struct buf *scratch)
{
    struct resource_sum sum;

    resource_sum_clear(&sum);
    resource_sum_add(&sum, amounts);
    pack_amounts(row, field, &sum, dimensions, scratch);
}

static void pack_occupancy(struct pack *body, const struct occupancy_rows *occupancy,
                           struct frame_parts *parts)
{
    const struct dimensions *dimensions = occupancy->dimensions;

    for (size_t i = 0; i < min_size(occupancy->count, OCCUPANCY_ROWS_MAX) && !body->err; i++) {
        const struct occupancy_row *from = &occupancy->rows[i];
        struct pack row = pack_begin(&parts->row);

        pack_text(&row, 1, from->machine);
        pack_u64(&row, 2, from->evictable);
        pack_u64(&row, 3, from->held);
        pack_double(&row, 4, from->disruption);
        pack_vector(&row, 5, &from->free, dimensions, &parts->piece);
        pack_vector(&row, 6, &from->requested, dimensions, &parts->piece);
        pack_vector(&row, 7, &from->largest, dimensions, &parts->piece);
        pack_row(body, 100, &row);
    }
}

enum err frames_rollup(struct frame_parts *parts, struct str cluster, wall_time now,
                       struct demand *demand, const struct occupancy_rows *occupancy, bool pending,
                       struct buf *out)
{
    struct pack body = pack_begin(&parts->body);
    const struct rollup_row *row;
    size_t cursor = 0;

    pack_text(&body, 1, cluster);
    pack_u64(&body, 2, now.ms * NS_PER_MS);
    while (!body.err && (row = demand_next(demand, &cursor))) {
        struct pack need = pack_begin(&parts->row);
        pack_capacity_need(&need, &row->profile, row->group, &row->aggregate, &row->min_unit,
                           demand_dimensions(demand), &parts->piece);
        pack_row(&body, 3, &need);
    }
    if (occupancy) pack_occupancy(&body, occupancy, parts);
    pack_u64(&body, 101, pending); /* field occupancy_pending */
    return finish(out, SEND_ROLLUP, &body);
}

enum err frames_blob(struct frame_parts *parts, struct str request_id, struct str user_data,
                     struct str error, struct buf *out)
{
    struct pack body = pack_begin(&parts->body);

    pack_text(&body, 1, request_id);
    if (error.len == 0) {
        pack_text(&body, 2, user_data);
        pack_u64(&body, 3, BLOB_TTL_SECONDS);
    }
    pack_text(&body, 4, str_of(error.at, min_size(error.len, ERROR_MAX)));
    return finish(out, SEND_BLOB, &body);
}

enum err frames_reclaim_ack(struct frame_parts *parts, struct str instruction_id, struct buf *out)
{
    struct pack body = pack_begin(&parts->body);

    pack_text(&body, 1, instruction_id);
    pack_u64(&body, 2, 1); /* nodes_started: one machine per order */
    return finish(out, SEND_RECLAIM_ACK, &body);
}

enum err frames_drain_report(struct frame_parts *parts, const struct drain_message *word,
                             struct buf *out)
{
    struct pack body = pack_begin(&parts->body);

    pack_text(&body, 1, word->instruction_id);
    pack_text(&body, 2, word->machine);
    pack_u64(&body, 3, word->drained);
    if (!word->drained) pack_u64(&body, 4, word->left_seconds);
    pack_text(&body, 5, word->error);
    return finish(out, SEND_DRAIN_REPORT, &body);
}

/* -- reading -- */

enum err frames_read_blob(const Bigfleet__V1alpha1__BootstrapRequest *given, struct arena *arena,
                          struct blob_request *ret_request, struct note *note)
{
    ret_request->request_id = str_from(given->request_id);
    ret_request->requirement_count = given->n_requirements;
    if (id_check("request_id", ret_request->request_id, ID_MAX, note)) return ERR_INVALID;
    return read_requirements(arena, given->requirements, given->n_requirements,
                             &ret_request->requirements, note);
}

static enum err read_pairs(const char *field, ProtobufCMessage *const *entries, size_t count,
                           struct arena *arena, const struct label **ret_pairs, struct note *note)
{
    struct label *pairs = read_labels(arena, entries, count);

    if (!pairs) return ERR_NOMEM;
    *ret_pairs = pairs;
    return labels_canonicalise(field, pairs, count, note);
}

static enum err read_taints(const Bigfleet__V1alpha1__NodeStateUpdate *given, struct arena *arena,
                            struct cluster_node *node, struct note *note)
{
    struct taint *taints = arena_calloc(arena, given->n_taints, sizeof *taints);
    enum err err = ERR_OK;

    if (!taints) return ERR_NOMEM;
    if (given->n_taints > NODE_TAINTS_MAX)
        return note_fail(note, ERR_TOO_LARGE, "taints: %zu, at most %d are allowed",
                         given->n_taints, NODE_TAINTS_MAX);
    for (size_t i = 0; i < given->n_taints && !err; i++) {
        taints[i] =
            (struct taint){str_from(given->taints[i]->key), str_from(given->taints[i]->value),
                           str_from(given->taints[i]->effect)};
        err = id_check("taints.key", taints[i].key, LABEL_KEY_MAX, note);
        if (!err) err = text_check("taints.value", taints[i].value, LABEL_VALUE_MAX, note);
        if (!err) err = text_check("taints.effect", taints[i].effect, LABEL_VALUE_MAX, note);
    }
    node->taints = taints;
    node->taint_count = given->n_taints;
    return err;
}

enum err frames_read_node(const Bigfleet__V1alpha1__NodeStateUpdate *given, struct arena *arena,
                          struct cluster_node *node, struct note *note)
{
    enum err err;

    *node = (struct cluster_node){0};
    node->machine_id = str_from(given->machine_id);
    node->state = (uint32_t)given->state < MACHINE_STATE_COUNT ? (enum machine_state)given->state
                                                               : MACHINE_UNSPECIFIED;
    node->left = given->left;
    node->node_name = str_from(given->node_name);
    node->provider_id = str_from(given->provider_id);
    node->last_error = str_from(given->last_error);
    node->last_error.len = min_size(node->last_error.len, ERROR_TEXT_MAX);
    node->label_count = given->n_labels;
    node->resource_count = given->resources ? given->resources->n_resources : 0;
    err = id_check("machine_id", node->machine_id, ID_MAX, note);
    if (!err) err = text_check("node_name", node->node_name, ID_MAX, note);
    if (!err) err = text_check("provider_id", node->provider_id, LABEL_KEY_MAX + ID_MAX, note);
    if (!err)
        err = read_pairs("labels", (ProtobufCMessage *const *)given->labels, given->n_labels, arena,
                         &node->labels, note);
    if (!err && given->resources)
        err = read_pairs("resources", (ProtobufCMessage *const *)given->resources->resources,
                         node->resource_count, arena, &node->resources, note);
    return err ? err : read_taints(given, arena, node, note);
}

enum err frames_read_available(const Bigfleet__V1alpha1__AvailableCapacityUpdate *given,
                               struct arena *arena, struct available *ret_hint, struct note *note)
{
    *ret_hint = (struct available){
        .key = str_from(given->supersedes_key),
        .requirement_count = given->n_requirements,
        .count = given->available_count > 0 ? (uint32_t)given->available_count : 0,
        .confidence = (uint32_t)given->confidence,
        .cost_per_hour = given->cost_per_hour,
    };
    if (id_check("supersedes_key", ret_hint->key, FINGERPRINT_MAX, note)) return ERR_INVALID;
    return read_requirements(arena, given->requirements, given->n_requirements,
                             &ret_hint->requirements, note);
}

static uint64_t read_count(int64_t given)
{
    return given > 0 ? (uint64_t)given : 0;
}

enum err frames_read_status(const Bigfleet__V1alpha1__NeedStatus *given, struct row_status *status,
                            struct note *note)
{
    struct str reason = str_from(given->reason);

    *status = (struct row_status){
        .fingerprint = str_from(given->fingerprint),
        .group = str_of((const char *)given->group.data, given->group.len),
        .known = given->satisfied || reason.len > 0,
        .supply = {.satisfied = given->satisfied,
                   .ready = read_count(given->ready),
                   .coming = read_count(given->coming),
                   .lacking = read_count(given->lacking),
                   .since.ms = read_count(given->since_unix_ms)},
    };
    if (id_check("fingerprint", status->fingerprint, FINGERPRINT_MAX, note) ||
        text_check("reason", reason, SUPPLY_REASON_CAP - 1, note))
        return ERR_INVALID;
    if (status->group.len > GROUP_MAX)
        return note_fail(note, ERR_TOO_LARGE, "group: at most %d bytes are allowed", GROUP_MAX);
    if (reason.len) memcpy(status->supply.reason, reason.at, reason.len);
    return ERR_OK;
}
