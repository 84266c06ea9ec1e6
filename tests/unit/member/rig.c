/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"
#include "section/section.h"

#include <stdio.h>
#include <stdlib.h>

static void note_event(struct rig *rig, const struct member_event *event)
{
    struct rig_event *row;

    CHECK("the events of a test fit", rig->event_count < RIG_EVENTS);
    row = &rig->events[rig->event_count++];
    *row = (struct rig_event){.topic = event->topic,
                              .incarnation = event->incarnation,
                              .index = event->index,
                              .n = event->n,
                              .epoch = event->epoch,
                              .count = event->count,
                              .extra = event->extra,
                              .partition = event->partition,
                              .due_ms = event->due_ms};
    (void)snprintf(row->worker, sizeof row->worker, "%.*s", STR_ARG(event->worker));
    (void)snprintf(row->text, sizeof row->text, "%.*s", STR_ARG(event->text));
}

static void read_events(struct rig *rig)
{
    struct member_event event;

    while (member_next_event(rig->m, &rig->read, &event)) note_event(rig, &event);
    while (member_local_next_event(rig->local, &event)) note_event(rig, &event);
}

static void begin(struct rig *rig)
{
    CHECK_OK("batch", member_batch_begin(&rig->batch, rig->wall_ms));
    CHECK_OK("suspects", member_local_context(rig->local, &rig->batch));
}

static void commit(struct rig *rig)
{
    struct member_command command;
    struct note note;

    arena_reset(&rig->arena);
    CHECK_OK("read back", member_command_read(buf_peek(&rig->batch), &rig->arena, &command, &note));
    CHECK("room for results", command.op_count <= MEMBER_OPS_MAX);
    member_apply(rig->m, ++rig->index, rig->clock_ns, &command, rig->results);
    rig->result_count = command.op_count;
    rig->commands++;
    member_local_sync(rig->local, rig->now_ns);
    read_events(rig);
}

struct member_result rig_op(struct rig *rig, const struct member_op *op)
{
    begin(rig);
    CHECK_OK("added", member_batch_add(&rig->batch, op));
    commit(rig);
    return rig->results[rig->result_count - 1];
}

struct member_op rig_of(struct rig *rig, enum member_kind kind, const char *worker)
{
    struct member_worker row = {0};

    (void)member_find_worker(rig->m, str_from(worker), &row);
    return (struct member_op){
        .kind = kind, .worker = str_from(worker), .incarnation = row.incarnation};
}

struct member_instance rig_instance(uint8_t number)
{
    return (struct member_instance){{number}};
}

static void lead(struct rig *rig)
{
    struct member_op op = {.kind = MEMBER_OP_LEAD, .worker = STR("c1"), .number = ++rig->term};

    CHECK_OK("leads", member_local_open(rig->m, &rig->options, rig->now_ns, &rig->local));
    rig->next_scan_ns = rig->now_ns;
    CHECK_U64("term", rig_op(rig, &op).status, MEMBER_S_DONE);
}

struct rig *rig_open(void (*change)(struct member_rules *rules,
                                    struct member_local_options *options))
{
    struct member_options options = {0};
    struct rig *rig = calloc(1, sizeof *rig);
    struct member_rules rules;
    struct member_op op = {.kind = MEMBER_OP_CONFIGURE, .rules = &rules};

    assert(rig);
    rig->results = calloc(MEMBER_OPS_MAX, sizeof *rig->results);
    rig->events = calloc(RIG_EVENTS, sizeof *rig->events);
    rig->m = member_open(&options);
    assert(rig->m && rig->results && rig->events);
    buf_init(&rig->batch, 8 << 20);
    arena_init(&rig->arena, 64 << 20);
    rig->now_ns = 1000000 * RIG_MS;
    rig->wall_ms = 1794727480000;
    member_rules_defaults(&rules);
    member_local_defaults(&rig->options);
    if (change) change(&rules, &rig->options);
    lead(rig);
    CHECK_U64("configured", rig_op(rig, &op).status, MEMBER_S_DONE);
    rig_forget(rig);
    return rig;
}

void rig_close(struct rig *rig)
{
    member_local_close(rig->local);
    member_close(rig->m);
    buf_deinit(&rig->batch);
    arena_deinit(&rig->arena);
    free(rig->results);
    free(rig->events);
    free(rig);
}

void rig_takeover(struct rig *rig)
{
    member_local_close(rig->local);
    lead(rig);
}

void rig_recover(struct rig *rig, uint64_t floor)
{
    struct member_instance nobody = rig_instance(255);

    member_local_close(rig->local);
    member_recover(rig->m, ++rig->index, rig->clock_ns, floor, &nobody);
    lead(rig);
}

void rig_reload(struct rig *rig)
{
    struct member_options options = {0};
    struct member_restore *restore = member_restore_open(&options);
    void *view;
    struct membership *fresh = NULL;
    struct buf bytes;
    struct note note = {""};
    bool done = false;
    uint64_t hash = member_hash(rig->m);

    member_local_close(rig->local);
    buf_init(&bytes, 64 << 20);
    CHECK_OK("a view", member_view_open(rig->m, &view));
    CHECK("a restore", restore);
    while (!done) CHECK_OK("viewed", section_view_next(view, 100, &bytes, &done));
    section_view_close(view);
    for (size_t at = 0; at < bytes.len; at += 7)
        CHECK_OK(note.text,
                 member_restore_feed(restore, str_of(bytes.data + at, min_size(7, bytes.len - at)),
                                     &note));
    CHECK_OK(note.text, member_restore_done(restore, &fresh, &note));
    member_restore_close(restore);
    buf_deinit(&bytes);
    CHECK_U64("the same state", member_hash(fresh), hash);
    CHECK_U64("the same bytes", member_bytes(fresh), member_bytes(rig->m));
    CHECK_U64("the same due", member_next_due(fresh), member_next_due(rig->m));
    member_close(rig->m);
    rig->m = fresh;
    lead(rig);
}

enum member_beat_verdict rig_beat(struct rig *rig, const char *worker, enum member_phase phase,
                                  uint8_t instance)
{
    struct member_beat beat = {.worker = str_from(worker),
                               .phase = phase,
                               .due = {true, rig->wall_ms + 1000},
                               .instance = rig_instance(instance)};
    struct member_op op;
    struct member_heard heard =
        member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &op);

    if (heard.verdict == MEMBER_BEAT_PROPOSE) {
        (void)rig_op(rig, &op);
        member_local_admitted(rig->local, beat.worker, phase, rig->now_ns);
    }
    rig->in_use = heard.in_use;
    read_events(rig);
    return heard.verdict;
}

struct member_result rig_register(struct rig *rig, const char *worker, uint8_t instance)
{
    struct member_op op = {.worker = str_from(worker),
                           .instance = rig_instance(instance),
                           .lease_ms = 1000,
                           .weight = 1,
                           .capable = true};

    if (!member_local_register(rig->local, &op, rig->now_ns, &rig->in_use))
        return (struct member_result){.status = MEMBER_S_CONFLICTED};
    return rig_op(rig, &op);
}

static struct rig_beater *beater_of(struct rig *rig, const char *worker)
{
    for (size_t i = 0; i < rig->beater_count; i++)
        if (!strcmp(rig->beaters[i].id, worker)) return &rig->beaters[i];
    return NULL;
}

struct rig_beater *rig_join(struct rig *rig, const char *worker, uint8_t instance)
{
    struct rig_beater *beater = beater_of(rig, worker);

    if (!beater) beater = &rig->beaters[rig->beater_count++];
    CHECK("beaters", rig->beater_count <= ARRAY_LEN(rig->beaters));
    *beater = (struct rig_beater){.id = worker,
                                  .phase = MEMBER_READY,
                                  .instance = rig_instance(instance),
                                  .next_ns = rig->now_ns,
                                  .acks = true};
    (void)rig_register(rig, worker, instance);
    (void)rig_beat(rig, worker, MEMBER_READY, instance);
    beater->next_ns += 500 * RIG_MS;
    return beater;
}

void rig_stop(struct rig *rig, const char *worker)
{
    struct rig_beater *beater = beater_of(rig, worker);

    if (beater) *beater = rig->beaters[--rig->beater_count];
}

void rig_scan(struct rig *rig)
{
    size_t ops;
    bool more = true;

    while (more) {
        begin(rig);
        CHECK_OK("scan", member_local_scan(rig->local, rig->now_ns, rig->clock_ns, rig->wall_ms,
                                           &rig->batch, &ops, &more));
        if (ops) commit(rig);
    }
    read_events(rig);
}

static void give_back(struct rig *rig, const char *worker)
{
    uint32_t held[1024];
    size_t count = member_grants(rig->m, str_from(worker), held, ARRAY_LEN(held));

    for (size_t i = 0; i < count && i < ARRAY_LEN(held); i++) {
        struct member_partition p = rig_partition(rig, held[i]);
        struct member_op op = rig_of(rig, MEMBER_OP_ACK_REVOKE, worker);

        if (p.state != MEMBER_REVOKING) continue;
        op.partition = held[i];
        op.epoch = p.grant_epoch;
        op.text = STR("ref");
        (void)rig_op(rig, &op);
    }
}

static void beat_by_itself(struct rig *rig, struct rig_beater *beater)
{
    struct member_beat beat = {
        .worker = str_from(beater->id),
        .phase = beater->phase,
        .due = {true, rig->wall_ms + beater->clock_off_ms + 1000},
        .instance = beater->instance,
    };
    struct member_op op;
    struct member_heard heard =
        member_local_beat(rig->local, &beat, rig->now_ns, rig->wall_ms, &op);

    if (heard.verdict == MEMBER_BEAT_PROPOSE) {
        (void)rig_op(rig, &op);
        member_local_admitted(rig->local, beat.worker, beat.phase, rig->now_ns);
    }
    if (beater->acks) give_back(rig, beater->id);
    beater->next_ns += 500 * RIG_MS;
}

void rig_run(struct rig *rig, uint64_t ms)
{
    uint64_t end = rig->now_ns + ms * RIG_MS;

    while (rig->now_ns < end) {
        rig->now_ns += RIG_STEP_MS * RIG_MS;
        rig->clock_ns += RIG_STEP_MS * RIG_MS;
        rig->wall_ms += RIG_STEP_MS;
        for (size_t i = 0; i < rig->beater_count; i++)
            if (rig->beaters[i].next_ns <= rig->now_ns) beat_by_itself(rig, &rig->beaters[i]);
        if (rig->now_ns < rig->next_scan_ns && !member_local_wants(rig->local, rig->clock_ns))
            continue;
        rig_scan(rig);
        if (rig->now_ns >= rig->next_scan_ns)
            rig->next_scan_ns = rig->now_ns + member_local_cadence_ns(rig->local);
    }
}

size_t rig_count(const struct rig *rig, enum member_topic topic, const char *worker)
{
    size_t count = 0;

    for (size_t i = 0; i < rig->event_count; i++)
        count +=
            rig->events[i].topic == topic && (!worker || !strcmp(rig->events[i].worker, worker));
    return count;
}

const struct rig_event *rig_last(const struct rig *rig, enum member_topic topic)
{
    for (size_t i = rig->event_count; i > 0; i--)
        if (rig->events[i - 1].topic == topic) return &rig->events[i - 1];
    CHECK("such an event", false);
    return NULL;
}

void rig_forget(struct rig *rig)
{
    rig->event_count = 0;
}

struct member_worker rig_worker(const struct rig *rig, const char *worker)
{
    struct member_worker row = {0};

    (void)member_find_worker(rig->m, str_from(worker), &row);
    return row;
}

struct member_partition rig_partition(const struct rig *rig, uint32_t number)
{
    struct member_partition p = {0};

    CHECK("a partition", member_find_partition(rig->m, number, &p));
    return p;
}

uint32_t rig_owned(const struct rig *rig, const char *worker)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < member_rules(rig->m)->total_partitions; i++) {
        struct member_partition p = rig_partition(rig, i);

        count += p.state == MEMBER_OWNED && str_equal(p.owner, str_from(worker));
    }
    return count;
}

uint64_t rig_epoch(const struct rig *rig)
{
    return member_counts(rig->m).assignment_epoch;
}
