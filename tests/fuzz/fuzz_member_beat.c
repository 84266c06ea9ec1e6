/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a beat, as a forwarded beat, as an answer to one, and as a machine's reply: refused
 * by name, or read, and the bytes written from it are read to the same.
 *
 * First byte: which of the four. Of a beat, metadata follow the message: one byte of its length,
 * the message, then for each line a byte of length and "name=value". */
#include <stdlib.h>

#include "member/beat.h"
#include "member/machine.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds) abort();
}

static void same(const struct beat_said *a, const struct beat_said *b)
{
    must(memcmp(a->worker, b->worker, sizeof a->worker) == 0);
    must(memcmp(a->run, b->run, sizeof a->run) == 0);
    must(a->phase == b->phase && a->has_due == b->has_due && a->due_ms == b->due_ms);
    must(a->load == b->load && a->incarnation == b->incarnation);
    must(a->assignment_epoch == b->assignment_epoch && a->has_instance == b->has_instance);
    must(!a->has_instance || memcmp(a->instance, b->instance, sizeof a->instance) == 0);
}

static void pass_on(const struct beat_said *said, struct arena *arena)
{
    ProtobufCMessage *message;
    struct beat_said again;
    struct buf bytes;
    uint32_t age;

    must(said->phase >= PHASE_INIT && said->phase <= PHASE_DRAINING);
    must(said->load >= BEAT_LOAD_UNSAID && said->load <= BEAT_LOAD_WHOLE);
    buf_init(&bytes, 4096);
    must(beat_pass_write(said, 7, &bytes) == ERR_OK);
    must(message_read(&muster__v1__passed_beat__descriptor, buf_peek(&bytes), NULL, arena, &message,
                      NULL) == ERR_OK);
    must(beat_pass_read(message, &again, &age, NULL) == ERR_OK && age == 7);
    same(said, &again);
    buf_deinit(&bytes);
}

static void take_metadata(struct str rest, struct beat_said *said)
{
    while (rest.len > 0) {
        size_t len = min_size((unsigned char)rest.at[0], rest.len - 1);
        struct str line = str_of(rest.at + 1, len);
        size_t at = str_find(line, '=');

        beat_take_metadata(said, str_of(line.at, at), str_tail(line, at + 1));
        rest = str_tail(rest, 1 + len);
    }
}

static void read_beat(struct str bytes, struct arena *arena)
{
    size_t len = bytes.len ? min_size((unsigned char)bytes.at[0], bytes.len - 1) : 0;
    struct str body = str_of(bytes.len ? bytes.at + 1 : "", len);
    ProtobufCMessage *message;
    struct beat_said said;
    struct note note = {""};

    if (message_read(&rollout__transport__v1__beat_request__descriptor, body, NULL, arena, &message,
                     NULL))
        return;
    if (beat_read(message, &said, &note)) {
        must(str_starts(str_from(note.text), STR("worker_id: ")) ||
             str_starts(str_from(note.text), STR("run_id: ")));
        return;
    }
    take_metadata(str_tail(bytes, 1 + len), &said);
    pass_on(&said, arena);
}

static void read_passed(struct str bytes, struct arena *arena)
{
    ProtobufCMessage *message;
    const Muster__V1__PassBeatsRequest *m;

    if (message_read(&muster__v1__pass_beats_request__descriptor, bytes, NULL, arena, &message,
                     NULL))
        return;
    m = (const Muster__V1__PassBeatsRequest *)message;
    for (size_t i = 0; i < m->n_beats; i++) {
        struct beat_said said;
        uint32_t age;

        if (!beat_pass_read(&m->beats[i]->base, &said, &age, NULL)) pass_on(&said, arena);
    }
}

static void read_reply(struct str bytes)
{
    struct member_reply reply;
    struct member_digest item;

    if (member_reply_parse(bytes, &reply)) return;
    for (uint32_t op = 0; op < reply.ops; op++) {
        uint32_t items = member_reply_result(&reply, op).items;

        (void)member_reply_item(&reply, op, 0, &item);
        (void)member_reply_item(&reply, op, items - 1, &item);
        must(!member_reply_item(&reply, op, items, &item));
    }
}

static void write_answer(struct str bytes, struct arena *arena)
{
    ProtobufCMessage *message;
    struct buf out;
    int64_t drift = 0;

    memcpy(&drift, bytes.at, min_size(bytes.len, sizeof drift));
    buf_init(&out, 4096);
    must(beat_answer_write(true, drift, false, STR_EMPTY, &out) == ERR_OK);
    must(message_read(&rollout__transport__v1__beat_response__descriptor, buf_peek(&out), NULL,
                      arena, &message, NULL) == ERR_OK);
    must(((Rollout__Transport__V1__BeatResponse *)message)->acknowledged_at_drift->seconds ==
         drift / 1000);
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct str rest;

    if (size < 2) return 0;
    rest = str_of(data + 1, size - 1);
    arena_init(&arena, (size_t)64 << 20);
    switch (data[0] % 4) {
    case 0: read_beat(rest, &arena); break;
    case 1: read_passed(rest, &arena); break;
    case 2: read_reply(rest); break;
    default: write_answer(rest, &arena); break;
    }
    arena_deinit(&arena);
    return 0;
}
