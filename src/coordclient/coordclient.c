/* SPDX-License-Identifier: Apache-2.0 */
/* One round: ask the shard for its numbers -> send the report with the pending acks -> handle the
 * instructions in the answer one by one -> sleep. Rounds never overlap. */
#include "coordclient/coordclient.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordclient/instructions.h"
#include "wire/message.h"
#include "wire/pack.h"
#include "wire/pb/bigfleet_v1alpha1_coordinator.pb-c.h"

typedef Bigfleet__V1alpha1__ReportAck answer_message;
typedef Bigfleet__V1alpha1__CoordinatorInstruction instruction_message;

#define REPORT_PATH "/bigfleet.v1alpha1.Coordinator/ReportShard"
enum {
    TIMEOUT_MIN_MS = 5000,
    REPORT_MAX = 16 << 20,
    ANSWER_MAX = 4 << 20,
    ANSWER_ARENA_MAX = 64 << 20,
    REASON_CAP = 160,
    /* of ShardReport */
    FIELD_SHARD_ID = 1,
    FIELD_CYCLE = 2,
    FIELD_TIMESTAMP = 3,
    FIELD_EPOCH = 4,
    FIELD_ACKS = 7,
    FIELD_ADDRESS = 8,
    FIELD_PROCESS = 101,
    /* of InstructAck */
    FIELD_ACK_ID = 1,
    FIELD_ACK_OUTCOME = 2,
    FIELD_ACK_REASON = 3,
};
/* of InstructAck */
enum outcome {
    ACCEPTED = BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_ACCEPTED,
    REJECTED_STALE = BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_REJECTED_STALE,
    REJECTED_INVALID = BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_REJECTED_INVALID,
    FAILED = BIGFLEET__V1ALPHA1__INSTRUCT_ACK__OUTCOME__OUTCOME_FAILED,
};

struct coordclient {
    struct io *io;
    struct log_source log;
    struct rpc_channel *channel;
    struct shard_view view;
    char *shard_id, *advertise;
    uint64_t epoch, interval_ms, round;
    uint64_t process; /* random; distinguishes processes of the same shard */
    struct timer timer;
    struct instructions instructions;
    struct buf report, row;
    struct buf acks; /* for the next report, each encoded as its field 7 */
    size_t ack_count;
    size_t acks_sent; /* bytes of `acks` in the present report */
    struct arena arena;
    const answer_message *answer;
    size_t next; /* next instruction in the answer */
    struct coordclient_stats stats;
    struct counter *reports, *failures, *carried_out;
    bool round_runs, channel_gone, closing;
    bool taking; /* take_next is running */
    bool waits;  /* the shard has not answered yet */
    void (*closed)(void *owner);
    void *closed_owner;
};

static void end_round(struct coordclient *c);

/* -- closing: a running round ends first -- */

static void set_free(struct coordclient *c)
{
    void (*closed)(void *) = c->closed;
    void *closed_owner = c->closed_owner;

    timer_deinit(&c->timer);
    instructions_deinit(&c->instructions);
    buf_deinit(&c->report);
    buf_deinit(&c->row);
    buf_deinit(&c->acks);
    arena_deinit(&c->arena);
    free(c->shard_id);
    free(c->advertise);
    free(c);
    if (closed) closed(closed_owner);
}

static void channel_closed(void *owner)
{
    struct coordclient *c = owner;

    c->channel_gone = true;
    if (!c->round_runs) set_free(c);
}

void coordclient_close(struct coordclient *client, void (*done)(void *owner), void *owner)
{
    if (!client) {
        if (done) done(owner);
        return;
    }
    client->closing = true;
    client->closed = done;
    client->closed_owner = owner;
    timer_stop(&client->timer);
    rpc_channel_close(client->channel, channel_closed, client);
}

/* -- acks -- */

static void ack(struct coordclient *c, struct str id, enum outcome outcome, struct str reason)
{
    struct pack row = pack_begin(&c->row), acks = {&c->acks, ERR_OK};

    /* Without room, the ack is sent when the coordinator repeats the instruction. */
    if (c->ack_count == COORDCLIENT_ACKS_MAX) return;
    pack_text(&row, FIELD_ACK_ID, id);
    pack_u64(&row, FIELD_ACK_OUTCOME, outcome);
    pack_text(&row, FIELD_ACK_REASON, reason);
    pack_row(&acks, FIELD_ACKS, &row);
    if (!acks.err) c->ack_count++;
}

/* -- instructions -- */

static void take_next(struct coordclient *c);

static struct str coordclient_id_of(const struct coordclient *c)
{
    return str_from(c->answer->instructions[c->next]->instruction_id);
}

static void on_carried_out(void *context, enum err err, struct str why)
{
    struct coordclient *c = context;
    struct str id = coordclient_id_of(c);

    if (!why.len) why = str_from(err_text(err));
    if (err == ERR_BUSY) { /* the coordinator repeats the instruction, possibly for hours */
        LOG_DEBUG(&c->log, "instruction deferred", log_str("instruction", id), log_str("why", why));
        ack(c, id, FAILED, why);
    } else if (err) {
        LOG_WARN(&c->log, "instruction failed", log_str("instruction", id), log_err("err", err),
                 log_str("why", why));
        ack(c, id, FAILED, why);
    } else {
        LOG_INFO(&c->log, "instruction carried out", log_str("instruction", id));
        instructions_done(&c->instructions, id);
        c->stats.instructions++;
        if (c->carried_out) counter_inc(c->carried_out);
        ack(c, id, ACCEPTED, STR_EMPTY);
    }
    c->waits = false;
    c->next++;
    if (!c->taking) take_next(c);
}

static void refuse(struct coordclient *c, enum outcome outcome, const char *reason)
{
    LOG_WARN(&c->log, "instruction refused", log_str("instruction", coordclient_id_of(c)),
             log_text("reason", reason));
    ack(c, coordclient_id_of(c), outcome, str_from(reason));
}

/* Returns false if the instruction is rejected. */
static bool carry_out(struct coordclient *c, const instruction_message *it)
{
    switch ((int)it->payload_case) {
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_ASSIGN_DOMAIN:
        c->waits = true;
        c->view.assign(c->view.shard, str_from(it->assign_domain->topology_key),
                       str_from(it->assign_domain->topology_value), true, on_carried_out, c);
        return true;
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_UNASSIGN_DOMAIN:
        c->waits = true;
        c->view.assign(c->view.shard, str_from(it->unassign_domain->topology_key),
                       str_from(it->unassign_domain->topology_value), false, on_carried_out, c);
        return true;
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_REASSIGN_SPECULATIVE:
        refuse(c, REJECTED_INVALID, "ReassignSpeculative is not implemented by this shard");
        return false;
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_CROSS_SHARD_DRAIN:
        refuse(c, REJECTED_INVALID, "CrossShardDrain is not implemented by this shard");
        return false;
    case BIGFLEET__V1ALPHA1__COORDINATOR_INSTRUCTION__PAYLOAD_TRANSFER_OWNERSHIP:
        refuse(c, REJECTED_INVALID, "TransferOwnership is not implemented by this shard");
        return false;
    default: refuse(c, REJECTED_INVALID, "unknown payload"); return false;
    }
}

static void take_next(struct coordclient *c)
{
    char reason[REASON_CAP];

    c->taking = true;
    while (!c->closing && !c->waits && c->next < c->answer->n_instructions) {
        const instruction_message *it = c->answer->instructions[c->next];
        int64_t mark = c->instructions.term;
        bool given = false;

        switch (instructions_judge(&c->instructions, coordclient_id_of(c), it->coordinator_term)) {
        case INSTRUCTION_IGNORE:
            LOG_WARN(&c->log, "ignored an instruction without a valid id");
            break;
        case INSTRUCTION_DUPLICATE:
            ack(c, coordclient_id_of(c), ACCEPTED, STR("duplicate-redelivery"));
            break;
        case INSTRUCTION_STALE:
            snprintf(reason, sizeof reason, "term %" PRId64 " is below %" PRId64,
                     it->coordinator_term, mark);
            refuse(c, REJECTED_STALE, reason);
            break;
        case INSTRUCTION_TAKE:
            c->view.term(c->view.shard, c->instructions.term);
            given = carry_out(c, it);
            break;
        }
        if (!given) c->next++;
    }
    c->taking = false;
    if (!c->waits) end_round(c);
}

/* -- the report -- */

static bool read_answer(struct coordclient *c, struct str bytes)
{
    struct note note = {""};
    ProtobufCMessage *message;

    if (message_read(&bigfleet__v1alpha1__report_ack__descriptor, bytes, NULL, &c->arena, &message,
                     &note)) {
        LOG_WARN(&c->log, "ReportShard: the response cannot be decoded",
                 log_text("why", note.text));
        return false;
    }
    c->answer = (const answer_message *)message;
    /* A response without a term is not stale: each instruction has its own term. */
    if (c->answer->coordinator_term <= 0) return true;
    if (!instructions_hear(&c->instructions, c->answer->coordinator_term)) {
        LOG_WARN(&c->log, "ReportShard: ignored the response of a coordinator with an older term",
                 log_i64("term", c->answer->coordinator_term),
                 log_i64("heard", c->instructions.term));
        return false;
    }
    c->view.term(c->view.shard, c->instructions.term);
    return true;
}

static void count_failure(struct coordclient *c)
{
    c->stats.failures++;
    if (c->failures) counter_inc(c->failures);
}

static void on_answer(void *owner, const struct rpc_client_call *call,
                      const struct rpc_outcome *outcome, struct str message)
{
    struct coordclient *c = owner;
    struct str leader;

    if (outcome->err) {
        count_failure(c);
        if (!c->closing) {
            LOG_WARN(&c->log, "ReportShard failed", log_err("err", outcome->err),
                     log_str("why", outcome->text));
            if (outcome->status == GRPC_FAILED_PRECONDITION &&
                !rpc_call_trailer(call, STR(RPC_LEADER_TRAILER), &leader))
                rpc_channel_next_address(c->channel);
        }
        end_round(c);
        return;
    }
    c->stats.reports++;
    if (c->reports) counter_inc(c->reports);
    buf_consume(&c->acks, c->acks_sent); /* acks added since the report stay */
    c->ack_count = 0;
    if (!c->closing && read_answer(c, message))
        take_next(c);
    else
        end_round(c);
}

static enum err send_report(struct coordclient *c, struct str fields)
{
    struct pack pack = pack_begin(&c->report);
    struct rpc_call_options call = {
        .path = REPORT_PATH,
        .timeout_ms = c->interval_ms > TIMEOUT_MIN_MS ? c->interval_ms : TIMEOUT_MIN_MS,
        .idempotent = true,
        .response_max = ANSWER_MAX,
    };

    pack_text(&pack, FIELD_SHARD_ID, str_from(c->shard_id));
    pack_u64(&pack, FIELD_CYCLE, ++c->round);
    pack_u64(&pack, FIELD_TIMESTAMP, clock_wall(c->io->clock).ms * NS_PER_MS);
    pack_u64(&pack, FIELD_EPOCH, c->epoch);
    if (!pack.err) pack.err = buf_append(&c->report, fields);
    if (!pack.err) pack.err = buf_append(&c->report, buf_peek(&c->acks));
    pack_text(&pack, FIELD_ADDRESS, str_from(c->advertise));
    pack_u64(&pack, FIELD_PROCESS, c->process);
    c->acks_sent = c->acks.len;
    if (pack.err) return pack.err;
    return rpc_unary(c->channel, &call, buf_peek(&c->report), on_answer, c, NULL);
}

static void on_fields(void *context, enum err err, struct str fields)
{
    struct coordclient *c = context;

    if (c->closing) err = ERR_CANCELLED;
    if (!err) err = send_report(c, fields);
    if (!err) return;
    if (!c->closing) {
        count_failure(c);
        LOG_WARN(&c->log, "ReportShard failed", log_err("err", err));
    }
    end_round(c);
}

static void begin_round(struct timer *timer)
{
    struct coordclient *c = CONTAINER_OF(timer, struct coordclient, timer);

    c->round_runs = true;
    c->view.report(c->view.shard, on_fields, c);
}

static void end_round(struct coordclient *c)
{
    arena_reset(&c->arena);
    c->answer = NULL;
    c->next = 0;
    c->round_runs = false;
    c->stats.term = c->instructions.term;
    if (!c->closing)
        timer_start_in(&c->timer, c->interval_ms);
    else if (c->channel_gone)
        set_free(c);
}

struct coordclient_stats coordclient_stats(const struct coordclient *client)
{
    return client->stats;
}

static enum err add_metrics(struct coordclient *c, struct metrics *metrics, struct note *note)
{
    enum err err;

    if (!metrics) return ERR_OK;
    err = metrics_add_counter(metrics, "muster_shard_reports_total",
                              "Reports accepted by a coordinator.", &c->reports, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_shard_report_failures_total",
                                  "Reports that no coordinator accepted.", &c->failures, note);
    if (!err)
        err = metrics_add_counter(metrics, "muster_shard_instructions_total",
                                  "Instructions of the coordinator that the shard executed.",
                                  &c->carried_out, note);
    return err;
}

enum err coordclient_open(const struct coordclient_options *options,
                          struct coordclient **ret_client, struct note *note)
{
    struct coordclient *c = calloc(1, sizeof *c);
    struct rpc_channel_options channel = {
        .io = options->io,
        .addresses = options->addresses,
        .tls = options->tls,
        .follow_leader = true,
        .metrics = options->rpc_metrics,
    };
    enum err err;

    if (!c) return ERR_NOMEM;
    c->io = options->io;
    if (options->log) c->log = *options->log;
    c->view = options->view;
    c->epoch = options->epoch;
    c->process = entropy_u64(c->io->entropy);
    c->interval_ms = options->interval_ms ? options->interval_ms : COORDCLIENT_INTERVAL_MS;
    buf_init(&c->report, REPORT_MAX);
    buf_init(&c->row, REPORT_MAX);
    buf_init(&c->acks, REPORT_MAX / 2);
    arena_init(&c->arena, ANSWER_ARENA_MAX);
    c->shard_id = strdup(options->shard_id);
    c->advertise = strdup(options->advertise);
    err = c->shard_id && c->advertise ? ERR_OK : ERR_NOMEM;
    if (!err) err = instructions_init(&c->instructions, entropy_u64(c->io->entropy));
    if (!err) err = add_metrics(c, options->metrics, note);
    if (!err) err = timer_init(&c->timer, c->io->loop, begin_round);
    if (!err) err = rpc_channel_open(&channel, &c->channel, note);
    if (err) {
        set_free(c);
        return err;
    }
    timer_start_in(&c->timer, 0);
    *ret_client = c;
    return ERR_OK;
}
