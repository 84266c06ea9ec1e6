/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "lib/test.h"
#include "operator/frames.h"
#include "shard/need_wire.h"
#include "shard/session_frame.h"
#include "wire/message.h"

static struct frame_parts parts;
static struct buf out;
static struct note note;

static void open_all(void)
{
    frame_parts_init(&parts);
    buf_init(&out, FRAMES_ROLLUP_MAX);
    note.text[0] = '\0';
}

static void close_all(void)
{
    frame_parts_deinit(&parts);
    buf_deinit(&out);
}

static struct operator_frame shard_reads(void)
{
    struct operator_frame frame;

    CHECK_OK("the shard reads it", frame_read(buf_peek(&out), &frame, &note));
    return frame;
}

TEST(the_shard_reads_what_an_operator_says)
{
    struct operator_frame frame;

    open_all();
    CHECK_OK("hello", frames_hello(&parts, STR("cluster-a"), true, false, &out));
    frame = shard_reads();
    CHECK("hello", frame.kind == FRAME_HELLO && str_equal(frame.cluster, STR("cluster-a")) &&
                       str_equal(frame.version, STR("v1alpha1")) && frame.reports_drains &&
                       frame.takes_status);
    CHECK_OK(
        "drained",
        frames_drain_report(
            &parts, &(struct drain_message){STR("00ff"), STR("m-1"), true, 5, STR_EMPTY}, &out));
    frame = shard_reads();
    CHECK("drained", frame.kind == FRAME_DRAIN_REPORT && frame.drained && !frame.left_seconds &&
                         str_equal(frame.request_id, STR("00ff")) &&
                         str_equal(frame.machine, STR("m-1")) && !frame.error.len);
    CHECK_OK(
        "gave up",
        frames_drain_report(
            &parts, &(struct drain_message){STR("00ff"), STR("m-1"), false, 5, STR("no")}, &out));
    frame = shard_reads();
    CHECK("gave up",
          !frame.drained && frame.left_seconds == 5 && str_equal(frame.error, STR("no")));
    CHECK_OK("blob", frames_blob(&parts, STR("00ff"), STR("data\0more"), STR_EMPTY, &out));
    frame = shard_reads();
    CHECK("blob", frame.kind == FRAME_BLOB && str_equal(frame.request_id, STR("00ff")) &&
                      str_equal(frame.user_data, STR("data\0more")) && frame.error.len == 0);
    CHECK_OK("error", frames_blob(&parts, STR("00ff"), STR("data"), STR("no"), &out));
    frame = shard_reads();
    CHECK("an error has no blob", str_equal(frame.error, STR("no")) && frame.user_data.len == 0);
    CHECK_OK("ack", frames_reclaim_ack(&parts, STR("abcd"), &out));
    frame = shard_reads();
    CHECK("ack", frame.kind == FRAME_RECLAIM_ACK && str_equal(frame.request_id, STR("abcd")));
    close_all();
}

TEST(a_rollup_arrives_as_the_rows_it_was)
{
    const struct str types[] = {STR("m5.large")};
    const struct requirement in = {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 1};
    const struct label small[] = {{STR("cpu"), STR("500m")}};
    const struct label large[] = {{STR("cpu"), STR("2")}, {STR("memory"), STR("1Gi")}};
    struct capacity_request request = {.requirements = &in,
                                       .requirement_count = 1,
                                       .resources = small,
                                       .resource_count = 1,
                                       .count = 3,
                                       .priority = -5,
                                       .reclamation.given = true,
                                       .reclamation.dollars = 3,
                                       .same_key = STR("rack"),
                                       .group = STR("rack\0g")};
    struct demand *demand;
    struct dimensions dimensions, names;
    struct occupancy_row machines[] = {
        {.machine = STR("m-1")},
        {.machine = STR("m-2"), .evictable = 3, .held = 2, .disruption = HUGE_VAL}};
    const struct occupancy_rows occupancy = {machines, ARRAY_LEN(machines), &names};
    struct rollup_rows rows;
    struct arena arena;
    struct operator_frame frame;
    uint32_t index;

    open_all();
    dimensions_init(&names);
    arena_init(&arena, 1 << 20);
    dimensions_init(&dimensions);
    CHECK_OK("open", demand_open(1, &demand));
    CHECK_OK("put", demand_put(demand, STR("a"), &request, NULL, &note));
    request.resources = large;
    request.resource_count = 2;
    request.count = 1;
    CHECK_OK("put", demand_put(demand, STR("b"), &request, NULL, &note));
    CHECK_OK("names", dimensions_index(&names, STR("pods"), &index, NULL));
    CHECK_OK("names", dimensions_index(&names, STR("cpu"), &index, NULL));
    CHECK_OK("cpu", resources_set(&machines[1].free, index, 1500, QUANTITY_DECIMAL_SI));
    machines[1].requested = machines[1].largest = machines[1].free;
    CHECK_OK("write",
             frames_rollup(&parts, STR("c"), (wall_time){1234}, demand, &occupancy, true, &out));
    frame = shard_reads();
    CHECK("roll-up", frame.kind == FRAME_ROLLUP);
    CHECK_OK("rows", rollup_read(frame.payload, STR("c"), 0, &arena, &dimensions, &rows, &note));
    CHECK_SIZE("one row", rows.count, 1);
    CHECK_STR(
        "profile", rows.rows[0].profile.fingerprint,
        STR("p=-5|ipb=0|rpb=5|reqs=node.kubernetes.io/instance-type:1:m5.large;rack:5:;|spr="));
    CHECK_STR("group", rows.rows[0].group, STR("rack\0g"));
    CHECK_U64("at", rows.rows[0].arrival_unix_ns, 1234000000);
    CHECK("pending", rows.occupancy_pending);
    CHECK_SIZE("two machines", rows.occupancy_count, 2);
    CHECK_STR("empty", rows.occupancy[0].machine, STR("m-1"));
    CHECK("nothing runs", !rows.occupancy[0].evictable && !rows.occupancy[0].held);
    CHECK_U32("evictable", rows.occupancy[1].evictable, 3);
    CHECK_U32("held", rows.occupancy[1].held, 2);
    CHECK("cost", isinf(rows.occupancy[1].disruption));
    CHECK_OK("names", dimensions_index(&dimensions, STR("cpu"), &index, NULL));
    CHECK_I64("free", resources_get(&rows.occupancy[1].free, index), 1500);
    CHECK_I64("requested", resources_get(&rows.occupancy[1].requested, index), 1500);
    CHECK_I64("largest", resources_get(&rows.occupancy[1].largest, index), 1500);
    dimensions_deinit(&names);
    buf_clear(&out);
    CHECK_OK("text", resource_sum_text(&dimensions, &rows.rows[0].aggregate, &out));
    CHECK_STR("sum", buf_peek(&out), STR("cpu=3500m,memory=1Gi"));
    demand_close(demand);
    dimensions_deinit(&dimensions);
    arena_deinit(&arena);
    close_all();
}

struct heard {
    const Bigfleet__V1alpha1__ShardMessage *frame;
    struct blob_request blob;
    struct cluster_node node;
    struct available hint;
    struct row_status status;
};

static enum err operator_reads(struct str bytes, struct arena *arena, struct heard *heard)
{
    ProtobufCMessage *message;
    enum err err = message_read(&bigfleet__v1alpha1__shard_message__descriptor, bytes, NULL, arena,
                                &message, &note);

    if (err) return err;
    heard->frame = (const void *)message;
    switch ((int)heard->frame->payload_case) {
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_BOOTSTRAP_REQUEST:
        return frames_read_blob(heard->frame->bootstrap_request, arena, &heard->blob, &note);
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NODE_STATE_UPDATE:
        return frames_read_node(heard->frame->node_state_update, arena, &heard->node, &note);
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_AVAILABLE_CAPACITY:
        return frames_read_available(heard->frame->available_capacity, arena, &heard->hint, &note);
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NEED_STATUS:
        return frames_read_status(heard->frame->need_status, &heard->status, &note);
    default: return ERR_OK;
    }
}

/* What the shard writes, read here; and every byte of it cut or changed is refused or harmless. */
TEST(an_operator_reads_what_the_shard_says_and_survives_what_nobody_says)
{
    const struct str types[] = {STR("m5.large")};
    const struct requirement in = {LABEL_INSTANCE_TYPE, OPERATOR_IN, types, 1};
    const struct profile profile = {
        .requirements = &in, .requirement_count = 1, .fingerprint = STR("p=0")};
    const struct label labels[] = {{STR("a"), STR("1")}};
    struct machine machine = {.id = STR("m-1"),
                              .state = MACHINE_CONFIGURED,
                              .host_ref = STR("host-1"),
                              .cluster = STR("another"),
                              .attributes = {STR("m5.large"), STR("eu-1"), labels, 1}};
    const struct need_status need = {.fingerprint = STR("p=0"),
                                     .group = STR("rack\0g"),
                                     .ready = 2,
                                     .coming = 1,
                                     .lacking = 3,
                                     .reason = REASON_NO_MATCHING_SUPPLY,
                                     .since.ms = 99};
    struct frame_writer writer;
    struct dimensions dimensions;
    struct heard heard;
    struct arena arena;

    open_all();
    arena_init(&arena, 1 << 20);
    dimensions_init(&dimensions);
    frame_writer_init(&writer);
    for (int kind = 0; kind < 6; kind++) {
        switch (kind) {
        case 0: CHECK_OK("ack", frame_write_ack(&writer, STR("rollup"), 1, 2, false, false)); break;
        case 1:
            CHECK_OK("blob", frame_write_blob_request(&writer, STR("00ff"), STR("c"), &profile));
            break;
        case 2:
            CHECK_OK("reclaim", frame_write_reclaim(&writer, STR("id"), STR("m-1"), 90000, 7));
            break;
        case 3:
            CHECK_OK("state", frame_write_node_state(&writer, STR("c"), &machine, &dimensions));
            break;
        case 5: CHECK_OK("status", frame_write_need_status(&writer, &need)); break;
        default:
            CHECK_OK("capacity",
                     frame_write_capacity(
                         &writer, &(struct capacity_offer){&profile, 3, (enum confidence)4, 1.5}));
        }
        CHECK_OK("read", operator_reads(buf_peek(&writer.frame), &arena, &heard));
        if (kind == 0) CHECK_TEXT("ack", heard.frame->ack->echo, "rollup");
        if (kind == 0) CHECK("of a shard as ever", !heard.frame->ack->takes_drain_reports);
        if (kind == 1)
            CHECK("blob", heard.blob.requirement_count == 1 &&
                              str_equal(heard.blob.requirements[0].values[0], STR("m5.large")));
        if (kind == 2)
            CHECK("reclaim", heard.frame->reclaim_instruction->grace_period_seconds == 90 &&
                                 heard.frame->reclaim_instruction->n_nodes == 1 &&
                                 heard.frame->reclaim_instruction->preemptor_priority == 7);
        if (kind == 3)
            CHECK("state",
                  heard.node.label_count == 3 && str_equal(heard.node.provider_id, STR("host-1")));
        if (kind == 3)
            CHECK("of another cluster: it left this one, for which it is Idle",
                  heard.node.left && heard.node.state == MACHINE_IDLE);
        if (kind == 5) {
            CHECK("row", str_equal(heard.status.fingerprint, STR("p=0")) &&
                             str_equal(heard.status.group, STR("rack\0g")) && heard.status.known);
            CHECK("counts", heard.status.supply.ready == 2 && heard.status.supply.coming == 1 &&
                                heard.status.supply.lacking == 3 &&
                                heard.status.supply.since.ms == 99 &&
                                !heard.status.supply.satisfied);
            CHECK_TEXT("why", heard.status.supply.reason, "NO_MATCHING_SUPPLY");
        }
        if (kind == 4) CHECK("capacity", heard.hint.count == 3 && heard.hint.confidence == 4);
        for (size_t i = 0; i < writer.frame.len; i++) {
            char before = writer.frame.data[i];
            (void)operator_reads(str_of(writer.frame.data, i), &arena, &heard);
            for (int bit = 0; bit < 8; bit++) {
                writer.frame.data[i] = (char)(before ^ 1 << bit);
                (void)operator_reads(buf_peek(&writer.frame), &arena, &heard);
                arena_reset(&arena);
            }
            writer.frame.data[i] = before;
        }
    }
    frame_writer_deinit(&writer);
    dimensions_deinit(&dimensions);
    arena_deinit(&arena);
    close_all();
}
