/* SPDX-License-Identifier: Apache-2.0 */
/* ShardView/Machine: a question becomes a job, which writes down what the core knows of the
 * machine; the loop adds what was done with it lately. */
#include <stdlib.h>

#include "shard/shard_internal.h"
#include "wire/pack.h"
#include "wire/pb/muster_v1_shard.pb-c.h"

enum {
    ANSWER_BYTES_MAX = 1 << 20,
    /* of ShardMachineResponse */
    FIELD_SHARD = 1,
    FIELD_CYCLE,
    FIELD_ID,
    FIELD_STATE,
    FIELD_PLANNED,
    FIELD_PENDING,
    FIELD_CLUSTER,
    FIELD_DESTINATION,
    FIELD_TYPE,
    FIELD_ZONE,
    FIELD_CAPACITY,
    FIELD_PRICE,
    FIELD_INTERRUPTION,
    FIELD_ERROR,
    FIELD_FINGERPRINT,
    FIELD_PRIORITY,
    FIELD_PROMISED,
    FIELD_IDLE,
    FIELD_RESTING,
    FIELD_REFUSALS,
    FIELD_ASKED,
    FIELD_LEFT,
    FIELD_AUDIT,
    FIELD_OPERATOR_DRAINS,
    FIELD_OPERATOR_AWAY,
    FIELD_OPERATOR_LEFT,
    FIELD_OUTSIDE,
};

struct machine_question {
    struct decide_job job;
    struct shard *shard;
    struct rpc_call *call; /* NULL: nobody waits any more */
    bool job_over;
    struct buf answer;
    struct pack pack;
    enum err err;
    size_t id_len;
    char id[];
};

static struct str id_of(const struct machine_question *q)
{
    return str_of(q->id, q->id_len);
}

static void question_free(struct machine_question *q)
{
    buf_deinit(&q->answer);
    free(q);
}

/* -- on the decide thread -- */

static void pack_rest(struct pack *pack, const struct machine_facts *facts)
{
    static const char *const why[] = {
        [RESTING_REFUSED] = "refused", [RESTING_DOUBT] = "doubt", [RESTING_FAILED] = "failed"};

    if (!facts->rests) return;
    pack_text(pack, FIELD_RESTING, str_from(why[facts->rest.why]));
    pack_u64(pack, FIELD_REFUSALS, facts->rest.refusals);
    pack_u64(pack, FIELD_ASKED, facts->rest.asked);
    pack_u64(pack, FIELD_LEFT, facts->rest.left_ms);
}

static void pack_facts(struct pack *pack, const struct machine_facts *facts, mono_time now)
{
    const struct machine *m = &facts->machine;
    char name[MACHINE_NAME_CAP];

    pack_text(pack, FIELD_ID, m->id);
    pack_text(pack, FIELD_STATE, str_from(machine_state_name(m->state, name)));
    if (facts->planned_state != m->state)
        pack_text(pack, FIELD_PLANNED, str_from(machine_state_name(facts->planned_state, name)));
    pack_u64(pack, FIELD_PENDING, facts->pending);
    pack_text(pack, FIELD_CLUSTER, m->cluster);
    pack_text(pack, FIELD_DESTINATION, m->destination);
    pack_text(pack, FIELD_TYPE, m->attributes.instance_type);
    pack_text(pack, FIELD_ZONE, m->attributes.zone);
    pack_text(pack, FIELD_CAPACITY, str_from(capacity_type_name(m->capacity_type, name)));
    pack_double(pack, FIELD_PRICE, m->price_per_hour);
    pack_double(pack, FIELD_INTERRUPTION, m->interruption_probability);
    pack_text(pack, FIELD_ERROR, m->last_error);
    pack_text(pack, FIELD_FINGERPRINT, m->stamp.fingerprint);
    pack_i64(pack, FIELD_PRIORITY, m->stamp.priority);
    pack_text(pack, FIELD_PROMISED, m->promised.cluster);
    if (m->state == MACHINE_IDLE)
        pack_u64(pack, FIELD_IDLE, mono_elapsed_ms(facts->idle_since, now));
    pack_rest(pack, facts);
    pack_u64(pack, FIELD_OPERATOR_DRAINS, facts->operator_drains);
    pack_u64(pack, FIELD_OPERATOR_AWAY, facts->operator_away);
    pack_u64(pack, FIELD_OPERATOR_LEFT, facts->operator_left_ms);
    pack_u64(pack, FIELD_OUTSIDE, facts->outside);
}

static void facts_run(struct decide_job *job, struct decide_context *context, struct effects *)
{
    struct machine_question *q = CONTAINER_OF(job, struct machine_question, job);
    struct machine_facts facts;

    q->err = core_machine(context->core, id_of(q), context->now, &facts);
    q->pack = pack_begin(&q->answer);
    pack_text(&q->pack, FIELD_SHARD, str_from(q->shard->id)); /* it never changes */
    pack_u64(&q->pack, FIELD_CYCLE, core_counts(context->core)->cycles);
    if (!q->err) pack_facts(&q->pack, &facts, context->now);
}

/* -- on the loop -- */

/* Our own lines, so the member stands as we write it. An id that JSON has to escape finds none. */
static bool is_about(struct str line, struct str id)
{
    static const char member[] = "\"machine\":\"";
    const char *at = memmem(line.at, line.len, member, sizeof member - 1);
    struct str rest;

    if (!at) return false;
    rest = str_tail(line, (size_t)(at - line.at) + sizeof member - 1);
    return rest.len > id.len && memcmp(rest.at, id.at, id.len) == 0 && rest.at[id.len] == '"';
}

static void reply(struct machine_question *q)
{
    const struct audit *audit = q->shard->audit;

    if (q->err == ERR_NOT_FOUND) {
        rpc_finish(q->call, GRPC_NOT_FOUND, STR("the shard knows no such machine"), STR_EMPTY);
        return;
    }
    for (size_t i = 0; i < audit_kept(audit) && !q->err; i++)
        if (is_about(audit_line(audit, i), id_of(q)))
            pack_bytes(&q->pack, FIELD_AUDIT, audit_line(audit, i));
    if (q->err || q->pack.err)
        rpc_fail(q->call, q->err ? q->err : q->pack.err, NULL);
    else
        rpc_reply_bytes(q->call, buf_peek(&q->answer));
}

static void job_done(struct decide_job *job, enum err err)
{
    struct machine_question *q = CONTAINER_OF(job, struct machine_question, job);

    q->job_over = true;
    if (err) q->err = err;
    if (q->call)
        reply(q); /* on_done frees it */
    else
        question_free(q);
}

static void on_message(void *service, struct rpc_call *call, const ProtobufCMessage *message,
                       struct str)
{
    const Muster__V1__ShardMachineRequest *request = (const void *)message;
    size_t len = strlen(request->machine_id);
    struct machine_question *q = calloc(1, sizeof *q + len);

    rpc_call_set_data(call, q);
    if (!q) {
        rpc_fail(call, ERR_NOMEM, NULL);
        return;
    }
    memcpy(q->id, request->machine_id, len);
    q->id_len = len;
    q->shard = service;
    q->call = call;
    buf_init(&q->answer, ANSWER_BYTES_MAX);
    q->job = (struct decide_job){.run = facts_run, .done = job_done};
    rpc_call_waits(call);
    decide_thread_submit(q->shard->decide_thread, &q->job);
}

static void on_done(void *, struct rpc_call *call)
{
    struct machine_question *q = rpc_call_data(call);

    if (!q) return;
    q->call = NULL;
    if (q->job_over) question_free(q);
}

enum err machine_view_serve(struct shard *shard, struct rpc_server *server, struct note *note)
{
    static const struct rpc_handler handler = {.on_message = on_message, .on_done = on_done};

    return rpc_server_add(server,
                          &(struct rpc_method){
                              .path = "/muster.v1.ShardView/Machine",
                              .kind = RPC_UNARY,
                              .input = &muster__v1__shard_machine_request__descriptor,
                              .handler = &handler,
                              .service = shard,
                          },
                          note);
}
