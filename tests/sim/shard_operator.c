/* SPDX-License-Identifier: Apache-2.0 */
/* An operator's process: says Hello, rolls its demand up, answers requests for blobs, hangs up and
 * comes back. What it wants is in the story and outlives it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/client.h"
#include "shard_story.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_shard.pb-c.h"

enum {
    BYTES_MAX = 1 << 20,
    SAY_MS_MIN = 2000,
    SAY_MS_MAX = 8000,
    DIAL_MS_MAX = 2000,
    BLOB_MS_MAX = 1500,
    HELLO_MS_MAX = 5000, /* until it is acknowledged */
    /* of OperatorMessage */
    FIELD_HELLO = 1,
    FIELD_ROLLUP = 2,
    FIELD_BLOB = 3,
    FIELD_RECLAIM_ACK = 4,
    FIELD_DRAIN_REPORT = 100,
    DRAIN_MS_MAX = 2000,
    HELD_SLACK_MS = 10 * 1000,
    /* of CapacityNeed */
    FIELD_REQUIREMENTS = 1,
    FIELD_AGGREGATE = 2,
    FIELD_PRIORITY = 3,
    FIELD_INTERRUPTION = 6,
    FIELD_RECLAMATION = 7,
    FIELD_MIN_UNIT = 8,
    OPERATOR_IN = 1,
};
#define TYPE_KEY "node.kubernetes.io/instance-type"

struct drain_answer { /* one that waits for its time */
    struct list link;
    struct shard_operator_process *process;
    struct timer timer;
    uint32_t machine;
    char instruction[64];
};

struct shard_operator_process {
    struct shard_operator *op;
    struct io *io;
    struct rpc_channel *channel;
    struct rpc_client_call *call; /* NULL: none */
    struct timer say, dial;
    struct list answers; /* struct blob_answer */
    struct list drains;  /* struct drain_answer */
    struct buf frame, message, row, part;
    bool greeted, dead;
    uint32_t epoch;
    uint32_t first_saying, acks; /* of this session */
};
struct blob_answer { /* one that waits for its time */
    struct list link;
    struct shard_operator_process *process;
    struct timer timer;
    bool again;
    char request[64];
};

static uint64_t draw(const struct shard_operator_process *p, uint64_t bound)
{
    return entropy_u64(p->io->entropy) % bound;
}

static bool chance(const struct shard_operator_process *p, uint32_t per_million)
{
    return draw(p, 1000000) < per_million;
}

/* -- what it says -- */

static void send_frame(struct shard_operator_process *p, uint32_t field)
{
    struct pack frame = pack_begin(&p->frame);

    pack_bytes(&frame, field, buf_peek(&p->message));
    if (p->call) (void)rpc_call_send(p->call, buf_peek(&p->frame));
}

static void pack_cpu(struct pack *into, uint32_t field, uint64_t milli, struct buf *scratch)
{
    struct pack entry = pack_begin(scratch);
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRIu64 "m", milli);
    pack_text(&entry, 1, STR("cpu"));
    pack_text(&entry, 2, str_from(text));
    pack_row(into, field, &entry);
}

static void pack_need(struct shard_operator_process *p, const struct shard_need *need,
                      struct pack *message)
{
    const struct shard_kind *kind = &shard_kinds[need->kind];
    struct pack row = pack_begin(&p->row), part = pack_begin(&p->part);

    pack_text(&part, 1, STR(TYPE_KEY));
    pack_u64(&part, 2, OPERATOR_IN);
    for (size_t i = 0; i < 2; i++)
        if (kind->types[i]) pack_text(&part, 3, str_from(kind->types[i]));
    pack_row(&row, FIELD_REQUIREMENTS, &part);
    pack_cpu(&row, FIELD_AGGREGATE, (uint64_t)need->units * kind->cpu * 1000 - need->spare_milli,
             &p->part);
    pack_i64(&row, FIELD_PRIORITY, need->priority);
    pack_u64(&row, FIELD_INTERRUPTION, need->interruption);
    pack_u64(&row, FIELD_RECLAMATION, need->reclamation);
    pack_cpu(&row, FIELD_MIN_UNIT, 1000, &p->part);
    pack_row(message, 3, &row);
}

/* Some machines are empty, some could be emptied, some not; in the end all are empty, so that what
 * nobody wants goes. */
static void pack_occupancy(struct shard_operator_process *p, uint32_t number, struct pack *message)
{
    struct shard_operator *op = p->op;
    uint32_t kind = op->story->healed ? 0 : (number + op->number) % 5;
    struct pack row = pack_begin(&p->row);

    pack_text(&row, 1, str_from(op->story->book.machines[number].id));
    pack_u64(&row, 2, kind == 1 || kind == 2 ? 2 : 0);
    pack_u64(&row, 3, kind == 4);
    pack_double(&row, 4, kind);
    pack_cpu(&row, 5, kind == 2 ? 500 : 2000, &p->part);
    if (kind == 1 || kind == 2) {
        pack_cpu(&row, 6, 2000, &p->part);
        pack_cpu(&row, 7, 1000, &p->part);
    }
    pack_row(message, 100, &row);
    op->said_held[number] = kind == 4;
    if (kind != 4) op->held_ms[number] = 0;
}

static void say_demand(struct shard_operator_process *p)
{
    struct shard_operator *op = p->op;
    struct pack message = pack_begin(&p->message);
    struct shard_saying *saying = &op->sayings[op->saying_count];

    if (op->saying_count == SHARD_SAYINGS_MAX) {
        shard_wrong(op->story, "%s has said more than the world can remember", op->cluster);
        return;
    }
    *saying = (struct shard_saying){.sent_ms = shard_now_ms(op->story), .epoch = p->epoch};
    pack_text(&message, 1, str_from(op->cluster));
    pack_u64(&message, 2, saying->sent_ms * NS_PER_MS + 1);
    for (uint32_t i = 0; i < op->need_count; i++) {
        saying->units[i] = op->needs[i].units;
        if (op->needs[i].units) pack_need(p, &op->needs[i], &message);
    }
    for (uint32_t i = 0; op->story->talk.reports_occupancy && i < op->story->book.count; i++)
        if (op->heard_states[i] == STATE_CONFIGURED) pack_occupancy(p, i, &message);
    if (op->story->talk.reports_occupancy) pack_u64(&message, 101, p->acks == 0);
    op->saying_count++;
    sim_trace(scenario_sim(op->story->world), op->host,
              "says to %" PRIu32 ": %" PRIu32 " %" PRIu32 " %" PRIu32, p->epoch, saying->units[0],
              saying->units[1], saying->units[2]);
    send_frame(p, FIELD_ROLLUP);
}

static void on_say(struct timer *timer)
{
    struct shard_operator_process *p = CONTAINER_OF(timer, struct shard_operator_process, say);

    if (!p->call) return;
    if (!p->greeted || chance(p, p->op->story->talk.hang_up)) {
        rpc_call_cancel(p->call);
        return;
    }
    say_demand(p);
    timer_start_in(&p->say, SAY_MS_MIN + draw(p, SAY_MS_MAX - SAY_MS_MIN));
}

static uint64_t trouble_between(const struct sim_host *one, const struct sim_host *other)
{
    struct sim_link_stats to = sim_link_stats(one, other), from = sim_link_stats(other, one);

    return to.lost + to.blocked + to.clogged + from.lost + from.blocked + from.clogged;
}

void shard_operator_look(struct shard_operator *op)
{
    uint64_t trouble = 0;

    for (size_t i = 0; i < SHARD_HOSTS; i++)
        trouble += trouble_between(op->host, op->story->hosts[i].host);
    if (trouble != op->trouble_on_links) op->cut_ms = shard_now_ms(op->story);
    op->trouble_on_links = trouble;
}

void shard_operator_changed(struct shard_operator *op)
{
    struct shard_operator_process *p = op->process;

    if (p && !p->dead && p->greeted) timer_start_in(&p->say, draw(p, 200));
}

/* -- blobs -- */

static void blob_answer_free(struct blob_answer *a)
{
    list_remove(&a->link);
    timer_deinit(&a->timer);
    free(a);
}

static void send_blob(struct blob_answer *a)
{
    struct shard_operator_process *p = a->process;
    struct shard_story *story = p->op->story;
    struct pack message = pack_begin(&p->message);
    char text[32];

    if (story->blob_count == SHARD_BLOBS_MAX) {
        shard_wrong(story, "more blobs than the world can remember");
        return;
    }
    pack_text(&message, 1, str_from(a->request));
    if (chance(p, story->talk.blob_error)) {
        pack_text(&message, 4, STR("no blob today"));
    } else {
        (void)snprintf(text, sizeof text, "blob %s %" PRIu32, p->op->cluster, story->blob_count);
        story->blobs[story->blob_count++] = (struct shard_blob){.cluster = p->op->number};
        pack_text(&message, 2, str_from(text));
        pack_u64(&message, 3, 3600);
    }
    send_frame(p, FIELD_BLOB);
}

static void on_blob_time(struct timer *timer)
{
    struct blob_answer *a = CONTAINER_OF(timer, struct blob_answer, timer);

    send_blob(a);
    if (a->again) {
        a->again = false;
        timer_start_in(&a->timer, draw(a->process, BLOB_MS_MAX));
        return;
    }
    blob_answer_free(a);
}

static void on_bootstrap(struct shard_operator_process *p,
                         const Bigfleet__V1alpha1__BootstrapRequest *request)
{
    struct blob_answer *a;

    if (strcmp(request->cluster_id, p->op->cluster) != 0)
        shard_wrong(p->op->story, "%s was asked for a blob of %s", p->op->cluster,
                    request->cluster_id);
    p->op->asked_ms[p->op->asked++ % SHARD_ASKED_KEPT] = shard_now_ms(p->op->story);
    if (chance(p, p->op->story->talk.blob_never)) return;
    a = calloc(1, sizeof *a);
    if (!a || timer_init(&a->timer, p->io->loop, on_blob_time)) {
        free(a);
        return;
    }
    a->process = p;
    a->again = chance(p, p->op->story->talk.blob_twice);
    (void)snprintf(a->request, sizeof a->request, "%s", request->request_id);
    list_init(&a->link);
    list_append(&p->answers, &a->link);
    timer_start_in(&a->timer, draw(p, BLOB_MS_MAX));
}

/* -- what it hears -- */

/* So many acknowledgements, so many roll-ups of this session are known at least: one that a newer
 * one overtook is not acknowledged. */
static void on_ack(struct shard_operator_process *p, const Bigfleet__V1alpha1__Acknowledgement *ack)
{
    struct shard_operator *op = p->op;
    uint32_t index;

    p->epoch = (uint32_t)ack->shard_epoch;
    if (strcmp(ack->echo, "hello") == 0) {
        p->greeted = true;
        p->first_saying = op->saying_count;
        p->acks = 0;
        memset(op->heard_states, 0, sizeof op->heard_states);
        memset(op->said_held, 0, sizeof op->said_held);
        memset(op->held_ms, 0, sizeof op->held_ms);
        timer_start_in(&p->say, draw(p, 300));
        return;
    }
    index = p->first_saying + p->acks++;
    if (index >= op->saying_count) {
        shard_wrong(op->story, "%s: a roll-up was acknowledged that was not sent", op->cluster);
        return;
    }
    if (p->epoch == op->story->epoch) op->sayings[index].acked_ms = shard_now_ms(op->story);
    if (p->acks < 2) return; /* the first one names no machine: occupancy is pending */
    for (uint32_t i = 0; i < op->story->book.count; i++)
        if (op->said_held[i] && !op->held_ms[i]) op->held_ms[i] = shard_now_ms(op->story);
}

static void on_node_state(struct shard_operator_process *p,
                          const Bigfleet__V1alpha1__NodeStateUpdate *update)
{
    uint32_t number;

    if (sscanf(update->machine_id, "m-%" SCNu32, &number) != 1 ||
        number >= p->op->story->book.count) {
        shard_wrong(p->op->story, "an update of %s, which does not exist", update->machine_id);
        return;
    }
    if (p->op->story->bug == SHARD_DEAF_OPERATOR && number % 5 == 1) return;
    p->op->heard_states[number] = (uint8_t)update->state;
    if (p->op->heard_states[number] != STATE_CONFIGURED) {
        p->op->said_held[number] = false;
        p->op->held_ms[number] = 0;
    }
}

static void drain_answer_free(struct drain_answer *a)
{
    list_remove(&a->link);
    timer_deinit(&a->timer);
    free(a);
}

static void on_drain_time(struct timer *timer)
{
    struct drain_answer *a = CONTAINER_OF(timer, struct drain_answer, timer);
    struct shard_operator_process *p = a->process;
    struct pack message = pack_begin(&p->message);

    pack_text(&message, 1, str_from(a->instruction));
    pack_text(&message, 2, str_from(p->op->story->book.machines[a->machine].id));
    pack_u64(&message, 3, 1);
    p->op->reclaims[a->machine].drained = true;
    send_frame(p, FIELD_DRAIN_REPORT);
    drain_answer_free(a);
}

/* What is lost with the session, the shard sends again. */
static void drain_later(struct shard_operator_process *p,
                        const Bigfleet__V1alpha1__ReclaimInstruction *instruction)
{
    struct drain_answer *a;
    uint32_t number;

    if (!p->op->story->talk.reports_drains || instruction->n_nodes != 1 ||
        sscanf(instruction->nodes[0], "m-%" SCNu32, &number) != 1 ||
        number >= p->op->story->book.count)
        return;
    p->op->reclaims[number] = (struct shard_reclaim){
        .sent_ms = shard_now_ms(p->op->story),
        .grace_ms = (uint64_t)instruction->grace_period_seconds * MS_PER_SECOND,
        .epoch = p->epoch};
    a = calloc(1, sizeof *a);
    if (!a || timer_init(&a->timer, p->io->loop, on_drain_time)) {
        free(a);
        return;
    }
    a->process = p;
    a->machine = number;
    (void)snprintf(a->instruction, sizeof a->instruction, "%s", instruction->instruction_id);
    list_init(&a->link);
    list_append(&p->drains, &a->link);
    timer_start_in(&a->timer, draw(p, DRAIN_MS_MAX));
}

/* A machine with something that may not be evicted is only preempted. What was queued before the
 * shard knew may still come for a while. */
static void judge_reclaim(struct shard_operator *op,
                          const Bigfleet__V1alpha1__ReclaimInstruction *instruction)
{
    uint64_t since;
    uint32_t number;

    if (instruction->preemptor_priority || instruction->n_nodes != 1 ||
        sscanf(instruction->nodes[0], "m-%" SCNu32, &number) != 1 ||
        number >= op->story->book.count)
        return;
    since = op->held_ms[number];
    if (since && shard_now_ms(op->story) > since + HELD_SLACK_MS)
        shard_wrong(op->story, "%s: %s is taken back though its pods may not be evicted",
                    op->cluster, instruction->nodes[0]);
}

static void on_reclaim(struct shard_operator_process *p,
                       const Bigfleet__V1alpha1__ReclaimInstruction *instruction)
{
    struct pack message = pack_begin(&p->message);

    judge_reclaim(p->op, instruction);
    pack_text(&message, 1, str_from(instruction->instruction_id));
    pack_u64(&message, 2, instruction->n_nodes);
    send_frame(p, FIELD_RECLAIM_ACK);
    drain_later(p, instruction);
}

static void on_message(void *owner, struct rpc_client_call *call, struct str bytes)
{
    struct shard_operator_process *p = owner;
    Bigfleet__V1alpha1__ShardMessage *m =
        bigfleet__v1alpha1__shard_message__unpack(NULL, bytes.len, (const uint8_t *)bytes.at);

    (void)call;
    if (!m) {
        shard_wrong(p->op->story, "%s was sent a frame that cannot be read", p->op->cluster);
        return;
    }
    switch (m->payload_case) {
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_ACK: on_ack(p, m->ack); break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_BOOTSTRAP_REQUEST:
        on_bootstrap(p, m->bootstrap_request);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_RECLAIM_INSTRUCTION:
        on_reclaim(p, m->reclaim_instruction);
        break;
    case BIGFLEET__V1ALPHA1__SHARD_MESSAGE__PAYLOAD_NODE_STATE_UPDATE:
        on_node_state(p, m->node_state_update);
        break;
    default: break;
    }
    bigfleet__v1alpha1__shard_message__free_unpacked(m, NULL);
}

/* -- sessions -- */

static void drop_answers(struct shard_operator_process *p)
{
    LIST_EACH_SAFE(&p->answers, node, next)
    {
        blob_answer_free(CONTAINER_OF(node, struct blob_answer, link));
    }
    LIST_EACH_SAFE(&p->drains, node, next)
    {
        drain_answer_free(CONTAINER_OF(node, struct drain_answer, link));
    }
}

static void on_end(void *owner, struct rpc_client_call *call, const struct rpc_outcome *outcome)
{
    struct shard_operator_process *p = owner;

    (void)call;
    (void)outcome;
    p->call = NULL;
    /* A newer process of the shard has not asked for anything yet. */
    if (p->greeted && p->epoch == p->op->story->epoch) p->op->cut_ms = shard_now_ms(p->op->story);
    p->greeted = false;
    if (p->dead) return;
    timer_stop(&p->say);
    drop_answers(p);
    rpc_channel_next_address(p->channel);
    timer_start_in(&p->dial, draw(p, DIAL_MS_MAX));
}

static void on_dial(struct timer *timer)
{
    static const struct rpc_call_events events = {.on_message = on_message, .on_end = on_end};
    struct shard_operator_process *p = CONTAINER_OF(timer, struct shard_operator_process, dial);
    struct rpc_call_options options = {.path = "/bigfleet.v1alpha1.Shard/Session",
                                       .attempts_max = 1};
    struct pack message = pack_begin(&p->message);

    if (rpc_call_start(p->channel, &options, &events, p, &p->call)) {
        p->call = NULL;
        timer_start_in(&p->dial, DIAL_MS_MAX);
        return;
    }
    pack_text(&message, 1, str_from(p->op->cluster));
    pack_text(&message, 3, STR("v1alpha1"));
    pack_u64(&message, 100, p->op->story->talk.reports_drains);
    pack_u64(&message, 101, p->op->story->talk.reports_occupancy);
    send_frame(p, FIELD_HELLO);
    timer_start_in(&p->say, HELLO_MS_MAX);
}

/* -- life -- */

static void on_channel_closed(void *owner)
{
    struct shard_operator_process *p = owner;

    drop_answers(p);
    timer_deinit(&p->say);
    timer_deinit(&p->dial);
    buf_deinit(&p->frame);
    buf_deinit(&p->message);
    buf_deinit(&p->row);
    buf_deinit(&p->part);
    free(p);
}

static void destroy(void *state)
{
    struct shard_operator_process *p = state;

    p->dead = true;
    if (p->op->process == p) p->op->process = NULL;
    rpc_channel_close(p->channel, on_channel_closed, p);
}

static enum err start(struct io *io, void *context, void **ret_state)
{
    struct shard_operator *op = context;
    struct shard_operator_process *p = calloc(1, sizeof *p);
    struct rpc_channel_options options = {
        .io = io, .addresses = shard_addresses, .backoff_max_ms = 1000};
    enum err err;

    if (!p) return ERR_NOMEM;
    p->op = op;
    p->io = io;
    list_init(&p->answers);
    list_init(&p->drains);
    buf_init(&p->frame, BYTES_MAX);
    buf_init(&p->message, BYTES_MAX);
    buf_init(&p->row, BYTES_MAX);
    buf_init(&p->part, BYTES_MAX);
    err = timer_init(&p->say, io->loop, on_say);
    if (!err) err = timer_init(&p->dial, io->loop, on_dial);
    if (!err) err = rpc_channel_open(&options, &p->channel, NULL);
    if (err) {
        on_channel_closed(p);
        return err;
    }
    op->process = p;
    *ret_state = p;
    timer_start_in(&p->dial, 0);
    return ERR_OK;
}

const struct sim_process_ops shard_operator_ops = {start, NULL, destroy};
