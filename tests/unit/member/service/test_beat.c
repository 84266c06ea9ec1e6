/* SPDX-License-Identifier: Apache-2.0 */
/* member/beat.h: the content of a beat, by the numbers of workers.md 24.1. */
#include "lib/test.h"
#include "member/beat.h"
#include "wire/pb/muster_v1_member.pb-c.h"
#include "wire/pb/rollout_transport.pb-c.h"

#define RUN    "01JFEAVS7C5DE5XEAEAB91EBT5"
#define WORKER "01JFEAVS7C5DE5XEAEAB91EBT6"

static struct beat_said read_beat(const char *worker, const char *run, int state, enum err want,
                                  struct note *note)
{
    Rollout__Transport__V1__BeatRequest m = ROLLOUT__TRANSPORT__V1__BEAT_REQUEST__INIT;
    struct beat_said said;

    m.worker_id = (char *)worker;
    m.run_id = (char *)run;
    m.state = (Rollout__Transport__V1__WorkerState)state;
    *note = (struct note){""};
    CHECK_ERR("read", beat_read(&m.base, &said, note), want);
    return said;
}

TEST(ids_are_ulids_and_come_out_in_upper_case) /* 6, 7, 8, 9 */
{
    static const struct {
        const char *worker, *run, *says;
    } cases[] = {
        {"w1", RUN, "worker_id: not a valid ulid: invalid length"},
        {"", RUN, "worker_id: not a valid ulid: invalid length"},
        {"01JFEAVS7C5DE5XEAEAB91EBTI", RUN, "worker_id: not a valid ulid: invalid character"},
        {"01JFEAVS7C5DE5XEAEAB91EBTU", RUN, "worker_id: not a valid ulid: invalid character"},
        {"81JFEAVS7C5DE5XEAEAB91EBT5", RUN, "worker_id: not a valid ulid: out of range"},
        {WORKER, "", "run_id: not a valid ulid: invalid length"},
    };
    struct note note;
    struct beat_said said;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        (void)read_beat(cases[i].worker, cases[i].run, 2, ERR_INVALID, &note);
        CHECK_TEXT("the wrong field", note.text, cases[i].says);
    }
    said = read_beat("01jfeavs7c5de5xeaeab91ebt6", "01jfeavs7c5de5xeaeab91ebt5", 2, ERR_OK, &note);
    CHECK_TEXT("worker", said.worker, WORKER);
    CHECK_TEXT("run", said.run, RUN);
}

TEST(an_unknown_state_is_init) /* 11 */
{
    static const struct {
        int state;
        enum beat_phase phase;
    } cases[] = {{0, PHASE_INIT}, {5, PHASE_INIT},  {99, PHASE_INIT},   {-1, PHASE_INIT},
                 {1, PHASE_INIT}, {2, PHASE_READY}, {3, PHASE_RUNNING}, {4, PHASE_DRAINING}};
    struct note note;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        CHECK_U64("phase", read_beat(WORKER, RUN, cases[i].state, ERR_OK, &note).phase,
                  cases[i].phase);
}

TEST(a_due_time_is_cut_to_milliseconds_and_never_negative) /* 5, 12, 13 */
{
    static const struct {
        int64_t seconds;
        int32_t nanos;
        uint64_t ms;
    } cases[] = {
        {1700000000, 123456000, 1700000000123},
        {-5, 0, 0},
        {-5, 500000000, 500},
        {3, -1, 3000},
        {0, 999999, 0},
        {1, 1999999, 1001},
        {INT64_MAX, 0, INT64_MAX},
        {INT64_MIN, -1, 0},
    };
    Rollout__Transport__V1__BeatRequest m = ROLLOUT__TRANSPORT__V1__BEAT_REQUEST__INIT;
    Google__Protobuf__Timestamp due = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    struct beat_said said;
    struct note note;

    m.worker_id = (char *)WORKER;
    m.run_id = (char *)RUN;
    CHECK_OK("without", beat_read(&m.base, &said, &note));
    CHECK("none", !said.has_due);
    m.due_at = &due;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        due.seconds = cases[i].seconds;
        due.nanos = cases[i].nanos;
        CHECK_OK("with", beat_read(&m.base, &said, &note));
        CHECK("there", said.has_due);
        CHECK_U64("ms", said.due_ms, cases[i].ms);
    }
}

TEST(an_invalid_load_is_refused) /* 29 */
{
    static const struct {
        const char *text;
        int32_t load;
        bool unread;
    } cases[] = {{"0.42", 4200, false},
                 {"0", 0, false},
                 {"1.0", 10000, false},
                 {"1.5", -1, true},
                 {"nan", -1, true},
                 {"x", -1, true},
                 {"", -1, true},
                 {"-0.1", -1, true},
                 {"0.5 ", -1, true},
                 {"inf", -1, true},
                 {"0.00000000000000000000000000000000001", -1, true}};
    struct beat_said said = {.load = BEAT_LOAD_UNSAID};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        said.load = BEAT_LOAD_UNSAID;
        said.load_unread = false;
        beat_take_metadata(&said, STR("x-worker-load"), str_from(cases[i].text));
        CHECK_I64(cases[i].text, said.load, cases[i].load);
        CHECK(cases[i].text, said.load_unread == cases[i].unread);
    }
}

TEST(metadata_has_the_current_identity) /* 4.3 */
{
    struct beat_said said = {0};

    beat_take_metadata(&said, STR("x-worker-instance"), STR("00ff10A0000000000000000000000001"));
    beat_take_metadata(&said, STR("x-worker-incarnation"), STR("7"));
    beat_take_metadata(&said, STR("x-assignment-epoch"), STR("41"));
    beat_take_metadata(&said, STR("x-other"), STR("1"));
    CHECK("instance", said.has_instance && said.instance[1] == 0xff && said.instance[3] == 0xa0 &&
                          said.instance[15] == 1);
    CHECK_U64("incarnation", said.incarnation, 7);
    CHECK_U64("epoch", said.assignment_epoch, 41);
    beat_take_metadata(&said, STR("x-worker-instance"), STR("00ff10"));
    CHECK("none", !said.has_instance);
    beat_take_metadata(&said, STR("x-worker-incarnation"), STR("-1"));
    CHECK_U64("as it was", said.incarnation, 7);
}

TEST(a_forwarded_beat_is_unchanged) /* 23 */
{
    struct note note;
    struct beat_said said = read_beat(WORKER, RUN, 3, ERR_OK, &note), again;
    struct arena arena;
    struct buf bytes;
    ProtobufCMessage *message;
    uint32_t age;

    said.has_due = true;
    said.due_ms = 1700000000123;
    said.load = 4200;
    said.incarnation = 5;
    said.assignment_epoch = 9;
    said.has_instance = true;
    memset(said.instance, 0xab, sizeof said.instance);
    buf_init(&bytes, 4096);
    arena_init(&arena, 1 << 20);
    CHECK_OK("write", beat_pass_write(&said, 17, &bytes));
    CHECK_OK("read", message_read(&muster__v1__passed_beat__descriptor, buf_peek(&bytes), NULL,
                                  &arena, &message, &note));
    CHECK_OK("taken", beat_pass_read(message, &again, &age, &note));
    CHECK_U64("age", age, 17);
    CHECK_TEXT("worker", again.worker, said.worker);
    CHECK_TEXT("run", again.run, said.run);
    CHECK_U64("phase", again.phase, said.phase);
    CHECK_U64("due", again.due_ms, said.due_ms);
    CHECK_I64("load", again.load, said.load);
    CHECK_U64("incarnation", again.incarnation, 5);
    CHECK_U64("epoch", again.assignment_epoch, 9);
    CHECK("instance",
          again.has_instance && memcmp(again.instance, said.instance, sizeof said.instance) == 0);
    said.load = BEAT_LOAD_UNSAID;
    buf_clear(&bytes);
    CHECK_OK("write", beat_pass_write(&said, 0, &bytes));
    CHECK_OK("read", message_read(&muster__v1__passed_beat__descriptor, buf_peek(&bytes), NULL,
                                  &arena, &message, &note));
    CHECK_OK("taken", beat_pass_read(message, &again, &age, &note));
    CHECK_I64("no load", again.load, BEAT_LOAD_UNSAID);
    arena_deinit(&arena);
    buf_deinit(&bytes);
}

TEST(an_answer_is_rollouts_message) /* 4.2.5 */
{
    static const int64_t drifts[] = {0, 1, 999, 1000, 1001, -1, -1500, 3600000};
    struct note note;
    struct arena arena;
    struct buf bytes;
    ProtobufCMessage *message;
    const Rollout__Transport__V1__BeatResponse *m;

    arena_init(&arena, 1 << 20);
    buf_init(&bytes, 4096);
    for (size_t i = 0; i < ARRAY_LEN(drifts); i++) {
        buf_clear(&bytes);
        CHECK_OK("write", beat_answer_write(true, drifts[i], false, STR_EMPTY, &bytes));
        CHECK_OK("read", message_read(&rollout__transport__v1__beat_response__descriptor,
                                      buf_peek(&bytes), NULL, &arena, &message, &note));
        m = (const Rollout__Transport__V1__BeatResponse *)message;
        CHECK("drift is there", m->acknowledged_at_drift != NULL);
        CHECK_I64("drift",
                  m->acknowledged_at_drift->seconds * 1000 +
                      m->acknowledged_at_drift->nanos / 1000000,
                  drifts[i]);
        CHECK("no order", !m->pending_control);
    }
    buf_clear(&bytes);
    CHECK_OK("write", beat_answer_write(false, 0, true, STR_EMPTY, &bytes));
    CHECK_OK("read", message_read(&rollout__transport__v1__beat_response__descriptor,
                                  buf_peek(&bytes), NULL, &arena, &message, &note));
    m = (const Rollout__Transport__V1__BeatResponse *)message;
    CHECK("an empty order is one", m->pending_control && !m->acknowledged_at_drift);
    arena_deinit(&arena);
    buf_deinit(&bytes);
}
