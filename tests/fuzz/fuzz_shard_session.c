/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of an operator's stream: the fields that are read without decoding lie in the given bytes,
 * and a full decoder that accepts the frame finds the same payload. */
#include <stddef.h>
#include <stdint.h>

#include "shard/session_frame.h"
#include "wire/message.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"

static void check_inside(struct str part, const uint8_t *data, size_t size)
{
    const uint8_t *at = (const uint8_t *)part.at;

    if (part.len > 0) assert(at >= data && at + part.len <= data + size);
}

/* protobuf-c itself ends a text at its first NUL; the guard refuses those frames. */
static void check_same(const struct operator_frame *frame,
                       const Bigfleet__V1alpha1__OperatorMessage *m)
{
    if (frame->kind == FRAME_DRAIN_REPORT) {
        assert(m->payload_case == BIGFLEET__V1ALPHA1__OPERATOR_MESSAGE__PAYLOAD_DRAIN_REPORT);
        assert(str_equal(frame->request_id, str_from(m->drain_report->instruction_id)));
        assert(str_equal(frame->machine, str_from(m->drain_report->machine_id)));
        assert(str_equal(frame->error, str_from(m->drain_report->error)));
        assert(frame->drained == m->drain_report->drained);
        return;
    }
    assert((int)frame->kind == (int)m->payload_case);
    if (frame->kind == FRAME_HELLO) assert(frame->reports_drains == m->hello->reports_drains);
    if (frame->kind == FRAME_HELLO)
        assert(str_equal(frame->cluster, str_from(m->hello->cluster_id)));
    if (frame->kind == FRAME_BLOB) {
        assert(str_equal(frame->request_id, str_from(m->bootstrap_response->request_id)));
        assert(frame->user_data.len == m->bootstrap_response->user_data.len);
        assert(str_equal(frame->error, str_from(m->bootstrap_response->error)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct note note = {""};
    ProtobufCMessage *message;
    struct arena arena;
    struct operator_frame frame;
    enum err err = frame_read(str_of(data, size), &frame, &note);

    if (err) {
        assert(note.text[0]);
        return 0;
    }
    check_inside(frame.cluster, data, size);
    check_inside(frame.payload, data, size);
    check_inside(frame.request_id, data, size);
    check_inside(frame.user_data, data, size);
    check_inside(frame.error, data, size);
    check_inside(frame.machine, data, size);
    arena_init(&arena, 16 << 20);
    if (!message_read(&bigfleet__v1alpha1__operator_message__descriptor, str_of(data, size), NULL,
                      &arena, &message, &note))
        check_same(&frame, (const Bigfleet__V1alpha1__OperatorMessage *)message);
    arena_deinit(&arena);
    return 0;
}
