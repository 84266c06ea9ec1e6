/* SPDX-License-Identifier: Apache-2.0 */
/* muster test-fence and mock-run: two hidden commands of rollout, for tests. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/ulid.h"
#include "common/program.h"
#include "member/blake3.h"
#include "member/core/member.h"
#include "member/events/events.h"
#include "member/ledger/file.h"
#include "muster/commands.h"

enum { WORKERS_MAX = 64, STORAGE_BYTES = 64 << 20, KEY_CAP = 128, HEX_CAP = 2 * BLAKE3_BYTES + 1 };

static void new_ulid(struct ulid_maker *maker, char text[ULID_TEXT_CAP])
{
    uint8_t random[10];
    struct ulid ulid;

    entropy_fill(entropy_real(), random, sizeof random);
    if (ulid_next(maker, clock_wall(clock_real()), random, &ulid)) abort(); /* 2^80 in a moment */
    ulid_text(&ulid, text);
}

/* -- test-fence -- */

static enum err read_epoch(struct program_run *run, size_t place, uint64_t *ret_epoch)
{
    const char *text = conf_argument(run->conf, place);

    if (str_to_u64(str_from(text), ret_epoch) == ERR_OK) return ERR_OK;
    return note_fail(&run->note, ERR_INVALID, "'%s' is no epoch", text);
}

enum err test_fence_act(struct program_run *run)
{
    struct ulid_maker maker = {0};
    char id[ULID_TEXT_CAP], message[96];
    uint64_t stale = 0, observed = 0;
    enum err err = read_epoch(run, 0, &stale);

    if (!err) err = read_epoch(run, 1, &observed);
    if (err) return err;
    new_ulid(&maker, id);
    snprintf(message, sizeof message, "stale_epoch=%" PRIu64 " < observed_epoch=%" PRIu64, stale,
             observed);
    err = event_line_write(
        &(struct event_line){
            .topic = TOPIC_COORDINATOR_FENCED,
            .at = clock_wall(clock_real()),
            .worker_id = str_from(id),
            .message = str_from(message),
            .fields = (const struct log_field[]){log_u64("observed_epoch", observed),
                                                 log_u64("stale_epoch", stale), LOG_END},
        },
        STR_EMPTY, false, false, &run->out);
    if (!err) (void)program_print(buf_peek(&run->out));
    abort(); /* like a coordinator that lost its leadership */
}

/* -- mock-run: runs a whole work queue without a coordinator -- */

struct mock {
    struct membership *membership;
    struct member_events *events;
    struct buf rows;
    const char *run;
    uint64_t index, reported;
    uint64_t items, done, stolen;
    struct member_result result;
    size_t worker_count;
    char workers[WORKERS_MAX][ULID_TEXT_CAP];
    uint64_t incarnations[WORKERS_MAX];
};

static enum err mock_apply(struct mock *m, struct member_op op)
{
    struct member_command command = {
        .wall_ms = (int64_t)clock_wall(clock_real()).ms, .ops = &op, .op_count = 1};

    m->index++;
    member_apply(m->membership, m->index, m->index * NS_PER_MS, &command, &m->result);
    return member_status_err(m->result.status);
}

static enum err mock_emit_events(struct mock *m)
{
    static const enum event_topic topics[MEMBER_EV_LAST + 1] = {
        [MEMBER_EV_WORK_DISPATCHED] = TOPIC_WORK_DISPATCHED,
        [MEMBER_EV_WORK_COMPLETED] = TOPIC_WORK_COMPLETED,
        [MEMBER_EV_WORK_STOLEN] = TOPIC_WORK_STOLEN};
    struct member_event event;
    enum err err = ERR_OK;

    while (!err && member_next_event(m->membership, &m->reported, &event)) {
        bool stolen = event.topic == MEMBER_EV_WORK_STOLEN;
        struct log_field fields[3];
        char hex[HEX_CAP];
        size_t n = 0;

        if (!topics[event.topic]) continue;
        hex_write(event.item.b, BLAKE3_BYTES, hex);
        fields[n++] = log_text("work_id", hex);
        if (stolen) fields[n++] = log_str("thief", event.worker);
        fields[n] = LOG_END;
        m->stolen += stolen;
        m->done += event.topic == MEMBER_EV_WORK_COMPLETED;
        err = member_events_emit(m->events, &(struct event_line){.topic = topics[event.topic],
                                                                 .worker_id = event.worker,
                                                                 .fields = fields});
    }
    return err;
}

static enum err mock_enqueue(struct mock *m)
{
    char payload[32];
    enum err err = ERR_OK;

    for (uint64_t i = 0; i < m->items && !err; i++) {
        struct member_op op = {.kind = MEMBER_OP_ENQUEUE};
        snprintf(payload, sizeof payload, "mock-item-%" PRIu64, i);
        op.bytes = str_from(payload);
        blake3(op.bytes, op.item.b);
        err = mock_apply(m, op);
    }
    return err;
}

static enum err mock_join(struct mock *m)
{
    struct ulid_maker maker = {0};
    enum err err = ERR_OK;

    for (size_t i = 0; i < m->worker_count && !err; i++) {
        new_ulid(&maker, m->workers[i]);
        err = mock_apply(
            m, (struct member_op){.kind = MEMBER_OP_REGISTER, .worker = str_from(m->workers[i])});
        m->incarnations[i] = m->result.incarnation;
    }
    return err;
}

/* The last worker gets no items, so that it must steal. */
static enum err mock_share(struct mock *m)
{
    size_t pulling = m->worker_count > 1 ? m->worker_count - 1 : 1;
    enum err err = ERR_OK;

    for (size_t i = 0; i < m->worker_count && !err; i++)
        err = mock_apply(m, (struct member_op){
                                .kind = i < pulling ? MEMBER_OP_PULL : MEMBER_OP_STEAL,
                                .worker = str_from(m->workers[i]),
                                .incarnation = m->incarnations[i],
                                .number = (m->items + pulling - 1) / pulling,
                            });
    return err;
}

static enum err mock_finish(struct mock *m)
{
    struct member_item item;
    struct member_digest at;
    bool more = member_next_item(m->membership, NULL, &item);
    enum err err = ledger_file_begin(&m->rows);

    for (; more && !err; more = member_next_item(m->membership, &at, &item)) {
        char hex[HEX_CAP], key[KEY_CAP];

        at = item.id;
        hex_write(at.b, BLAKE3_BYTES, hex);
        snprintf(key, sizeof key, "work/%s/item/%s", m->run, hex);
        err = mock_apply(m, (struct member_op){.kind = MEMBER_OP_SUBMIT,
                                               .worker = item.worker,
                                               .incarnation = item.incarnation,
                                               .item = at});
        if (!err) err = ledger_record_add(&m->rows, str_from(key), STR("done"));
    }
    return err;
}

static enum err mock_store(struct mock *m, const char *path, struct note *note)
{
    struct buf old;
    struct str records;
    enum err err;

    buf_init(&old, STORAGE_BYTES);
    err = ledger_file_read(fs_real(), path, &old, &records, note);
    buf_deinit(&old);
    if (err && err != ERR_NOT_FOUND) return err;
    return ledger_file_write(fs_real(), path, &m->rows, entropy_u64(entropy_real()), note);
}

static enum err mock_run(struct mock *m, const char *storage, struct note *note)
{
    struct member_rules rules;
    enum err err;

    member_rules_defaults(&rules);
    err = mock_apply(m, (struct member_op){.kind = MEMBER_OP_CONFIGURE, .rules = &rules});
    if (!err) err = mock_join(m);
    if (!err) err = mock_enqueue(m);
    if (!err) err = mock_share(m);
    if (!err) err = mock_emit_events(m);
    if (!err) err = mock_finish(m);
    if (!err) err = mock_store(m, storage, note);
    if (!err) err = mock_emit_events(m);
    if (err) return err;
    return member_events_emit(
        m->events, &(struct event_line){.topic = TOPIC_RUN_DONE,
                                        .fields = (const struct log_field[]){
                                            log_u64("done", m->done), log_u64("items", m->items),
                                            log_u64("stolen", m->stolen), LOG_END}});
}

static enum err open_mock(struct mock *m, const struct conf *conf, struct events **ret_sink,
                          struct note *note)
{
    struct member_events_options options = {.clock = clock_real(), .run_id = str_from(m->run)};
    struct ulid run;
    enum err err = ulid_parse(str_from(m->run), &run, note);

    if (err) {
        note_prefix(note, "--run-id");
        return ERR_INVALID;
    }
    m->items = conf_number(conf, "items");
    m->worker_count = (size_t)conf_number(conf, "workers");
    m->membership = member_open(&(struct member_options){0});
    if (!m->membership) return ERR_NOMEM;
    buf_init(&m->rows, STORAGE_BYTES);
    err = events_open(&(struct events_options){.kind = EVENTS_STDOUT}, ret_sink, note);
    options.sink = *ret_sink;
    return err ? err : member_events_open(&options, &m->events);
}

enum err mock_run_act(struct program_run *run)
{
    struct mock mock = {.run = conf_text(run->conf, "run-id")};
    struct events *sink = NULL;
    enum err err = open_mock(&mock, run->conf, &sink, &run->note);

    if (!err) err = mock_run(&mock, conf_text(run->conf, "storage"), &run->note);
    if (!err && mock.done != mock.items) run->exit_code = 1;
    member_events_close(mock.events);
    events_close(sink);
    buf_deinit(&mock.rows);
    member_close(mock.membership);
    return err;
}
