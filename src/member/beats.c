/* SPDX-License-Identifier: Apache-2.0 */
/* Heartbeats that wait for their answer. Loop's thread.
 *
 * On the leader, heartbeats of BEATS_GATHER_MS share one later leadership round, so a deposed
 * leader cannot keep a worker alive. A follower passes heartbeats to the leader in batches. Every
 * heartbeat is answered within reply_max_ms. An overdue heartbeat is answered immediately, and
 * freed when its round, batch or proposal is over. */
#include <stdio.h>
#include <stdlib.h>

#include "member/service_internal.h"
#include "rpc/client.h"

enum {
    REPLY_MAX_MS = 200,
    WAITING_MAX = 200000,
    PASSING_MAX = 64, /* concurrent calls to the leader */
    ANSWER_MAX = 4 << 20,
};

struct beat_batch { /* a batch of heartbeats from a follower */
    struct beats *beats;
    struct rpc_call *call; /* NULL: the call was cancelled */
    uint32_t count, left;
    enum err err;
    struct buf rows; /* BeatAnswers, in the order of their completion */
    struct {
        uint32_t at, len;
    } answers[]; /* slices of `rows`, by heartbeat of the batch */
};
struct pass { /* heartbeats sent to the leader in one call */
    struct beats *beats;
    struct list members;
    uint32_t count;
};

/* -- allocating heartbeats -- */

static struct beat_call *beat_new(struct beats *beats)
{
    struct beat_call *beat = calloc(1, sizeof *beat);

    if (!beat) return NULL;
    list_init(&beat->link);
    list_init(&beat->age);
    beats->stats.waiting++;
    return beat;
}

/* or the caller is gone */
static bool is_answered(const struct beat_call *beat)
{
    return !beat->call && !beat->batch;
}

void beats_over(struct beats *beats, struct beat_call *beat)
{
    assert(is_answered(beat));
    list_remove(&beat->link);
    list_remove(&beat->age);
    beats->stats.waiting--;
    free(beat);
}

/* -- batches received from followers -- */

static void batch_reply(struct beat_batch *batch)
{
    struct beats *beats = batch->beats;
    struct pack pack = pack_begin(&beats->answer);

    pack.err = batch->err;
    for (uint32_t i = 0; i < batch->count; i++)
        pack_bytes(&pack, 1,
                   str_of(batch->rows.data + batch->answers[i].at, batch->answers[i].len));
    pack_u64(&pack, 2, beats->facts.coord_epoch);
    pack_u64(&pack, 3, beats->facts.assignment_epoch);
    pack_u64(&pack, 4, beats->facts.next_beat_ms);
    pack_u64(&pack, 5, beats->facts.self_fence_ms);
    if (pack.err)
        rpc_fail(batch->call, pack.err, NULL);
    else
        rpc_reply_bytes(batch->call, buf_peek(pack.into));
}

static void batch_answered(struct beat_batch *batch)
{
    if (--batch->left) return;
    if (batch->call) {
        rpc_call_set_data(batch->call, NULL);
        batch_reply(batch);
    }
    buf_deinit(&batch->rows);
    free(batch);
}

/* `ack` NULL: the heartbeat is refused */
static void batch_answer(struct beat_batch *batch, uint32_t place, enum grpc_status status,
                         struct str text, const struct beat_ack *ack)
{
    struct pack row = pack_begin(&batch->beats->row);

    pack_u64(&row, 1, status);
    pack_text(&row, 2, text);
    if (ack) {
        pack_u64(&row, 3, ack->incarnation);
        pack_u64(&row, 4, ack->reset);
        if (ack->has_control) pack_bytes(&row, 5, ack->control);
        pack_sint64(&row, 6, ack->drift_ms);
    }
    batch->answers[place].at = (uint32_t)batch->rows.len;
    batch->answers[place].len = (uint32_t)row.into->len;
    if (!row.err) row.err = buf_append(&batch->rows, buf_peek(row.into));
    if (!batch->err) batch->err = row.err;
    batch_answered(batch);
}

/* -- answers -- */

static void set_next_overdue(struct beats *beats)
{
    struct beat_call *oldest;

    if (list_empty(&beats->ages)) {
        timer_stop(&beats->overdue);
        return;
    }
    oldest = CONTAINER_OF(beats->ages.next, struct beat_call, age);
    timer_start(&beats->overdue, mono_after(oldest->since, beats->reply_max_ms));
}

static void answered(struct beats *beats, struct beat_call *beat)
{
    beat->call = NULL;
    beat->batch = NULL;
    list_remove(&beat->age);
    if (beats->service->metrics.reply)
        histogram_observe(beats->service->metrics.reply,
                          (double)mono_elapsed_ms(beat->since, loop_now(beats->loop)) /
                              MS_PER_SECOND);
}

static void number_text(char text[BEATS_NUMBER_CAP], uint64_t number)
{
    snprintf(text, BEATS_NUMBER_CAP, "%llu", (unsigned long long)number);
}

static void add_trailers(const struct beats *beats, struct rpc_call *call,
                         const struct beat_ack *ack)
{
    char incarnation[BEATS_NUMBER_CAP];

    (void)rpc_add_trailer(call, STR("x-coord-epoch"), str_from(beats->texts.coord));
    (void)rpc_add_trailer(call, STR("x-assignment-epoch"), str_from(beats->texts.assignment));
    if (ack->incarnation) {
        number_text(incarnation, ack->incarnation);
        (void)rpc_add_trailer(call, STR("x-worker-incarnation"), str_from(incarnation));
    }
    if (beats->facts.next_beat_ms)
        (void)rpc_add_trailer(call, STR("x-next-beat-ms"), str_from(beats->texts.next));
    if (beats->facts.self_fence_ms)
        (void)rpc_add_trailer(call, STR("x-self-fence-ms"), str_from(beats->texts.fence));
    if (ack->reset) (void)rpc_add_trailer(call, STR("x-directive"), STR("reset"));
    if (beats->texts.leader[0])
        (void)rpc_add_trailer(call, STR("x-leader"), str_from(beats->texts.leader));
}

static void ack_call(struct beats *beats, struct rpc_call *call, const struct beat_ack *ack)
{
    enum err err;

    buf_clear(&beats->answer);
    err = beat_answer_write(ack->has_drift, ack->drift_ms, ack->has_control, ack->control,
                            &beats->answer);
    rpc_call_set_data(call, NULL);
    if (err) {
        rpc_fail(call, err, NULL);
        return;
    }
    add_trailers(beats, call, ack);
    rpc_reply_bytes(call, buf_peek(&beats->answer));
}

static void answer(struct beats *beats, struct beat_call *beat, enum grpc_status status,
                   struct str text, const struct beat_ack *ack)
{
    struct rpc_call *call = beat->call;
    struct beat_batch *batch = beat->batch;

    if (!call && !batch) return; /* answered as overdue, or cancelled */
    if (ack)
        beats->stats.acknowledged++;
    else
        beats->stats.refused++;
    answered(beats, beat);
    if (batch) {
        batch_answer(batch, beat->place, status, text, ack);
    } else if (ack) {
        ack_call(beats, call, ack);
    } else {
        rpc_call_set_data(call, NULL);
        rpc_finish(call, status, text, STR_EMPTY);
    }
}

void beats_ack(struct beats *beats, struct beat_call *beat, const struct beat_ack *ack)
{
    answer(beats, beat, GRPC_OK, STR_EMPTY, ack);
}

void beats_refuse(struct beats *beats, struct beat_call *beat, enum grpc_status status,
                  const char *text)
{
    answer(beats, beat, status, str_from(text), NULL);
}

static void on_overdue(struct timer *timer)
{
    struct beats *beats = CONTAINER_OF(timer, struct beats, overdue);
    mono_time now = loop_now(beats->loop);

    while (!list_empty(&beats->ages)) {
        struct beat_call *beat = CONTAINER_OF(beats->ages.next, struct beat_call, age);

        if (!mono_due(mono_after(beat->since, beats->reply_max_ms), now)) break;
        beats->stats.overdue++;
        beats_refuse(beats, beat, GRPC_UNAVAILABLE, "no majority confirmed it in time");
    }
    set_next_overdue(beats);
}

/* -- leadership rounds -- */

static void plan_round(struct beats *beats)
{
    if (!beats->round.running && !list_empty(&beats->gathered) && !timer_running(&beats->round_due))
        timer_start(&beats->round_due, mono_after(beats->round.began, BEATS_GATHER_MS));
}

static void end_round(struct beats *beats, const char *why)
{
    struct list members, *node;

    list_init(&members);
    list_splice(&members, &beats->round.members);
    beats->round.running = false;
    while ((node = list_pop(&members))) {
        struct beat_call *beat = CONTAINER_OF(node, struct beat_call, link);

        if (!is_answered(beat) && why)
            beats_refuse(beats, beat, GRPC_UNAVAILABLE, why);
        else if (!is_answered(beat))
            beat_acknowledge(beats->service, beat);
        beats_over(beats, beat);
    }
    set_next_overdue(beats);
    plan_round(beats);
}

static void on_round(struct read_ticket *ticket, enum err err)
{
    struct beats_round *round = CONTAINER_OF(ticket, struct beats_round, ticket);

    end_round(round->beats, err ? "leadership was not confirmed" : NULL);
}

static void start_round(struct timer *timer)
{
    struct beats *beats = CONTAINER_OF(timer, struct beats, round_due);
    struct beats_round *round = &beats->round;

    if (round->running || list_empty(&beats->gathered)) return;
    list_splice(&round->members, &beats->gathered);
    round->running = true;
    round->began = loop_now(beats->loop);
    round->ticket = (struct read_ticket){.done = on_round};
    beats->stats.rounds++;
    replica_read(beats->service->leader.replica, &round->ticket);
}

void beats_lost(struct beats *beats, const char *why)
{
    if (beats->round.running) {
        replica_read_cancel(beats->service->leader.replica, &beats->round.ticket);
        end_round(beats, why);
    }
    list_splice(&beats->round.members, &beats->gathered);
    end_round(beats, why);
}

/* -- passing to the leader -- */

static void end_pass(struct pass *pass, const Muster__V1__PassBeatsResponse *answer,
                     const char *why)
{
    struct beats *beats = pass->beats;
    struct list *node;
    size_t i = 0;

    while ((node = list_pop(&pass->members))) {
        struct beat_call *beat = CONTAINER_OF(node, struct beat_call, link);
        const Muster__V1__BeatAnswer *one =
            answer && i < answer->n_answers ? answer->answers[i] : NULL;

        i++;
        if (!one)
            beats_refuse(beats, beat, GRPC_UNAVAILABLE, why);
        else if (one->status != GRPC_OK)
            beats_refuse(beats, beat, (enum grpc_status)one->status, one->text);
        else
            beats_ack(beats, beat,
                      &(struct beat_ack){.incarnation = one->incarnation,
                                         .reset = one->reset,
                                         .has_drift = true,
                                         .drift_ms = one->drift_ms,
                                         .has_control = one->control.len > 0,
                                         .control = str_of(one->control.data, one->control.len)});
        beats_over(beats, beat);
    }
    beats->pass_count--;
    free(pass);
    set_next_overdue(beats);
}

static void on_passed(void *owner, const struct rpc_client_call *,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct pass *pass = owner;
    struct beats *beats = pass->beats;
    struct arena arena;
    ProtobufCMessage *read = NULL;
    const Muster__V1__PassBeatsResponse *answer;
    const char *leader = rpc_forwarder_leader(beats->service->leader.forwarder);

    arena_init(&arena, ANSWER_MAX * 4);
    if (outcome->err || message_read(&muster__v1__pass_beats_response__descriptor, message, NULL,
                                     &arena, &read, NULL)) {
        end_pass(pass, NULL, "the leader did not answer");
    } else {
        answer = (const Muster__V1__PassBeatsResponse *)read;
        beats_set_facts(beats, &(struct beats_facts){.coord_epoch = answer->coord_epoch,
                                                     .assignment_epoch = answer->assignment_epoch,
                                                     .next_beat_ms = answer->next_beat_ms,
                                                     .self_fence_ms = answer->self_fence_ms,
                                                     .leader = leader});
        end_pass(pass, answer, "the leader answered for fewer beats");
    }
    arena_deinit(&arena);
}

static struct pass *pass_new(struct beats *beats)
{
    struct pass *pass = calloc(1, sizeof *pass);
    struct pack pack = pack_begin(&beats->request);
    mono_time now = loop_now(beats->loop);

    if (!pass) return NULL;
    pass->beats = beats;
    list_init(&pass->members);
    while (pass->count < BEATS_PASS_MAX && !list_empty(&beats->outgoing)) {
        struct beat_call *beat = CONTAINER_OF(list_pop(&beats->outgoing), struct beat_call, link);
        struct pack row = pack_begin(&beats->row);

        beats->outgoing_count--;
        if (is_answered(beat)) {
            beats_over(beats, beat);
            continue;
        }
        row.err =
            beat_pass_write(&beat->said, (uint32_t)mono_elapsed_ms(beat->since, now), &beats->row);
        pack_row(&pack, 1, &row);
        list_append(&pass->members, &beat->link);
        pass->count++;
    }
    beats->pass_count++;
    return pass;
}

static void pass_on(struct timer *timer)
{
    struct beats *beats = CONTAINER_OF(timer, struct beats, pass_due);
    struct rpc_call_options options = {.path = "/muster.v1.Membership/PassBeats",
                                       .timeout_ms = beats->reply_max_ms,
                                       .idempotent = true,
                                       .wait_for_ready = true,
                                       .untraced = true};
    struct rpc_channel *leader = rpc_forwarder_channel(beats->service->leader.forwarder);
    struct pass *pass;
    enum err err;

    beats->passed_at = loop_now(beats->loop);
    while (!list_empty(&beats->outgoing)) {
        pass = beats->pass_count < PASSING_MAX ? pass_new(beats) : NULL;
        if (!pass) return; /* no memory: the heartbeats are answered when they are overdue */
        if (pass->count == 0) {
            end_pass(pass, NULL, "");
            continue;
        }
        beats->stats.batches++;
        err = leader ? rpc_unary(leader, &options, buf_peek(&beats->request), on_passed, pass, NULL)
                     : ERR_UNAVAILABLE;
        if (err) end_pass(pass, NULL, "no leader is known");
    }
}

/* Passes immediately if the last pass is long ago or many heartbeats wait. */
static void plan_pass(struct beats *beats)
{
    if (beats->outgoing_count >= BEATS_PASS_MAX)
        timer_start_in(&beats->pass_due, 0);
    else if (!timer_running(&beats->pass_due))
        timer_start(&beats->pass_due, mono_after(beats->passed_at, BEATS_GATHER_MS));
}

/* -- received heartbeats -- */

static bool has_room(struct beats *beats, struct rpc_call *call)
{
    if (beats->stats.waiting < WAITING_MAX) return true;
    beats->stats.refused++;
    rpc_finish(call, GRPC_RESOURCE_EXHAUSTED, STR("too many beats wait; try again"), STR_EMPTY);
    return false;
}

static void came(struct beats *beats, struct beat_call *beat)
{
    beat->since = loop_now(beats->loop);
    beat->at = clock_wall(beats->service->io->clock);
    list_append(&beats->ages, &beat->age);
    if (!timer_running(&beats->overdue)) set_next_overdue(beats);
}

static void beats_file(struct beats *beats, struct beat_call *beat)
{
    enum beats_way way;

    beats->stats.came++;
    way = beat_heard(beats->service, beat);
    if (way == BEATS_OVER) {
        beats_over(beats, beat);
    } else if (way == BEATS_ROUND) {
        list_append(&beats->gathered, &beat->link);
        plan_round(beats);
    }
}

static void file_outgoing(struct beats *beats, struct beat_call *beat)
{
    beats->stats.came++;
    beats->stats.passed++;
    list_append(&beats->outgoing, &beat->link);
    beats->outgoing_count++;
    plan_pass(beats);
}

static void take_metadata(struct beat_said *said, const struct rpc_call *call)
{
    struct str name, value;
    size_t cursor = 0;

    while (rpc_call_metadata_next(call, &cursor, &name, &value))
        if (name.len > 2 && name.at[0] == 'x' && name.at[1] == '-')
            beat_take_metadata(said, name, value);
}

static void on_beat(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                    struct str)
{
    struct beats *beats = service;
    struct note note = {""};
    struct beat_call *beat;
    enum err err;

    rpc_call_set_data(call, NULL);
    if (!has_room(beats, call)) return;
    beat = beat_new(beats);
    if (!beat) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    err = beat_read(message, &beat->said, &note);
    if (err) {
        beats->stats.refused++;
        rpc_finish(call, GRPC_INVALID_ARGUMENT, str_from(note.text), STR_EMPTY);
        beats_over(beats, beat);
        return;
    }
    take_metadata(&beat->said, call);
    if (!beat_admit(beats->service, call, &beat->said)) {
        beats->stats.refused++;
        beats_over(beats, beat);
        return;
    }
    beat->call = call;
    rpc_call_set_data(call, beat);
    came(beats, beat);
    if (beats->service->leader.led)
        beats_file(beats, beat);
    else
        file_outgoing(beats, beat);
}

static void on_beat_done(void *, struct rpc_call *call)
{
    struct beat_call *beat = rpc_call_data(call);

    if (!beat) return;
    beat->call = NULL;
    list_remove(&beat->age);
}

const struct rpc_handler beats_handler = {.on_message = on_beat, .on_done = on_beat_done};

/* -- received batches -- */

static struct beat_batch *batch_new(struct beats *beats, struct rpc_call *call, size_t count)
{
    struct beat_batch *batch = calloc(1, sizeof *batch + count * sizeof batch->answers[0]);

    if (!batch) return NULL;
    batch->beats = beats;
    batch->call = call;
    batch->count = (uint32_t)count;
    batch->left = (uint32_t)count + 1; /* plus 1 until all heartbeats of the batch are filed */
    buf_init(&batch->rows, ANSWER_MAX);
    rpc_call_set_data(call, batch);
    return batch;
}

static void file_passed(struct beat_batch *batch, uint32_t place, const ProtobufCMessage *message)
{
    struct beats *beats = batch->beats;
    struct beat_call *beat = beats->stats.waiting < WAITING_MAX ? beat_new(beats) : NULL;
    struct note note;
    uint32_t age;

    if (!beat) {
        batch_answer(batch, place, GRPC_RESOURCE_EXHAUSTED, STR("too many beats wait; try again"),
                     NULL);
        return;
    }
    if (beat_pass_read(message, &beat->said, &age, &note)) {
        batch_answer(batch, place, GRPC_INVALID_ARGUMENT, STR("not a beat"), NULL);
        beats_over(beats, beat);
        return;
    }
    beat->batch = batch;
    beat->place = place;
    /* The wait is measured from the arrival at this replica; the passing replica limits the whole
     * wait. */
    came(beats, beat);
    beats_file(beats, beat);
}

static void on_passed_beats(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                            struct str)
{
    struct beats *beats = service;
    const Muster__V1__PassBeatsRequest *m = (const void *)message;
    struct beat_batch *batch;

    rpc_call_set_data(call, NULL);
    if (!beats->service->leader.led) {
        rpc_finish(call, GRPC_UNAVAILABLE, STR("not the leader"), STR_EMPTY);
        return;
    }
    if (m->n_beats > (size_t)8 * BEATS_PASS_MAX) {
        rpc_finish(call, GRPC_INVALID_ARGUMENT, STR("too many beats in one call"), STR_EMPTY);
        return;
    }
    batch = batch_new(beats, call, m->n_beats);
    if (!batch) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    for (uint32_t i = 0; i < m->n_beats; i++) file_passed(batch, i, &m->beats[i]->base);
    batch_answered(batch);
}

static void on_passed_done(void *, struct rpc_call *call)
{
    struct beat_batch *batch = rpc_call_data(call);

    if (batch) batch->call = NULL;
}

const struct rpc_handler beats_pass_handler = {.on_message = on_passed_beats,
                                               .on_done = on_passed_done};

/* -- open and close -- */

void beats_set_facts(struct beats *beats, const struct beats_facts *facts)
{
    beats->facts = *facts;
    beats->facts.leader = beats->texts.leader;
    number_text(beats->texts.coord, facts->coord_epoch);
    number_text(beats->texts.assignment, facts->assignment_epoch);
    number_text(beats->texts.next, facts->next_beat_ms);
    number_text(beats->texts.fence, facts->self_fence_ms);
    snprintf(beats->texts.leader, sizeof beats->texts.leader, "%s", facts->leader);
}

enum err beats_open(struct beats *beats, struct member_service *service)
{
    uint64_t reply_max_ms = service->options.reply_max_ms;
    enum err err;

    beats->service = service;
    beats->loop = service->io->loop;
    beats->reply_max_ms = reply_max_ms ? reply_max_ms : REPLY_MAX_MS;
    beats->round.beats = beats;
    list_init(&beats->ages);
    list_init(&beats->gathered);
    list_init(&beats->round.members);
    list_init(&beats->outgoing);
    buf_init(&beats->request, ANSWER_MAX);
    buf_init(&beats->row, ANSWER_MAX);
    buf_init(&beats->answer, ANSWER_MAX);
    err = timer_init(&beats->overdue, beats->loop, on_overdue);
    if (!err) err = timer_init(&beats->round_due, beats->loop, start_round);
    return err ? err : timer_init(&beats->pass_due, beats->loop, pass_on);
}

void beats_stop(struct beats *beats)
{
    struct list *node;

    if (beats->round.running) end_round(beats, "this replica stops");
    while ((node = list_pop(&beats->gathered)))
        beats_over(beats, CONTAINER_OF(node, struct beat_call, link));
    while ((node = list_pop(&beats->outgoing)))
        beats_over(beats, CONTAINER_OF(node, struct beat_call, link));
}

void beats_close(struct beats *beats)
{
    assert(beats->stats.waiting == 0 && beats->pass_count == 0);
    timer_deinit(&beats->overdue);
    timer_deinit(&beats->round_due);
    timer_deinit(&beats->pass_due);
    buf_deinit(&beats->request);
    buf_deinit(&beats->row);
    buf_deinit(&beats->answer);
}
